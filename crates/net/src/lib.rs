//! UDP multicast on Linux, hosting a [`Node`](groupcast_core::Node).
//!
//! The [`Endpoint`] owns the sockets, the clock and the loop, and drives any
//! [`Protocol`](groupcast_core::Protocol) by times and bytes; it names none. Datagrams are sealed
//! by an [`AesGcmSealer`] at the node's edge. IPv4; one interface. What it deliberately leaves to
//! others: clients, signals and configuration files (the daemon), and everything that a protocol
//! decides. `docs/network.md` describes ports, buffers, offload and keys for operators.
//!
//! - [`endpoint`]: the loop: wait, read by priority, timers, send.
//! - [`Endpoint::builder`]: the one way to open an endpoint, with its sockets, seal and node.
//! - [`config`]: how the group is reached, buffers, offload; [`choose_interface`]: where multicasts
//!   leave the host.
//! - [`key`] and [`seal`]: the cluster's key, and AES-GCM with what is derived from it.
//! - [`clock`], [`counters`], [`error`]: the time of the protocols, what is counted, why opening
//!   fails.
//! - [`raw`]: the bare multicast path, for measurements.
//!
//! ```no_run
//! use std::net::SocketAddrV4;
//! use std::path::Path;
//! use std::time::Duration;
//!
//! use groupcast_core::node::Channel;
//! use groupcast_core::{MemberId, Protocol};
//! use groupcast_net::{Endpoint, EndpointConfig, Key, Sealing, new_member};
//! use mio::{Interest, Token};
//!
//! /// The loop of a daemon with one listener for clients.
//! fn serve<P: Protocol<Event: std::fmt::Debug>>(
//!     listen: SocketAddrV4,
//!     group: SocketAddrV4,
//!     new_protocol: impl FnOnce(MemberId) -> P,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let config = EndpointConfig::multicast(listen, group);
//!     let key = Key::load(Path::new("/etc/groupcast/cluster.key"))?;
//!     let local = new_member("host-1")?;
//!     let mut endpoint = Endpoint::builder(config, local, Sealing::Key(key)).open()?;
//!     endpoint.node_mut().open(Channel::SOLE, new_protocol(local));
//!     if let Some(warning) = endpoint.receive_buffer().warning() {
//!         tracing::warn!("{warning}");
//!     }
//!     let mut clients = mio::net::UnixListener::bind("/run/groupcast.sock")?;
//!     endpoint.registry().register(&mut clients, Token(0), Interest::READABLE)?;
//!
//!     let mut ready = Vec::new();
//!     loop {
//!         // Some(Duration::ZERO) instead, while the clients' side has work left.
//!         endpoint.turn(Some(Duration::from_secs(1)), &mut ready)?;
//!         for (token, readiness) in ready.drain(..) {
//!             // Serve the client: accept, read, `endpoint.node_mut().instance_mut(Channel::SOLE)` and submit.
//!             println!("{token:?} is {readiness:?}");
//!         }
//!         while let Some((channel, event)) = endpoint.node_mut().poll_event() {
//!             println!("{channel:?}: {event:?}");
//!         }
//!         while endpoint.node_mut().poll_transition().is_some() {}
//!     }
//! }
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!("groupcast-net needs Linux: it uses its UDP offload, epoll and multicast options");

pub mod clock;
pub mod config;
pub mod counters;
pub mod endpoint;
pub mod error;
mod interface;
pub mod key;
mod open;
pub mod process;
#[allow(unsafe_code)]
pub mod raw;
mod receive;
mod report;
pub mod seal;
mod send;
mod settings;
mod socket;
#[allow(unsafe_code)]
mod sys;
pub mod tcp;
mod uplink;
mod wait;

pub use clock::Clock;
pub use config::{EndpointConfig, Group, Spin};
pub use counters::{Counters, ReceiveCounters, SendCounters};
pub use endpoint::{Endpoint, Filter, Moved};
pub use error::NetError;
pub use interface::{InterfaceChoice, choose_interface, default_interface, interface_named};
pub use key::{Key, KeyError, open_regular, random_u64};
pub use open::{EndpointBuilder, Sealing, new_member};
pub use report::Stranger;
pub use seal::{AesGcmSealer, InsecureSealer, Purpose};
pub use socket::{BufferReport, probe_multicast};
pub use wait::Readiness;
