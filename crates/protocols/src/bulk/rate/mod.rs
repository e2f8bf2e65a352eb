//! How fast a sender sends: a bucket of bytes that fills at a rate, and a controller that finds the
//! rate.
//!
//! The controller looks at the worst loss among the receivers that the sender waits for, and at the
//! round trip, one epoch after the other.
//!
//! - Every sixteenth epoch is sent at a lower rate. What is lost then is not lost to congestion: it
//!   is the baseline. The round trip is near to what it is without a queue. Where it is not, others
//!   keep the queue full, and what is lost says nothing of the link.
//! - Loss above the baseline with a round trip that a queue has lengthened is congestion: the rate
//!   falls.
//! - Heavy loss above the baseline without a queue that shows may be congestion too. The rate
//!   falls, and an epoch at a lower rate follows at once: if most of the loss stays, it is the
//!   link's own, and the rate is restored.
//! - Otherwise the rate grows: doubled each epoch until the first congestion, then by a packet per
//!   round trip in each round trip, as TCP's window does, scaled to the smaller decrease. A rate
//!   that is not used up does not grow.
//!
//! A controller that yields differs in two things:
//!
//! - A queue that is there through a whole epoch is congestion where nothing is lost, too: the
//!   queue of a host whose sockets wait holds whatever they put into it. The rate falls below what
//!   went through. If the queue stays all the same, others keep it full until something is lost, as
//!   TCP does: the rate is restored, and for a while only loss counts.
//! - After loss it falls as far as TCP's window, and grows by a step that depends on the time
//!   alone.

use core::time::Duration;

use groupcast_core::Time;
use groupcast_core::mech::estimate::Shortest;

use super::config::RateControl;
use super::numbers::Epoch;

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
    /// Nothing may be sent.
    paused: bool,
    /// Bytes a second; `None`: as fast as the window lets.
    rate: Option<f64>,
    max: f64,
    /// What the slowest receiver says that it takes: bytes a second, and at once.
    bound: Option<(f64, f64)>,
    adaptive: bool,
    /// Whether queues count where nothing is lost.
    yields: bool,
    /// Bytes that may be sent now; below zero after a send that was larger.
    tokens: f64,
    filled: Time,
    /// Bytes sent in this epoch.
    used: u64,
    /// This epoch, and when it began.
    epoch: Epoch,
    epoch_began: Time,
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
    /// The shortest round trip of this epoch, and of each of those at a lower rate.
    shortest: Option<Duration>,
    shortest_unqueued: Shortest,
    /// The rate falls for a queue alone.
    draining: Option<Draining>,
    /// For so many epochs others are taken to keep a queue full, and only loss counts.
    rivals: u32,
}

/// The rate has fallen: was the loss congestion?
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The rate before, whether it was still sought by doubling, and what was lost above the
    /// baseline.
    rate: f64,
    starting: bool,
    excess: f64,
}

/// The rate has fallen for a queue without loss: does the queue go away?
#[derive(Clone, Copy, Debug)]
struct Draining {
    /// The rate before, and the shortest round trip of the last epoch.
    rate: f64,
    shortest: Duration,
    /// How often the queue was no shorter for it.
    vain: u32,
}

impl Rate {
    const INITIAL: f64 = 16e6;
    const MIN: f64 = 16e3;
    /// After congestion the rate is this part of what it was.
    const DECREASE: f64 = 0.85;
    /// And this one, if it yields and there is a queue: as TCP's window (CUBIC's), because a single
    /// loss is not yet congestion here, so it must not cost less.
    const DECREASE_YIELDING: f64 = 0.7;
    /// A queue that is no shorter after so many decreases is kept full by others.
    const VAIN_MAX: u32 = 5;
    /// For so many epochs without congestion that is then believed.
    const RIVALS: u32 = 64;
    /// Packets per round trip and round trip: as fair to TCP as the smaller decrease allows.
    const INCREASE: f64 = 0.3;
    /// If it yields: as fast as with such a round trip, if it is shorter, so that the step depends
    /// on the time alone, and flows of different rates come nearer to each other; and this part of
    /// the rate in each epoch, because where links are fast packets would be too few.
    const YIELDING_ROUND_TRIP_MIN: Duration = Duration::from_millis(6);
    const YIELDING_GROWTH: f64 = 0.002;
    /// An epoch is at least this long, and two round trips.
    const EPOCH_MIN: Duration = Duration::from_millis(8);
    /// Of so many epochs one is sent at a lower rate, and at which part of it.
    const PROBE_EVERY: u32 = 16;
    const PROBE: f64 = 0.7;
    /// A queue shows when the round trip is half as long again as without, and so much longer.
    const QUEUE_MIN: Duration = Duration::from_millis(2);
    /// The same for the shortest round trip of an epoch, which chance makes no longer.
    const STAYS_MIN: Duration = Duration::from_micros(1_400);
    /// So much more is lost than the baseline: congestion, whatever the round trip.
    const HEAVY: f64 = 0.08;

    pub(super) fn new(control: RateControl, now: Time) -> Self {
        let (rate, max) = match control {
            RateControl::Window => (None, f64::MAX),
            RateControl::Fixed { bytes_per_second } => (Some(bytes_per_second as f64), f64::MAX),
            RateControl::Adaptive { max, .. } => {
                let max = max.map_or(f64::MAX, |max| max as f64);
                (Some(Self::INITIAL.min(max)), max)
            }
        };
        Self {
            paused: false,
            rate,
            max,
            bound: None,
            adaptive: matches!(control, RateControl::Adaptive { .. }),
            yields: matches!(control, RateControl::Adaptive { yields: true, .. }),
            tokens: 0.0,
            filled: now,
            used: 0,
            epoch: Epoch::default(),
            epoch_began: now,
            starting: true,
            settling: false,
            trial: None,
            baseline: 0.0,
            excess: 0.0,
            round_trips: (Duration::ZERO, 0),
            unqueued: Shortest::default(),
            shortest: None,
            shortest_unqueued: Shortest::default(),
            draining: None,
            rivals: 0,
        }
    }

    /// From now on another control; `None`: nothing is sent. What an adaptive one has found is
    /// found anew, since the path may have become another meanwhile.
    pub(super) fn change(&mut self, control: Option<RateControl>, now: Time) {
        let Some(control) = control else {
            self.paused = true;
            return;
        };
        *self = Self {
            bound: self.bound,
            epoch: self.epoch,
            // What is on its way was sent at another rate.
            settling: true,
            ..Self::new(control, now)
        };
    }

    /// Bytes a second, if anything but the window bounds them; 0 while it is paused.
    pub(super) fn rate(&self) -> Option<u64> {
        if self.paused {
            return Some(0);
        }
        self.rate.map(|rate| rate as u64)
    }

    /// Whether something may be sent now.
    pub(super) fn allows(&mut self, now: Time) -> bool {
        if self.paused {
            return false;
        }
        let Some(rate) = self.pace() else {
            return true;
        };
        // What was not used in the last milliseconds is lost: a pause is not followed by a burst.
        let burst = (rate * 2e-3).max(3000.0);
        let burst = self.bound.map_or(burst, |(_, most)| burst.min(most));
        let filled = (now - self.filled).as_secs_f64() * rate;
        self.tokens = (self.tokens + filled).min(burst);
        self.filled = now;
        self.tokens > 0.0
    }

    /// Receivers take so many bytes a second, and so many at once, and no more: `None`, they have
    /// named no limit.
    pub(super) fn bound(&mut self, takes: Option<(u64, u64)>) {
        self.bound = takes.map(|(rate, burst)| (rate as f64, burst as f64));
    }

    /// So many bytes were sent.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.used += bytes as u64;
        if self.rate.is_some() || self.bound.is_some() {
            self.tokens -= bytes as f64;
        }
    }

    /// When something may be sent again; `None`, as long as it is paused.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        if self.paused {
            return None;
        }
        let Some(rate) = self.pace().filter(|_| self.tokens <= 0.0) else {
            return Some(now);
        };
        Some(now + Duration::from_secs_f64((1.0 - self.tokens) / rate))
    }

    /// The rate of this epoch.
    fn pace(&self) -> Option<f64> {
        let part = if self.is_probe() { Self::PROBE } else { 1.0 };
        let own = self.rate.map(|rate| rate * part);
        let bound = self.bound.map(|(rate, _)| rate);
        match (own, bound) {
            (Some(own), Some(bound)) => Some(own.min(bound)),
            (own, bound) => own.or(bound),
        }
    }

    /// Whether this epoch is one at a lower rate.
    fn is_probe(&self) -> bool {
        let due = !self.starting && self.epoch.0.is_multiple_of(Self::PROBE_EVERY);
        self.adaptive && (due || self.trial.is_some())
    }

    /// A round trip was measured.
    pub(super) fn sample(&mut self, round_trip: Duration) {
        self.round_trips.0 += round_trip;
        self.round_trips.1 += 1;
        let shortest = self.shortest.unwrap_or(round_trip);
        self.shortest = Some(shortest.min(round_trip));
    }

    /// Whether an epoch is over: there is something to learn from.
    pub(super) fn epoch_ends(&self, now: Time, round_trip: Duration) -> bool {
        self.adaptive
            && !self.paused
            && now - self.epoch_began >= Self::EPOCH_MIN.max(round_trip * 2)
    }

    /// An epoch is over; `worst` is what the receiver that lost most has seen in it.
    pub(super) fn end_epoch(&mut self, now: Time, packet: usize, worst: Seen) {
        let (Some(rate), Some(pace)) = (self.rate, self.pace()) else {
            return;
        };
        let probe = self.is_probe();
        let length = (now - self.epoch_began).as_secs_f64();
        let achieved = self.used as f64 / length.max(1e-9);
        let used_up = achieved >= 0.75 * pace;
        let (sum, count) = core::mem::take(&mut self.round_trips);
        let round_trip = sum / count.max(1);
        let shortest = self.shortest.take();
        self.epoch_began = now;
        self.epoch = self.epoch.next();
        self.used = 0;
        let Some(shortest) = shortest.filter(|_| worst.sent >= 8) else {
            return;
        };
        if core::mem::take(&mut self.settling) {
            return;
        }
        if probe || self.epoch == Epoch(1) {
            self.unqueued.sample(round_trip);
            self.shortest_unqueued.sample(shortest);
            let stays = self.stays(shortest);
            self.read_probe(worst.loss(), stays);
            return;
        }
        let queued = exceeds(round_trip, self.unqueued.value(), Self::QUEUE_MIN);
        let stays = self.stays(shortest);
        self.rivals = if stays {
            self.rivals.saturating_sub(1)
        } else {
            0
        };
        let next = if let Some(excess) = self.congestion(queued, worst) {
            self.congested(rate, queued, excess)
        } else if stays && self.rivals == 0 {
            self.drain(rate, achieved, shortest)
        } else {
            self.draining = None;
            self.grown(rate, used_up, packet, round_trip, length)
        };
        self.rate = Some(next.clamp(Self::MIN.min(self.max), self.max));
    }

    /// Whether there was a queue all through an epoch with this shortest round trip, and that
    /// counts.
    fn stays(&self, shortest: Duration) -> bool {
        let unqueued = self.shortest_unqueued.value();
        self.yields && exceeds(shortest, unqueued, Self::STAYS_MIN)
    }

    /// The rate after more was lost than the link loses by itself.
    fn congested(&mut self, rate: f64, queued: bool, excess: f64) -> f64 {
        if !queued {
            self.trial = Some(Trial {
                rate,
                starting: self.starting,
                excess,
            });
        }
        if self.rivals > 0 {
            self.rivals = Self::RIVALS;
        }
        self.starting = false;
        self.settling = true;
        self.draining = None;
        self.excess = 0.0;
        let decrease = if queued && self.yields {
            Self::DECREASE_YIELDING
        } else {
            Self::DECREASE
        };
        rate * decrease.min(1.0 - excess)
    }

    /// The rate while there is a queue and nothing is lost: below what went through, until the
    /// queue is gone; what it was before, if others keep it full.
    fn drain(&mut self, rate: f64, achieved: f64, shortest: Duration) -> f64 {
        let through = rate.min(achieved);
        self.starting = false;
        self.settling = true;
        let mut draining = self.draining.take().unwrap_or(Draining {
            rate: through,
            shortest: Duration::MAX,
            vain: 0,
        });
        let shrinks = draining.vain > 0 && shortest < draining.shortest - draining.shortest / 8;
        draining.shortest = shortest;
        if shrinks {
            self.draining = Some(draining);
            return rate;
        }
        if draining.vain == Self::VAIN_MAX {
            self.rivals = Self::RIVALS;
            return draining.rate;
        }
        draining.vain += 1;
        self.draining = Some(draining);
        through * Self::DECREASE
    }

    /// The rate after an epoch of `length` seconds without congestion.
    fn grown(
        &self,
        rate: f64,
        used_up: bool,
        packet: usize,
        round_trip: Duration,
        length: f64,
    ) -> f64 {
        if !used_up {
            return rate;
        }
        if self.starting {
            return rate * 2.0;
        }
        let step =
            |round_trip: f64| Self::INCREASE * packet as f64 / (round_trip * round_trip) * length;
        if self.yields {
            let round_trip = round_trip.max(Self::YIELDING_ROUND_TRIP_MIN);
            let step = step(round_trip.as_secs_f64()) + rate * Self::YIELDING_GROWTH;
            rate + step.min(rate)
        } else {
            rate + step(round_trip.as_secs_f64().max(1e-5)).min(rate * 0.1)
        }
    }

    /// After an epoch at a lower rate: what was lost in it is lost anyway, unless a queue `stays`
    /// that others keep full.
    fn read_probe(&mut self, loss: f64, stays: bool) {
        // What is on its way was sent before.
        self.settling = true;
        let Some(trial) = self.trial.take() else {
            if !self.starting && (!stays || loss < self.baseline) {
                self.baseline += (loss - self.baseline) / 4.0;
            }
            return;
        };
        if !stays && loss - self.baseline > trial.excess / 2.0 {
            self.baseline = loss;
            self.rate = Some(trial.rate);
            self.starting = trial.starting;
        }
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

/// Whether a round trip is so much longer than one without a queue, `least` in any case, that there
/// is one.
fn exceeds(round_trip: Duration, unqueued: Duration, least: Duration) -> bool {
    round_trip > unqueued + (unqueued / 2).max(least)
}

/// The square root, by Newton's method: this crate has no floating-point library, and needs no more
/// than this.
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
mod tests;
