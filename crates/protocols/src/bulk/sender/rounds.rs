//! The rounds of the Multidriver (003 5.3.1): one request, a reply of every receiver, and the
//! minimum of all, which is acted on once. At most one round is open.
//!
//! Receivers are known here, so what each has said before stands until it says more: no minimum
//! passes a receiver that is silent.

use alloc::collections::BTreeSet;
use core::time::Duration;

use groupcast_core::{MemberId, Time};

use super::super::config::Multidriver;
use super::super::numbers::{PacketNumber, Stamp};
use super::super::ranges::RangeSet;
use super::super::wire::ReceiverReport;

/// The replies to one request, and to its repeats.
#[derive(Debug)]
pub(super) struct Round {
    /// The request's stamp. Replies echo it, or that of a repeat, which is no lower.
    pub(super) stamp: Stamp,
    /// One past the highest packet that was sent before.
    pub(super) top: PacketNumber,
    /// When the sender no longer waits for the rest.
    pub(super) due: Time,
    replied: BTreeSet<MemberId>,
    /// All that have replied have the packets below.
    pub(super) next: PacketNumber,
    /// What any of them misses.
    pub(super) missing: RangeSet<PacketNumber>,
    /// The longest round trip of a reply; `None` before the first, and once any was asked again:
    /// which request a reply is to is not known then.
    pub(super) round_trip: Option<Duration>,
    /// Whether any receiver was asked again.
    is_repeated: bool,
}

/// The rounds of a pass.
#[derive(Debug)]
pub(super) struct Rounds {
    rule: Multidriver,
    open: Option<Round>,
    /// Every receiver has the packets below, and has room below the limit, by the last round.
    released: PacketNumber,
    room: PacketNumber,
    /// Packets sent since the last request.
    unasked: u32,
}

impl Rounds {
    /// `released` and `room` are what receivers have said before the pass.
    pub(super) fn new(rule: Multidriver, released: PacketNumber, room: PacketNumber) -> Self {
        Self {
            rule,
            open: None,
            released,
            room,
            unasked: 0,
        }
    }

    /// The rules that they follow.
    pub(super) fn rule(&self) -> &Multidriver {
        &self.rule
    }

    /// A packet is sent: whether it is the next one's turn to carry a request.
    pub(super) fn count_packet(&mut self) -> bool {
        self.unasked = self.unasked.saturating_add(1);
        self.unasked >= self.rule.every
    }

    /// Whether packets were sent of which no request has asked.
    pub(super) fn has_unasked(&self) -> bool {
        self.unasked > 0
    }

    /// A request leaves, after `top`.
    pub(super) fn open(&mut self, stamp: Stamp, due: Time, top: PacketNumber) {
        self.unasked = 0;
        self.open = Some(Round {
            stamp,
            top,
            due,
            replied: BTreeSet::new(),
            next: PacketNumber::MAX,
            missing: RangeSet::default(),
            round_trip: None,
            is_repeated: false,
        });
    }

    /// The round that is open.
    pub(super) fn current(&self) -> Option<&Round> {
        self.open.as_ref()
    }

    /// Whether the open round waits for a receiver.
    pub(super) fn awaits(&self, receiver: MemberId) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|round| !round.replied.contains(&receiver))
    }

    /// Whether the open round waits for none of these.
    pub(super) fn is_whole(&self, mut receivers: impl Iterator<Item = MemberId>) -> bool {
        let Some(round) = &self.open else {
            return false;
        };
        #[cfg(any(test, feature = "planted-bugs"))]
        if self.rule.planted == Some(super::super::config::PlantedInRounds::FirstReplyCounts)
            && !round.replied.is_empty()
        {
            return true;
        }
        receivers.all(|receiver| round.replied.contains(&receiver))
    }

    /// Those that are silent are asked again, until `due`.
    pub(super) fn repeat(&mut self, due: Time) {
        if let Some(round) = &mut self.open {
            round.is_repeated = true;
            round.round_trip = None;
            round.due = due;
        }
    }

    /// Takes in a reply, `round_trip` after its request; false if no round is open that it belongs
    /// to.
    pub(super) fn reply(
        &mut self,
        from: MemberId,
        report: &ReceiverReport,
        round_trip: Option<Duration>,
    ) -> bool {
        let round = self.open.as_mut();
        let Some(round) = round.filter(|round| report.seen >= round.stamp) else {
            return false;
        };
        round.replied.insert(from);
        round.next = round.next.min(report.next);
        if !round.is_repeated {
            round.round_trip = round.round_trip.max(round_trip);
        }
        // What was not sent before the request, or has been released, is nothing to repeat.
        let (least, top) = (self.released, round.top);
        for gap in &report.missing {
            round.missing.insert(gap.start.max(least)..gap.end.min(top));
        }
        true
    }

    /// The open round is over.
    pub(super) fn close(&mut self) -> Option<Round> {
        self.open.take()
    }

    /// Of all receivers the least that any has, and the least room, as they have said; whether that
    /// is more than before.
    pub(super) fn update(&mut self, released: PacketNumber, room: PacketNumber) -> bool {
        let more = released > self.released || room > self.room;
        self.released = self.released.max(released);
        self.room = room;
        more
    }

    /// Every receiver has the packets below.
    pub(super) fn released(&self) -> PacketNumber {
        self.released
    }

    /// Every receiver has room below this packet.
    pub(super) fn room(&self) -> PacketNumber {
        self.room
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use bytes::Bytes;
    use groupcast_core::{Incarnation, NodeId};

    use super::super::super::numbers::{Packets, PassNumber};
    use super::super::super::wire::{Purpose, Status};
    use super::*;

    fn reply(seen: Stamp, missing: Vec<Packets>) -> ReceiverReport {
        ReceiverReport {
            sender: Incarnation(1),
            purpose: Purpose::Acknowledge,
            answers: true,
            aggregate: false,
            outrun: false,
            pass: PassNumber(0),
            status: Status::Receiving,
            next: PacketNumber(20),
            limit: PacketNumber(1_000),
            seen,
            received: 0,
            delay_us: 0,
            listed_below: PacketNumber(20),
            missing,
            tag: None,
            delivers_to: None,
            part: None,
            subgroups: None,
            attends: None,
            restores_below: None,
            name: Bytes::new(),
        }
    }

    #[test]
    fn what_a_reply_misses_beyond_what_was_sent_is_not_kept() {
        let gap = |start, end| PacketNumber(start)..PacketNumber(end);
        let mut rounds = Rounds::new(
            Multidriver::for_window(64),
            PacketNumber(10),
            PacketNumber(99),
        );
        rounds.open(Stamp(7), Time::ZERO, PacketNumber(40));
        let from = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        for far in 0..1_000 {
            let start = 1 << 40 | far << 8;
            let missing = vec![gap(0, 3), gap(5, 12), gap(20, 22), gap(start, start + 1)];
            assert!(rounds.reply(from, &reply(Stamp(7), missing), None));
        }
        let round = rounds.close().expect("it was opened");
        let kept: Vec<Packets> = round.missing.iter().collect();
        assert_eq!(kept, [gap(10, 12), gap(20, 22)]);
    }
}
