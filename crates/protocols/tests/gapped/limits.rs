//! Gossip with tables and buffers that are too small for its load. Goal: what does not fit costs
//! repairs and gaps, but no promise: nothing twice, nothing behind what was delivered, nothing
//! missing in silence. Method: the judge reads along, and what is lost is counted.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use groupcast_check::Contract;
use groupcast_core::{Service, SocketClass};
use groupcast_protocols::gossip::{Gossip, GossipConfig, Variant};
use groupcast_sim::{Cluster, ClusterConfig};

const SECOND: Duration = Duration::from_secs(1);

fn group(hosts: usize, seed: u64, settings: GossipConfig) -> Cluster<Gossip> {
    let config = ClusterConfig {
        contract: Contract::Gapped,
        keep_payloads: false,
        ..ClusterConfig::new(hosts, seed)
    };
    let mut cluster = Cluster::started(config, move |member, rng, now| {
        Gossip::new(settings.clone(), member, rng, now).unwrap()
    });
    cluster.run_for(2 * SECOND);
    cluster
}

/// More senders than a member can follow, and views that know few of them: streams are forgotten
/// and met again.
#[test]
fn a_stream_that_was_forgotten_goes_on_where_it_was() {
    for seed in 0..4 {
        let mut cluster = group(
            24,
            seed,
            GossipConfig {
                senders_max: 12,
                view_max: 6,
                ..GossipConfig::lan()
            },
        );
        cluster.set_loss(0.02);
        for turn in 0..240 {
            // A sender at a time, so that the others' streams are idle.
            let sender = turn / 5 % 24;
            cluster.submit(sender, Service::Fifo, "some bytes").unwrap();
            cluster.run_for(Duration::from_millis(if turn % 5 == 4 { 300 } else { 20 }));
        }
        cluster.run_for(5 * SECOND);
        let violations = cluster.violations(true, None);
        assert!(
            violations.is_empty(),
            "seed {seed}: {} of {violations:#?}",
            violations.len()
        );
    }
}

/// How many of the messages of a member that publishes `count` of 8 KB, 1,500 a second, are lost at
/// one that hears no gossip for `deaf` of the time.
fn lost_without_gossip(buffer_max: usize, deaf: Duration) -> u64 {
    let settings = GossipConfig {
        buffer_max,
        limit_retrans: 200,
        limit_retrans_bytes: 4 << 20,
        limit_requests: 400,
        ..GossipConfig::lan()
    };
    let mut cluster = group(3, 1, settings);
    cluster.set_loss(0.02);
    let hears = Rc::new(Cell::new(false));
    let gossip = Rc::clone(&hears);
    cluster.drop_all(move |datagram| {
        datagram.to == 2 && datagram.class == SocketClass::Control && !gossip.get()
    });
    let payload = Bytes::from_static(&[7; 8_000]);
    let began = cluster.now();
    for _ in 0..3_000 {
        hears.set(cluster.now() - began > deaf);
        cluster.submit(0, Service::Fifo, payload.clone()).unwrap();
        cluster.run_for(Duration::from_micros(660));
    }
    hears.set(true);
    cluster.run_for(5 * SECOND);
    let violations = cluster.violations(true, None);
    assert!(violations.is_empty(), "{violations:#?}");
    cluster
        .gaps(2)
        .iter()
        .map(|gap| gap.last - gap.first + 1)
        .sum()
}

#[test]
fn a_full_buffer_gives_up_a_hole_and_not_all_that_follows() {
    let deaf = Duration::from_millis(600);
    let (small, large) = (
        lost_without_gossip(2 << 20, deaf),
        lost_without_gossip(256 << 20, deaf),
    );
    // 2 % of what was sent in the meantime, and not most of it.
    assert!(
        small <= large + 40,
        "{small} lost with 2 MiB, {large} with 256 MiB"
    );
}

/// Losses at a rate at which a member holds more messages than the bits of a digest could tell of.
#[test]
fn a_high_rate_does_not_switch_repairs_off() {
    let settings = GossipConfig {
        variant: Variant::Grb,
        stable_threshold: 100,
        window_max: 1 << 16,
        ..GossipConfig::lan()
    };
    let mut cluster = group(3, 2, settings);
    for batch in 0..1_300 {
        cluster.set_loss(if batch / 10 == 120 { 0.2 } else { 0.0 });
        for _ in 0..10 {
            cluster.submit(0, Service::Fifo, "x").unwrap();
        }
        cluster.run_for(Duration::from_millis(5));
    }
    cluster.set_loss(0.0);
    cluster.run_for(12 * SECOND);
    for host in [1, 2] {
        assert_eq!(cluster.gaps(host), [], "at {host}");
    }
    let repairs = cluster.protocol(0).unwrap().counters().repairs;
    assert!(repairs > 10, "{repairs} repairs");
    cluster.check();
}
