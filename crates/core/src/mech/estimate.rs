//! Durations that are sampled again and again, for time-outs that adapt: a smoothed mean with its
//! deviation (Jacobson 1988; RFC 6298 weights), and the shortest of the last few.

use core::time::Duration;

/// Running estimate of a duration that is sampled again and again: a round trip, a rotation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
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

/// The shortest of the last 32 samples: what a duration is when nothing goes wrong, as long as
/// nothing does once in a while. Unlike a mean it does not grow with the time-outs that are derived
/// from it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Shortest {
    samples: [Duration; Self::KEPT],
    /// How many were taken.
    taken: usize,
}

impl Shortest {
    const KEPT: usize = 32;

    /// Takes a sample; the oldest is forgotten.
    pub fn sample(&mut self, sample: Duration) {
        self.samples[self.taken % Self::KEPT] = sample;
        self.taken += 1;
    }

    /// The shortest; zero before the first sample. Looks at all that are kept.
    pub fn value(&self) -> Duration {
        let kept = &self.samples[..self.taken.min(Self::KEPT)];
        kept.iter().copied().min().unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_is_found_among_the_last_and_forgotten_with_its_time() {
        let mut shortest = Shortest::default();
        assert_eq!(shortest.value(), Duration::ZERO);
        shortest.sample(Duration::from_micros(90));
        for _ in 1..Shortest::KEPT {
            shortest.sample(Duration::from_millis(7));
        }
        assert_eq!(shortest.value(), Duration::from_micros(90));
        shortest.sample(Duration::from_millis(8));
        assert_eq!(shortest.value(), Duration::from_millis(7));
    }

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
