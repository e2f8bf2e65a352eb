//! Blocks that a later pass sends as parity alone.
//!
//! The receivers of a later pass hold a part of many blocks, each another one. What any of them
//! misses of a block can be most of it; the parity that restores it is no more than the one misses
//! that misses most. It takes a receiver that has in memory what it holds of the block, and says so
//! when the pass begins; and a sender that reads the whole block again.

use alloc::collections::BTreeMap;

use groupcast_core::MemberId;

use super::super::config::Policy;
use super::super::context::Context;
use super::super::numbers::{PacketNumber, PassNumber, count_at_ends};
use super::super::ranges::RangeSet;
use super::repair::{PROACTIVE_MIN, expected_lost};
use super::{Peer, Sender};

/// Receivers are asked for reports this often while a window of packets goes as parity.
const REPORTS_PER_WINDOW: u64 = 4;

impl Sender {
    /// Whether blocks may go as parity in the pass that is under way.
    pub(super) fn may_replace_blocks(&self) -> bool {
        let is_block = self.block.is_some_and(|block| block > 1) && self.has_room_for_blocks();
        // A receiver that was not told the length with the transfer may not know how many packets
        // the last block has.
        let is_known = self.transfer.length.is_some();
        is_block && is_known && self.pass_number() > PassNumber::FIRST
    }

    /// Whether a block goes as parity in this pass.
    pub(super) fn is_replaced(&self, first: PacketNumber) -> bool {
        let sending = self.sending();
        sending.is_some_and(|sending| sending.parities.replaces(first).is_some())
    }

    pub(super) fn has_replaced(&self) -> bool {
        let sending = self.sending();
        sending.is_some_and(|sending| sending.parities.has_replaced())
    }

    /// The blocks for which parity is less than what all receivers of the pass miss together, below
    /// the packet up to which they have said that; and how many parity packets to send at first.
    pub(super) fn blocks_as_parity(
        &self,
        roster: &[MemberId],
        needed: &RangeSet<PacketNumber>,
        listed_below: PacketNumber,
    ) -> BTreeMap<PacketNumber, usize> {
        let mut replaced = BTreeMap::new();
        if !self.may_replace_blocks() || roster.len() < 2 {
            return replaced;
        }
        let size = self.block.map_or(1, u64::from);
        let peers = || roster.iter().filter_map(|member| self.peers.get(member));
        // Of each block what the one misses that misses most; none where parity is no help.
        let mut most: BTreeMap<PacketNumber, Option<u64>> = BTreeMap::new();
        for peer in peers() {
            for (first, missing) in count_at_ends(peer.needs.iter(), size) {
                let block = first..self.stream.block_end(first);
                let helps = block.end <= listed_below && peer.can_restore(&block);
                let entry = most.entry(first).or_insert(Some(0));
                *entry = entry.filter(|_| helps).map(|known| known.max(missing));
            }
        }
        let together = count_at_ends(needed.iter(), size);
        let worst = peers().map(|peer| peer.loss).fold(0.0, f64::max);
        for (first, most) in most {
            let Some(most) = most else { continue };
            let block = first..self.stream.block_end(first);
            let packets = block.end - first;
            let together = together.get(&first).copied().unwrap_or(packets);
            let misses_all = |peer: &Peer| peer.needs_all(&block);
            if most >= together || together == packets && peers().any(misses_all) {
                continue;
            }
            let expected = match worst >= PROACTIVE_MIN {
                true => expected_lost(most, worst),
                false => 0,
            };
            replaced.insert(first, (most as usize + expected).min(packets as usize));
        }
        replaced
    }

    /// Has the parity sent of the block whose turn it is, once that of those before it was.
    pub(super) fn replace_block(&mut self, context: &mut Context<'_>, limit: PacketNumber) {
        let Some(first) = self.stream.next_as_parity(limit) else {
            return;
        };
        let sending = self.sending();
        if sending.is_none_or(|sending| sending.parities.next().is_some()) {
            return;
        }
        let count = sending.and_then(|sending| sending.parities.replaces(first));
        self.stream.pass_over(context.now, first);
        let end = self.stream.block_end(first);
        let is_made = match count {
            Some(1) => self.sum_up(first),
            count => self.demand(first, count.unwrap_or(0)),
        };
        debug_assert!(
            is_made,
            "the block is here, and has as much parity as packets"
        );
        let every = self.stream.window() as u64 / REPORTS_PER_WINDOW;
        let is_polled = matches!(
            context.config.policy,
            Policy::Nak { .. } | Policy::Collectors(_)
        );
        let is_turn = first.0 / every != end.0 / every || end == self.stream.pass_end();
        if is_polled
            && is_turn
            && let Some(sending) = self.sending_mut()
        {
            sending.parities.ask_with(first);
        }
    }
}
