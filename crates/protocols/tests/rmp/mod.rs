//! Scenarios of RMP in the simulator, one behaviour a file.

mod arrivals;
mod faults;
mod figures;
mod heard;
mod hearing;
mod hinderers;
mod insiders;
mod joining;
mod lasting;
mod liars;
mod misled;
mod newcomers;
mod order;
mod pollers;
mod reforming;
mod seeds;
mod services;
mod sizes;
mod splitters;

use std::ops::Range;
use std::time::Duration;

use groupcast_core::{Contract, Instrumented, MemberId, Rng, Service, Time};
use groupcast_protocols::rmp::{FAMILY, Rmp, RmpConfig};
use groupcast_sim::{Cluster, ClusterConfig};

use crate::all_have;

/// `hosts` hosts with these settings, of which none runs; their histories are judged by `contract`.
fn judged_by(contract: Contract, hosts: usize, seed: u64, config: RmpConfig) -> Cluster<Rmp> {
    let build = move |member, rng, now| {
        Rmp::new(config.clone(), member, rng, now).expect("the settings are valid")
    };
    let judged = ClusterConfig {
        contract,
        ..ClusterConfig::new(hosts, seed)
    };
    Cluster::new(judged, build)
}

/// The same by the contract of the family.
fn not_started(hosts: usize, seed: u64, config: RmpConfig) -> Cluster<Rmp> {
    judged_by(FAMILY.contract, hosts, seed, config)
}

/// Starts these hosts, which come together.
fn start(cluster: &mut Cluster<Rmp>, hosts: Range<usize>) {
    for host in hosts {
        cluster.start(host);
    }
    come_together(cluster, Duration::from_secs(3));
}

/// All who live are in one configuration within `limit`.
fn come_together(cluster: &mut Cluster<Rmp>, limit: Duration) {
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        limit,
    );
}

/// One configuration of all who live, in which each one's message reaches all.
fn progress(cluster: &mut Cluster<Rmp>) {
    let limit = Duration::from_secs(10);
    come_together(cluster, limit);
    let alive: Vec<usize> = cluster.alive().collect();
    let probes = alive
        .iter()
        .map(|host| cluster.submit(*host, Service::Safe, "probe"));
    let probes: Vec<_> = probes.map(|id| id.expect("there is room")).collect();
    cluster.must("probes", |it| all_have(it, &probes), limit);
}

/// Of `hosts` hosts those of `started` run with these settings, in one configuration.
fn with_started(hosts: usize, started: Range<usize>, seed: u64, config: RmpConfig) -> Cluster<Rmp> {
    let mut cluster = not_started(hosts, seed, config);
    start(&mut cluster, started);
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

/// A poll of an insider, who wants some members in its configuration and says that it has heard
/// some (`docs/rmp.md`).
fn poll(attempt: u64, counter: u64, wanted: &[MemberId], heard: &[MemberId]) -> Vec<u8> {
    let mut body = vec![39];
    body.extend(attempt.to_be_bytes());
    body.extend(counter.to_be_bytes());
    for members in [wanted, &[], &[], heard] {
        body.extend((members.len() as u16).to_be_bytes());
        members.iter().for_each(|it| put_member(&mut body, *it));
    }
    body
}

fn put_member(body: &mut Vec<u8>, member: MemberId) {
    body.extend(member.node.0.to_be_bytes());
    body.extend(member.incarnation.0.to_be_bytes());
}
