//! Addresses of daemons, and the default one for this user.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use groupcast_session::socket::socket_candidates;

/// The address of a daemon.
#[derive(Clone, Debug, Default)]
pub enum Address {
    /// This user's daemon, or this host's: see [`default_socket_path`].
    #[default]
    Default,
    /// This Unix socket.
    Unix(PathBuf),
    /// This TCP address, in clear: others on the way can read everything.
    Tcp(SocketAddr),
    /// This TCP address, by TLS. The daemon's certificate must be for `name`, or, if that is
    /// `None`, for the address.
    #[cfg(feature = "tls")]
    Tls {
        /// The address.
        address: SocketAddr,
        /// A DNS name or an address that the certificate is for.
        name: Option<String>,
        /// The trusted authorities, and this client's certificate.
        tls: groupcast_tls::Client,
    },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.pad("the default socket"),
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
            #[cfg(feature = "tls")]
            Self::Tls { address, .. } => address.fmt(f),
        }
    }
}

impl From<&Path> for Address {
    fn from(path: &Path) -> Self {
        Self::Unix(path.into())
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// The default socket of this user's daemon: `/run/groupcast.sock` for the superuser,
/// `$XDG_RUNTIME_DIR/groupcast.sock` for others, or `/tmp/groupcast-UID.sock` if there is no such
/// directory.
pub fn default_socket_path() -> PathBuf {
    candidates().swap_remove(0)
}

/// The sockets where clients of this user look for a daemon, in order. There is at least one.
pub(crate) fn candidates() -> Vec<PathBuf> {
    let euid = rustix::process::geteuid().as_raw();
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR");
    socket_candidates(euid, runtime_dir.as_deref())
}
