//! `--server`: where a daemon listens for clients of other hosts, by address or by name.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use crate::failure::Failure;

/// A daemon's place on the network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Server {
    /// The daemon listens at this address.
    At(SocketAddr),
    /// The daemon listens at this port of an address that the system has for this name.
    Named(String, u16),
}

impl FromStr for Server {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if let Ok(address) = word.parse() {
            return Ok(Self::At(address));
        }
        if let Some(path) = word.strip_prefix("unix:") {
            return Err(format!("a Unix socket is named by --socket {path}"));
        }
        let named = word
            .rsplit_once(':')
            .and_then(|(name, port)| Some((name, port.parse().ok()?)))
            .filter(|(name, _)| !name.is_empty() && !name.contains([':', '/', ' ']));
        match named {
            Some((name, port)) => Ok(Self::Named(name.to_owned(), port)),
            None => Err(
                "write an address or a name, and the port of the daemon's client_listen, as in 10.0.0.5:4811 or \
                 host-1.example:4811"
                    .into(),
            ),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => address.fmt(f),
            Self::Named(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

impl Server {
    /// The name, if the place was given by name.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::At(_) => None,
            Self::Named(name, _) => Some(name),
        }
    }

    /// The addresses of the daemon, at least one, in the order in which to try them.
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>, Failure> {
        let (name, port) = match self {
            Self::At(address) => return Ok(vec![*address]),
            Self::Named(name, port) => (name, port),
        };
        let found: io::Result<Vec<SocketAddr>> = (name.as_str(), *port)
            .to_socket_addrs()
            .map(Iterator::collect);
        match found {
            Ok(addresses) if !addresses.is_empty() => Ok(addresses),
            Ok(_) => Err(Failure::failed(format!("the name {name} has no address"))),
            Err(error) => Err(
                Failure::failed(format!("cannot find the host {name}: {error}")).help(
                    "give its address to --server, and the name of its certificate to --tls-name",
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_told_apart_and_a_port_is_needed() {
        let at = |word: &str| Server::At(word.parse().unwrap());
        for word in ["127.0.0.1:4811", "[::1]:4811"] {
            assert_eq!(word.parse(), Ok(at(word)));
        }
        let named = Server::Named("localhost".into(), 4811);
        assert_eq!("localhost:4811".parse(), Ok(named.clone()));
        assert_eq!(named.name(), Some("localhost"));
        assert_eq!(named.to_string(), "localhost:4811");
        let unix: Result<Server, _> = "unix:/run/x".parse();
        assert!(unix.unwrap_err().contains("--socket /run/x"));
        for word in [
            "localhost",
            ":4811",
            "host:",
            "host:99999",
            "::1:4811",
            "http://a:1",
        ] {
            assert!(word.parse::<Server>().is_err(), "{word}");
        }
    }

    #[test]
    fn a_name_is_tried_at_all_of_its_addresses() {
        let found = Server::Named("localhost".into(), 4811).addresses().unwrap();
        assert!(
            found.iter().all(|address| address.ip().is_loopback()),
            "{found:?}"
        );
        let at = Server::At("10.0.0.5:1".parse().unwrap());
        assert_eq!(at.addresses().unwrap().len(), 1);
    }
}
