//! Goal: calls for the resting token never cost the ring: not when the called token does not get
//! through, and not when one member calls without a pause. Method: one way closed for tokens,
//! clients that send as soon as they can, networks and presets of many kinds; the ring must stay as
//! it is.

use std::time::Duration;

use groupcast_core::{MessageId, Service, SocketClass};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::{Cluster, ClusterConfig};

use super::formed;

/// A ring of `hosts` that are `delay` apart.
pub(super) fn far_apart(
    hosts: usize,
    seed: u64,
    delay: Duration,
    config: RingConfig,
) -> Cluster<Ring> {
    let mut cluster_config = ClusterConfig::new(hosts, seed);
    cluster_config.network.latency = delay;
    let mut cluster = Cluster::started(cluster_config, move |member, rng, now| {
        Ring::new(config.clone(), member, rng, now).expect("the settings are valid")
    });
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_secs(20),
    );
    // A member that began late may still be on the way in.
    cluster.run_for(Duration::from_secs(5));
    cluster
}

/// One client at `host` that sends its next message when it has seen its last, `burst` of them, and
/// then pauses.
fn closed_loop(cluster: &mut Cluster<Ring>, host: usize, burst: u32, duration: Duration) {
    let end = cluster.now() + duration;
    while cluster.now() < end {
        for _ in 0..burst {
            let id = say(cluster, host);
            let seen = |cluster: &Cluster<Ring>| cluster.has_delivered(host, id);
            cluster.must("delivered at its sender", seen, Duration::from_secs(10));
        }
        cluster.run_for(Duration::from_millis(1_500));
    }
}

fn say(cluster: &mut Cluster<Ring>, host: usize) -> MessageId {
    cluster
        .submit(host, Service::Agreed, "a few words")
        .expect("there is room")
}

#[test]
fn a_member_that_a_called_token_does_not_reach_is_served_by_rotation() {
    let mut cluster = formed(5, 61);
    cluster.run_for(Duration::from_secs(1));
    let before = cluster.configurations(0).len();
    cluster.drop_all(|info| info.from == 0 && info.to == 3 && info.class == SocketClass::Control);
    for _ in 0..40 {
        let id = say(&mut cluster, 3);
        cluster.must(
            "delivered everywhere",
            |cluster| (0..5).all(|host| cluster.has_delivered(host, id)),
            Duration::from_secs(2),
        );
        cluster.run_for(Duration::from_millis(200));
    }
    let changes = cluster.configurations(0).len() - before;
    assert!(changes <= 2, "{changes} configurations");
    cluster.check();
}

#[test]
fn one_client_that_never_waits_does_not_keep_the_token_from_the_others() {
    for hosts in 3..=5 {
        for millis in [20, 25, 30] {
            let delay = Duration::from_millis(millis);
            let mut cluster = far_apart(hosts, 62, delay, RingConfig::wan());
            let before = cluster.configurations(0).len();
            closed_loop(&mut cluster, 1, 50, Duration::from_secs(60));
            let changes = cluster.configurations(0).len() - before;
            assert_eq!(changes, 0, "configurations of {hosts} hosts, {delay:?}");
            cluster.check();
        }
    }
}
