//! Messages that were delivered before their sender or their groups were known here. Only messages
//! without a place can be, since they do not wait for the order of the joins.

use groupcast_core::{Delivery, MemberId};

use super::held::held_bytes;

/// The messages of one order, as they came, within a limit of bytes.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    messages: Vec<Delivery>,
    bytes: usize,
}

impl Ahead {
    /// Keeps a message, unless more than `limit` bytes would wait; returns whether it did.
    pub(super) fn keep(&mut self, delivery: &Delivery, limit: usize) -> bool {
        let bytes = self.bytes + held_bytes(delivery);
        if bytes > limit {
            return false;
        }
        self.bytes = bytes;
        self.messages.push(delivery.clone());
        true
    }

    /// Takes the messages from clients of `daemon`, or all of them if it is `None`.
    pub(super) fn take(&mut self, daemon: Option<MemberId>) -> Vec<Delivery> {
        let wanted = |it: &Delivery| daemon.is_none_or(|daemon| it.id.sender == daemon);
        if !self.messages.iter().any(wanted) {
            return Vec::new();
        }
        let (taken, left) = std::mem::take(&mut self.messages)
            .into_iter()
            .partition(wanted);
        self.messages = left;
        self.bytes = self.messages.iter().map(held_bytes).sum();
        taken
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use groupcast_core::{Incarnation, MessageId, NodeId, Service};

    use super::*;

    fn of(node: u64, number: u64) -> Delivery {
        let sender = MemberId {
            node: NodeId(node),
            incarnation: Incarnation(1),
        };
        Delivery {
            id: MessageId { sender, number },
            service: Service::Reliable,
            place: None,
            payload: Bytes::from_static(&[0; 1_000]),
        }
    }

    #[test]
    fn a_fact_of_one_daemon_tries_its_messages_again_and_no_others() {
        let mut ahead = Ahead::default();
        for (node, number) in [(1, 1), (2, 1), (1, 2)] {
            assert!(ahead.keep(&of(node, number), usize::MAX));
        }
        assert_eq!(ahead.take(Some(of(3, 1).id.sender)), []);
        let taken = ahead.take(Some(of(1, 1).id.sender));
        assert_eq!(taken, [of(1, 1), of(1, 2)]);
        assert_eq!(ahead.take(None), [of(2, 1)]);
        assert_eq!(ahead.bytes, 0);
    }

    #[test]
    fn bytes_are_limited_and_count_again_when_they_are_taken() {
        let mut ahead = Ahead::default();
        let limit = 2 * held_bytes(&of(1, 1));
        let kept: Vec<bool> = (1..=3)
            .map(|number| ahead.keep(&of(1, number), limit))
            .collect();
        assert_eq!(kept, [true, true, false]);
        ahead.take(None);
        assert!(ahead.keep(&of(1, 3), limit));
    }
}
