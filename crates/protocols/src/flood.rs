//! Bare multicast: every message is one datagram, sent once, delivered where and when it arrives.
//!
//! No promise, no state, no control traffic. It is what the other protocols are compared with, and
//! what shows what a simulated network itself costs. Service: unreliable, and nothing else.
//!
//! | byte | meaning |
//! |---|---|
//! | 0..8 | the sender's number of the message |
//! | 8.. | payload |

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;

use bytes::{Buf as _, Bytes};
use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::mech::participation::{Participation, Transitions};
use groupcast_core::mech::send_queue::{Fifo, SendLimits, SendQueue};
use groupcast_core::trace::{Inspected, Role, Transition};
use groupcast_core::{
    Delivery, Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng,
    Service, SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

const HEADER: usize = 8;

/// A sender and receiver of bare multicasts.
#[derive(Debug)]
pub struct Flood {
    local: MemberId,
    queue: SendQueue<Fifo>,
    events: VecDeque<Event>,
    participation: Participation,
    transitions: Transitions,
}

impl Flood {
    /// The services that it carries.
    pub const SERVICES: &[Service] = &[Service::Unreliable];
    /// The longest message: one datagram, with room for framing.
    pub const MESSAGE_MAX: usize = 65_000;
    /// Payload bytes that may wait to be sent.
    pub const QUEUE_MAX: usize = 4 << 20;

    /// A member that sends and receives at once: there is nobody to look for.
    pub fn new(local: MemberId) -> Self {
        let limits = SendLimits {
            services: Self::SERVICES,
            message_max: Self::MESSAGE_MAX,
            queue_max: Self::QUEUE_MAX,
        };
        Self {
            local,
            queue: SendQueue::new(limits, Fifo::default()),
            events: VecDeque::new(),
            participation: Participation::Member,
            transitions: Transitions::default(),
        }
    }

    fn deliver(&mut self, id: MessageId, payload: Bytes) {
        self.events.push_back(Event::Deliver(Delivery {
            id,
            service: Service::Unreliable,
            place: None,
            payload,
        }));
    }
}

/// Bare multicast, which promises nothing: what the others are compared with.
pub const FAMILY: Family = Family {
    name: "flood",
    services: Flood::SERVICES,
    service: Service::Unreliable,
    contract: Contract::Unreliable,
    variants: &[Variant { name: "", build }],
    settings: None,
    inspect,
    trial: Trial {
        len_max: Flood::MESSAGE_MAX,
        services: Some(Flood::SERVICES),
        ..Trial::new(vary)
    },
};

fn build(local: MemberId, _rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    Box::new(Flood::new(local))
}

/// There is nothing to set.
fn vary(_rng: Rng, _situation: &Situation) -> Factory {
    Arc::new(build)
}

/// An [`Inspect`](groupcast_core::trace::Inspect) for bare multicasts.
pub fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    if let Some(rest) = body.get(HEADER..) {
        payload(rest);
        return Inspected {
            kind: "data",
            role: Role::Data,
        };
    }
    Inspected {
        kind: "junk",
        role: Role::Control,
    }
}

impl Protocol for Flood {
    type Event = Event;

    fn handle_datagram(&mut self, _now: Time, from: MemberId, mut body: Bytes) {
        if body.len() < HEADER || self.participation.has_left() {
            return;
        }
        let id = MessageId {
            sender: from,
            number: body.get_u64(),
        };
        self.deliver(id, body);
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, _now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        while let Some(message) = self.queue.front()
            && buf.accepts(HEADER + message.payload.len())
        {
            buf.push(&[&message.number.to_be_bytes(), &message.payload]);
            self.queue.pop();
        }
        if self.queue.take_writable() {
            self.events.push_back(Event::Writable);
        }
        (!buf.is_empty()).then_some(Transmit {
            destination: Destination::Group,
            class: SocketClass::Data,
        })
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.transitions.pop()
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn read_first(&self) -> SocketClass {
        SocketClass::Data
    }
}

impl Ordered for Flood {
    fn submit(
        &mut self,
        _now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let number = self.queue.submit(service, payload.clone())?;
        let sender = self.local;
        self.deliver(MessageId { sender, number }, payload);
        Ok(MessageId { sender, number })
    }

    fn services(&self) -> &'static [Service] {
        self.queue.services()
    }

    fn leave(&mut self, _now: Time) {
        if self.participation.is_member() {
            self.queue.close();
            self.participation
                .advance(Participation::Left, "leave", &mut self.transitions);
            self.events.push_back(Event::Left);
        }
    }

    fn local(&self) -> MemberId {
        self.local
    }
}

impl Instrumented for Flood {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("queued", self.queue.bytes() as u64);
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
    fn a_message_is_delivered_at_its_sender_and_wherever_its_datagram_arrives() {
        let (mut a, mut b) = (Flood::new(member(1)), Flood::new(member(2)));
        let payload = Bytes::from_static(b"hello");
        let id = a.submit(Time::ZERO, Service::Unreliable, payload.clone());
        let id = id.expect("the queue is empty");
        let mut buf = TransmitBuf::new(4, 0, 0);
        assert!(a.poll_transmit(Time::ZERO, &mut buf).is_some());
        b.handle_datagram(
            Time::ZERO,
            member(1),
            Bytes::copy_from_slice(buf.as_bytes()),
        );
        for flood in [&mut a, &mut b] {
            let Some(Event::Deliver(delivery)) = flood.poll_event() else {
                panic!("it is delivered");
            };
            assert_eq!((delivery.id, delivery.payload), (id, payload.clone()));
        }
    }

    #[test]
    fn promises_are_refused_and_the_queue_is_bounded() {
        let mut flood = Flood::new(member(1));
        let refused = flood.submit(Time::ZERO, Service::Agreed, Bytes::new());
        assert!(matches!(refused, Err(SubmitError::Unsupported { .. })));
        let large = Bytes::from(alloc::vec![0; Flood::MESSAGE_MAX]);
        let full = (0..1000)
            .map(|_| flood.submit(Time::ZERO, Service::Unreliable, large.clone()))
            .find_map(Result::err);
        assert!(matches!(full, Some(SubmitError::Full { .. })));
        let mut buf = TransmitBuf::new(64, 0, 0);
        while flood.poll_transmit(Time::ZERO, &mut buf).is_some() {
            buf.clear();
        }
        let writable =
            core::iter::from_fn(|| flood.poll_event()).any(|event| event == Event::Writable);
        assert!(writable);
    }
}
