//! Receivers that are reached through another one, a relay: they count as receivers that have come,
//! though they never register here.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

use groupcast_core::{MemberId, NodeId};

use super::super::context::Context;
use super::super::numbers::PacketNumber;
use super::super::ranges::RangeSet;
use super::{Sender, State};

impl Sender {
    /// `node` is served by `relay`.
    pub(in crate::bulk) fn stands_for(
        &mut self,
        context: &mut Context<'_>,
        relay: MemberId,
        node: NodeId,
    ) {
        let known: usize = self.behind.values().map(BTreeSet::len).sum();
        if !self.peers.contains_key(&relay) || known >= context.config.receivers_max {
            return;
        }
        self.behind.entry(relay).or_default().insert(node);
        self.advance(context);
    }

    /// `node` is not served by `relay`, but by those behind it.
    pub(in crate::bulk) fn stands_no_more_for(&mut self, relay: MemberId, node: NodeId) {
        if let Some(nodes) = self.behind.get_mut(&relay) {
            nodes.remove(&node);
        }
    }

    /// For how many receivers one counts: for those behind it, if there are any.
    pub(super) fn stands_for_count(&self, member: &MemberId) -> usize {
        self.behind.get(member).map_or(1, BTreeSet::len)
    }

    /// Whether a receiver that is here stands for `node`.
    pub(super) fn is_behind(&self, node: NodeId) -> bool {
        self.behind.values().any(|nodes| nodes.contains(&node))
    }

    pub(in crate::bulk) fn held_by_all(&self) -> Vec<Range<u64>> {
        let (State::Announcing(announcing), Some(length)) = (&self.state, self.stream.length)
        else {
            return Vec::new();
        };
        let packets = self.stream.packets();
        let mut needed = RangeSet::default();
        for peer in self.peers.values() {
            peer.needs.iter().for_each(|gap| needed.insert(gap));
        }
        // What was not listed for want of room is needed, and so is the first packet: a pass over
        // nothing sends it.
        needed.insert(announcing.listed_below..packets);
        needed.insert(PacketNumber::ZERO..PacketNumber::ZERO + 1);
        let packet = self.packet as u64;
        let bytes =
            |gap: Range<PacketNumber>| gap.start.offset(packet)..gap.end.offset(packet).min(length);
        needed.gaps(packets).map(bytes).collect()
    }

    pub(in crate::bulk) fn offered_to(&self) -> Option<u64> {
        match self.state {
            State::Sending(_) => Some(self.stream.position()),
            _ => None,
        }
    }
}
