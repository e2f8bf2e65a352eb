//! The errors of a daemon.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use groupcast_net::{KeyError, NetError};
use groupcast_tls::TlsError;

use crate::config::DaemonConfigError;

/// Why a daemon does not start, or ends before it was asked to. Its sockets are closed and its
/// files removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The key file cannot be read, or holds no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The file of the token that clients must have cannot be read, or holds none.
    #[error("client_token: {}", of_token(.0))]
    Token(KeyError),
    /// The files for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The sockets between daemons cannot be opened.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The settings contradict each other in a way that only the protocol sees.
    #[error(transparent)]
    Config(#[from] DaemonConfigError),
    /// Another daemon listens on the Unix socket.
    #[error("another daemon is alive on the socket {}", .path.display())]
    SocketInUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The file at the path of the Unix socket is no socket.
    #[error("{} exists and is no socket", .path.display())]
    NotASocket {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The Unix socket cannot be opened.
    #[error("cannot listen on the socket {}: {source}", .path.display())]
    Socket {
        /// The path of the socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The TCP address for clients cannot be opened.
    #[error("cannot listen for clients on {address}: {source}")]
    ClientListen {
        /// The address that cannot be opened.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// One of these errors, about an address for clients of the bus.
    #[error(transparent)]
    Bus(Box<Self>),
    /// The address for metrics cannot be opened.
    #[error("cannot give metrics at {address}: {source}")]
    Metrics {
        /// The address that cannot be opened.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The history cannot be written.
    #[error("cannot write the history {}: {source}", .path.display())]
    History {
        /// The path of the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log cannot be written. Only [`Daemon::check`](crate::Daemon::check) says so: the log of
    /// a daemon is set up before it.
    #[error("cannot append log lines to {}: {source}", .path.display())]
    LogFile {
        /// The path of the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The directory for traces of the bus cannot be used.
    #[error("cannot keep traces of the bus in {}: {source}", .path.display())]
    Traces {
        /// The path of the directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no directory for what waits for slow clients.
    #[error("cannot keep messages for slow clients in {}: {source}", .path.display())]
    Spill {
        /// The path of the directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another daemon of the cluster has this one's name.
    #[error(
        "the name `{name}` is in use: another daemon of this cluster, {holder}, has it and has run for longer"
    )]
    NameInUse {
        /// The name that both daemons have.
        name: String,
        /// The other daemon, with its address if it is known.
        holder: String,
    },
    /// The host does not give the process a privilege that the configuration asks for.
    #[error("cannot {what}: {source}")]
    Process {
        /// What the process asked for.
        what: &'static str,
        /// The capability or the limit that it needs.
        needs: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused an operation that daemons need.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl DaemonError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// Whether the cause is in the network or the system, so that another attempt may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Net(_) | Self::System { .. } | Self::Key(_))
    }

    /// The help for an error about an address of the bus.
    fn help_with_bus(&self) -> Option<String> {
        let help = match self {
            Self::SocketInUse { .. } => {
                "stop that daemon, or choose another path with --bus unix:PATH"
            }
            Self::NotASocket { .. } => {
                "choose another path with --bus unix:PATH, or remove the file"
            }
            Self::Socket { source, .. } if is_too_long(source) => {
                "choose a path of 107 bytes at most with --bus unix:PATH"
            }
            Self::Socket { .. } => "choose a path that this user can write with --bus unix:PATH",
            Self::ClientListen { .. } => {
                "choose an address and port of this host with --bus IP:PORT"
            }
            other => return other.help(),
        };
        Some(help.into())
    }

    /// What the user can do about it, if the error does not say so itself.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Config(error) => Some(error.help()),
            Self::Bus(error) => error.help_with_bus(),
            Self::SocketInUse { .. } => {
                Some("stop that daemon, or choose another path with --socket PATH".into())
            }
            Self::NotASocket { .. } => {
                Some("choose another path with --socket PATH, or remove the file".into())
            }
            Self::Socket { source, .. } if is_too_long(source) => {
                Some("choose a path of 107 bytes at most with --socket PATH".into())
            }
            Self::Socket { .. } => {
                Some("choose a path that this user can write with --socket PATH".into())
            }
            Self::ClientListen { .. } => {
                Some("choose an address and port of this host with --client-listen IP:PORT".into())
            }
            Self::Metrics { .. } => {
                Some("choose an address and port of this host with --metrics IP:PORT".into())
            }
            Self::History { .. } => Some(
                "choose a new file, or a history, that this user can write, with --history FILE"
                    .into(),
            ),
            Self::Traces { .. } => Some(
                "make a directory that this user can write, and name it with --bus-trace DIR"
                    .into(),
            ),
            Self::Spill { .. } => {
                Some("make a directory that this user can write, and name it as `spill_dir`".into())
            }
            Self::Token(KeyError::Missing { path }) => Some(format!(
                "`groupcast keygen {}` makes one, of which clients name a copy with --token",
                path.display()
            )),
            Self::LogFile { .. } => {
                Some("name a file that this user can write as `log_file`".into())
            }
            Self::Process { needs, .. } => Some(format!(
                "give the process {needs}, or leave the setting of [process] out"
            )),
            Self::NameInUse { .. } => Some("choose another with --name N".into()),
            Self::Key(_) | Self::Token(_) | Self::Tls(_) | Self::Net(_) | Self::System { .. } => {
                None
            }
        }
    }
}

/// What is wrong with the file of a token, which is written as a key is.
fn of_token(error: &KeyError) -> String {
    match error {
        KeyError::Missing { path } => format!("there is no token file {}", path.display()),
        other => other.to_string(),
    }
}

/// Whether a socket's path is too long for an address. The standard library's text for that names a
/// constant of the system.
fn is_too_long(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}
