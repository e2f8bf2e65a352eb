//! The sending side: what is not acknowledged by all yet, and what waits for the window.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::mech::send_queue::{Fifo, Outgoing, SendLimits, SendQueue};
use groupcast_core::{MemberId, Service};

/// A member's own messages on their way.
#[derive(Debug)]
pub(super) struct Sender {
    /// Messages that not all have acknowledged, from number `acknowledged + 1` on.
    window: VecDeque<(Service, Bytes)>,
    /// All members have acknowledged up to here.
    acknowledged: u64,
    /// What each other member has acknowledged.
    marks: BTreeMap<MemberId, u64>,
    /// Messages that wait for the window.
    pub(super) queue: SendQueue<Fifo>,
}

impl Sender {
    pub(super) fn new(limits: SendLimits) -> Self {
        Self {
            window: VecDeque::new(),
            acknowledged: 0,
            marks: BTreeMap::new(),
            queue: SendQueue::new(limits, Fifo::default()),
        }
    }

    /// These others are to acknowledge.
    pub(super) fn install(&mut self, others: impl Iterator<Item = MemberId>) {
        self.marks = others.map(|member| (member, 0)).collect();
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
    pub(super) fn next(&self, window: u32) -> Option<&Outgoing> {
        let has_room = self.window.len() < window as usize;
        self.queue.front().filter(|_| has_room)
    }

    /// The next message is sent. In a group of one that is all.
    pub(super) fn advance(&mut self) {
        if let Some(message) = self.queue.pop() {
            self.window.push_back((message.service, message.payload));
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
        let mut sender = Sender::new(SendLimits {
            services: &[Service::Fifo],
            message_max: 2,
            queue_max: 16,
        });
        sender.install([member(2), member(3)].into_iter());
        for number in 1..=6 {
            let payload = Bytes::from_static(b"ab");
            assert_eq!(sender.queue.submit(Service::Fifo, payload), Ok(number));
        }
        while sender.next(4).is_some() {
            sender.advance();
        }
        assert_eq!((sender.outstanding(), sender.queue.bytes()), (4, 4));
        assert!(sender.acknowledge(member(2), 4));
        assert!(
            sender.next(4).is_none(),
            "member 3 has acknowledged nothing"
        );
        assert!(!sender.acknowledge(member(3), 9) && !sender.acknowledge(member(4), 4));
        assert!(sender.acknowledge(member(3), 2) && !sender.acknowledge(member(3), 1));
        assert_eq!(sender.next(4).map(|message| message.number), Some(5));
        assert_eq!(sender.behind(), [(member(3), 3)]);
        assert!(sender.get(2).is_none() && sender.get(3).is_some() && sender.get(5).is_none());
    }
}
