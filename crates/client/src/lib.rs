//! Blocking client of the groupcast daemon.
//!
//! A [`Client`] is one connection, used by one thread. Publishing gathers messages and writes many
//! at once; reading takes many at once. Gathered messages are written when the buffer is full, by
//! [`Client::flush`], and by any call that waits. So a program that publishes now and then should
//! flush after each message.
//!
//! Both directions have credit: a client has at most the daemon's window of messages outstanding,
//! and at most its own window of unread events in memory (each may be exceeded by one message).
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use groupcast_client::{Address, Client, ClientEvent, Options, Service};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut client = Client::connect(&Address::Default, Options::default())?;
//! client.join("room")?;
//! client.publish(&["room"], Service::Agreed, b"hello, all")?;
//! while let Some(event) = client.next_event(Some(Duration::from_secs(1)))? {
//!     match event {
//!         ClientEvent::View(view) => println!("now in {}: {:?}", view.group, view.members),
//!         ClientEvent::Message(message) => println!("{}: {:?}", message.sender, message.payload),
//!         other => println!("{other:?}"),
//!     }
//! }
//! client.close(Duration::from_secs(5))?;
//! # Ok(())
//! # }
//! ```
//!
//! The client's side of the protocol is `groupcast_session::client`, which does no I/O; this crate
//! adds the socket and the waiting. With the feature `tls` it speaks TLS ([`Address::Tls`]). There
//! is no asynchronous client here.
#![forbid(unsafe_code)]

mod address;
mod calls;
mod client;
mod error;
mod guests;
mod stream;
mod unix;

pub use address::{Address, default_socket_path};
pub use calls::Calls;
pub use client::{Client, Options};
pub use error::{ClientError, ConnectError};
pub use groupcast_core::{OrderPlace, Service};
pub use groupcast_session::WhenSlow;
pub use groupcast_session::client::{Ask, Asked, ClientEvent, RequestError};
pub use groupcast_session::frame::{
    AccessToken, ClientKind, Disconnect, Message, Refusal, Reject, Request,
};
pub use groupcast_session::guests::{Ending, Role, RoleNotice, RoleState};
pub use groupcast_session::name::NameError;
pub use groupcast_session::view::{Cause, View, ViewId, ViewKind};
#[cfg(feature = "tls")]
pub use groupcast_tls as tls;

pub use self::unix::connect_unix;
