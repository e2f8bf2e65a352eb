//! Scenarios of the ring in the simulator, one behaviour a file.

mod calls;
mod doze;
mod faults;
mod forming;
mod hearing;
mod insiders;
mod lasting;
mod leaving;
mod liars;
mod obligations;
mod ordering;
mod presets;
mod resilience;
mod rest;
mod room;
mod sizes;
mod traps;

use std::time::Duration;

use groupcast_core::{Instrumented, MemberId, Rng, Time};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::{Cluster, ClusterConfig};

/// A started cluster of `hosts` rings with the default settings.
fn cluster(hosts: usize, seed: u64) -> Cluster<Ring> {
    with_config(hosts, seed, RingConfig::lan())
}

/// A started cluster of `hosts` rings with these settings.
fn with_config(hosts: usize, seed: u64, config: RingConfig) -> Cluster<Ring> {
    Cluster::started(ClusterConfig::new(hosts, seed), move |member, rng, now| {
        Ring::new(config.clone(), member, rng, now).expect("the settings are valid")
    })
}

/// A started cluster in which all hosts have formed one ring.
fn formed(hosts: usize, seed: u64) -> Cluster<Ring> {
    let mut cluster = cluster(hosts, seed);
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_secs(2),
    );
    cluster
}

/// A member with the default settings, for groups whose members are of several kinds.
fn honest(member: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    Box::new(Ring::new(RingConfig::lan(), member, rng, now).expect("the settings are valid"))
}
