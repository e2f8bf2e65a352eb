//! How often something may be done: this many times a second, and a few times at once after a
//! pause.
//!
//! A token bucket, kept as the time at which it is full again (the "generic cell rate algorithm"
//! of ATM Forum's TM 4.0, 4.4.3): it needs no timer and no memory beyond one time.

use core::time::Duration;

use crate::time::Time;

/// A token bucket.
#[derive(Clone, Copy, Hash, Debug)]
pub struct Allowance {
    /// What one costs.
    interval: Duration,
    /// What may be owed at most.
    debt_max: Duration,
    /// When nothing is owed any more.
    paid: Time,
}

impl Allowance {
    /// `rate` a second in the long run, at most 10^9, and `burst` at once after a pause. Nothing if
    /// either is 0.
    pub const fn per_second(rate: u32, burst: u32) -> Self {
        let nanos = match rate {
            0 => 0,
            rate if rate > 1_000_000_000 => 1,
            rate => 1_000_000_000 / rate as u64,
        };
        let count = if rate == 0 { 0 } else { burst };
        Self {
            interval: Duration::from_nanos(nanos),
            debt_max: Duration::from_nanos(nanos.saturating_mul(count as u64)),
            paid: Time::ZERO,
        }
    }

    /// Takes one, if one is left at `now`.
    pub fn take(&mut self, now: Time) -> bool {
        let paid = self.paid.max(now) + self.interval;
        let allowed = !self.debt_max.is_zero() && paid - now <= self.debt_max;
        if allowed {
            self.paid = paid;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(allowance: &mut Allowance, now: Time, tries: u32) -> u32 {
        (0..tries).map(|_| u32::from(allowance.take(now))).sum()
    }

    #[test]
    fn a_burst_after_a_pause_and_the_rate_in_the_long_run() {
        let mut allowance = Allowance::per_second(100, 20);
        assert_eq!(taken(&mut allowance, Time::ZERO, 1_000), 20);
        let each = (1..=10_000).map(|ms| taken(&mut allowance, Time::from_millis(ms), 3));
        assert_eq!(each.sum::<u32>(), 1_000);
        assert_eq!(taken(&mut allowance, Time::from_millis(60_000), 1_000), 20);
    }

    #[test]
    fn a_rate_beyond_the_resolution_of_time_is_not_none() {
        let mut allowance = Allowance::per_second(u32::MAX, 3);
        assert_eq!(taken(&mut allowance, Time::ZERO, 10), 3);
    }

    #[test]
    fn a_rate_or_a_burst_of_zero_allows_nothing() {
        for (rate, burst) in [(0, 5), (5, 0), (0, 0)] {
            let mut allowance = Allowance::per_second(rate, burst);
            assert_eq!(taken(&mut allowance, Time::from_millis(99_000), 10), 0);
        }
    }
}
