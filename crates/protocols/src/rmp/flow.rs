//! Flow and congestion control (000 ch. 8): the window, and the timers that adapt.

use alloc::collections::VecDeque;
use core::time::Duration;

use groupcast_core::Time;
use groupcast_core::mech::estimate::Estimate;

use super::config::RmpConfig;
use super::numbers::Number;

/// How many of the packets that were dropped last are remembered (000 ch. 8: three).
const DROPPED: usize = 3;
/// The window is halved at most once in this time, however short a round trip is, or if none was
/// measured.
const TRIP_LEAST: Duration = Duration::from_micros(300);
/// A timer before its round trip was measured is this many times the shortest.
const UNMEASURED: u32 = 3;

/// A sender's window, and its estimate of round trips.
#[derive(Debug)]
pub(super) struct Flow {
    /// Packets that may be without an ACK.
    window: u32,
    window_max: u32,
    /// From a packet to its ACK, and from an ACK to the sign that the token was taken.
    trip: Estimate,
    dropped: VecDeque<Number>,
    /// When the window was last halved.
    halved: Option<Time>,
    /// How many times the window was halved.
    pub(super) halvings: u64,
}

impl Flow {
    pub(super) fn new(config: &RmpConfig) -> Self {
        let window_max = if config.stop_and_wait {
            1
        } else {
            config.window_max
        };
        Self {
            window: 1,
            window_max,
            trip: Estimate::default(),
            dropped: VecDeque::with_capacity(DROPPED),
            halved: None,
            halvings: 0,
        }
    }

    /// Packets that may be without an ACK now.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// A new configuration: numbers begin anew.
    pub(super) fn restart(&mut self) {
        self.dropped.clear();
    }

    /// An ACK of `packets` own packets: slow start (000 ch. 8 (2)).
    pub(super) fn acknowledged(&mut self, packets: u32) {
        self.window = (self.window + packets).min(self.window_max);
    }

    /// A packet's timer has expired (000 ch. 8 (3)).
    pub(super) fn expired(&mut self, now: Time) {
        self.halve(now);
    }

    /// A member misses the own packet `number`: halves the window, once a packet, and once a round
    /// trip (ours: what is lost together is one sign of congestion).
    pub(super) fn dropped(&mut self, now: Time, number: Number) {
        if self.dropped.contains(&number) {
            return;
        }
        if self.dropped.len() == DROPPED {
            self.dropped.pop_front();
        }
        self.dropped.push_back(number);
        self.halve(now);
    }

    fn halve(&mut self, now: Time) {
        let trip = self.trip.mean().max(TRIP_LEAST);
        if self.halved.is_some_and(|at| now.since(at) < trip) {
            return;
        }
        self.halved = Some(now);
        self.window = (self.window / 2).max(1);
        self.halvings += 1;
    }

    /// A round trip took `trip`. Not to be called where something was sent again: it is not known
    /// what was answered.
    pub(super) fn measured(&mut self, trip: Duration) {
        self.trip.sample(trip);
    }

    /// The smoothed round trip.
    pub(super) fn trip(&self) -> Duration {
        self.trip.mean()
    }

    /// How long to wait for an answer that has been waited for `expired` times in vain (000 ch. 8
    /// (1) and (4)).
    pub(super) fn timer(&self, config: &RmpConfig, expired: u32) -> Duration {
        let (min, max) = (config.timer_min, config.timer_max);
        let first = match self.trip.samples() {
            0 => min * UNMEASURED,
            _ => self.trip.upper().max(min) + config.confirm_after,
        };
        (first * (1 << expired.min(16))).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_many_miss_halves_the_window_once() {
        let config = RmpConfig::lan();
        let mut flow = Flow::new(&config);
        flow.acknowledged(15);
        assert_eq!(flow.window(), 16);
        let now = Time::from_millis;
        for at in 0..5 {
            flow.dropped(now(at), Number(3));
        }
        assert_eq!(flow.window(), 8);
        (4..7).for_each(|number| flow.dropped(now(number), Number(number)));
        assert_eq!(flow.window(), 1);
        flow.dropped(now(8), Number(3));
        assert_eq!(flow.halvings, 5, "it is no longer among the last three");
    }

    #[test]
    fn packets_that_are_lost_together_halve_the_window_once() {
        let config = RmpConfig::lan();
        let mut flow = Flow::new(&config);
        flow.acknowledged(15);
        flow.measured(Duration::from_millis(2));
        let now = Time::from_millis(10);
        (1..9).for_each(|number| flow.dropped(now, Number(number)));
        assert_eq!(flow.window(), 8);
        flow.dropped(now + Duration::from_millis(2), Number(9));
        assert_eq!(flow.window(), 4);
    }

    #[test]
    fn a_timer_doubles_up_to_its_limit_and_one_packet_at_a_time_is_one() {
        let config = RmpConfig {
            stop_and_wait: true,
            ..RmpConfig::lan()
        };
        let mut flow = Flow::new(&config);
        flow.acknowledged(9);
        assert_eq!(flow.window(), 1);
        for _ in 0..50 {
            flow.measured(Duration::from_millis(1));
        }
        let first = flow.timer(&config, 0);
        assert_eq!(first, config.timer_min + config.confirm_after);
        assert_eq!(flow.timer(&config, 1), first * 2);
        assert_eq!(flow.timer(&config, 30), config.timer_max);
    }
}
