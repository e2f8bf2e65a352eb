//! Checks how the daemon reaches the others: its address, multicast or peers.

use std::net::{IpAddr, SocketAddrV4};

use groupcast_net::config::is_for_routing;
use groupcast_net::{EndpointConfig, choose_interface};

use super::Check;
use crate::config::{DaemonConfigError, LISTEN_PORT, Listen, MULTICAST, Options};

impl Check<'_> {
    /// Where the daemon listens, and what there is to warn of if nothing says by which interface.
    pub(in crate::config) fn listen(
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

    pub(in crate::config) fn endpoint(
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
        if is_for_routing(*group.ip()) {
            return Err(self.error(
                "multicast",
                format!(
                    "`{group}` is of 224.0.0.0/24, which is for the protocols of routers and hosts"
                ),
                "use an address of 239.192.0.0/14, for example 239.192.79.1:4809",
            ));
        }
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
}
