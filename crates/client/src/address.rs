//! Where a daemon is, and how to find the one of this user.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use groupcast_session::socket::socket_candidates;

/// Where a daemon is.
#[derive(Clone, Debug, Default)]
pub enum Address {
    /// This user's daemon, or this host's: see [`default_socket_path`].
    #[default]
    Default,
    /// At this Unix socket.
    Unix(PathBuf),
    /// At this TCP address. What is said can be read on the way.
    Tcp(SocketAddr),
    /// At this TCP address, by TLS: `tls` says whom to believe, and what to show. The daemon's
    /// certificate must be for `name`, or for the address without one.
    #[cfg(feature = "tls")]
    Tls {
        /// The address.
        address: SocketAddr,
        /// A DNS name or an address that the certificate is for.
        name: Option<String>,
        /// The authorities, and this client's certificate.
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

/// Where the daemon of this user listens, unless its configuration says otherwise:
/// `/run/groupcast.sock` for the superuser, `$XDG_RUNTIME_DIR/groupcast.sock` for others, and
/// `/tmp/groupcast-UID.sock` where there is no such directory.
pub fn default_socket_path() -> PathBuf {
    candidates().swap_remove(0)
}

/// Where clients of this user look for a daemon, best first. There is at least one.
pub(crate) fn candidates() -> Vec<PathBuf> {
    let euid = rustix::process::geteuid().as_raw();
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR");
    socket_candidates(euid, runtime_dir.as_deref())
}
