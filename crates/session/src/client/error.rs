//! The errors of a client's requests.

use groupcast_core::Service;

use crate::frame::Disconnect;
use crate::name::NameError;
use crate::when_slow::WhenSlow;

/// Why a request was not sent. The connection is as it was.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The daemon has not answered the hello.
    #[error("the daemon has not answered the hello: wait for its welcome")]
    NotWelcome,
    /// The connection has ended.
    #[error("the connection to the daemon has ended: {text}")]
    Ended {
        /// Why.
        code: Disconnect,
        /// Why, in words.
        text: String,
    },
    /// The name of a group is not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A message has no destinations, or too many.
    #[error("a message goes to 1 to {max} groups, not to {count}")]
    Destinations {
        /// How many it has.
        count: usize,
        /// The most.
        max: usize,
    },
    /// The message is too long.
    #[error("the message has {len} bytes, at most {max} are allowed: split it")]
    TooLarge {
        /// Its length.
        len: usize,
        /// The most.
        max: u64,
    },
    /// No message outlives so many failures.
    #[error(
        "there is no service {service}: K is at most {}",
        Service::RESILIENCE_MAX
    )]
    Resilience {
        /// The service asked for.
        service: Service,
    },
    /// The daemon is older than the service.
    #[error("the daemon does not know the service {service}: upgrade it, or use another service")]
    Service {
        /// The service asked for.
        service: Service,
    },
    /// The daemon is older than the change of keys.
    #[error("the daemon is of a release that cannot change its key while it runs: upgrade it")]
    NoRekey,
    /// The daemon is older than the bus.
    #[error("the daemon is of a release without the bus: upgrade it")]
    NoBus,
    /// The daemon is older than requests to groups, handlers and locks.
    #[error("the daemon is of a release without requests to groups: upgrade it")]
    NoRequests,
    /// The daemon is older than joins that ask for a ring.
    #[error("the daemon is of a release that makes no rings for joins: upgrade it")]
    NoRingsMade,
    /// The daemon is older than policies of clients for slowness.
    #[error("the daemon is of a release that treats all slow clients alike: upgrade it")]
    NoWhenSlow,
    /// The daemon has no disk for what waits for slow clients.
    #[error(
        "the daemon keeps no messages on a disk for slow clients: name a `spill_dir` in its configuration, or ask for \
         another policy"
    )]
    NoSpill,
    /// The client asked for less patience before.
    #[error("a connection asks for less and less patience with slowness: connect again for {wish}")]
    MorePatience {
        /// What it asks for now.
        wish: WhenSlow,
    },
    /// [`Connection::set_guest`](super::Connection::set_guest) was not called.
    #[error("the client has no number as a guest: set one first")]
    NoGuest,
    /// The daemon has given no credit for another message yet.
    #[error("there is no credit to publish: wait until the daemon gives some")]
    NoCredit,
}
