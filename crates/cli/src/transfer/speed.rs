//! The speed of a transfer and the time that it will still take, by the bytes moved in the last
//! seconds alone.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use indicatif::HumanDuration;

use super::amount;

/// The bytes that a transfer has moved in the last seconds.
#[derive(Debug, Default)]
pub(super) struct Speed {
    /// Samples of the time and the bytes moved in all until then, oldest first.
    samples: VecDeque<(Instant, u64)>,
}

impl Speed {
    /// The time over which the rate is measured.
    const WINDOW: Duration = Duration::from_secs(5);
    /// The shortest time that gives a rate.
    const MIN: Duration = Duration::from_millis(800);

    /// Notes that `bytes` have been moved in all by now. Bytes moved before the first call do not
    /// count.
    pub(super) fn moved(&mut self, now: Instant, bytes: u64) {
        // One sample older than the window stays, so that the samples span the window.
        let is_old = |second: &(Instant, u64)| now - second.0 >= Self::WINDOW;
        while self.samples.get(1).is_some_and(is_old) {
            self.samples.pop_front();
        }
        self.samples.push_back((now, bytes));
    }

    /// Bytes a second, once known.
    fn rate(&self) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let took = last.0 - first.0;
        let bytes = last.1.saturating_sub(first.1);
        (took >= Self::MIN).then(|| bytes as f64 / took.as_secs_f64())
    }

    /// The rate and the time for the bytes that are `left`, in words; empty while the rate is not
    /// known.
    pub(super) fn describe(&self, left: Option<u64>) -> String {
        let Some(rate) = self.rate() else {
            return String::new();
        };
        let speed = format!("{}/s", amount(rate as u64));
        match left {
            Some(left @ 1..) if rate >= 1.0 => {
                let seconds = (left as f64 / rate).min(1e9);
                let time = HumanDuration(Duration::from_secs_f64(seconds));
                format!("{speed}, {time} left")
            }
            _ => speed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// What is said after each of `samples`: tenths of a second, and MiB moved in all.
    fn said(samples: &[(u64, u64)], left: Option<u64>) -> Vec<String> {
        let start = Instant::now();
        let mut speed = Speed::default();
        let say = |(tenths, bytes): &(u64, u64)| {
            speed.moved(start + Duration::from_millis(tenths * 100), bytes * MIB);
            speed.describe(left)
        };
        samples.iter().map(say).collect()
    }

    #[test]
    fn what_was_there_before_does_not_count_and_nothing_is_said_at_once() {
        let said = said(
            &[(0, 400_000), (1, 400_001), (10, 400_010)],
            Some(100 * MIB),
        );
        assert_eq!(said, ["", "", "10.00 MiB/s, 10 seconds left"]);
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let samples: Vec<(u64, u64)> = (0..200).map(|at| (at, at.min(100))).collect();
        let said = said(&samples, None);
        assert_eq!(said[100], "10.00 MiB/s");
        assert_eq!(said[199], "0 B/s", "it stands");
    }
}
