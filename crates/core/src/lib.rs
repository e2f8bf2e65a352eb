//! Vocabulary, wire primitives and shared mechanisms of groupcast. No I/O, `no_std` + `alloc`.
//!
//! Everything else stands on this crate: the protocols are values that implement [`Protocol`], a
//! [`Node`] seals, admits and demultiplexes for them, and the simulator and the network driver both
//! host a `Node`. It names nothing of ours.
//!
//! - [`id`], [`time`], [`rng`], [`service`], [`event`]: the words that every other crate uses.
//! - [`protocol`] and [`transmit`]: the contract of an endpoint (sans-IO: bytes and times in, bytes
//!   and times out).
//! - [`node`] and [`seal`]: authenticated datagrams, replay windows, admission of peers.
//! - [`settings`](mod@settings): lists of settings, from which files are read and documents
//!   written.
//! - [`wire`]: bounds-checked cursors and the prefix of every datagram.
//! - [`mech`]: receive windows, delivery in one order, the end of a configuration, peers, send
//!   queues, timers.
//! - [`family`] and [`contract`]: protocols by name, and what their histories are judged by.
//! - [`instrument`]: what experiments do with a protocol beyond its contract.
//! - [`status`]: how a protocol is doing, whichever it is.
//! - [`text`]: text of foreign origin, made safe to print.
//! - [`trace`]: what an observer of a member sees; the checker's only input.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod contract;
pub mod event;
pub mod family;
pub mod id;
pub mod instrument;
pub mod mech;
pub mod node;
pub mod protocol;
pub mod rng;
pub mod seal;
pub mod service;
pub mod settings;
pub mod status;
pub mod text;
pub mod time;
pub mod trace;
pub mod transmit;
pub mod wire;

pub use contract::Contract;
pub use event::{Account, Configuration, ConfigurationKind, Delivery, Event, Gap, OrderPlace};
pub use family::Family;
pub use id::{ConfigId, Incarnation, MemberId, MessageId, NodeId};
pub use instrument::Instrumented;
pub use node::Node;
pub use protocol::{Ordered, Protocol, SubmitError, Uplink};
pub use rng::Rng;
pub use service::Service;
pub use status::GroupStatus;
pub use time::Time;
pub use transmit::{Destination, SocketClass, Transmit, TransmitBuf};
