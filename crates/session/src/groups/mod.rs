//! Process groups: the engine of one daemon, between its clients and the ring.
//!
//! Sans-IO and deterministic. Three kinds of input: bytes of clients ([`Engine::space`], [`Engine::received`],
//! [`Engine::closed`]), events of the ring ([`Engine::handle_event`]), time ([`Engine::handle_timeout`]). After any of
//! them, drain in this order:
//!
//! 1. [`Engine::pump`] and [`Engine::pump_bimodal`]: messages for the ring and for bimodal groups;
//! 2. [`Engine::poll_question`]: what clients ask about the daemon, answered by [`Engine::answer`];
//! 3. [`Engine::poll_output`]: clients that have something to be sent, by [`Engine::write_to`] (or
//!    [`Engine::slices`] and [`Engine::consumed`]);
//! 4. [`Engine::poll_close`]: connections to close;
//! 5. [`Engine::poll_observation`] and [`Engine::poll_fact`]: history and log;
//! 6. [`Engine::poll_timeout`].
//!
//! Several inputs may come before the draining; clients are told of many things at once then, which is cheaper.
//!
//! # What is agreed
//! Joins, leaves and disconnects travel as agreed messages, and a message to several groups is one message, so all
//! daemons of a configuration see one history ([`order`](self) has the rules for configuration changes). The view that
//! such a message causes is named after the message's place, so equal views have equal names without a word between
//! the daemons.
//!
//! # Accepted
//! A message is accepted when it has come back in the order and has been handed to the subscribers here; an unreliable
//! one when the ring has taken it, one of a bimodal group when its gossip has taken it.
//!
//! # Bimodal groups
//! Groups that the configuration names do not touch the ring: their messages and their membership go through a gossip
//! instance each, by [`Engine::pump_bimodal`] and [`Engine::handle_bimodal_event`] ([`bimodal`](self) has the rules).
//!
//! # Bounds
//! What a client may have published and not handed to the ring is bounded by its credit; what waits for a client by
//! three steps: publishers of this daemon are held back, it misses unreliable messages, it is disconnected. While states
//! are exchanged no client's message is handed to the ring, so what has to be held then is bounded by what the rings'
//! send queues held before.

mod bimodal;
mod client;
mod config;
mod connections;
mod deliver;
mod fact;
mod order;
mod output;
mod questions;
mod requests;
mod roster;
mod route;
mod submit;
mod table;
mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, IoSlice, Write};
use std::sync::Arc;

use groupcast_core::trace::Observation;
use groupcast_core::{MemberId, Time};

use self::bimodal::Bimodal;
pub use self::bimodal::{BIMODAL_GROUPS_MAX, BIMODAL_MESSAGE_MAX};
use self::client::Client;
pub use self::client::{ClientId, Transport};
pub use self::config::{ConfigError, EngineConfig};
pub use self::fact::{BimodalStatus, ClientStatus, Counters, Fact, GroupStatus, PhaseName, Status};
use self::order::Order;
pub use self::questions::Question;
pub use self::roster::{CLIENTS_MAX, GROUPS_PER_CLIENT_MAX};
use self::route::Route;
use self::submit::Submissions;
use self::table::Table;
pub use self::wire::BINDINGS_MAX;
use crate::name::check_host;

/// Facts that wait for the log; beyond it the oldest are lost and counted.
const FACTS_MAX: usize = 1_024;
/// Slices that [`Engine::write_to`] hands over in one call.
const SLICES: usize = 64;

/// The groups and clients of one daemon.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    local: MemberId,
    host: Arc<str>,
    clients: BTreeMap<ClientId, Client>,
    last_client: u64,
    /// Names of clients that are in use.
    names: BTreeMap<Arc<str>, ClientId>,
    /// How many clients have a connection.
    links: usize,
    /// Sum of the clients' publish windows.
    windows: u64,
    /// Sum of the clients' input.
    input: usize,
    submissions: Submissions,
    table: Table,
    order: Order,
    bimodal: Bimodal,
    deadlines: BTreeSet<(Time, ClientId)>,
    /// Clients that have output, or will once it is asked for.
    ready: BTreeSet<ClientId>,
    /// Clients for which publishers are held back.
    congested: BTreeSet<ClientId>,
    closable: BTreeSet<ClientId>,
    questions: VecDeque<(ClientId, Question)>,
    observations: VecDeque<Observation>,
    facts: VecDeque<Fact>,
    counters: Counters,
    /// Holds one frame while it is encoded.
    scratch: Vec<u8>,
    /// Hold the destinations of one message, and for whom it is.
    destinations: Vec<Arc<str>>,
    recipients: Vec<(ClientId, usize)>,
    /// The way of the last message.
    route: Option<Box<Route>>,
    /// How often something changed that decides where messages go: groups, names, what clients want.
    changes: u64,
}

impl Engine {
    /// The engine of the daemon `host`, which is `local` on the ring.
    pub fn new(config: EngineConfig, local: MemberId, host: &str) -> Result<Self, ConfigError> {
        config.check()?;
        check_host(host)?;
        Ok(Self {
            local,
            host: host.into(),
            clients: BTreeMap::new(),
            last_client: 0,
            names: BTreeMap::new(),
            links: 0,
            windows: 0,
            input: 0,
            submissions: Submissions::default(),
            table: Table::new(local),
            order: Order::new(),
            bimodal: Bimodal::new(&config.bimodal_groups),
            deadlines: BTreeSet::new(),
            ready: BTreeSet::new(),
            congested: BTreeSet::new(),
            closable: BTreeSet::new(),
            questions: VecDeque::new(),
            observations: VecDeque::new(),
            facts: VecDeque::new(),
            counters: Counters::default(),
            scratch: Vec::new(),
            destinations: Vec::new(),
            recipients: Vec::new(),
            config,
            route: None,
            changes: 0,
        })
    }

    /// Time has passed: ends connections that did not say hello, take their last words, or take anything in time.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((at, id)) = self.deadlines.first().copied() {
            if at > now {
                break;
            }
            self.deadlines.pop_first();
            self.deadline_passed(now, id);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The next client that has something to be sent. Write until the socket takes no more or nothing is left; if it
    /// takes no more, go on with this client when it is writable, without waiting to be told again.
    pub fn poll_output(&mut self) -> Option<ClientId> {
        self.ready.pop_first()
    }

    /// Fills `slices` with what `client` is to be sent next; how many were filled.
    pub fn slices<'a>(&'a mut self, client: ClientId, slices: &mut [IoSlice<'a>]) -> usize {
        self.report(client);
        self.ready.remove(&client);
        match self.link_mut(client) {
            Some(link) => link.output.slices(slices),
            None => 0,
        }
    }

    /// The socket of `client` took `len` bytes of what [`slices`](Self::slices) gave.
    pub fn consumed(&mut self, now: Time, client: ClientId, len: usize) {
        if let Some(link) = self.link_mut(client) {
            link.output.consumed(len);
            self.after_output(now, client, len > 0);
        }
    }

    /// Writes to the socket of `client` until it takes no more (`false`) or nothing is left (`true`).
    ///
    /// # Errors
    /// Those of the socket other than "would block" and "interrupted"; call [`closed`](Self::closed) then.
    pub fn write_to(
        &mut self,
        now: Time,
        client: ClientId,
        socket: &mut impl Write,
    ) -> io::Result<bool> {
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.slices(client, &mut slices);
            if count == 0 {
                return Ok(true);
            }
            match socket.write_vectored(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => self.consumed(now, client, len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next connection to close. The engine has forgotten it; [`closed`](Self::closed) is not called for it.
    pub fn poll_close(&mut self) -> Option<ClientId> {
        let id = self.closable.pop_first()?;
        self.drop_link(id);
        Some(id)
    }

    /// The next line of the history: a view that subscribers of this daemon saw.
    pub fn poll_observation(&mut self) -> Option<Observation> {
        self.observations.pop_front()
    }

    /// The next fact for the log.
    pub fn poll_fact(&mut self) -> Option<Fact> {
        self.facts.pop_front()
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The daemon's name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// How the daemon is doing.
    pub fn status(&self) -> Status {
        Status {
            host: self.host.clone(),
            phase: self.order.phase_name(),
            config: self.order.config(),
            daemons: self
                .table
                .rosters()
                .map(|(daemon, roster)| (daemon, roster.host.clone()))
                .collect(),
            clients: self.clients.values().map(Client::status).collect(),
            groups: self.table.memberships().count(),
            bimodal: self.bimodal_status(),
            held: self.order.held_bytes(),
            input: self.input,
            counters: self.counters,
        }
    }

    /// All groups that have members: the agreed ones, then the bimodal ones, as far as this daemon has heard.
    pub fn groups(&self) -> Vec<GroupStatus> {
        let agreed = self.table.memberships().map(|(name, members)| GroupStatus {
            name: name.clone(),
            approximate: false,
            members,
        });
        agreed
            .chain(self.bimodal_groups())
            .filter(|group| !group.members.is_empty())
            .collect()
    }

    fn fact(&mut self, fact: Fact) {
        if self.facts.len() >= FACTS_MAX {
            self.facts.pop_front();
            self.counters.facts_lost += 1;
        }
        self.facts.push_back(fact);
    }
}
