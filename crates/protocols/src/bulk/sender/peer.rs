//! What a sender knows of one receiver.

use core::time::Duration;

use groupcast_core::Time;

use super::super::numbers::{PacketNumber, Packets, PassNumber, Stamp};
use super::super::ranges::RangeSet;
use super::super::rate::Path;
use super::super::wire::{ReceiverReport, ReplyTag, Status};
use super::attendance::Told;
use super::copies::Uncopied;
use super::joining::Joining;
use super::returns::PeerReturn;
use super::waiting::Said;
use crate::xgm::Subgroups;

/// What a receiver takes: bytes a second, and bytes at once.
pub(super) type Takes = (u64, u64);

/// A receiver that is not settled.
#[derive(Debug)]
pub(super) struct Peer {
    /// Whether it moves the window: it is served in this pass and not demoted.
    pub(super) gates: bool,
    /// It has said what it needs in this pass.
    pub(super) ready: bool,
    /// A pass lists it, and it has not said since that it does not know.
    pub(super) is_listed: bool,
    /// It has all below this packet, and takes those below the limit.
    pub(super) next: PacketNumber,
    /// The last stamp given when that was learnt.
    learnt_at: Stamp,
    pub(super) limit: PacketNumber,
    /// The first pass whose reports say how much room it has.
    limited_since: PassNumber,
    /// The packets that it had room for when it was heard first.
    buffer: u64,
    /// What it misses, as it said when it registered or a pass began.
    pub(super) needs: RangeSet<PacketNumber>,
    /// Below this packet that is all that it needs, as far as is known.
    pub(super) listed_below: PacketNumber,
    /// Parity restores what it needs of blocks that begin below this packet.
    restores_below: PacketNumber,
    /// It has said that it has everything, or its user that all is well.
    pub(super) holds: bool,
    pub(super) concluded: bool,
    /// The mark that it has delivered up to, in bytes, as it has echoed.
    pub(super) delivers_to: Option<u64>,
    /// The subgroups that it is in, as it has said.
    pub(super) subgroups: Option<Subgroups>,
    /// Where it begins, if it came late.
    pub(super) joining: Option<Joining>,
    /// What its user has replied.
    pub(super) returned: PeerReturn,
    /// It has said that it misses what is not kept any more.
    pub(super) is_outrun: bool,
    /// The highest stamp that it has named.
    pub(super) seen: Stamp,
    pub(super) heard: Time,
    /// How long it has held back the others.
    pub(super) holds_back: Duration,
    /// Its last stamp and count of transmissions; `None` before they can be compared.
    counted: Option<(Stamp, u64)>,
    /// The share of transmissions that it loses, smoothed, and of how many that is known.
    pub(super) loss: f64,
    pub(super) sampled: u64,
    /// What it takes, if it has named any limit.
    pub(super) takes: Option<Takes>,
    /// What its packets show to the rate control.
    pub(super) path: Path,
    /// Its path held the rate of all, which does not ask it any more.
    pub(super) is_outpaced: bool,
    /// Whether it is to hear what is sent to the group.
    pub(super) told: Told,
    /// What it was told of when it is served.
    pub(super) said: Said,
    /// What was sent and not copied to it, if it gets copies.
    pub(super) uncopied: Uncopied,
}

impl Peer {
    pub(super) fn new(now: Time) -> Self {
        Self {
            gates: false,
            ready: false,
            is_listed: false,
            next: PacketNumber::ZERO,
            learnt_at: Stamp::default(),
            limit: PacketNumber::ZERO,
            limited_since: PassNumber::default(),
            buffer: 0,
            needs: RangeSet::default(),
            listed_below: PacketNumber::ZERO,
            restores_below: PacketNumber::ZERO,
            holds: false,
            concluded: false,
            delivers_to: None,
            subgroups: None,
            joining: None,
            returned: PeerReturn::default(),
            is_outrun: false,
            seen: Stamp::default(),
            heard: now,
            holds_back: Duration::ZERO,
            counted: None,
            loss: 0.0,
            sampled: 0,
            takes: None,
            path: Path::default(),
            is_outpaced: false,
            told: Told::default(),
            said: Said::default(),
            uncopied: Uncopied::default(),
        }
    }

    /// What a receiver takes at least, whatever it says: bytes a second, and bytes at once.
    pub(super) const TAKES_LEAST: u64 = 1500;

    /// Takes in what it says of itself, while `stamp` is the last stamp given; whether it has more
    /// than before.
    pub(super) fn read(&mut self, now: Time, report: &ReceiverReport, stamp: Stamp) -> bool {
        self.heard = now;
        self.seen = self.seen.max(report.seen);
        self.concluded |= report.status == Status::Concluded;
        self.holds |= matches!(report.status, Status::Holding | Status::Concluded);
        if report.pass >= self.limited_since {
            self.limit = self.limit.max(report.limit);
        }
        if self.buffer == 0 {
            self.buffer = report.limit.distance_from(report.next);
        }
        self.delivers_to = self.delivers_to.max(report.delivers_to);
        self.count(report);
        self.has(report.next, stamp)
    }

    /// What a receiver takes that says this: this many bytes a second, and this many at once; a
    /// rate of 0 is no limit. No receiver can stop the others by what it names: it gets a packet a
    /// second.
    pub(super) fn limits(ReplyTag { rate, burst }: ReplyTag) -> Option<Takes> {
        let least = Self::TAKES_LEAST;
        (rate > 0).then(|| (rate.max(least), burst.max(least)))
    }

    /// What both of two receivers take.
    pub(super) fn take_both(one: Option<Takes>, other: Option<Takes>) -> Option<Takes> {
        match (one, other) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.min(other.1))),
            (one, other) => one.or(other),
        }
    }

    /// It has all below `next`, as is learnt while `stamp` is the last stamp given; whether that is
    /// more than before.
    pub(super) fn has(&mut self, next: PacketNumber, stamp: Stamp) -> bool {
        let more = next > self.next;
        if more {
            self.next = next;
            self.learnt_at = stamp;
        }
        more
    }

    /// Whether it has to say something; packets below `reach` were sent, and there is no room
    /// beyond `closed`, if that stops the sender. A receiver that has all that was sent and no room
    /// for more is asked, too: it may be gone, or its word of room may be lost.
    pub(super) fn owes_word(&self, reach: PacketNumber, closed: Option<PacketNumber>) -> bool {
        self.next < reach || Some(self.limit) == closed
    }

    /// Whether more than half of its room is taken by what its user has not, when all packets below
    /// `top` were sent.
    pub(super) fn is_short_of_room(&self, top: PacketNumber) -> bool {
        self.limit < top + self.buffer / 2
    }

    /// Whether it knows of later transmissions than when it had more: it has lost what it had, as a
    /// receiver does that took the sender for gone and met it again.
    pub(super) fn has_begun_anew(&self, report: &ReceiverReport) -> bool {
        report.next < self.next && report.seen > self.learnt_at
    }

    /// It has lost what it had: nothing but `report` is known of it.
    pub(super) fn begin_anew(&mut self, now: Time, report: &ReceiverReport, stamp: Stamp) {
        let (gates, ready, subgroups, told) = (self.gates, self.ready, self.subgroups, self.told);
        let (said, is_outpaced) = (self.said, self.is_outpaced);
        *self = Self {
            gates,
            ready,
            subgroups,
            told,
            said,
            is_outpaced,
            uncopied: core::mem::take(&mut self.uncopied),
            ..Self::new(now)
        };
        self.read(now, report, stamp);
        self.learnt_at = stamp;
    }

    /// Takes in what it says it needs of a stream of `packets` packets (`known` or a guess). Below
    /// the packet returned it has listed all of that.
    pub(super) fn read_needs(
        &mut self,
        report: &ReceiverReport,
        packets: PacketNumber,
        known: bool,
    ) -> PacketNumber {
        self.needs = RangeSet::default();
        self.restores_below = report.restores_below.unwrap_or_default();
        for gap in &report.missing {
            self.needs.insert(gap.start..gap.end.min(packets));
        }
        if self.next < packets {
            // Whatever it lists, the lowest packet that it misses is one that it needs.
            self.needs.insert(self.next..self.next + 1);
        }
        if !known {
            self.needs
                .insert(report.listed_below.max(self.next)..packets);
        }
        self.listed_below = match known {
            true => report.listed_below.max(self.next + 1).min(packets),
            false => packets,
        };
        self.listed_below
    }

    /// Whether it had nothing of a block when the pass began.
    pub(super) fn needs_all(&self, block: &Packets) -> bool {
        let range = self.needs.range_with(block.start);
        range.is_some_and(|range| range.end >= block.end)
    }

    /// Whether parity restores what it misses of a block: what it held of it when the pass began is
    /// in its memory, or nothing was held.
    pub(super) fn can_restore(&self, block: &Packets) -> bool {
        block.start < self.restores_below || self.needs_all(block)
    }

    /// Compares the transmissions that it has seen with those that it has received.
    fn count(&mut self, report: &ReceiverReport) {
        let now = (report.seen, report.received);
        let Some((seen, received)) = self.counted else {
            self.counted = Some(now);
            return;
        };
        let Some(passed @ 1..) = report.seen.since(seen) else {
            return;
        };
        self.counted = Some(now);
        let uncopied = self.uncopied.take(seen, report.seen);
        let Some(sent @ 1..) = uncopied.map(|uncopied| passed - uncopied) else {
            return;
        };
        let lost = sent.saturating_sub(report.received.saturating_sub(received));
        self.path.seen.sent += sent;
        self.path.seen.lost += lost;
        // Smoothed over about 512 transmissions.
        let weight = sent as f64 / (sent + 512) as f64;
        self.loss += (lost as f64 / sent as f64 - self.loss) * weight;
        self.sampled += sent;
    }

    /// Whether a pass has to serve it: it misses some of so many packets, or is to return something
    /// and knows of no pass that lists it, since it has everything by listening. Before that it
    /// returns nothing.
    pub(super) fn wants_pass(&self, packets: PacketNumber, has_returns: bool) -> bool {
        self.next < packets || has_returns && !self.is_listed
    }

    /// Pass `number` begins. In a later one it says anew how much room it has.
    pub(super) fn begin_pass(&mut self, now: Time, number: PassNumber) {
        if number > PassNumber::FIRST {
            self.limit = PacketNumber::ZERO;
            self.limited_since = number;
        }
        self.gates = true;
        self.is_outrun = false;
        self.ready = false;
        self.is_listed = true;
        self.counted = None;
        self.is_outpaced = false;
        self.holds_back = Duration::ZERO;
        self.heard = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_stops_the_others_by_what_it_takes() {
        let limits = |rate, burst| Peer::limits(ReplyTag { rate, burst });
        assert_eq!(limits(1, 0), Some((Peer::TAKES_LEAST, Peer::TAKES_LEAST)));
        assert_eq!(limits(1_000_000, 9_000), Some((1_000_000, 9_000)));
        assert_eq!(limits(0, 0), None);
    }

    #[test]
    fn what_both_take_is_the_least_of_each() {
        let (fast, slow) = (Some((9_000, 2_000)), Some((4_000, 3_000)));
        assert_eq!(Peer::take_both(fast, slow), Some((4_000, 2_000)));
        assert_eq!(Peer::take_both(None, slow), slow);
        assert_eq!(Peer::take_both(fast, None), fast);
        assert_eq!(Peer::take_both(None, None), None);
    }
}
