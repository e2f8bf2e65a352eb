//! Protocols that report what they miss, gossip above all, held against their promises in the simulator.
//!
//! `swarm`: random faults. `total`: one order on top of gossip.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod swarm;
mod total;
