//! What a member can answer requests with: a bounded buffer, and the application itself.
//!
//! SRM follows the principle of application-level framing (Clark and Tennenhouse 1990; 004 5.4): a
//! message is a unit that the application names and may be able to make again, so that nothing
//! needs to be kept for repairs alone.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;

use bytes::Bytes;
use groupcast_core::{MessageId, Service};

/// An application that can make messages again: those that it submitted, and those that it was
/// given.
pub trait Archive {
    /// The message as it was submitted, byte for byte; `None` if it cannot be made any more.
    fn regenerate(&mut self, id: MessageId) -> Option<(Service, Bytes)>;
}

/// The messages of late, and the archive.
pub(super) struct Store {
    messages: BTreeMap<MessageId, (Service, Bytes)>,
    /// The same, the oldest first.
    order: VecDeque<MessageId>,
    bytes: usize,
    bytes_max: usize,
    pub(super) archive: Option<Box<dyn Archive + Send>>,
}

impl Store {
    /// What a message costs beside its payload.
    const OVERHEAD: usize = 128;

    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            messages: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            bytes_max,
            archive: None,
        }
    }

    /// Keeps a message as long as there is room.
    pub(super) fn keep(&mut self, id: MessageId, service: Service, payload: Bytes) {
        let cost = payload.len() + Self::OVERHEAD;
        if cost > self.bytes_max {
            return;
        }
        while self.bytes + cost > self.bytes_max {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            if let Some((_, payload)) = self.messages.remove(&oldest) {
                self.bytes -= payload.len() + Self::OVERHEAD;
            }
        }
        if self.messages.insert(id, (service, payload)).is_none() {
            self.order.push_back(id);
            self.bytes += cost;
        }
    }

    /// Whether it may be able to answer for the message.
    pub(super) fn may_have(&self, id: MessageId) -> bool {
        self.archive.is_some() || self.messages.contains_key(&id)
    }

    /// The message, from the buffer or made again.
    pub(super) fn fetch(&mut self, id: MessageId) -> Option<(Service, Bytes)> {
        let kept = self.messages.get(&id).cloned();
        kept.or_else(|| self.archive.as_mut()?.regenerate(id))
    }

    /// How many messages are kept.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Payload bytes that are kept.
    pub(super) fn payload_bytes(&self) -> usize {
        self.bytes - self.messages.len() * Self::OVERHEAD
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("messages", &self.messages.len())
            .field("bytes", &self.bytes)
            .field("archive", &self.archive.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, MemberId, NodeId};

    use super::*;

    fn id(number: u64) -> MessageId {
        let sender = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        MessageId { sender, number }
    }

    #[test]
    fn the_oldest_give_way_and_the_archive_makes_them_again() {
        struct Numbers;
        impl Archive for Numbers {
            fn regenerate(&mut self, id: MessageId) -> Option<(Service, Bytes)> {
                let bytes = Bytes::copy_from_slice(&id.number.to_be_bytes());
                (id.number < 100).then_some((Service::Reliable, bytes))
            }
        }
        let mut store = Store::new(4 * (Store::OVERHEAD + 8));
        for number in 1..=10 {
            let payload = Bytes::copy_from_slice(&u64::to_be_bytes(number));
            store.keep(id(number), Service::Reliable, payload);
        }
        assert_eq!((store.len(), store.payload_bytes()), (4, 32));
        assert!(store.may_have(id(7)) && !store.may_have(id(6)));
        assert_eq!(store.fetch(id(6)), None);
        store.archive = Some(Box::new(Numbers));
        let (_, made) = store.fetch(id(6)).expect("the archive has it");
        assert_eq!(made[..], 6u64.to_be_bytes());
        assert_eq!(store.fetch(id(100)), None);
    }

    #[test]
    fn a_store_of_nothing_keeps_nothing() {
        let mut store = Store::new(0);
        store.keep(id(1), Service::Fifo, Bytes::from_static(b"x"));
        assert_eq!(store.len(), 0);
    }
}
