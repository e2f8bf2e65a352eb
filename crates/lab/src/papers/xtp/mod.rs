//! 003: XTP's multicast, the Multidriver and the List-Based Multidriver (ch. 3 and 5).
//!
//! The policies are those of `groupcast_protocols::bulk`, run by its `Messages`. A row has a file
//! of its own: its points, what is measured, the judge and the drawing.
//!
//! - `damping`: how many answers a request brings (3.3.3). `bucket`: receivers whose answers come
//!   too late (3.3.3, 4.2).
//! - `transfer`: a transfer over the token ring of 5.5, `machines` what it costs 003's machines.
//!   `latency`: Tables 5.1 to 5.3. `files`: Tables 5.4 to 5.7.
//! - `compare`: the policies beside each other, and NAPP, VMTP and MTP (ch. 3, 6.2).
//! - `transcript`: Fig. 5.2 and a prune (5.4), datagram by datagram.
//! - `stage`: a network in which a row decides on single datagrams.
//!
//! What does not come out, and why:
//! - Table 5.1–5.3: the list-based line is not below the Multidriver's at five receivers. 003 says
//!   what it costs more (contexts are opened and closed for each tag) and nothing that it costs
//!   less. The Multidriver is ahead of unicasts from five receivers on, not from six: a further
//!   reply costs its sender less here than there.
//! - Table 5.6: to one receiver the gain over unicast is stable; to two it is larger from the fast
//!   sender, because 003 measured with other receivers there. To the same ones it is stable.

mod bucket;
mod compare;
mod damping;
mod files;
mod latency;
mod machines;
mod stage;
#[cfg(test)]
mod tests;
mod transcript;
mod transfer;

use self::bucket::BucketPoint;
use self::compare::ComparePoint;
use self::damping::DampingPoint;
pub use self::transcript::{FIG2, PRUNE};
use self::transfer::RingPoint;
use super::LabHost;
use super::figure::Figure;

/// Answers to a request.
pub const DAMPING: Figure<DampingPoint> = Figure {
    title: "Answers to a request: none, damping, slotting, both",
    hosts: &[LabHost::Sim],
    seeds: 1..4,
    plan: damping::plan,
    sweep: None,
    judge: damping::judge,
    draw: damping::draw,
};

/// Early release.
pub const BUCKET: Figure<BucketPoint> = Figure {
    title: "Answers that come when their bucket was acted on",
    hosts: &[LabHost::Sim],
    seeds: 1..6,
    plan: bucket::plan,
    sweep: None,
    judge: bucket::judge,
    draw: bucket::draw,
};

/// Messages of a byte.
pub const TABLE1: Figure<RingPoint> = Figure {
    title: "1-byte messages to 1 to 12 receivers",
    hosts: &[LabHost::Sim],
    seeds: 1..4,
    plan: latency::plan,
    sweep: None,
    judge: latency::judge,
    draw: latency::draw,
};

/// A file, list-based and by unicast.
pub const TABLE4: Figure<RingPoint> = Figure {
    title: "500 KB to 1 to 5 receivers, list-based and by sequential unicast",
    hosts: &[LabHost::Sim],
    seeds: 1..4,
    plan: files::table4,
    sweep: Some(files::table4_others),
    judge: files::judge4,
    draw: files::draw4,
};

/// A fast sender.
pub const TABLE6: Figure<RingPoint> = Figure {
    title: "500 KB from a fast sender to slow receivers",
    plan: files::table6,
    sweep: Some(files::table6_others),
    judge: files::judge6,
    draw: files::draw6,
    ..TABLE4
};

/// The two Multidrivers.
pub const TABLE7: Figure<RingPoint> = Figure {
    title: "500 KB by the Multidriver and list-based",
    plan: files::table7,
    sweep: Some(files::table7_others),
    judge: files::judge7,
    draw: files::draw7,
    ..TABLE4
};

/// The policies beside each other.
pub const COMPARE: Figure<ComparePoint> = Figure {
    title: "Policies beside each other, 2 to 200 receivers",
    hosts: &[LabHost::Sim],
    seeds: 1..4,
    plan: compare::plan,
    sweep: None,
    judge: compare::judge,
    draw: compare::draw,
};
