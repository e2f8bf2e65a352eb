//! The texts of a daemon's log: the members of its configurations, the states of its order, errors
//! of its clients.
//!
//! What it says of members that are left out is [`hearing`](crate::hearing), which names it has
//! [`names`](crate::names).

use std::net::SocketAddr;
use std::time::Duration;

use groupcast_core::status::GroupStatus;
use groupcast_core::trace::Transition;
use groupcast_core::{Configuration, ConfigurationKind, Event, MemberId, Node, Ordered as _, Time};
use groupcast_net::{Endpoint, Group};
use groupcast_session::Engine;
use groupcast_session::frame::Disconnect;
use groupcast_session::groups::Fact;
use groupcast_session::names::RingDifference;
use groupcast_tls::{Doubt, DoubtKind, TlsError};
use serde_json::Value;

use crate::clients::Clients;
use crate::config::{BusAddress, Changes, Config, DaemonConfigError};
use crate::error::DaemonError;
use crate::hearing::{self, HearingLog, Line};
use crate::instance::{self, Instance, Order};
use crate::names::Names;
use crate::partings::{Parted, Partings};
use crate::rings::{Ring, RingNews};
use crate::rounds::{Rounds, Slow};
use crate::warnings;

/// How long after the first daemon with another order was heard the log tells of such daemons.
const OTHERS_FIRST: Duration = Duration::from_secs(1);
/// How long after that it tells of them again.
const OTHERS_INTERVAL: Duration = Duration::from_secs(60);
/// The help about daemons with another order.
pub(crate) const OTHERS_HINT: &str = "set the same `protocol` at all daemons of a cluster; let another cluster have \
                                      another multicast address";

/// The address of `member`, or the member if `node` does not know it.
pub(crate) fn place(node: &Node<Instance>, member: MemberId) -> String {
    let mut peers = node.peers();
    match peers.find(|(peer, _)| *peer == member) {
        Some((_, address)) => address.to_string(),
        None => member.to_string(),
    }
}

/// Writes the log.
pub(crate) struct Narrator {
    names: Names,
    hearing: HearingLog,
    /// Members of the last regular configuration, and those that are missed.
    partings: Partings,
    rounds: Rounds,
    /// The member that keeps the datagrams of the new configuration small, and their size. The log
    /// tells of it when the names of the members are known.
    narrowest: Option<(MemberId, usize)>,
    /// When the log next tells of daemons with another order, while there are some.
    others_at: Option<Time>,
    /// The daemons without multicast that the log has told of, if this daemon has multicast.
    copies: Vec<SocketAddr>,
    /// Whether the log has told that the daemon's network is not there.
    is_in_trouble: bool,
}

impl Narrator {
    pub(crate) fn new(local: MemberId, name: &str) -> Self {
        Self {
            names: Names::new(local, name),
            hearing: HearingLog::default(),
            partings: Partings::default(),
            rounds: Rounds::default(),
            narrowest: None,
            others_at: None,
            copies: Vec::new(),
            is_in_trouble: false,
        }
    }

    /// The daemon is set up.
    pub(crate) fn started(
        &self,
        config: &Config,
        endpoint: &Endpoint<Instance>,
        clients: &Clients,
        metrics_at: Option<SocketAddr>,
    ) {
        let reach = match &config.endpoint.group {
            Group::Multicast(group) => format!("multicast to {group}"),
            Group::Mesh(peers) if peers.len() == 1 => "no multicast, unicast to 1 peer".to_owned(),
            Group::Mesh(peers) => format!("no multicast, unicast to {} peers", peers.len()),
        };
        tracing::info!(
            "groupcast {} is `{}` ({}), listening on {}, {reach}; {} orders messages; clients at {}",
            env!("CARGO_PKG_VERSION"),
            config.name,
            endpoint.node().local(),
            config.endpoint.listen,
            config.order.family.name(),
            config.socket.display(),
        );
        for table in &config.unused_tables {
            tracing::warn!("{}", config.unused(table));
        }
        if let Some(address) = clients.tcp_address() {
            clients_over_tcp(address, config);
        }
        for address in clients.bus_addresses() {
            bus_over_tcp(address, config);
        }
        for path in config.bus.iter().filter_map(BusAddress::path) {
            tracing::info!("clients of the bus at {}", path.display());
        }
        if let Some(address) = metrics_at {
            tracing::info!("metrics at http://{address}/metrics");
            if let Some(warning) = warnings::metrics(address) {
                tracing::warn!("{warning}");
            }
        }
        if !config.engine.bimodal_groups.is_empty() {
            let groups = config.engine.bimodal_groups.join(", ");
            tracing::info!("bimodal groups: {groups}");
        }
        for ring in &config.rings {
            tracing::info!(
                "ring {}: orders the groups at and below its name, at {}",
                ring.top,
                ring.multicast
            );
        }
        let of_network = [warnings::security(config), warnings::interface(config)];
        for warning in of_network.into_iter().flatten() {
            tracing::warn!("{warning}");
        }
        if config.process.real_time_priority > 0 {
            tracing::info!("real-time priority {}", config.process.real_time_priority);
        }
        if let Some(warning) = endpoint.receive_buffer().warning() {
            tracing::warn!("{warning}");
        }
    }

    /// The reasons for which clients will refuse the daemon's certificate.
    pub(crate) fn doubts(&self, doubts: &[Doubt]) {
        for doubt in doubts {
            match &doubt.kind {
                // This may be intended: clients then name the daemon by one of the names.
                DoubtKind::NotForAddress { names, .. } if !names.is_empty() => {
                    tracing::info!("{doubt}");
                }
                _ => tracing::warn!("{doubt}"),
            }
        }
    }

    /// SIGHUP came, and the certificate was read again, or could not be.
    pub(crate) fn certificate_read(&self, read: Result<(), &TlsError>) {
        match read {
            Ok(()) => tracing::info!(
                "SIGHUP: the certificate and its key were read again: clients that connect from now on are shown them"
            ),
            Err(error) => {
                tracing::error!("SIGHUP: {error}; clients are shown the certificate from before");
            }
        }
    }

    /// SIGHUP came, and the configuration was read again: tells which changes hold from now on, and
    /// which at the next start.
    pub(crate) fn reread(&self, changes: &Changes) {
        let Changes { live, later } = changes;
        if live.is_empty() && later.is_empty() {
            tracing::info!("SIGHUP: the configuration is as it was");
        }
        if !live.is_empty() {
            tracing::info!("SIGHUP: these hold from now on: {}", live.join(", "));
        }
        if !later.is_empty() {
            tracing::warn!(
                "SIGHUP: these take effect when the daemon starts again: {}",
                later.join(", ")
            );
        }
    }

    /// SIGHUP came, and there is nothing to read.
    pub(crate) fn nothing_to_read(&self) {
        tracing::info!("SIGHUP: there is no configuration to read again");
    }

    /// SIGHUP came, and the configuration is wrong.
    pub(crate) fn reread_failed(&self, error: &DaemonConfigError) {
        let place = error.place().map(|place| format!("{place}: "));
        let place = place.unwrap_or_default();
        tracing::error!("SIGHUP: {place}{error}; the daemon goes on as it is");
    }

    /// A configuration was installed.
    pub(crate) fn configuration(&mut self, configuration: &Configuration) {
        let members = self.list(&configuration.members);
        match configuration.kind {
            ConfigurationKind::Transitional => tracing::info!(
                "transitional configuration of {}: {members} go on together",
                configuration.id
            ),
            ConfigurationKind::Regular => {
                let count = configuration.members.len();
                let noun = if count == 1 { "member" } else { "members" };
                tracing::info!(
                    "configuration {} of {count} {noun}: {members}",
                    configuration.id
                );
                let parted = self.partings.note(configuration);
                self.parted(&parted);
            }
        }
    }

    /// Tells whom the new configuration is without, and who is back.
    fn parted(&self, parted: &Parted) {
        let back = [(&parted.back, ""), (&parted.back_restarted, ", restarted")];
        for (members, how) in back.into_iter().filter(|(members, _)| !members.is_empty()) {
            tracing::info!("back{how}: {}", self.list(members));
        }
        for (members, what) in [(&parted.left, "left"), (&parted.restarted, "restarted")] {
            if !members.is_empty() {
                tracing::info!("{what}: {}", self.list(members));
            }
        }
        let lost = [
            (&parted.crashed, "crashed and restarted"),
            (&parted.lost, "crashed or cut off"),
        ];
        for (members, what) in lost.into_iter().filter(|(members, _)| !members.is_empty()) {
            tracing::warn!("{what}: {}", self.list(members));
        }
    }

    /// A configuration was installed: notes the member that keeps its datagrams small.
    pub(crate) fn installed(&mut self, kind: ConfigurationKind, order: &Order) {
        if kind == ConfigurationKind::Regular {
            let status = order.member.status();
            self.narrowest = status.narrowest.map(|member| (member, status.body_max));
        }
    }

    /// Warns about once a minute of time-outs that are too short for the rounds of the token.
    pub(crate) fn rounds(&mut self, now: Time, node: &Node<Instance>) {
        if let Some(order) = instance::order(node) {
            let status = || order.member.status();
            self.slow_rounds(now, order.family.name(), status);
        }
    }

    fn slow_rounds(&mut self, now: Time, protocol: &str, status: impl FnOnce() -> GroupStatus) {
        if let Some(slow) = self.rounds.look(now, status) {
            tracing::warn!("{slow}: {protocol}.preset = \"wan\" has longer time-outs");
        }
    }

    /// The same for a further ring.
    pub(crate) fn ring_rounds(&self, top: &str, slow: &Slow) {
        tracing::warn!(
            "ring {top}: {slow}: preset = \"wan\" in its table of [[rings]], or in [ring_pool], has longer time-outs"
        );
    }

    /// Another daemon has this one's `name`, and neither gives way.
    pub(crate) fn contested(&self, name: &str, whereabouts: &str) {
        tracing::error!(
            "another daemon, {whereabouts}, is called `{name}` too, and both have run for long: the groups of the two \
             stay apart until one of them is stopped"
        );
    }

    /// Tells what keeps the daemon from its network, and when it is there again.
    pub(crate) fn network(&mut self, endpoint: &Endpoint<Instance>) {
        let trouble = endpoint.trouble();
        match (trouble, self.is_in_trouble) {
            (Some(trouble), false) => tracing::warn!("{trouble}"),
            (None, true) => {
                tracing::info!(
                    "the network is there again, at {}",
                    endpoint.config().listen
                );
            }
            _ => {}
        }
        self.is_in_trouble = trouble.is_some();
    }

    /// Tells which daemons without multicast get copies, when that has changed. Tells nothing if
    /// this daemon has no multicast itself, since then all get copies.
    pub(crate) fn copies(&mut self, endpoint: &Endpoint<Instance>) {
        let copies = endpoint.node().copies().iter().map(|copy| copy.address);
        let has_multicast = matches!(endpoint.config().group, Group::Multicast(_));
        if !has_multicast || copies.clone().eq(self.copies.iter().copied()) {
            return;
        }
        self.copies = copies.collect();
        match &self.copies[..] {
            [] => tracing::info!("no daemon without multicast is heard any more: no copies"),
            some => {
                let some: Vec<String> = some.iter().map(SocketAddr::to_string).collect();
                tracing::info!(
                    "without multicast: {}; each gets a unicast copy of every multicast",
                    some.join(", ")
                );
            }
        }
    }

    /// Tells once a minute of daemons with another order; the first time a second after one was
    /// heard, so that others are heard, too.
    pub(crate) fn others(&mut self, now: Time, node: &Node<Instance>) {
        let mut said = instance::others(node).filter_map(|others| {
            let heard: Vec<String> = others
                .heard(now)
                .map(|(member, _)| place(node, member))
                .collect();
            let protocol = others.protocol();
            (!heard.is_empty()).then(|| format!("{} speak {protocol}", heard.join(", ")))
        });
        match self.others_at {
            Some(at) if now < at => return,
            None => {
                self.others_at = said.next().map(|_| now + OTHERS_FIRST);
                return;
            }
            Some(_) => {}
        }
        let said: Vec<String> = said.collect();
        if said.is_empty() {
            self.others_at = None;
            return;
        }
        self.others_at = Some(now + OTHERS_INTERVAL);
        let own = instance::order(node).map_or("", |order| order.family.name());
        tracing::warn!(
            "two groups on one address, neither of which hears the other: {}, this daemon speaks {own}; {OTHERS_HINT}",
            said.join(", ")
        );
    }

    /// The daemon joined a ring, or could not.
    pub(crate) fn ring_joined(&self, ring: &Ring, joined: &Result<bool, DaemonError>) {
        let (top, multicast) = (&ring.config.top, ring.config.multicast);
        match joined {
            Ok(true) => tracing::info!("ring {top}: joins as {}, at {multicast}", ring.member()),
            Ok(false) => {}
            Err(error) => {
                let clients = match error.may_pass() {
                    true => "wait, and it is tried again soon",
                    false => "are told so",
                };
                tracing::error!("ring {top}: cannot be joined, its clients {clients}: {error}");
            }
        }
    }

    /// Logs an event of a ring that is for its clients.
    pub(crate) fn ring_event(&self, top: &str, event: &Event) {
        match event {
            Event::Configuration(configuration) => {
                let kind = match configuration.kind {
                    ConfigurationKind::Regular => "configuration",
                    ConfigurationKind::Transitional => "transitional configuration of",
                };
                let members = self.list(&configuration.members);
                tracing::info!("ring {top}: {kind} {}: {members}", configuration.id);
            }
            Event::NameContested { other } => tracing::error!(
                "ring {top}: another daemon, {other}, has this one's name, and both have run for long: their groups of \
                 the ring stay apart until one of them is stopped"
            ),
            _ => {}
        }
    }

    /// Logs an event of a ring that is for the daemon itself.
    pub(crate) fn ring_news(&self, top: &str, news: &RingNews) {
        match news {
            RingNews::Transition(transition) => {
                tracing::info!("ring {top}: {}", self.change(*transition));
            }
            RingNews::Left => tracing::info!("ring {top}: left"),
            RingNews::NameInUse(holder) => tracing::error!(
                "ring {top}: another daemon, {holder}, has this one's name: give each its own; it is tried again soon"
            ),
        }
    }

    /// Another daemon's configuration has a ring that this one lacks, or has at another address.
    pub(crate) fn ring_elsewhere(
        &self,
        daemon: MemberId,
        difference: &RingDifference,
        engine: &Engine,
    ) {
        let RingDifference { top, theirs, ours } = difference;
        let daemons = engine.daemons();
        let known = daemons.iter().find(|(member, _)| *member == daemon);
        let name = known.map_or_else(|| daemon.to_string(), |(_, name)| name.to_string());
        let here = match ours {
            Some(ours) => format!("this one has it at {ours}"),
            None => "this one has none".to_owned(),
        };
        tracing::warn!(
            "the daemon {name} has the ring {top} at {theirs} by its configuration, and {here}: the groups at and below \
             {top} are other groups there and here; give both the same [[rings]]"
        );
    }

    /// The state of `protocol` changed.
    pub(crate) fn transition(&self, protocol: &str, transition: Transition) {
        tracing::info!("{protocol}: {}", self.change(transition));
    }

    fn change(&self, transition: Transition) -> String {
        let Transition {
            from,
            to,
            cause,
            about,
        } = transition;
        match about {
            Some(member) => format!("{from} to {to} ({cause}: {})", self.names.of(member)),
            None => format!("{from} to {to} ({cause})"),
        }
    }

    /// Tells who is left out although it lives, and from whom nothing comes, when that changes.
    pub(crate) fn hearing(&mut self, now: Time, node: &Node<Instance>) {
        if !self.hearing.is_due(now) {
            return;
        }
        let Some(order) = instance::order(node) else {
            return;
        };
        let hearing = hearing::of(&*order.member, now);
        let (members, names) = (self.partings.members(), &self.names);
        for line in self.hearing.lines(now, &hearing, members, names) {
            match line {
                Line::Warn(text) => tracing::warn!("{text}"),
                Line::Info(text) => tracing::info!("{text}"),
            }
        }
    }

    /// The names of daemons, which members of further rings have, too.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Adds to the status who is left out, from whom nothing comes, and for whom there is no room.
    pub(crate) fn say_hearing(&self, now: Time, node: &Node<Instance>, said: &mut Value) {
        let order = instance::order(node);
        let hearing = order.map(|order| hearing::of(&*order.member, now));
        let hearing = hearing.unwrap_or_default();
        said["left_out"] = hearing::left_out(now, &hearing, &self.names);
        said["unheard"] = hearing::unheard(&hearing, &self.names);
        said["no_room"] = hearing::no_room(&hearing, &self.names);
    }

    /// Logs a fact of the engine. If the daemon is `leaving`, the refusal of its state is no
    /// warning.
    pub(crate) fn fact(&mut self, fact: &Fact, engine: &Engine, leaving: bool) {
        match fact {
            Fact::StateRefused { .. } if leaving => tracing::debug!("{fact}"),
            Fact::InRing { fact: inner, .. } => match **inner {
                Fact::Installed { .. } | Fact::Interrupted { .. } => tracing::info!("{fact}"),
                Fact::HeldTooMuch { .. } | Fact::StateTooLarge { .. } => tracing::error!("{fact}"),
                _ => tracing::warn!("{fact}"),
            },
            Fact::Installed { .. } => {
                self.names.learn(engine.daemons());
                tracing::info!("{fact}: {}", self.list(self.partings.members()));
                if let Some((member, size)) = self.narrowest.take() {
                    let member = self.list(&[member]);
                    tracing::warn!(
                        "datagrams of this configuration carry {size} bytes: {member} takes no more"
                    );
                }
            }
            // These are no errors: publishers that are faster than subscribers, and the end of this
            // daemon.
            Fact::Interrupted { .. }
            | Fact::HeldBack { .. }
            | Fact::Disconnected {
                code: Disconnect::Stopping,
                ..
            } => tracing::info!("{fact}"),
            Fact::RingMade { .. } | Fact::RingEnded { .. } | Fact::Moved { .. } => {
                tracing::info!("{fact}");
            }
            Fact::RingRefused { .. } => tracing::debug!("{fact}"),
            Fact::Connected { .. } | Fact::Gone { .. } => tracing::debug!("{fact}"),
            Fact::HeldTooMuch { .. } | Fact::StateTooLarge { .. } => tracing::error!("{fact}"),
            _ => tracing::warn!("{fact}"),
        }
    }

    fn list(&self, members: &[MemberId]) -> String {
        self.names.list(members)
    }
}

/// Logs who can be a client of the bus at `address`.
fn bus_over_tcp(address: SocketAddr, config: &Config) {
    match warnings::bus(address, config) {
        Some(warning) => tracing::warn!("{warning}"),
        None => tracing::info!("clients of the bus over TCP at {address}, by TLS"),
    }
}

/// Logs who can be a client at `address`, and what it needs.
fn clients_over_tcp(address: SocketAddr, config: &Config) {
    if let Some(warning) = warnings::clients(address, config) {
        tracing::warn!("{warning}");
        return;
    }
    let proofs = [
        (
            warnings::asks_for_certificate(config),
            "a certificate of tls_client_ca",
        ),
        (config.client_token.is_some(), "the token of client_token"),
    ];
    let asked = proofs.iter().filter(|(asked, _)| *asked);
    let asked: Vec<_> = asked.map(|(_, proof)| *proof).collect();
    let (speech, asked) = (warnings::speech(config), asked.join(" and "));
    tracing::info!("clients over TCP at {address}, {speech}, with {asked}");
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    /// What was logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nothing fails here").write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `tell` logs.
    fn logged(tell: impl FnOnce()) -> Vec<String> {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, tell);
        let log = log.0.lock().expect("nothing fails here").clone();
        let log = String::from_utf8(log).expect("text");
        log.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn a_preset_that_does_not_fit_is_a_warning_while_the_configuration_stays() {
        let local = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        let mut narrator = Narrator::new(local, "here");
        let status = |rounds_slow| GroupStatus {
            round: Duration::from_millis(80),
            round_max: Duration::from_millis(210),
            rounds_slow,
            ..GroupStatus::default()
        };
        let lines = logged(|| {
            for second in 0..70 {
                let now = Time::from_millis(second * 1_000);
                narrator.slow_rounds(now, "rmp", || status(second * 10));
            }
        });
        assert_eq!(
            lines,
            [
                "WARN the token took so long 600 times that it may be taken for lost; the mean is 80ms: \
                 rmp.preset = \"wan\" has longer time-outs"
            ]
        );
    }
}
