//! How fast a sender sends: a bucket of bytes that fills at a rate, and a controller that finds the rate.
//!
//! The controller looks at the worst loss among the receivers that the sender waits for, and at the round trip, one
//! epoch after the other.
//!
//! - Every sixteenth epoch is sent at a lower rate. What is lost then is not lost to congestion: it is the baseline. The
//!   round trip is near to what it is without a queue.
//! - Loss above the baseline with a round trip that a queue has lengthened is congestion: the rate falls.
//! - Heavy loss above the baseline without a queue that shows may be congestion too. The rate falls, and an epoch at a
//!   lower rate follows at once: if most of the loss stays, it is the link's own, and the rate is restored.
//! - Otherwise the rate grows: doubled each epoch until the first congestion, then by a packet per round trip in each
//!   round trip, as TCP's window does, scaled to the smaller decrease. A rate that is not used up does not grow.

use core::time::Duration;

use groupcast_core::Time;
use groupcast_core::mech::estimate::Shortest;

use super::config::RateControl;

/// What an epoch saw at the receiver that lost most.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Seen {
    /// Transmissions, and how many of them were lost.
    pub(super) sent: u64,
    pub(super) lost: u64,
}

impl Seen {
    fn loss(self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

/// How fast to send.
#[derive(Debug)]
pub(super) struct Rate {
    /// Bytes a second; `None`: as fast as the window lets.
    rate: Option<f64>,
    max: f64,
    adaptive: bool,
    /// Bytes that may be sent now; below zero after a send that was larger.
    tokens: f64,
    filled: Time,
    /// Bytes sent in this epoch.
    used: u64,
    /// When this epoch began, and how many there were.
    epoch: Time,
    epochs: u32,
    starting: bool,
    /// Whether this epoch still shows what the rate before it did.
    settling: bool,
    /// Heavy loss without a queue is being looked into.
    trial: Option<Trial>,
    /// The share that is lost without congestion.
    baseline: f64,
    /// Losses above the baseline since it was last undercut.
    excess: f64,
    /// Round trips of this epoch: their sum, and how many.
    round_trips: (Duration, u32),
    /// The mean round trip of the epochs at a lower rate.
    unqueued: Shortest,
}

/// The rate has fallen: was the loss congestion?
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The rate before, whether it was still sought by doubling, and what was lost above the baseline.
    rate: f64,
    starting: bool,
    excess: f64,
}

impl Rate {
    const INITIAL: f64 = 16e6;
    const MIN: f64 = 16e3;
    /// After congestion the rate is this part of what it was.
    const DECREASE: f64 = 0.85;
    /// Packets per round trip and round trip: as fair to TCP as the smaller decrease allows.
    const INCREASE: f64 = 0.3;
    /// An epoch is at least this long, and two round trips.
    const EPOCH_MIN: Duration = Duration::from_millis(8);
    /// Of so many epochs one is sent at a lower rate, and at which part of it.
    const PROBE_EVERY: u32 = 16;
    const PROBE: f64 = 0.7;
    /// A queue shows when the round trip is half as long again as without, and so much longer.
    const QUEUE_MIN: Duration = Duration::from_millis(2);
    /// So much more is lost than the baseline: congestion, whatever the round trip.
    const HEAVY: f64 = 0.08;

    pub(super) fn new(control: RateControl, now: Time) -> Self {
        let (rate, max, adaptive) = match control {
            RateControl::Window => (None, f64::MAX, false),
            RateControl::Fixed { bytes_per_second } => {
                (Some(bytes_per_second as f64), f64::MAX, false)
            }
            RateControl::Adaptive { max } => {
                let max = max.map_or(f64::MAX, |max| max as f64);
                (Some(Self::INITIAL.min(max)), max, true)
            }
        };
        Self {
            rate,
            max,
            adaptive,
            tokens: 0.0,
            filled: now,
            used: 0,
            epoch: now,
            epochs: 0,
            starting: true,
            settling: false,
            trial: None,
            baseline: 0.0,
            excess: 0.0,
            round_trips: (Duration::ZERO, 0),
            unqueued: Shortest::default(),
        }
    }

    /// Bytes a second, if anything but the window bounds them.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate.map(|rate| rate as u64)
    }

    /// Whether something may be sent now.
    pub(super) fn allows(&mut self, now: Time) -> bool {
        let Some(rate) = self.pace() else {
            return true;
        };
        // What was not used in the last milliseconds is lost: a pause is not followed by a burst.
        let burst = (rate * 2e-3).max(3000.0);
        let filled = (now - self.filled).as_secs_f64() * rate;
        self.tokens = (self.tokens + filled).min(burst);
        self.filled = now;
        self.tokens > 0.0
    }

    /// So many bytes were sent.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.used += bytes as u64;
        if self.rate.is_some() {
            self.tokens -= bytes as f64;
        }
    }

    /// When something may be sent again.
    pub(super) fn due(&self, now: Time) -> Time {
        let Some(rate) = self.pace().filter(|_| self.tokens <= 0.0) else {
            return now;
        };
        now + Duration::from_secs_f64((1.0 - self.tokens) / rate)
    }

    /// The rate of this epoch.
    fn pace(&self) -> Option<f64> {
        let part = if self.is_probe() { Self::PROBE } else { 1.0 };
        self.rate.map(|rate| rate * part)
    }

    /// Whether this epoch is one at a lower rate.
    fn is_probe(&self) -> bool {
        let due = !self.starting && self.epochs.is_multiple_of(Self::PROBE_EVERY);
        self.adaptive && (due || self.trial.is_some())
    }

    /// A round trip was measured.
    pub(super) fn sample(&mut self, round_trip: Duration) {
        self.round_trips.0 += round_trip;
        self.round_trips.1 += 1;
    }

    /// Whether an epoch is over: there is something to learn from.
    pub(super) fn epoch_ends(&self, now: Time, round_trip: Duration) -> bool {
        self.adaptive && now - self.epoch >= Self::EPOCH_MIN.max(round_trip * 2)
    }

    /// An epoch is over; `worst` is what the receiver that lost most has seen in it.
    pub(super) fn end_epoch(&mut self, now: Time, packet: usize, worst: Seen) {
        let (Some(rate), Some(pace)) = (self.rate, self.pace()) else {
            return;
        };
        let probe = self.is_probe();
        let length = (now - self.epoch).as_secs_f64();
        let used_up = self.used as f64 >= 0.75 * pace * length;
        let (sum, count) = core::mem::take(&mut self.round_trips);
        let round_trip = sum / count.max(1);
        self.epoch = now;
        self.epochs += 1;
        self.used = 0;
        if worst.sent < 8 || count == 0 {
            return;
        }
        if core::mem::take(&mut self.settling) {
            return;
        }
        if probe || self.epochs == 1 {
            self.unqueued.sample(round_trip);
            self.read_probe(worst.loss());
            return;
        }
        let queued = self.is_queued(round_trip);
        let next = if let Some(excess) = self.congestion(queued, worst) {
            if !queued {
                let starting = self.starting;
                self.trial = Some(Trial {
                    rate,
                    starting,
                    excess,
                });
            }
            self.starting = false;
            self.settling = true;
            self.excess = 0.0;
            rate * Self::DECREASE.min(1.0 - excess)
        } else if !used_up {
            rate
        } else if self.starting {
            rate * 2.0
        } else {
            let round_trip = round_trip.as_secs_f64().max(1e-5);
            let step = Self::INCREASE * packet as f64 / (round_trip * round_trip) * length;
            rate + step.min(rate * 0.1)
        };
        self.rate = Some(next.clamp(Self::MIN.min(self.max), self.max));
    }

    /// After an epoch at a lower rate: what was lost in it is lost anyway.
    fn read_probe(&mut self, loss: f64) {
        // What is on its way was sent before.
        self.settling = true;
        let Some(trial) = self.trial.take() else {
            if !self.starting {
                self.baseline += (loss - self.baseline) / 4.0;
            }
            return;
        };
        if loss - self.baseline > trial.excess / 2.0 {
            self.baseline = loss;
            self.rate = Some(trial.rate);
            self.starting = trial.starting;
        }
    }

    fn is_queued(&self, round_trip: Duration) -> bool {
        let unqueued = self.unqueued.value();
        round_trip > unqueued + (unqueued / 2).max(Self::QUEUE_MIN)
    }

    /// The share that is lost to congestion, if it is taken for that.
    fn congestion(&mut self, queued: bool, worst: Seen) -> Option<f64> {
        let sent = worst.sent as f64;
        let expected = self.baseline * sent;
        let over = worst.lost as f64 - expected;
        // Three deviations and a half of what the baseline alone loses, and a few packets.
        let chance = 3.0 + 3.5 * sqrt(expected);
        self.excess = (self.excess + over - 0.002 * sent).max(0.0);
        let heavy = over > Self::HEAVY * sent && over > chance;
        let congested = heavy || queued && self.excess > chance;
        congested.then_some((over / sent).max(0.0))
    }
}

/// The square root, by Newton's method: this crate has no floating-point library, and needs no more than this.
fn sqrt(square: f64) -> f64 {
    if square <= 0.0 {
        return 0.0;
    }
    let mut root = square.max(1.0);
    for _ in 0..24 {
        root = (root + square / root) / 2.0;
    }
    root
}

#[cfg(test)]
mod tests {
    use groupcast_core::Rng;

    use super::*;

    /// A link of `capacity` bytes a second without a queue and with `loss` of its own, for `epochs` epochs; the mean
    /// rate of the second half.
    fn settle(capacity: f64, loss: f64, epochs: u32) -> f64 {
        let packet = 1400;
        let mut rng = Rng::new(1);
        let mut now = Time::ZERO;
        let mut rate = Rate::new(RateControl::Adaptive { max: None }, now);
        let round_trip = Duration::from_millis(1);
        let (mut sum, mut counted) = (0.0, 0);
        for epoch in 0..epochs {
            let allowed = rate.pace().expect("it is adaptive");
            now += Duration::from_millis(10);
            let sent = (allowed * 0.01 / packet as f64) as u64;
            let kept = (capacity / allowed).min(1.0) * (1.0 - loss);
            let lost = (0..sent).filter(|_| !rng.chance(kept)).count() as u64;
            rate.spend(sent as usize * packet);
            rate.sample(round_trip);
            rate.end_epoch(now, packet, Seen { sent, lost });
            if epoch >= epochs / 2 {
                sum += allowed;
                counted += 1;
            }
        }
        sum / f64::from(counted)
    }

    #[test]
    fn the_rate_finds_the_capacity_of_a_link() {
        for capacity in [12.5e6, 125e6] {
            let found = settle(capacity, 0.0, 600);
            assert!(
                (0.8..1.15).contains(&(found / capacity)),
                "{found} of {capacity}"
            );
        }
    }

    #[test]
    fn the_links_own_loss_is_not_taken_for_congestion() {
        for loss in [0.01, 0.05, 0.2] {
            let found = settle(125e6, loss, 600);
            assert!(
                (0.75..1.3).contains(&(found / 125e6)),
                "{found} at a loss of {loss}"
            );
        }
    }

    #[test]
    fn a_fixed_rate_is_kept_and_a_pause_gives_no_burst() {
        let mut rate = Rate::new(
            RateControl::Fixed {
                bytes_per_second: 1_000_000,
            },
            Time::ZERO,
        );
        let mut now = Time::from_millis(1000);
        let mut sent = 0;
        while now < Time::from_millis(2000) {
            if rate.allows(now) {
                rate.spend(1000);
                sent += 1000;
            } else {
                now = rate.due(now);
            }
        }
        assert!((990_000..1_010_000).contains(&sent), "{sent}");
    }
}
