//! How a rate comes back, beside others, to what it was before it fell.
//!
//! A packet per round trip in each round trip is nothing where round trips are long: at 100 Mb/s
//! with 300 ms of queue, what a fall takes comes back in a minute. CUBIC, which most others are,
//! grows by the time since it fell (RFC 9438, section 4.2): fast at first, slowly near the window
//! at which it lost, and then faster and faster. So does this rate, if that is faster than its
//! usual growth.
//!
//! CUBIC counts a window, which fills a queue as long as before when it has fallen; what comes
//! through falls less than the window does. A rate has no such help, nor such harm: the function
//! gives the rate that the window was at the round trip before the fall.

use core::time::Duration;

use groupcast_core::Time;

/// What the rate has been, and when it comes back to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regrowth {
    /// The rate before it fell, in packets per round trip and in bytes a second.
    window: f64,
    rate: f64,
    fell: Time,
    /// So many seconds later it is back.
    back_after: f64,
}

impl Regrowth {
    /// CUBIC's constant, in packets per cubic second.
    const C: f64 = 0.4;
    /// If it falls before it was back, somebody else needs the room: it comes back to this part
    /// (the fast convergence of section 4.7).
    const YIELDED: f64 = 0.85;
    /// It grows by no more than this part in an epoch.
    const GROWTH_MAX: f64 = 0.25;

    /// The rate has fallen from `rate` to `next`, with packets of so many bytes and a `round_trip`
    /// of so long. `before` is what it was coming back to.
    pub(super) fn after_fall(
        before: Option<Self>,
        [rate, next]: [f64; 2],
        packet: usize,
        round_trip: Duration,
        now: Time,
    ) -> Self {
        let packets = round_trip.as_secs_f64().max(1e-4) / packet as f64;
        let top = match before {
            Some(before) if rate < before.rate => rate * Self::YIELDED,
            _ => rate,
        };
        let lost = (top - next).max(0.0) * packets;
        Self {
            window: top * packets,
            rate: top,
            fell: now,
            back_after: libm::cbrt(lost / Self::C),
        }
    }

    /// What it comes to by now from `rate`, if that is more.
    pub(super) fn grown(&self, rate: f64, now: Time) -> f64 {
        let since = (now - self.fell).as_secs_f64() - self.back_after;
        let window = self.window + Self::C * since * since * since;
        let target = self.rate * window / self.window;
        target.min(rate * (1.0 + Self::GROWTH_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    /// 1,000 packets of 1,250 bytes per round trip: 12.5 MB/s.
    const RATE: f64 = 12.5e6;

    fn fallen(before: Option<Regrowth>, rate: f64) -> Regrowth {
        Regrowth::after_fall(before, [rate, 0.7 * rate], 1250, ROUND_TRIP, Time::ZERO)
    }

    fn after(regrowth: &Regrowth, seconds: f64) -> f64 {
        let now = Time::ZERO + Duration::from_secs_f64(seconds);
        regrowth.grown(RATE, now) / RATE
    }

    #[test]
    fn it_is_back_when_a_window_of_cubic_would_be() {
        // RFC 9438, figure 2: the cube root of (1,000 - 700) / 0.4.
        let fallen = fallen(None, RATE);
        assert!((after(&fallen, 9.0856) - 1.0).abs() < 1e-4);
        assert!((after(&fallen, 0.0) - 0.7).abs() < 1e-9);
        let half = after(&fallen, 4.5428);
        assert!((half - (1.0 - 0.3 / 8.0)).abs() < 1e-4, "{half}");
        // Later it looks for more, but never at once.
        assert!((1.03..1.05).contains(&after(&fallen, 13.6)));
        assert_eq!(after(&fallen, 1e4), 1.25);
    }

    #[test]
    fn it_comes_back_to_less_if_it_falls_on_the_way() {
        let first = fallen(None, RATE);
        let second = fallen(Some(first), 0.8 * RATE);
        assert!((second.rate / RATE - 0.8 * 0.85).abs() < 1e-9);
        // What fell from more than before comes back to all of it.
        let third = fallen(Some(second), 0.8 * RATE);
        assert!((third.rate / RATE - 0.8).abs() < 1e-9);
    }
}
