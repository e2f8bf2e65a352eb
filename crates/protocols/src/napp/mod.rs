//! NAPP, negative acknowledgements with periodic polling, for comparison: receivers overhear each
//! other, and speak when nobody else has.
//!
//! Source: 003 3.1.4, 3.3.4, 3.4 and 4.2. Each message is a connection to the receivers that have
//! answered its opening:
//!
//! ```text
//!  source                    receivers  1            2
//!    │  open ─────────────────────────▶ │            │
//!    │ ◀─ here ──────────────────────── │            │
//!    │  roster ───────────────────────▶ │            │
//!    │  packets 0, 1, 2 … ────────────▶ │            ✕  1 is lost
//!    │ ◀─────────── SREJ(1), with P ────┼─────────── │  by multicast: all that lack 1 hold theirs
//!    │  packet 1, again ──────────────▶ │            │
//!    │ ◀─ ACK, after some in sequence ──┼──────────▶ │
//!    │ ◀─ PACK, after a silence ────────┼──────────▶ │
//! ```
//!
//! ACK, PACK and SREJ are multicast, and each carries a *state vector*: the first packet that each
//! receiver lacks, as far as the sender of the vector has heard. The source moves its window by
//! those vectors, so it may learn from one receiver what another has.
//!
//! # Guarantees
//! `reliable` promises one thing here: a receiver that is `complete` in the account of a message
//! has it, once (the contract is [`Contract::Unreliable`](groupcast_core::Contract)). A receiver
//! that lacks packets and is silent is lost; then the delivery to the group fails, and the account
//! names the receivers that have the message and those that have not. A member that has not
//! answered the opening is no receiver.
//!
//! # Timers
//! At a receiver three: T_pack polls for what it lacks, T_ack repeats its last ACK, and each packet
//! that it lacks has one for its SREJ. At the source one: openings, and how long a receiver may be
//! silent.
//!
//! # Deviations from 003, and what it leaves open
//! - How a connection comes about: 003 assumes one. Here the source asks who is there.
//! - Data says how many packets were sent, so that the loss of the last ones is seen in a repair.
//! - PACK(V) is answered with the packet V alone; SREJs ask for the other missing packets.
//! - An ACK is repeated every T_ack until the source closes the connection.
//! - Timers are settings, and do not adapt; a packet is repeated once in `srej_rest` at most.
//! - A member that leaves is noticed as one that has crashed.
//!
//! Files: `sending` and `receiving` are the two ends; `wire` the format; `family` what the registry
//! says.

mod config;
mod family;
mod inspect;
mod planted;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;
mod wire;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::event::Account;
use groupcast_core::mech::participation::{Participation, Transitions};
use groupcast_core::mech::send_queue::{Fifo, SendLimits, SendQueue};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Delivery, Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng,
    Service, SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

pub use self::config::{ConfigError, NappConfig};
pub use self::family::FAMILY;
pub use self::inspect::inspect;
#[cfg(any(test, feature = "planted-bugs"))]
pub use self::planted::Planted;
use self::planted::Plants;
use self::receiving::{Incoming, Record, Records, Say};
use self::sending::{Outcome, Outgoing};
use self::wire::{Message, What};

/// An entity that is a source, and a receiver of all others.
#[derive(Debug)]
pub struct Napp {
    config: NappConfig,
    local: MemberId,
    rng: Rng,
    queue: SendQueue<Fifo>,
    /// The first of the queue, on its way.
    current: Option<Outgoing>,
    records: Records,
    outbox: VecDeque<(Destination, Bytes)>,
    events: VecDeque<Event>,
    participation: Participation,
    transitions: Transitions,
    counters: Counters,
    plants: Plants,
}

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    acks: u64,
    packs: u64,
    srejs: u64,
    acks_heard: u64,
    packs_heard: u64,
    srejs_heard: u64,
    repairs: u64,
    failed: u64,
    junk: u64,
}

impl Napp {
    /// The services that it carries.
    pub const SERVICES: &[Service] = &[Service::Reliable];
    /// Bytes of a packet: with the headers it makes an Ethernet frame.
    pub const PACKET: usize = wire::PACKET;
    /// The longest message.
    pub const MESSAGE_MAX: usize = 1 << 20;
    /// Receivers of a message, at most.
    pub const RECEIVERS_MAX: usize = wire::RECEIVERS_MAX;
    /// Control packets that wait to be sent; what does not fit is said again later.
    const OUTBOX_MAX: usize = 4_096;

    /// An entity that sends and receives at once.
    ///
    /// # Errors
    /// If a setting is out of its range.
    pub fn new(local: MemberId, config: NappConfig, rng: Rng) -> Result<Self, ConfigError> {
        config.validate()?;
        let limits = SendLimits {
            services: Self::SERVICES,
            message_max: Self::MESSAGE_MAX,
            queue_max: config.queue_max,
        };
        Ok(Self {
            config,
            local,
            rng: rng.fork("napp"),
            queue: SendQueue::new(limits, Fifo::default()),
            current: None,
            records: Records::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            participation: Participation::Member,
            transitions: Transitions::default(),
            counters: Counters::default(),
            plants: Plants::default(),
        })
    }

    /// Plants a bug.
    #[cfg(any(test, feature = "planted-bugs"))]
    pub fn plant(&mut self, bug: Planted) {
        self.plants.plant(bug);
    }

    fn send(&mut self, destination: Destination, message: &Message) {
        if self.outbox.len() < Self::OUTBOX_MAX {
            self.outbox.push_back((destination, message.encode()));
        }
    }

    fn send_all(&mut self, messages: Vec<Message>) {
        for message in messages {
            self.send(Destination::Group, &message);
        }
    }

    /// Begins with the next message of the queue, if none is on its way.
    fn begin(&mut self, now: Time) {
        let (None, Some(message)) = (&self.current, self.queue.front()) else {
            return;
        };
        let bytes = message.payload.len();
        let outgoing = Outgoing::new(now, message.number, bytes, &self.config);
        let opening = outgoing.opening();
        self.current = Some(outgoing);
        self.send(Destination::Group, &opening);
    }

    /// Ends the message on its way if it is known what became of it: its user gets the account.
    fn settle(&mut self, now: Time) {
        let current = self.current.as_ref();
        let Some(outcome) = current.and_then(|it| it.outcome(now, &self.config)) else {
            return;
        };
        let (Some(current), Some(message)) = (self.current.take(), self.queue.pop()) else {
            return;
        };
        let Outcome { complete, failed } = outcome;
        self.counters.failed += u64::from(!failed.is_empty());
        let close = Message::Close {
            message: current.message,
        };
        self.send(Destination::Group, &close);
        let id = MessageId {
            sender: self.local,
            number: message.number,
        };
        self.events.push_back(Event::Account(Account {
            id,
            complete,
            failed,
        }));
        self.deliver(id, message.payload);
        if self.queue.take_writable() {
            self.events.push_back(Event::Writable);
        }
        if self.queue.is_empty() && matches!(self.participation, Participation::Leaving(())) {
            return self.finish_leave("all is accounted for");
        }
        self.begin(now);
    }

    fn deliver(&mut self, id: MessageId, payload: Bytes) {
        self.events.push_back(Event::Deliver(Delivery {
            id,
            service: Service::Reliable,
            place: None,
            payload,
        }));
    }

    fn finish_leave(&mut self, cause: &'static str) {
        self.participation
            .advance(Participation::Left, cause, &mut self.transitions);
        self.events.push_back(Event::Left);
    }

    /// A source asks who is there.
    fn hear_open(&mut self, now: Time, from: MemberId, message: u64, packets: u32) {
        let known = self.records.get(&from);
        let is_new = known.is_none_or(|known| known.message < message);
        if is_new {
            if known.is_none() && self.records.len() >= self.config.sources_max {
                return;
            }
            let incoming = Some(Incoming::new(now, packets, &self.config));
            self.records.insert(from, Record { message, incoming });
        }
        if self.incoming(from, message).is_some() {
            self.send(Destination::Member(from), &Message::Here { message });
        }
    }

    fn incoming(&mut self, source: MemberId, message: u64) -> Option<&mut Incoming> {
        let record = self.records.get_mut(&source)?;
        let is_it = record.message == message;
        record.incoming.as_mut().filter(|_| is_it)
    }

    /// A page of the roster of a source.
    fn hear_roster(
        &mut self,
        now: Time,
        from: MemberId,
        message: u64,
        (receivers, first): (u16, u16),
        page: &[MemberId],
    ) {
        let local = self.local;
        let Some(at) = page.iter().position(|member| *member == local) else {
            return;
        };
        if let Some(incoming) = self.incoming(from, message) {
            incoming.placed(now, first + at as u16, receivers);
        }
    }

    /// A packet of a message: how many packets the message has, how many of them were sent so far,
    /// and which one this is.
    fn hear_data(
        &mut self,
        now: Time,
        from: MemberId,
        message: u64,
        (packets, sent, sequence): (u32, u32, u32),
        bytes: Bytes,
    ) {
        let config = self.config.clone();
        let Some(incoming) = self.incoming(from, message) else {
            return;
        };
        if incoming.packets() != packets {
            return;
        }
        let mut says = Vec::new();
        let whole = incoming.take(now, (sequence, sent), bytes, &config, &mut says);
        if let Some(payload) = whole {
            let (sender, number) = (from, message);
            self.deliver(MessageId { sender, number }, payload);
        }
        self.say(from, says);
    }

    /// Sends what this host, as a receiver of `source`, has to say.
    fn say(&mut self, source: MemberId, says: Vec<Say>) {
        let Some(record) = self.records.get(&source) else {
            return;
        };
        let (message, Some(incoming)) = (record.message, &record.incoming) else {
            return;
        };
        let index = incoming.index().unwrap_or_default();
        let vector = self.plants.vector(incoming.vector().to_vec(), index);
        for say in says {
            let Say::Control(what, number) = say else {
                self.send(Destination::Member(source), &Message::Here { message });
                continue;
            };
            *match what {
                What::Ack => &mut self.counters.acks,
                What::Pack => &mut self.counters.packs,
                What::Srej => &mut self.counters.srejs,
            } += 1;
            let control = Message::Control {
                what,
                source,
                message,
                number,
                index,
                vector: vector.clone(),
            };
            self.send(Destination::Group, &control);
        }
    }

    /// A control packet about a message of this source.
    fn hear_own(
        &mut self,
        now: Time,
        from: MemberId,
        message: u64,
        says: (What, u32),
        state: (u16, &[u32]),
    ) {
        let is_current = |it: &&mut Outgoing| it.message == message;
        let Some(current) = self.current.as_mut().filter(is_current) else {
            // The message is over, and this receiver does not know it.
            if message != 0 && message <= self.queue.submitted() {
                self.send(Destination::Member(from), &Message::Close { message });
            }
            return;
        };
        if !current.hear_control(now, from, says, state, &self.config) {
            self.counters.junk += 1;
            return;
        }
        *match says.0 {
            What::Ack => &mut self.counters.acks_heard,
            What::Pack => &mut self.counters.packs_heard,
            What::Srej => &mut self.counters.srejs_heard,
        } += 1;
        self.settle(now);
    }
}

impl Protocol for Napp {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        if self.participation.has_left() || from == self.local {
            return;
        }
        match Message::decode(&body) {
            Ok(Message::Open { message, packets }) => self.hear_open(now, from, message, packets),
            Ok(Message::Here { message }) => {
                let is_current = |it: &&mut Outgoing| it.message == message;
                let current = self.current.as_mut().filter(is_current);
                let config = &self.config;
                let pages = current.map(|it| it.hear_here(now, from, config));
                self.send_all(pages.unwrap_or_default());
            }
            Ok(Message::Roster {
                message,
                receivers,
                first,
                page,
            }) => self.hear_roster(now, from, message, (receivers, first), &page),
            Ok(Message::Data {
                message,
                packets,
                sent,
                sequence,
                bytes,
                ..
            }) => self.hear_data(now, from, message, (packets, sent, sequence), bytes),
            Ok(Message::Control {
                what,
                source,
                message,
                number,
                index,
                vector,
            }) => {
                if source == self.local {
                    return self.hear_own(now, from, message, (what, number), (index, &vector));
                }
                let config = self.config.clone();
                if let Some(incoming) = self.incoming(source, message) {
                    incoming.overhear(now, (what, number), &vector, &config);
                }
            }
            Ok(Message::Close { message }) => {
                if let Some(record) = self.records.get_mut(&from)
                    && record.message == message
                {
                    record.incoming = None;
                }
            }
            Err(_) => self.counters.junk += 1,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.participation.has_left() {
            return;
        }
        if let Some(current) = &mut self.current {
            let messages = current.expire(now, &self.config);
            self.send_all(messages);
        }
        self.settle(now);
        let due = |(source, record): (&MemberId, &Record)| {
            let incoming = record.incoming.as_ref()?;
            (incoming.due(&self.config) <= now).then_some(*source)
        };
        let sources: Vec<MemberId> = self.records.iter().filter_map(due).collect();
        for source in sources {
            let Some(record) = self.records.get_mut(&source) else {
                continue;
            };
            let mut says = Vec::new();
            let (config, rng) = (&self.config, &mut self.rng);
            let incoming = record.incoming.as_mut();
            if incoming.is_some_and(|it| !it.expire(now, config, rng, &mut says)) {
                record.incoming = None;
            }
            self.say(source, says);
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if let Some((destination, body)) = self.outbox.pop_front() {
            buf.push(&[&body]);
            let class = SocketClass::Control;
            return Some(Transmit { destination, class });
        }
        let (current, message) = (self.current.as_mut()?, self.queue.front()?);
        let data = current.next_data(now, &message.payload, &self.config)?;
        self.counters.repairs += u64::from(matches!(data, Message::Data { again: true, .. }));
        buf.push(&[&data.encode()]);
        Some(Transmit {
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
        if self.participation.has_left() {
            return None;
        }
        let own = self.current.as_ref().and_then(|it| it.due(&self.config));
        let incoming = self.records.values().filter_map(|it| it.incoming.as_ref());
        let incoming = incoming.map(|it| it.due(&self.config)).min();
        [own, incoming].into_iter().flatten().min()
    }
}

impl Ordered for Napp {
    /// Accepts a message. It is delivered here when it is known what became of it, right after its
    /// account.
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let number = self.queue.submit(service, payload)?;
        self.begin(now);
        let sender = self.local;
        Ok(MessageId { sender, number })
    }

    fn services(&self) -> &'static [Service] {
        self.queue.services()
    }

    /// Leaves when every message of its own is accounted for; a receiver that is silent holds that
    /// up for its patience at most.
    fn leave(&mut self, _now: Time) {
        if !self.participation.is_member() {
            return;
        }
        self.queue.close();
        if self.queue.is_empty() {
            return self.finish_leave("leave");
        }
        self.participation
            .advance(Participation::Leaving(()), "leave", &mut self.transitions);
    }

    fn local(&self) -> MemberId {
        self.local
    }
}

impl Instrumented for Napp {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("queued", self.queue.bytes() as u64);
        each("ACKs", self.counters.acks);
        each("PACKs", self.counters.packs);
        each("SREJs", self.counters.srejs);
        each("ACKs heard", self.counters.acks_heard);
        each("PACKs heard", self.counters.packs_heard);
        each("SREJs heard", self.counters.srejs_heard);
        each("repairs", self.counters.repairs);
        each("failed", self.counters.failed);
        each("junk", self.counters.junk);
    }
}
