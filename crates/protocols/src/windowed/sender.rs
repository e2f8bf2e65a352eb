//! The sending side: what is not acknowledged by all yet, and what waits for the window.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::{MemberId, Service};

/// A member's own messages on their way.
#[derive(Debug, Default)]
pub(super) struct Sender {
    /// Messages that not all have acknowledged, from number `acknowledged + 1` on.
    window: VecDeque<(Service, Bytes)>,
    /// All members have acknowledged up to here.
    acknowledged: u64,
    /// What each other member has acknowledged.
    marks: BTreeMap<MemberId, u64>,
    /// Messages that wait for the window.
    queue: VecDeque<(Service, Bytes)>,
    queued: usize,
}

impl Sender {
    /// These others are to acknowledge.
    pub(super) fn install(&mut self, others: impl Iterator<Item = MemberId>) {
        self.marks = others.map(|member| (member, 0)).collect();
    }

    /// Takes a message of the user; its number.
    pub(super) fn submit(&mut self, service: Service, payload: Bytes) -> u64 {
        self.queued += payload.len();
        self.queue.push_back((service, payload));
        self.sent() + self.queue.len() as u64
    }

    /// Payload bytes that wait.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The number of the last message that was sent.
    fn sent(&self) -> u64 {
        self.acknowledged + self.window.len() as u64
    }

    /// How many messages not all have acknowledged.
    pub(super) fn outstanding(&self) -> usize {
        self.window.len()
    }

    /// Payload bytes that are kept until all have acknowledged them.
    pub(super) fn buffered(&self) -> usize {
        self.window.iter().map(|(_, payload)| payload.len()).sum()
    }

    /// The next message to send, if fewer than `window` are outstanding.
    pub(super) fn next(&self, window: u32) -> Option<(u64, Service, Bytes)> {
        if self.window.len() >= window as usize {
            return None;
        }
        let (service, payload) = self.queue.front()?.clone();
        Some((self.sent() + 1, service, payload))
    }

    /// The next message is sent. In a group of one that is all.
    pub(super) fn advance(&mut self) {
        if let Some(message) = self.queue.pop_front() {
            self.queued -= message.1.len();
            self.window.push_back(message);
            self.discard();
        }
    }

    /// `from` has delivered all up to `delivered`; whether that is news.
    pub(super) fn acknowledge(&mut self, from: MemberId, delivered: u64) -> bool {
        let sent = self.sent();
        let Some(mark) = self.marks.get_mut(&from) else {
            return false;
        };
        if delivered <= *mark || delivered > sent {
            return false;
        }
        *mark = delivered;
        self.discard();
        true
    }

    fn discard(&mut self) {
        let sent = self.sent();
        let least = self.marks.values().min().copied().unwrap_or(sent);
        while self.acknowledged < least && self.window.pop_front().is_some() {
            self.acknowledged += 1;
        }
    }

    /// A message that not all have acknowledged.
    pub(super) fn get(&self, number: u64) -> Option<(Service, Bytes)> {
        let index = number.checked_sub(self.acknowledged + 1)?;
        self.window.get(usize::try_from(index).ok()?).cloned()
    }

    /// The first message that each member lacks of those that were sent.
    pub(super) fn behind(&self) -> Vec<(MemberId, u64)> {
        let sent = self.sent();
        let behind = self.marks.iter().filter(|(_, mark)| **mark < sent);
        behind.map(|(member, mark)| (*member, mark + 1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    #[test]
    fn the_slowest_member_holds_the_window() {
        let mut sender = Sender::default();
        sender.install([member(2), member(3)].into_iter());
        for number in 1..=6 {
            assert_eq!(
                sender.submit(Service::Fifo, Bytes::from_static(b"ab")),
                number
            );
        }
        while sender.next(4).is_some() {
            sender.advance();
        }
        assert_eq!((sender.outstanding(), sender.queued()), (4, 4));
        assert!(sender.acknowledge(member(2), 4));
        assert!(
            sender.next(4).is_none(),
            "member 3 has acknowledged nothing"
        );
        assert!(!sender.acknowledge(member(3), 9) && !sender.acknowledge(member(4), 4));
        assert!(sender.acknowledge(member(3), 2) && !sender.acknowledge(member(3), 1));
        assert_eq!(sender.next(4).map(|(number, ..)| number), Some(5));
        assert_eq!(sender.behind(), [(member(3), 3)]);
        assert!(sender.get(2).is_none() && sender.get(3).is_some() && sender.get(5).is_none());
    }
}
