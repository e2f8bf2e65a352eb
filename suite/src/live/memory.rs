//! Whether the memory of a daemon is flat: sampled at times when the same is under way.

use crate::live::Outcome;

/// This many samples at least are needed for a judgement.
const JUDGED_FROM: usize = 6;

/// Resident memory, sample after sample, in bytes.
#[derive(Default)]
pub struct Memory {
    samples: Vec<u64>,
}

impl Memory {
    /// How much more than in the first third of the samples there may be in the last one, in bytes.
    pub const GROWTH_MAX: u64 = 8 << 20;

    /// Adds one.
    pub fn sample(&mut self, resident: u64) {
        self.samples.push(resident);
    }

    /// The newest; 0 without any.
    pub fn last(&self) -> u64 {
        self.samples.last().copied().unwrap_or_default()
    }

    /// The most in the first and in the last third; an error if it grew. A run of a few samples
    /// is not judged.
    pub fn judge(&self) -> Outcome<(u64, u64)> {
        let (first, last) = self.extremes();
        if self.samples.len() >= JUDGED_FROM && last > first + Self::GROWTH_MAX {
            let samples = &self.samples;
            return Err(format!("memory grew from {first} to {last} bytes: {samples:?}").into());
        }
        Ok((first, last))
    }

    /// The most in the first and in the last third.
    pub fn extremes(&self) -> (u64, u64) {
        let third = self.samples.len().div_ceil(3);
        let most = |samples: &[u64]| samples.iter().max().copied().unwrap_or_default();
        let first = most(&self.samples[..third]);
        let last = most(&self.samples[self.samples.len() - third..]);
        (first, last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_seen_and_peaks_on_the_way_are_not_growth() {
        let of = |samples: &[u64]| Memory {
            samples: samples.to_vec(),
        };
        const MB: u64 = 1_000_000;
        let flat = of(&[20 * MB, 25 * MB, 90 * MB, 24 * MB, 21 * MB, 26 * MB]);
        assert_eq!(flat.judge().unwrap(), (25 * MB, 26 * MB));
        let grown = of(&[20 * MB, 25 * MB, 30 * MB, 35 * MB, 40 * MB, 45 * MB]);
        assert!(grown.judge().is_err());
        assert!(of(&[MB, 90 * MB]).judge().is_ok());
    }
}
