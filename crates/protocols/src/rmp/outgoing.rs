//! Own messages: those that wait to be packed, and those whose packets have no settled place yet.
//! A reformation begins the latter anew, from the first byte.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::Service;
use groupcast_core::mech::send_queue::Backlog;

use super::numbers::Number;
use super::stream::comes_early;
use crate::packing::{Packer, Record};

/// A member's own messages until their places are known.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct Outgoing {
    packer: Packer,
    /// All messages whose last packet has no known place, the oldest first: those that wait, too.
    unsettled: VecDeque<Record>,
    /// For each packet without a known place, how many messages end in it.
    ends: VecDeque<usize>,
    /// The number of the last packet whose place is known.
    known: Number,
}

impl Outgoing {
    pub(super) fn push(&mut self, record: Record) {
        self.unsettled.push_back(record.clone());
        self.packer.push(record);
    }

    /// The next packet's body, and whether a message ends in it that comes early; `None` if nothing
    /// waits.
    pub(super) fn pack(&mut self, max: usize) -> Option<(Bytes, bool)> {
        let before = self.packer.messages();
        let body = self.packer.pack(max)?;
        let after = self.packer.messages();
        self.ends.push_back(before - after);
        let (from, to) = (self.unsettled.len() - before, self.unsettled.len() - after);
        let mut ended = self.unsettled.range(from..to);
        Some((body, ended.any(|record| comes_early(record.service))))
    }

    /// The places of all packets up to `known` are known: their messages are not sent again.
    pub(super) fn settle(&mut self, known: Number) {
        while self.known < known
            && let Some(ended) = self.ends.pop_front()
        {
            self.known = self.known.next();
            self.unsettled.drain(..ended);
        }
    }

    /// Takes out the messages that a majority must hold, and tells their numbers. To be followed by
    /// [`restart`](Self::restart).
    pub(super) fn take_majority(&mut self) -> Vec<u64> {
        let is_majority = |record: &&Record| record.service == Service::Majority;
        let taken = self.unsettled.iter().filter(is_majority);
        let taken = taken.map(|record| record.number).collect();
        self.unsettled.retain(|record| !is_majority(&record));
        taken
    }

    /// A new configuration begins: packets are numbered anew, and all messages that are not settled
    /// are packed anew, but those that are `delivered`.
    pub(super) fn restart(&mut self, delivered: &[u64]) {
        self.unsettled
            .retain(|record| !delivered.contains(&record.number));
        self.packer = Packer::default();
        self.ends.clear();
        self.known = Number::default();
        for record in &self.unsettled {
            self.packer.push(record.clone());
        }
    }

    /// What was packed is taken for settled: a planted bug needs it.
    pub(super) fn forget(&mut self) {
        let packed = self.unsettled.len() - self.packer.messages();
        self.unsettled.drain(..packed);
    }

    /// Whether every message has a known place.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled.is_empty()
    }
}

impl Backlog for Outgoing {
    fn bytes(&self) -> usize {
        self.packer.bytes()
    }

    fn is_empty(&self) -> bool {
        self.packer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn message(number: u64, len: usize) -> Record {
        Record {
            service: Service::Agreed,
            number,
            payload: vec![number as u8; len].into(),
        }
    }

    #[test]
    fn a_message_whose_last_packet_has_no_place_is_sent_again_from_its_first_byte() {
        let mut outgoing = Outgoing::default();
        outgoing.push(message(1, 10));
        outgoing.push(message(2, 150));
        outgoing.push(message(3, 10));
        while outgoing.pack(100).is_some() {}
        // The first packet has the first message and the beginning of the second.
        outgoing.settle(Number(1));
        outgoing.restart(&[]);
        assert_eq!(outgoing.bytes(), 160);
        assert!(!outgoing.is_settled());
        let mut packets = 0;
        while outgoing.pack(100).is_some() {
            packets += 1;
        }
        outgoing.settle(Number(packets));
        assert!(outgoing.is_settled() && outgoing.is_empty());
    }
}
