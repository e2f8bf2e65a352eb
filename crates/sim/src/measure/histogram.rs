//! Histograms of whole numbers (nanoseconds, mostly) with fixed bins, linear or logarithmic.
//!
//! Only the stretch between the lowest and the highest bin in use takes memory, so that thousands
//! of hosts can have some each.

use serde::ser::{Serialize, SerializeSeq as _, Serializer};

/// How values are sorted into bins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bins {
    /// `count` bins, each `width` wide, from 0. What is higher counts in the last.
    Linear {
        /// At least 1.
        width: u64,
        /// At least 1.
        count: u32,
    },
    /// Each power of two is split into 2^`bits` bins: a relative width of at most 2^-`bits`. Values
    /// below 2^`bits` have bins of their own.
    Log {
        /// 0 to 16.
        bits: u32,
    },
}

impl Bins {
    /// `count` equal bins from 0 to `max`, rounded up to whole numbers.
    pub fn linear(max: u64, count: u32) -> Self {
        let count = count.max(1);
        Self::Linear {
            width: max.div_ceil(u64::from(count)).max(1),
            count,
        }
    }

    /// The bin of `value`.
    #[inline]
    pub fn index(self, value: u64) -> u32 {
        match self {
            Self::Linear { width, count } => (value / width).min(u64::from(count) - 1) as u32,
            Self::Log { bits } => {
                let shift = (63 - (value | 1).leading_zeros()).saturating_sub(bits);
                // Without the shift the top bit of `value >> shift` counts one power of two by
                // itself.
                (shift << bits) + (value >> shift) as u32
            }
        }
    }

    /// The lowest value of a bin, and the lowest beyond it. The last linear bin also holds all that
    /// is higher.
    pub fn bounds(self, index: u32) -> (u64, u64) {
        match self {
            Self::Linear { width, .. } => {
                let low = u64::from(index) * width;
                (low, low + width)
            }
            Self::Log { bits } => {
                let shift = (index >> bits).saturating_sub(1);
                let mantissa = u64::from(index - (shift << bits));
                let low = mantissa << shift;
                (low, low.saturating_add(1 << shift))
            }
        }
    }
}

/// Counts by bin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    bins: Bins,
    /// The bin of `counts[0]`.
    first: u32,
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// An empty one.
    ///
    /// # Panics
    /// If the bins have no width, are none, or are finer than 2^-16.
    pub fn new(bins: Bins) -> Self {
        let sound = match bins {
            Bins::Linear { width, count } => width > 0 && count > 0,
            Bins::Log { bits } => bits <= 16,
        };
        assert!(sound, "no histogram has the bins {bins:?}");
        Self {
            bins,
            first: 0,
            counts: Vec::new(),
            total: 0,
        }
    }

    /// Adds one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.add(self.bins.index(value), 1);
    }

    /// All of `other` too.
    ///
    /// # Panics
    /// If the bins differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(
            self.bins, other.bins,
            "histograms of different bins do not add up"
        );
        for (index, count) in other.counted() {
            self.add(index, count);
        }
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// How values are sorted into bins.
    pub fn bins(&self) -> Bins {
        self.bins
    }

    /// Bins that are not empty, in ascending order: lowest value, lowest value beyond, count.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.counted().map(|(index, count)| {
            let (low, high) = self.bins.bounds(index);
            (low, high, count)
        })
    }

    /// The value that a share `q` (0 to 1) of all do not exceed, by nearest rank and as exact as
    /// the bins: the middle of the bin that holds it. `None` if there are none.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        // The rank is exact below 2^53 values.
        let rank = ((q.clamp(0.0, 1.0) * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.iter().find_map(|(low, high, count)| {
            seen += count;
            (seen >= rank).then_some(low + (high - low) / 2)
        })
    }

    /// How many values are in `[low, high)`. A bin that the range cuts counts by the part inside,
    /// so the answer is exact only at the bins' own bounds.
    pub fn between(&self, low: u64, high: u64) -> f64 {
        self.iter()
            .map(|(from, to, count)| {
                let inside = high.min(to).saturating_sub(low.max(from));
                count as f64 * inside as f64 / (to - from) as f64
            })
            .sum()
    }

    fn counted(&self) -> impl Iterator<Item = (u32, u64)> {
        (self.first..)
            .zip(self.counts.iter().copied())
            .filter(|(_, count)| *count > 0)
    }

    #[inline]
    fn add(&mut self, index: u32, count: u64) {
        self.total += count;
        match self.counts.get_mut(index.wrapping_sub(self.first) as usize) {
            Some(bin) => *bin += count,
            None => self.widen(index, count),
        }
    }

    #[cold]
    fn widen(&mut self, index: u32, count: u64) {
        if self.counts.is_empty() {
            self.first = index;
        } else if index < self.first {
            let missing = (self.first - index) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = index;
        }
        let at = (index - self.first) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += count;
    }
}

/// As `[low, high, count]` in seconds, empty bins left out: the values of a histogram that is
/// written are nanoseconds.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for (low, high, count) in self.iter() {
            list.serialize_element(&(low as f64 / 1e9, high as f64 / 1e9, count))?;
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Rng;

    use super::*;

    #[test]
    fn every_value_is_within_the_bounds_of_its_bin_and_bins_leave_no_gap() {
        for bits in [0, 3, 7, 16] {
            let bins = Bins::Log { bits };
            let near = (0..64).flat_map(|shift| {
                let power = 1u64 << shift;
                [power - 1, power, power + 1, power + power / 3]
            });
            for value in near.chain([u64::MAX]) {
                let index = bins.index(value);
                let (low, high) = bins.bounds(index);
                assert!(
                    low <= value && (value < high || high == u64::MAX),
                    "{bits} {value}"
                );
                assert!(
                    high - low <= (low >> bits).max(1),
                    "{bits} {value}: too wide"
                );
                if high < u64::MAX {
                    assert_eq!(bins.index(high), index + 1, "{bits} {value}");
                }
            }
        }
    }

    #[test]
    fn linear_bins_keep_what_is_too_high_in_the_last() {
        let mut histogram = Histogram::new(Bins::linear(1_000, 10));
        for value in [0, 99, 100, 950, 5_000] {
            histogram.record(value);
        }
        let list: Vec<_> = histogram.iter().collect();
        assert_eq!(list, [(0, 100, 2), (100, 200, 1), (900, 1_000, 2)]);
        assert_eq!(histogram.between(0, 150), 2.5);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values_but_for_the_width_of_a_bin() {
        let mut rng = Rng::new(5);
        let mut histogram = Histogram::new(Bins::Log { bits: 7 });
        let mut values: Vec<u64> = (0..10_000)
            .map(|_| {
                let width = rng.below(40);
                rng.below(1 << width)
            })
            .collect();
        values.iter().for_each(|value| histogram.record(*value));
        values.sort_unstable();
        for q in [0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.9999, 1.0] {
            let rank = ((q * 10_000.0f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            let found = histogram.quantile(q).unwrap() as f64;
            assert!(
                (found - exact).abs() <= exact / 128.0,
                "{q}: {found}, not {exact}"
            );
        }
        assert_eq!(Histogram::new(Bins::Log { bits: 7 }).quantile(0.5), None);
    }

    #[test]
    fn merging_is_recording_both() {
        let mut rng = Rng::new(6);
        let bins = Bins::linear(500, 20);
        let (mut a, mut b, mut both) = (
            Histogram::new(bins),
            Histogram::new(bins),
            Histogram::new(bins),
        );
        for round in 0..1_000 {
            let value = rng.below(600);
            if round % 3 == 0 { &mut a } else { &mut b }.record(value);
            both.record(value);
        }
        a.merge(&b);
        assert_eq!(
            a.iter().collect::<Vec<_>>(),
            both.iter().collect::<Vec<_>>()
        );
        assert_eq!(a.count(), 1_000);
    }

    #[test]
    fn only_the_stretch_in_use_takes_memory() {
        let mut histogram = Histogram::new(Bins::Log { bits: 7 });
        for value in [50_000_000, 51_000_000, 49_000_000] {
            histogram.record(value);
        }
        assert!(histogram.counts.len() < 16, "{}", histogram.counts.len());
    }
}
