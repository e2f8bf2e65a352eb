//! How fast a sender sends: a bucket of bytes that fills at a rate (`bucket`), and a controller
//! that finds the rate. What is here says when an epoch ends; `ended` is what all paths together
//! have shown in it, `next` the rate after it, `asking` when receivers are asked for what is
//! learnt, `host` what the sender's own host shows.
//!
//! The controller looks at loss and round trip, one epoch after the other: at the worst loss among
//! the receivers that the sender waits for and the round trips of all, or, if it yields, at each
//! receiver by itself (`path`).
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
//! A controller that yields differs in these things:
//!
//! - A queue that is there through a whole epoch is congestion where nothing is lost, too: the
//!   queue of a host whose sockets wait holds whatever they put into it. The rate falls below what
//!   went through. If the queue stays all the same, others keep it full until something is lost, as
//!   TCP does: the rate is restored, and for a while only loss counts, each packet of it, and a
//!   queue that is full (`rivals`). A queue has gone when half of it is left: one that is only a
//!   little shorter is kept by others who grow slowly. If it becomes twice as long without a loss,
//!   it is looked into again: others may be gone, or send without filling it, as BBR does. One that
//!   is four times as long though the rate has fallen twice is filled by others at once; if nothing
//!   is lost soon, it is looked into again.
//! - Beside others a rate that was still sought goes on doubling until something is lost, and one
//!   that fell comes back by the time, as CUBIC's window does (`regrowth`).
//! - What is lost while the packets behind it have waited longer than others is lost to a queue,
//!   though that is too short to show (`overflow`). The rate falls, but no further than to a
//!   quarter of what went through: that leaves others three quarters of their share, however many
//!   they are, and what TCP beside such a queue loses says little of the rate.
//! - After the rate fell, a round trip of the path that it fell for goes by before anything is
//!   judged: what is lost until then was sent before. While that path is not heard, the rate does
//!   not grow, and who else is there is not forgotten.
//! - What is lost without a queue is no own loss of the link if as much comes through at a lower
//!   rate: the rate falls to that.
//! - Where an epoch has many packets, and round trips are so short that a queue of one does not
//!   show, a loss that TCP could not have at this rate is looked into like a heavy one, though it
//!   is small; while the rate is sought it ends that.
//! - A queue of this host's own link counts by itself, where the host says what waits there of what
//!   was sent: it is known without a round trip to compare with, so it may be there from the first
//!   packet on. TCP keeps little in that queue, whatever its window, so a short one is the limit.
//!   It loses nothing there, either: it takes what is left, and leaves what is taken. So where the
//!   host says what its link carries of all, the rate goes to a third of that. What waits there is
//!   no queue of the network.
//! - After loss it falls as far as TCP's window, to no less than half where a long queue lost the
//!   packets, whatever others lose there when they begin, and grows by the step of TCP's, as far as
//!   a twentieth of the rate.
//! - It begins low, asks for reports by the time, too, does not grow while it hears nothing of some
//!   receiver, and falls when that lasts.
//!
//! Where hosts without multicast get copies, a packet for the group leaves this host several times,
//! once for each. The rate is that of all these bytes, which share the host's own link: so a fixed
//! rate and a ceiling are bounds of what leaves, and beside TCP a transfer counts as one flow. Who
//! gets copies of a part only is judged by that: a path to which fewer packets were sent in an
//! epoch than judge it has no say, neither by its silence nor by its losses.
//!
//! The first epoch that judges a path shows how long its round trip is, if none at a lower rate
//! did: too little was sent to it, or its answers were on their way yet. A long one may be the
//! queue of others, so the next epoch is sent at a much lower rate, once; not if it is the very
//! first epoch that judges. The same follows if much is lost while the rate is first sought and no
//! queue shows: what keeps overflowing may be a queue that others keep full. No path is believed to
//! lose more than two fifths by itself, and one that is believed to lose a tenth is looked into
//! again every 64 epochs: where the rate outruns the link, as much comes through at a quarter of
//! it. Until a receiver was heard for the first time, the rate neither grows nor falls for it, for
//! a second at most.
//!
//! A few receivers that hold the rate far below what the others take can be left behind (`few`),
//! where they are served later.
//!
//! One that takes what others leave differs in one thing more: a queue that stays is never taken
//! for one that others may keep. The rate falls on, down to its least, until the queue is gone.

mod asking;
mod bucket;
mod ended;
mod few;
mod host;
mod next;
mod overflow;
mod path;
mod regrowth;
mod rivals;

use core::time::Duration;

use groupcast_core::{Time, Uplink};

use self::asking::Asking;
pub(super) use self::asking::Turn;
use self::bucket::Bucket;
use self::few::Few;
use self::host::{HostQueue, Idle};
pub(super) use self::path::Path;
use self::regrowth::Regrowth;
use self::rivals::Rivals;
use super::config::{RateControl, Share};
use super::numbers::Epoch;

/// What an epoch saw at a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Seen {
    /// Transmissions, and how many of them were lost.
    pub(super) sent: u64,
    pub(super) lost: u64,
}

/// How fast to send.
#[derive(Debug)]
pub(super) struct Rate {
    /// Nothing may be sent.
    paused: bool,
    /// Bytes a second; `None`: as fast as the window lets.
    rate: Option<f64>,
    max: f64,
    adaptive: bool,
    /// Whether queues count where nothing is lost.
    yields: bool,
    /// Whether it takes what others leave: it falls for their queue, too.
    gives_way: bool,
    /// What may be sent now.
    bucket: Bucket,
    /// How often a packet left this host, on average, in the last epoch that used the rate up.
    fan_out_found: Option<f64>,
    /// When all receivers are asked.
    asking: Asking,
    /// This epoch, and when it began.
    epoch: Epoch,
    epoch_began: Time,
    /// How long there was nothing to send in it.
    idle: Idle,
    /// What waited in this host of what was sent, and what its link carried.
    host_queue: HostQueue,
    starting: bool,
    /// Whether this epoch still shows what the rate before it did, and for how long at least: the
    /// round trip of the path that the rate fell for.
    settling: bool,
    settles_for: Duration,
    /// Heavy loss without a queue is being looked into.
    trial: Option<Trial>,
    /// Whether a long way, or what is lost on it, may be due to a queue of others.
    far: Far,
    /// Whether some path is believed to lose much by itself.
    believes_much_loss: bool,
    /// What all receivers together show, where they are not looked at one by one.
    whole: Path,
    /// The rate falls for a queue alone.
    draining: Option<Draining>,
    /// Whether others are taken to keep a queue full, so that only loss counts.
    rivals: Rivals,
    /// For so many epochs the queue is taken to be that of this host.
    own: u32,
    /// Epochs in a row without a queue and in which the rate did not fall.
    calm: u32,
    /// Up to this rate it doubles again, after it fell because nothing was heard, or in a later
    /// pass.
    regains: f64,
    /// Whether a few receivers hold the rate.
    few: Few,
    /// The most that went through of late while a queue too short to show overflowed.
    overflowed: f64,
    /// What it comes back to, beside others.
    regrowth: Option<Regrowth>,
}

/// Whether a path is looked into that had a long round trip, or much loss, at first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Far {
    /// There was none.
    #[default]
    No,
    /// This epoch is sent at a much lower rate.
    LookedInto,
    /// It was.
    Known,
}

/// The rate has fallen: was the loss congestion?
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The rate before, and whether it was still sought by doubling.
    rate: f64,
    starting: bool,
}

/// The rate has fallen for a queue without loss: does the queue go away?
#[derive(Clone, Copy, Debug)]
struct Draining {
    /// The rate before, and the shortest round trip of the last epoch.
    rate: f64,
    shortest: Duration,
    /// How often the queue was no shorter for it.
    vain: u32,
    /// How long the queue was when the rate began to fall; `None`, if it is this host's own, which
    /// is told.
    queue: Option<Duration>,
    /// Whether the rate was sought by doubling until then, and nothing was lost since.
    starting: bool,
}

impl Draining {
    /// The queue has gone when it is shorter than this part of what it was.
    const GONE: u32 = 2;
    /// Others keep it if, though the rate has fallen so often, it is so many times what it was.
    const GROWN: u32 = 4;
    const GROWN_AFTER: u32 = 2;
    /// And so long: a shorter one is soon seen to stay.
    const GROWN_MIN: Duration = Duration::from_millis(20);

    /// Whether the queue has grown for others, if the shortest round trip of an epoch is this.
    fn grows(&self, shortest: Duration) -> bool {
        let has_fallen = self.vain >= Self::GROWN_AFTER;
        let times = |began: Duration| shortest > Self::GROWN_MIN.max(began * Self::GROWN);
        has_fallen && self.queue.is_some_and(times)
    }

    /// Whether a queue of this length is what is left of it.
    fn lingers(&self, queue: Duration) -> bool {
        self.queue.is_some_and(|began| queue * Self::GONE > began)
    }
}

impl Rate {
    const INITIAL: f64 = 16e6;
    /// The same, if it yields: nothing is known of the path yet, and others may use it.
    const INITIAL_YIELDING: f64 = 1e6;
    const MIN: f64 = 16e3;
    /// After congestion the rate is this part of what it was.
    const DECREASE: f64 = 0.85;
    /// And this one, if it yields and there is a queue: as TCP's window (CUBIC's), because a single
    /// loss is not yet congestion here, so it must not cost less.
    const DECREASE_YIELDING: f64 = 0.7;
    /// At least this part is left, if it yields and a queue of this length or more lost the
    /// packets: what others lose at their start is not what this rate sends too much.
    const LEFT: f64 = 0.5;
    const LEFT_QUEUE: Duration = Duration::from_millis(2);
    /// And this one, if it gives way: more than any TCP.
    const DECREASE_GIVING_WAY: f64 = 0.5;
    /// A queue that is no shorter after so many decreases is kept full by others.
    const VAIN_MAX: u32 = 5;
    /// Less than this part of the rate was sent: the host takes no more.
    const HELD_BACK: f64 = 0.9;
    /// For so many epochs that is then believed, and a queue of this length is no reason to fall:
    /// TCP keeps some milliseconds of its own at its host, whatever others do.
    const OWN: u32 = 1024;
    const OWN_QUEUE: Duration = Duration::from_millis(5);
    /// The rate falls if what was sent waits in this host for so long all through an epoch. TCP
    /// keeps no more than two segments or a millisecond's worth in that queue: a longer one takes
    /// its share away.
    const OWN_STAYS: Duration = Duration::from_millis(1);
    /// Where the host tells that its link carries others, too, this is the limit, and the rate
    /// falls to no less than this part of what it carries.
    const OWN_STAYS_SHARED: Duration = Duration::from_micros(500);
    const OWN_SHARE: f64 = 1.0 / 3.0;
    /// A rate below that part becomes so many times what it was in an epoch, though packets wait.
    const OWN_GROWTH: f64 = 1.25;
    /// The link carries nobody else if this part of it or more is what was sent here, with so many
    /// bytes more for each packet: headers, a seal, checksums.
    const OWN_ALONE: f64 = 0.95;
    const OWN_OVERHEAD: usize = 90;
    /// Packets per round trip and round trip: as fair to TCP as the smaller decrease allows.
    const INCREASE: f64 = 0.3;
    /// If it yields: as fair as TCP is (RFC 9438, section 4.3), and as fast as with such a round
    /// trip, if it is shorter; and this part of the rate in each epoch, because where links are
    /// fast packets would be too few.
    const INCREASE_YIELDING: f64 = 0.53;
    const YIELDING_ROUND_TRIP_MIN: Duration = Duration::from_millis(2);
    /// No more than this part of the rate in an epoch, or so many packets.
    const YIELDING_GROWTH_MAX: f64 = 0.05;
    const YIELDING_PACKETS_MAX: f64 = 2.0;
    /// In so many epochs in a row nothing was heard of some receiver: the rate falls.
    const UNHEARD_MAX: u32 = 4;
    /// But not below this, or it would take long to learn that they are heard again.
    const UNHEARD_MIN: f64 = 64e3;
    const YIELDING_GROWTH: f64 = 0.002;
    /// After the first queue that a rate sought by doubling meets, if it yields.
    const DECREASE_AFTER_START: f64 = 0.5;
    /// For what is lost to a queue too short to show it falls no further than to this part of the
    /// most that went through, of which this is left after an epoch.
    const OVERFLOWED: f64 = 0.25;
    const OVERFLOWED_FADES: f64 = 0.999;
    /// An epoch is at least this long, and two round trips; beside rivals one, because TCP falls as
    /// soon as it hears of a loss, and again while a queue overflows for others.
    const EPOCH_MIN: Duration = Duration::from_millis(8);
    /// And has so many packets.
    const EPOCH_PACKETS_MIN: u64 = 16;
    /// Of so many epochs one is sent at a lower rate, and at which part of it.
    const PROBE_EVERY: u32 = 16;
    const PROBE: f64 = 0.7;
    /// At this part of it one is sent after the round trip of a long way was measured first, of
    /// this length or more: a queue of others empties meanwhile.
    const PROBE_FAR: f64 = 0.25;
    const FAR: Duration = Duration::from_millis(20);
    /// The same in one of so many epochs, if much is taken for a path's own loss: where the rate
    /// outruns the link, as much comes through.
    const DOUBT_EVERY: u32 = 4 * Self::PROBE_EVERY;

    pub(super) fn new(control: RateControl, now: Time) -> Self {
        let share = match control {
            RateControl::Adaptive { share, .. } => Some(share),
            RateControl::Window | RateControl::Fixed { .. } => None,
        };
        let (rate, max) = match control {
            RateControl::Window => (None, f64::MAX),
            RateControl::Fixed { bytes_per_second } => (Some(bytes_per_second as f64), f64::MAX),
            RateControl::Adaptive { max, share } => {
                let max = max.map_or(f64::MAX, |max| max as f64);
                let initial = match share {
                    Share::Fair | Share::Rest => Self::INITIAL_YIELDING,
                    Share::All => Self::INITIAL,
                };
                (Some(initial.min(max)), max)
            }
        };
        Self {
            paused: false,
            rate,
            max,
            adaptive: share.is_some(),
            yields: matches!(share, Some(Share::Fair | Share::Rest)),
            gives_way: share == Some(Share::Rest),
            bucket: Bucket::new(now),
            fan_out_found: None,
            asking: Asking::new(now),
            epoch: Epoch::default(),
            epoch_began: now,
            idle: Idle::default(),
            host_queue: HostQueue::default(),
            starting: true,
            settling: false,
            settles_for: Duration::ZERO,
            trial: None,
            far: Far::No,
            believes_much_loss: false,
            whole: Path::default(),
            draining: None,
            rivals: Rivals::default(),
            own: 0,
            calm: 0,
            regains: 0.0,
            few: Few::default(),
            overflowed: 0.0,
            regrowth: None,
        }
    }

    /// A few receivers may hold the rate for so long, if the others would take far more; `None`:
    /// for ever. With `one_of_two` that is so for one of two, too.
    pub(super) fn leave_behind_after(&mut self, patience: Option<Duration>, one_of_two: bool) {
        self.few = Few::of(patience, one_of_two);
    }

    /// Whether those whose paths are [blamed](Path::is_blamed), and
    /// [did not take it](Path::took_leap), are to be left behind: the others take far more. Asked
    /// once.
    pub(super) fn leaves_behind(&mut self) -> bool {
        self.few.take_proven()
    }

    /// Data is sent from now on: what was before says nothing of any path.
    pub(super) fn begin(&mut self, now: Time) {
        self.epoch_began = now;
        self.idle = Idle::default();
    }

    /// All was sent that there is now, and that receivers have room for; or the rate, the window or
    /// the host held something back.
    pub(super) fn note_idle(&mut self, now: Time, is_idle: bool) {
        self.idle.note(now, is_idle);
    }

    /// Whether it wants to know how this host's link is.
    pub(super) fn wants_uplink(&self, now: Time) -> bool {
        self.yields && self.host_queue.is_wanted(now)
    }

    /// What this host says of its link.
    pub(super) fn handle_uplink(&mut self, now: Time, uplink: Uplink) {
        if self.yields {
            self.host_queue.note(now, uplink);
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
            bucket: self.bucket.anew(now),
            few: self.few.anew(),
            epoch: self.epoch,
            // What is on its way was sent at another rate.
            settling: true,
            ..Self::new(control, now)
        };
    }

    /// A later pass begins: what was found is of the paths of other receivers, and of as many
    /// copies as they got. A rate that is found begins with what each copy had. One that yields
    /// begins anew, below what comes through to those that lose the share `loss` of it, and doubles
    /// up to that.
    pub(super) fn begin_pass(&mut self, now: Time, loss: f64) {
        let Some(rate) = self.rate.filter(|_| self.adaptive) else {
            return;
        };
        // The last repairs go to few, and do not use the rate up: it was not found for them.
        let latest = f64::from(self.bucket.copies());
        let each = rate / self.fan_out_found.unwrap_or(latest);
        if !self.yields {
            self.rate = Some(each);
            self.fan_out_found = Some(1.0);
            self.whole = Path::default();
            self.trial = None;
            self.bucket.forget_used();
            self.begin(now);
            return;
        }
        let through = each * (1.0 - loss.clamp(0.0, 1.0)) * Self::PROBE;
        let least = Self::UNHEARD_MIN.min(each);
        *self = Self {
            paused: self.paused,
            rate: Some(Self::INITIAL_YIELDING.min(through).max(least)),
            max: self.max,
            bucket: self.bucket.with_copies_anew(now),
            adaptive: true,
            yields: true,
            gives_way: self.gives_way,
            asking: self.asking.anew(),
            starting: false,
            fan_out_found: Some(1.0),
            regains: each,
            few: self.few.anew(),
            ..Self::new(RateControl::Window, now)
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
        let pace = self.pace();
        pace.is_none_or(|pace| self.bucket.has_any(now, pace))
    }

    /// Receivers take so many bytes a second, and so many at once, and no more: `None`, they have
    /// named no limit.
    pub(super) fn bound(&mut self, takes: Option<(u64, u64)>) {
        self.bucket.bound(takes);
    }

    /// From now on each packet leaves this host so often: at least once.
    pub(super) fn fan_out(&mut self, times: u32) {
        self.bucket.fan_out(times);
    }

    /// A packet of so many bytes was sent, to all that it is for.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.asking.note_sent();
        self.bucket.spend(bytes, self.rate.is_some());
        self.host_queue.note_sent(self.bucket.leaves(bytes) as u64);
    }

    /// When something may be sent again; `None`, as long as it is paused.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        if self.paused {
            return None;
        }
        let pace = self.pace();
        Some(pace.map_or(now, |pace| self.bucket.due(now, pace)))
    }

    /// The rate of this epoch.
    fn pace(&self) -> Option<f64> {
        let part = match self.is_probe() {
            true if self.far == Far::LookedInto || self.doubts_loss() => Self::PROBE_FAR,
            true => Self::PROBE,
            false => 1.0,
        };
        let own = self.rate.map(|rate| rate * part);
        self.bucket.bounded(own)
    }

    /// Whether this epoch is one at a lower rate.
    fn is_probe(&self) -> bool {
        let due = !self.starting && self.epoch.0.is_multiple_of(Self::PROBE_EVERY);
        let looks = self.trial.is_some() || self.far == Far::LookedInto;
        self.adaptive && !self.few.leaps() && (due || looks)
    }

    /// Whether this epoch looks into a large loss that is taken for a path's own.
    fn doubts_loss(&self) -> bool {
        let due = self.epoch.0.is_multiple_of(Self::DOUBT_EVERY);
        due && self.yields && self.believes_much_loss && self.trial.is_none()
    }

    /// A round trip to one of several receivers was measured.
    pub(super) fn sample(&mut self, round_trip: Duration) {
        self.whole.sample(round_trip);
    }

    /// How long this many packets take at this rate, and at most on a link that takes it.
    pub(super) fn lasts(&self, packets: u32, packet: usize) -> Duration {
        let seconds = f64::from(packets) * packet as f64 / self.rate.unwrap_or(f64::MAX);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Whether receivers are looked at one by one.
    pub(super) fn looks_at_each(&self) -> bool {
        self.yields
    }

    /// Whether all of so many receivers are to report on the packet that is sent now; then they are
    /// taken to be asked. Where packets are few, asking by their number would be too seldom.
    pub(super) fn asks(&mut self, now: Time, receivers: usize) -> bool {
        self.asking.is_time(now, receivers, self.yields)
    }

    /// Whether all receivers are to report on the packet that is sent now, whose turn it is. What a
    /// rate that yields needs to know it asks by the time. So it asks many by the number of packets
    /// no more often than they can be heard, as long as another turn is early enough; and when this
    /// turn is the last before room or window end, those whose answers may be lost.
    pub(super) fn asks_in_turn(&self, now: Time, turn: &Turn) -> bool {
        !(self.yields && self.asking.may_pass_over(now, turn))
    }

    /// All receivers are asked.
    pub(super) fn note_asked(&mut self, now: Time) {
        self.asking.note_asked(now);
    }

    /// Receivers were asked, and none has answered for long: a rate that yields falls.
    pub(super) fn unheard(&mut self) {
        if let Some(rate) = self.rate.filter(|_| self.yields) {
            self.starting = false;
            self.settling = true;
            let rate = self.few.abandon().unwrap_or(rate);
            self.regains = self.regains.max(rate / 2.0);
            self.rate = Some((rate / 2.0).max(Self::UNHEARD_MIN.min(rate)));
        }
    }

    /// Whether an epoch is over: there is something to learn from.
    pub(super) fn epoch_ends(&self, now: Time, round_trip: Duration, packet: usize) -> bool {
        let round_trips = if self.rivals.are_there() { 1 } else { 2 };
        let least = Self::EPOCH_MIN.max(round_trip * round_trips);
        let settles_for = match self.settling {
            true => self.settles_for,
            false => Duration::ZERO,
        };
        self.adaptive
            && !self.paused
            && now - self.epoch_began >= least.max(settles_for)
            // Of fewer packets a slow sender would never learn enough to become faster.
            && self.bucket.used() >= Self::EPOCH_PACKETS_MIN * self.bucket.leaves(packet) as u64
    }

    /// An epoch is over; `worst` is what the receiver that lost most has seen in it.
    pub(super) fn end_epoch(&mut self, now: Time, packet: usize, worst: Seen) {
        let mut whole = core::mem::take(&mut self.whole);
        whole.seen = worst;
        self.end_epoch_of(now, packet, 1, core::iter::once(&mut whole));
        self.whole = whole;
    }

    /// The same, where each of `paths` is that of a receiver.
    pub(super) fn end_epoch_of<'a>(
        &mut self,
        now: Time,
        packet: usize,
        receivers: u32,
        paths: impl Iterator<Item = &'a mut Path>,
    ) {
        let (Some(rate), Some(pace)) = (self.rate, self.pace()) else {
            return;
        };
        let ended = self.close_epoch(now, rate, pace, packet, receivers);
        let found = self.look_at(&ended, paths);
        self.believes_much_loss = found.believes_much_loss;
        if !found.any {
            return self.note_unheard(&ended);
        }
        self.few.heard();
        if ended.settles {
            return;
        }
        if ended.is_unqueued {
            return self.learn_unqueued(&ended, &found);
        }
        if self.far == Far::No && self.is_in_doubt(&found) {
            self.far = Far::LookedInto;
            return;
        }
        // Who says nothing may be the one before whom packets wait.
        self.own = self.own.saturating_sub(1);
        self.adapt(&ended, &found);
    }
}

#[cfg(test)]
mod tests;
