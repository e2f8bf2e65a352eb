//! The timers that adapt (000 ch. 8 (1) and (4)): of packets, of token passes and of requests.

use core::time::Duration;

use groupcast_core::mech::estimate::Estimate;

use super::config::RmpConfig;

/// A timer before anything was measured is this many times the shortest.
const UNMEASURED: u32 = 3;
/// Where round trips take as long as the longest timer, timers are up to this many times that.
const SLOW: u32 = 2;
/// What is missing is asked for again after two round trips, but not before this part of the
/// shortest timer: so that an honest member never wants more than one that answers gives in a round
/// trip.
const REQUEST_PART: u32 = 2;

/// What round trips take, of what is timed.
#[derive(Clone, Copy, Hash, Default, Debug)]
pub(super) struct Timing {
    /// From a packet to its ACK by another member.
    data: Trips,
    /// From an ACK to the sign that the token was taken.
    pass: Trips,
}

/// How long one class of what is timed takes.
#[derive(Clone, Copy, Hash, Default, Debug)]
struct Trips {
    estimate: Estimate,
    /// How many times its timer expired since it was measured last.
    backoff: u32,
}

impl Trips {
    fn sample(&mut self, trip: Duration) {
        self.estimate.sample(trip);
        self.backoff = 0;
    }

    /// How long to wait for what has been waited for `expired` times in vain. A timer that was too
    /// short stays doubled until something was measured (Karn 1987), where 000 resets it with the
    /// next ACK. As long as nothing was measured, `other` tells how long it may take.
    fn timer(&self, other: &Self, config: &RmpConfig, expired: u32) -> Duration {
        let (min, max) = (config.timer_min, config.timer_max);
        let estimate = match self.estimate.samples() {
            0 => &other.estimate,
            _ => &self.estimate,
        };
        let first = match estimate.samples() {
            0 => min * UNMEASURED,
            _ => estimate.upper().max(min) + config.confirm_after,
        };
        let doubled = first * (1 << expired.max(self.backoff).min(16));
        // The longer limit is for the first wait: what is sent again then may be lost again.
        let slow = if expired == 0 { SLOW } else { 1 };
        doubled.min(max.max(first.min(max * slow)))
    }
}

impl Timing {
    /// A new configuration: what failed in the old one tells nothing of this.
    pub(super) fn restart(&mut self) {
        self.data.backoff = 0;
        self.pass.backoff = 0;
    }

    /// From a packet to its ACK by another member it took `trip`. Not to be called where something
    /// was sent again: it is not known what was answered.
    pub(super) fn measured(&mut self, trip: Duration) {
        self.data.sample(trip);
    }

    /// From an ACK to the sign that the token was taken it took `trip`, likewise.
    pub(super) fn pass_measured(&mut self, trip: Duration) {
        self.pass.sample(trip);
    }

    /// A packet's timer has expired.
    pub(super) fn expired(&mut self) {
        self.data.backoff += 1;
    }

    /// A token pass's timer has expired.
    pub(super) fn pass_expired(&mut self) {
        self.pass.backoff += 1;
    }

    /// The smoothed round trip: of packets; of token passes as long as there were none.
    pub(super) fn trip(&self) -> Duration {
        match self.data.estimate.samples() {
            0 => self.pass.estimate.mean(),
            _ => self.data.estimate.mean(),
        }
    }

    /// How long to wait for the ACK of a packet that has been waited for `expired` times in vain.
    pub(super) fn data_timer(&self, config: &RmpConfig, expired: u32) -> Duration {
        self.data.timer(&self.pass, config, expired)
    }

    /// The same for the sign that the token was taken.
    pub(super) fn pass_timer(&self, config: &RmpConfig, expired: u32) -> Duration {
        self.pass.timer(&self.data, config, expired)
    }

    /// The same for the answer to a request, which waits for no token.
    pub(super) fn request_timer(&self, config: &RmpConfig, expired: u32) -> Duration {
        let trip = self.trip();
        let first = match trip.is_zero() {
            true => config.timer_min,
            false => (trip * 2).max(config.timer_min / REQUEST_PART),
        };
        (first * (1 << expired.min(16))).min(config.timer_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(1);

    #[test]
    fn a_timer_doubles_up_to_its_limit() {
        let config = RmpConfig::lan();
        let mut timing = Timing::default();
        assert_eq!(timing.data_timer(&config, 0), config.timer_min * UNMEASURED);
        for _ in 0..50 {
            timing.measured(TRIP);
        }
        let first = timing.data_timer(&config, 0);
        assert_eq!(first, config.timer_min + config.confirm_after);
        assert_eq!(timing.data_timer(&config, 1), first * 2);
        assert_eq!(timing.data_timer(&config, 30), config.timer_max);
        assert_eq!(
            timing.pass_timer(&config, 0),
            first,
            "nothing else is known"
        );
    }

    #[test]
    fn a_timer_that_was_too_short_stays_doubled_until_a_trip_is_measured() {
        let config = RmpConfig::lan();
        let mut timing = Timing::default();
        timing.measured(TRIP);
        let first = timing.data_timer(&config, 0);
        timing.expired();
        timing.expired();
        assert_eq!(timing.data_timer(&config, 0), first * 4);
        assert_eq!(
            timing.pass_timer(&config, 0),
            first,
            "it is of another class"
        );
        timing.measured(TRIP);
        assert!(timing.data_timer(&config, 0) <= first);
    }

    #[test]
    fn where_the_network_is_slow_the_longest_timer_is_longer() {
        let config = RmpConfig::lan();
        let mut timing = Timing::default();
        for _ in 0..50 {
            timing.measured(config.timer_max * 3 / 2);
        }
        let timer = timing.data_timer(&config, 0);
        assert!(timer > config.timer_max * 3 / 2, "{timer:?}");
        assert_eq!(timing.data_timer(&config, 9), config.timer_max, "again");
    }

    #[test]
    fn requests_are_repeated_sooner_than_packets() {
        let config = RmpConfig::lan();
        let mut timing = Timing::default();
        assert_eq!(timing.request_timer(&config, 0), config.timer_min);
        timing.measured(TRIP);
        let first = timing.request_timer(&config, 0);
        assert!(first >= config.timer_min / REQUEST_PART && first < config.timer_min);
        assert_eq!(timing.request_timer(&config, 30), config.timer_max);
    }
}
