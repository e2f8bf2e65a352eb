//! A summary of many durations: their number, exact moments, a fine histogram for quantiles and a
//! coarse one for plots.

use std::time::Duration;

use serde::Serialize;
use serde::ser::{SerializeStruct as _, Serializer};

use super::histogram::{Bins, Histogram};

/// Quantiles are right to 1 part in 256: half the width of these bins.
const FINE: Bins = Bins::Log { bits: 7 };

/// Durations of one sort, summed up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distribution {
    fine: Histogram,
    coarse: Histogram,
    min: u64,
    max: u64,
    sum: u128,
    squares: u128,
}

impl Distribution {
    /// An empty one, to be drawn with `bins` of nanoseconds.
    pub fn new(bins: Bins) -> Self {
        Self {
            fine: Histogram::new(FINE),
            coarse: Histogram::new(bins),
            min: u64::MAX,
            max: 0,
            sum: 0,
            squares: 0,
        }
    }

    /// Adds one value.
    #[inline]
    pub fn record(&mut self, duration: Duration) {
        let nanos = duration.as_nanos() as u64;
        self.fine.record(nanos);
        self.coarse.record(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
        self.sum += u128::from(nanos);
        self.squares += u128::from(nanos) * u128::from(nanos);
    }

    /// All of `other` too.
    ///
    /// # Panics
    /// If they are drawn with different bins.
    pub fn merge(&mut self, other: &Self) {
        self.fine.merge(&other.fine);
        self.coarse.merge(&other.coarse);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.fine.count()
    }

    /// Their mean in seconds.
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64 / 1e9)
    }

    /// Their standard deviation in seconds (of all of them: divided by their number).
    pub fn deviation(&self) -> Option<f64> {
        let count = u128::from(self.count());
        (count > 0).then(|| {
            // In whole numbers while they fit: the difference of two near squares loses its digits
            // in floats.
            let exact = (self.squares.checked_mul(count))
                .zip(self.sum.checked_mul(self.sum))
                .map(|(squares, square)| squares.saturating_sub(square) as f64);
            let spread = exact.unwrap_or_else(|| {
                (self.squares as f64 * count as f64 - (self.sum as f64).powi(2)).max(0.0)
            });
            spread.sqrt() / count as f64 / 1e9
        })
    }

    /// The least, in seconds.
    pub fn min(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.min as f64 / 1e9)
    }

    /// The greatest, in seconds.
    pub fn max(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.max as f64 / 1e9)
    }

    /// What a share `q` (0 to 1) of them do not exceed, in seconds, to 1 part in 256.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let nanos = self.fine.quantile(q)?.clamp(self.min, self.max);
        Some(nanos as f64 / 1e9)
    }

    /// The share (0 to 1) of those from `low` up to, but not with, `high`. To 1 part in 128 of the
    /// bounds.
    pub fn share(&self, low: Duration, high: Duration) -> Option<f64> {
        let inside = self
            .fine
            .between(low.as_nanos() as u64, high.as_nanos() as u64);
        (self.count() > 0).then(|| inside / self.count() as f64)
    }

    /// The histogram to be drawn, in nanoseconds.
    pub fn histogram(&self) -> &Histogram {
        &self.coarse
    }

    /// The histogram behind the quantiles, in nanoseconds.
    pub fn fine(&self) -> &Histogram {
        &self.fine
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Distribution", 9)?;
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("mean_s", &self.mean())?;
        fields.serialize_field("deviation_s", &self.deviation())?;
        fields.serialize_field("min_s", &self.min())?;
        for (name, q) in [("p50_s", 0.5), ("p90_s", 0.9), ("p99_s", 0.99)] {
            fields.serialize_field(name, &self.quantile(q))?;
        }
        fields.serialize_field("max_s", &self.max())?;
        fields.serialize_field("bins", &self.coarse)?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(millis: impl IntoIterator<Item = u64>) -> Distribution {
        let mut distribution = Distribution::new(Bins::linear(1_000_000_000, 10));
        for millis in millis {
            distribution.record(Duration::from_millis(millis));
        }
        distribution
    }

    #[test]
    fn the_moments_of_the_first_hundred_numbers() {
        let distribution = of(1..=100);
        assert_eq!(distribution.mean(), Some(0.0505));
        // (n² − 1) / 12
        let deviation = (9_999.0f64 / 12.0).sqrt() / 1e3;
        assert!((distribution.deviation().unwrap() - deviation).abs() < 1e-12);
        assert_eq!(distribution.min(), Some(0.001));
        assert_eq!(distribution.max(), Some(0.1));
        assert!((distribution.quantile(0.5).unwrap() - 0.050).abs() < 0.050 / 128.0);
        let share = distribution.share(Duration::from_millis(20), Duration::from_millis(40));
        assert!((share.unwrap() - 0.20).abs() < 0.01);
    }

    #[test]
    fn equal_values_have_no_spread_and_exact_quantiles() {
        let distribution = of([7; 1_000]);
        assert_eq!(distribution.deviation(), Some(0.0));
        assert_eq!(distribution.quantile(0.5), Some(0.007));
        assert_eq!(distribution.quantile(1.0), Some(0.007));
    }

    #[test]
    fn nothing_has_no_mean_and_merges_without_a_trace() {
        let mut distribution = of([3, 4]);
        let before = distribution.clone();
        distribution.merge(&of([]));
        assert_eq!(distribution, before);
        assert_eq!(of([]).mean(), None);
        assert_eq!(of([]).max(), None);
        distribution.merge(&of([5]));
        assert_eq!(distribution, of([3, 4, 5]));
    }
}
