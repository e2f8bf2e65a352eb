//! Process groups: the engine of one daemon, between its clients and what orders their messages.
//!
//! Sans-IO and deterministic. Three kinds of input: bytes of clients ([`Engine::space`],
//! [`Engine::received`], [`Engine::closed`]), events of the order and of bimodal groups
//! ([`Engine::handle_event`]), time ([`Engine::handle_timeout`]). After any of them, drain in this
//! order:
//!
//! 1. [`Engine::pump`]: messages for the order and for bimodal groups;
//! 2. [`Engine::poll_question`]: questions of clients about the daemon, answered by
//!    [`Engine::answer`];
//! 3. [`Engine::poll_output`]: clients that have something to be sent, from [`Engine::slices`] to
//!    the client's socket, and how much it took to [`Engine::consumed`];
//! 4. [`Engine::poll_close`]: connections to close;
//! 5. [`Engine::poll_spill`], if there is a disk ([`Engine::set_spills`]): what it is to do;
//! 6. [`Engine::poll_observation`] and [`Engine::poll_fact`]: history and log;
//! 7. [`Engine::poll_timeout`].
//!
//! Several inputs may come before the draining. Each client then gets one report for all of them,
//! which is cheaper.
//!
//! # What is agreed
//! Joins, leaves and disconnects travel as agreed messages, and a message to several groups is one
//! message, so all daemons of a configuration see one history ([`exchange`](self) has the rules for
//! configuration changes). The view that such a message causes is named after the message's place,
//! so equal views have equal names although daemons exchange nothing about them.
//!
//! # Accepted
//! A message is accepted when the order has delivered it back to this daemon, and the daemon has
//! handed it to its subscribers. An unreliable message is accepted when the order has taken it, and
//! a message of a bimodal group when its gossip has taken it.
//!
//! # Bimodal groups
//! The groups that the configuration names as bimodal do not touch the order: each has a gossip
//! instance, its [`Carrier`], for its messages and its membership ([`bimodal`](self) has the
//! rules).
//!
//! # Further rings
//! The groups at and below the name of a further ring have an order of their own ([`rings`](self)
//! has the rules). The engine keeps a separate state for each order ([`orders`](self)). A join may
//! ask for a new ring ([`making`](self)); clients move when another order comes to carry their
//! group ([`moving`](self)). The engine refuses requests to a ring that the daemon cannot be in
//! ([`refusing`](self)).
//!
//! # The bus
//! A client may select a group's messages by patterns for their tags, may be in all groups below a
//! name, and may have an id that reaches it as a destination: [`bus`](self) has the rules. All of
//! this is agreed.
//!
//! # Requests, handlers and locks
//! [`guests`](crate::guests) decides about them. The engine hands its effects for clients of this
//! daemon to them, in their place among messages and views.
//!
//! # Bounds
//! What a client may have published and not handed to an order is bounded by its credit; what waits
//! for a client by three steps: publishers of this daemon whose messages it gets are held back, it
//! misses unreliable messages, it is disconnected. Where the rule says so, what waits goes to a
//! disk instead ([`spilling`](self)). Clients are bounded together, too: over
//! [`input_max`](EngineConfig::input_max) that with most input is disconnected, and its input is
//! dropped; over [`output_max`](EngineConfig::output_max) that for which most waits. A hello and a
//! frame have a time to come whole. Changes of groups have a fifth of the time, however many
//! clients make them (`changes.rs`). What messages to clients cost in a turn is bounded if the host
//! wants it ([`Engine::begin_turn`]), and so are the states of daemons, views of a change of the
//! configuration and messages that were held for it (`steps.rs`). The other work for one call is
//! bounded by what was read: how much that is in a turn is for the daemon to bound. While states
//! are exchanged no client's message is handed to the order, so what has to be held then is bounded
//! by what the orders' send queues held.

mod access;
mod agreed;
mod ahead;
mod bimodal;
mod blocking;
mod bus;
mod chain;
mod changes;
mod client;
mod clients;
mod config;
mod congestion;
mod connections;
mod deliver;
mod exchange;
mod fact;
mod filters;
mod greeting;
mod guests;
mod held;
mod installing;
mod journal;
mod listing;
mod making;
mod moving;
mod orders;
mod output;
mod own_state;
mod patterns;
mod questions;
mod refusing;
mod requests;
mod rings;
mod roster;
mod route;
mod schedule;
mod slow;
mod spill;
mod spilling;
mod spread;
mod stage;
mod steps;
mod submit;
mod table;
mod turns;
mod wire;

use std::io::IoSlice;
use std::sync::Arc;

use groupcast_core::trace::Observation;
use groupcast_core::{MemberId, Time};

pub use self::access::{Access, Principal, Right, Rule};
use self::bimodal::Bimodal;
pub use self::bimodal::{BIMODAL_GROUPS_MAX, BIMODAL_MESSAGE_MAX};
pub use self::client::{ClientId, InputAhead, Transport};
use self::clients::Clients;
pub use self::config::{EngineConfig, EngineConfigError};
pub use self::connections::{Handled, OPERATORS_MAX, REFUSED_MAX};
pub use self::fact::{
    BimodalStatus, ClientStatus, Counters, Fact, GroupStatus, PhaseName, RingStatus, Status, Whence,
};
use self::journal::Journal;
pub use self::listing::Listed;
use self::making::Making;
use self::orders::{Order, OrderIndex, PerOrder};
pub use self::questions::Question;
use self::questions::Questions;
pub use self::rings::RINGS_PER_DAEMON_MAX;
use self::rings::Rings;
pub use self::roster::{CLIENTS_MAX, GROUPS_PER_CLIENT_MAX};
use self::schedule::{Schedule, Timer};
pub use self::slow::{SlowRule, SlowRules};
pub use self::spill::{SpillDone, SpillPlace, SpillWork};
pub use self::spread::WORK_PER_TURN;
pub use self::wire::BINDINGS_MAX;
use crate::frame::AccessToken;
use crate::name::check_host;
use crate::names::{Implicit, NameService};

/// The most deadlines of clients that a call attends to.
const DUE_MAX: usize = 128;

/// What carries messages between daemons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// The daemon's own order: the ring, or another protocol that the daemon runs instead. It
    /// orders the messages of all groups that are neither bimodal nor on a further ring. In the
    /// comments here an *order* is this one or a further ring.
    Order,
    /// A further ring: its index in [`EngineConfig::rings`].
    Ring(usize),
    /// The gossip of one bimodal group: its index in [`EngineConfig::bimodal_groups`].
    Bimodal(usize),
}

/// The groups and clients of one daemon.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    local: MemberId,
    host: Arc<str>,
    clients: Clients,
    orders: PerOrder<Order>,
    rings: Rings,
    names: Box<dyn NameService>,
    making: Making,
    bimodal: Bimodal,
    /// The name by which clients of this daemon know the last request that came in any order.
    asked: u64,
    /// A rule of requests and roles that is broken on purpose.
    planted: Option<crate::guests::Planted>,
    schedule: Schedule,
    questions: Questions,
    /// Clients that were named at once for requests of a client, since the start: in views of
    /// bimodal groups for its own joins and leaves, and in lists of the clients of the bus.
    named: u64,
    journal: Journal,
    /// The token that clients over TCP must have.
    tcp_token: Option<AccessToken>,
    access: Access,
    slow_rules: SlowRules,
    /// Whether there is a disk for what waits for slow clients.
    spills: bool,
    /// The user that the daemon runs as, if it is known.
    own_user: Option<u32>,
    /// Reused buffer: one frame while it is encoded.
    scratch: Vec<u8>,
}

impl Engine {
    /// The engine of the daemon that is called `host` and is the member `local` of its own order.
    pub fn new(
        config: EngineConfig,
        local: MemberId,
        host: &str,
    ) -> Result<Self, EngineConfigError> {
        config.check()?;
        check_host(host)?;
        Ok(Self {
            local,
            host: host.into(),
            clients: Clients::new(1 + config.rings.len()),
            orders: PerOrder::new(1 + config.rings.len(), || Order::new(local)),
            rings: Rings::new(&config.rings),
            names: Box::new(Implicit::new(local)),
            making: Making::default(),
            bimodal: Bimodal::new(&config.bimodal_groups),
            asked: 0,
            planted: None,
            schedule: Schedule::default(),
            questions: Questions::default(),
            named: 0,
            journal: Journal::default(),
            tcp_token: None,
            access: Access::default(),
            slow_rules: SlowRules::default(),
            spills: false,
            own_user: None,
            scratch: Vec::new(),
            config,
        })
    }

    /// Clients that connect over TCP from now on must have `token`.
    pub fn require_token(&mut self, token: AccessToken) {
        self.tcp_token = Some(token);
    }

    /// The daemon runs as `user`, who may change the key where no rule says who may, and for whose
    /// tools places are kept. By default that is so of root alone.
    pub fn set_own_user(&mut self, user: u32) {
        self.own_user = Some(user);
    }

    /// Whether there is a history: without one [`poll_observation`](Self::poll_observation) has
    /// nothing, and no lines are made, which for a view would take as long as all the rest of it.
    /// By default there is one.
    pub fn set_observed(&mut self, is_observed: bool) {
        self.journal.set_observed(is_observed);
    }

    /// Breaks a rule of requests and roles on purpose, to prove that the swarm sees it.
    #[doc(hidden)]
    pub fn plant(&mut self, bug: Option<crate::guests::Planted>) {
        self.planted = bug;
        for order in self.orders.iter_mut() {
            order.guests.plant(bug);
        }
    }

    /// A fact changed on which the recipients of messages depend, in every order.
    fn routes_changed(&mut self) {
        for order in self.orders.iter_mut() {
            order.routing.changed();
        }
    }

    /// Replaces the limits by those of `config`, for connected clients, too. A connected client
    /// keeps its publish window, and the settings of rings and bimodal groups stay as they were,
    /// since their members depend on them.
    ///
    /// # Errors
    /// If `config` contradicts itself or a fixed limit; nothing has changed then.
    pub fn set_limits(&mut self, config: EngineConfig) -> Result<(), EngineConfigError> {
        config.check()?;
        self.config = EngineConfig {
            rings: std::mem::take(&mut self.config.rings),
            ring_pool: self.config.ring_pool,
            bimodal_groups: std::mem::take(&mut self.config.bimodal_groups),
            bimodal_message_max: self.config.bimodal_message_max,
            bimodal_members_max: self.config.bimodal_members_max,
            ..config
        };
        Ok(())
    }

    /// Ends the connections whose client was too late to say hello, to finish a frame, to take its
    /// last frames, or to take anything at all; and the requests whose time is over. A call attends
    /// to a bounded number of connections; the next is due at once if there are more.
    pub fn handle_timeout(&mut self, now: Time) {
        for _ in 0..DUE_MAX {
            let Some((id, timer)) = self.schedule.deadlines.take_due(now) else {
                break;
            };
            match timer {
                Timer::Connection => self.deadline_passed(now, id),
                Timer::Frame => self.check_frame(now, id),
            }
        }
        for on in self.orders.indices() {
            self.orders[on].guests.handle_timeout(now);
            self.tell_guests(on, now);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`pump`](Self::pump) next, and
    /// [`begin_turn`](Self::begin_turn) where it is called; `None` if no time is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let of_orders = self.orders.iter().flat_map(|order| {
            [
                order.guests.poll_timeout(),
                order.submissions.changes.poll_timeout(),
            ]
        });
        let to_say = self.has_names_to_say().then_some(Time::ZERO);
        let to_go_on = self.schedule.congestion.has_resumed();
        let to_go_on = to_go_on || self.orders.iter().any(Order::is_behind);
        let to_go_on = to_go_on.then_some(Time::ZERO);
        let all = of_orders.chain([self.schedule.deadlines.next(), to_say, to_go_on]);
        all.flatten().min()
    }

    /// The next client with output. Write until the socket takes no more or nothing is left. If the
    /// socket takes no more, go on when it is writable: this method does not return the client
    /// again for that.
    pub fn poll_output(&mut self) -> Option<ClientId> {
        self.schedule.ready.pop_first()
    }

    /// Whether [`poll_output`](Self::poll_output) has a client. Writing to one may give others
    /// output: publishers that waited for it get credit.
    pub fn has_output(&self) -> bool {
        !self.schedule.ready.is_empty()
    }

    /// Fills `slices` with the next output for `client`, and returns how many slices it filled.
    pub fn slices<'a>(&'a mut self, client: ClientId, slices: &mut [IoSlice<'a>]) -> usize {
        self.report(client);
        self.schedule.ready.remove(&client);
        match self.clients.link_mut(client) {
            Some(link) => link.output.slices(slices),
            None => 0,
        }
    }

    /// The socket of `client` took `len` bytes of what [`slices`](Self::slices) gave.
    pub fn consumed(&mut self, now: Time, client: ClientId, len: usize) {
        if let Some(link) = self.clients.link_mut(client) {
            link.output.consumed(len);
            self.after_output(now, client, len);
        }
    }

    /// The next connection to close. The engine has forgotten it; [`closed`](Self::closed) is not
    /// called for it.
    pub fn poll_close(&mut self) -> Option<ClientId> {
        let id = self.schedule.closable.pop_first()?;
        self.drop_link(id);
        Some(id)
    }

    /// The next line of the history, and the carrier that it belongs to: a view that subscribers of
    /// this daemon saw, or an event of its guests.
    pub fn poll_observation(&mut self) -> Option<(Carrier, Observation)> {
        self.journal.poll_observation()
    }

    /// The next fact for the log.
    pub fn poll_fact(&mut self) -> Option<Fact> {
        self.journal.poll_fact()
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        self.journal.counters
    }

    /// The daemon's name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The state of the daemon, its clients and its orders. Costs a walk over all clients.
    pub fn status(&self) -> Status {
        let order = &self.orders[OrderIndex::OWN];
        Status {
            host: self.host.clone(),
            phase: order.phase_name(),
            config: order.config(),
            daemons: order.daemons(),
            clients: self
                .clients
                .iter()
                .map(|(id, client)| client.status(self.schedule.congestion.holds_back(id)))
                .collect(),
            groups: order.table.count(),
            rings: self.ring_statuses(),
            bimodal: self.bimodal_status(),
            held: order.held_bytes(),
            input: self.clients.input(),
            on_disk: self.clients.on_disk(),
            counters: self.journal.counters,
        }
    }

    /// The daemons of the daemon's own order whose state is known, with their names.
    pub fn daemons(&self) -> Vec<(MemberId, Arc<str>)> {
        self.orders[OrderIndex::OWN].daemons()
    }
}
