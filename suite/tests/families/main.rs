//! Tests every family of the registry against what its entry promises.
//!
//! `conformance`: the contract between a protocol and its host. `copies`: hosts without multicast
//! among others that have it. `swarm`: random faults, some seeds of every family. `bulk`: more
//! seeds of the family that once failed most. `corpus`: the committed inputs of the fuzz targets.
//! `explore`: every schedule of a small group. `groups`: daemons with clients. `names`: those with
//! rings that joins make. `presets`: what the
//! presets of the ring promise, in calm. `rings`: several at one host. `reach`: no family of the
//! registry is left out.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod bulk;
mod conformance;
mod copies;
mod corpus;
mod explore;
mod groups;
mod guests;
mod names;
mod presets;
mod reach;
mod rings;
mod swarm;
