//! Goal: the traps that other implementations of Totem fell into, or guard against in comments, do
//! not catch this one. Method: one test a trap; the network repeats, reorders and delays, members
//! die at every step of forming a ring.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use groupcast_core::{ConfigurationKind, Service};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::{Cluster, ClusterConfig};

use super::{cluster, formed};

fn load(cluster: &mut Cluster<Ring>, messages: u32, spacing: Duration) {
    for number in 0..messages {
        for host in 0..cluster.hosts() {
            if cluster.status(host) == groupcast_sim::Status::Up {
                let service = if number % 3 == 0 {
                    Service::Safe
                } else {
                    Service::Agreed
                };
                cluster
                    .submit(host, service, vec![number as u8; 300])
                    .expect("there is room");
            }
        }
        cluster.run_for(spacing);
    }
}

fn retransmissions(cluster: &Cluster<Ring>) -> u64 {
    let of = |host| {
        cluster
            .protocol(host)
            .expect("runs")
            .status()
            .counters
            .retransmissions
    };
    (0..cluster.hosts()).map(of).sum()
}

/// 002 III-A.2, and corosync's miss count: what is late is not lost.
#[test]
fn data_that_the_token_overtakes_is_not_requested() {
    let mut cluster = formed(4, 31);
    let network = cluster.network().config_mut();
    network.reordering = 0.3;
    network.reordering_delay = Duration::from_micros(60);
    load(&mut cluster, 300, Duration::from_micros(200));
    cluster.run_for(Duration::from_millis(50));
    assert_eq!(retransmissions(&cluster), 0);
    assert!((0..4).all(|host| cluster.deliveries(host).len() == 1200));
    cluster.check();
}

/// Joins are multicast again and again: one that arrives late must not break a ring that has formed
/// since.
#[test]
fn repeated_and_late_datagrams_do_not_break_a_ring() {
    let mut cluster = cluster(5, 32);
    let network = cluster.network().config_mut();
    network.duplication = 0.5;
    network.reordering = 0.2;
    network.reordering_delay = Duration::from_millis(20);
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_secs(3),
    );
    cluster.run_for(Duration::from_millis(300));
    let before = cluster.configurations(0).len();
    load(&mut cluster, 2000, Duration::from_millis(1));
    assert_eq!(cluster.configurations(0).len(), before);
    cluster.heal();
    cluster.run_for(Duration::from_millis(100));
    cluster.check();
}

/// Every step of the membership, and each state, tolerates a crash: a second member dies after the
/// n-th change of state that the first one's death brings about.
#[test]
fn a_crash_at_any_step_of_forming_a_ring_is_survived() {
    for victim in [0, 2, 4] {
        for step in 1..=20 {
            let mut cluster = formed(5, 1000 * victim as u64 + step as u64);
            load(&mut cluster, 10, Duration::from_micros(150));
            let before = cluster.transitions().len();
            cluster.crash(1);
            cluster.run_until(
                |cluster| cluster.transitions().len() >= before + step,
                Duration::from_secs(1),
            );
            cluster.crash(victim);
            cluster.must(
                "one ring of three",
                Cluster::all_in_one_configuration,
                Duration::from_secs(3),
            );
            load(&mut cluster, 5, Duration::from_millis(1));
            cluster.run_for(Duration::from_millis(100));
            cluster.check();
        }
    }
}

/// The same with a cut instead of a crash, healed afterwards: recoveries that fail are taken up
/// again.
#[test]
fn a_cut_at_any_step_of_forming_a_ring_is_survived() {
    for step in 1..=24 {
        let mut cluster = formed(5, 5000 + step as u64);
        cluster.set_loss(0.05);
        load(&mut cluster, 10, Duration::from_micros(150));
        let before = cluster.transitions().len();
        cluster.partition(&[&[0, 1, 2], &[3, 4]]);
        cluster.run_until(
            |cluster| cluster.transitions().len() >= before + step,
            Duration::from_secs(2),
        );
        cluster.heal();
        cluster.partition(&[&[0, 3], &[1, 2, 4]]);
        load(&mut cluster, 40, Duration::from_millis(10));
        cluster.heal();
        cluster.must(
            "one ring again",
            Cluster::all_in_one_configuration,
            Duration::from_secs(10),
        );
        load(&mut cluster, 5, Duration::from_millis(1));
        cluster.run_for(Duration::from_millis(200));
        cluster.check();
    }
}

/// Spread 5.0.1's fix: what arrives after a member has declared its holding is not counted as held.
#[test]
fn late_packets_of_the_old_ring_do_not_split_those_who_move_on_together() {
    for seed in 0..30 {
        let mut cluster = formed(4, 6000 + seed);
        let network = cluster.network().config_mut();
        network.reordering = 0.2;
        network.reordering_delay = Duration::from_millis(200);
        load(&mut cluster, 20, Duration::from_micros(200));
        cluster.crash(3);
        cluster.must(
            "one ring of three",
            Cluster::all_in_one_configuration,
            Duration::from_secs(2),
        );
        cluster.heal();
        cluster.run_for(Duration::from_millis(500));
        cluster.check();
    }
}

/// A process that was stopped does not vote with what it knew before: it costs the others one
/// change to lose it and one to have it back.
#[test]
fn a_stopped_member_that_wakes_up_causes_one_change() {
    let mut cluster = formed(4, 33);
    load(&mut cluster, 10, Duration::from_millis(1));
    cluster.pause(3);
    cluster.run_for(Duration::from_secs(3));
    let before = cluster.configurations(0).len();
    cluster.resume(3);
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_secs(1),
    );
    cluster.run_for(Duration::from_secs(1));
    let changes = cluster.configurations(0)[before..]
        .iter()
        .filter(|c| c.kind == ConfigurationKind::Regular);
    assert_eq!(changes.count(), 1);
    cluster.check();
}

/// Several members say good-bye at once.
#[test]
fn members_that_leave_together_are_all_known_to_have_left() {
    let mut cluster = formed(5, 34);
    load(&mut cluster, 10, Duration::from_millis(1));
    cluster.leave(1);
    cluster.leave(4);
    let gone = |cluster: &Cluster<Ring>| !cluster.is_alive(1) && !cluster.is_alive(4);
    cluster.must("gone", gone, Duration::from_secs(3));
    cluster.must(
        "one ring of three",
        Cluster::all_in_one_configuration,
        Duration::from_secs(3),
    );
    cluster.check();
}

/// Sequence numbers go on in a new ring: a subscriber never sees a place twice, nor a lower one.
#[test]
fn places_grow_over_many_configurations() {
    let mut cluster = formed(3, 35);
    for _ in 0..10 {
        load(&mut cluster, 3, Duration::from_millis(1));
        cluster.restart(2);
        cluster.run_for(Duration::from_millis(700));
        cluster.must(
            "one ring",
            Cluster::all_in_one_configuration,
            Duration::from_secs(3),
        );
    }
    let places: Vec<u64> = cluster
        .deliveries(0)
        .iter()
        .filter_map(|delivery| Some(delivery.place?.seq))
        .collect();
    assert!(places.len() > 60 && places.is_sorted_by(|a, b| a < b));
    cluster.check();
}

/// A life that was followed by another one does not answer: who restarts again and again would be
/// asked for as long as the quarantines of its former lives last, in datagrams that it cannot open.
#[test]
fn former_lives_of_a_member_are_not_asked_whether_they_are_back() {
    const PROBE: u8 = 13;
    for seed in [0, 2, 7, 8] {
        let mut cluster = formed(5, seed);
        let probes = Rc::new(Cell::new(0));
        let count = probes.clone();
        cluster.drop_all(move |info| {
            let is_probe = info.body().first() == Some(&PROBE);
            count.set(count.get() + u32::from(is_probe));
            false
        });
        for _ in 0..3 {
            cluster.crash(2);
            cluster.restart(2);
            load(&mut cluster, 8, Duration::from_millis(25));
        }
        assert!(cluster.all_in_one_configuration());
        assert!(probes.take() > 0, "somebody was asked meanwhile");
        cluster.run_for(Duration::from_secs(3));
        assert_eq!(probes.get(), 0, "seed {seed}");
        cluster.check();
    }
}

/// The acknowledgements of commit tokens that were sent again come when the ring has its first
/// token: they say nothing of that one.
#[test]
fn late_acknowledgements_of_the_commit_token_are_none_of_the_first_token() {
    const TOKEN: u8 = 2;
    let mut config = ClusterConfig::new(2, 34);
    config.network.latency = Duration::from_millis(100);
    let mut cluster = Cluster::started(config, |member, rng, now| {
        Ring::new(RingConfig::wan(), member, rng, now).expect("the settings are valid")
    });
    // It is sent once, and again both ways.
    let mut lost = 3;
    cluster.drop_all(move |info| {
        let first = lost > 0 && info.from == 0 && info.body().first() == Some(&TOKEN);
        lost -= u32::from(first);
        first
    });
    let forming = |cluster: &Cluster<Ring>| {
        let status = cluster.protocol(1).expect("runs").status();
        status.state == "recovery"
    };
    cluster.must("it forms", forming, Duration::from_secs(10));
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_millis(1_200),
    );
    cluster.check();
}
