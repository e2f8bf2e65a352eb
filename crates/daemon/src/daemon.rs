//! The daemon: one thread, one loop around the network's endpoint, the groups' engine and the
//! clients' sockets.
//!
//! A turn:
//!
//! 1. the endpoint sends and waits;
//! 2. clients are read within a bound, so that their messages go with a token that has come;
//! 3. the endpoints read the network, and the events of the order, the bimodal groups and the rings
//!    go to the engine, as far as it has time for them in this turn ([`backlog`](crate::backlog)
//!    says when the network waits for those that are left);
//! 4. new clients are accepted, and clients are read on;
//! 5. the engine's messages go to the order, the groups and the rings;
//! 6. each client with output is written to once.

mod answering;
mod leaving;
mod listing;
mod observe;
mod rereading;
mod rings;

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{ConfigurationKind, Event, MemberId, Rng, Service, SubmitError, Time};
use groupcast_net::{Endpoint, Readiness, new_member, random_u64};
use groupcast_session::Engine;
use groupcast_session::groups::{Carrier, Question, WORK_PER_TURN};
use groupcast_session::names::ConfiguredRings;
use mio::{Interest, Token};
use serde_json::Value;

use self::answering::Answering;
use self::leaving::{FAREWELL, RunPhase, STOPPING};
use self::listing::Listing;
use self::observe::submit;
use crate::backlog::Backlog;
use crate::bimodal::Bimodal;
use crate::clients::{Clients, METRICS, SPILL};
use crate::config::{Config, DaemonConfigError};
use crate::error::DaemonError;
use crate::history::History;
use crate::instance::{self, CarrierEvent, Instance};
use crate::keys::{Keys, Seals};
use crate::line_limit::LineLimits;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::narrate::Narrator;
use crate::rekey::Rekeying;
use crate::rings::Ring;
use crate::spill::SpillDisk;
use crate::start::{
    ask_host, load_token, open_bimodal, open_clients, open_engine, open_history, open_network,
    open_order, open_rings,
};
use crate::status;
use crate::stop::{StopHandle, StopRequests};

/// The token of requests to stop. The listeners for clients and the clients' sockets have the
/// tokens above it.
const STOP: Token = Token(0);
/// The time between two calls of [`Daemon::tend`].
const TEND_INTERVAL: Duration = Duration::from_millis(200);

/// A daemon that is set up: a member of the group as soon as it [`run`](Self::run)s.
///
/// It belongs to the thread that started it. Several may live in one process; there are no globals.
pub struct Daemon {
    config: Config,
    endpoint: Endpoint<Instance>,
    engine: Engine,
    clients: Clients,
    spill: Option<SpillDisk>,
    metrics: Option<Metrics>,
    stop: StopRequests,
    history: Option<History>,
    narrator: Narrator,
    /// The further rings, at the indices that the engine has for them.
    rings: Vec<Option<Ring>>,
    /// The engine's count of changes for which `rings` holds.
    ring_changes: u64,
    keys: Keys,
    /// When to check next whether clients still want each ring.
    look_at: Time,
    rekeying: Rekeying,
    answering: Answering,
    /// An answer that is longer than a turn.
    listing: Option<Listing>,
    /// The rings in the configurations of this daemon and of others.
    configured_rings: ConfiguredRings,
    lines: LineLimits,
    /// Reads the configuration again, on SIGHUP.
    reread: Option<Reread>,
    /// The log of the process, if this daemon may change it.
    log: Option<Log>,
    ready: Vec<(Token, Readiness)>,
    /// How much work the engine may do in a turn for messages to clients.
    work: usize,
    backlog: Backlog,
    /// Messages of the last turn caused events at once, for which others may wait, and no other
    /// daemon is there whose datagrams would end a sleep; or a bimodal group has room again.
    caused: bool,
    /// When to call [`tend`](Self::tend) next.
    tend_at: Time,
    phase: RunPhase,
}

/// Which events came at a place in a turn.
#[derive(Clone, Copy, Default, Debug)]
struct Came {
    any: bool,
    /// A bimodal group has room for messages again.
    room_of_bimodal: bool,
}

/// What woke the loop, beside sockets that are ready.
#[derive(Clone, Copy, Default, Debug)]
struct Woken {
    /// Requests to stop that came.
    stop_requests: usize,
    /// Signals may have asked for something.
    by_signals: bool,
    /// Metrics are asked for.
    for_metrics: bool,
}

/// Reads the configuration again, on SIGHUP.
type Reread = Box<dyn FnMut() -> Result<Config, DaemonConfigError>>;

impl Daemon {
    /// Opens everything that `config` names: network, sockets, history. Nothing is sent before
    /// [`run`](Self::run).
    ///
    /// # Errors
    /// Whatever cannot be opened, or a setting that only the protocol refuses. What was opened
    /// before is closed again.
    pub fn start(config: Config) -> Result<Self, DaemonError> {
        // The threads of these two are begun before this one asks for a priority, which they would
        // inherit.
        let spill = config.spill_dir.as_deref().map(SpillDisk::open);
        let mut spill = spill.transpose()?;
        let mut metrics = config.metrics.map(Metrics::open).transpose()?;
        ask_host(&config.process)?;
        let local = new_member(&config.name)?;
        let rng = Rng::new(random_u64()?);
        let keys = Keys::load(&config)?;
        let mut endpoint = open_network(&config, local, &keys, &rng)?;
        let history = open_history(&config, local, &mut endpoint)?;
        let token = load_token(&config)?;
        let mut engine = open_engine(&config, local, token.clone())?;
        let clients = open_clients(&config, endpoint.registry(), token)?;
        if let Some(spill) = &mut spill {
            spill
                .register(endpoint.registry(), SPILL)
                .map_err(DaemonError::system("wait for the disk"))?;
        }
        if let Some(metrics) = &mut metrics {
            metrics
                .register(endpoint.registry(), METRICS)
                .map_err(DaemonError::system("wait for questions for metrics"))?;
        }
        let mut stop = StopRequests::new().map_err(DaemonError::system("make a pipe"))?;
        for stream in [&mut stop.stream, &mut stop.wake] {
            endpoint
                .registry()
                .register(stream, STOP, Interest::READABLE)
                .map_err(DaemonError::system("wait for signals"))?;
        }

        let rings = open_rings(&config)?;
        for (index, ring) in rings.iter().enumerate() {
            if let Some(ring) = ring {
                engine.begin_ring(endpoint.now(), index, ring.member());
            }
        }
        open_order(&config, local, &rng, &mut endpoint)?;
        open_bimodal(&config, local, &rng, &mut endpoint)?;
        let rekeying = Rekeying::new(&config, local)?;
        let configured = config.rings.iter();
        let configured = configured.map(|ring| (ring.top.to_string(), ring.multicast));
        let configured_rings = ConfiguredRings::new(configured);
        let narrator = Narrator::new(local, &config.name);
        let metrics_at = metrics.as_ref().map(Metrics::address);
        narrator.started(&config, &endpoint, &clients, metrics_at);
        narrator.doubts(&clients.doubts());
        // Takes down which interface that is.
        endpoint.watch_interface();
        Ok(Self {
            config,
            endpoint,
            engine,
            clients,
            spill,
            metrics,
            stop,
            history,
            narrator,
            rings,
            ring_changes: 0,
            keys,
            look_at: Time::ZERO,
            rekeying,
            answering: Answering::default(),
            listing: None,
            configured_rings,
            lines: LineLimits::default(),
            reread: None,
            log: None,
            ready: Vec::new(),
            work: WORK_PER_TURN,
            backlog: Backlog::default(),
            caused: false,
            tend_at: Time::ZERO,
            phase: RunPhase::Running,
        })
    }

    /// Asks the daemon to stop, from any thread.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.handle()
    }

    /// From now on SIGTERM and SIGINT ask this daemon to stop. A second one ends the process at
    /// once.
    ///
    /// # Errors
    /// If the system does not let the process catch them.
    pub fn catch_signals(&self) -> Result<(), DaemonError> {
        self.stop
            .catch_signals()
            .map_err(DaemonError::system("catch signals"))
    }

    /// On SIGHUP, `log` is opened again, and its filter follows the configuration.
    pub fn log_with(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// On SIGHUP, `read` reads the configuration again. Changed limits and rights of clients, and
    /// the filter of the log, take effect at once, other changes at the next start; the log names
    /// both.
    pub fn reread_with(
        &mut self,
        read: impl FnMut() -> Result<Config, DaemonConfigError> + 'static,
    ) {
        self.reread = Some(Box::new(read));
    }

    /// This daemon, as a member of its own order.
    pub fn local(&self) -> MemberId {
        self.endpoint.node().local()
    }

    /// Serves until it is asked to stop, then leaves its group.
    ///
    /// # Errors
    /// [`DaemonError::NameInUse`] if another daemon of the cluster has this one's name; or an error
    /// of the system after which the daemon cannot go on. Clients are told the reason; sockets and
    /// files are removed.
    pub fn run(mut self) -> Result<(), DaemonError> {
        let result = loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        match &result {
            Ok(()) => self.say_last(STOPPING),
            Err(error) => self.say_last(&error.to_string()),
        }
        if let Some(history) = &self.history {
            history.finish();
        }
        for ring in self.rings.iter_mut().flatten() {
            ring.close();
        }
        result
    }

    /// One turn of the loop; returns whether there is another.
    pub(crate) fn turn(&mut self) -> Result<bool, DaemonError> {
        let patience = self.patience();
        // A ring's token is as urgent as the daemon's own.
        let is_in_ring = self.rings.iter().flatten().any(|ring| !ring.is_out());
        self.endpoint.set_may_doze(!is_in_ring);
        self.endpoint
            .await_work(patience, &mut self.ready)
            .map_err(DaemonError::system("wait for the network"))?;

        let now = self.endpoint.now();
        let woken = self.take_ready(now);
        if woken.by_signals {
            self.do_as_signals_ask();
        }
        // Messages that clients have sent go with the token that has come, if one has.
        self.clients.take_first_input(now, &mut self.engine);
        self.submit(now);
        self.read_network(now)?;
        self.turn_rings()?;

        let now = self.endpoint.now();
        self.clients.take_input(now, &mut self.engine);
        self.engine.handle_timeout(now);
        self.tend(now);
        self.narrator.others(now, self.endpoint.node());
        self.endpoint.watch_interface();
        self.narrator.network(&self.endpoint);
        self.narrator.copies(&self.endpoint);
        self.narrator.hearing(now, self.endpoint.node());
        self.narrator.rounds(now, self.endpoint.node());
        for ring in self.rings.iter_mut().flatten() {
            if let Some(slow) = ring.slow_rounds(now) {
                self.narrator.ring_rounds(&ring.config.top, &slow);
            }
        }
        self.submit(now);
        self.rekey(now);
        self.tell_rings(now);
        // Datagrams to other hosts go before output to clients: to wake one client takes as long as
        // a message to all hosts.
        self.endpoint.flush(now);
        self.rings.iter_mut().flatten().for_each(Ring::flush);
        // A message may have caused events at once, for instance that the order has room again.
        let came = self.take_events()?;
        self.caused = came.room_of_bimodal || came.any && self.is_alone();
        self.answer_questions(now);
        if woken.for_metrics
            && let Some(mut metrics) = self.metrics.take()
        {
            metrics.answer(|| self.status());
            self.metrics = Some(metrics);
        }
        if let Some(spill) = &mut self.spill {
            spill.tend(now, &mut self.engine);
        }
        self.clients.give_output(now, &mut self.engine);
        self.clients.tend_traces(now);
        self.record(now);
        if let Some(error) = self.clients.take_trouble()
            && self.lines.clients.admit(now)
        {
            tracing::warn!("cannot accept a client, and try again later: {error}");
        }
        for left_out in self.lines.take_left_out(now) {
            tracing::warn!("{left_out}");
        }
        if let Some(history) = &self.history {
            history.tend(now);
        }
        Ok(self.advance(now, woken.stop_requests))
    }

    /// Tells rings and clients which of their sockets are ready; returns what else woke the loop.
    fn take_ready(&mut self, now: Time) -> Woken {
        let mut woken = Woken::default();
        for (token, readiness) in self.ready.drain(..) {
            match token {
                STOP => {
                    woken.stop_requests += self.stop.take();
                    woken.by_signals = true;
                }
                METRICS => woken.for_metrics = true,
                // Each turn looks at the disk.
                SPILL => {}
                token => {
                    let mut rings = self.rings.iter_mut().flatten();
                    match rings.find(|ring| ring.token() == token) {
                        Some(ring) => ring.wake(),
                        None => self.clients.handle_ready(now, token, readiness),
                    }
                }
            }
        }
        woken
    }

    /// How long the loop may sleep.
    fn patience(&mut self) -> Option<Duration> {
        let now = self.endpoint.now();
        let until = |at: Time| at - now;
        let tended = |groups: &&Bimodal| groups.len() > 0 || groups.hears_others();
        let tending = instance::bimodal(self.endpoint.node())
            .filter(tended)
            .map(|_| until(self.tend_at));
        [
            self.phase.end().map(until),
            tending,
            self.engine.poll_timeout().map(until),
            self.history.as_ref().and_then(|history| history.tend(now)),
            self.clients.patience(now, &mut self.engine),
            self.rekeying.patience(now),
            self.spill
                .as_ref()
                .filter(|spill| spill.is_due(&self.engine))
                .map(|_| Duration::ZERO),
            self.caused.then_some(Duration::ZERO),
            (self.listing.is_some() || self.engine.has_questions())
                .then(|| until(self.answering.due())),
        ]
        .into_iter()
        .chain(self.rings.iter().flatten().map(|ring| ring.patience(now)))
        .chain([self.ring_patience(now)])
        .flatten()
        .min()
    }

    /// Whether no other daemon is in the configuration.
    fn is_alone(&self) -> bool {
        let order = instance::order(self.endpoint.node());
        order.is_some_and(|order| order.member.status().members.len() == 1)
    }

    /// Reads the network, that of the rings too, and begins the engine's turn. A token that has
    /// come goes on before that; where too much waits, the network is read as soon as it does not.
    fn read_network(&mut self, now: Time) -> Result<(), DaemonError> {
        let reads_first = self.backlog.may_read();
        if reads_first {
            self.read()?;
        }
        for ring in self.rings.iter_mut().flatten() {
            ring.read()
                .map_err(DaemonError::system("read the network of a ring"))?;
        }
        self.engine.begin_turn(now, self.work);
        // Views come before the events behind them.
        self.record(now);
        self.take_events()?;
        if !reads_first && self.backlog.may_read() {
            self.read()?;
            self.take_events()?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), DaemonError> {
        let before = self.endpoint.bytes_read();
        self.endpoint
            .work()
            .map_err(DaemonError::system("read the network"))?;
        self.backlog.read(self.endpoint.bytes_read() - before);
        Ok(())
    }

    /// Hands the events of the order and of the bimodal groups to the engine, in the order in which
    /// they came and while it has time, and writes the history around them. Returns what came.
    fn take_events(&mut self) -> Result<Came, DaemonError> {
        let now = self.endpoint.now();
        let mut came = Came::default();
        while self.engine.has_time_for(Carrier::Order)
            && let Some((_, next)) = self.endpoint.node_mut().poll_event()
        {
            let CarrierEvent { carrier, event } = next;
            self.backlog.take(self.endpoint.node().local(), &event);
            came.any = true;
            let of_bimodal = matches!(carrier, Carrier::Bimodal(_));
            came.room_of_bimodal |= of_bimodal && matches!(event, Event::Writable);
            match carrier {
                Carrier::Order => {
                    if let Some(history) = &self.history {
                        history.observe_long(&event);
                    }
                    self.note_order_event(now, &event)?;
                    self.rekeying.handle_event(&event);
                    self.note_rings_of_others(&event);
                }
                Carrier::Bimodal(index) => self.observe_group_event(index, &event),
                // Further rings have nodes of their own.
                Carrier::Ring(_) => {}
            }
            self.engine.handle_event(now, carrier, event);
            self.record(now);
        }
        self.backlog.taken(self.engine.has_time_for(Carrier::Order));
        let protocol = self.config.order.family.name();
        while let Some((_, transition)) = self.endpoint.node_mut().poll_transition() {
            self.narrator.transition(protocol, transition);
        }
        Ok(came)
    }

    /// Carries out the effects of an event of the order on the daemon itself.
    fn note_order_event(&mut self, now: Time, event: &Event) -> Result<(), DaemonError> {
        match event {
            Event::NameInUse { holder } => return Err(self.name_in_use(*holder)),
            Event::NameContested { other } => {
                self.narrator
                    .contested(&self.config.name, &self.whereabouts(*other));
            }
            Event::Configuration(configuration) => {
                self.narrator.configuration(configuration);
                if let Some(order) = instance::order(self.endpoint.node()) {
                    self.narrator.installed(configuration.kind, order);
                }
            }
            Event::Left => self.phase = RunPhase::Left(now + FAREWELL),
            _ => {}
        }
        Ok(())
    }

    /// Every [`TEND_INTERVAL`] tells the engine which daemons the bimodal groups have heard, and
    /// which groups are bimodal at other daemons alone.
    fn tend(&mut self, now: Time) {
        if now < self.tend_at {
            return;
        }
        self.tend_at = now + TEND_INTERVAL;
        if let Some(groups) = instance::bimodal(self.endpoint.node()) {
            for index in 0..groups.len() {
                self.engine.tend_bimodal(now, index, groups.daemons(index));
            }
            self.engine.bimodal_elsewhere(groups.elsewhere(now));
        }
    }

    /// Writes the engine's observations into the history, at this place, and its facts into the
    /// log.
    fn record(&mut self, now: Time) {
        while let Some((carrier, observation)) = self.engine.poll_observation() {
            self.observe(carrier, &observation);
        }
        while let Some(fact) = self.engine.poll_fact() {
            if !self.lines.admit(now, &fact) {
                continue;
            }
            let leaving = self.phase != RunPhase::Running;
            self.narrator.fact(&fact, &self.engine, leaving);
        }
    }

    /// Hands the engine's messages to their carriers.
    fn submit(&mut self, now: Time) {
        let (node, history) = (self.endpoint.node_mut(), self.history.as_ref());
        let rings = &mut self.rings;
        self.engine
            .pump(now, |carrier, service, payload| match carrier {
                Carrier::Ring(index) => match rings.get_mut(index) {
                    Some(Some(ring)) => ring.submit(service, payload),
                    // The message waits until the ring is open.
                    _ => Err(SubmitError::Full { queued: 0 }),
                },
                Carrier::Order | Carrier::Bimodal(_) => {
                    submit(node, history, now, carrier, service, payload)
                }
            });
    }

    /// Compares the rings of other daemons' configurations with those of this one.
    fn note_rings_of_others(&mut self, event: &Event) {
        match event {
            Event::Configuration(it) if it.kind == ConfigurationKind::Regular => {
                self.configured_rings.handle_regular();
            }
            Event::Deliver(delivery) if delivery.place.is_some() => {
                let said = self.configured_rings.handle_statement(&delivery.payload);
                // A malformed statement is ignored.
                for difference in said.unwrap_or_default() {
                    self.narrator
                        .ring_elsewhere(delivery.id.sender, &difference, &self.engine);
                }
            }
            _ => {}
        }
    }

    /// Tells the other daemons which rings this daemon's configuration has, if that is due.
    fn tell_rings(&mut self, now: Time) {
        let Some(statement) = self.configured_rings.next_statement() else {
            return;
        };
        let (node, history) = (self.endpoint.node_mut(), self.history.as_ref());
        let payload = Bytes::from(statement);
        let submitted = submit(node, history, now, Carrier::Order, Service::Agreed, payload);
        if !matches!(submitted, Err(SubmitError::Full { .. })) {
            self.configured_rings.said();
        }
    }

    /// Goes on with a change of the key, if one is under way.
    fn rekey(&mut self, now: Time) {
        let mut seals = Seals {
            keys: &mut self.keys,
            node: self.endpoint.node_mut(),
            rings: &mut self.rings,
        };
        self.rekeying.carry_out(now, &mut seals);
        while let Some(statement) = self.rekeying.next_statement() {
            let (node, history) = (self.endpoint.node_mut(), self.history.as_ref());
            let payload = Bytes::from(statement.encode());
            let submitted = submit(node, history, now, Carrier::Order, Service::Agreed, payload);
            // A full order has room again soon; an order that the daemon is leaving takes nothing
            // any more.
            if matches!(submitted, Err(SubmitError::Full { .. })) {
                break;
            }
            self.rekeying.said();
        }
    }

    fn do_as_signals_ask(&mut self) {
        let asked = self.stop.take_asked();
        if asked.to_read {
            self.read_again();
        }
        if asked.to_report {
            let status = self.status();
            tracing::info!("status: {status}");
        }
    }

    fn answer_questions(&mut self, now: Time) {
        // An answer takes time proportional to clients and groups, so further questions wait for a
        // later turn.
        if self.answering.due() > now {
            return;
        }
        let begun = self.endpoint.now();
        while self.answering.goes_on(begun, self.endpoint.now()) {
            if let Some(listing) = self.listing.take() {
                self.go_on_with_list(now, listing);
                continue;
            }
            let Some((client, question)) = self.engine.poll_question() else {
                break;
            };
            let answer = match &question {
                Question::Status => self.status().to_string().into(),
                Question::Groups => {
                    self.listing = Some(Listing::begin(client));
                    continue;
                }
                Question::Rekey(path) => {
                    let mut seals = Seals {
                        keys: &mut self.keys,
                        node: self.endpoint.node_mut(),
                        rings: &mut self.rings,
                    };
                    let admit = || self.lines.clients.admit(now);
                    let answer = self
                        .rekeying
                        .begin(&mut seals, path, client, &self.engine, admit);
                    Bytes::from(answer.to_string())
                }
            };
            self.engine.answer(now, client, question, answer);
        }
        self.answering.rest(begun, self.endpoint.now());
    }

    /// Writes some more of the list of groups, and hands it over when it is whole, if its client is
    /// still there.
    fn go_on_with_list(&mut self, now: Time, mut listing: Listing) {
        if !self.engine.is_connected(listing.client) {
            return;
        }
        if listing.go_on(&self.engine) {
            let (client, answer) = listing.finish();
            self.engine.answer(now, client, Question::Groups, answer);
        } else {
            self.listing = Some(listing);
        }
    }

    fn status(&mut self) -> Value {
        let mut said = status::status(&self.config, &mut self.endpoint, &self.engine);
        let now = self.endpoint.now();
        self.narrator
            .say_hearing(now, self.endpoint.node(), &mut said);
        said["trouble"] = self.endpoint.trouble().into();
        said["rings"] = status::rings(&self.rings, &self.engine, self.narrator.names());
        said["key"] = self.rekeying.status(&self.engine);
        said["history"] = self.history.as_ref().map(History::status).into();
        said["counters"]["clients"] = status::client_calls(self.clients.calls());
        said
    }

    fn name_in_use(&self, holder: MemberId) -> DaemonError {
        DaemonError::NameInUse {
            name: self.config.name.clone(),
            holder: self.whereabouts(holder),
        }
    }

    /// Where a member is, for people.
    fn whereabouts(&self, member: MemberId) -> String {
        let mut peers = self.endpoint.node().peers();
        match peers.find(|(peer, _)| *peer == member) {
            Some((_, address)) => format!("at {address}"),
            None => format!("member {member}"),
        }
    }
}

#[cfg(test)]
mod tests;
