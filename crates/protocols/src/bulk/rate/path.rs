//! What the packets of one receiver show: what it loses without congestion, how long a round trip
//! is without a queue, and whether an epoch was congested.

use core::time::Duration;

use groupcast_core::Time;
use groupcast_core::mech::estimate::Shortest;

use super::Seen;
use super::few::{Counted, Verdict};
use super::overflow::Overflow;

/// A queue shows when the round trip is half as long again as without, or longer by `part_max`, and
/// so much longer in any case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Least {
    queued: Duration,
    /// The same for the shortest round trip of an epoch, which chance makes no longer.
    stays: Duration,
    part_max: Duration,
}

impl Least {
    /// Where round trips have what busy processors add.
    pub(super) const WITHOUT_STAMPS: Self = Self {
        queued: Duration::from_millis(2),
        stays: Duration::from_micros(1_400),
        part_max: Duration::MAX,
    };

    /// Where the kernel says when datagrams came: what its timers and interrupts add, two packets
    /// that are sent together, and the answers of so many receivers that are asked at once.
    pub(super) fn at(rate: f64, packet: usize, receivers: u32) -> Self {
        let bytes = 2.0 * packet as f64 + Self::ANSWER * f64::from(receivers);
        let waits = Duration::from_secs_f64(bytes / rate.max(1.0));
        Self {
            queued: Duration::from_micros(400) + waits,
            stays: Duration::from_micros(200) + waits,
            part_max: Self::PART_MAX,
        }
    }

    /// What waits in this host for so long is no queue of the network.
    pub(super) fn beside(self, own: Duration) -> Self {
        Self {
            queued: self.queued + own,
            stays: self.stays + own,
            ..self
        }
    }

    /// What packets wait for each other and for answers without a queue.
    pub(super) fn waits(self) -> Duration {
        self.stays
    }

    /// No queue that is shorter than `wait` counts as one that stays.
    pub(super) fn tolerates(self, wait: Duration) -> Self {
        Self {
            stays: self.stays.max(wait),
            ..self
        }
    }

    /// A queue that stays so long is one, however long the way is: what was taken for a way may be
    /// a queue of others, which is never half as long again.
    const PART_MAX: Duration = Duration::from_millis(5);

    /// Bytes of an answer, with all headers.
    const ANSWER: f64 = 120.0;
}

/// So much more is lost than the baseline: congestion, whatever the round trip.
const HEAVY: f64 = 0.08;

/// TCP with a window of `w` packets loses no larger share than this by the square of `w`.
const STEEP: f64 = 10.0;

/// One epoch shows no more than this part of what is no chance.
const STEEP_ONCE: f64 = 0.75;

/// An epoch of so many transmissions shows shares that are small.
const MANY: u64 = 512;

/// Where receivers are looked at one by one, a path may lose this share by itself before its
/// baseline is known: in a few packets that is much by chance.
const UNKNOWN: f64 = 0.1;

/// No path loses a larger share by itself: what is lost beyond is congestion, though it stays at a
/// lower rate. What begins beside a queue that others keep overflowing loses as much from the
/// start, and would go on at many times what the link carries.
const OWN_MAX: f64 = 0.4;

/// A path that is believed to lose this share by itself is looked into again and again.
const MUCH_OWN: f64 = 0.1;

/// What is lost at the start is looked into if it is this share.
const MUCH: f64 = 0.25;

/// What chance loses at most, in standard deviations of what is lost on average.
const DEVIATIONS: f64 = 3.5;

/// An epoch is judged by so many transmissions at least.
const JUDGED_MIN: u64 = 8;

/// The first answer of a receiver is waited for so long: no way is longer.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// What an epoch shows to be shorter than any before by this and by an eighth is no chance.
const SHORTER: Duration = Duration::from_millis(2);

/// How an epoch was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Bytes a second, and of a packet.
    pub(super) pace: f64,
    pub(super) packet: usize,
    /// The rate is still sought by doubling.
    pub(super) is_sought: bool,
    /// Others are taken to keep a queue full, so that a loss is due to it.
    pub(super) has_rivals: bool,
}

/// A rate, and what came through at it.
#[derive(Clone, Copy, Debug)]
struct Tried {
    pace: f64,
    seen: Seen,
}

impl Tried {
    /// Rates are compared that differ so many times.
    const TIMES: f64 = 1.3;
    /// Of what one is higher than the other, not even this part comes through.
    const PART: f64 = 0.25;

    /// Whether this rate loses for no other reason than that it is higher than `lower`, at which as
    /// much comes through; not if chance may have lost it.
    fn outruns(&self, lower: &Self) -> bool {
        let times = self.pace / lower.pace.max(1.0);
        let through = |it: &Self| it.pace * (1.0 - it.seen.loss());
        let grown = through(self) / through(lower).max(1.0);
        let excess = self.seen.loss() - lower.seen.loss();
        let by_chance = 3.0 * libm::sqrt(self.seen.variance() + lower.seen.variance());
        times >= Self::TIMES && grown < 1.0 + (times - 1.0) * Self::PART && excess > by_chance
    }
}

/// The path to a receiver, or to several as if they were one.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::bulk) struct Path {
    /// What was sent and lost in this epoch.
    pub(in crate::bulk) seen: Seen,
    /// What was sent to it in this epoch and in the one before, if it gets copies of a part.
    part: Option<Part>,
    /// Round trips of this epoch: their sum, and how many; the shortest.
    round_trips: (Duration, u32),
    shortest: Option<Duration>,
    /// The share that is lost without congestion.
    baseline: f64,
    /// Losses above the baseline since it was last undercut.
    excess: f64,
    /// What was sent and lost while the rate was first sought and no queue showed.
    begun: Seen,
    /// The last epoch lost much without a queue.
    heavy: bool,
    /// Losses of late beyond what TCP at such a rate could lose.
    steep: f64,
    /// The last rate that was judged.
    tried: Option<Tried>,
    /// Epochs in a row in which too little was heard to judge by.
    unheard: u32,
    /// Since when it is awaited, and whether it was heard at all since.
    awaited_since: Option<Time>,
    is_heard: bool,
    /// What was lost above the baseline, if the rate has fallen to find out why.
    trial: Option<f64>,
    /// Whether the round trip without a queue was measured: the mean of the epochs at a lower rate,
    /// and the shortest of each.
    is_measured: bool,
    unqueued: Shortest,
    shortest_unqueued: Shortest,
    /// Whether a queue too short to show loses packets.
    overflow: Overflow,
    /// Whether it limited the rate in the last epoch, in the last that judged it, and whether it is
    /// one of the few that do alone.
    is_limiting: bool,
    has_limited: bool,
    is_blamed: bool,
    /// Whether it took the rate of a leap that goes on, or has just ended, if it was heard.
    took_leap: Option<bool>,
}

/// How much was copied to a receiver that gets copies of a part of what is sent.
#[derive(Clone, Copy, Default, Debug)]
struct Part {
    copied: u64,
    copied_before: u64,
}

/// What was heard of a path in an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Heard {
    /// Enough to judge by.
    Enough(Epoch),
    /// Too little, for so many epochs in a row; not counted where nothing is kept.
    TooLittle(u32),
    /// Too little was sent to it, so it has no say.
    NothingSent,
}

/// An epoch of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    seen: Seen,
    round_trip: Duration,
    shortest: Duration,
}

impl Epoch {
    /// Whether it loses so much that others may keep a queue full.
    pub(super) fn loses_much(&self) -> bool {
        self.seen.loss() >= MUCH
    }
}

/// What an epoch says of a path.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Judged {
    pub(super) round_trip: Duration,
    pub(super) shortest: Duration,
    /// How much longer that is than without a queue.
    pub(super) queue: Duration,
    /// Whether there was a queue all through the epoch, and that counts.
    pub(super) stays: bool,
    queued: bool,
    /// The share that is lost to congestion, if it is taken for that.
    congestion: Option<f64>,
    /// It is taken for that only because a queue too short to show overflows.
    to_overflow: bool,
    /// Much was lost, which is not taken for congestion yet.
    suspect: bool,
    /// Nothing shows: not even a queue that is short beside a long round trip, which others may
    /// show that are nearer.
    is_clear: bool,
}

/// What is lost to congestion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Congestion {
    /// The most on any path, as a share of what was sent above the baseline.
    pub(super) excess: f64,
    /// Whether a path that loses has a queue.
    pub(super) queued: bool,
    /// All of it is lost to queues too short to show.
    pub(super) to_overflow: bool,
}

impl Congestion {
    /// A queue is full, and nothing was lost.
    pub(super) const FULL: Self = Self {
        excess: 0.0,
        queued: true,
        to_overflow: false,
    };
}

/// What an epoch says of all paths together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Of any path enough is known.
    pub(super) any: bool,
    /// Of some path not enough is known for so many epochs in a row.
    pub(super) unheard: u32,
    /// Too little is known of a path that limited the rate before.
    pub(super) is_missed: bool,
    /// The first answer of some receiver may be on its way yet.
    pub(super) is_awaited: bool,
    /// The round trip of a path is long, or much is lost on it, when it is first judged: there may
    /// be a queue.
    pub(super) is_far: bool,
    /// A path has lost much, and may have done so by chance.
    pub(super) suspect: bool,
    /// What was lost before a trial was no congestion, on any path.
    pub(super) own_loss: bool,
    /// At a lower rate as much came through on some path.
    pub(super) is_outrun: bool,
    /// Some path is believed to lose much by itself.
    pub(super) believes_much_loss: bool,
    /// The path with the longest queue.
    pub(super) limiting: Judged,
    /// What is lost to congestion.
    pub(super) congestion: Option<Congestion>,
    /// How many paths show what.
    pub(super) counted: Counted,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            any: false,
            unheard: 0,
            is_missed: false,
            is_awaited: false,
            is_far: false,
            suspect: false,
            own_loss: true,
            is_outrun: false,
            believes_much_loss: false,
            limiting: Judged::default(),
            congestion: None,
            counted: Counted::default(),
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
        self.suspect |= judged.suspect;
        self.counted.limiting += u32::from(judged.limits());
        self.counted.clear += u32::from(judged.is_clear);
        if let Some(excess) = judged.congestion {
            let congestion = self.congestion.get_or_insert(Congestion {
                excess,
                queued: false,
                to_overflow: true,
            });
            congestion.excess = congestion.excess.max(excess);
            congestion.queued |= judged.queued;
            congestion.to_overflow &= judged.to_overflow;
        }
    }

    /// Whether no path shows any sign of congestion.
    pub(super) fn is_clear(&self) -> bool {
        self.congestion.is_none() && !self.suspect && self.counted.limiting == 0
    }
}

impl Judged {
    /// Whether there was a queue in the epoch, on average.
    pub(super) fn is_queued(&self) -> bool {
        self.queued
    }

    /// Whether the rate may not be higher for it.
    fn limits(&self) -> bool {
        self.congestion.is_some() || self.stays
    }
}

impl Path {
    /// Whether it is one of the few for which alone the rate has fallen.
    pub(in crate::bulk) fn is_blamed(&self) -> bool {
        self.is_blamed
    }

    /// The share that it loses without congestion; `None`: the rate was never found for it.
    pub(in crate::bulk) fn own_loss(&self) -> Option<f64> {
        self.is_measured.then_some(self.baseline)
    }

    /// Whether it is believed to lose much by itself.
    pub(super) fn believes_much_loss(&self) -> bool {
        self.baseline >= MUCH_OWN
    }

    /// Whether it took the rate of a leap that has just come off; `None`: that was not heard.
    pub(in crate::bulk) fn took_leap(&self) -> Option<bool> {
        self.took_leap
    }

    /// No leap goes on.
    pub(super) fn leaps_not(&mut self) {
        self.took_leap = None;
    }

    /// It is not asked in an epoch of a leap, which shows this of it. One in which too little is
    /// heard shows nothing.
    pub(super) fn note_leap(&mut self, judged: &Judged) {
        // Once is enough: it would hold the others.
        if self.took_leap != Some(false) {
            self.took_leap = Some(!judged.limits() && !judged.suspect);
        }
    }

    /// What the last epoch has shown of all says this of those that limited the rate in it.
    pub(super) fn hear_verdict(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Open => {}
            Verdict::Blamed => self.is_blamed |= self.is_limiting,
            Verdict::Absolved => self.is_blamed = false,
        }
        self.is_limiting = false;
    }

    pub(super) fn note_limiting(&mut self, judged: &Judged) {
        self.is_limiting = judged.limits();
        self.has_limited = self.is_limiting;
    }

    /// Whether it limited the rate when it was last judged.
    pub(super) fn has_limited(&self) -> bool {
        self.has_limited
    }

    /// A round trip was measured.
    pub(in crate::bulk) fn sample(&mut self, round_trip: Duration) {
        self.round_trips.0 += round_trip;
        self.round_trips.1 += 1;
        let shortest = self.shortest.unwrap_or(round_trip);
        self.shortest = Some(shortest.min(round_trip));
        self.is_heard = true;
    }

    /// The same, less what the packet may have waited for others of this host; it was the first to
    /// come `behind_lost` ones.
    pub(in crate::bulk) fn sample_wait(&mut self, round_trip: Duration, behind_lost: bool) {
        if self.is_measured {
            let wait = round_trip.saturating_sub(self.unqueued.value());
            self.overflow.sample(wait, behind_lost);
        }
    }

    /// Something was sent to the group, and copied to this receiver, which multicasts do not reach.
    pub(in crate::bulk) fn note_copied(&mut self) {
        if let Some(part) = &mut self.part {
            part.copied += 1;
        }
    }

    /// Something was sent to the group, and not copied to this receiver.
    pub(in crate::bulk) fn note_uncopied(&mut self) {
        self.part.get_or_insert_default();
    }

    /// Multicasts reach it: it gets all that is sent.
    pub(in crate::bulk) fn gets_all(&mut self) {
        self.part = None;
    }

    /// Whether so little was sent to it that it says nothing of its epoch: a loss or two may be
    /// chance.
    pub(in crate::bulk) fn has_no_say(&self) -> bool {
        self.part.is_some() && self.seen.sent < JUDGED_MIN
    }

    /// What was heard of the epoch that ends. If it `keeps` what is not enough to judge by, that
    /// adds to what comes.
    pub(super) fn end_epoch(&mut self, keeps: bool) -> Heard {
        let part = self.part.map(|part| {
            self.part = Some(Part {
                copied: 0,
                copied_before: part.copied,
            });
            // What was sent in this epoch may be on its way yet.
            part.copied.min(part.copied_before)
        });
        if keeps && (self.seen.sent < JUDGED_MIN || self.shortest.is_none()) {
            if part.is_some_and(|sent| sent < JUDGED_MIN) {
                self.unheard = 0;
                self.take_epoch();
                return Heard::NothingSent;
            }
            self.unheard = self.unheard.saturating_add(1);
            return Heard::TooLittle(self.unheard);
        }
        self.unheard = 0;
        let epoch = self.take_epoch();
        let epoch = epoch.filter(|epoch| epoch.seen.sent >= JUDGED_MIN);
        epoch.map_or(Heard::TooLittle(0), Heard::Enough)
    }

    fn take_epoch(&mut self) -> Option<Epoch> {
        let seen = core::mem::take(&mut self.seen);
        let (sum, count) = core::mem::take(&mut self.round_trips);
        let shortest = self.shortest.take()?;
        Some(Epoch {
            seen,
            round_trip: sum / count.max(1),
            shortest,
        })
    }

    /// Whether no epoch at a lower rate has shown how long a round trip is without a queue: too
    /// little was sent to it, or its answers were on their way yet.
    pub(super) fn is_unmeasured(&self) -> bool {
        !self.is_measured
    }

    /// Whether its first answer may be on its way yet: its silence is then no sign of a queue, and
    /// does not count.
    pub(super) fn may_be_far(&mut self, now: Time) -> bool {
        let since = *self.awaited_since.get_or_insert(now);
        let may_be_far = !self.is_heard && now - since < FIRST_ANSWER;
        if may_be_far {
            self.unheard = 0;
        }
        may_be_far
    }

    /// The epoch was sent at a lower rate, or is the first that says anything of this path: its
    /// shortest round trip.
    pub(super) fn note_unqueued(&mut self, epoch: &Epoch) -> Duration {
        self.is_measured = true;
        self.unqueued.sample(epoch.round_trip);
        self.shortest_unqueued.sample(epoch.shortest);
        epoch.shortest
    }

    /// What was taken for a round trip without a queue had one in it, if an epoch has a shorter
    /// one, whatever its rate.
    pub(super) fn note_shorter(&mut self, epoch: &Epoch) {
        let before = self.shortest_unqueued.value();
        if self.is_measured && epoch.shortest + SHORTER.max(before / 8) < before {
            self.note_unqueued(epoch);
        }
    }

    /// Whether there was a queue in the epoch, on average.
    fn is_queued(&self, epoch: &Epoch, least: Least) -> bool {
        let unqueued = self.unqueued.value();
        exceeds(epoch.round_trip, unqueued, least.queued, least.part_max)
    }

    /// Whether there was a queue all through the epoch.
    pub(super) fn stays(&self, epoch: &Epoch, least: Least) -> bool {
        let unqueued = self.shortest_unqueued.value();
        exceeds(epoch.shortest, unqueued, least.stays, least.part_max)
    }

    /// After an epoch at the lower rate `pace`: whether as much came through at it as before, so
    /// that what was lost more was lost to the rate, whether a queue shows or not.
    pub(super) fn was_outrun(&mut self, epoch: &Epoch, pace: f64, least: Least) -> bool {
        let lower = Tried {
            pace,
            seen: epoch.seen,
        };
        let tried = self.tried.take();
        let is_outrun = tried.is_some_and(|tried| tried.outruns(&lower));
        self.note_outrun(epoch, is_outrun, least)
    }

    /// Whether a rate outran the path, `is_outrun`: then what an epoch loses is the most that is
    /// its own. Where queues do not show, of many packets it is no more than what may lose so few
    /// by chance.
    fn note_outrun(&mut self, epoch: &Epoch, is_outrun: bool, least: Least) -> bool {
        let seen = epoch.seen;
        if is_outrun {
            self.baseline = self.baseline.min(seen.loss());
        } else if seen.sent >= MANY && self.hides_queues(least) {
            self.baseline = self.baseline.min(seen.loss_max());
        }
        is_outrun
    }

    /// Whether round trips are so short that a queue of one, as TCP needs it, does not show. On
    /// longer ways TCP could lose next to nothing, and links lose more by chance, and in bursts.
    fn hides_queues(&self, least: Least) -> bool {
        self.unqueued.value() <= least.queued
    }

    /// After an epoch at a lower rate: what was lost in it is lost anyway, unless a queue `stays`
    /// that others keep full. Whether what was lost before is no congestion.
    pub(super) fn read_probe(&mut self, epoch: &Epoch, stays: bool, starting: bool) -> bool {
        let loss = epoch.seen.loss();
        let stays = stays || self.overflow.is_known();
        (self.heavy, self.steep) = (false, 0.0);
        let Some(excess) = self.trial.take() else {
            if !starting && (!stays || loss < self.baseline) {
                self.learn(self.baseline + (loss - self.baseline) / 4.0);
            }
            return true;
        };
        let own = !stays && loss - self.baseline > excess / 2.0;
        if own {
            self.learn(loss);
        }
        own && loss <= OWN_MAX
    }

    /// So large a share is lost without congestion.
    pub(super) fn learn(&mut self, loss: f64) {
        self.baseline = loss.min(OWN_MAX);
    }

    /// What an epoch says of a path that is one of several receivers as if they were one.
    pub(super) fn judge(&mut self, epoch: &Epoch, least: Least) -> Judged {
        let queued = self.is_queued(epoch, least);
        let heavy = self.is_heavy(epoch.seen, 0.0);
        self.note_excess(epoch.seen);
        let congested = heavy || queued && self.excess > self.chance(epoch.seen, 0.0);
        self.judged(epoch, queued, congested)
    }

    /// What an epoch that was `sent` so says of a receiver that is looked at by itself.
    pub(super) fn judge_each(&mut self, epoch: &Epoch, sent: &Sent, least: Least) -> Judged {
        let tried = Tried {
            pace: sent.pace,
            seen: epoch.seen,
        };
        let before = self.tried.replace(tried);
        let outruns = before.is_some_and(|before| tried.outruns(&before));
        let outruns = self.note_outrun(epoch, outruns, least);
        let queued = self.is_queued(epoch, least) || outruns;
        let heavy = self.is_heavy(epoch.seen, UNKNOWN);
        // A burst is lost in one epoch, and congestion in the next, too.
        let lasts = core::mem::replace(&mut self.heavy, heavy);
        let waited = epoch.round_trip.saturating_sub(self.unqueued.value());
        let overflows = self.overflow.end_epoch(waited, least.queued);
        let (steep, is_steep) = match self.hides_queues(least) && !queued {
            true => self.note_steep(epoch, sent),
            false => (false, false),
        };
        if sent.is_sought && !queued && !heavy && !overflows && !steep {
            self.begin(epoch.seen);
        }
        // What is lost without a queue is no sign of one; nor is a queue without a loss a sign of
        // what was lost before.
        match queued {
            true => self.note_excess(epoch.seen),
            false => self.excess /= 2.0,
        }
        let over = self.over(epoch.seen) > 0.0 && self.excess > self.chance(epoch.seen, 0.0);
        let is_more = self.is_more(epoch.seen);
        let to_rivals = sent.has_rivals && is_more;
        let congested =
            outruns || heavy && (queued || lasts) || queued && (over || to_rivals) || is_steep;
        let to_overflow = overflows && is_more;
        if to_overflow {
            self.overflow.note_loss();
        }
        let mut judged = self.judged(epoch, queued || to_overflow, congested || to_overflow);
        judged.to_overflow = to_overflow && !congested;
        judged.stays = self.stays(epoch, least);
        judged.suspect = (heavy || steep) && judged.congestion.is_none();
        let shows = judged.limits() || judged.queued || judged.suspect;
        judged.is_clear = !shows && judged.queue <= least.stays;
        judged
    }

    /// Sums up what is lost above the baseline.
    fn note_excess(&mut self, seen: Seen) {
        let over = self.over(seen);
        self.excess = (self.excess + over - 0.002 * seen.sent as f64).max(0.0);
    }

    fn judged(&mut self, epoch: &Epoch, queued: bool, congested: bool) -> Judged {
        let over = self.over(epoch.seen);
        let congestion = congested.then_some((over / epoch.seen.sent as f64).max(0.0));
        if let Some(excess) = congestion {
            (self.excess, self.steep) = (0.0, 0.0);
            self.trial = (!queued).then_some(excess);
        }
        Judged {
            round_trip: epoch.round_trip,
            shortest: epoch.shortest,
            queue: epoch
                .shortest
                .saturating_sub(self.shortest_unqueued.value()),
            stays: false,
            queued,
            congestion,
            to_overflow: false,
            suspect: false,
            is_clear: false,
        }
    }

    /// What was lost while the rate was first sought, and no queue showed, is what is lost
    /// anyway.
    fn begin(&mut self, seen: Seen) {
        self.begun.sent += seen.sent;
        self.begun.lost += seen.lost;
        self.learn(self.begun.loss());
        self.excess = 0.0;
    }

    /// Packets lost above the baseline.
    fn over(&self, seen: Seen) -> f64 {
        seen.lost as f64 - self.baseline * seen.sent as f64
    }

    /// What chance loses above the baseline: three deviations and a half of what the baseline
    /// alone loses, or this `share`, and a few packets.
    fn chance(&self, seen: Seen, share: f64) -> f64 {
        3.0 + DEVIATIONS * libm::sqrt(self.baseline.max(share) * seen.sent as f64)
    }

    /// Whether more was lost than the baseline loses: a packet, if that is nothing.
    fn is_more(&self, seen: Seen) -> bool {
        self.over(seen) > 0.5 + DEVIATIONS * libm::sqrt(self.baseline * seen.sent as f64)
    }

    /// Sums up what is lost beyond what TCP could lose at this rate: its window is at most
    /// `sqrt(3 / 2) / sqrt(p)` packets where it loses a share `p` (Mathis et al. 1997), and
    /// CUBIC's two to three times that where round trips are short. Whether this epoch lost so much
    /// alone, and whether that is congestion: while the rate is sought one epoch shows it, later
    /// two.
    fn note_steep(&mut self, epoch: &Epoch, sent: &Sent) -> (bool, bool) {
        let seen = epoch.seen;
        if seen.sent < MANY {
            return (false, false);
        }
        let window = sent.pace * epoch.round_trip.as_secs_f64() / sent.packet as f64;
        let most = (STEEP / (window * window)).max(self.baseline);
        let beyond = self.over(seen) - most * seen.sent as f64;
        let chance = self.chance(seen, 0.0);
        self.steep = (self.steep + beyond.min(STEEP_ONCE * chance)).max(0.0);
        let alone = beyond > chance;
        (alone, alone && sent.is_sought || self.steep > chance)
    }

    /// Whether so much was lost that it is no chance, where a path may lose this `share` by itself.
    fn is_heavy(&self, seen: Seen, share: f64) -> bool {
        let over = self.over(seen);
        over > HEAVY * seen.sent as f64 && over > self.chance(seen, share)
    }
}

impl Seen {
    fn loss(self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    /// The largest share of loss that may lose so few by chance.
    fn loss_max(self) -> f64 {
        let lost = self.lost as f64;
        (lost + 3.0 + DEVIATIONS * libm::sqrt(lost)) / self.sent.max(1) as f64
    }

    /// The variance of the loss, if each packet is lost by itself.
    fn variance(self) -> f64 {
        let loss = self.loss();
        (loss * (1.0 - loss)).max(0.0) / self.sent.max(1) as f64
    }
}

/// Whether a round trip is so much longer than one without a queue, `least` in any case, that there
/// is one. Half as long again is enough, and so is `part_max`.
fn exceeds(round_trip: Duration, unqueued: Duration, least: Duration, part_max: Duration) -> bool {
    round_trip > unqueued + (unqueued / 2).min(part_max).max(least)
}
