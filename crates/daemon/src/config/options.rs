//! What a configuration file or a command line says: every key optional, not yet checked against
//! the others.
//!
//! The same type carries both: the command line is laid over the file with
//! [`Options::overlaid_with`], and what is then still missing gets its default in
//! [`Config::build`](super::Config::build).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use groupcast_core::settings::{Settings, Value};
use groupcast_session::groups::{Access, SlowRules};

use super::BusAddress;
use super::keys::in_daemon;
use super::rings::{PoolOptions, RingOptions};

/// All keys. Meaning, unit, default and range of each are in [`keys`](super::keys()).
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Options {
    /// The daemon's name, unique in the cluster.
    pub name: Option<String>,
    /// Address and port of the daemon's datagrams; the port may be left out.
    pub listen: Option<Listen>,
    /// The group's multicast address.
    pub multicast: Option<SocketAddrV4>,
    /// Peers to reach by unicast where there is no multicast.
    pub peer: Option<Vec<SocketAddrV4>>,
    /// How many routers a multicast may cross.
    pub ttl: Option<u8>,
    /// Whether other daemons on this host hear the multicasts.
    pub multicast_loop: Option<bool>,
    /// The Unix socket for clients.
    pub socket: Option<PathBuf>,
    /// A TCP address for clients.
    pub client_listen: Option<SocketAddr>,
    /// Where clients of the bus connect.
    pub bus: Option<Vec<BusAddress>>,
    /// The directory of the traces of their connections.
    pub bus_trace: Option<PathBuf>,
    /// Where the metrics are.
    pub metrics: Option<MetricsAddress>,
    /// The file with the token of clients over TCP.
    pub client_token: Option<PathBuf>,
    /// The file with the certificate that clients over TCP are shown.
    pub tls_certificate: Option<PathBuf>,
    /// The file with its private key.
    pub tls_key: Option<PathBuf>,
    /// The file with the authorities whose certificates clients over TCP must show.
    pub tls_client_ca: Option<PathBuf>,
    /// Which clients may do what.
    pub access: Option<Access>,
    /// What is done about members of which groups that are slow.
    pub when_slow: Option<SlowRules>,
    /// The directory for what waits for clients that are slow.
    pub spill_dir: Option<PathBuf>,
    /// The file with the cluster's key.
    pub key: Option<PathBuf>,
    /// Run without a key.
    pub insecure: Option<bool>,
    /// The name of the protocol that orders the messages of all groups.
    pub protocol: Option<String>,
    /// Rings beside the daemon's own order.
    pub rings: Option<Vec<RingOptions>>,
    /// Addresses and settings of rings that joins ask for.
    pub ring_pool: Option<PoolOptions>,
    /// Where to write the history.
    pub history: Option<PathBuf>,
    /// How much is logged.
    pub log: Option<String>,
    /// Where to log.
    pub log_file: Option<PathBuf>,
    /// The groups that are bimodal.
    pub bimodal_groups: Option<Vec<String>>,
    /// Settings of the parts of the daemon, by their dotted keys.
    pub settings: BTreeMap<String, Value>,
}

/// `IP` or `IP:PORT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listen {
    /// The address of the interface.
    pub ip: IpAddr,
    /// The port, if given.
    pub port: Option<u16>,
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(ip) = text.parse() {
            return Ok(Self { ip, port: None });
        }
        text.parse::<SocketAddr>()
            .map(|address| Self {
                ip: address.ip(),
                port: Some(address.port()),
            })
            .map_err(|_| {
                format!("`{text}` is not an address: use IP or IP:PORT, for example 10.0.0.5:4810")
            })
    }
}

/// Where the metrics are: `IP:PORT`, or a port of 127.0.0.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetricsAddress(pub SocketAddr);

impl std::str::FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self((Ipv4Addr::LOCALHOST, port).into()));
        }
        text.parse().map(Self).map_err(|_| {
            format!("`{text}` is no address for metrics: use IP:PORT or PORT, for example 127.0.0.1:9812")
        })
    }
}

impl Options {
    /// Whether the key at the top, `key`, is set.
    pub(super) fn sets(&self, key: &str) -> bool {
        match key {
            "name" => self.name.is_some(),
            "listen" => self.listen.is_some(),
            "multicast" => self.multicast.is_some(),
            "peer" => self.peer.is_some(),
            "ttl" => self.ttl.is_some(),
            "multicast_loop" => self.multicast_loop.is_some(),
            "socket" => self.socket.is_some(),
            "client_listen" => self.client_listen.is_some(),
            "bus" => self.bus.is_some(),
            "bus_trace" => self.bus_trace.is_some(),
            "metrics" => self.metrics.is_some(),
            "client_token" => self.client_token.is_some(),
            "tls_certificate" => self.tls_certificate.is_some(),
            "tls_key" => self.tls_key.is_some(),
            "tls_client_ca" => self.tls_client_ca.is_some(),
            "access" => self.access.is_some(),
            "when_slow" => self.when_slow.is_some(),
            "spill_dir" => self.spill_dir.is_some(),
            "key" => self.key.is_some(),
            "insecure" => self.insecure.is_some(),
            "protocol" => self.protocol.is_some(),
            "rings" => self.rings.is_some(),
            "ring_pool" => self.ring_pool.is_some(),
            "history" => self.history.is_some(),
            "log" => self.log.is_some(),
            "log_file" => self.log_file.is_some(),
            _ => false,
        }
    }

    /// Lays the settings that are called as `key_of` says over `config`.
    pub(super) fn lay_over<C: Settings>(&self, config: &mut C, key_of: impl Fn(&str) -> String) {
        for setting in in_daemon::<C>() {
            if let Some(value) = self.settings.get(&key_of(setting.name)) {
                (setting.set)(config, *value);
            }
        }
    }

    /// These options with `over` laid over them. Of options that exclude each other (`key` and
    /// `insecure`, `multicast` and `peer`), one that is laid over displaces both.
    pub fn overlaid_with(self, over: Self) -> Self {
        let secured = over.key.is_some() || over.insecure.is_some();
        let reached = over.multicast.is_some() || over.peer.is_some();
        let mut settings = self.settings;
        settings.extend(over.settings);
        Self {
            name: over.name.or(self.name),
            listen: over.listen.or(self.listen),
            multicast: over.multicast.or(self.multicast.filter(|_| !reached)),
            peer: over.peer.or(self.peer.filter(|_| !reached)),
            ttl: over.ttl.or(self.ttl),
            multicast_loop: over.multicast_loop.or(self.multicast_loop),
            socket: over.socket.or(self.socket),
            client_listen: over.client_listen.or(self.client_listen),
            bus: over.bus.or(self.bus),
            bus_trace: over.bus_trace.or(self.bus_trace),
            metrics: over.metrics.or(self.metrics),
            client_token: over.client_token.or(self.client_token),
            tls_certificate: over.tls_certificate.or(self.tls_certificate),
            tls_key: over.tls_key.or(self.tls_key),
            tls_client_ca: over.tls_client_ca.or(self.tls_client_ca),
            access: over.access.or(self.access),
            when_slow: over.when_slow.or(self.when_slow),
            spill_dir: over.spill_dir.or(self.spill_dir),
            key: over.key.or(self.key.filter(|_| !secured)),
            insecure: over.insecure.or(self.insecure.filter(|_| !secured)),
            protocol: over.protocol.or(self.protocol),
            rings: over.rings.or(self.rings),
            ring_pool: over.ring_pool.or(self.ring_pool),
            history: over.history.or(self.history),
            log: over.log.or(self.log),
            log_file: over.log_file.or(self.log_file),
            bimodal_groups: over.bimodal_groups.or(self.bimodal_groups),
            settings,
        }
    }
}
