//! The Reliable Multicast Protocol (000 ch. 8, 11) on one ring, with Extended Virtual Synchrony.
//!
//! Members multicast packets. A token site multicasts ACKs, which give packets their positions in
//! the order and pass the token on; a member takes the token only when it holds everything up to
//! it. A member that misses something asks the site that sent the last ACK. The specification, rule
//! by rule with its sources, and every byte on the wire: `docs/rmp.md`.
//!
//! ```text
//!          failure, stranger, good-bye
//!     +------------------------------------ Operational
//!     v                                      ^  |
//!  Polling -- all answer, or time ---+       |  | another polls
//!     ^  |                           |       |  |
//!     |  +-- another polls           |       |  |
//!     |            |                 |       |  |
//!     |            v                 v       |  |
//!     |  +---- Standby -proposal-> Recovering+  |
//!     +--+       ^  ^                 |         |
//!     time       |  +---- time -------+         |
//!                +------------------------------+
//! ```
//!
//! Beside these, a member that is alone goes from Polling or Operational to Joining when a group
//! hears it, and from there to Operational when a list lets it in, or back to Polling.
//!
//! # Files
//! - One configuration: `order` and `delivery` have its rules, `stream` what comes before its place
//!   in the order, `numbers` the types of its numbers.
//! - Packets and the token: `operational` sends packets, `token` passes the token, `flow` has the
//!   window, `timing` the timers, `outgoing` keeps own messages until their places are known,
//!   `unordered` is what has no ACK.
//! - What is missing: `repair` asks and answers, `askers` bounds the answers to one member,
//!   `relaying` asks for the marks of a member that is not heard.
//! - A reformation: `polling`, `standby` and `recovering` are its states, which `state` lists with
//!   the others. `patience` says for which members a poller waits, `pollers` how long one is
//!   followed, `hearsay` asks for what a member says that is not heard, `claims` bounds what one
//!   member's word does, `plan` computes how the old configuration is finished, `installing` does
//!   it. `stranded` is a member that lacks what nobody brings, `brittle` a group that breaks again
//!   and again, `absences` the members that come and go.
//! - Joins and leaves by one message: `lists` is what a new list of members changes in the order,
//!   `listing` makes lists and hears them, `joining` is a newcomer, `catching_up` a member that a
//!   reformation finds before a list.
//! - Other groups: `strangers` is how groups find each other and how a member leaves, `probe` asks
//!   members in quarantine.
//! - To the outside: `wire` has the datagrams, `outbox` those that wait, `config` the settings,
//!   `status` the counters; `inspect` reads datagrams for measurements, `alike` compares members
//!   for the explorer, `planted` breaks rules on purpose; `family` and `daemon` are the entries of
//!   the registry.
//!
//! # Guarantees
//! Every service. `reliable` and `fifo` messages are delivered before they are ordered, and have no
//! place; the sender's own copy comes with the ACK. Configurations as EVS has them. What was
//! accepted by a member that lives on is delivered to it.
//!
//! # Timers
//! See `Timer`. Packets, token passes and requests are timed (000 ch. 8): mean and four deviations
//! of the round trip, doubled at each expiry.
//!
//! # Deviations from the paper
//! All are marked *ours* in `docs/rmp.md`. The largest: a packet is delivered when its sender is
//! known to know its position, not as soon as its ACK is heard ([`OrderRule`]).

mod absences;
mod alike;
mod askers;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod bad_lists;
mod brittle;
mod catching_up;
mod claims;
mod config;
mod daemon;
mod delivery;
#[cfg(test)]
mod false_claims;
#[cfg(test)]
mod false_marks;
mod family;
#[cfg(test)]
mod fig10;
#[cfg(test)]
mod fig6;
#[cfg(test)]
mod fig9;
#[cfg(test)]
mod fixtures;
mod flow;
mod hearsay;
mod inspect;
mod installing;
#[cfg(test)]
mod invented;
mod joining;
#[cfg(test)]
mod letting_in;
mod listing;
mod lists;
mod numbers;
mod operational;
mod order;
mod outbox;
mod outgoing;
#[cfg(test)]
mod own_early;
mod patience;
mod plan;
mod planted;
mod pollers;
mod polling;
mod probe;
mod recovering;
mod relaying;
mod repair;
#[cfg(test)]
mod single_rules;
mod standby;
mod state;
mod status;
mod stranded;
mod strangers;
mod stream;
mod timing;
mod token;
#[cfg(test)]
mod transcript;
mod unordered;
mod wire;

use alloc::collections::VecDeque;

use bytes::Bytes;
use groupcast_core::mech::absences::Absences;
use groupcast_core::mech::claims::Claims;
use groupcast_core::mech::estimate::Estimate;
use groupcast_core::mech::leave::Leave;
use groupcast_core::mech::namesakes::Namesakes;
use groupcast_core::mech::participation::Transitions;
use groupcast_core::mech::peers::Peers;
use groupcast_core::mech::probes::Probes;
use groupcast_core::mech::room::Refused;
use groupcast_core::mech::send_queue::{SendLimits, SendQueue};
use groupcast_core::mech::timers::{TimerKey, Timers};
use groupcast_core::status::Hearing;
use groupcast_core::trace::Transition;
use groupcast_core::{
    ConfigId, Event, GroupStatus, MemberId, MessageId, Ordered, Protocol, Rng, Service,
    SubmitError, Time, Transmit, TransmitBuf,
};

use self::askers::Askers;
use self::brittle::Brittle;
pub use self::config::{ConfigError, NackTo, OrderRule, RmpConfig};
pub use self::daemon::ORDER;
pub use self::family::{FAMILY, HEARD};
use self::flow::Flow;
use self::hearsay::PollsTold;
pub use self::inspect::{Said, inspect};
use self::outbox::Outbox;
use self::outgoing::Outgoing;
pub use self::planted::Planted;
use self::pollers::Pollers;
use self::polling::Polling;
use self::standby::{Answered, Standby};
use self::state::State;
pub use self::status::{RmpCounters, RmpStatus};
use self::timing::Timing;
use self::wire::Message;
use crate::packing::Record;
use crate::unordered::Unordered;

/// A member of a group that RMP orders.
///
/// Drain order as for [`Protocol`]. The first thing that it does is to look for others: call
/// [`handle_timeout`](Protocol::handle_timeout) when [`poll_timeout`](Protocol::poll_timeout) says.
///
/// ```
/// use bytes::Bytes;
/// use groupcast_core::{Incarnation, MemberId, NodeId, Ordered, Protocol, Rng, Service, Time};
/// use groupcast_protocols::rmp::{Rmp, RmpConfig};
///
/// let local = MemberId { node: NodeId::from_name("a"), incarnation: Incarnation(1) };
/// let mut rmp = Rmp::new(RmpConfig::lan(), local, Rng::new(1), Time::ZERO)?;
/// rmp.submit(Time::ZERO, Service::Agreed, Bytes::from_static(b"hello")).expect("the queue is empty");
/// assert!(rmp.poll_timeout().is_some());
/// # Ok::<(), groupcast_protocols::rmp::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Rmp {
    config: RmpConfig,
    local: MemberId,
    rng: Rng,
    state: State,
    timers: Timers<Timer>,
    peers: Peers,
    probes: Probes,
    claims: Claims,
    polls_told: PollsTold,
    answered: Answered,
    pollers: Pollers,
    brittle: Brittle,
    absences: Absences,
    /// Strangers that do not fit in.
    refused: Refused,
    askers: Askers,
    namesakes: Namesakes,
    leaving: Option<Leave>,
    flow: Flow,
    timing: Timing,
    queue: SendQueue<Outgoing>,
    /// Unreliable messages that wait for a configuration.
    unordered: Unordered,
    outbox: Outbox,
    events: VecDeque<Event>,
    transitions: Transitions,
    /// Since when this member works in its configuration, or in one that lists made this of.
    works_since: Time,
    /// How long it takes that the token is taken, copies included.
    passes: Estimate,
    counters: RmpCounters,
}

/// RMP's timers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Timer {
    /// When to send the ACK that nobody took again.
    Pass,
    /// When to confirm that the token was taken.
    Confirm,
    /// When to pass the token with a null ACK.
    NullAck,
    /// When to send the oldest packet without an ACK again.
    Data,
    /// When to ask for what is missing.
    Request,
    /// When to multicast marks that others may wait for.
    Marks,
    /// When to ask others for marks of a member that is not heard.
    Wanted,
    /// When the group is taken for broken: no ACK was heard.
    Silence,
    /// When to poll because a member left.
    Gone,
    /// When to repeat what a reformation sends.
    Repeat,
    /// When a state of a reformation ends.
    Deadline,
    /// When to announce the group to members of others.
    Announce,
    /// When to repeat what a list waits for, or the request to leave.
    Lists,
    /// When to finish a graceful leave without the others, or to repeat the good-bye.
    Leave,
    /// When to ask those in quarantine whether they can be reached.
    Probe,
}

impl Timer {
    /// Those that go on whatever the state.
    const KEPT: &'static [Self] = &[Self::Leave, Self::Probe];
}

impl TimerKey for Timer {
    const ALL: &'static [Self] = &[
        Self::Pass,
        Self::Confirm,
        Self::NullAck,
        Self::Data,
        Self::Request,
        Self::Marks,
        Self::Wanted,
        Self::Silence,
        Self::Gone,
        Self::Repeat,
        Self::Deadline,
        Self::Announce,
        Self::Lists,
        Self::Leave,
        Self::Probe,
    ];

    fn index(self) -> usize {
        self as usize
    }
}

impl Rmp {
    /// A member that begins to look for others at `now`.
    ///
    /// # Errors
    /// The first setting of `config` that cannot work.
    pub fn new(
        config: RmpConfig,
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
        let queue = SendQueue::new(limits, Outgoing::default()).measured(config.queue_measured);
        let mut rmp = Self {
            flow: Flow::new(&config),
            timing: Timing::default(),
            config,
            local,
            rng,
            state: State::Standby(Standby::default()),
            timers: Timers::default(),
            peers: Peers::default(),
            probes: Probes::default(),
            claims: Claims::default(),
            polls_told: PollsTold::default(),
            answered: Answered::default(),
            pollers: Pollers::default(),
            brittle: Brittle::default(),
            absences: absences::none(),
            refused: Refused::default(),
            askers: Askers::default(),
            namesakes: Namesakes::new(now),
            leaving: None,
            queue,
            unordered: Unordered::default(),
            outbox: Outbox::default(),
            events: VecDeque::new(),
            transitions: Transitions::default(),
            works_since: now,
            passes: Estimate::default(),
            counters: RmpCounters::default(),
        };
        rmp.poll(now, "start", Polling::default());
        Ok(rmp)
    }

    /// Changes the state to what `next` makes of the one before.
    fn transition(&mut self, cause: &'static str, next: impl FnOnce(State) -> State) {
        let from = self.state.name();
        let before = core::mem::replace(&mut self.state, State::Left(None));
        let last = before.installed();
        let last = last.map(|order| (order.id, order.malformed()));
        self.state = next(before);
        if let Some((id, malformed)) = last
            && self.state.installed().is_none_or(|order| order.id != id)
        {
            self.counters.malformed += malformed;
        }
        let to = self.state.name();
        assert!(
            self.state.may_follow(from),
            "no edge from {from} to {to} ({cause})"
        );
        self.transitions.record(from, to, cause);
        self.counters.transitions += 1;
    }

    fn expire(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Pass => self.pass_again(now),
            Timer::Confirm => self.confirm(),
            Timer::NullAck => self.null_ack(now),
            Timer::Data => self.data_again(now),
            Timer::Request => self.request(now),
            Timer::Marks => self.tell_marks(),
            Timer::Wanted => self.ask_for_marks(now),
            Timer::Silence => self.poll(now, "silence", Polling::default()),
            Timer::Gone => self.poll(now, "member left", Polling::default()),
            Timer::Repeat => self.repeat(now),
            Timer::Deadline => self.deadline(now),
            Timer::Announce => self.announce_by_turn(now),
            Timer::Lists => self.list_again(now),
            Timer::Leave => self.leave_timeout(now),
            Timer::Probe => self.probe(now),
        }
    }

    fn repeat(&mut self, now: Time) {
        match &self.state {
            State::Polling(_) => self.repeat_poll(now),
            State::Recovering(_) => self.repeat_recovery(now),
            State::Joining(_) => self.repeat_join(now),
            State::Standby(_) | State::Operational(_) | State::Left(_) => {}
        }
    }

    fn deadline(&mut self, now: Time) {
        match &self.state {
            State::Polling(_) => self.poll_over(now),
            State::Standby(_) => self.poll(now, "nothing was proposed", Polling::default()),
            State::Recovering(_) => self.recovery_failed(now),
            State::Joining(_) => self.join_failed(now),
            State::Operational(_) | State::Left(_) => {}
        }
    }

    /// Sets when to repeat what a reformation sends.
    fn plan_repeat(&mut self, now: Time) {
        let interval = self.config.poll_interval;
        let delay = self.rng.duration(interval * 3 / 4, interval * 5 / 4);
        self.timers.set(Timer::Repeat, now + delay);
    }

    /// The most bytes of packed records in a packet now.
    fn records_max(&self) -> usize {
        let installed = self.state.installed();
        let body_max = installed.map_or(self.config.body_max, |order| order.body_max);
        RmpConfig::records_max(body_max)
    }

    /// Tells the user that a refused message fits now.
    fn wake_submitter(&mut self) {
        if self.queue.take_writable() {
            self.events.push_back(Event::Writable);
        }
    }

    /// The configuration that the user is in, if there is one yet.
    pub fn configuration(&self) -> Option<ConfigId> {
        self.state.installed().map(|order| order.id)
    }

    fn handle(&mut self, now: Time, from: MemberId, message: Message) {
        self.heard_of(now, from);
        self.peers.note_alive(now, from);
        if let Some(tag) = message.tag() {
            self.install_if_begun(now, from, tag);
        }
        match message {
            Message::Data(data) => self.handle_data(now, from, data),
            Message::Ack(ack) => self.handle_ack(now, from, &ack),
            Message::Confirm { tag, stamp, marks } => {
                self.handle_confirm(now, from, tag, stamp, marks);
            }
            Message::Settle { tag, marks } => self.handle_settle(now, from, tag, marks),
            Message::Nack(nack) => self.handle_nack(now, from, &nack),
            Message::Wanted(wanted) => self.handle_wanted(now, from, &wanted),
            Message::Relayed(relayed) => self.handle_relayed(now, from, &relayed),
            Message::Unordered { tag, record } => self.handle_unordered(from, tag, &record),
            Message::Poll(poll) => self.handle_poll(now, from, poll),
            Message::Answer(answer) => self.handle_answer(now, from, answer),
            Message::Proposal(proposal) => self.handle_proposal(now, from, proposal),
            Message::Accept { config } => self.handle_accept(now, from, config),
            Message::Install { config } => self.handle_install(now, from, config),
            Message::Ask { poller, attempt } => self.handle_ask(now, from, poller, attempt),
            Message::Missing(missing) => self.handle_missing(now, from, &missing),
            Message::Told(told) => self.handle_told(now, from, told),
            Message::Announcement(announcement) => {
                self.handle_announcement(now, from, announcement);
            }
            Message::Goodbye => self.handle_goodbye(now, from),
            Message::Name(_) => {}
            Message::Join(join) => self.handle_join(now, from, join),
            Message::List(list) => self.handle_list(now, from, &list),
            Message::Listed(listed) => self.handle_listed(now, from, listed),
            Message::Leave { tag } => self.handle_leave_request(now, from, tag),
            Message::Probe { answers, number } => self.handle_probe(now, from, answers, number),
        }
    }
}

impl Protocol for Rmp {
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
        self.handle(now, from, message);
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
        self.transitions.pop()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }
}

impl Ordered for Rmp {
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        if service == Service::Majority
            && let Some(order) = self.state.installed().filter(|order| order.is_minority())
        {
            let (members, of) = (order.members.len(), order.max_n);
            return Err(SubmitError::Minority { members, of });
        }
        let len = payload.len();
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
            self.submit_unordered(record);
        } else {
            self.queue.push(record);
            self.act(now);
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
