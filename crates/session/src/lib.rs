//! Sans-IO client protocol and process groups of groupcast.
//!
//! A daemon stands between its clients and the ring. This crate has both ends of a client's
//! connection and the daemon's groups, without any I/O:
//!
//! - [`frame`]: the protocol between a client and its daemon, both directions, both sides;
//! - [`bus`]: the message bus, lines of text for a client of the daemon;
//! - [`client`]: a client's side of a connection: credit, numbers of messages, events;
//! - [`groups`]: the engine of a daemon: clients and their credit, groups and their views, what
//!   goes to the ring and what comes from it;
//! - [`guests`]: requests to groups, handlers and locks, for whatever host has an agreed order;
//! - [`name`] and [`view`]: the names of groups and clients, and the members of a group at a moment
//!   of its history;
//! - [`names`]: which ring carries which groups, if there are several;
//! - [`rekey`]: how daemons change the cluster's key together while they run.
//!
//! Sockets, processes and time belong to the daemon and to the client library; ordering belongs to
//! the ring.
#![forbid(unsafe_code)]

pub mod bus;
pub mod client;
pub mod frame;
pub mod groups;
pub mod guests;
pub mod name;
pub mod names;
pub mod rekey;
pub mod socket;
pub mod view;
mod when_slow;

pub use groups::{ClientId, Engine, EngineConfig};
pub use view::{Cause, View, ViewId, ViewKind};
pub use when_slow::WhenSlow;
