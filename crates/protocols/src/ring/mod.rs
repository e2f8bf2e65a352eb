//! The accelerated token ring (002) with Totem's membership and Extended Virtual Synchrony.
//!
//! Sources: 002 III (ordering), Amir, Moser, Melliar-Smith, Agarwal, Ciarfella, *The Totem
//! single-ring ordering and membership protocol* (TOCS 1995; membership and recovery), Moser, Amir,
//! Melliar-Smith, Agarwal, *Extended virtual synchrony* (ICDCS 1994; the guarantees).
//!
//! ```text
//!                 token lost, join, announcement, deaf member
//!        +-----------------------------------------------------+
//!        v                                                     |
//!     Gather ----- consensus, commit token -----> Commit       |
//!      ^  ^  ^                                      |          |
//!      |  |  +---- token lost, newer join ----------+          |
//!      |  |                                         | second   |
//!      |  |                                         v pass     |
//!      |  +------- token lost, newer join ------ Recovery      |
//!      |                                            |          |
//!    start                                          | all hold all
//!                                                   v          |
//!                               Left <----- Operational -------+
//! ```
//!
//! Files: `ordering` and `delivery` are 002's rules for one ring; `state` has the states, which are
//! `operational`, `gather`, `commit`, `recovery`; `rest` is what a quiet ring does; `flow` tunes
//! the windows; `passing` gets the token over one hop, `reach` remembers whom it does not reach;
//! `parts` cuts what is longer than a datagram may be, `spans` puts messages together again;
//! `strangers` is how rings find each other, `absences` leaves out who comes and goes, `leave` is
//! how a member leaves; `numbers` has the types
//! of sequence numbers, hops and rounds; `wire` is the format; `inspect` reads it from outside;
//! `planted` has the bugs that tests plant. Messages share packets by `crate::packing`; how a
//! configuration is delivered and finished, and what is remembered of others, is in `core::mech`.
//!
//! # Guarantees
//! Unreliable, reliable, FIFO, causal, agreed, k-resilient, majority, safe (reliable to causal are
//! delivered like agreed).
//! Configurations as EVS has them: regular, then transitional, then regular. What was accepted by a
//! member that lives on is delivered to it.
//!
//! # Timers
//! See `Timer`. The token-loss time-out adapts to the measured rotation: mean and four deviations,
//! times eight, between `token_loss_min` and `token_loss_max`, half of which it is while a ring
//! forms; the token's retransmission to two rotations in which nothing was lost.
//!
//! # Deviations from the papers, and why
//! - Sequence numbers go on in a new ring above all old ones, so that places only grow at every
//!   member.
//! - A member declares what it holds, and from then on ignores packets of the old ring that arrive
//!   late (in Totem it also re-originates those; Spread found that this needs a rule).
//! - The end of recovery is carried by the token (`backlog`, `install`, `installed`) instead of
//!   counted by each member, so that no member can be a rotation behind another one that has
//!   installed the ring.
//! - Joins carry an attempt number. A stale join is recognised by it; in Totem, by the ring's
//!   counter.
//! - A member of no ring of ours is let in only if there is evidence that it hears us, and a member
//!   that was excluded waits in quarantine, until probes show that something was repaired, or the
//!   one on whose word it was excluded is gone. Totem would break and form the ring again and again
//!   over a link that works one way only.
//! - A token that is sent again goes to the socket for data, too: the way to the other one may be
//!   closed.
//! - The token of a quiet ring rests at the representative. A member with something to send calls
//!   for it, claims sequence numbers and returns it, which is no visit. A rotation later finds out
//!   what all members hold.
//! - While `k-resilient` or `majority` messages are about, the token carries up to where each
//!   member holds all (002 and Totem have aru alone). Each visitor writes its own mark; up to the
//!   (K + 1)-th highest, K + 1 members hold all. When a ring ends, its members share their marks on
//!   the commit token, so that those that go on together draw the same border for each service.
//! - A `majority` is one of MaxN members (000 ch. 2): MaxN is the ring's size, or that of an older
//!   ring in which such messages were about, if no majority of it came along since. It is a number,
//!   as in the paper, so members that were not in that ring count too. A ring without a majority
//!   refuses such messages, and reports as lost those that it was given before.
//! - The token is acknowledged while the ring is idle and while a ring forms, but for a call and
//!   its return: the call is sent again until the token is back. When data flows, data shows that
//!   it arrived.

mod absences;
mod claims;
mod commit;
mod config;
mod daemon;
mod delivery;
mod family;
mod flow;
mod gather;
mod inspect;
mod leave;
mod numbers;
mod operational;
mod ordering;
mod outbox;
mod packet_size;
mod parts;
mod passing;
mod planted;
mod probe;
mod reach;
mod recovery;
mod rest;
mod spans;
mod state;
mod status;
mod strangers;
mod wire;

use alloc::collections::{BTreeSet, VecDeque};
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::absences::Absences;
use groupcast_core::mech::claims::Claims;
use groupcast_core::mech::leave::Leave;
use groupcast_core::mech::namesakes::Namesakes;
use groupcast_core::mech::peers::Peers;
use groupcast_core::mech::probes::Probes;
use groupcast_core::mech::room::Refused;
use groupcast_core::mech::send_queue::{SendLimits, SendQueue};
use groupcast_core::mech::timers::{TimerKey, Timers};
use groupcast_core::status::{GivenUp, Hearing};
use groupcast_core::trace::Transition;
use groupcast_core::{
    ConfigId, Event, GroupStatus, MemberId, MessageId, Ordered, Protocol, Rng, Service,
    SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

pub use self::config::{ConfigError, RingConfig, TokenPriority};
pub use self::daemon::ORDER;
pub use self::family::FAMILY;
use self::flow::Flow;
use self::gather::Gather;
pub use self::inspect::inspect;
use self::ordering::Ordering;
use self::outbox::Outbox;
use self::packet_size::PacketSize;
use self::passing::Passed;
pub use self::planted::Planted;
use self::reach::Reach;
use self::spans::Spans;
use self::state::State;
use self::status::Counters;
pub use self::status::{RingCounters, RingStatus};
use self::wire::Message;
use crate::packing::{Packer, Record};
use crate::unordered::Unordered;

/// A member of a token ring.
///
/// Drain order as for [`Protocol`]. The first thing that it does is to look for others: call
/// [`handle_timeout`](Protocol::handle_timeout) when [`poll_timeout`](Protocol::poll_timeout) says.
///
/// ```
/// use bytes::Bytes;
/// use groupcast_core::{Incarnation, MemberId, NodeId, Ordered, Protocol, Rng, Service, Time};
/// use groupcast_protocols::ring::{Ring, RingConfig};
///
/// let local = MemberId { node: NodeId::from_name("a"), incarnation: Incarnation(1) };
/// let mut ring = Ring::new(RingConfig::lan(), local, Rng::new(1), Time::ZERO)?;
/// ring.submit(Time::ZERO, Service::Agreed, Bytes::from_static(b"hello")).expect("the queue is empty");
/// assert!(ring.poll_timeout().is_some());
/// # Ok::<(), groupcast_protocols::ring::ConfigError>(())
/// ```
pub struct Ring {
    config: RingConfig,
    local: MemberId,
    rng: Rng,
    state: State,
    timers: Timers<Timer>,
    peers: Peers,
    absences: Absences,
    /// Strangers that do not fit in.
    refused: Refused,
    namesakes: Namesakes,
    reach: Reach,
    probes: Probes,
    claims: Claims,
    leaving: Option<Leave>,
    /// Whom this member has heard say good-bye since the last ring was installed.
    goodbyes: BTreeSet<MemberId>,
    passed: Passed,
    flow: Flow,
    queue: SendQueue<Packer>,
    /// Unreliable messages that wait for a ring.
    unordered: Unordered,
    outbox: Outbox,
    spans: Spans,
    events: VecDeque<Event>,
    transitions: VecDeque<Transition>,
    priority: SocketClass,
    counters: Counters,
}

/// Why the state changes.
#[derive(Clone, Copy, Debug)]
struct Cause {
    text: &'static str,
    /// The member from which it came, or that it concerns.
    about: Option<MemberId>,
}

impl Cause {
    fn of(text: &'static str, about: Option<MemberId>) -> Self {
        Self { text, about }
    }
}

impl From<&'static str> for Cause {
    fn from(text: &'static str) -> Self {
        Self::of(text, None)
    }
}

/// The ring's timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    /// When to take the ring for broken: no token came.
    Loss,
    /// When to send the token to the successor again.
    Retransmit,
    /// When to let the resting token go on.
    Hold,
    /// When to handle the token that this member passed to itself (a ring of one).
    Own,
    /// When to ask the representative again to let the token go.
    Hurry,
    /// When to repeat the join.
    Join,
    /// When to give up the candidates that have not agreed.
    Consensus,
    /// When to announce the ring to members of other rings.
    Announce,
    /// When to ask those whom this member gave up whether they hear it.
    Probe,
    /// When to finish a graceful leave without the others, or to repeat the good-bye.
    Leave,
}

impl TimerKey for Timer {
    const ALL: &'static [Self] = &[
        Self::Own,
        Self::Hold,
        Self::Retransmit,
        Self::Hurry,
        Self::Join,
        Self::Consensus,
        Self::Announce,
        Self::Probe,
        Self::Leave,
        Self::Loss,
    ];

    fn index(self) -> usize {
        self as usize
    }
}

impl Ring {
    /// Transitions kept for [`Protocol::poll_transition`]; older ones are dropped.
    const TRANSITIONS_MAX: usize = 64;

    /// A member that begins to look for others at `now`.
    pub fn new(
        config: RingConfig,
        local: MemberId,
        rng: Rng,
        now: Time,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let limits = SendLimits {
            services: &Service::ALL,
            message_max: config.message_max,
            queue_max: config.queue_max,
        };
        let queue = SendQueue::new(limits, Packer::default()).measured(config.queue_measured);
        let mut ring = Self {
            flow: Flow::new(&config),
            absences: absences::none(&config),
            refused: Refused::default(),
            config,
            local,
            rng,
            state: State::Gather(Gather::default()),
            timers: Timers::default(),
            peers: Peers::default(),
            namesakes: Namesakes::new(now),
            reach: Reach::default(),
            probes: Probes::default(),
            claims: Claims::default(),
            leaving: None,
            goodbyes: BTreeSet::new(),
            passed: Passed::default(),
            queue,
            unordered: Unordered::default(),
            outbox: Outbox::default(),
            spans: Spans::default(),
            events: VecDeque::new(),
            transitions: VecDeque::new(),
            priority: SocketClass::Control,
            counters: Counters::default(),
        };
        ring.gather(now, "start", Gather::default());
        Ok(ring)
    }

    /// Changes the state to what `next` makes of the one before.
    fn transition(&mut self, cause: impl Into<Cause>, next: impl FnOnce(State) -> State) {
        let Cause { text: cause, about } = cause.into();
        let from = self.state.name();
        let before = core::mem::replace(&mut self.state, State::Left(None));
        let last = before.installed();
        let last = last.map(|ring| (ring.id, ring.streams.malformed));
        self.state = next(before);
        if let Some((id, malformed)) = last
            && self.state.installed().is_none_or(|ring| ring.id != id)
        {
            self.counters.malformed += malformed;
        }
        let to = self.state.name();
        assert!(
            self.state.may_follow(from),
            "no edge from {from} to {to} ({cause})"
        );
        if self.transitions.len() == Self::TRANSITIONS_MAX {
            self.transitions.pop_front();
        }
        self.transitions.push_back(Transition {
            from,
            to,
            cause,
            about,
        });
        self.counters.transitions += 1;
    }

    /// Delivers from the installed ring whatever its rules allow now.
    fn deliver(&mut self) {
        let ordering = self
            .state
            .installed_mut()
            .expect("only what came in a ring makes more of it deliverable");
        let events = &mut self.events;
        ordering.deliver(&mut |event| events.push_back(event));
        ordering.discard();
    }

    /// The token-loss time-out of now: that of a forming ring, until a rotation was seen.
    fn token_loss(&self) -> Duration {
        let (min, max) = (self.config.token_loss_min, self.config.token_loss_max);
        match self.flow.rotation().upper() {
            Duration::ZERO => self.config.forming_loss(),
            upper => (upper * 8).clamp(min, max),
        }
    }

    /// Time has run out for the token, in any state but Gather.
    fn token_lost(&mut self, now: Time) {
        self.counters.token_losses += 1;
        match &self.state {
            State::Operational(_) => {
                let cause = Cause::of("token lost", self.silent_successor());
                self.gather(now, cause, Gather::default());
            }
            State::Commit(_) | State::Recovery(_) => self.forming_failed(now),
            State::Gather(gather) => {
                let forms = gather.members().next().filter(|it| *it != self.local);
                let cause = Cause::of("commit token lost", forms);
                self.gather(now, cause, Gather::default());
            }
            State::Left(_) => unreachable!("a member that has left has no timers"),
        }
    }

    /// The ring that was forming failed. A member that did not acknowledge its token twice in a row
    /// is left out of the next attempt: joins reach it, tokens do not.
    fn forming_failed(&mut self, now: Time) {
        let cause = Cause::of("forming failed", self.silent_successor());
        let mut gather = Gather::default();
        gather.fail.extend(self.give_up_unacknowledged(now));
        self.gather(now, cause, gather);
    }

    /// The member to which the last token went, if it gave no sign that it has it.
    fn silent_successor(&self) -> Option<MemberId> {
        let to = self.passed.unacknowledged()?;
        (self.passed.is_stuck() && to != self.local).then_some(to)
    }

    /// The member that did not acknowledge this one's token of a forming ring, if it did so too
    /// often: it is given up.
    fn give_up_unacknowledged(&mut self, now: Time) -> Option<MemberId> {
        let silent = self.passed.unacknowledged()?;
        let too_often = silent != self.local && self.reach.note_unacknowledged(silent);
        too_often.then(|| {
            self.accuse(now, silent, GivenUp::MissesToken);
            silent
        })
    }

    fn handle_message(&mut self, now: Time, from: MemberId, message: Message) {
        match message {
            Message::Data(data) => self.handle_data(now, from, data),
            Message::Token(token) => self.handle_token(now, from, token),
            Message::Ack { ring, hop } => self.handle_ack(from, ring, hop),
            Message::Hurry { ring } => self.handle_hurry(now, from, ring),
            Message::Unordered {
                ring,
                origin,
                record,
            } => self.handle_unordered(from, ring, origin, &record),
            Message::Join(join) => self.handle_join(now, from, join),
            Message::Commit(commit) => self.handle_commit(now, from, commit),
            Message::Announcement(announcement) => {
                self.handle_announcement(now, from, announcement);
            }
            Message::Name(_) => {}
            Message::Probe { answers, number } => self.handle_probe(now, from, answers, number),
            Message::Part {
                number,
                part,
                bytes,
            } => self.handle_part(now, from, (number, part), &bytes),
        }
    }

    fn expire(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Loss => self.token_lost(now),
            Timer::Retransmit => self.retransmit_token(now),
            Timer::Hold => self.release_token(now),
            Timer::Own => self.own_token(now),
            Timer::Hurry => self.hurry_again(now),
            Timer::Probe => self.probe(now),
            Timer::Join => self.join_again(now),
            Timer::Consensus => self.consensus_timeout(now),
            Timer::Announce => self.announce_by_turn(now),
            Timer::Leave => self.leave_timeout(now),
        }
    }

    /// Whether this member is the representative of the installed ring.
    fn is_representative(&self) -> bool {
        let installed = self.state.installed();
        installed.is_some_and(Ordering::is_representative)
    }

    /// The most bytes of packed records in a packet now.
    fn records_max(&self) -> usize {
        let installed = self.state.installed();
        let size = installed.map_or(PacketSize::own(&self.config), |ring| ring.packet_size);
        size.records_max()
    }

    /// Tells the user that a refused message fits now.
    fn wake_submitter(&mut self) {
        if self.queue.take_writable() {
            self.events.push_back(Event::Writable);
        }
    }

    /// The configuration that the user is in, if there is one yet.
    pub fn configuration(&self) -> Option<ConfigId> {
        self.state.installed().map(|ring| ring.id)
    }
}

impl Protocol for Ring {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        if self.ignores_others() || matches!(self.state, State::Left(_)) {
            return;
        }
        let Ok(message) = Message::decode(&body) else {
            self.counters.malformed += 1;
            return;
        };
        if from.node == self.local.node {
            self.handle_namesake(now, from, &message);
            return;
        }
        self.peers.note_alive(now, from);
        self.handle_message(now, from, message);
    }

    fn handle_timeout(&mut self, now: Time) {
        // Each timer at most once: one that sets itself again is due later, or in the next call.
        for _ in 0..Timer::ALL.len() {
            let Some(timer) = self.timers.pop_due(now) else {
                return;
            };
            self.expire(now, timer);
        }
    }

    fn poll_transmit(&mut self, _now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        self.outbox.poll_transmit(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.transitions.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn read_first(&self) -> SocketClass {
        self.priority
    }

    fn dozes_until(&self) -> Option<Time> {
        match &self.state {
            State::Operational(operational) => operational.dozes_until,
            _ => None,
        }
    }
}

impl Ordered for Ring {
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let len = payload.len();
        if service == Service::Majority
            && let Some(ring) = self.state.installed().filter(|ring| ring.is_minority())
        {
            let (members, of) = (ring.members.len(), ring.max_n);
            return Err(SubmitError::Minority { members, of });
        }
        let number = self.queue.admit(service, len)?;
        let record = Record {
            service,
            number,
            payload,
        };
        let id = MessageId {
            sender: self.local,
            number,
        };
        if service == Service::Unreliable && Unordered::fits(len, self.records_max()) {
            self.submit_unordered(now, record);
        } else {
            self.queue.push(record);
            self.wake_token(now);
        }
        Ok(id)
    }

    fn services(&self) -> &'static [Service] {
        self.queue.services()
    }

    fn status(&self) -> GroupStatus {
        self.group_status()
    }

    fn hearing(&self, now: Time) -> Hearing {
        self.heard_and_left_out(now)
    }

    fn leave(&mut self, now: Time) {
        self.begin_leave(now);
    }

    fn local(&self) -> MemberId {
        self.local
    }
}
