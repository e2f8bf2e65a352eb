//! Checks values against their ranges and against each other; errors name the place of the value
//! that cannot be.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use groupcast_core::settings::suggest::did_you_mean;
use groupcast_core::settings::{ConfigError, Settings as _};
use groupcast_net::{EndpointConfig, choose_interface};
use groupcast_protocols::gossip::GossipConfig;
use groupcast_protocols::registry;
use groupcast_session::groups::{EngineConfigError, Principal};
use groupcast_session::{EngineConfig, WhenSlow};
use groupcast_tls::ServerFiles;

use super::keys::engine_key;
use super::order::order_key;
use super::rings;
use super::{
    BusAddress, DaemonConfigError, File, LISTEN_PORT, Listen, MULTICAST, NAME_MAX, Options, Order,
    ProcessConfig, Ring, Security,
};
use crate::clients::BUS_MAX;
use crate::log::{FILTER_HELP, check_filter};

/// Checks values, and knows where each was written.
pub(super) struct Check<'a> {
    pub(super) file: Option<&'a File>,
    pub(super) command_line: &'a Options,
}

impl Check<'_> {
    pub(super) fn error(
        &self,
        key: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> DaemonConfigError {
        DaemonConfigError::Value {
            key: key.to_owned(),
            message: message.into(),
            help: help.into(),
            place: match self.command_line.sets(key) {
                true => None,
                false => self.file.and_then(|file| file.place(key)),
            },
        }
    }

    /// The same of the item `index` of the list `key`.
    fn item_error(
        &self,
        key: &str,
        index: usize,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> DaemonConfigError {
        let mut error = self.error(key, message, help);
        let item = self.file.and_then(|file| file.place_of_item(key, index));
        if let DaemonConfigError::Value { place, .. } = &mut error
            && place.is_some()
            && item.is_some()
        {
            *place = item;
        }
        error
    }

    /// The error of a setting, which is called `key` here.
    fn setting(&self, key: &str, error: &ConfigError) -> DaemonConfigError {
        let is_here = |key: &str| {
            let in_file = self.file.and_then(|file| file.place(key));
            self.command_line.sets(key) || in_file.is_some()
        };
        // The default of a setting that was not written may contradict one of its table that was:
        // the error is about the latter.
        let table = key.rsplit_once('.').map_or("", |(table, _)| table);
        let written = self.file.map(|file| file.options.settings.keys());
        let mut others = written.into_iter().flatten().filter(|other| {
            let name = other.rsplit_once('.');
            name.is_some_and(|(of, name)| of == table && names(&error.remedy, name))
        });
        match others.next() {
            Some(other) if !is_here(key) => {
                let message = format!("does not go with {key}: its default {}", error.problem());
                self.error(other, message, format!("set {key} too: {}", error.remedy))
            }
            _ => self.error(key, error.problem(), error.remedy.as_str()),
        }
    }

    /// Refuses options of one source that exclude each other; across sources the command line wins.
    pub(super) fn exclusive(
        &self,
        options: &Options,
        file: Option<&File>,
    ) -> Result<(), DaemonConfigError> {
        let conflict = |key: &str, other: &str, help: &str| DaemonConfigError::Value {
            key: key.to_owned(),
            message: format!("contradicts {other}"),
            help: help.to_owned(),
            place: file.and_then(|file| file.place(key)),
        };
        if options.key.is_some() && options.insecure == Some(true) {
            return Err(conflict(
                "insecure",
                "key",
                "keep the key to be protected, or leave it out to run without protection",
            ));
        }
        if options.peer.is_some() && options.multicast.is_some() {
            return Err(conflict(
                "multicast",
                "peer",
                "peers are for hosts without multicast: give one or the other; hosts with and without can be in one \
                 cluster",
            ));
        }
        Ok(())
    }

    pub(super) fn name(&self, name: Option<&str>) -> Result<String, DaemonConfigError> {
        let fallback;
        let name = match name {
            Some(name) => name,
            None => {
                let uname = rustix::system::uname();
                fallback = uname.nodename().to_string_lossy().into_owned();
                &fallback
            }
        };
        let legal = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(legal) {
            return Err(self.error(
                "name",
                format!("`{name}` cannot be a daemon's name"),
                format!("use 1 to {NAME_MAX} bytes of letters, digits, `-`, `_` and `.`"),
            ));
        }
        Ok(name.to_owned())
    }

    pub(super) fn log(&self, filter: Option<String>) -> Result<Option<String>, DaemonConfigError> {
        if let Some(filter) = &filter {
            check_filter(filter).map_err(|reason| {
                self.error(
                    "log",
                    format!("`{filter}` is not a filter: {reason}"),
                    FILTER_HELP,
                )
            })?;
        }
        Ok(filter)
    }

    /// Where the daemon listens, and what there is to warn of if nothing says by which interface.
    pub(super) fn listen(
        &self,
        listen: Option<Listen>,
    ) -> Result<(SocketAddrV4, Option<String>), DaemonConfigError> {
        let mut warning = None;
        let ip = match listen.map(|listen| listen.ip) {
            None => {
                let choice = choose_interface();
                warning = choice.warning;
                choice.address
            }
            Some(IpAddr::V4(ip)) if !ip.is_unspecified() && !ip.is_multicast() => ip,
            Some(ip) => {
                return Err(self.error(
                    "listen",
                    format!("`{ip}` is not the IPv4 address of one interface"),
                    "name the address of the interface that the other daemons are reached by",
                ));
            }
        };
        let port = listen.and_then(|listen| listen.port).unwrap_or(LISTEN_PORT);
        if matches!(port, 0 | u16::MAX) {
            return Err(self.error(
                "listen",
                format!("port {port} cannot be used"),
                "name a port from 1 to 65534: the other daemons must know it, and without multicast the next one is \
                 taken too",
            ));
        }
        Ok((SocketAddrV4::new(ip, port), warning))
    }

    pub(super) fn endpoint(
        &self,
        options: &Options,
        listen: SocketAddrV4,
    ) -> Result<EndpointConfig, DaemonConfigError> {
        let mut endpoint = match &options.peer {
            Some(peers) => self.mesh(listen, peers, options)?,
            None => self.multicast(listen, options)?,
        };
        options.lay_over(&mut endpoint, |field| format!("net.{field}"));
        Ok(endpoint)
    }

    fn multicast(
        &self,
        listen: SocketAddrV4,
        options: &Options,
    ) -> Result<EndpointConfig, DaemonConfigError> {
        let group = options.multicast.unwrap_or(MULTICAST);
        if !group.ip().is_multicast() || group.port() == 0 {
            return Err(self.error(
                "multicast",
                format!("`{group}` is not a multicast address with a port"),
                "use an address of 224.0.0.0/4, best of 239.192.0.0/14, for example 239.192.79.1:4809",
            ));
        }
        if options.ttl == Some(0) {
            return Err(self.error("ttl", "0 is out of range", "use 1 to 255"));
        }
        let mut endpoint = EndpointConfig::multicast(listen, group);
        endpoint.multicast_ttl = options.ttl.unwrap_or(1);
        endpoint.multicast_loop = Some(options.multicast_loop.unwrap_or(true));
        Ok(endpoint)
    }

    /// The protocol that orders messages, with its settings.
    pub(super) fn order(&self, options: &Options) -> Result<Order, DaemonConfigError> {
        let family = match &options.protocol {
            None => registry::ORDERED[0],
            Some(name) => registry::order(name).ok_or_else(|| self.unknown_protocol(name))?,
        };
        Order::build(family, |name| {
            options.settings.get(&order_key(family, name))
        })
        .map_err(|error| self.setting(&order_key(family, error.field), &error))
    }

    /// The rings beside the daemon's own order.
    pub(super) fn rings(&self, options: &Options) -> Result<Vec<Ring>, DaemonConfigError> {
        let written = options.rings.as_deref().unwrap_or_default();
        let wrong = |message: String, help: &str| self.error("rings", message, help);
        if !written.is_empty() && options.peer.is_some() {
            let message =
                "members of a ring find each other by multicast, and this daemon has none";
            return Err(wrong(message.into(), "leave the rings out, or the peers"));
        }
        let own = options.multicast.unwrap_or(MULTICAST);
        let mut rings = Vec::new();
        for (index, ring) in written.iter().enumerate() {
            let wrong =
                |message: String, help: &str| self.item_error("rings", index, message, help);
            if ring.multicast == own {
                let message = format!(
                    "the ring {:?} has the daemons' own address, {own}",
                    ring.top
                );
                let help = "give it another, so that who is not in it gets none of its datagrams";
                return Err(wrong(message, help));
            }
            let built = ring.build().map_err(|error| {
                let message = format!(
                    "{} of the ring {:?}: {}",
                    error.field,
                    ring.top,
                    error.problem()
                );
                wrong(message, error.remedy.as_str())
            })?;
            rings.push(built);
        }
        let config = EngineConfig {
            rings: rings.iter().map(|ring| ring.top.to_string()).collect(),
            bimodal_groups: options.bimodal_groups.clone().unwrap_or_default(),
            ..EngineConfig::default()
        };
        match config.check() {
            Err(
                ref error @ (EngineConfigError::RingTwice { ref top }
                | EngineConfigError::BimodalInRing { ref top, .. }),
            ) => {
                // Of two the second is one too many.
                let index = rings.iter().rposition(|ring| *ring.top == **top);
                let help = "name each top once, for groups that are not bimodal";
                let index = index.unwrap_or_default();
                Err(self.item_error("rings", index, error.to_string(), help))
            }
            Err(EngineConfigError::Setting(error)) if error.field == "rings" => {
                Err(self.setting("rings", &error))
            }
            // What else may be wrong is said where it was written.
            _ => Ok(rings),
        }
    }

    /// What orders the groups of rings that joins ask for.
    pub(super) fn made_rings(&self, options: &Options) -> Result<Order, DaemonConfigError> {
        let Some(pool) = &options.ring_pool else {
            let order = rings::order(&BTreeMap::new());
            return order.map_err(|error| self.setting("ring_pool", &error));
        };
        let wrong = |message: String, help: &str| self.error("ring_pool", message, help);
        if options.peer.is_some() {
            let message =
                "members of a ring find each other by multicast, and this daemon has none";
            return Err(wrong(message.into(), "leave the pool out, or the peers"));
        }
        let own = options.multicast.unwrap_or(MULTICAST);
        let rings = options.rings.iter().flatten().map(|ring| ring.multicast);
        if let Some(taken) = rings.chain([own]).find(|it| pool.addresses.holds(*it)) {
            let message = format!("{taken} is in the pool, and is the address of something else");
            let help = "give the pool a network, or a port, that nothing else has";
            return Err(wrong(message, help));
        }
        rings::order(&pool.settings).map_err(|error| {
            let message = format!("{}: {}", error.field, error.problem());
            wrong(message, error.remedy.as_str())
        })
    }

    fn unknown_protocol(&self, name: &str) -> DaemonConfigError {
        let known: Vec<&str> = registry::ORDERED.iter().map(|it| it.name()).collect();
        let message = format!("`{name}` does not order the messages of a daemon");
        self.error("protocol", message, did_you_mean(name, &known))
    }

    /// The tables of protocols that were not chosen.
    pub(super) fn unused_tables(&self, options: &Options, order: &Order) -> Vec<&'static str> {
        let others = registry::ORDERED.iter().filter(|it| **it != order.family);
        let is_there = |table: &&'static str| {
            let mut keys = options.settings.keys();
            keys.any(|key| key.split('.').next() == Some(table))
        };
        others.map(|it| it.name()).filter(is_there).collect()
    }

    fn mesh(
        &self,
        listen: SocketAddrV4,
        peers: &[SocketAddrV4],
        options: &Options,
    ) -> Result<EndpointConfig, DaemonConfigError> {
        for (key, set) in [
            ("ttl", options.ttl.is_some()),
            ("multicast_loop", options.multicast_loop.is_some()),
        ] {
            if set {
                return Err(self.error(
                    key,
                    "means nothing without multicast",
                    "leave it out, or leave the peers out",
                ));
            }
        }
        if peers.is_empty() {
            return Err(self.error(
                "peer",
                "there is none",
                "without multicast a daemon hears nobody whom it does not contact: name at least one other daemon, or \
                 leave the key out for multicast",
            ));
        }
        // A daemon without multicast takes the port after its own too.
        let unusable = |peer: &&SocketAddrV4| {
            matches!(peer.port(), 0 | u16::MAX)
                || peer.ip().is_unspecified()
                || peer.ip().is_multicast()
        };
        if let Some(peer) = peers.iter().find(unusable) {
            return Err(self.error(
                "peer",
                format!("`{peer}` is not the address of one daemon"),
                "use what that daemon has as `listen`, for example 10.0.0.6:4810",
            ));
        }
        Ok(EndpointConfig::mesh(listen, peers.to_vec()))
    }

    pub(super) fn bimodal(&self, options: &Options) -> Result<GossipConfig, DaemonConfigError> {
        let mut gossip = GossipConfig::lan();
        let key = |field: &str| format!("bimodal.{field}");
        options.lay_over(&mut gossip, key);
        match gossip.validate() {
            Ok(()) => Ok(gossip),
            Err(error) => Err(self.setting(&key(error.field), &error)),
        }
    }

    pub(super) fn process(&self, options: &Options) -> Result<ProcessConfig, DaemonConfigError> {
        let mut process = ProcessConfig::default();
        let key = |field: &str| format!("process.{field}");
        options.lay_over(&mut process, key);
        match process.check_ranges() {
            Ok(()) => Ok(process),
            Err(error) => Err(self.setting(&key(error.field), &error)),
        }
    }

    pub(super) fn engine(&self, options: &Options) -> Result<EngineConfig, DaemonConfigError> {
        let mut engine = EngineConfig::default();
        options.lay_over(&mut engine, engine_key);
        if let Some(groups) = &options.bimodal_groups {
            engine.bimodal_groups.clone_from(groups);
        }
        match engine.check() {
            Ok(()) => Ok(engine),
            Err(EngineConfigError::Setting(error)) => {
                Err(self.setting(&engine_key(error.field), &error))
            }
            // Beside ranges only names can be wrong here, and the only names are those of groups.
            Err(error) => Err(self.error(
                "bimodal.groups",
                error.to_string(),
                "name each group once, for example groups = [\"ticks\"]",
            )),
        }
    }

    pub(super) fn client_token(
        &self,
        options: &Options,
    ) -> Result<Option<PathBuf>, DaemonConfigError> {
        let token = options.client_token.clone();
        if token.is_some() && options.client_listen.is_none() {
            return Err(self.error(
                "client_token",
                "only clients over TCP are asked for a token, and there are none",
                "name a `client_listen` too, for example 127.0.0.1:4811, or leave it out",
            ));
        }
        if token.is_some() && token == options.key {
            return Err(self.error(
                "client_token",
                "is the file of `key`, which clients are not to know",
                "make another with `groupcast keygen FILE`",
            ));
        }
        Ok(token)
    }

    pub(super) fn bus(
        &self,
        options: &Options,
        security: &Security,
    ) -> Result<Vec<BusAddress>, DaemonConfigError> {
        let addresses = options.bus.clone().unwrap_or_default();
        let is_open = |address: &&BusAddress| match address {
            BusAddress::Unix(_) => false,
            BusAddress::Tcp(address) => !address.ip().is_loopback(),
        };
        let protected = options.tls_certificate.is_some() && options.tls_client_ca.is_some();
        if let Some(address) = addresses.iter().find(is_open)
            && !protected
            && *security != Security::Insecure
        {
            return Err(self.error(
                "bus",
                format!("everybody who reaches {address} could be a client, or read what clients say"),
                "give the daemon a certificate and ask clients for theirs (`tls_certificate`, `tls_client_ca`), use a \
                 loopback address, for example 127.0.0.1:4812, or say `insecure`",
            ));
        }
        if addresses.len() > BUS_MAX {
            let message = format!("there are {} addresses", addresses.len());
            return Err(self.error("bus", message, format!("use at most {BUS_MAX}")));
        }
        let socket = options.socket.clone().unwrap_or_else(super::default_socket);
        if addresses.iter().any(|it| it.path() == Some(&*socket)) {
            return Err(self.error(
                "bus",
                format!("{} is the socket of the other clients", socket.display()),
                "give the bus a path of its own: its clients speak lines of text",
            ));
        }
        let is_repeated = |(at, address)| addresses[..at].contains(address);
        if let Some((_, address)) = addresses.iter().enumerate().find(|it| is_repeated(*it)) {
            return Err(self.error(
                "bus",
                format!("{address} stands there twice"),
                "leave one out",
            ));
        }
        Ok(addresses)
    }

    pub(super) fn bus_trace(
        &self,
        options: &Options,
    ) -> Result<Option<PathBuf>, DaemonConfigError> {
        let directory = options.bus_trace.clone();
        if directory.is_some() && options.bus.as_ref().is_none_or(Vec::is_empty) {
            return Err(self.error(
                "bus_trace",
                "only connections of the bus are traced, and there are none",
                "name an address for the `bus` too, for example 127.0.0.1:4812, or leave it out",
            ));
        }
        Ok(directory)
    }

    pub(super) fn spill_dir(
        &self,
        options: &Options,
    ) -> Result<Option<PathBuf>, DaemonConfigError> {
        let mut rules = options.when_slow.iter().flat_map(|rules| &rules.0);
        if options.spill_dir.is_none() && rules.any(|rule| rule.policy == WhenSlow::Spill) {
            return Err(self.error(
                "when_slow",
                "messages can wait on a disk only where the daemon has a directory for them",
                "name one as `spill_dir`, or choose another policy",
            ));
        }
        Ok(options.spill_dir.clone())
    }

    pub(super) fn client_listen(
        &self,
        options: &Options,
        security: &Security,
    ) -> Result<Option<SocketAddr>, DaemonConfigError> {
        let Some(address) = options.client_listen else {
            return Ok(None);
        };
        let open = !address.ip().is_loopback() && *security != Security::Insecure;
        if open && options.tls_certificate.is_none() {
            return Err(self.error(
                "client_listen",
                format!("clients at {address} would speak in clear over the network"),
                "give the daemon a certificate (`tls_certificate`), listen on a loopback address, for example \
                 127.0.0.1:4811, or say `insecure`",
            ));
        }
        if open && options.tls_client_ca.is_none() && options.client_token.is_none() {
            return Err(self.error(
                "client_listen",
                format!("everybody who reaches {address} could be a client"),
                "ask clients for a certificate (`tls_client_ca`) or a token (`client_token`), or say `insecure`",
            ));
        }
        Ok(Some(address))
    }

    pub(super) fn tls(&self, options: &Options) -> Result<Option<ServerFiles>, DaemonConfigError> {
        let files = [
            ("tls_certificate", &options.tls_certificate),
            ("tls_key", &options.tls_key),
            ("tls_client_ca", &options.tls_client_ca),
        ];
        let named = files.iter().find(|(_, file)| file.is_some());
        let mut bus = options.bus.iter().flatten();
        if let Some((key, _)) = named
            && options.client_listen.is_none()
            && bus.all(|address| address.path().is_some())
        {
            return Err(self.error(
                key,
                "only clients over TCP speak TLS, and there are none",
                "name a `client_listen` too, for example 10.0.0.5:4811, or leave it out",
            ));
        }
        let certificates = |principal: &Principal| matches!(principal, Principal::Certificate(_));
        let mut rules = options.access.iter().flat_map(|access| &access.0);
        if options.tls_client_ca.is_none() && rules.any(|rule| rule.who.iter().any(certificates)) {
            return Err(self.error(
                "access",
                "rules for `certificates` need clients that show one",
                "name the file of their authorities as `tls_client_ca`, or leave `certificates` out",
            ));
        }
        match (&options.tls_certificate, &options.tls_key) {
            (Some(certificate), Some(key)) => Ok(Some(ServerFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_ca: options.tls_client_ca.clone(),
            })),
            (None, None) if named.is_none() => Ok(None),
            _ => Err(self.error(
                named.map_or("tls_certificate", |(key, _)| *key),
                "TLS needs both a certificate and its private key",
                "name both files, as `tls_certificate` and `tls_key`",
            )),
        }
    }
}

/// Whether `name` is a word of `text`.
fn names(text: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(|letter| !is_part(letter))
        .any(|word| word == name)
}
