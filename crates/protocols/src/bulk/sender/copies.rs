//! Which of the receivers that multicasts do not reach get copies of the data. Each copy is paid
//! for on the sender's link. So, where receivers report what they miss (policy `nak`), one that
//! holds a part of the stream already gets no copies of that, but of the packets in it that ask all
//! for a report: they keep it informed, and the sender. Those that ask by the time only do so for
//! the rate, and go to those that need them.
//!
//! What was not copied to a receiver was not sent to it: it is not counted as lost on the way
//! there, and the rate does not judge a path by it.
//!
//! Under the other policies rounds, windows or places in an order are moved by what each receiver
//! says of each packet, and go-back-N takes packets in their order only; of messages receivers hold
//! nothing beforehand. There all that take part get all.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use groupcast_core::{Destination, MemberId, TransmitBuf};

use super::super::config::{Policy, Repair};
use super::super::context::Context;
use super::super::numbers::{PacketNumber, Packets, Stamp};
use super::super::wire::ReceiverReport;
use super::Sender;
use super::peer::Peer;

/// Who gets copies of what was polled last.
#[derive(Default, Debug)]
pub(super) struct Copied {
    /// Whether that was chosen for it; else it is whoever takes data.
    is_chosen: bool,
    members: Vec<MemberId>,
    /// The same for the packet that is the next.
    next: Vec<MemberId>,
}

/// Transmissions that were not copied to a receiver, as ranges of stamps in their order.
#[derive(Default, Debug)]
pub(super) struct Uncopied {
    ranges: VecDeque<Range<Stamp>>,
    /// Up to this stamp ranges were forgotten, because there were too many.
    forgotten: Stamp,
}

impl Uncopied {
    /// More ranges than this are not kept: the first is forgotten.
    const RANGES_MAX: usize = 1024;

    fn note(&mut self, stamp: Stamp) {
        if let Some(last) = self.ranges.back_mut().filter(|last| last.end == stamp) {
            last.end = stamp.next();
            return;
        }
        if self.ranges.len() >= Self::RANGES_MAX
            && let Some(first) = self.ranges.pop_front()
        {
            self.forgotten = first.end;
        }
        self.ranges.push_back(stamp..stamp.next());
    }

    /// How many are in what was sent after `seen` up to `now`, unless some of that was forgotten.
    /// What was sent up to `now` is forgotten then.
    pub(super) fn take(&mut self, seen: Stamp, now: Stamp) -> Option<u64> {
        let mut count = 0;
        while let Some(first) = self.ranges.front_mut() {
            let start = first.start.max(seen.next());
            let end = first.end.min(now.next());
            count += end.since(start).unwrap_or(0);
            if first.end > now.next() {
                first.start = first.start.max(end);
                break;
            }
            self.ranges.pop_front();
        }
        (self.forgotten <= seen.next()).then_some(count)
    }
}

impl Peer {
    /// Whether it may need this packet of a block, or else parity for the block: it has not said
    /// that it holds what that brings. A receiver that needs one packet of a block may restore it
    /// from the others, if it has what it holds of them in memory.
    pub(super) fn may_need(&self, block: &Packets, packet: Option<PacketNumber>) -> bool {
        if block.end > self.listed_below {
            return true;
        }
        if !self.can_restore(block) {
            return packet.is_some_and(|packet| self.needs.contains(packet));
        }
        let needed = self.needs.next_from(block.start);
        needed.is_some_and(|needed| needed.start < block.end)
    }

    /// Whether it misses what it has not said to need.
    fn misses_unlisted(&self, report: &ReceiverReport) -> bool {
        report.missing.iter().any(|gap| {
            let end = gap.end.min(self.listed_below);
            gap.start < end && self.needs.first_missing(gap.start) < end
        })
    }
}

impl Sender {
    /// Whether `member`, which multicasts do not reach, is to get a copy of what was polled last.
    pub(in crate::bulk) fn copies_to(&self, member: MemberId) -> bool {
        match self.copied.is_chosen {
            true => self.copied.members.contains(&member),
            false => self.needs_data(member),
        }
    }

    /// Multicasts reach all but `without` from now on.
    pub(in crate::bulk) fn handle_copies(&mut self, without: &[MemberId]) {
        for (member, peer) in &mut self.peers {
            if !without.contains(member) {
                peer.path.gets_all();
            }
        }
    }

    /// Something is polled for `destination`: whether those that get copies are chosen packet by
    /// packet.
    pub(super) fn begins_copying(
        &mut self,
        context: &Context<'_>,
        destination: Destination,
    ) -> bool {
        let is_nak = matches!(self.policy, Policy::Nak { .. });
        let may_choose = is_nak && context.config.repair == Repair::Selective;
        self.copied.is_chosen =
            !context.without.is_empty() && may_choose && !self.stream.has_messages();
        if !self.copied.is_chosen {
            self.rate.fan_out(match destination {
                Destination::Group => self.fan_out(context),
                Destination::Member(_) => 1,
            });
        }
        self.copied.is_chosen
    }

    /// Chooses who gets copies of what is the next: parity for the block that begins with `parity`,
    /// or packet `number`. What is polled at once has one set of copies: false if `buf` has
    /// something for another set.
    pub(super) fn chooses_copied(
        &mut self,
        context: &Context<'_>,
        destination: Destination,
        number: Option<PacketNumber>,
        parity: Option<PacketNumber>,
        limit: PacketNumber,
        buf: &TransmitBuf,
    ) -> bool {
        let mut next = core::mem::take(&mut self.copied.next);
        next.clear();
        match destination {
            Destination::Member(only) => next.push(only),
            Destination::Group => {
                let asks = match (parity, number) {
                    (Some(first), _) => self.asks_with_parity(first, limit),
                    (None, Some(number)) => self.asks_all(context, number, limit),
                    (None, None) => false,
                };
                let first = parity.or(number).unwrap_or_default();
                let first = first.block_start(self.block.map_or(1, u64::from));
                let block = first..self.stream.block_end(first);
                let packet = number.filter(|_| parity.is_none());
                let may_need = |member: &MemberId| {
                    let peer = self.peers.get(member);
                    asks || peer.is_none_or(|peer| peer.may_need(&block, packet))
                };
                let without = context.without.iter().copied();
                next.extend(without.filter(|it| self.needs_data(*it) && may_need(it)));
            }
        }
        self.copied.next = next;
        buf.is_empty() || self.copied.next == self.copied.members
    }

    /// The next is sent, and copied as was chosen.
    pub(super) fn copies_as_chosen(&mut self, destination: Destination) {
        let Copied { members, next, .. } = &mut self.copied;
        core::mem::swap(members, next);
        let times = match destination {
            Destination::Group => members.len() + 1,
            Destination::Member(_) => 1,
        };
        self.rate.fan_out(u32::try_from(times).unwrap_or(u32::MAX));
    }

    /// Something was sent, and copied as was chosen for it. What goes to one member alone is sent
    /// to that one.
    pub(super) fn note_copied(&mut self, context: &Context<'_>, stamp: Stamp) {
        if !self.copied.is_chosen {
            return;
        }
        for member in context.without {
            let Some(peer) = self.peers.get_mut(member) else {
                continue;
            };
            if self.copied.members.contains(member) {
                peer.path.note_copied();
            } else {
                peer.path.note_uncopied();
                peer.uncopied.note(stamp);
            }
        }
    }

    /// A receiver that gets copies reports. If it misses what it has not said to need, it has lost
    /// what it had, as one that took the sender for gone and met it again: what it needs is not
    /// known any more.
    pub(super) fn doubt_needs(
        &mut self,
        context: &Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        if context.without.contains(&from)
            && let Some(peer) = self.peers.get_mut(&from)
            && peer.misses_unlisted(report)
        {
            peer.listed_below = PacketNumber::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_copied_is_counted_once_with_what_was_seen() {
        let mut uncopied = Uncopied::default();
        for stamp in [3, 4, 5, 8, 9, 12] {
            uncopied.note(Stamp(stamp));
        }
        assert_eq!(uncopied.take(Stamp(0), Stamp(4)), Some(2));
        assert_eq!(uncopied.take(Stamp(4), Stamp(8)), Some(2));
        assert_eq!(uncopied.take(Stamp(8), Stamp(11)), Some(1));
        assert_eq!(uncopied.take(Stamp(12), Stamp(20)), Some(0), "it is past");
        assert!(uncopied.ranges.is_empty());
    }

    #[test]
    fn of_what_was_forgotten_nothing_is_said() {
        let mut uncopied = Uncopied::default();
        (0..1500).for_each(|it| uncopied.note(Stamp(2 * it + 10)));
        assert_eq!(uncopied.ranges.len(), Uncopied::RANGES_MAX);
        assert_eq!(uncopied.take(Stamp(5), Stamp(2_000)), None);
        assert_eq!(uncopied.take(Stamp(2_000), Stamp(2_100)), Some(50));
    }
}
