//! The machine's monotonic clock: one for all processes on all hosts of a test bed.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Nanoseconds since the machine started.
pub type Instant = u64;

/// This machine's monotonic clock.
pub fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    // Both are positive on a monotonic clock, and 64 bits of nanoseconds are 584 years.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A span in nanoseconds.
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Sleeps until `instant`; not at all if it is past.
pub fn sleep_until(instant: Instant) {
    std::thread::sleep(Duration::from_nanos(instant.saturating_sub(now())));
}

/// When a measurement counts: from the end of the warm-up to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// The first instant that counts.
    pub from: Instant,
    /// The first that counts no more.
    pub until: Instant,
}

impl Window {
    /// A window of `length` that opens after `warm_up`.
    pub fn after(warm_up: Duration, length: Duration) -> Self {
        let from = now() + nanos(warm_up);
        Self {
            from,
            until: from + nanos(length),
        }
    }

    /// Whether `instant` counts.
    pub fn contains(&self, instant: Instant) -> bool {
        (self.from..self.until).contains(&instant)
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        (self.until - self.from) as f64 / 1e9
    }

    /// `bytes` within it, as megabits (10^6 bits) a second.
    pub fn mbps(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / 1e6 / self.seconds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_from_its_beginning_to_before_its_end() {
        let window = Window {
            from: 10,
            until: 2_000_000_010,
        };
        assert!(!window.contains(9) && window.contains(10));
        assert!(!window.contains(2_000_000_010));
        assert!((window.mbps(1_000_000) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn the_clock_advances_and_sleeping_reaches_the_instant() {
        let then = now() + nanos(Duration::from_millis(2));
        sleep_until(then);
        assert!(now() >= then);
    }
}
