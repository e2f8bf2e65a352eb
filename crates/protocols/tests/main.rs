//! The protocols in the simulator: scenarios of the ring, and protocols that report what they miss;
//! and what ordered ones do about another process with their name,
//! and for a majority.

mod closed_ways;
mod flapping;
mod gapped;
mod insider;
mod majority;
mod names;
mod queue;
mod ring;
mod rmp;

use groupcast_core::{Instrumented, MessageId};
use groupcast_sim::Cluster;

/// Whether all who live have delivered `ids`.
fn all_have<P: Instrumented>(cluster: &Cluster<P>, ids: &[MessageId]) -> bool {
    let mut alive = cluster.alive();
    alive.all(|host| ids.iter().all(|id| cluster.has_delivered(host, *id)))
}
