//! Links, hop by hop: what one direction of a cable, a switch's buffer, a shared Ethernet, a token
//! ring and IP do to packets.
//!
//! A [`LinkSpec`] says what a link is like and a [`LinkState`] what one direction of it is doing;
//! the fabric that joins them to a topology, and the agenda that carries their times, are
//! elsewhere. (The swarm's switch has links of its own, in [`network`](crate::network).) Nothing
//! here keeps a packet: bytes and times go in, times come out, except on a [`Bus`] and a
//! [`TokenRing`], where the order of departure is settled there and the frames must wait for it.
//!
//! - [`spec`]: bandwidth, delay, limits, what goes wrong, presets.
//! - [`state`]: one direction at work: [`LinkState::pass`] is the hot path of the simulator.
//! - [`queue`]: drop-tail limits, what waits before a link, a switch's buffer shared by its ports.
//! - [`loss`]: independent and bursty loss.
//! - [`ip`]: fragmentation of large datagrams, reassembly.
//! - [`mod@bus`]: shared Ethernet, CSMA/CD. [`token_ring`]: IEEE 802.5.
//! - [`pcap`]: a capture of what passed, for Wireshark.

pub mod bus;
pub mod ip;
pub mod loss;
pub mod pcap;
pub mod queue;
pub mod spec;
pub mod state;
#[cfg(test)]
mod tests;
pub mod token_ring;

pub use bus::{Bus, BusSpec, BusStep, Delivered};
pub use loss::Loss;
pub use pcap::Pcap;
pub use queue::{QueueLimit, SwitchBuffer};
pub use spec::{LinkSpec, SpecError};
pub use state::{Arrival, Drop, LinkCounters, LinkState, Passage};
pub use token_ring::{TokenRing, TokenRingSpec};
