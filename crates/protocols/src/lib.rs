//! The protocols of groupcast as sans-IO state machines, one folder each.
//!
//! - [`bulk`]: one stream to many receivers under four policies of acknowledgement (001).
//! - [`flood`]: bare multicast, for comparison.
//! - [`ring`]: the accelerated token ring with Totem's membership and Extended Virtual Synchrony (002).
//!
//! Every protocol is a value that implements [`groupcast_core::Protocol`]; [`registry`] lists them, and whatever wants
//! "all protocols" (swarm, fuzzers, conformance tests) goes through it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bulk;
pub mod flood;
pub mod registry;
pub mod ring;
