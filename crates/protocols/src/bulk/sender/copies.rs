//! Who gets copies of the data, of the receivers that multicasts do not reach. Each copy is paid
//! for on the sender's link. So, where receivers report what they miss (policy `nak`), one that
//! holds a part of the stream already gets no copies of blocks that it holds whole, but of the
//! packets among them that ask for a report: they keep it informed, and the sender. It does not see
//! the other transmissions, so they are not counted as lost on the way to it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use groupcast_core::MemberId;

use super::super::config::Policy;
use super::super::context::Context;
use super::super::numbers::{PacketNumber, Packets, Stamp};
use super::Sender;
use super::attendance::asks_those_that_gate;
use super::peer::Peer;

/// Transmissions that were not copied to a receiver, as ranges of stamps in their order.
#[derive(Default, Debug)]
pub(super) struct Uncopied(VecDeque<Range<Stamp>>);

impl Uncopied {
    /// More ranges than this are not kept: the first of them count as lost.
    const RANGES_MAX: usize = 1024;

    fn note(&mut self, stamp: Stamp) {
        if let Some(last) = self.0.back_mut().filter(|last| last.end == stamp) {
            last.end = stamp.next();
            return;
        }
        if self.0.len() >= Self::RANGES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(stamp..stamp.next());
    }

    /// How many are in what was sent after `seen` up to `now`; they are forgotten.
    pub(super) fn take(&mut self, seen: Stamp, now: Stamp) -> u64 {
        let mut count = 0;
        while let Some(first) = self.0.front_mut() {
            let start = first.start.max(seen.next());
            let end = first.end.min(now.next());
            count += end.since(start).unwrap_or(0);
            if first.end > now.next() {
                first.start = first.start.max(end);
                break;
            }
            self.0.pop_front();
        }
        count
    }
}

impl Peer {
    /// Whether it may need something of these packets: it has not said that it holds them all. Who
    /// needs one packet of a block may restore it from the others.
    fn may_need(&self, block: &Packets) -> bool {
        let needed = self.needs.next_from(block.start);
        block.end > self.listed_below || needed.is_some_and(|needed| needed.start < block.end)
    }
}

impl Sender {
    /// Whether `member`, which multicasts do not reach, is to get a copy of what was polled last.
    pub(in crate::bulk) fn copies_to(&self, member: MemberId) -> bool {
        self.copied.contains(&member)
    }

    /// Chooses who gets copies of packet `number`, or of parity for the block that begins with it.
    /// What is polled at once has one set of copies: false if they are others than those of what
    /// was polled before it, unless it `is_first`.
    pub(super) fn choose_copied(
        &mut self,
        context: &Context<'_>,
        number: PacketNumber,
        is_first: bool,
    ) -> bool {
        let copied = self.copied(context, number);
        if !is_first && copied != self.copied {
            return false;
        }
        let times = u32::try_from(copied.len()).unwrap_or(u32::MAX);
        self.rate.fan_out(times.saturating_add(1));
        self.copied = copied;
        true
    }

    fn copied(&self, context: &Context<'_>, number: PacketNumber) -> Vec<MemberId> {
        let mut members = Vec::new();
        if context.without.is_empty() {
            return members;
        }
        let asks = match context.config.policy {
            Policy::Nak { poll } => {
                let is_last = number + 1 == self.stream.pass_end();
                is_last || (number + 1).starts_block(poll.into())
            }
            // Whatever is sent asks somebody.
            _ => true,
        };
        let size = self.block.map_or(1, u64::from);
        let first = number.block_start(size);
        let block = first..self.stream.block_end(first);
        let may_need = |member: &MemberId| {
            let peer = self.peers.get(member);
            asks || peer.is_none_or(|peer| peer.may_need(&block))
        };
        let without = context.without.iter().copied();
        members.extend(without.filter(|it| self.takes_data(*it) && may_need(it)));
        members
    }

    /// Whether `member`, which multicasts do not reach, takes data: not before it takes part, while
    /// it stands by, or when it has everything or is settled; but where data asks all for answers,
    /// those that have everything answer, too. There is no group for it to leave, so it need not
    /// have confirmed what it was told.
    fn takes_data(&self, member: MemberId) -> bool {
        match self.peers.get(&member) {
            Some(peer) => {
                let is_asked = !asks_those_that_gate(self.policy);
                peer.told.attends() && (!peer.holds || is_asked)
            }
            // Nobody registers for these.
            None => self.is_unanswered(),
        }
    }

    /// Something was sent to the group, and copied as was chosen for it.
    pub(super) fn note_uncopied(&mut self, context: &Context<'_>, stamp: Stamp) {
        for member in context.without {
            if let Some(peer) = self.peers.get_mut(member)
                && !self.copied.contains(member)
            {
                peer.uncopied.note(stamp);
            }
        }
    }

    /// A receiver misses first what it has not said to need: it has lost what it had, as one that
    /// took the sender for gone and met it again. What it needs is not known any more.
    pub(super) fn doubt_needs(&mut self, from: MemberId) {
        if let Some(peer) = self.peers.get_mut(&from)
            && peer.next < peer.listed_below
            && !peer.needs.contains(peer.next)
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
        assert_eq!(uncopied.take(Stamp(0), Stamp(4)), 2);
        assert_eq!(uncopied.take(Stamp(4), Stamp(8)), 2);
        assert_eq!(uncopied.take(Stamp(8), Stamp(11)), 1);
        assert_eq!(uncopied.take(Stamp(12), Stamp(20)), 0, "it is past");
        assert!(uncopied.0.is_empty());
        (0..10_000).for_each(|it| uncopied.note(Stamp(2 * it)));
        assert_eq!(uncopied.0.len(), Uncopied::RANGES_MAX);
    }
}
