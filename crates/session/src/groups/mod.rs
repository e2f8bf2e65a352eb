//! Process groups: the engine of one daemon, between its clients and what orders their messages.
//!
//! Sans-IO and deterministic. Three kinds of input: bytes of clients ([`Engine::space`],
//! [`Engine::received`], [`Engine::closed`]), events of the order and of bimodal groups
//! ([`Engine::handle_event`]), time ([`Engine::handle_timeout`]). After any of them, drain in this
//! order:
//!
//! 1. [`Engine::pump`]: messages for the order and for bimodal groups;
//! 2. [`Engine::poll_question`]: what clients ask about the daemon, answered by [`Engine::answer`];
//! 3. [`Engine::poll_output`]: clients that have something to be sent, from [`Engine::slices`] to
//!    the client's socket, and how much it took to [`Engine::consumed`];
//! 4. [`Engine::poll_close`]: connections to close;
//! 5. [`Engine::poll_spill`], if there is a disk ([`Engine::set_spills`]): what it is to do;
//! 6. [`Engine::poll_observation`] and [`Engine::poll_fact`]: history and log;
//! 7. [`Engine::poll_timeout`].
//!
//! Several inputs may come before the draining; each client then gets one report of all, which is
//! cheaper.
//!
//! # What is agreed
//! Joins, leaves and disconnects travel as agreed messages, and a message to several groups is one
//! message, so all daemons of a configuration see one history ([`exchange`](self) has the rules for
//! configuration changes). The view that such a message causes is named after the message's place,
//! so equal views have equal names without a word between the daemons.
//!
//! # Accepted
//! A message is accepted when it has come back in the order and has been handed to the subscribers
//! here; an unreliable one when the order has taken it, one of a bimodal group when its gossip has
//! taken it.
//!
//! # Bimodal groups
//! Groups that the configuration names do not touch the order: their messages and their membership
//! go through a gossip instance each, their [`Carrier`] ([`bimodal`](self) has the rules).
//!
//! # Further rings
//! The groups at and below certain names may have an order of their own each ([`rings`](self) has
//! the rules). What is kept for an order is kept once for each ([`orders`](self)). A join may ask
//! for such an order ([`making`](self)), and clients move when another comes to carry their group
//! ([`moving`](self)). What they ask of a ring that the daemon cannot be in is refused
//! ([`refusing`](self)).
//!
//! # The bus
//! A client may be in a group with patterns for the tags of its messages, in all groups below a
//! name, and be called so that a message reaches it: [`bus`](self) has the rules. All of it is
//! agreed.
//!
//! # Requests, handlers and locks
//! [`guests`](crate::guests) has them; what it says is for clients of this daemon goes to them in
//! its place among messages and views.
//!
//! # Bounds
//! What a client may have published and not handed to an order is bounded by its credit; what waits
//! for a client by three steps: publishers of this daemon whose messages it gets are held back, it
//! misses unreliable messages, it is disconnected. Where the rule says so, what waits goes to a disk
//! instead ([`spilling`](self)). Clients are bounded together, too: over
//! [`input_max`](EngineConfig::input_max) that with the longest unfinished frame is disconnected,
//! over [`output_max`](EngineConfig::output_max) that for which most waits. A hello and a frame
//! have a time to come whole. Changes of groups have a fifth of the time, however many clients make
//! them (`changes.rs`). The work for one call is bounded by what was read: how much that is
//! in a turn is for the daemon to bound. While states are exchanged no client's message is handed
//! to the order, so what has to be held then is bounded by what the orders' send queues held.

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
mod journal;
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
mod submit;
mod table;
mod wire;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use groupcast_core::trace::Observation;
use groupcast_core::{MemberId, Time};

pub use self::access::{Access, Principal, Right, Rule};
use self::bimodal::Bimodal;
pub use self::bimodal::{BIMODAL_GROUPS_MAX, BIMODAL_MESSAGE_MAX};
pub use self::client::{ClientId, Transport};
use self::clients::Clients;
pub use self::config::{EngineConfig, EngineConfigError};
pub use self::connections::Handled;
pub use self::fact::{
    BimodalStatus, ClientStatus, Counters, Fact, GroupStatus, PhaseName, RingStatus, Status,
};
use self::journal::Journal;
use self::making::Making;
use self::orders::{Order, OrderIndex, PerOrder};
pub use self::questions::Question;
pub use self::rings::RINGS_PER_DAEMON_MAX;
use self::rings::Rings;
pub use self::roster::{CLIENTS_MAX, GROUPS_PER_CLIENT_MAX};
use self::schedule::{Schedule, Timer};
pub use self::slow::{SlowRule, SlowRules};
pub use self::spill::{SpillDone, SpillPlace, SpillWork};
pub use self::wire::BINDINGS_MAX;
use crate::frame::AccessToken;
use crate::name::check_host;
use crate::names::{Implicit, NameService};

/// What carries messages between daemons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// What orders the messages of all groups but the bimodal ones: the ring, or another protocol
    /// that the daemon runs instead. It and each further ring is an *order* in the comments here.
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
    /// The bug of requests and roles that is planted.
    planted: Option<crate::guests::Planted>,
    schedule: Schedule,
    questions: VecDeque<(ClientId, Question)>,
    journal: Journal,
    /// What clients over TCP must have.
    tcp_token: Option<AccessToken>,
    access: Access,
    slow_rules: SlowRules,
    /// Whether there is a disk for what waits for slow clients.
    spills: bool,
    /// The user that the daemon runs as, if it is known.
    own_user: Option<u32>,
    /// Holds one frame while it is encoded.
    scratch: Vec<u8>,
}

impl Engine {
    /// The engine of the daemon `host`, which is `local` in the order.
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
            planted: None,
            schedule: Schedule::default(),
            questions: VecDeque::new(),
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

    /// The daemon runs as `user`: where no rule says who may change the key, it may. By default
    /// only root may.
    pub fn set_own_user(&mut self, user: u32) {
        self.own_user = Some(user);
    }

    /// Breaks a rule of requests and roles on purpose, to prove that the swarm sees it.
    #[doc(hidden)]
    pub fn plant(&mut self, bug: Option<crate::guests::Planted>) {
        self.planted = bug;
        for order in self.orders.iter_mut() {
            order.guests.plant(bug);
        }
    }

    /// Something changed that decides where messages go, whatever orders them.
    fn routes_changed(&mut self) {
        for order in self.orders.iter_mut() {
            order.routing.changed();
        }
    }

    /// From now on the limits of `config` hold, for clients that are connected too. Only the window
    /// that a client was given when it connected stays, and what concerns rings and bimodal groups,
    /// on which their members depend.
    ///
    /// # Errors
    /// Nothing has changed.
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

    /// Time has passed: ends connections that were too late to say hello, to take their last
    /// frames, or to take anything.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((id, timer)) = self.schedule.deadlines.take_due(now) {
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

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`pump`](Self::pump), if ever.
    pub fn poll_timeout(&self) -> Option<Time> {
        let of_orders = self.orders.iter().flat_map(|order| {
            [
                order.guests.poll_timeout(),
                order.submissions.changes.poll_timeout(),
            ]
        });
        let to_say = self.has_names_to_say().then_some(Time::ZERO);
        let all = of_orders.chain([self.schedule.deadlines.next(), to_say]);
        all.flatten().min()
    }

    /// The next client that has something to be sent. Write until the socket takes no more or
    /// nothing is left; if it takes no more, go on with this client when it is writable, although
    /// it is not polled again.
    pub fn poll_output(&mut self) -> Option<ClientId> {
        self.schedule.ready.pop_first()
    }

    /// Fills `slices` with what `client` is to be sent next; how many were filled.
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

    /// The next line of the history, and of what it is: a view that subscribers of this daemon saw,
    /// or what its guests did.
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

    /// How the daemon is doing.
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
            groups: order.table.memberships().count(),
            rings: self.ring_statuses(),
            bimodal: self.bimodal_status(),
            held: order.held_bytes(),
            input: self.clients.input(),
            on_disk: self.clients.on_disk(),
            counters: self.journal.counters,
        }
    }

    /// All groups that have members: the agreed ones, then the bimodal ones, as far as this daemon
    /// has heard.
    pub fn groups(&self) -> Vec<GroupStatus> {
        let agreed = self.orders.indices().flat_map(|on| {
            let ring = self.rings.top(on);
            let memberships = self.orders[on].table.memberships();
            memberships.map(move |(name, members)| GroupStatus {
                name: name.clone(),
                ring: ring.cloned(),
                approximate: false,
                members,
            })
        });
        agreed
            .chain(self.bimodal_groups())
            .filter(|group| !group.members.is_empty())
            .collect()
    }
}
