//! A windowed group with positive acknowledgements, for comparison: FIFO, reliable, and as fast as
//! its slowest member.
//!
//! Source: 004 4.4, which measures Ensemble's virtually synchronous multicast beside Pbcast and
//! puts its fall down to "flow control and windowed acknowledgement": a sender keeps what not all
//! members have acknowledged, and waits when that is a window full. This is that mechanism by
//! itself, after Hayden, *The Ensemble System* (1998), ch. 3 (layers `mnak` and `mflow`): no more
//! than a window of a sender's messages is outstanding, receivers acknowledge every few messages,
//! ask for what they miss, and get it from the sender.
//!
//! # Guarantees
//! `reliable` and `fifo` alike: every member delivers every message, each sender's in order,
//! outside of any total order.
//!
//! # What it deliberately lacks
//! A view change. The group is the first `group` members that find each other; 004 sets failure
//! time-outs above every pause, so that a run with a view change is void, and what remains of
//! virtual synchrony is the waiting. A member that crashes or leaves stops every sender after one
//! window.
//!
//! # Timers
//! See `Timer`.
//!
//! Files: `membership` finds the others; `sender` and `receiver` are the two halves of a stream;
//! `wire` is the format.

mod config;
mod inspect;
mod membership;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod wire;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::participation::{Participation, Transitions};
use groupcast_core::mech::send_queue::SendLimits;
use groupcast_core::mech::timers::{TimerKey, Timers};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Delivery, Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng,
    Service, SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

pub use self::config::{ConfigError, WindowedConfig};
pub use self::inspect::inspect;
use self::receiver::Receiver;
use self::sender::Sender;
use self::wire::Message;

/// A member of a windowed group.
#[derive(Debug)]
pub struct Windowed {
    config: WindowedConfig,
    local: MemberId,
    /// The others that are found, and whether they have found all.
    others: BTreeMap<MemberId, bool>,
    installed: bool,
    sender: Sender,
    receivers: BTreeMap<MemberId, Receiver>,
    /// Others to whom something is owed.
    unacknowledged: BTreeSet<MemberId>,
    timers: Timers<Timer>,
    outbox: VecDeque<(Destination, SocketClass, Vec<u8>, Bytes)>,
    events: VecDeque<Event>,
    participation: Participation,
    transitions: Transitions,
    counters: Counters,
}

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    acks: u64,
    naks: u64,
    repairs: u64,
    duplicates: u64,
    junk: u64,
}

/// The group's timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    /// When to say hello again.
    Hello,
    /// When to acknowledge what few messages have come.
    Ack,
    /// When to ask again for what is missing.
    Nak,
    /// When to send the oldest message again.
    Retransmit,
    /// When to leave without the last acknowledgements.
    Leave,
}

impl TimerKey for Timer {
    const ALL: &'static [Self] = &[
        Self::Hello,
        Self::Ack,
        Self::Nak,
        Self::Retransmit,
        Self::Leave,
    ];

    fn index(self) -> usize {
        self as usize
    }
}

impl Windowed {
    /// The services that it carries.
    pub const SERVICES: &[Service] = &[Service::Reliable, Service::Fifo];

    /// Missing numbers that one acknowledgement names.
    const MISSING_MAX: usize = 128;

    /// A member that begins to look for the others.
    pub fn new(
        config: WindowedConfig,
        local: MemberId,
        mut rng: Rng,
        now: Time,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut timers = Timers::default();
        timers.set(
            Timer::Hello,
            now + rng.duration(Duration::ZERO, config.hello_interval),
        );
        let sender = Sender::new(SendLimits {
            services: Self::SERVICES,
            message_max: config.message_max(),
            queue_max: config.queue_max,
        });
        let mut windowed = Self {
            config,
            local,
            others: BTreeMap::new(),
            installed: false,
            sender,
            receivers: BTreeMap::new(),
            unacknowledged: BTreeSet::new(),
            timers,
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            participation: Participation::Member,
            transitions: Transitions::default(),
            counters: Counters::default(),
        };
        windowed.install();
        Ok(windowed)
    }

    /// Whether all members are found.
    pub fn is_complete(&self) -> bool {
        self.installed
    }

    /// How many own messages not all members have acknowledged.
    pub fn outstanding(&self) -> usize {
        self.sender.outstanding()
    }

    /// Appends a control datagram or a repair.
    fn send(
        &mut self,
        destination: Destination,
        class: SocketClass,
        header: Vec<u8>,
        payload: Bytes,
    ) {
        // What does not fit is asked for, or acknowledged, again.
        if self.outbox.len() < 2 * self.config.window as usize + self.config.group {
            self.outbox.push_back((destination, class, header, payload));
        }
    }

    fn hear_ack(&mut self, now: Time, from: MemberId, delivered: u64, missing: &[u64]) {
        if self.sender.acknowledge(from, delivered) {
            self.await_progress(now);
        }
        for number in missing.iter().take(Self::MISSING_MAX) {
            self.repair(from, *number);
        }
    }

    fn repair(&mut self, to: MemberId, number: u64) {
        if let Some((service, payload)) = self.sender.get(number) {
            let header = wire::data_header(true, service, number);
            self.counters.repairs += 1;
            self.send(Destination::Member(to), SocketClass::Data, header, payload);
        }
    }

    /// From now on something must move, or the oldest message is sent again.
    fn await_progress(&mut self, now: Time) {
        match self.sender.outstanding() {
            0 => self.timers.cancel(Timer::Retransmit),
            _ => {
                let due = now + self.config.retransmit_after;
                self.timers.set(Timer::Retransmit, due);
            }
        }
    }

    fn expire(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Hello => self.say_hello(now),
            Timer::Ack => {
                while let Some(sender) = self.unacknowledged.pop_first() {
                    self.acknowledge(sender, false);
                }
            }
            Timer::Nak => self.ask_again(now),
            Timer::Retransmit => {
                for (member, number) in self.sender.behind() {
                    self.repair(member, number);
                }
                self.await_progress(now);
            }
            Timer::Leave => self.finish_leave("time is up"),
        }
    }

    fn finish_leave(&mut self, cause: &'static str) {
        self.advance(Participation::Left, cause);
        self.timers.cancel_all();
        self.events.push_back(Event::Left);
    }

    fn advance(&mut self, next: Participation, cause: &'static str) {
        self.participation
            .advance(next, cause, &mut self.transitions);
    }
}

impl Protocol for Windowed {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        if self.participation.has_left() || from == self.local {
            return;
        }
        match Message::decode(&body) {
            Ok(Message::Hello { complete }) => self.hear_hello(now, from, complete),
            Ok(Message::Data {
                service,
                number,
                payload,
                ..
            }) => self.receive(now, from, number, service, payload),
            Ok(Message::Ack {
                delivered, missing, ..
            }) => self.hear_ack(now, from, delivered, &missing),
            Err(_) => self.counters.junk += 1,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop_due(now) {
            self.expire(now, timer);
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if let Some((destination, class, ..)) = self.outbox.front() {
            let transmit = Transmit {
                destination: *destination,
                class: *class,
            };
            while let Some((destination, class, header, payload)) = self.outbox.front()
                && *destination == transmit.destination
                && *class == transmit.class
                && buf.accepts(header.len() + payload.len())
            {
                buf.push(&[header, payload]);
                self.outbox.pop_front();
            }
            return Some(transmit);
        }
        while self.installed && !self.participation.has_left() {
            let Some(message) = self.sender.next(self.config.window) else {
                break;
            };
            let header = wire::data_header(false, message.service, message.number);
            if !buf.accepts(header.len() + message.payload.len()) {
                break;
            }
            buf.push(&[&header, &message.payload]);
            self.sender.advance();
            if self.timers.due(Timer::Retransmit).is_none() {
                self.await_progress(now);
            }
        }
        if self.sender.queue.take_writable() {
            self.events.push_back(Event::Writable);
        }
        let is_idle = self.sender.outstanding() == 0 && self.sender.queue.is_empty();
        if self.participation == Participation::Leaving(()) && is_idle {
            self.finish_leave("all is acknowledged");
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
        self.timers.next()
    }
}

impl Ordered for Windowed {
    /// Accepts a `reliable` or `fifo` message. It is delivered here at once, and sent when the
    /// window has room.
    fn submit(
        &mut self,
        _now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let number = self.sender.queue.submit(service, payload.clone())?;
        let id = MessageId {
            sender: self.local,
            number,
        };
        self.events.push_back(Event::Deliver(Delivery {
            id,
            service,
            place: None,
            payload,
        }));
        Ok(id)
    }

    fn services(&self) -> &'static [Service] {
        self.sender.queue.services()
    }

    fn leave(&mut self, now: Time) {
        if self.participation.is_member() {
            self.advance(Participation::Leaving(()), "leave");
            self.sender.queue.close();
            self.timers
                .set(Timer::Leave, now + self.config.leave_timeout);
        }
    }

    fn local(&self) -> MemberId {
        self.local
    }
}

impl Instrumented for Windowed {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("buffered", self.sender.buffered() as u64);
        each("outstanding", self.sender.outstanding() as u64);
        each("queued", self.sender.queue.bytes() as u64);
        each("acknowledgements", self.counters.acks);
        each("requests", self.counters.naks);
        each("repairs", self.counters.repairs);
        each("duplicates", self.counters.duplicates);
        each("junk", self.counters.junk);
    }
}
