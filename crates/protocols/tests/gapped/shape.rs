//! Almost all or almost none (004 3.4), and what it costs at most (004 4.3.1): the protocol as it
//! is, not a model of it.
//!
//! Method: a group in which the first phase often fails wholly and gossip has few rounds; every
//! message's number of deliveries is counted. False alarms: one run in a million (the judge's
//! `Shape`), and the seeds are fixed.

use std::time::Duration;

use groupcast_check::Contract;
use groupcast_check::shape::{Counts, Shape};
use groupcast_core::{Service, SocketClass};
use groupcast_protocols::gossip::{Gossip, GossipConfig, Variant};
use groupcast_sim::{Cluster, ClusterConfig};

const HOSTS: usize = 24;
const MESSAGES: u64 = 150;

fn group(seed: u64, config: GossipConfig) -> Cluster<Gossip> {
    let cluster = ClusterConfig {
        contract: Contract::Gapped,
        keep_payloads: false,
        ..ClusterConfig::new(HOSTS, seed)
    };
    let mut cluster = Cluster::started(cluster, move |member, rng, now| {
        Gossip::new(config.clone(), member, rng, now).unwrap()
    });
    cluster.run_for(Duration::from_secs(8));
    cluster
}

fn settings(stable_threshold: u32) -> GossipConfig {
    GossipConfig {
        variant: Variant::Basic,
        sub_gsize: 1,
        stable_threshold,
        ..GossipConfig::lan()
    }
}

/// What becomes of messages of which nobody but the sender gets the first copy.
fn spread(seed: u64, stable_threshold: u32, shape: &Shape) -> Counts {
    let mut cluster = group(seed, settings(stable_threshold));
    // The first phase fails wholly: multicasts are lost, repairs, which are addressed, are not.
    cluster.drop_all(|datagram| {
        let is_addressed = datagram.bytes[16] & 0x80 != 0;
        datagram.class == SocketClass::Data && !is_addressed
    });
    let before = cluster.observations().len();
    for _ in 0..MESSAGES {
        cluster.submit(0, Service::Fifo, "small").unwrap();
        cluster.run_for(Duration::from_millis(40));
    }
    cluster.run_for(Duration::from_secs(5));
    cluster.check();
    shape.count(HOSTS, &cluster.observations()[before..])
}

const BIMODAL: Shape = Shape {
    none_max: 0.1,
    all_min: 0.9,
    between_max: 0.01,
    false_alarm: 1e-6,
};

#[test]
fn ordinary_loss_ends_at_almost_all() {
    let mut cluster = group(1, settings(10));
    let before = cluster.observations().len();
    cluster.set_loss(0.05);
    for index in 0..MESSAGES {
        cluster
            .submit(index as usize % HOSTS, Service::Fifo, "small")
            .unwrap();
        cluster.run_for(Duration::from_millis(20));
    }
    cluster.run_for(Duration::from_secs(4));
    let counts = BIMODAL.count(HOSTS, &cluster.observations()[before..]);
    assert_eq!(BIMODAL.violation(&counts), None);
    assert_eq!(counts.all, MESSAGES, "{counts:?}");
    cluster.check();
}

/// 004 Fig. 3.3's case: only the sender has the message when gossip begins.
#[test]
fn an_epidemic_from_the_sender_alone_ends_at_almost_all_or_almost_none() {
    let counts = spread(2, 14, &BIMODAL);
    assert_eq!(BIMODAL.violation(&counts), None, "{counts:?}");
    assert!(counts.all > MESSAGES * 9 / 10, "{counts:?}");
}

/// Three rounds reach a third of the group: the judge must say that this is not bimodal.
#[test]
fn an_epidemic_that_ends_on_its_way_is_not_bimodal() {
    let counts = spread(2, 3, &BIMODAL);
    assert!(BIMODAL.violation(&counts).is_some(), "{counts:?}");
}

/// 004 4.3.1: in a round a member gossips to `sub_gsize` members, each of which can lack a share p
/// of the round's messages at most, so it sends at most `sub_gsize` · p repairs a message.
#[test]
fn repairs_of_a_healthy_member_stay_below_the_bound() {
    let (p, sub_gsize) = (0.4, 2);
    let config = GossipConfig {
        sub_gsize,
        ..settings(10)
    };
    let mut cluster = group(3, config);
    let perturbed = HOSTS - HOSTS / 4..HOSTS;
    for host in perturbed.clone() {
        cluster.network().set_ingress_loss(host, p);
    }
    for _ in 0..500 {
        cluster.submit(0, Service::Fifo, "small").unwrap();
        cluster.run_for(Duration::from_millis(10));
    }
    cluster.run_for(Duration::from_secs(3));
    let bound = f64::from(sub_gsize) * p;
    let repairs = |host: usize| {
        let counters = cluster.protocol(host).unwrap().counters();
        counters.repairs as f64 / 500.0
    };
    let healthy: Vec<f64> = (1..perturbed.start).map(repairs).collect();
    assert!(
        healthy.iter().all(|repairs| *repairs < bound),
        "{healthy:?}"
    );
    // And the test is about something: there were repairs.
    assert!(healthy.iter().sum::<f64>() > 0.5, "{healthy:?}");
}
