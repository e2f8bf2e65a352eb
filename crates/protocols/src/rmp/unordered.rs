//! Unreliable messages: multicast at once, without an ACK, if they fit into a packet.

use bytes::Bytes;
use groupcast_core::MemberId;

use super::numbers::Tag;
use super::wire::Message;
use super::{Rmp, State};
use crate::packing::{Record, Unpacker};

impl Rmp {
    /// Sends an unreliable message at once, or when there is a configuration.
    pub(super) fn submit_unordered(&mut self, record: Record) {
        self.events
            .push_back(record.clone().delivered(self.local, None));
        if !self.unordered.push(record, self.records_max()) {
            self.counters.unordered_dropped += 1;
            return;
        }
        self.flush_unordered();
    }

    pub(super) fn flush_unordered(&mut self) {
        let State::Operational(operational) = &mut self.state else {
            return;
        };
        let order = &operational.order;
        let tag = order.tag;
        while let Some(record) = self.unordered.pop() {
            if !order.is_alone() {
                self.outbox.multicast(&Message::Unordered { tag, record });
            }
        }
    }

    pub(super) fn handle_unordered(&mut self, from: MemberId, tag: Tag, body: &Bytes) {
        let State::Operational(operational) = &self.state else {
            return;
        };
        let order = &operational.order;
        if order.tag != tag || order.index_of(from).is_none() {
            self.counters.foreign += 1;
            return;
        }
        let (mut unpacker, mut at) = (Unpacker::default(), 0);
        match unpacker.next(body, &mut at, self.config.message_max) {
            Ok(Some(record)) => self.events.push_back(record.delivered(from, None)),
            Ok(None) | Err(_) => self.counters.malformed += 1,
        }
    }
}
