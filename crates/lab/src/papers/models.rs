//! What the models share that the papers compare their protocols with: who is there, and how a
//! message is delivered. Every process says hello to all a few times when it begins.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Delivery, Destination, Event, MemberId, MessageId, Rng, Service, SocketClass, Time, Transmit,
    TransmitBuf,
};

/// A hello: its first byte is its kind, the others fill a header.
const HELLO: [u8; 17] = [0; 17];

/// How often each says hello: the first one is for the nodes to admit each other.
const HELLOS: u32 = 6;
const INTERVAL: Duration = Duration::from_millis(50);

/// Those who said hello.
pub(super) struct Roster {
    members: BTreeSet<MemberId>,
    hellos: u32,
    next: Time,
}

impl Roster {
    /// Nobody yet.
    pub(super) fn new(mut rng: Rng, now: Time) -> Self {
        Self {
            members: BTreeSet::new(),
            hellos: 0,
            next: now + rng.duration(Duration::ZERO, INTERVAL),
        }
    }

    pub(super) fn handle_hello(&mut self, from: MemberId) {
        self.members.insert(from);
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        (self.hellos < HELLOS).then_some(self.next)
    }

    pub(super) fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if self.hellos >= HELLOS || now < self.next {
            return None;
        }
        self.hellos += 1;
        self.next = now + INTERVAL;
        buf.push(&[&HELLO]);
        Some(Transmit {
            destination: Destination::Group,
            class: SocketClass::Control,
        })
    }

    /// All of them, in order.
    pub(super) fn members(&self) -> impl Iterator<Item = MemberId> {
        self.members.iter().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }
}

/// A message of `sender` for the user. The models have no order: it has no place.
pub(super) fn delivery(sender: MemberId, number: u64, payload: Bytes) -> Event {
    Event::Deliver(Delivery {
        id: MessageId { sender, number },
        service: Service::Reliable,
        place: None,
        payload,
    })
}
