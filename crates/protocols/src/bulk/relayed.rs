//! What a relay asks of its two endpoints, and its sender's user of the sender: which receivers are
//! behind another, how a transfer was announced, what no receiver needs, and when it is served
//! itself (`crate::relay`).

use alloc::vec::Vec;
use core::ops::Range;

use groupcast_core::{MemberId, NodeId, Time};

use super::Bulk;
use super::config::Policy;
use super::sender::Sender;
use super::transfer::{Awaited, Served, TransferId};
use crate::xgm::Subgroups;

impl Bulk {
    /// The node `behind` is served by receiver `relay` of a transfer that is sent here: it counts
    /// as a receiver that has come, and `relay` does not count any more. Nothing happens if `relay`
    /// is no receiver of it, or there are as many as the settings allow.
    pub fn stands_for(&mut self, now: Time, id: TransferId, relay: MemberId, behind: NodeId) {
        self.with_sender(now, id, |sender, context| {
            sender.stands_for(context, relay, behind);
        });
    }

    /// The node `behind` is not served by `relay` after all: others behind it stand in its place.
    pub fn stands_no_more_for(
        &mut self,
        now: Time,
        id: TransferId,
        relay: MemberId,
        behind: NodeId,
    ) {
        self.with_sender(now, id, |sender, _| {
            sender.stands_no_more_for(relay, behind);
        });
    }

    /// How many receivers of a transfer that is sent here have registered or refused it, as
    /// [`Wanted::Count`](super::Wanted::Count) counts them: those behind another one in its place.
    pub fn have_come(&self, id: TransferId) -> usize {
        self.sender(id).map_or(0, Sender::have_come)
    }

    /// For whom a transfer that is sent here waits; `None` once it has begun.
    pub fn awaited(&self, id: TransferId) -> Option<Awaited> {
        self.sender(id)?.waits_for(&self.shared.config)
    }

    /// Bytes of a transfer that waits for its receivers which none of those that have registered
    /// needs. Whole packets, and never the first one: something is always sent.
    pub fn held_by_all(&self, id: TransferId) -> Vec<Range<u64>> {
        self.sender(id).map_or_else(Vec::new, Sender::held_by_all)
    }

    /// This endpoint's user is served so, from elsewhere, with what it sends here: its receivers
    /// are told.
    pub fn served_above(&mut self, now: Time, id: TransferId, served: Served) {
        self.with_sender(now, id, |sender, _| sender.note_served_above(served));
    }

    /// Up to where a transfer was offered, or is not needed, in the pass that goes on; `None` while
    /// no data is asked for.
    pub fn offered_to(&self, id: TransferId) -> Option<u64> {
        self.sender(id)?.offered_to()
    }

    /// Who acknowledges what, of a transfer that was announced here.
    pub fn policy_announced(&self, id: TransferId) -> Option<Policy> {
        Some(self.receivers.get(&id)?.policy_announced())
    }

    /// For whom a transfer is that was announced here.
    pub fn subgroups_announced(&self, id: TransferId) -> Option<Subgroups> {
        Some(self.receivers.get(&id)?.subgroups_announced())
    }
}
