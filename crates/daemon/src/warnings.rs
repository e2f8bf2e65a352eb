//! What a daemon warns of when it starts with a configuration: `daemon --check` says the same.

use std::net::SocketAddr;

use crate::config::{BusAddress, Config, Security};

impl Config {
    /// What a start with this configuration warns of, as far as that is known before.
    pub fn warnings(&self) -> Vec<String> {
        let tables = self.unused_tables.iter();
        let tables = tables.map(|table| self.unused(table));
        let clients = self.client_listen.and_then(|it| clients(it, self));
        let bus = self.bus.iter().filter_map(|address| match address {
            BusAddress::Tcp(address) => bus(*address, self),
            BusAddress::Unix(_) => None,
        });
        let metrics = self.metrics.and_then(metrics);
        tables
            .chain(clients)
            .chain(bus)
            .chain(metrics)
            .chain(security(self))
            .chain(interface(self))
            .collect()
    }
}

/// Who may read the metrics at `address`, if that is not this host alone.
pub(crate) fn metrics(address: SocketAddr) -> Option<String> {
    let is_near = address.ip().is_loopback();
    (!is_near).then(|| format!("metrics: everybody who reaches {address} can read them"))
}

/// What it means to run without a key.
pub(crate) fn security(config: &Config) -> Option<String> {
    let is_open = config.security == Security::Insecure;
    is_open.then(|| {
        "running without a key: everybody on the network can read and forge messages".to_owned()
    })
}

/// What there is to say of the interface that was chosen.
pub(crate) fn interface(config: &Config) -> Option<String> {
    let warning = config.interface_warning.as_ref()?;
    Some(format!("{warning}; --listen IP names another"))
}

/// Who can be a client of the bus at `address`, if that is everybody who reaches it.
pub(crate) fn bus(address: SocketAddr, config: &Config) -> Option<String> {
    if address.ip().is_loopback() {
        Some(format!(
            "every user of this host can be a client of the bus, at {address}, and needs no token: \
             `--bus unix:PATH` keeps others out"
        ))
    } else if config.tls.is_some() {
        None
    } else {
        Some(format!(
            "everybody who reaches {address} can be a client of the bus, and read what is said in clear"
        ))
    }
}

/// Whether clients over TCP are asked for a certificate.
pub(crate) fn asks_for_certificate(config: &Config) -> bool {
    let tls = config.tls.as_ref();
    tls.is_some_and(|tls| tls.client_ca.is_some())
}

/// How clients over TCP speak.
pub(crate) fn speech(config: &Config) -> &'static str {
    match config.tls {
        Some(_) => "by TLS",
        None => "in clear",
    }
}

/// Who can be a client at `address`, if no proof is asked for.
pub(crate) fn clients(address: SocketAddr, config: &Config) -> Option<String> {
    if asks_for_certificate(config) || config.client_token.is_some() {
        None
    } else if address.ip().is_loopback() {
        Some(format!(
            "every user of this host can be a client, over TCP at {address}, whatever the permissions of the socket: \
             `client_token = FILE` asks clients for a token"
        ))
    } else {
        let speech = speech(config);
        Some(format!(
            "everybody who reaches {address} can be a client, over TCP and {speech}: `client_token = FILE` asks clients \
             for a token"
        ))
    }
}
