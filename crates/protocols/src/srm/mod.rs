//! SRM, scalable reliable multicast, with fixed and adaptive timers (004 5.4).
//!
//! Sources: 004 5.4 and the settings of ch. 6; Floyd, Jacobson, Liu, McCanne, Zhang, *A reliable
//! multicast framework for light-weight sessions and application level framing* (IEEE/ACM ToN
//! 1997); ns-2's `srm.tcl` and `srm-adaptive.tcl` for constants that those leave open.
//!
//! A source multicasts its messages once, each in one datagram. A receiver that misses one, by a
//! gap in the numbers or because a session message or a request tells of it, multicasts a request
//! after a random time that grows with its distance from the source; whoever has the message
//! multicasts a repair after a random time that grows with its distance from the requestor. Who
//! hears another's request or repair first keeps silent. Periodic session messages say what exists
//! and measure distances.
//!
//! Files: `reception` takes in what is heard of messages; `session` is about session messages;
//! `timing` has the timer parameters; `recovery` the requests and repairs in waiting; `peers`
//! distances; `stream` what is missing of one source; `store` what can be answered, by a buffer or
//! by the application ([`Archive`]); `wire` is the format; `inspect` reads it from outside.
//!
//! # Guarantees
//! `reliable`: delivered as it arrives; `fifo`: after all earlier messages of its source were
//! delivered or given up. Both hold as long as somebody can still answer: a message for which
//! nobody does, in `request_intervals_max` intervals, is reported as a
//! [gap](groupcast_core::Event::Gap), once, and not delivered later. There is no membership; who
//! comes late asks for the last `catch_up_max` messages of each source that it hears. Of a source
//! that was forgotten altogether it asks for none: its stream begins behind what it had sent when
//! it heard this member, so that nothing is delivered twice, however late a datagram comes. What
//! other members alone have said to exist is asked for, and never reported as a gap.
//!
//! # Timers
//! One for the session messages, one for each message that is missing, one for each repair in
//! waiting.
//!
//! # Deviations from the paper, and why
//! - Floyd et al. and ns-2 ask for ever; here a message is given up and said to be, so that memory
//!   is bounded.
//! - Session messages carry numbers instead of times of day (see `wire`), and when the group is
//!   large, only some of the members and sources each time, by turns: else they would grow with the
//!   group.
//! - There is no limit to a sender's rate: 004 measures without one.

mod config;
mod family;
mod inspect;
mod peers;
mod reception;
mod recovery;
mod session;
mod store;
mod stream;
#[cfg(test)]
mod tests;
mod timing;
mod wire;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::bookmarks::Bookmarks;
use groupcast_core::mech::participation::{Participation, Transitions};
use groupcast_core::mech::send_queue::{Fifo, SendLimits, SendQueue};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Delivery, Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng,
    Service, SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

pub use self::config::{ConfigError, SrmConfig};
pub use self::family::FAMILY;
pub use self::inspect::inspect;
use self::peers::Peers;
use self::reception::Heard;
use self::recovery::{Due, Recovery, TimerInputs};
pub use self::store::Archive;
use self::store::Store;
use self::stream::Stream;
pub use self::timing::{Parameters, Timing};
use self::wire::Message;

/// A member of an SRM session: sends, receives, and answers for others.
///
/// ```
/// use bytes::Bytes;
/// use groupcast_core::{Incarnation, MemberId, NodeId, Ordered, Rng, Service, Time};
/// use groupcast_protocols::srm::{Srm, SrmConfig};
///
/// let local = MemberId { node: NodeId::from_name("a"), incarnation: Incarnation(1) };
/// let mut srm = Srm::new(SrmConfig::lan(), local, Rng::new(1), Time::ZERO)?;
/// srm.submit(Time::ZERO, Service::Reliable, Bytes::from_static(b"hello")).expect("the queue is empty");
/// # Ok::<(), groupcast_protocols::srm::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Srm {
    config: SrmConfig,
    local: MemberId,
    rng: Rng,
    peers: Peers,
    streams: BTreeMap<MemberId, Stream>,
    /// Of sources whose streams gave way to others'.
    bookmarks: Bookmarks,
    recovery: Recovery,
    store: Store,
    queue: SendQueue<Fifo>,
    /// The number of the last own message that was sent.
    sent: u64,
    /// Session messages and requests that wait to be sent.
    control: VecDeque<Vec<u8>>,
    /// Repairs that wait to be sent: header and payload.
    repairs: VecDeque<(Vec<u8>, Bytes)>,
    /// When the next session message goes out; `None` once the last one has.
    session_due: Option<Time>,
    /// Whose state was the last in the session message before.
    stated: Option<MemberId>,
    events: VecDeque<Event>,
    participation: Participation<Leaving>,
    transitions: Transitions,
    counters: Counters,
}

/// How far a member has come with leaving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaving {
    /// What was accepted is still to be sent.
    Sending,
    /// The last session message is still to be sent: by it the others learn of the last message.
    Telling,
}

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    junk: u64,
    sources_refused: u64,
    unproved: u64,
    duplicates: u64,
    requests_sent: u64,
    requests_heard: u64,
    repairs_sent: u64,
    repairs_heard: u64,
    sessions_sent: u64,
    given_up: u64,
}

impl Srm {
    /// The services that it carries.
    pub const SERVICES: &[Service] = &[Service::Reliable, Service::Fifo];

    /// Bookmarks for every stream of the table: with the default settings 16,384, some 1.6 MB.
    const BOOKMARKS: usize = 16;
    /// Requests and repairs that wait for [`Protocol::poll_transmit`]; timers that come due wait
    /// until there is room.
    const OUTBOX_MAX: usize = 1_024;

    /// A member that is part of the session at once: there is nobody to ask.
    pub fn new(
        config: SrmConfig,
        local: MemberId,
        rng: Rng,
        now: Time,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let limits = SendLimits {
            services: Self::SERVICES,
            message_max: config.message_max(),
            queue_max: config.queue_max,
        };
        let bookmarks = Bookmarks::new(Self::BOOKMARKS * config.sources_max);
        let mut sessions = rng.fork("sessions");
        // Members that begin together do not speak together.
        let session_due = now + sessions.duration(Duration::ZERO, config.session_interval);
        Ok(Self {
            recovery: Recovery::new(&config, rng.fork("recovery")),
            store: Store::new(config.store_max),
            config,
            local,
            rng: sessions,
            peers: Peers::default(),
            streams: BTreeMap::new(),
            bookmarks,
            queue: SendQueue::new(limits, Fifo::default()),
            sent: 0,
            control: VecDeque::new(),
            repairs: VecDeque::new(),
            session_due: Some(session_due),
            stated: None,
            events: VecDeque::new(),
            participation: Participation::Member,
            transitions: Transitions::default(),
            counters: Counters::default(),
        })
    }

    /// The same, with an application that can make messages again. With `store_max` 0 nothing is
    /// buffered for repairs.
    pub fn with_archive(
        config: SrmConfig,
        local: MemberId,
        rng: Rng,
        now: Time,
        archive: Box<dyn Archive + Send>,
    ) -> Result<Self, ConfigError> {
        let mut srm = Self::new(config, local, rng, now)?;
        srm.store.archive = Some(archive);
        Ok(srm)
    }

    /// The timer parameters of now.
    pub fn parameters(&self) -> Parameters {
        self.recovery.timers.parameters(self.group())
    }

    /// How many members there are, this one included: as configured, or as many as are heard.
    pub fn group(&self) -> u32 {
        self.config.group.unwrap_or_else(|| self.peers.group())
    }

    /// How far away `member` is taken to be.
    pub fn distance(&self, member: MemberId) -> Duration {
        self.peers.distance(&self.config, member)
    }

    fn act(&mut self, due: Due) {
        match due {
            Due::Request(id, distance) => {
                self.control.push_back(wire::request(id, distance));
                self.counters.requests_sent += 1;
            }
            Due::GiveUp(id) => self.give_up(id),
            Due::Repair(id, distance) => {
                if let Some((service, payload)) = self.store.fetch(id)
                    && payload.len() <= self.config.message_max()
                {
                    let header = wire::repair_header(id, service, distance);
                    self.repairs.push_back((header, payload));
                    self.counters.repairs_sent += 1;
                }
            }
        }
    }

    fn outbox_is_full(&self) -> bool {
        self.control.len() + self.repairs.len() >= Self::OUTBOX_MAX
    }

    /// Says so if there is room again, or if the leave is complete: nothing is left to be sent.
    fn settle(&mut self, now: Time) {
        if self.queue.take_writable() {
            self.events.push_back(Event::Writable);
        }
        match self.participation {
            Participation::Leaving(Leaving::Sending) if self.queue.is_empty() => {
                if self.queue.submitted() > 0 {
                    self.session_due = None;
                    self.send_session(now);
                    self.advance(Participation::Leaving(Leaving::Telling), "all is sent");
                } else if self.control.is_empty() {
                    self.finish_leave("nothing to tell");
                }
            }
            Participation::Leaving(Leaving::Telling) if self.control.is_empty() => {
                self.finish_leave("all is told");
            }
            _ => {}
        }
    }

    fn finish_leave(&mut self, cause: &'static str) {
        self.advance(Participation::Left, cause);
        self.events.push_back(Event::Left);
    }

    fn advance(&mut self, next: Participation<Leaving>, cause: &'static str) {
        self.participation
            .advance(next, cause, &mut self.transitions);
    }
}

impl Protocol for Srm {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        if self.participation.has_left() || from == self.local {
            return;
        }
        match Message::decode(&body) {
            Ok(Message::Data {
                service,
                number,
                payload,
            }) => {
                self.follow(now, from, Heard::Data(number));
                let id = MessageId {
                    sender: from,
                    number,
                };
                self.receive(now, id, service, payload);
            }
            Ok(Message::Repair {
                id,
                service,
                distance,
                payload,
            }) => {
                self.counters.repairs_heard += 1;
                let inputs = TimerInputs {
                    config: &self.config,
                    peers: &self.peers,
                };
                self.recovery.hear_repair(now, id, distance, &inputs);
                if id.sender != self.local {
                    self.receive(now, id, service, payload);
                }
            }
            Ok(Message::Request { id, distance }) => self.hear_request(now, from, id, distance),
            Ok(Message::Session(session)) => self.hear_session(now, from, &session),
            Err(_) => self.counters.junk += 1,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.participation.has_left() {
            return;
        }
        while !self.outbox_is_full() {
            let inputs = TimerInputs {
                config: &self.config,
                peers: &self.peers,
            };
            let Some(due) = self.recovery.pop_due(now, &inputs) else {
                break;
            };
            self.act(due);
        }
        if self.session_due.is_some_and(|due| due <= now) {
            self.send_session(now);
            let interval = self.config.session_interval;
            // ns-2: a tenth more or less, so that members do not fall into step.
            let wait = self.rng.duration(interval * 9 / 10, interval * 11 / 10);
            self.session_due = Some(now + wait);
            let sources: Vec<MemberId> = self.streams.keys().copied().collect();
            for source in sources {
                self.ask_for_missing(now, source);
            }
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        self.settle(now);
        let mut class = SocketClass::Control;
        while let Some(bytes) = self.control.front()
            && buf.accepts(bytes.len())
        {
            buf.push(&[bytes]);
            self.control.pop_front();
        }
        if buf.is_empty() {
            class = SocketClass::Data;
            while let Some((header, payload)) = self.repairs.front()
                && buf.accepts(header.len() + payload.len())
            {
                buf.push(&[header, payload]);
                self.repairs.pop_front();
            }
        }
        if buf.is_empty() {
            while let Some(message) = self.queue.front() {
                let header = wire::data_header(message.service, message.number);
                if !buf.accepts(header.len() + message.payload.len()) {
                    break;
                }
                buf.push(&[&header, &message.payload]);
                self.sent = message.number;
                self.queue.pop();
            }
        }
        (!buf.is_empty()).then_some(Transmit {
            destination: Destination::Group,
            class,
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
        let dues = [self.recovery.next(), self.session_due];
        dues.into_iter().flatten().min()
    }
}

impl Ordered for Srm {
    /// Accepts a `reliable` or `fifo` message, delivers it here and sends it as soon as it is
    /// polled for.
    fn submit(
        &mut self,
        _now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let number = self.queue.submit(service, payload.clone())?;
        let id = MessageId {
            sender: self.local,
            number,
        };
        self.store.keep(id, service, payload.clone());
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
            self.advance(Participation::Leaving(Leaving::Sending), "leave");
            self.queue.close();
        }
    }

    fn local(&self) -> MemberId {
        self.local
    }
}

impl Instrumented for Srm {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let counters = &self.counters;
        each("buffered", self.store.payload_bytes() as u64);
        each("buffered_messages", self.store.len() as u64);
        each("queued", self.queue.bytes() as u64);
        each("members", u64::from(self.group()));
        each("requests_sent", counters.requests_sent);
        each("requests_heard", counters.requests_heard);
        each("repairs_sent", counters.repairs_sent);
        each("repairs_heard", counters.repairs_heard);
        each("sessions_sent", counters.sessions_sent);
        each("duplicates", counters.duplicates);
        each("given_up", counters.given_up);
        each("sources_refused", counters.sources_refused);
        each("unproved", counters.unproved);
        each("junk", counters.junk);
    }
}
