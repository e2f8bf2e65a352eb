//! MTP, the Multicast Transport Protocol, for comparison: a master grants tokens, which order the
//! messages of all.
//!
//! Source: 000 ch. 4, "Multicast Transport Protocol", which sums up RFC 1301. It orders, and has a
//! master: it is no acknowledgement policy, so it stands alone.
//!
//! ```text
//!  sender                    master                    others
//!    │  request for a token ─▶ │                         │
//!    │ ◀─ token: message 7     │                         │
//!    │  data 0, the bytes end ─┼───────────────────────▶ │     each kept for `retention` heartbeats
//!    │                         │  status: 7 accepted ──▶ │     delivered, in its place
//!    │  empty packet ──────────┼───────────────────────▶ │     one in each heartbeat
//!    │  empty packet ──────────┼───────────────────────▶ │     until there are `retention`
//!    │  empty packet ──────────┼───────────────────────▶ │
//! ```
//!
//! So a byte costs seven packets: request, token, four of data, one of the master. In a heartbeat
//! the holder of a token sends a window of packets at most and one at least. Receivers number them,
//! and ask the sender for what they miss; it multicasts that again in the next heartbeat, within
//! its window. Every packet carries the statuses of the last twelve messages: pending, accepted, or
//! rejected because its sender failed.
//!
//! # Guarantees
//! `unreliable`, under the contract that promises nothing: a sender keeps what it sent for
//! `retention` heartbeats, and does not learn who has it. What is delivered is delivered in one
//! order, that of the tokens, in each web; a message that is lost at a member is missing there.
//!
//! # Timers
//! One: the heartbeat.
//!
//! # What 000 leaves open, and deviations
//! - The figures: 180 KB/s and 180 KB of buffer, kept for a second, and at least seven packets for
//!   a byte. Four heartbeats of 250 ms with windows of 30 packets give all of them.
//! - Here the bytes are in the first packet and the empty ones follow; so the earliest delivery
//!   comes after four packets (000: at least three), as a message is not delivered before the
//!   master has accepted it. It accepts what it has itself: 000 says that it commits before all
//!   have it.
//! - The statuses in a packet are those of its sender. Only the master's are believed: a wrong one
//!   would cost messages. A member that has missed what the master said hears it with its next
//!   decision, or after four heartbeats.
//! - A message of which nothing was heard is asked for by multicast: its sender is not known.
//! - Parameters are the same everywhere, and not negotiated.
//! - The master: of those that look for a web, the one with the highest id; it says that it is
//!   there now and then. 000 cannot replace one that fails. Here, members that have not heard it
//!   for sixteen heartbeats look for a web again; a message that had its token is lost then. Of two
//!   webs that meet, that of the lower master ends.
//!
//! Files: `master` is the other role; `outgoing` and `incoming` are the two ends of a message,
//! `statuses` what is decided, `wire` the format, `web` how a member finds and leaves a web.

mod config;
mod family;
mod incoming;
mod inspect;
mod master;
mod outgoing;
mod statuses;
#[cfg(test)]
mod tests;
mod web;
mod wire;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::participation::{Participation, Transitions};
use groupcast_core::mech::send_queue::{Fifo, SendLimits, SendQueue};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Delivery, Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng,
    Service, SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

pub use self::config::{ConfigError, MtpConfig};
pub use self::family::FAMILY;
use self::incoming::Incoming;
pub use self::inspect::inspect;
use self::master::{Grant, Master};
use self::outgoing::Outgoing;
use self::statuses::Status;
use self::web::Web;
use self::wire::{Data, InWeb, Message};

/// A member of a web.
#[derive(Debug)]
pub struct Mtp {
    config: MtpConfig,
    local: MemberId,
    queue: SendQueue<Fifo>,
    /// The web that it is in.
    web: Option<Web>,
    /// If it is the master of that.
    master: Option<Master>,
    /// Others that look for a web, and since when this one does.
    looking: BTreeSet<MemberId>,
    looks_since: Time,
    /// The request for a token that is not granted: its number, and when it was made.
    asked: Option<(u64, Time)>,
    requests: u64,
    /// Messages that have their tokens; the last is not sent yet.
    outgoing: VecDeque<Outgoing>,
    /// Packets that may be sent in this heartbeat.
    credit: u32,
    tick: Time,
    /// The highest message of each sender that was delivered here.
    delivered: BTreeMap<MemberId, u64>,
    outbox: VecDeque<(Destination, Bytes)>,
    events: VecDeque<Event>,
    participation: Participation,
    transitions: Transitions,
    counters: Counters,
}

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    nacks: u64,
    repairs: u64,
    rejected: u64,
    lost: u64,
    junk: u64,
}

impl Mtp {
    /// The services that it carries.
    pub const SERVICES: &[Service] = &[Service::Unreliable];
    /// Bytes of a packet: with the headers it makes an Ethernet frame.
    pub const PACKET: usize = 1_400;
    /// The longest message.
    pub const MESSAGE_MAX: usize = 1 << 20;
    /// Packets of a message, at most.
    const PACKETS_MAX: u32 = (Self::MESSAGE_MAX / Self::PACKET + 64 + 1) as u32;
    /// Messages ahead of the next one to be delivered that are taken in.
    const AHEAD_MAX: u64 = 64;
    /// Datagrams that wait; what does not fit is asked for again.
    const OUTBOX_MAX: usize = 4_096;

    /// A member that begins to look for a web.
    ///
    /// # Errors
    /// If a setting is out of its range.
    pub fn new(
        local: MemberId,
        config: MtpConfig,
        mut rng: Rng,
        now: Time,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let limits = SendLimits {
            services: Self::SERVICES,
            message_max: Self::MESSAGE_MAX,
            queue_max: config.queue_max,
        };
        let tick = now + rng.duration(Duration::ZERO, config.heartbeat);
        Ok(Self {
            credit: config.window,
            config,
            local,
            queue: SendQueue::new(limits, Fifo::default()),
            web: None,
            master: None,
            looking: BTreeSet::new(),
            looks_since: now,
            asked: None,
            requests: 0,
            outgoing: VecDeque::new(),
            tick,
            delivered: BTreeMap::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            participation: Participation::Member,
            transitions: Transitions::default(),
            counters: Counters::default(),
        })
    }

    /// Whether it is the master of its web.
    pub fn is_master(&self) -> bool {
        self.master.is_some()
    }

    fn send(&mut self, destination: Destination, message: InWeb) {
        if let Some(web) = &self.web
            && self.outbox.len() < Self::OUTBOX_MAX
        {
            let body = Message::Of(web.id, message).encode();
            self.outbox.push_back((destination, body));
        }
    }

    /// Asks for a token for the next message, if it has none and has asked for none.
    fn ask(&mut self, now: Time) {
        let is_busy = self.outgoing.back().is_some_and(|it| !it.is_sent());
        let Some(web) = &self.web else {
            return;
        };
        if is_busy || self.asked.is_some() || self.queue.is_empty() {
            return;
        }
        let master = web.master;
        self.requests += 1;
        self.asked = Some((self.requests, now));
        self.request_token(now, master);
    }

    fn request_token(&mut self, now: Time, master: MemberId) {
        let Some((request, _)) = self.asked else {
            return;
        };
        if master == self.local {
            return self.hear_request(now, master, request);
        }
        self.send(Destination::Member(master), InWeb::Request { request });
    }

    fn hear_request(&mut self, now: Time, from: MemberId, request: u64) {
        let (Some(master), Some(web)) = (&mut self.master, &mut self.web) else {
            return;
        };
        if let Some(grant) = master.request(now, from, request, &mut web.statuses) {
            self.hand_out(now, grant);
        }
    }

    fn hand_out(&mut self, now: Time, grant: Grant) {
        let Grant {
            to,
            request,
            message,
        } = grant;
        if to == self.local {
            return self.hear_grant(now, request, message);
        }
        let grant = InWeb::Grant { request, message };
        self.send(Destination::Member(to), grant);
    }

    /// It has the token: the message goes out.
    fn hear_grant(&mut self, now: Time, request: u64, message: u64) {
        if self.asked.is_none_or(|(asked, _)| asked != request) {
            return;
        }
        self.asked = None;
        let Some(next) = self.queue.pop() else {
            return;
        };
        let outgoing = Outgoing::new(&self.config, message, next.number, next.payload);
        self.outgoing.push_back(outgoing);
        if self.queue.take_writable() {
            self.events.push_back(Event::Writable);
        }
        self.send_window(now, true);
    }

    /// Sends what may be sent in this heartbeat, and one packet at least; `first`: the message has
    /// its token just now.
    fn send_window(&mut self, now: Time, first: bool) {
        let Some(statuses) = self.web.as_ref().map(|web| web.statuses) else {
            return;
        };
        let kept_for = self.config.kept_for();
        for index in 0..self.outgoing.len() {
            if first && index + 1 < self.outgoing.len() {
                continue;
            }
            let mut sent = 0;
            while self.credit > 0
                && let Some(data) = self.outgoing[index].next(statuses, self.credit, sent)
            {
                sent += 1;
                self.credit -= 1;
                self.counters.repairs += u64::from(data.again);
                self.take_own(now, &data);
                self.send(Destination::Group, InWeb::Data(data));
            }
            let outgoing = &mut self.outgoing[index];
            if outgoing.is_sent() && outgoing.until.is_none() {
                outgoing.until = Some(now + kept_for);
            }
        }
        self.outgoing
            .retain(|it| it.until.is_none_or(|until| until > now));
        self.ask(now);
    }

    /// A sender has its own message.
    fn take_own(&mut self, now: Time, data: &Data) {
        let local = self.local;
        self.take_data(now, local, data);
    }

    fn take_data(&mut self, now: Time, from: MemberId, data: &Data) {
        let Some(web) = &mut self.web else {
            return;
        };
        if let Some(master) = &self.master {
            // It decides, whatever others say; and takes a message from nobody but the holder of
            // its token.
            if !master.is_held_by(data.message, from) {
                return;
            }
        } else if from == web.master {
            web.statuses.merge(&data.statuses);
        }
        let is_near = data.message < web.next + Self::AHEAD_MAX;
        if data.message >= web.next && is_near && data.packet < Self::PACKETS_MAX {
            let incoming = web.incoming.entry(data.message);
            let incoming = incoming.or_insert_with(|| Incoming::new(now));
            incoming.take(now, from, data);
            let is_whole = incoming.is_whole();
            let gaps = incoming.missing(false);
            if let Some(master) = &mut self.master {
                master.hear(now, data.message, from);
                if is_whole && master.accept(data.message, &mut web.statuses) {
                    self.say_status(now);
                }
            } else if data.ends_window && !gaps.is_empty() && from != self.local {
                self.nack(data.message, gaps, Some(from));
            }
        }
        self.deliver_ready(now);
    }

    fn nack(&mut self, message: u64, missing: Vec<Range<u32>>, to: Option<MemberId>) {
        self.counters.nacks += 1;
        let destination = to.map_or(Destination::Group, Destination::Member);
        self.send(destination, InWeb::Nack { message, missing });
    }

    /// The master says what it has decided, at once, and grants what waited for that.
    fn say_status(&mut self, now: Time) {
        let (Some(master), Some(web)) = (&mut self.master, &mut self.web) else {
            return;
        };
        master.said = now;
        let statuses = web.statuses;
        let grant = master.next_grant(now, &mut web.statuses);
        self.send(Destination::Group, InWeb::Status(statuses));
        if let Some(grant) = grant {
            self.hand_out(now, grant);
        }
    }

    /// Delivers what is next in the order, as far as it is accepted and here.
    fn deliver_ready(&mut self, now: Time) {
        let patience = self.config.kept_for() + self.config.heartbeat * 2;
        loop {
            let Some(web) = &mut self.web else {
                return;
            };
            let oldest = web.statuses.oldest();
            if web.next < oldest {
                // Nobody tells any more what became of them.
                self.counters.lost += oldest - web.next;
                web.incoming = web.incoming.split_off(&oldest);
                web.next = oldest;
            }
            let next = web.next;
            if next > web.statuses.newest() {
                return;
            }
            match web.statuses.get(next) {
                Some(Status::Pending) => return,
                Some(Status::Accepted) => {
                    let incoming = web.incoming.entry(next);
                    let incoming = incoming.or_insert_with(|| Incoming::new(now));
                    let accepted = *incoming.accepted.get_or_insert(now);
                    if !incoming.is_whole() && now - accepted < patience {
                        return;
                    }
                }
                Some(Status::Rejected) | None => {}
            }
            let status = web.statuses.get(next);
            let incoming = web.incoming.remove(&next);
            web.next += 1;
            let whole = incoming.filter(|it| status == Some(Status::Accepted) && it.is_whole());
            match whole {
                Some(incoming) => self.deliver(&incoming),
                None if status == Some(Status::Rejected) => self.counters.rejected += 1,
                None => self.counters.lost += 1,
            }
        }
    }

    fn deliver(&mut self, incoming: &Incoming) {
        let Some((sender, number)) = incoming.source else {
            return;
        };
        let last = self.delivered.entry(sender).or_default();
        if number <= *last {
            // No sender is ordered backwards.
            return;
        }
        *last = number;
        self.events.push_back(Event::Deliver(Delivery {
            id: MessageId { sender, number },
            service: Service::Unreliable,
            place: None,
            payload: incoming.payload(),
        }));
    }

    /// Asks for what should have come by now.
    fn nack_missing(&mut self, now: Time) {
        // Somewhat more than a heartbeat: beats are not in step.
        let silence = self.config.heartbeat * 3 / 2;
        let Some(web) = &mut self.web else {
            return;
        };
        let newest = web.statuses.newest().min(web.next + Self::AHEAD_MAX);
        let mut asks = Vec::new();
        for message in web.next..newest + 1 {
            if web.statuses.get(message) == Some(Status::Rejected) {
                continue;
            }
            let incoming = web.incoming.entry(message);
            let incoming = incoming.or_insert_with(|| Incoming::new(now));
            let source = incoming.source.map(|(sender, _)| sender);
            let missing = incoming.missing(now - incoming.heard >= silence);
            if !missing.is_empty() && !incoming.is_whole() && source != Some(self.local) {
                asks.push((message, missing, source));
            }
        }
        for (message, missing, source) in asks {
            self.nack(message, missing, source);
        }
    }

    fn beat(&mut self, now: Time) {
        self.credit = self.config.window;
        self.keep_web(now);
        if let (Some(master), Some(web)) = (&mut self.master, &mut self.web) {
            let silence = self.config.kept_for() + self.config.heartbeat * 2;
            if master.reject_silent(now, silence, &mut web.statuses) {
                self.say_status(now);
            }
        }
        self.send_window(now, false);
        self.deliver_ready(now);
        self.nack_missing(now);
        if let (Some((_, since)), Some(master)) =
            (self.asked, self.web.as_ref().map(|it| it.master))
            && now - since >= self.config.heartbeat
        {
            self.request_token(now, master);
        }
        self.look_for_end();
    }

    /// A member that leaves is gone when its messages are sent, and need not be kept.
    fn look_for_end(&mut self) {
        let is_done = self.queue.is_empty() && self.outgoing.is_empty() && self.asked.is_none();
        if is_done && matches!(self.participation, Participation::Leaving(())) {
            self.finish_leave("all is sent");
        }
    }

    fn finish_leave(&mut self, cause: &'static str) {
        self.participation
            .advance(Participation::Left, cause, &mut self.transitions);
        self.events.push_back(Event::Left);
    }
}

impl Protocol for Mtp {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        if self.participation.has_left() || from == self.local {
            return;
        }
        match Message::decode(&body) {
            Ok(Message::Hello) => self.hear_hello(now, from),
            Ok(Message::Of(web, message)) => {
                self.hear_web(now, from, web, &message);
                if self.web.as_ref().is_some_and(|it| it.id == web) {
                    self.hear(now, from, message);
                }
            }
            Err(_) => self.counters.junk += 1,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if !self.participation.has_left() && self.tick <= now {
            self.tick = now + self.config.heartbeat;
            self.beat(now);
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
        (!self.participation.has_left()).then_some(self.tick)
    }
}

impl Mtp {
    /// A datagram of its web.
    fn hear(&mut self, now: Time, from: MemberId, message: InWeb) {
        let is_master = self.web.as_ref().is_some_and(|web| web.master == from);
        match message {
            InWeb::Status(statuses) | InWeb::Alive(statuses) if is_master => {
                if let Some(web) = &mut self.web {
                    web.statuses.merge(&statuses);
                }
                self.deliver_ready(now);
            }
            InWeb::Request { request } => self.hear_request(now, from, request),
            InWeb::Grant { request, message } if is_master => {
                self.hear_grant(now, request, message);
            }
            InWeb::Status(_) | InWeb::Alive(_) | InWeb::Grant { .. } => self.counters.junk += 1,
            InWeb::Data(data) => self.take_data(now, from, &data),
            InWeb::Nack { message, missing } => {
                let mut outgoing = self.outgoing.iter_mut();
                if let Some(outgoing) = outgoing.find(|it| it.message == message) {
                    missing.iter().for_each(|range| outgoing.nack(range));
                }
            }
        }
    }
}

impl Ordered for Mtp {
    /// Accepts a message. It is delivered here in its place, when the master has accepted it.
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let number = self.queue.submit(service, payload)?;
        self.ask(now);
        let sender = self.local;
        Ok(MessageId { sender, number })
    }

    fn services(&self) -> &'static [Service] {
        self.queue.services()
    }

    fn leave(&mut self, _now: Time) {
        if self.participation.is_member() {
            self.queue.close();
            self.participation
                .advance(Participation::Leaving(()), "leave", &mut self.transitions);
            self.look_for_end();
        }
    }

    fn local(&self) -> MemberId {
        self.local
    }
}

impl Instrumented for Mtp {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("queued", self.queue.bytes() as u64);
        each("nacks", self.counters.nacks);
        each("repairs", self.counters.repairs);
        each("rejected", self.counters.rejected);
        each("lost", self.counters.lost);
        each("junk", self.counters.junk);
    }
}
