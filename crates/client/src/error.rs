//! The errors of connecting, and of calls. A request that was not sent has a [`RequestError`],
//! which clients without a socket share.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use groupcast_session::client::RequestError;
use groupcast_session::frame::{Disconnect, FrameError, Refusal};
use groupcast_session::name::NameError;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nothing listens at the socket.
    #[error(
        "no daemon listens on {}: start one with `groupcast daemon`, or give the path of its socket", .path.display()
    )]
    NoDaemon {
        /// The path of the socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path leads to a file or a directory.
    #[error("{} is no socket: give the path of a daemon's socket", .path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// Nothing listens at the address.
    #[error(
        "no daemon listens on {address}: start one with it as its client_listen, or give the address of another"
    )]
    NoServer {
        /// The address that was tried.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No client may have the name that this one asks for. Nothing was connected.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The socket may not be used by this user.
    #[error(
        "the socket {} may not be used by this user: ask its owner for access, or start a daemon of your own", .path.display()
    )]
    Forbidden {
        /// The path of the socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The socket at a default path belongs to another user.
    #[error(
        "the socket {} belongs to user {owner}, who is neither you nor the superuser: if you trust it, give its path instead of the default", .path.display()
    )]
    Stranger {
        /// The path of the socket.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
    },
    /// The daemon refused this client.
    #[error("the daemon refused this client: {text}")]
    Refused {
        /// The reason, for programs.
        code: Refusal,
        /// The reason, for people.
        text: String,
    },
    /// The daemon did not answer.
    #[error("the daemon at {address} did not answer within {waited:?}: is it running, or stopped?")]
    TimedOut {
        /// The daemon's socket or address.
        address: String,
        /// How long the client waited.
        waited: Duration,
    },
    /// What answers is a daemon's message bus, which is for other programs.
    #[error(
        "what answers at {address} is the message bus of a daemon: give the path of the daemon's socket, or its client_listen"
    )]
    Bus {
        /// The socket or address of the bus.
        address: String,
    },
    /// The daemon speaks TLS, and this client does not.
    #[error(
        "what answers at {address} speaks TLS: connect by TLS, with the authority that signed its certificate and, where it \
         asks for certificates of clients, with one"
    )]
    NeedsTls {
        /// The daemon's address.
        address: String,
    },
    /// The answer is not that of a daemon of this version.
    #[error("what answers at {address} is no groupcast daemon of this version: {error}")]
    Protocol {
        /// The daemon's socket or address.
        address: String,
        /// The error in the answer.
        error: FrameError,
    },
    /// The two sides do not trust each other's certificates, or one of them does not speak TLS.
    #[error(
        "no TLS with the daemon at {address}: {why}; compare the authorities and the name with the daemon's \
         tls_certificate, and this client's certificate with its tls_client_ca; without tls_certificate it does not speak TLS"
    )]
    Untrusted {
        /// The daemon's address.
        address: String,
        /// The error of the TLS library.
        why: String,
    },
    /// The system could not connect.
    #[error("cannot connect to {address}: {source}")]
    Io {
        /// The daemon's socket or address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a call of a connected client failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection has ended.
    #[error("the connection to the daemon has ended: {text}")]
    Disconnected {
        /// The reason, for programs.
        code: Disconnect,
        /// The reason, for people.
        text: String,
    },
    /// The daemon broke the protocol. The connection is of no use any more.
    #[error("the daemon broke the protocol: {0}; use programs of one version")]
    Protocol(#[from] FrameError),
    /// The system could not read or write. The connection is of no use any more.
    #[error("the connection to the daemon failed: {0}; connect again")]
    Io(#[from] io::Error),
    /// The request cannot be sent: a name, the destinations or the length is not allowed. Nothing
    /// was sent.
    #[error(transparent)]
    Request(RequestError),
    /// The daemon gives no credit to publish while this client's events wait unread. The message
    /// was not sent.
    #[error(
        "{bytes} bytes of events wait unread, and the daemon gives no credit meanwhile: take them with next_event, then publish again"
    )]
    Unread {
        /// How many bytes wait.
        bytes: u64,
    },
    /// The daemon did not answer in time. The answer may still come.
    #[error("the daemon did not answer within {0:?}: is it stopped?")]
    TimedOut(Duration),
}

impl From<RequestError> for ClientError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Ended { code, text } => Self::Disconnected { code, text },
            error => Self::Request(error),
        }
    }
}
