//! VMTP's multicast, for comparison: a request to a group of servers, whose responses acknowledge
//! it.
//!
//! Source: 003 3.1.2 and 3.3.2 (Versatile Message Transaction Protocol). Each message is a
//! transaction, one after the other:
//!
//! ```text
//!  client                              servers
//!    │  request, in 1 to 32 segments ──▶  each hands it to its user
//!    │  ◀── response, of each user        the first (the k-th) stops the timer
//!    │  ◀── responses                     later ones are kept for the user
//!    │
//!    │  (the timer runs out)
//!    │  demand (multicast) ────────────▶
//!    │  ◀── acknowledgement, at once      what is here of it; the response, if it was given
//!    │  missing segments (multicast) ──▶
//! ```
//!
//! # Guarantees
//! `reliable` as 003 has it, 1-reliable or k-reliable. It promises one thing: a server that is
//! `complete` in the account of a message has it, once (the contract is
//! [`Contract::Unreliable`](groupcast_core::Contract)). If a message did not fail, `responses`
//! servers have it. A server that misses a request never gets it once the client has these
//! responses.
//!
//! # Timers
//! One at the client: when to demand acknowledgements. At a server, when its user responds.
//!
//! # Deviations from 003, and what it leaves open
//! - 003 does not say how a request of several packets is repeated. Here acknowledgements name the
//!   segments that are there, and what any server misses is multicast again, once for each demand.
//! - A client has one transaction at a time; the next begins when the last has its responses.
//! - Entities have no managed group identifiers: all members that receive are the group.
//!
//! Files: `server` is the other half; `wire` the format; `family` what the registry says.

mod config;
mod family;
mod inspect;
mod server;
#[cfg(test)]
mod tests;
mod wire;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::event::Account;
use groupcast_core::mech::participation::{Participation, Transitions};
use groupcast_core::mech::send_queue::{Fifo, SendLimits, SendQueue};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Delivery, Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng,
    Service, SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

pub use self::config::{ConfigError, VmtpConfig};
pub use self::family::FAMILY;
pub use self::inspect::inspect;
use self::server::Server;
use self::wire::{Message, SEGMENTS_MAX, all_of};

/// An entity that is a client of the group, and a server in it.
#[derive(Debug)]
pub struct Vmtp {
    config: VmtpConfig,
    local: MemberId,
    rng: Rng,
    queue: SendQueue<Fifo>,
    /// The transaction of the first message in the queue.
    current: Option<Current>,
    server: Server,
    /// Responses that came when their requests had succeeded.
    later: VecDeque<Reply>,
    outbox: VecDeque<(Destination, Bytes)>,
    events: VecDeque<Event>,
    participation: Participation,
    transitions: Transitions,
    counters: Counters,
}

/// A transaction of this client.
#[derive(Debug)]
struct Current {
    transaction: u64,
    segments: u8,
    responders: BTreeSet<MemberId>,
    /// Segments that were multicast since the last demand.
    sent: u32,
    due: Time,
    demands: u32,
}

/// A response that came after its request had succeeded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The request.
    pub message: MessageId,
    /// The server that responds.
    pub server: MemberId,
    /// The bytes of its response.
    pub bytes: Bytes,
}

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    responses: u64,
    later: u64,
    demands: u64,
    acks: u64,
    repairs: u64,
    failed: u64,
    junk: u64,
}

impl Vmtp {
    /// The services that it carries.
    pub const SERVICES: &[Service] = &[Service::Reliable];
    /// Bytes of a segment.
    pub const SEGMENT: usize = 512;
    /// The longest message: a packet group.
    pub const MESSAGE_MAX: usize = Self::SEGMENT * SEGMENTS_MAX as usize;
    /// Later replies that are kept; older ones are forgotten.
    pub const LATER_MAX: usize = 1_024;
    /// Datagrams that wait to be sent; what does not fit is demanded again.
    const OUTBOX_MAX: usize = 4_096;
    /// The longest wait for responses between two demands, unless `time_out` is longer.
    const TIME_OUT_MAX: Duration = Duration::from_secs(1);

    /// An entity that sends and serves at once.
    ///
    /// # Errors
    /// If a setting is out of its range.
    pub fn new(local: MemberId, config: VmtpConfig, rng: Rng) -> Result<Self, ConfigError> {
        config.validate()?;
        let limits = SendLimits {
            services: Self::SERVICES,
            message_max: Self::MESSAGE_MAX,
            queue_max: config.queue_max,
        };
        Ok(Self {
            config,
            local,
            rng: rng.fork("vmtp"),
            queue: SendQueue::new(limits, Fifo::default()),
            current: None,
            server: Server::default(),
            later: VecDeque::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            participation: Participation::Member,
            transitions: Transitions::default(),
            counters: Counters::default(),
        })
    }

    /// The oldest response that came after its request had succeeded.
    pub fn poll_later(&mut self) -> Option<Reply> {
        self.later.pop_front()
    }

    fn send(&mut self, destination: Destination, message: &Message) {
        if self.outbox.len() < Self::OUTBOX_MAX {
            self.outbox.push_back((destination, message.encode()));
        }
    }

    /// Begins with the next message of the queue, if none is under way.
    fn begin(&mut self, now: Time) {
        if self.current.is_some() {
            return;
        }
        let Some(message) = self.queue.front() else {
            return;
        };
        let len = message.payload.len();
        let segments = len.div_ceil(Self::SEGMENT).max(1) as u8;
        let transaction = message.number;
        self.current = Some(Current {
            transaction,
            segments,
            responders: BTreeSet::new(),
            sent: 0,
            due: now + self.config.time_out,
            demands: 0,
        });
        self.request(all_of(segments), false);
    }

    /// Multicasts segments of the request that were not multicast since the last demand.
    fn request(&mut self, mask: u32, again: bool) {
        let (Some(current), Some(message)) = (&mut self.current, self.queue.front()) else {
            return;
        };
        let mask = mask & all_of(current.segments) & !current.sent;
        current.sent |= mask;
        let (transaction, segments) = (current.transaction, current.segments);
        let payload = message.payload.clone();
        for segment in (0..segments).filter(|segment| mask & (1 << segment) != 0) {
            let start = usize::from(segment) * Self::SEGMENT;
            let end = (start + Self::SEGMENT).min(payload.len());
            let request = Message::Request {
                again,
                transaction,
                segments,
                segment,
                bytes: payload.slice(start..end),
            };
            self.counters.repairs += u64::from(again);
            self.send(Destination::Group, &request);
        }
    }

    fn hear_response(&mut self, now: Time, from: MemberId, transaction: u64, bytes: Bytes) {
        self.counters.responses += 1;
        let is_current = |current: &&mut Current| current.transaction == transaction;
        if let Some(current) = self.current.as_mut().filter(is_current) {
            current.responders.insert(from);
            if current.responders.len() >= self.config.responses as usize {
                // 003 3.3.2: from now on the client takes no further action.
                self.conclude(now);
            }
            return;
        }
        if transaction > self.queue.submitted() {
            return;
        }
        self.counters.later += 1;
        if self.later.len() == Self::LATER_MAX {
            self.later.pop_front();
        }
        self.later.push_back(Reply {
            message: MessageId {
                sender: self.local,
                number: transaction,
            },
            server: from,
            bytes,
        });
    }

    /// A server acknowledges the segments in `mask`.
    fn hear_ack(&mut self, now: Time, transaction: u64, mask: u32) {
        let is_current = |current: &&mut Current| current.transaction == transaction;
        let Some(current) = self.current.as_mut().filter(is_current) else {
            return;
        };
        self.counters.acks += 1;
        let missing = all_of(current.segments) & !mask;
        if missing == 0 {
            // The server has the whole request: its user takes long, and nothing was lost.
            current.demands = 0;
            current.due = now + self.config.time_out;
            return;
        }
        self.request(missing, true);
    }

    /// The timer has run out before enough responses have come.
    fn demand(&mut self, now: Time) {
        let Some(current) = &mut self.current else {
            return;
        };
        if current.demands == self.config.demands {
            self.counters.failed += 1;
            return self.conclude(now);
        }
        current.demands += 1;
        current.sent = 0;
        let wait = self
            .config
            .time_out
            .saturating_mul(1 << current.demands.min(16));
        current.due = now + wait.min(Self::TIME_OUT_MAX.max(self.config.time_out));
        let demand = Message::Demand {
            transaction: current.transaction,
            segments: current.segments,
        };
        self.counters.demands += 1;
        self.send(Destination::Group, &demand);
    }

    /// Ends the transaction: its user learns which servers have responded, and the next begins.
    fn conclude(&mut self, now: Time) {
        let (Some(current), Some(message)) = (self.current.take(), self.queue.pop()) else {
            return;
        };
        let id = MessageId {
            sender: self.local,
            number: message.number,
        };
        self.events.push_back(Event::Account(Account {
            id,
            complete: current.responders.into_iter().collect(),
            failed: Vec::new(),
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

    fn respond(&mut self, now: Time) {
        while let Some((client, response)) = self.server.respond(now) {
            self.send(Destination::Member(client), &response);
        }
    }

    fn finish_leave(&mut self, cause: &'static str) {
        self.participation
            .advance(Participation::Left, cause, &mut self.transitions);
        self.events.push_back(Event::Left);
    }
}

impl Protocol for Vmtp {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        if self.participation.has_left() || from == self.local {
            return;
        }
        let max = self.config.clients_max;
        match Message::decode(&body) {
            Ok(Message::Request {
                transaction,
                segments,
                segment,
                bytes,
                ..
            }) => {
                let due = now + self.rng.duration(Duration::ZERO, self.config.think);
                let place = (transaction, segments, segment);
                if let Some((number, payload)) = self.server.take(from, place, bytes, due, max) {
                    let sender = from;
                    self.deliver(MessageId { sender, number }, payload);
                    self.respond(now);
                }
            }
            Ok(Message::Demand {
                transaction,
                segments,
            }) => {
                if let Some(says) = self.server.demanded(from, transaction, segments, max) {
                    self.send(Destination::Member(from), &says);
                }
            }
            Ok(Message::Ack { transaction, mask }) => self.hear_ack(now, transaction, mask),
            Ok(Message::Response { transaction, bytes }) => {
                self.hear_response(now, from, transaction, bytes);
            }
            Err(_) => self.counters.junk += 1,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.participation.has_left() {
            return;
        }
        self.respond(now);
        if self.current.as_ref().is_some_and(|it| it.due <= now) {
            self.demand(now);
        }
    }

    fn poll_transmit(&mut self, _now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let (destination, body) = self.outbox.pop_front()?;
        buf.push(&[&body]);
        let class = match destination {
            Destination::Group => SocketClass::Data,
            Destination::Member(_) => SocketClass::Control,
        };
        Some(Transmit { destination, class })
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
        let demand = self.current.as_ref().map(|current| current.due);
        [demand, self.server.due()].into_iter().flatten().min()
    }
}

impl Ordered for Vmtp {
    /// Accepts a message. It is delivered here when its request has its responses, or has failed,
    /// right after the account of who has responded.
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

    /// Leaves when every message is accounted for: each takes `demands` time-outs at most.
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

impl Instrumented for Vmtp {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("queued", self.queue.bytes() as u64);
        each("responses", self.counters.responses);
        each("later replies", self.counters.later);
        each("demands", self.counters.demands);
        each("acknowledgements", self.counters.acks);
        each("repairs", self.counters.repairs);
        each("failed", self.counters.failed);
        each("junk", self.counters.junk);
    }
}
