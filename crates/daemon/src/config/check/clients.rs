//! Checks what concerns clients: where they connect, how they prove who they are, and what becomes
//! of those that are slow.

use std::net::SocketAddr;
use std::path::PathBuf;

use groupcast_session::WhenSlow;
use groupcast_session::groups::Principal;
use groupcast_tls::ServerFiles;

use super::Check;
use crate::clients::BUS_MAX;
use crate::config::{BusAddress, DaemonConfigError, Options, Security, default_socket};

impl Check<'_> {
    pub(in crate::config) fn client_token(
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

    pub(in crate::config) fn bus(
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
        let socket = options.socket.clone().unwrap_or_else(default_socket);
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
        for (key, other) in [
            ("client_listen", options.client_listen),
            ("metrics", options.metrics.map(|it| it.0)),
        ] {
            let is_other =
                |it: &&BusAddress| matches!(it, BusAddress::Tcp(it) if is_taken(*it, other));
            if let Some(address) = addresses.iter().find(is_other) {
                return Err(self.error(
                    "bus",
                    format!("{address} is the address of `{key}`"),
                    "give the bus an address of its own: its clients speak lines of text",
                ));
            }
        }
        Ok(addresses)
    }

    pub(in crate::config) fn bus_trace(
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

    pub(in crate::config) fn spill_dir(
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

    pub(in crate::config) fn client_listen(
        &self,
        options: &Options,
        security: &Security,
    ) -> Result<Option<SocketAddr>, DaemonConfigError> {
        let Some(address) = options.client_listen else {
            return Ok(None);
        };
        if is_taken(address, options.metrics.map(|it| it.0)) {
            return Err(self.error(
                "client_listen",
                format!("{address} is the address of `metrics`"),
                "give each of them an address of its own",
            ));
        }
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

    pub(in crate::config) fn tls(
        &self,
        options: &Options,
    ) -> Result<Option<ServerFiles>, DaemonConfigError> {
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

/// Whether `address` is also the `other` one. With the port 0 each gets a port of its own.
fn is_taken(address: SocketAddr, other: Option<SocketAddr>) -> bool {
    address.port() != 0 && other == Some(address)
}
