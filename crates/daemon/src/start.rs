//! The parts that a daemon opens before it runs: network, history, engine, order, bimodal groups,
//! rings and listeners for clients; and the privileges that it asks its host for.

use groupcast_check::ndjson::OrderedBy;
use groupcast_core::family::OrderLimits;
use groupcast_core::node::AdmissionConfig;
use groupcast_core::{MemberId, Rng, Time};
use groupcast_net::{Endpoint, Key, process};
use groupcast_protocols::registry::ORDERED;
use groupcast_session::Engine;
use groupcast_session::frame::AccessToken;
use groupcast_tls::Server;
use mio::Registry;

use crate::bimodal::Bimodal;
use crate::clients::{Clients, raise_file_limit};
use crate::config::{BusAddress, Config, DaemonConfigError, Order, ProcessConfig, Security};
use crate::error::DaemonError;
use crate::history::History;
use crate::instance::{self, BIMODAL, Instance};
use crate::keys::Keys;
use crate::listen::{BusAcceptor, TcpAcceptor};
use crate::others::Others;
use crate::rings::Ring;
use crate::trace::Traces;

/// Puts the bimodal groups onto the endpoint's node. Without any this still hears those of other
/// daemons.
pub(crate) fn open_bimodal(
    config: &Config,
    local: MemberId,
    rng: &Rng,
    endpoint: &mut Endpoint<Instance>,
) -> Result<(), DaemonError> {
    let names = &config.engine.bimodal_groups;
    let now = endpoint.now();
    let groups = Bimodal::new(names, &config.bimodal, local, &rng.fork("bimodal"), now)
        .map_err(|error| DaemonConfigError::unchecked("bimodal", &error))?;
    endpoint
        .node_mut()
        .open(BIMODAL, Instance::Bimodal(Box::new(groups)));
    Ok(())
}

/// Locks memory and sets a real-time priority, if the configuration says so.
pub(crate) fn ask_host(config: &ProcessConfig) -> Result<(), DaemonError> {
    if config.lock_memory {
        process::lock_memory().map_err(|source| DaemonError::Process {
            what: "keep the daemon's memory from being swapped out",
            needs: "the capability CAP_IPC_LOCK or a larger limit RLIMIT_MEMLOCK",
            source,
        })?;
    }
    if config.real_time_priority > 0 {
        process::run_in_real_time(config.real_time_priority).map_err(|source| {
            DaemonError::Process {
                what: "run with real-time priority",
                needs: "the capability CAP_SYS_NICE or a larger limit RLIMIT_RTPRIO",
                source,
            }
        })?;
    }
    Ok(())
}

/// The endpoint and its node, without instances yet.
pub(crate) fn open_network(
    config: &Config,
    local: MemberId,
    keys: &Keys,
    rng: &Rng,
) -> Result<Endpoint<Instance>, DaemonError> {
    let sealing = keys.sealing().clone();
    let defaults = AdmissionConfig::default();
    let admission = AdmissionConfig {
        // A restarted daemon is a new peer, so there is room for two lives of each.
        peers_max: defaults
            .peers_max
            .max(config.order.config.limits().members_max * 2)
            .max(bimodal_peers(config)),
        ..defaults
    };
    let endpoint = Endpoint::builder(config.endpoint.clone(), local, sealing)
        .admission(admission)
        .rng(rng.clone())
        .open()?;
    Ok(endpoint)
}

/// The history, if there is one: the endpoint's node tells it what it sees.
pub(crate) fn open_history(
    config: &Config,
    local: MemberId,
    endpoint: &mut Endpoint<Instance>,
) -> Result<Option<History>, DaemonError> {
    let Some(path) = &config.history else {
        return Ok(None);
    };
    let order = OrderedBy {
        name: config.order.family.name(),
        contract: config.order.family.family.contract,
        ring: None,
    };
    let history = History::open(path, local, &config.name, order)?;
    endpoint.node_mut().observe_with(Box::new(history.clone()));
    Ok(Some(history))
}

/// The engine of the groups, without rings yet.
pub(crate) fn open_engine(
    config: &Config,
    local: MemberId,
    token: Option<AccessToken>,
) -> Result<Engine, DaemonConfigError> {
    let mut engine = Engine::new(config.engine.clone(), local, &config.name)
        .map_err(|error| DaemonConfigError::unchecked("clients", &error))?;
    if let Some(token) = token {
        engine.require_token(token);
    }
    engine.set_access(Time::ZERO, config.access.clone());
    engine.set_slow_rules(config.when_slow.clone());
    engine.set_spills(config.spill_dir.is_some());
    engine.set_observed(config.history.is_some());
    engine.set_own_user(rustix::process::geteuid().as_raw());
    Ok(engine)
}

/// The listeners for clients, and room for as many as the configuration admits.
pub(crate) fn open_clients(
    config: &Config,
    registry: &Registry,
    token: Option<AccessToken>,
) -> Result<Clients, DaemonError> {
    raise_file_limit(config.engine.clients_max)
        .map_err(DaemonError::system("raise the limit of open files"))?;
    let (tcp, bus) = open_tcp(config)?;
    let mut clients = Clients::open(registry, &config.socket, tcp)?;
    let traces = config.bus_trace.as_deref().map(Traces::open).transpose()?;
    clients.listen_for_bus(bus, token, traces)?;
    Ok(clients)
}

/// The TCP listener for clients, if there is one, and the listeners for clients of the bus.
fn open_tcp(config: &Config) -> Result<(Option<TcpAcceptor>, Vec<BusAcceptor>), DaemonError> {
    let tls = config.tls.as_ref().map(Server::load).transpose()?;
    let open = |address: &BusAddress| BusAcceptor::open(address, tls.as_ref());
    let bus = config.bus.iter().map(open).collect::<Result<_, _>>()?;
    let open = |address| TcpAcceptor::open(address, tls);
    Ok((config.client_listen.map(open).transpose()?, bus))
}

/// The token that clients over TCP must have, if they must have one.
pub(crate) fn load_token(config: &Config) -> Result<Option<AccessToken>, DaemonError> {
    let Some(path) = &config.client_token else {
        return Ok(None);
    };
    let token = Key::load_own(path).map_err(DaemonError::Token)?;
    let token = AccessToken::from_bytes(*token.as_bytes());
    if let Security::Key(key) = &config.security
        && AccessToken::from_bytes(*Key::load_own(key)?.as_bytes()) == token
    {
        let error = "holds the cluster's key, which clients are not to know: make another file";
        return Err(DaemonConfigError::unchecked("client_token", &error).into());
    }
    Ok(Some(token))
}

/// How many peers the bimodal groups need; 0 if there are none.
fn bimodal_peers(config: &Config) -> usize {
    match config.engine.bimodal_groups.is_empty() {
        true => 0,
        false => config.bimodal.view_max * 2,
    }
}

/// The further rings of the configuration. The daemon is in none of them yet.
pub(crate) fn open_rings(config: &Config) -> Result<Vec<Option<Ring>>, DaemonError> {
    let rings = config.rings.iter().enumerate();
    rings
        .map(|(index, ring)| Ring::new(config, ring.clone(), index).map(Some))
        .collect()
}

/// Puts the member of the order onto the endpoint's node, and listeners on the channels of other
/// protocols that could be the order.
pub(crate) fn open_order(
    config: &Config,
    local: MemberId,
    rng: &Rng,
    endpoint: &mut Endpoint<Instance>,
) -> Result<(), DaemonConfigError> {
    let Order { family, config } = fitted(config, endpoint);
    let members = config.members();
    let members = members.map_err(|error| DaemonConfigError::unchecked(family.name(), &error))?;
    let make = members.factory(1);
    let member = make(local, rng.fork(family.name()), endpoint.now());
    let order = instance::Order { family, member };
    let node = endpoint.node_mut();
    node.open(family.channel, Instance::Order(order));
    for other in ORDERED.iter().filter(|other| **other != family) {
        node.open(other.channel, Instance::Others(Others::new(other)));
    }
    Ok(())
}

/// The order's settings, with datagrams that the interface takes in one piece.
fn fitted(config: &Config, endpoint: &Endpoint<Instance>) -> Order {
    let mut order = config.order.clone();
    let limits = order.config.limits();
    let (key, body_max) = (order.key("body_max"), limits.body_max);
    match endpoint.body_max() {
        Some(fitting) if body_max > fitting && config.fit_body => {
            tracing::info!(
                "the interface takes {fitting} bytes in a datagram: {key} is that instead of {body_max}"
            );
            order.config.set_limits(OrderLimits {
                body_max: fitting,
                ..limits
            });
        }
        Some(fitting) if body_max > fitting => tracing::warn!(
            "{key} is {body_max}, but the interface takes {fitting} bytes in one piece: datagrams are sent in \
             fragments, and the loss of one loses all"
        ),
        _ => {}
    }
    order
}
