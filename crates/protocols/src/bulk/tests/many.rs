//! Goal: of 200 receivers, 20 that lose much cost the others little: they are demoted, and complete
//! after them. Method: the simulator's cluster; the time at which the last healthy receiver has
//! everything, beside a run without loss. `examples/scenarios/few-lossy.toml` is the same with ten
//! times the bytes, on wires.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Contract, Rng, Service};
use groupcast_sim::{Cluster, ClusterConfig};

use crate::bulk::{BulkConfig, Messages, MessagesConfig, RateControl, Wanted};

const RECEIVERS: usize = 200;
/// Of this many receivers one loses much.
const LOSSY: usize = 10;

/// How long it takes until all receivers that lose nothing have a message, and how many were
/// demoted.
fn healthy_after(loss: f64) -> (Duration, u64) {
    let mut config = ClusterConfig::new(RECEIVERS + 1, 1);
    config.contract = Contract::Accounted;
    let settings = MessagesConfig {
        bulk: BulkConfig {
            // A message that takes seconds, in a tenth of the time.
            announce_interval: Duration::from_millis(5),
            slow_after: Duration::from_millis(30),
            rate: RateControl::Fixed {
                bytes_per_second: 4_000_000,
            },
            ..BulkConfig::lan()
        },
        receivers: Wanted::Count(RECEIVERS),
        ..MessagesConfig::default()
    };
    let mut cluster = Cluster::started(config, move |member, rng, _| {
        Messages::new(member, settings.clone(), rng).expect("the settings fit each other")
    });
    let mut rng = Rng::new(2);
    cluster.drop_all(move |datagram| {
        let lossy = datagram.to != 0 && datagram.to.is_multiple_of(LOSSY);
        lossy && rng.chance(loss)
    });
    let begun = cluster.now();
    let payload = Bytes::from_static(&[7; 1_500_000]);
    let id = cluster
        .submit(0, Service::Fifo, payload)
        .expect("there is room");
    let has = |cluster: &Cluster<Messages>, host| cluster.has_delivered(host, id);
    let healthy = |cluster: &Cluster<Messages>| {
        let mut hosts = (1..=RECEIVERS).filter(|host| host % LOSSY != 0);
        hosts.all(|host| has(cluster, host))
    };
    cluster.must("the healthy have it", healthy, Duration::from_secs(20));
    let took = cluster.now() - begun;
    let all = |cluster: &Cluster<Messages>| (0..=RECEIVERS).all(|host| has(cluster, host));
    cluster.must("all have it", all, Duration::from_secs(20));
    cluster.check();
    let sender = cluster.protocol(0).expect("it runs").bulk();
    (took, sender.counters().demoted)
}

#[test]
fn a_tenth_that_loses_a_tenth_does_not_hold_up_two_hundred() {
    let (undisturbed, _) = healthy_after(0.0);
    let (disturbed, demoted) = healthy_after(0.1);
    assert!(
        disturbed.as_secs_f64() < 1.2 * undisturbed.as_secs_f64(),
        "{disturbed:?} against {undisturbed:?}"
    );
    assert!(demoted as usize >= RECEIVERS / LOSSY / 2, "{demoted}");
}
