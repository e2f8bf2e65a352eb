//! A cluster of fixed sequencers: what the harness promises to tests.

mod hosts;
mod redirect;

use std::cell::RefCell;
use std::rc::Rc;

use groupcast_core::SocketClass;
use groupcast_core::node::NodeCounters;
use groupcast_core::wire::Prefix;

use super::*;
use crate::sequencer::Sequencer;

const SECOND: Duration = Duration::from_secs(1);

fn cluster(config: ClusterConfig) -> Cluster<Sequencer> {
    let size = config.hosts;
    Cluster::started(config, move |member, rng, now| {
        Sequencer::new(size, member, rng, now)
    })
}

fn everywhere(id: MessageId) -> impl FnMut(&Cluster<Sequencer>) -> bool {
    move |cluster| cluster.alive().all(|host| cluster.has_delivered(host, id))
}

/// A run with everything that can go wrong on a network.
fn rough(seed: u64) -> Cluster<Sequencer> {
    let mut config = ClusterConfig::new(4, seed);
    config.network = NetworkConfig {
        bandwidth: 100_000_000,
        jitter: Duration::from_micros(300),
        loss: 0.1,
        duplication: 0.05,
        reordering: 0.05,
        corruption: 0.02,
        ..NetworkConfig::default()
    };
    let mut cluster = cluster(config);
    cluster.listen(AdversaryConfig::default());
    cluster.set_attacking(true);
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        SECOND,
    );
    for number in 0..50 {
        let payload = vec![number; usize::from(number) * 20];
        cluster
            .submit(usize::from(number) % 4, Service::Agreed, payload)
            .expect("the queue has room");
        cluster.run_for(Duration::from_millis(5));
    }
    cluster.run_for(2 * SECOND);
    cluster
}

#[test]
fn messages_of_all_come_in_one_order_at_all() {
    let cluster = rough(1);
    let order =
        |host| -> Vec<MessageId> { cluster.deliveries(host).iter().map(|it| it.id).collect() };
    assert_eq!(order(0).len(), 50);
    assert!((1..4).all(|host| order(host) == order(0)));
    cluster.check_at_rest();
    let third = &cluster.deliveries(2)[10];
    assert!(
        third
            .payload
            .iter()
            .all(|byte| usize::from(*byte) * 20 == third.payload.len())
    );
}

#[test]
fn what_the_network_and_the_adversary_do_changes_counters_only() {
    let mut cluster = rough(2);
    let network = cluster.network().counters();
    assert!(network.lost > 0 && network.duplicated > 0 && network.reordered > 0);
    let total = |count: fn(&NodeCounters) -> u64| -> u64 {
        (0..4).map(|host| count(&cluster.counters(host))).sum()
    };
    assert!(total(|it| it.forged) > network.corrupted / 2);
    assert!(total(|it| it.replayed) > network.duplicated / 2);
    assert!(total(|it| it.malformed) > 0, "cut and scribbled prefixes");
}

#[test]
fn the_same_seed_twice_is_the_same_world() {
    let (one, two, other) = (rough(3), rough(3), rough(4));
    assert_eq!(one.trace_hash(), two.trace_hash());
    assert_eq!(one.events(), two.events());
    assert_ne!(one.trace_hash(), other.trace_hash());
}

#[test]
fn the_hash_tells_worlds_apart_that_differ_in_one_datagram() {
    let run = |drop: bool| {
        let mut cluster = cluster(ClusterConfig::new(3, 5));
        if drop {
            cluster.drop_next(|info| info.class == SocketClass::Control && info.index == 9);
        }
        cluster.run_for(SECOND);
        cluster.trace_hash()
    };
    assert_ne!(run(false), run(true));
}

#[test]
fn a_mesh_works_as_multicast_does() {
    let mut config = ClusterConfig::new(3, 6);
    config.multicast = false;
    let mut cluster = cluster(config);
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        SECOND,
    );
    let id = cluster.submit(2, Service::Agreed, "x").expect("room");
    cluster.must("delivery", everywhere(id), SECOND);
}

#[test]
fn hosts_without_multicast_get_copies_and_no_others_do() {
    let mut config = ClusterConfig::new(5, 6);
    config.without_multicast = BTreeSet::from([1, 4]);
    let mut cluster = cluster(config);
    let sent = Rc::new(RefCell::new(BTreeSet::new()));
    let seen = Rc::clone(&sent);
    cluster.drop_all(move |info| {
        let to_all = !Prefix::decode(info.bytes).expect("whole").addressed;
        if to_all {
            seen.borrow_mut()
                .insert((info.from, info.to, info.multicast));
        }
        false
    });
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        SECOND,
    );
    for host in [0, 4] {
        let id = cluster.submit(host, Service::Agreed, "x").expect("room");
        cluster.must("delivery", everywhere(id), SECOND);
    }
    for (from, to, multicast) in sent.take() {
        let without = [1, 4].contains(&from) || [1, 4].contains(&to);
        assert_eq!(multicast, !without, "{from} to {to}");
    }
}

#[test]
fn a_stopped_process_handles_nothing_and_catches_up() {
    let mut cluster = cluster(ClusterConfig::new(3, 7));
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        SECOND,
    );
    cluster.pause(2);
    let id = cluster.submit(0, Service::Agreed, "x").expect("room");
    cluster.run_for(SECOND);
    assert!(cluster.has_delivered(1, id) && !cluster.has_delivered(2, id));
    assert!(!cluster.world.hosts[2].queues_are_empty());
    cluster.resume(2);
    cluster.must("delivery", everywhere(id), Duration::from_millis(1));
}

#[test]
fn a_full_receive_queue_drops() {
    let mut config = ClusterConfig::new(2, 8);
    config.host.token_buffer.datagrams = 3;
    let mut cluster = cluster(config);
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        SECOND,
    );
    cluster.pause(1);
    cluster.run_for(SECOND);
    assert_eq!(cluster.world.hosts[1].token.len(), 3);
    assert!(cluster.overflowed(1) > 20);
}

#[test]
fn a_partition_holds_until_it_is_healed() {
    let mut cluster = cluster(ClusterConfig::new(4, 9));
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        SECOND,
    );
    cluster.partition(&[&[0, 1]]);
    let id = cluster.submit(1, Service::Agreed, "x").expect("room");
    cluster.run_for(SECOND);
    let have: Vec<bool> = (0..4).map(|host| cluster.has_delivered(host, id)).collect();
    assert_eq!(have, [true, true, false, false]);
    cluster.heal();
    cluster.must("delivery", everywhere(id), SECOND);
}

#[test]
fn a_crash_ends_a_history_and_a_restart_begins_another() {
    let mut cluster = cluster(ClusterConfig::new(2, 10));
    let old = cluster.member(1).expect("started");
    cluster.run_for(SECOND);
    let new = cluster.restart(1);
    assert_eq!(old.node, new.node);
    assert_ne!(old.incarnation, new.incarnation);
    let log = cluster.observations();
    let history = |member| -> Vec<&Observation> {
        let mine = log.iter().filter(|(whose, _)| *whose == member);
        mine.map(|(_, observation)| observation).collect()
    };
    assert_eq!(history(old).last(), Some(&&Observation::Crash));
    assert_eq!(history(new), [&Observation::Start]);
    assert!(cluster.deliveries(1).is_empty());
}

#[test]
fn a_host_that_left_is_silent() {
    let mut cluster = cluster(ClusterConfig::new(2, 11));
    cluster.run_for(SECOND);
    cluster.leave(1);
    assert_eq!(cluster.status(1), Status::Left);
    let sealed = cluster.counters(1).sealed;
    cluster.run_for(SECOND);
    assert_eq!(cluster.counters(1).sealed, sealed);
    assert_eq!(cluster.alive().collect::<Vec<_>>(), [0]);
}

#[test]
fn a_fast_clock_ticks_more_often() {
    let mut cluster = cluster(ClusterConfig::new(2, 12));
    cluster.set_clock_rate(1, ClockRate::off_by_ppm(500_000));
    cluster.run_for(10 * SECOND);
    // A hello every 20 ms of local time, and member 1 adds its announcements.
    assert!((745..755).contains(&cluster.counters(1).sealed));
}

#[test]
#[should_panic(expected = "promises broken")]
fn the_judge_is_told_of_everything() {
    let mut cluster = cluster(ClusterConfig::new(3, 14));
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        SECOND,
    );
    cluster.partition(&[&[2]]);
    cluster.submit(0, Service::Safe, "x").expect("room");
    cluster.run_for(SECOND);
    // The sequencer does not know what safe means: host 2 has nothing.
    cluster.check_at_rest();
}

#[test]
#[should_panic(expected = "its seed is 13")]
fn a_failure_says_how_to_see_it_again() {
    let mut cluster = cluster(ClusterConfig::new(2, 13));
    cluster.must("what never comes", |_| false, SECOND);
}
