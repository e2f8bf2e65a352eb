//! A deterministic discrete-event network in which the very same protocol code runs.
//!
//! The simulator hosts a [`Node`](groupcast_core::Node) a host, as the network driver does, and
//! names no protocol: it takes any [`Ordered`](groupcast_core::Ordered). A world follows from its
//! seed alone; the same seed twice gives the same [trace hash](Cluster::trace_hash).
//!
//! - [`Cluster`]: a group of hosts for tests: submit, crash, pause, partition, look, judge.
//! - [`explore`]: every schedule of a small group, where the swarm draws some.
//! - [`swarm`]: seeds by the thousand, with random faults, judged for safety and for liveness.
//! - [`link`]: links, switch buffers, shared Ethernet and IP for worlds of many hops.
//! - [`flow`]: TCP-like flows that share links with the protocol.
//! - [`topology`]: networks of many hops: their shapes, routes and multicast trees.
//! - [`measure`]: what a world comes to, in numbers; [`source`]: who sends what, and when.
//! - [`network`]: the switch, its links, and what goes wrong on them.
//! - [`engine`]: the agenda and the virtual clock.
//! - [`seal`]: a fake sealer with the size and the rules of the real one.

mod adversary;
mod clock;
mod cluster;
pub mod engine;
pub mod experiment;
pub mod explore;
mod exponential;
pub mod fabric;
pub mod flow;
pub mod host;
pub mod link;
pub mod measure;
pub mod network;
mod record;
pub mod seal;
#[cfg(test)]
mod sequencer;
pub mod source;
pub mod swarm;
pub mod topology;
mod trace;
mod world;

pub use adversary::AdversaryConfig;
pub use clock::ClockRate;
pub use cluster::{Cluster, ClusterConfig};
pub use host::config::HostConfig;
pub use host::{HostLoad, Status};
pub use network::{Block, DatagramInfo, NetworkConfig};
pub use trace::{Trace, TraceLevel};
pub use world::{Factory, RecordedTransition};
