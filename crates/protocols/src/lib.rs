//! The protocols of groupcast as sans-IO state machines, one folder each.
//!
//! - [`bulk`]: one stream to many receivers under four policies of acknowledgement (001).
//! - [`compared`]: policies of bulk transfers for comparison alone (003 ch. 3).
//! - [`connections`]: messages over standing connections of bulk transfers.
//! - `example` (feature `example`): the protocol of `docs/write-a-protocol.md`.
//! - [`flood`]: bare multicast, for comparison.
//! - [`gossip`]: Bimodal Multicast, Pbcast with all its variants (004).
//! - [`managed`]: bulk transfers with group management beside them, as one value.
//! - [`mtp`]: order by the tokens of a master (000 ch. 4), for comparison.
//! - [`napp`]: receivers that overhear each other, and poll (003 3.3.4), for comparison.
//! - [`packing`]: several messages in a packet, and one in several: the records of ordered engines.
//! - [`relay`]: what passes a bulk transfer on into another group, and the accounts of who got it.
//! - [`ring`]: the accelerated token ring with Totem's membership and Extended Virtual Synchrony
//!   (002).
//! - [`rmp`]: the Reliable Multicast Protocol, whose token site rotates (000 ch. 8).
//! - [`srm`]: scalable reliable multicast, with fixed and adaptive timers (004 5.4).
//! - [`total`]: total order on top of gossip, the inverted stack (004 3.3).
//! - [`unordered`]: what ordered engines send without a place.
//! - [`vmtp`]: requests to a group, whose responses acknowledge them (003 3.3.2), for comparison.
//! - [`windowed`]: a window that all acknowledge, and no view change (004 4.4), for comparison.
//! - [`xgm`]: group management beside a transport: subgroups, and who is there (003 4.5).
//!
//! Every protocol is a value that implements [`groupcast_core::Protocol`]; [`registry`] lists them,
//! and whatever wants "all protocols" (swarm, fuzzers, conformance tests) goes through it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bulk;
pub mod channel;
pub mod compared;
pub mod connections;
#[cfg(feature = "example")]
pub mod example;
pub mod flood;
pub mod gossip;
pub mod managed;
pub mod mtp;
pub mod napp;
pub mod packing;
pub mod planted;
pub mod registry;
pub mod relay;
pub mod ring;
pub mod rmp;
pub mod srm;
pub mod total;
pub mod unordered;
pub mod vmtp;
pub mod windowed;
pub mod xgm;
