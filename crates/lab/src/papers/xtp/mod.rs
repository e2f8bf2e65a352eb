//! 003: XTP's multicast, the Multidriver and the List-Based Multidriver (ch. 3 and 5).
//!
//! The policies are those of `groupcast_protocols::bulk`, run by its `Messages`. A row has a file of
//! its own: its points, what is measured, the judge and the drawing.
//!
//! - `damping`: how many answers a request brings (3.3.3). `bucket`: receivers whose answers come
//!   too late (3.3.3, 4.2).
//! - `stage`: a network in which a row decides on single datagrams.

mod bucket;
mod damping;
mod stage;
#[cfg(test)]
mod tests;

use self::bucket::BucketPoint;
use self::damping::DampingPoint;
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
