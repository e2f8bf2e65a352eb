//! An example: each sender's messages in order, repaired by their sender.
//! `docs/write-a-protocol.md` goes through it.
//!
//! It follows no paper; it is the smallest protocol here that promises something. A member
//! multicasts its messages with numbers and keeps the last ones. At every tick it says which it
//! keeps and what it sent last; a member that misses some asks for them, and the sender multicasts
//! them again. `stream` is the receiving half.
//!
//! # Guarantees
//! `fifo` with gaps: a message that its sender no longer keeps, or whose sender is silent, is
//! reported in its place, once. There is no membership: a member that comes late begins with what
//! it hears first.
//!
//! # Datagrams
//! | byte | meaning |
//! |---|---|
//! | 0 | kind: 1 data, 2 state, 3 request |
//! | 1..9 | data: the message's number; state: the first that is kept; request: the first that is missing |
//! | 9.. | data: the payload; state: the last that was sent, request: the last that is missing (8 bytes) |

mod family;
mod stream;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::participation::{Participation, Transitions};
use groupcast_core::mech::send_queue::{Fifo, SendLimits, SendQueue};
use groupcast_core::trace::Transition;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{
    Delivery, Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Service,
    SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

pub use self::family::FAMILY;
use self::stream::Stream;

const DATA: u8 = 1;
const STATE: u8 = 2;
const REQUEST: u8 = 3;
/// No sender gets so far in its life, so that counting on from a number never overflows.
const NUMBER_MAX: u64 = 1 << 48;

/// A member.
#[derive(Debug)]
pub struct Example {
    local: MemberId,
    kept_max: usize,
    queue: SendQueue<Fifo>,
    /// Own messages that were sent, for repairs.
    kept: BTreeMap<u64, Bytes>,
    /// The numbers of those that are to be sent again.
    repairs: BTreeSet<u64>,
    streams: BTreeMap<MemberId, Stream>,
    /// The state and the requests of this tick.
    control: VecDeque<(Destination, Vec<u8>)>,
    tick: Time,
    events: VecDeque<Event>,
    participation: Participation,
    transitions: Transitions,
}

impl Example {
    /// The services that it carries.
    pub const SERVICES: &[Service] = &[Service::Fifo];
    /// The longest message: each is one datagram.
    pub const MESSAGE_MAX: usize = 8_000;
    const QUEUE_MAX: usize = 4 << 20;
    const TICK: Duration = Duration::from_millis(50);
    /// After such a silence of a sender, what is missing of its messages is given up.
    const SILENCE: Duration = Duration::from_secs(2);
    /// Senders that are followed at most; further ones are ignored.
    const SENDERS_MAX: usize = 1_024;

    /// A member that sends and receives at once, and keeps `kept_max` of its messages for repairs.
    pub fn new(kept_max: usize, local: MemberId, now: Time) -> Self {
        let limits = SendLimits {
            services: Self::SERVICES,
            message_max: Self::MESSAGE_MAX,
            queue_max: Self::QUEUE_MAX,
        };
        Self {
            local,
            kept_max,
            queue: SendQueue::new(limits, Fifo::default()),
            kept: BTreeMap::new(),
            repairs: BTreeSet::new(),
            streams: BTreeMap::new(),
            control: VecDeque::new(),
            tick: now + Self::TICK,
            events: VecDeque::new(),
            participation: Participation::Member,
            transitions: Transitions::default(),
        }
    }

    fn read(&mut self, now: Time, from: MemberId, body: &Bytes) -> Result<(), DecodeError> {
        let mut reader = Reader::new(body);
        let kind = reader.u8("kind")?;
        let first = reader.u64("number")?;
        if first == 0 || first > NUMBER_MAX {
            return Err(reader.invalid("number", first));
        }
        if kind == DATA {
            let payload = body.slice(reader.position()..);
            self.hear(now, from, first, |stream, events| {
                stream.take(first, payload, events);
            });
            return Ok(());
        }
        let last = reader.u64("last")?;
        reader.finish()?;
        match kind {
            _ if last > NUMBER_MAX => return Err(reader.invalid("last", last)),
            STATE => self.hear(now, from, last + 1, |stream, events| {
                stream.exist(first, last, events);
            }),
            REQUEST if first <= last => {
                let numbers = self.kept.range(first..=last).map(|(number, _)| *number);
                self.repairs.extend(numbers);
            }
            _ => return Err(reader.invalid("kind", u64::from(kind))),
        }
        Ok(())
    }

    /// Something came from `from`, whose stream begins with `next` if it is new.
    fn hear(
        &mut self,
        now: Time,
        from: MemberId,
        next: u64,
        take: impl FnOnce(&mut Stream, &mut VecDeque<Event>),
    ) {
        if self.streams.contains_key(&from) || self.streams.len() < Self::SENDERS_MAX {
            let stream = self.streams.entry(from);
            let stream = stream.or_insert_with(|| Stream::new(from, next, now));
            stream.heard = now;
            take(stream, &mut self.events);
        }
    }

    /// Says what exists, asks for what is missing, gives up what nobody will repair.
    fn speak(&mut self, now: Time) {
        // What was not sent since the last tick is out of date.
        self.control.clear();
        // Before its first message too, so that all who hear of it wait for that one.
        let first = self.kept.keys().next().map_or(1, |first| *first);
        let last = self.kept.keys().next_back().map_or(0, |last| *last);
        let state = datagram(STATE, first, &last.to_be_bytes());
        self.control.push_back((Destination::Group, state));
        for (sender, stream) in &mut self.streams {
            if stream.heard + Self::SILENCE <= now {
                stream.give_up_all(&mut self.events);
            }
            if let Some((first, last)) = stream.missing() {
                let request = datagram(REQUEST, first, &last.to_be_bytes());
                self.control
                    .push_back((Destination::Member(*sender), request));
            }
        }
    }

    /// What is sent next: control first, then repairs, then new messages.
    fn next(&mut self) -> Option<(Destination, SocketClass, Vec<u8>)> {
        if let Some((destination, control)) = self.control.pop_front() {
            return Some((destination, SocketClass::Control, control));
        }
        let data = match self.repairs.pop_first() {
            Some(number) => datagram(DATA, number, &self.kept[&number]),
            None => {
                let message = self.queue.pop()?;
                let data = datagram(DATA, message.number, &message.payload);
                self.kept.insert(message.number, message.payload);
                if self.kept.len() > self.kept_max
                    && let Some((oldest, _)) = self.kept.pop_first()
                {
                    self.repairs.remove(&oldest);
                }
                data
            }
        };
        Some((Destination::Group, SocketClass::Data, data))
    }
}

fn datagram(kind: u8, number: u64, rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Writer::new(&mut bytes).u8(kind).u64(number).put(rest);
    bytes
}

impl Protocol for Example {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        if !self.participation.has_left() {
            // Junk is dropped: a mistake of a peer is no error here.
            let _ = self.read(now, from, &body);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.tick > now || self.participation.has_left() {
            return;
        }
        self.tick = now + Self::TICK;
        self.speak(now);
        if !self.participation.is_member() && self.queue.is_empty() {
            self.participation
                .advance(Participation::Left, "all is sent", &mut self.transitions);
            self.events.push_back(Event::Left);
        }
    }

    fn poll_transmit(&mut self, _now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let (destination, class, datagram) = self.next()?;
        buf.push(&[&datagram]);
        if self.queue.take_writable() {
            self.events.push_back(Event::Writable);
        }
        Some(Transmit { destination, class })
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.transitions.pop()
    }

    fn poll_timeout(&self) -> Option<Time> {
        (!self.participation.has_left()).then_some(self.tick)
    }
}

impl Ordered for Example {
    fn submit(
        &mut self,
        _now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let number = self.queue.submit(service, payload.clone())?;
        let sender = self.local;
        let id = MessageId { sender, number };
        self.events.push_back(Event::Deliver(Delivery {
            id,
            service,
            place: None,
            payload,
        }));
        Ok(id)
    }

    fn services(&self) -> &'static [Service] {
        self.queue.services()
    }

    fn leave(&mut self, _now: Time) {
        if self.participation.is_member() {
            self.queue.close();
            self.participation
                .advance(Participation::Leaving(()), "leave", &mut self.transitions);
        }
    }

    fn local(&self) -> MemberId {
        self.local
    }
}

impl Instrumented for Example {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("queued", self.queue.bytes() as u64);
        each("buffered", self.kept.len() as u64);
    }
}
