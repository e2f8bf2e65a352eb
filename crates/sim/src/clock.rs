//! A host's own clock: it starts with the process, and runs at its own rate.

use groupcast_core::Time;

/// How fast a clock runs against the world's time.
///
/// Kept as a binary fraction of 32 bits, so that conversions are exact, cheap and never go back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockRate(u64);

impl ClockRate {
    /// As fast as the world's time.
    pub const TRUE: Self = Self(1 << 32);

    /// Too fast by `ppm` parts in a million (too slow if negative).
    ///
    /// # Panics
    /// Beyond half or double speed: no clock is that wrong.
    pub fn off_by_ppm(ppm: i64) -> Self {
        assert!(
            (-500_000..=1_000_000).contains(&ppm),
            "a clock off by {ppm} ppm is broken, not slow"
        );
        Self(((1_000_000 + ppm) as u64 * (1 << 32)) / 1_000_000)
    }
}

impl Default for ClockRate {
    fn default() -> Self {
        Self::TRUE
    }
}

/// The clock of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    rate: ClockRate,
    /// A moment on both scales.
    world: Time,
    local: Time,
}

impl Clock {
    /// The clock of a process that starts at `born`.
    pub(crate) fn new(born: Time, rate: ClockRate) -> Self {
        Self {
            rate,
            world: born,
            local: Time::ZERO,
        }
    }

    /// What the clock shows at `world`, which is not before its start.
    pub(crate) fn local(&self, world: Time) -> Time {
        let elapsed = world.as_nanos().saturating_sub(self.world.as_nanos());
        let passed = (u128::from(elapsed) * u128::from(self.rate.0)) >> 32;
        Time::from_nanos(self.local.as_nanos().saturating_add(passed as u64))
    }

    /// The first moment at which the clock shows `local` or more.
    pub(crate) fn world(&self, local: Time) -> Time {
        let ahead = local.as_nanos().saturating_sub(self.local.as_nanos());
        let elapsed = (u128::from(ahead) << 32).div_ceil(u128::from(self.rate.0));
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        Time::from_nanos(self.world.as_nanos().saturating_add(elapsed))
    }

    /// Runs at `rate` from `world` on.
    pub(crate) fn set_rate(&mut self, world: Time, rate: ClockRate) {
        *self = Self {
            rate,
            world,
            local: self.local(world),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_comes_at_the_first_moment_at_which_it_is_due() {
        for ppm in [-100_000, -3, 0, 7, 1_000, 100_000] {
            let clock = Clock::new(Time::from_nanos(12_345), ClockRate::off_by_ppm(ppm));
            for local in [0, 1, 2, 999_999, 1_000_000_007] {
                let local = Time::from_nanos(local);
                let world = clock.world(local);
                assert!(clock.local(world) >= local, "{ppm} ppm, {local:?}");
                let before = Time::from_nanos(world.as_nanos() - 1);
                assert!(local == Time::ZERO || clock.local(before) < local);
            }
        }
    }

    #[test]
    fn a_change_of_rate_does_not_move_the_hands() {
        let mut clock = Clock::new(Time::ZERO, ClockRate::off_by_ppm(100_000));
        let then = Time::from_millis(1_000);
        assert_eq!(clock.local(then).as_nanos() / 1_000, 1_099_999);
        let shown = clock.local(then);
        clock.set_rate(then, ClockRate::off_by_ppm(-100_000));
        assert_eq!(clock.local(then), shown);
        let later = clock.local(Time::from_millis(2_000)) - shown;
        assert_eq!(later.as_micros(), 899_999);
    }

    #[test]
    fn never_is_never() {
        let clock = Clock::new(Time::from_millis(5), ClockRate::off_by_ppm(100_000));
        assert!(clock.world(Time::MAX) > Time::from_millis(1_000_000_000));
    }
}
