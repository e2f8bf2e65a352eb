//! A smoothed duration with its mean deviation (Jacobson 1988; RFC 6298 weights), for time-outs that adapt.

use core::time::Duration;

/// Running estimate of a duration that is sampled again and again: a round trip, a rotation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Estimate {
    mean: Duration,
    deviation: Duration,
    samples: u64,
}

impl Estimate {
    /// Takes a sample: mean += (sample - mean) / 8, deviation += (|sample - mean| - deviation) / 4.
    pub fn sample(&mut self, sample: Duration) {
        if self.samples == 0 {
            self.mean = sample;
            self.deviation = sample / 2;
        } else {
            let error = sample.abs_diff(self.mean);
            self.deviation = (self.deviation * 3 + error) / 4;
            self.mean = (self.mean * 7 + sample) / 8;
        }
        self.samples += 1;
    }

    /// The smoothed duration; zero before the first sample.
    pub fn mean(&self) -> Duration {
        self.mean
    }

    /// The smoothed deviation from the mean.
    pub fn deviation(&self) -> Duration {
        self.deviation
    }

    /// mean + 4 × deviation: what few samples exceed.
    pub fn upper(&self) -> Duration {
        self.mean + self.deviation * 4
    }

    /// How many samples were taken.
    pub fn samples(&self) -> u64 {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_duration_is_found_and_its_deviation_fades() {
        let mut estimate = Estimate::default();
        for _ in 0..50 {
            estimate.sample(Duration::from_micros(800));
        }
        assert_eq!(estimate.mean(), Duration::from_micros(800));
        assert!(
            estimate.upper() < Duration::from_micros(810),
            "{:?}",
            estimate.upper()
        );
    }

    #[test]
    fn a_jump_widens_the_upper_bound_at_once() {
        let mut estimate = Estimate::default();
        for _ in 0..50 {
            estimate.sample(Duration::from_micros(100));
        }
        estimate.sample(Duration::from_millis(10));
        assert!(estimate.upper() > Duration::from_millis(10));
    }
}
