//! Goal: the number of multicasts a message that 000 ch. 8 states, and what several packets an ACK
//! make of it. Method: all hosts send as fast as the window lets them; counters.

use std::time::Duration;

use groupcast_core::status::GroupStatus;
use groupcast_core::{Ordered, Service};
use groupcast_protocols::rmp::{FAMILY, OrderRule, Rmp, RmpConfig};
use groupcast_sim::{Cluster, ClusterConfig};

use super::with_config;
use crate::all_have;

/// Multicasts for each packet, of `hosts` hosts that all send.
fn multicasts_a_packet(hosts: usize, config: RmpConfig) -> f64 {
    let mut cluster = with_config(hosts, 51, config);
    let count = |cluster: &Cluster<Rmp>| {
        let (mut packets, mut all) = (0, 0);
        for host in 0..hosts {
            let counters = cluster.protocol(host).expect("it runs").status().counters;
            packets += counters.packets_sent;
            all += counters.packets_sent + counters.packets_again;
            all += counters.acks_sent + counters.acks_again;
            all += counters.settles_sent + counters.nacks_sent;
        }
        (packets, all)
    };
    let before = count(&cluster);
    let mut ids = Vec::new();
    for host in 0..hosts {
        for _ in 0..400 {
            let payload = vec![1; 1_300];
            let id = cluster.submit(host, Service::Agreed, payload);
            ids.push(id.expect("there is room"));
        }
    }
    let limit = Duration::from_secs(60);
    cluster.must("everywhere", |it| all_have(it, &ids), limit);
    cluster.check();
    let after = count(&cluster);
    (after.1 - before.1) as f64 / (after.0 - before.0) as f64
}

#[test]
fn one_packet_an_ack_takes_two_multicasts_a_message() {
    let config = RmpConfig {
        ack_packets_max: 1,
        order: OrderRule::Heard,
        ..RmpConfig::lan()
    };
    let multicasts = multicasts_a_packet(4, config);
    assert!((1.9..2.1).contains(&multicasts), "{multicasts}");
}

#[test]
fn several_packets_an_ack_take_fewer() {
    let heard = RmpConfig {
        order: OrderRule::Heard,
        ..RmpConfig::lan()
    };
    let multicasts = multicasts_a_packet(8, heard);
    assert!(multicasts < 1.3, "{multicasts}");
    let multicasts = multicasts_a_packet(8, RmpConfig::lan());
    assert!(
        multicasts < 1.4,
        "with the sender's word for its order: {multicasts}"
    );
}

/// What a member tells of its passes of the token, in a group whose hosts are `delay` apart.
fn passes(delay: Duration) -> GroupStatus {
    let build = |member, rng, now| {
        Rmp::new(RmpConfig::daemon(), member, rng, now).expect("the preset is valid")
    };
    let mut config = ClusterConfig {
        contract: FAMILY.contract,
        ..ClusterConfig::new(3, 5)
    };
    config.network.latency = delay;
    let mut cluster = Cluster::started(config, build);
    super::come_together(&mut cluster, Duration::from_secs(20));
    cluster.run_for(Duration::from_secs(10));
    Ordered::status(cluster.protocol(0).expect("it runs"))
}

/// Copies are sent before a sign from so far away can be there, and what was sent again is no
/// measure of a round trip.
#[test]
fn passes_for_which_the_time_outs_are_too_short_are_counted_and_timed() {
    let near = passes(Duration::from_millis(5));
    assert_eq!(near.rounds_slow, 0);
    assert!(near.round >= Duration::from_millis(10), "{:?}", near.round);
    let far = passes(Duration::from_millis(40));
    assert!(far.rounds_slow > 10, "{}", far.rounds_slow);
    assert!(far.round >= Duration::from_millis(80), "{:?}", far.round);
    assert_eq!(far.round_max, RmpConfig::daemon().silence_max);
}
