//! Bimodal Multicast: Pbcast with all its variants (004), for thousands of receivers and steady
//! throughput.
//!
//! Sources: Özkasap, *Scalability, throughput stability and efficient buffering in reliable
//! multicast protocols* (004): chapter 3 (the protocol), 5.2 and 5.3 (its parameters and variants),
//! 7 (hash buffering).
//!
//! ```text
//!   submit --> first phase: multicast, or along a spanning tree --> delivered in the sender's order
//!
//!   every round, at every member on its own:
//!      gossiper                        partner
//!         |-- gossip: round, digest ----->|   what I hold
//!         |<---- request: round, number --|   what I miss of it, most recent first
//!         |-- repair --------------------->|   if it is still that round, within the limits
//! ```
//!
//! Files: `stream` is what a member knows of one sender's messages; `senders` is which senders it
//! follows, `proofs` which of them must prove first that they live; `reception` is the first phase
//! and delivery; `round` is what happens every round; `recovery` answers gossip and requests;
//! `buffering` says who keeps what, by the hash function of `shuffle`; `members` is the view;
//! `tree` the spanning trees; `outbox` what waits to be sent; `wire` the format; `inspect` reads it
//! from outside.
//!
//! # Guarantees
//! Service `fifo` with gaps (bimodal): each sender's messages in order, and for every message that
//! does not come an [`Event::Gap`] in its place, one round after it is stable elsewhere. With high
//! probability almost all members deliver a message or almost none do (004 3.4, 3.8). A member that
//! joins late begins with the first message of a sender that it can get; nothing before is
//! delivered or reported. Membership is approximate: see `members`.
//!
//! # Timers
//! One: the round. Rounds of different members are not synchronised, and their numbers are each
//! member's own.
//!
//! # What a member holds and sends, at most
//! Memory: `buffer_max` for messages; `senders_max` streams, each with at most `window_max` missing
//! numbers, and 16 bookmarks of 100 bytes for each of them; as many questions to members that must
//! prove that they live; a view of `view_max`, and 16 bookmarks for each of it, of members that
//! were forgotten; `queue_max` of new messages that wait to be sent, and as much of all else.
//! Without hash buffering a member keeps what all senders sent in `stable_threshold` + 1 rounds,
//! with it about C / n of that besides the short-term buffer. Requests, forged or not, make a
//! member send at most `limit_retrans` repairs and `limit_retrans_bytes` in a round, and at most
//! `limit_requests` requests of its own; a digest, whatever it claims, at most `limit_requests`
//! requests. A request, of 25 to 41 bytes, is answered by at most one message; of questions whether
//! it lives `limit_requests` a round are. With `multicast_exempt` multicast repairs are not
//! counted, and only the queue bounds them.
//!
//! # Deviations from the paper, and why
//! - `limit-requests` is the number of requests that are sent; 004 Fig. 5.2 sends one less.
//! - Multicast repairs count against `limit-retrans` unless `multicast_exempt` (004 Fig. 5.4 lets
//!   them pass).
//! - In groups of more than 100 members repairs are multicast later, and not at all where the group
//!   is larger than the view (`threshold_grows`): by 004's counters the multicasts of a message
//!   grow with the group.
//! - A multicast request of 004 7.4 is refused if the message was multicast in this or the last
//!   round, whatever `cyclic` says: all who share a gap ask within a round.
//! - A digest is bounded in bytes; senders take turns to be in it.
//! - The bit of 004 5.3.2 says that the gossiper itself repaired the message; the prose and Fig.
//!   5.7 differ.

mod buffering;
mod config;
mod family;
mod inspect;
mod members;
mod outbox;
mod proofs;
mod reception;
mod recovery;
mod round;
mod senders;
mod shuffle;
mod status;
mod stream;
#[cfg(test)]
mod tests;
mod tree;
mod wire;
mod zones;

use alloc::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use groupcast_core::mech::bookmarks::Bookmarks;
use groupcast_core::mech::participation::{Participation, Transitions};
use groupcast_core::mech::send_queue::{SendLimits, SendQueue};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Event, MemberId, MessageId, Ordered, Protocol, Rng, Service, SocketClass, SubmitError, Time,
    Transmit, TransmitBuf,
};

use self::buffering::Buffering;
pub use self::config::{
    ConfigError, Dissemination, GossipConfig, HashConfig, HashPlace, Hierarchy, Variant,
};
pub use self::family::{FAMILY, random_config};
pub use self::inspect::{inspect, subject};
use self::members::View;
use self::outbox::Outbox;
use self::proofs::Proofs;
use self::recovery::Ask;
use self::round::{Round, RoundNumber};
pub use self::shuffle::{Shuffle, is_bufferer};
pub use self::status::{GossipCounters, GossipStatus};
use self::stream::Stream;
use self::tree::Trees;
use self::wire::{DATA_HEADER, Heartbeat, Message, SelfDescription};
pub use self::zones::ZonedConfig;

/// A member of a gossip group.
///
/// Drain order as for [`Protocol`].
///
/// ```
/// use bytes::Bytes;
/// use groupcast_core::{Event, Incarnation, MemberId, NodeId, Ordered, Protocol, Rng, Service, Time};
/// use groupcast_protocols::gossip::{Gossip, GossipConfig};
///
/// let local = MemberId { node: NodeId::from_name("a"), incarnation: Incarnation(1) };
/// let mut member = Gossip::new(GossipConfig::lan(), local, Rng::new(1), Time::ZERO)?;
/// member.submit(Time::ZERO, Service::Fifo, Bytes::from_static(b"hello")).expect("the queue is empty");
/// assert!(matches!(member.poll_event(), Some(Event::Deliver(_))));
/// # Ok::<(), groupcast_protocols::gossip::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Gossip {
    config: GossipConfig,
    local: MemberId,
    rng: Rng,
    round: Round,
    view: View,
    /// Whether the host said who is in the group: then nobody need be looked for.
    met: bool,
    trees: Option<Trees>,
    buffering: Option<Buffering>,
    streams: BTreeMap<MemberId, Stream>,
    /// Of those whose streams gave way to others'.
    bookmarks: Bookmarks,
    proofs: Proofs,
    held: Held,
    outbox: SendQueue<Outbox>,
    events: VecDeque<Event>,
    participation: Participation<Leaving>,
    transitions: Transitions,
    counters: GossipCounters,
}

/// How far a member has come with leaving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaving {
    /// Since this round it waits until its own messages are stable.
    Unstable { since: RoundNumber },
    /// It has said good-bye, and is gone with the next round.
    Goodbye,
}

/// What the message buffer holds, over all senders.
#[derive(Clone, Copy, Default, Debug)]
struct Held {
    /// Bytes, with what entries are taken to cost.
    cost: usize,
    /// Bytes of payloads.
    bytes: usize,
    /// How many payloads are held.
    messages: usize,
    /// Payloads that stay until they are stable.
    long_term: usize,
    /// The most of these at any time.
    long_term_max: usize,
}

impl Gossip {
    /// The services that it carries.
    pub const SERVICES: &[Service] = &[Service::Fifo];

    /// A member that begins at `now`; an error if the settings cannot work.
    pub fn new(
        config: GossipConfig,
        local: MemberId,
        rng: Rng,
        now: Time,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut rng = rng.fork("gossip");
        let step = config.step_interval.as_nanos() as u64;
        let first = config
            .first_round
            .unwrap_or_else(|| core::time::Duration::from_nanos(rng.below(step)));
        let (trees, copies) = match config.dissemination {
            Dissemination::Multicast => (None, 1),
            Dissemination::Trees { trees, arity, seed } => {
                (Some(Trees::new(trees, arity, seed)), usize::from(arity) + 1)
            }
        };
        // `submit` keeps the queue; a message's copies for its neighbours always fit.
        let new_max = config.queue_max + copies * (config.message_max + DATA_HEADER + 64);
        let other_max = config.queue_max.max(config.message_max + DATA_HEADER);
        let limits = SendLimits {
            services: Self::SERVICES,
            message_max: config.message_max,
            queue_max: config.queue_max,
        };
        Ok(Self {
            local,
            round: Round::new(now + first),
            view: View::new(local, config.view_max, rng.fork("view")),
            met: false,
            trees,
            buffering: config.hash.clone().map(Buffering::new),
            streams: BTreeMap::from([(local, Stream::from(0, config.window_max))]),
            bookmarks: Bookmarks::new(Self::BOOKMARKS * config.senders_max),
            proofs: Proofs::new(config.senders_max, rng.fork("proofs")),
            held: Held::default(),
            outbox: SendQueue::new(limits, Outbox::new(new_max, other_max)),
            events: VecDeque::new(),
            participation: Participation::Member,
            transitions: Transitions::default(),
            counters: GossipCounters::default(),
            rng,
            config,
        })
    }

    /// The members that this one knows, itself excluded, in ascending order. Approximate.
    pub fn view(&self) -> impl Iterator<Item = MemberId> {
        self.view.members()
    }

    /// The number of the current round.
    pub fn round(&self) -> u64 {
        self.round.number.0
    }

    /// Whether the bytes of a message are kept here.
    pub fn holds(&self, id: MessageId) -> bool {
        let slot = self
            .streams
            .get(&id.sender)
            .and_then(|stream| stream.slot(id.number));
        slot.is_some_and(|slot| slot.payload.is_some())
    }

    /// What was counted since the start.
    pub fn counters(&self) -> GossipCounters {
        self.counters
    }

    /// Lets the member know that `peer` is in the group. From then on it looks for nobody: the
    /// caller knows them all.
    pub fn meet(&mut self, peer: MemberId) {
        self.met = true;
        self.view.heard(peer, self.round.number);
    }

    fn advance(&mut self, next: Participation<Leaving>, cause: &'static str) {
        self.participation
            .advance(next, cause, &mut self.transitions);
    }

    fn about(&self) -> SelfDescription {
        SelfDescription {
            heartbeat: Heartbeat(self.round.number.0),
            zone: self.config.zone,
            link: self.config.hierarchy.is_some_and(|level| level.link),
            sent: self.outbox.submitted(),
        }
    }
}

impl Protocol for Gossip {
    type Event = Event;

    fn handle_datagram(&mut self, _now: Time, from: MemberId, body: Bytes) {
        let gone = matches!(
            self.participation,
            Participation::Leaving(Leaving::Goodbye) | Participation::Left
        );
        if gone || from == self.local {
            return;
        }
        let Ok(message) = Message::decode(&body) else {
            self.counters.junk += 1;
            return;
        };
        match message {
            Message::Data { header, payload } => self.handle_data(from, header, payload),
            Message::Gossip(gossip) => self.handle_gossip(from, &gossip),
            Message::Request { round, id } => self.serve(from, id, Ask::Round(round)),
            Message::Special { requestor, id } => self.serve(requestor, id, Ask::Special),
            Message::Info { gossiper, id } => self.handle_info(gossiper, id),
            Message::Mcast { id } => self.serve(from, id, Ask::Mcast),
            Message::MulticastRequest { id } if id.sender == self.local => {
                self.serve(from, id, Ask::Multicast);
            }
            Message::MulticastRequest { .. } => self.counters.refused_absent += 1,
            Message::Join { about, answer } => self.handle_join(from, about, answer),
            Message::Leave => self.view.remove(from),
            Message::Prove { nonce } => self.handle_prove(from, nonce),
            Message::Proof { nonce, about } => self.handle_proof(from, nonce, about),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if !self.participation.has_left() && self.round.due <= now {
            // Rounds that a pause has swallowed are not made up for.
            let step = self.config.step_interval;
            let late = (now - self.round.due).as_nanos() / step.as_nanos();
            self.round.steps.0 += 1 + late as u64;
            let next = self.round.due + step;
            self.round.due = if next > now { next } else { now + step };
            self.begin_round();
        }
    }

    fn poll_transmit(&mut self, _now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let transmit = self.outbox.poll(buf);
        if self.outbox.take_writable() {
            self.events.push_back(Event::Writable);
        }
        transmit
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.transitions.pop()
    }

    /// Data: a digest that is read before the messages that it names, because they lie unread in
    /// the other socket after a pause, would have them all sent again.
    fn read_first(&self) -> SocketClass {
        SocketClass::Data
    }

    fn poll_timeout(&self) -> Option<Time> {
        (!self.participation.has_left()).then_some(self.round.due)
    }
}

impl Ordered for Gossip {
    fn submit(
        &mut self,
        _now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let id = MessageId {
            sender: self.local,
            number: self.outbox.admit(service, payload.len())?,
        };
        self.disseminate(id, payload);
        Ok(id)
    }

    fn services(&self) -> &'static [Service] {
        self.outbox.services()
    }

    fn leave(&mut self, _now: Time) {
        if self.participation.is_member() {
            let since = self.round.number;
            let leaving = Participation::Leaving(Leaving::Unstable { since });
            self.advance(leaving, "leave");
            self.outbox.close();
        }
    }

    fn local(&self) -> MemberId {
        self.local
    }
}
