//! Goal: a ring survives loss, crashes, restarts, partitions and pauses, and keeps its guarantees.
//! Method: load from every host while the fault strikes; then progress, and the checker's verdict.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{ConfigurationKind, Service};
use groupcast_protocols::ring::Ring;
use groupcast_sim::Cluster;

use super::formed;

const SERVICES: [Service; 5] = [
    Service::Reliable,
    Service::Fifo,
    Service::Causal,
    Service::Agreed,
    Service::Safe,
];

/// Every living host submits one message each millisecond for `duration`.
fn load(cluster: &mut Cluster<Ring>, duration: Duration) {
    for step in 0..duration.as_millis() {
        for host in 0..cluster.hosts() {
            if cluster.status(host) == groupcast_sim::Status::Up {
                let size = if step % 50 == 7 { 20_000 } else { 100 };
                let service = SERVICES[(step as usize + host) % SERVICES.len()];
                cluster
                    .submit(host, service, Bytes::from(vec![step as u8; size]))
                    .expect("there is room");
            }
        }
        cluster.run_for(Duration::from_millis(1));
    }
}

/// One ring of all living hosts, in which each one's message reaches all.
fn progress(cluster: &mut Cluster<Ring>) {
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_secs(10),
    );
    let alive: Vec<usize> = cluster.alive().collect();
    let probes: Vec<_> = alive
        .iter()
        .map(|host| {
            cluster
                .submit(*host, Service::Safe, "probe")
                .expect("there is room")
        })
        .collect();
    cluster.must(
        "probes everywhere",
        |cluster| {
            alive
                .iter()
                .all(|host| probes.iter().all(|id| cluster.has_delivered(*host, *id)))
        },
        Duration::from_secs(5),
    );
}

#[test]
fn at_twenty_percent_loss_everything_arrives_everywhere_in_one_order() {
    let mut cluster = formed(5, 11);
    cluster.set_loss(0.2);
    load(&mut cluster, Duration::from_millis(500));
    cluster.heal();
    progress(&mut cluster);
    cluster.check();
}

#[test]
fn the_others_go_on_within_400_ms_of_a_crash() {
    let mut cluster = formed(5, 12);
    load(&mut cluster, Duration::from_millis(100));
    cluster.crash(3);
    let crashed = cluster.now();
    cluster.must(
        "one ring of four",
        Cluster::all_in_one_configuration,
        Duration::from_millis(400),
    );
    assert!(cluster.now().since(crashed) > Duration::from_millis(100));
    load(&mut cluster, Duration::from_millis(50));
    progress(&mut cluster);
    cluster.check();
}

#[test]
fn a_restarted_member_is_a_new_one() {
    let mut cluster = formed(3, 13);
    load(&mut cluster, Duration::from_millis(20));
    cluster.restart(0);
    load(&mut cluster, Duration::from_millis(500));
    progress(&mut cluster);
    cluster.check();
}

#[test]
fn both_sides_of_a_partition_go_on_and_merge() {
    let mut cluster = formed(5, 14);
    load(&mut cluster, Duration::from_millis(50));
    cluster.partition(&[&[0, 1], &[2, 3, 4]]);
    load(&mut cluster, Duration::from_millis(1000));
    let sizes: Vec<usize> = (0..5)
        .map(|host| {
            cluster
                .current_configuration(host)
                .expect("installed")
                .members
                .len()
        })
        .collect();
    assert_eq!(sizes, [2, 2, 3, 3, 3]);
    cluster.heal();
    load(&mut cluster, Duration::from_millis(1000));
    progress(&mut cluster);
    let transitional = cluster
        .configurations(0)
        .iter()
        .filter(|c| c.kind == ConfigurationKind::Transitional);
    assert!(
        transitional.count() >= 2,
        "one for the cut, one for the merge"
    );
    cluster.check();
}

#[test]
fn a_member_that_was_stopped_for_ten_seconds_comes_back() {
    let mut cluster = formed(4, 15);
    load(&mut cluster, Duration::from_millis(50));
    cluster.pause(2);
    load(&mut cluster, Duration::from_secs(10));
    cluster.resume(2);
    load(&mut cluster, Duration::from_millis(500));
    progress(&mut cluster);
    cluster.check();
}

#[test]
fn a_graceful_leave_costs_no_token_timeout() {
    let mut cluster = formed(4, 16);
    load(&mut cluster, Duration::from_millis(50));
    cluster.leave(1);
    cluster.must(
        "one ring of three",
        |cluster| !cluster.is_alive(1) && cluster.all_in_one_configuration(),
        Duration::from_millis(100),
    );
    let left = &cluster.current_configuration(0).expect("installed").left;
    assert_eq!(left.as_slice(), [cluster.member(1).expect("ran")]);
    load(&mut cluster, Duration::from_millis(50));
    progress(&mut cluster);
    cluster.check();
}

#[test]
fn a_member_that_cannot_receive_is_excluded_and_the_rest_go_on() {
    let mut cluster = formed(4, 17);
    let deaf = 2;
    cluster
        .drop_all(move |info| info.to == deaf && info.class == groupcast_core::SocketClass::Data);
    load(&mut cluster, Duration::from_millis(1500));
    let ring_of = |cluster: &Cluster<Ring>, host: usize| {
        cluster
            .current_configuration(host)
            .map(|configuration| configuration.members.len())
    };
    assert_eq!(ring_of(&cluster, 0), Some(3));
    let before = cluster.configurations(0).len();
    load(&mut cluster, Duration::from_millis(3000));
    assert_eq!(
        cluster.configurations(0).len(),
        before,
        "a deaf member does not break the ring again and again"
    );
    cluster.heal();
    load(&mut cluster, Duration::from_millis(100));
    progress(&mut cluster);
    cluster.check();
}

/// Only what goes to all reaches it; nothing that is for it alone does, on neither socket.
#[test]
fn a_member_whose_tokens_do_not_arrive_is_left_out() {
    let mut cluster = formed(4, 18);
    let cut = 1;
    let for_one = |kind: &u8| matches!(kind, 2 | 6 | 7 | 11 | 13);
    cluster.drop_all(move |info| info.to == cut && info.body().first().is_some_and(for_one));
    load(&mut cluster, Duration::from_millis(3000));
    let alive_together = cluster
        .current_configuration(0)
        .map(|configuration| configuration.members.len());
    assert_eq!(alive_together, Some(3));
    cluster.heal();
    load(&mut cluster, Duration::from_millis(100));
    progress(&mut cluster);
    cluster.check();
}

#[test]
fn links_that_work_one_way_only_do_not_stop_the_others() {
    let mut cluster = formed(5, 19);
    cluster.block(0, 4);
    load(&mut cluster, Duration::from_millis(5000));
    let before = cluster.configurations(2).len();
    load(&mut cluster, Duration::from_millis(2000));
    let after = cluster.configurations(2).len();
    assert!(
        after - before <= 8,
        "{} configurations in two seconds",
        after - before
    );
    cluster.heal();
    progress(&mut cluster);
    cluster.check();
}
