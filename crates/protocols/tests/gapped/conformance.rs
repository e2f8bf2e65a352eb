//! Gossip groups in the simulator: every variant, every first phase, joining and leaving, parts
//! that meet again, views that are samples, zones. Goal: whoever stays accounts for every message,
//! and nearly all are delivered. Method: the judge reads along, and a cluster runs until every
//! message is delivered or reported.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use groupcast_check::Contract;
use groupcast_core::{MessageId, Service};
use groupcast_protocols::gossip::{
    Dissemination, Gossip, GossipConfig, HashConfig, Hierarchy, Variant,
};
use groupcast_sim::{Cluster, ClusterConfig};

const SECOND: Duration = Duration::from_secs(1);

/// A started group of `hosts` that had two seconds to find each other; `settings` are each host's.
fn group(
    hosts: usize,
    seed: u64,
    settings: impl Fn(u64) -> GossipConfig + Send + Sync + 'static,
) -> Cluster<Gossip> {
    on(ClusterConfig::new(hosts, seed), settings)
}

fn on(
    config: ClusterConfig,
    settings: impl Fn(u64) -> GossipConfig + Send + Sync + 'static,
) -> Cluster<Gossip> {
    let config = ClusterConfig {
        contract: Contract::Gapped,
        ..config
    };
    let mut cluster = Cluster::started(config, move |member, rng, now| {
        // Host 0 is node 1.
        Gossip::new(settings(member.node.0 - 1), member, rng, now).unwrap()
    });
    cluster.run_for(2 * SECOND);
    cluster
}

/// Each of `senders` sends a message every 10 ms, `count` times.
fn load(cluster: &mut Cluster<Gossip>, senders: &[usize], count: usize) -> Vec<MessageId> {
    let mut sent = Vec::new();
    for _ in 0..count {
        for sender in senders {
            let payload = Bytes::from_static(&[7; 200]);
            sent.push(cluster.submit(*sender, Service::Fifo, payload).unwrap());
        }
        cluster.run_for(Duration::from_millis(10));
    }
    sent
}

/// All who live account for `sent`. The share that they deliver.
fn settle(cluster: &mut Cluster<Gossip>, sent: &[MessageId]) -> f64 {
    let alive: Vec<usize> = cluster.alive().collect();
    let mut open: Vec<(usize, MessageId)> = alive
        .iter()
        .flat_map(|host| sent.iter().map(|id| (*host, *id)))
        .collect();
    let all = open.len();
    cluster.must(
        "everybody delivers or reports everything",
        |cluster| {
            open.retain(|(host, id)| !cluster.has_accounted_for(*host, *id));
            open.is_empty()
        },
        10 * SECOND,
    );
    cluster.check();
    let lost: u64 = alive
        .iter()
        .flat_map(|host| cluster.gaps(*host))
        .map(|gap| gap.last - gap.first + 1)
        .sum();
    1.0 - lost as f64 / all as f64
}

#[test]
fn every_variant_repairs_the_losses_of_several_senders() {
    let hash = HashConfig {
        bufferers: 8,
        ..HashConfig::default()
    };
    let variants = [
        (Variant::Basic, None),
        (Variant::Ipmc, None),
        (Variant::Grb, None),
        (Variant::Local, None),
        (Variant::Ipmc, Some(hash)),
    ];
    for (variant, hash) in variants {
        let name = format!("{variant:?}, hash {}", hash.is_some());
        let mut cluster = group(12, 1, move |_| GossipConfig {
            variant,
            hash: hash.clone(),
            ..GossipConfig::lan()
        });
        cluster.set_loss(0.1);
        let sent = load(&mut cluster, &[0, 5, 9], 60);
        let delivered = settle(&mut cluster, &sent);
        assert!(delivered > 0.995, "{name}: {delivered}");
    }
}

#[test]
fn without_multicast_messages_spread_along_trees() {
    let config = ClusterConfig {
        multicast: false,
        ..ClusterConfig::new(12, 2)
    };
    let mut cluster = on(config, |_| GossipConfig {
        dissemination: Dissemination::Trees {
            trees: 8,
            arity: 2,
            seed: 5,
        },
        ..GossipConfig::lan()
    });
    let sent = load(&mut cluster, &[3], 100);
    assert_eq!(settle(&mut cluster, &sent), 1.0);
    let busiest = (0..12)
        .map(|host| cluster.counters(host).sealed)
        .max()
        .unwrap();
    // A mesh would have its sender seal 11 copies of each; in a tree nobody passes on more than
    // three.
    assert!(busiest < 100 * 5, "{busiest}");
}

#[test]
fn members_that_pause_do_not_hold_back_the_others() {
    let mut cluster = group(12, 3, |_| GossipConfig::lan());
    for host in [9, 10, 11] {
        cluster.pause(host);
    }
    let sent = load(&mut cluster, &[0], 300);
    cluster.run_for(SECOND / 10);
    for host in 0..9 {
        assert!(sent.iter().all(|id| cluster.has_delivered(host, *id)));
    }
    for host in [9, 10, 11] {
        cluster.resume(host);
    }
    settle(&mut cluster, &sent);
}

#[test]
fn who_joins_a_running_group_takes_part_from_then_on() {
    let mut cluster = group(6, 4, |_| GossipConfig::lan());
    cluster.crash(5);
    let early = load(&mut cluster, &[0], 200);
    cluster.start(5);
    cluster.run_for(2 * SECOND);
    let late = load(&mut cluster, &[0, 5], 50);
    assert_eq!(settle(&mut cluster, &late), 1.0);
    assert!(!cluster.has_accounted_for(5, early[0]));
    assert!(cluster.gaps(5).is_empty());
    assert_eq!(cluster.protocol(5).unwrap().view().count(), 5);
}

#[test]
fn who_leaves_is_gone_from_all_views_and_its_messages_stay() {
    let mut cluster = group(6, 5, |_| GossipConfig::lan());
    let sent = load(&mut cluster, &[2], 20);
    let leaver = cluster.member(2).unwrap();
    cluster.leave(2);
    cluster.run_for(3 * SECOND);
    assert!(!cluster.is_alive(2));
    assert_eq!(settle(&mut cluster, &sent), 1.0);
    for host in [0, 1, 3, 4, 5] {
        assert!(
            cluster
                .protocol(host)
                .unwrap()
                .view()
                .all(|it| it != leaver)
        );
    }
}

#[test]
fn parts_that_lost_each_other_meet_again() {
    let mut cluster = group(8, 6, |_| GossipConfig {
        fail_rounds: 30,
        ..GossipConfig::lan()
    });
    cluster.partition(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]);
    let apart = load(&mut cluster, &[0, 4], 100);
    cluster.run_for(15 * SECOND);
    for host in 0..8 {
        assert_eq!(cluster.protocol(host).unwrap().view().count(), 3);
    }
    cluster.heal();
    cluster.run_for(30 * SECOND);
    let together = load(&mut cluster, &[0, 4], 50);
    let all: Vec<MessageId> = apart.into_iter().chain(together.iter().copied()).collect();
    settle(&mut cluster, &all);
    for host in 0..8 {
        assert!(together.iter().all(|id| cluster.has_delivered(host, *id)));
        assert_eq!(cluster.protocol(host).unwrap().view().count(), 7);
    }
}

#[test]
fn nobody_needs_to_know_the_whole_group() {
    let mut cluster = group(60, 7, |_| GossipConfig {
        view_max: 10,
        sub_gsize: 2,
        ..GossipConfig::lan()
    });
    cluster.set_loss(0.1);
    let sent = load(&mut cluster, &[0, 30], 40);
    let delivered = settle(&mut cluster, &sent);
    assert!(delivered > 0.995, "{delivered}");
    let longest = (0..60)
        .map(|host| cluster.protocol(host).unwrap().view().count())
        .max();
    assert_eq!(longest, Some(10));
}

/// Datagrams between the two halves of 16 hosts, each a zone, in ten seconds of a light load.
fn crossing(hierarchy: bool) -> u64 {
    let mut cluster = group(16, 8, move |host| GossipConfig {
        zone: u32::from(host >= 8),
        hierarchy: hierarchy.then_some(Hierarchy {
            link: host % 8 == 0,
            remote_every: 1,
        }),
        ..GossipConfig::lan()
    });
    let crossed = Rc::new(Cell::new(0));
    let counter = Rc::clone(&crossed);
    cluster.drop_all(move |datagram| {
        if (datagram.from < 8) != (datagram.to < 8) {
            counter.set(counter.get() + 1);
        }
        false
    });
    cluster.set_loss(0.05);
    let sent = load(&mut cluster, &[1], 100);
    cluster.run_for(9 * SECOND);
    assert!(settle(&mut cluster, &sent) > 0.99);
    // One of a hundred messages crosses to each of eight anyway.
    crossed.get() - 800
}

#[test]
fn a_hierarchy_at_least_halves_what_crosses_between_zones() {
    let (flat, zoned) = (crossing(false), crossing(true));
    assert!(zoned * 2 <= flat, "{zoned} against {flat}");
}
