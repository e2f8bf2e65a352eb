//! What the packets of one receiver show: what it loses without congestion, how long a round trip
//! is without a queue, and whether an epoch was congested.

use core::time::Duration;

use groupcast_core::mech::estimate::Shortest;

use super::Seen;

/// A queue shows when the round trip is half as long again as without, and so much longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Least {
    queued: Duration,
    /// The same for the shortest round trip of an epoch, which chance makes no longer.
    stays: Duration,
}

impl Least {
    /// Where round trips have what busy processors add.
    pub(super) const WITHOUT_STAMPS: Self = Self {
        queued: Duration::from_millis(2),
        stays: Duration::from_micros(1_400),
    };

    /// Where the kernel says when datagrams came: what its timers and interrupts add, and two
    /// packets that are sent together.
    pub(super) fn at(rate: f64, packet: usize) -> Self {
        let packets = Duration::from_secs_f64(2.0 * packet as f64 / rate.max(1.0));
        Self {
            queued: Duration::from_micros(400) + packets,
            stays: Duration::from_micros(200) + packets,
        }
    }
}

/// So much more is lost than the baseline: congestion, whatever the round trip.
const HEAVY: f64 = 0.08;

/// The path to a receiver, or to several as if they were one.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::bulk) struct Path {
    /// What was sent and lost in this epoch.
    pub(in crate::bulk) seen: Seen,
    /// Round trips of this epoch: their sum, and how many; the shortest.
    round_trips: (Duration, u32),
    shortest: Option<Duration>,
    /// The share that is lost without congestion.
    baseline: f64,
    /// Losses above the baseline since it was last undercut.
    excess: f64,
    /// What was lost above the baseline, if the rate has fallen to find out why.
    trial: Option<f64>,
    /// The mean round trip of the epochs at a lower rate, and the shortest of each.
    unqueued: Shortest,
    shortest_unqueued: Shortest,
}

/// An epoch of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    seen: Seen,
    round_trip: Duration,
    shortest: Duration,
}

/// What an epoch says of a path.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Judged {
    pub(super) round_trip: Duration,
    pub(super) shortest: Duration,
    /// How much longer that is than without a queue.
    queue: Duration,
    /// Whether there was a queue all through the epoch, and that counts.
    pub(super) stays: bool,
    queued: bool,
    /// The share that is lost to congestion, if it is taken for that.
    congestion: Option<f64>,
}

/// What an epoch says of all paths together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Of any path enough is known.
    pub(super) any: bool,
    /// Of some path not enough is known.
    pub(super) silent: bool,
    /// What was lost before a trial was no congestion, on any path.
    pub(super) own_loss: bool,
    /// The path with the longest queue.
    pub(super) limiting: Judged,
    /// The most that is lost to congestion on a path, and whether that has a queue.
    pub(super) congestion: Option<(f64, bool)>,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            any: false,
            silent: false,
            own_loss: true,
            limiting: Judged::default(),
            congestion: None,
        }
    }
}

impl Found {
    /// Takes a path in.
    pub(super) fn add(&mut self, judged: Judged) {
        if !self.any || judged.queue > self.limiting.queue {
            self.limiting = judged;
        }
        self.any = true;
        if let Some(excess) = judged.congestion {
            let (most, queued) = self.congestion.unwrap_or_default();
            self.congestion = Some((most.max(excess), queued | judged.queued));
        }
    }
}

impl Path {
    /// A round trip was measured.
    pub(in crate::bulk) fn sample(&mut self, round_trip: Duration) {
        self.round_trips.0 += round_trip;
        self.round_trips.1 += 1;
        let shortest = self.shortest.unwrap_or(round_trip);
        self.shortest = Some(shortest.min(round_trip));
    }

    /// What there is to say of the epoch that ends; `None`: not enough to judge by. If it `keeps`
    /// that, it adds to what comes.
    pub(super) fn end_epoch(&mut self, keeps: bool) -> Option<Epoch> {
        if keeps && (self.seen.sent < 8 || self.shortest.is_none()) {
            return None;
        }
        let seen = core::mem::take(&mut self.seen);
        let (sum, count) = core::mem::take(&mut self.round_trips);
        let shortest = self.shortest.take().filter(|_| seen.sent >= 8)?;
        Some(Epoch {
            seen,
            round_trip: sum / count.max(1),
            shortest,
        })
    }

    /// The epoch was sent at a lower rate.
    pub(super) fn note_unqueued(&mut self, epoch: &Epoch) {
        self.unqueued.sample(epoch.round_trip);
        self.shortest_unqueued.sample(epoch.shortest);
    }

    /// Whether there was a queue all through the epoch.
    pub(super) fn stays(&self, epoch: &Epoch, least: Least) -> bool {
        exceeds(epoch.shortest, self.shortest_unqueued.value(), least.stays)
    }

    /// After an epoch at a lower rate: what was lost in it is lost anyway, unless a queue `stays`
    /// that others keep full. Whether what was lost before is no congestion.
    pub(super) fn read_probe(&mut self, epoch: &Epoch, stays: bool, starting: bool) -> bool {
        let loss = epoch.seen.loss();
        let Some(excess) = self.trial.take() else {
            if !starting && (!stays || loss < self.baseline) {
                self.baseline += (loss - self.baseline) / 4.0;
            }
            return true;
        };
        let own = !stays && loss - self.baseline > excess / 2.0;
        if own {
            self.baseline = loss;
        }
        own
    }

    /// What an epoch says; queues that stay count if the rate `yields`.
    pub(super) fn judge(&mut self, epoch: &Epoch, yields: bool, least: Least) -> Judged {
        let queued = exceeds(epoch.round_trip, self.unqueued.value(), least.queued);
        let congestion = self.congestion(queued, epoch.seen);
        if let Some(excess) = congestion {
            self.excess = 0.0;
            self.trial = (!queued).then_some(excess);
        }
        Judged {
            round_trip: epoch.round_trip,
            shortest: epoch.shortest,
            queue: epoch
                .shortest
                .saturating_sub(self.shortest_unqueued.value()),
            stays: yields && self.stays(epoch, least),
            queued,
            congestion,
        }
    }

    /// The share that is lost to congestion, if it is taken for that.
    fn congestion(&mut self, queued: bool, seen: Seen) -> Option<f64> {
        let sent = seen.sent as f64;
        let expected = self.baseline * sent;
        let over = seen.lost as f64 - expected;
        // Three deviations and a half of what the baseline alone loses, and a few packets.
        let chance = 3.0 + 3.5 * sqrt(expected);
        self.excess = (self.excess + over - 0.002 * sent).max(0.0);
        let heavy = over > HEAVY * sent && over > chance;
        let congested = heavy || queued && self.excess > chance;
        congested.then_some((over / sent).max(0.0))
    }
}

impl Seen {
    fn loss(self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
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
