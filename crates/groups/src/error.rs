//! The errors of opening groups, and of calls.

use std::io;
use std::time::Duration;

use groupcast_net::KeyError;
use groupcast_session::client::RequestError;
use groupcast_session::groups::EngineConfigError;

/// Why a member cannot have groups. The member is dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The member's name is not allowed in groups.
    #[error(transparent)]
    Name(#[from] EngineConfigError),
    /// The operating system gives no random bytes.
    #[error(transparent)]
    Random(#[from] KeyError),
    /// The engine does not take its client.
    #[error("the engine of groups does not take this program: {0}")]
    Refused(String),
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupsError {
    /// Too much waits to be sent. Nothing was sent.
    #[error("too much waits to be sent: take events with next_event, then send again")]
    Full,
    /// The groups are closed: by this program, or because another member has its name. No event
    /// follows.
    #[error("this program is in no group any more: {0}")]
    Ended(String),
    /// A name, the destinations or the length is not allowed. Nothing was sent.
    #[error(transparent)]
    Request(RequestError),
    /// A socket failed. The groups are of no use any more.
    #[error("the network failed: {0}")]
    Io(#[from] io::Error),
    /// The others did not answer the good-bye in time: they will take this program for crashed.
    #[error("the others did not answer the good-bye within {0:?}")]
    TimedOut(Duration),
}

impl From<RequestError> for GroupsError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::NoCredit => Self::Full,
            RequestError::Ended { text, .. } => Self::Ended(text),
            error => Self::Request(error),
        }
    }
}
