//! Protocols that report what they miss, gossip above all, held against their promises in the
//! simulator.
//!
//! `closed_forms`: what can be computed of gossip. `conformance`: gossip's variants and settings.
//! `liars`: a member that names messages that nobody sent. `limits`: tables and buffers that are
//! too small. `newcomers`: who publishes as it starts. `shape`: almost all or almost none. `swarm`:
//! random faults. `total`: one order on top of gossip.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod closed_forms;
mod conformance;
mod liars;
mod limits;
mod newcomers;
mod shape;
mod swarm;
mod total;
