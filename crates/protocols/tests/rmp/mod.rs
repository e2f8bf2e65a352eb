//! Scenarios of RMP in the simulator, one behaviour a file.

mod arrivals;
mod faults;
mod figures;
mod heard;
mod insiders;
mod joining;
mod lasting;
mod liars;
mod newcomers;
mod order;
mod reforming;
mod seeds;
mod services;

use std::ops::Range;
use std::time::Duration;

use groupcast_core::{Instrumented, MemberId, Rng, Time};
use groupcast_protocols::rmp::{FAMILY, Rmp, RmpConfig};
use groupcast_sim::{Cluster, ClusterConfig};

/// `hosts` hosts with these settings, of which none runs.
fn not_started(hosts: usize, seed: u64, config: RmpConfig) -> Cluster<Rmp> {
    let build = move |member, rng, now| {
        Rmp::new(config.clone(), member, rng, now).expect("the settings are valid")
    };
    let judged = ClusterConfig {
        contract: FAMILY.contract,
        ..ClusterConfig::new(hosts, seed)
    };
    Cluster::new(judged, build)
}

/// Of `hosts` hosts those of `started` run with these settings, in one configuration.
fn with_started(hosts: usize, started: Range<usize>, seed: u64, config: RmpConfig) -> Cluster<Rmp> {
    let mut cluster = not_started(hosts, seed, config);
    for host in started {
        cluster.start(host);
    }
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        Duration::from_secs(3),
    );
    cluster
}

/// A cluster of `hosts` members with these settings, in one configuration.
fn with_config(hosts: usize, seed: u64, config: RmpConfig) -> Cluster<Rmp> {
    with_started(hosts, 0..hosts, seed, config)
}

/// The same with the default settings.
fn formed(hosts: usize, seed: u64) -> Cluster<Rmp> {
    with_config(hosts, seed, RmpConfig::lan())
}

/// A member with the default settings, for groups whose members are of several kinds.
fn honest(member: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    Box::new(Rmp::new(RmpConfig::lan(), member, rng, now).expect("the settings are valid"))
}
