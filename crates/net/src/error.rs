//! Why an endpoint cannot be opened: what was wrong, and what to do.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use crate::key::KeyError;

/// Why an endpoint cannot be opened. Nothing is left open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The configuration contradicts itself.
    #[error("{what}")]
    Config {
        /// What is wrong with it and what to do.
        what: String,
    },
    /// Another process has the address.
    #[error(
        "{address} (UDP) is in use: another daemon may be running; stop it, or choose another port (a mesh daemon \
         takes its port and the next one)"
    )]
    InUse {
        /// The address that cannot be used.
        address: SocketAddrV4,
    },
    /// The address is not one of this host's.
    #[error(
        "{address} is not an address of this host: listen on one that `ip -4 address` shows (it also chooses the \
         network interface)"
    )]
    NotLocal {
        /// The address that cannot be used.
        address: Ipv4Addr,
    },
    /// The interface takes no part in multicast.
    #[error(
        "the interface of {listen} cannot join the multicast group {group} ({source}): choose another address to \
         listen on, or do without multicast (--peer IP:PORT for every other daemon)"
    )]
    NoMulticast {
        /// The address that chose the interface.
        listen: Ipv4Addr,
        /// The group's multicast address.
        group: Ipv4Addr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The process may not use the port.
    #[error("{address} (UDP) may not be used by this user: choose a port above 1023")]
    Forbidden {
        /// The address that cannot be used.
        address: SocketAddrV4,
    },
    /// The operating system has no randomness to give.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Another system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl NetError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
