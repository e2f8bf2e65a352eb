//! Goal: members whose ways carry datagrams of different sizes hand every message over as it was
//! sent. Method: settings per member, messages of many packets, loss, so that packets are sent
//! again beside new ones.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Rng, Service};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::{Cluster, ClusterConfig};

/// A ring in which the members have these sizes of datagrams, in turn.
fn formed_with(sizes: &'static [usize], hosts: usize, seed: u64) -> Cluster<Ring> {
    let factory = move |member: groupcast_core::MemberId, rng, now| {
        let body_max = sizes[member.node.0 as usize % sizes.len()];
        let config = RingConfig {
            body_max,
            ..RingConfig::lan()
        };
        Ring::new(config, member, rng, now).expect("the settings are valid")
    };
    let mut cluster = Cluster::started(ClusterConfig::new(hosts, seed), factory);
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_secs(2),
    );
    cluster
}

/// Messages of one to thirty packets from all members under loss: the checker compares what was
/// delivered with what was sent.
fn load(cluster: &mut Cluster<Ring>, messages: u64, seed: u64) {
    let mut random = Rng::new(seed);
    cluster.set_loss(0.03);
    for number in 0..messages {
        let len = random.range(100..40_000) as usize;
        let payload: Vec<u8> = (0..len)
            .map(|index| (index as u64 * 7 + number) as u8)
            .collect();
        let host = number as usize % cluster.hosts();
        cluster
            .submit(host, Service::Agreed, Bytes::from(payload))
            .expect("there is room");
        cluster.run_for(Duration::from_micros(random.range(0..1_500)));
    }
    cluster.heal();
    cluster.must(
        "everything is delivered everywhere",
        |cluster| {
            let all = |host| cluster.deliveries(host).len() as u64 == messages;
            (0..cluster.hosts()).all(all)
        },
        Duration::from_secs(5),
    );
}

#[test]
fn members_with_different_sizes_deliver_what_was_sent() {
    let mixtures: [&'static [usize]; 3] = [&[1431, 1381, 1351], &[1431, 1423], &[1431, 1300]];
    for (seed, sizes) in (50..).zip(mixtures) {
        let mut cluster = formed_with(sizes, 4, seed);
        load(&mut cluster, 150, seed);
        cluster.check();
    }
}
