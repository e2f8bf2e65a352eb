//! Messages over standing connections of bulk transfers, for simulator, swarm and checker: what
//! [`Bulk::open`] promises is judged there, under every policy and with every opening.
//!
//! A member sends its messages on a connection that stays while it has something to say, and on the
//! next one then:
//!
//! ```text
//!  sender                                  receivers
//!    │  opens: the number of its first message ──▶   what came before is over: a gap, if it was
//!    │                                               not here
//!    │  messages …  ─────────────────────────────▶   delivered, and on some connections replied to
//!    │ ◀──────────────  all have it: the account of a message
//!    │  nothing for a while, or enough: closes ──▶   all was here, or it failed
//!    │  opens the next                         ──▶
//! ```
//!
//! # What histories show
//! The contract is that of gaps: a message is delivered or reported, each once, in its sender's
//! order. A receiver reports what it misses at two places only, so a hole at any other is a
//! violation:
//! - where a connection begins: what was said on connections that it had no part in, or that failed
//!   for it, and what was said before it joined. After one that ended well there is nothing to
//!   report.
//! - between messages of a connection that nobody answers.
//!
//! A sender accounts for each message: at once when all have it, under `xtp` at the end, when it is
//! known who has everything. A receiver that an account says has the message has delivered it.
//! Receivers that reply say the number of each message that they were given. The measure `false
//! replies` counts replies that say something else, or less, of a receiver that is said to be
//! complete.
//!
//! Files: `sending` and `receiving` are the two ends of a connection; `family` draws settings.
//!
//! [`Bulk::open`]: crate::bulk::Bulk::open

mod family;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::event::Account;
use groupcast_core::mech::send_queue::{Fifo, SendLimits, SendQueue};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Delivery, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service,
    SubmitError, Time, Transmit, TransmitBuf, Uplink,
};

pub use self::family::FAMILY;
use self::receiving::Incoming;
use self::sending::Outgoing;
use crate::bulk::{Bulk, BulkConfig, ConfigError, Notice, Wanted};

/// The measure that counts replies that do not say what their receiver was given.
pub(crate) const FALSE_REPLIES: &str = "false replies";

/// Settings of [`ConnectedMessages`].
#[derive(Clone, PartialEq, Debug)]
pub struct ConnectionsConfig {
    /// Settings of the endpoint.
    pub bulk: BulkConfig,
    /// The receivers that a connection waits for at its start. Default those present.
    pub receivers: Wanted,
    /// Whether half of the connections can be joined at any time, where the policy allows it.
    /// Default no.
    pub joinable: bool,
    /// Whether nobody answers on half of the connections, where the rate is fixed. Default no.
    pub unanswered: bool,
    /// Whether a connection ends for all when a receiver goes that was there at its start. Default
    /// no.
    pub strict: bool,
    /// Whether receivers reply, where the policy allows it. Default no.
    pub replies: bool,
    /// A connection is closed after this many messages. Default 20.
    pub messages_max: u64,
    /// A connection is closed when nothing was said for this long. Default 500 ms.
    pub linger: Duration,
    /// The most payload bytes that wait for their turn. Default 1 MiB.
    pub queue_max: usize,
    /// The longest time that a leave waits for the messages that were submitted before. Default 10
    /// s.
    pub leave_within: Duration,
}

impl ConnectionsConfig {
    /// The defaults, over an endpoint with these settings.
    pub fn new(bulk: BulkConfig) -> Self {
        Self {
            bulk,
            receivers: Wanted::Present,
            joinable: false,
            unanswered: false,
            strict: false,
            replies: false,
            messages_max: 20,
            linger: Duration::from_millis(500),
            queue_max: 1 << 20,
            leave_within: Duration::from_secs(10),
        }
    }

    /// The longest message that a connection takes: two windows of packets.
    fn message_max(&self) -> usize {
        2 * self.bulk.window as usize * self.bulk.packet
    }
}

/// A member that sends its messages on connections, one after the other.
#[derive(Debug)]
pub struct ConnectedMessages {
    config: ConnectionsConfig,
    bulk: Bulk,
    rng: Rng,
    queue: SendQueue<Fifo>,
    outgoing: Option<Outgoing>,
    incoming: Incoming,
    /// Until when a leave waits.
    leaving: Option<Time>,
    left: bool,
    events: VecDeque<Event>,
    /// False replies on the connections that are over.
    false_replies: u64,
}

impl ConnectedMessages {
    /// The services that it carries.
    pub const SERVICES: &[Service] = &[Service::Fifo];

    /// A member; it begins to listen at once.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn new(local: MemberId, config: ConnectionsConfig, rng: Rng) -> Result<Self, ConfigError> {
        let bulk = Bulk::new(local, config.bulk.clone(), rng.fork("bulk"))?;
        let limits = SendLimits {
            services: Self::SERVICES,
            message_max: config.message_max(),
            queue_max: config.queue_max,
        };
        Ok(Self {
            incoming: Incoming::new(config.message_max()),
            bulk,
            rng: rng.fork("connections"),
            queue: SendQueue::new(limits, Fifo::default()),
            outgoing: None,
            leaving: None,
            left: false,
            events: VecDeque::new(),
            false_replies: 0,
            config,
        })
    }

    /// Does everything that is due after an input.
    fn work(&mut self, now: Time) {
        loop {
            while let Some(notice) = self.bulk.poll_event() {
                self.hear(now, notice);
            }
            if self.outgoing.is_none() && !self.open(now) {
                break;
            }
            if !self.advance(now) {
                break;
            }
        }
        if self.queue.take_writable() {
            self.events.push_back(Event::Writable);
        }
        if self.leaving.is_some_and(|limit| limit <= now) && !self.left {
            self.give_up(now);
        }
        let is_done = self.queue.is_empty() && self.outgoing.is_none();
        if self.leaving.is_some() && is_done && !self.left {
            self.left = true;
            self.events.push_back(Event::Left);
        }
    }

    /// Opens a connection if there is something to say.
    fn open(&mut self, now: Time) -> bool {
        let Some(message) = self.queue.front() else {
            return false;
        };
        let base = message.number;
        let opened = Outgoing::open(now, base, &mut self.bulk, &self.config, &mut self.rng);
        self.outgoing = opened;
        self.outgoing.is_some()
    }

    /// Says what there is to say, and closes the connection when it is time; whether it did
    /// anything.
    fn advance(&mut self, now: Time) -> bool {
        let Some(outgoing) = &mut self.outgoing else {
            return false;
        };
        let mut has_said = false;
        while let Some(message) = self.queue.front()
            && outgoing.say(now, &message.payload, &mut self.bulk, &self.config)
        {
            self.queue.pop();
            has_said = true;
        }
        let is_idle = self.queue.is_empty();
        let closes = outgoing.close(now, is_idle, self.leaving.is_some(), &mut self.bulk);
        has_said || closes
    }

    /// The leave has waited long enough: gives up the messages that are left.
    fn give_up(&mut self, now: Time) {
        if let Some(outgoing) = &self.outgoing {
            self.bulk.cancel(now, outgoing.id(), "its sender leaves");
            while let Some(notice) = self.bulk.poll_event() {
                self.hear(now, notice);
            }
        }
        debug_assert!(
            self.outgoing.is_none(),
            "a cancelled connection is settled at once"
        );
        self.outgoing = None;
        while self.queue.pop().is_some() {}
    }

    fn hear(&mut self, now: Time, notice: Notice) {
        let local = self.bulk.local();
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.hear(now, &notice, &mut self.bulk, &self.config);
            while let Some((number, complete, failed)) = outgoing.next_account() {
                let id = MessageId {
                    sender: local,
                    number,
                };
                self.events.push_back(Event::Account(Account {
                    id,
                    complete,
                    failed,
                }));
            }
            if outgoing.is_over() {
                let nobody_came = outgoing.nobody_came();
                self.false_replies += outgoing.false_replies();
                self.outgoing = None;
                // Nobody is there to hear it.
                if let Some(message) = self.queue.front().filter(|_| nobody_came) {
                    let id = MessageId {
                        sender: local,
                        number: message.number,
                    };
                    self.events.push_back(Event::Account(Account {
                        id,
                        complete: [].into(),
                        failed: [].into(),
                    }));
                    self.queue.pop();
                }
            }
        }
        let listens = self.leaving.is_none();
        self.incoming
            .hear(now, notice, listens, &mut self.bulk, &mut self.events);
    }
}

impl Protocol for ConnectedMessages {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        self.handle_arrival(now, now, from, body);
    }

    fn handle_arrival(&mut self, now: Time, arrived: Time, from: MemberId, body: Bytes) {
        self.bulk.handle_arrival(now, arrived, from, body);
        self.work(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.bulk.handle_timeout(now);
        self.work(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        self.bulk.poll_transmit(now, buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.bulk.poll_transition()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let leaving = self.leaving.filter(|_| !self.left);
        // While something waits to be said, it is the endpoint that has to move.
        let outgoing = self.outgoing.as_ref().filter(|_| self.queue.is_empty());
        let closes = outgoing.and_then(Outgoing::closes);
        let own = leaving.into_iter().chain(closes);
        own.chain(self.bulk.poll_timeout()).min()
    }

    fn listens(&self) -> bool {
        self.bulk.listens()
    }

    fn wants_uplink(&self, now: Time) -> bool {
        self.bulk.wants_uplink(now)
    }

    fn handle_uplink(&mut self, now: Time, uplink: Uplink) {
        self.bulk.handle_uplink(now, uplink);
    }

    fn handle_copies(&mut self, now: Time, members: &[MemberId]) {
        self.bulk.handle_copies(now, members);
    }

    fn copies_to(&self, member: MemberId) -> bool {
        self.bulk.copies_to(member)
    }
}

impl Ordered for ConnectedMessages {
    /// Accepts a message, which is delivered here at once.
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let number = self.queue.submit(service, payload.clone())?;
        let sender = self.bulk.local();
        let id = MessageId { sender, number };
        self.events.push_back(Event::Deliver(Delivery {
            id,
            service,
            place: None,
            payload,
        }));
        self.work(now);
        Ok(id)
    }

    fn services(&self) -> &'static [Service] {
        self.queue.services()
    }

    /// Leaves the connections of others at once, and its own when all has been said.
    fn leave(&mut self, now: Time) {
        if self.leaving.is_none() {
            self.leaving = Some(now + self.config.leave_within);
            self.queue.close();
            self.incoming.leave(now, &mut self.bulk);
            self.work(now);
        }
    }

    fn local(&self) -> MemberId {
        self.bulk.local()
    }
}

impl Instrumented for ConnectedMessages {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("queued", self.queue.bytes() as u64);
        each("joined", self.incoming.joined);
        each("reported", self.incoming.reported);
        let current = self.outgoing.as_ref().map_or(0, Outgoing::false_replies);
        each(FALSE_REPLIES, self.false_replies + current);
        self.bulk.status().list(each);
    }
}
