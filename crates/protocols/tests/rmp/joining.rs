//! Goal: a process joins and leaves by one message, without a pause for the others. Method: load
//! from every member while it happens; then the checker's verdict, and the latencies around it.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{MemberId, MessageId, Ordered as _, Service, Time};
use groupcast_protocols::rmp::{FAMILY, Rmp, RmpConfig};
use groupcast_sim::host::config::Effect;
use groupcast_sim::{Cluster, ClusterConfig};

use super::{not_started, with_started};

/// `old` of `hosts` members in one configuration.
fn group(hosts: usize, old: usize, seed: u64) -> Cluster<Rmp> {
    let one_way = Duration::from_micros(30);
    group_with(hosts, old, seed, one_way, false, RmpConfig::lan().body_max)
}

/// The same, where a datagram takes `one_way`, processes run some milliseconds after something came
/// for them if they are `busy`, and the last host's way carries bodies of `last_max` bytes.
fn group_with(
    hosts: usize,
    old: usize,
    seed: u64,
    one_way: Duration,
    busy: bool,
    last_max: usize,
) -> Cluster<Rmp> {
    let build = move |member: MemberId, rng, now| {
        let mut config = RmpConfig::lan();
        if member.node.0 == hosts as u64 {
            config.body_max = last_max;
        }
        Rmp::new(config, member, rng, now).expect("the settings are valid")
    };
    let mut judged = ClusterConfig {
        contract: FAMILY.contract,
        ..ClusterConfig::new(hosts, seed)
    };
    judged.network.latency = one_way;
    if busy {
        judged.host.effect = Effect::End;
        judged.host.wake_up = Duration::from_micros(40);
        judged.host.wake_up_jitter = Duration::from_millis(4);
    }
    let mut cluster = Cluster::new(judged, build);
    for host in 0..old {
        cluster.start(host);
    }
    let limit = Duration::from_secs(3);
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        limit,
    );
    cluster
}

const SERVICES: [Service; 7] = [
    Service::Reliable,
    Service::Fifo,
    Service::Agreed,
    Service::Safe,
    Service::KResilient(1),
    Service::Majority,
    Service::Agreed,
];

/// Every living host submits one message each half millisecond for `duration`.
fn load(cluster: &mut Cluster<Rmp>, duration: Duration) {
    for step in 0..duration.as_micros() / 500 {
        for host in 0..cluster.hosts() {
            if cluster.status(host) == groupcast_sim::Status::Up {
                let service = SERVICES[(step as usize + host) % SERVICES.len()];
                let len = if step % 40 == 9 { 3_000 } else { 300 };
                let payload = Bytes::from(vec![step as u8; len]);
                let _ = cluster.submit(host, service, payload);
            }
        }
        cluster.run_for(Duration::from_micros(500));
    }
}

fn lists_of(cluster: &Cluster<Rmp>) -> u64 {
    (0..cluster.hosts())
        .filter(|host| cluster.is_alive(*host))
        .map(|host| {
            cluster
                .protocol(host)
                .map_or(0, |it| it.status().counters.lists_sent)
        })
        .sum()
}

#[test]
fn a_newcomer_joins_by_a_list_under_load() {
    for seed in 0..10 {
        let mut cluster = group(4, 3, 100 + seed);
        load(&mut cluster, Duration::from_millis(100));
        let before = lists_of(&cluster);
        let configurations = cluster.configurations(0).len();
        cluster.start(3);
        load(&mut cluster, Duration::from_millis(200));
        let limit = Duration::from_secs(3);
        cluster.must(
            "one configuration",
            Cluster::all_in_one_configuration,
            limit,
        );
        assert_eq!(lists_of(&cluster), before + 1, "seed {seed}");
        let after = cluster.configurations(0).len();
        assert_eq!(
            after,
            configurations + 2,
            "a transitional and a regular one"
        );
        cluster.run_for(Duration::from_millis(400));
        cluster.check_at_rest();
    }
}

#[test]
fn a_member_leaves_by_a_list_under_load() {
    for seed in 0..10 {
        let mut cluster = group(4, 4, 200 + seed);
        load(&mut cluster, Duration::from_millis(100));
        let before = lists_of(&cluster);
        let polls = cluster
            .protocol(0)
            .map(|it| it.status().counters.transitions);
        cluster.leave(2);
        load(&mut cluster, Duration::from_millis(200));
        let limit = Duration::from_secs(1);
        cluster.must("gone", |it| !it.is_alive(2), limit);
        cluster.must(
            "one configuration",
            Cluster::all_in_one_configuration,
            limit,
        );
        assert_eq!(lists_of(&cluster), before + 1, "seed {seed}");
        let after = cluster
            .protocol(0)
            .map(|it| it.status().counters.transitions);
        assert_eq!(after, polls, "no reformation");
        let left = cluster.configurations(0).last().expect("one").left.clone();
        assert_eq!(left.len(), 1, "it is told from a crash");
        cluster.run_for(Duration::from_millis(400));
        cluster.check_at_rest();
    }
}

/// Processes start one after the other, and nobody says anything: nothing stands between the lists.
#[test]
fn a_process_is_let_in_at_once_behind_another() {
    let mut cluster = group(6, 3, 260);
    for newcomer in 3..6 {
        let lists = lists_of(&cluster);
        cluster.start(newcomer);
        let together = Cluster::all_in_one_configuration;
        cluster.must("let in", together, Duration::from_millis(100));
        assert_eq!(lists_of(&cluster), lists + 1, "newcomer {newcomer}");
    }
    cluster.run_for(Duration::from_secs(1));
    cluster.check_at_rest();
}

/// A member's request to leave is on its way while a list lets a newcomer in. The newcomer is to
/// make the next list, and has not heard the request.
#[test]
fn a_member_leaves_soon_while_another_joins() {
    let step = Duration::from_micros(10);
    let mut calm = group(4, 3, 250);
    let (lists, started) = (lists_of(&calm), calm.now());
    calm.start(3);
    while lists_of(&calm) == lists {
        calm.run_for(step);
    }
    let list = calm.now() - started;
    for leaver in 0..3 {
        for before in 0..30 {
            let mut cluster = group(4, 3, 250);
            cluster.start(3);
            cluster.run_for(list - step * before);
            cluster.leave(leaver);
            let limit = Duration::from_millis(50);
            cluster.must("gone", |it| !it.is_alive(leaver), limit);
            cluster.run_for(Duration::from_secs(1));
            cluster.check_at_rest();
        }
    }
}

#[test]
fn two_join_at_once_and_one_leaves() {
    for seed in 0..10 {
        let mut cluster = group(6, 4, 300 + seed);
        load(&mut cluster, Duration::from_millis(100));
        cluster.start(4);
        cluster.start(5);
        load(&mut cluster, Duration::from_millis(seed * 2));
        cluster.leave(1);
        load(&mut cluster, Duration::from_millis(200));
        let limit = Duration::from_secs(3);
        cluster.must(
            "one configuration",
            Cluster::all_in_one_configuration,
            limit,
        );
        cluster.run_for(Duration::from_millis(400));
        cluster.check_at_rest();
    }
}

#[test]
fn a_crash_at_any_moment_of_a_join_or_a_leave_leaves_one_history() {
    for crashed in [0, 1, 3] {
        for step in 0..40 {
            let mut cluster = group(4, 3, 400 + step);
            load(&mut cluster, Duration::from_millis(30));
            if crashed == 1 && step % 2 == 0 {
                cluster.leave(2);
            }
            cluster.start(3);
            load(&mut cluster, Duration::from_micros(500));
            cluster.run_for(Duration::from_micros(step * 60));
            cluster.crash(crashed);
            load(&mut cluster, Duration::from_millis(300));
            let limit = Duration::from_secs(5);
            cluster.must(
                "one configuration",
                Cluster::all_in_one_configuration,
                limit,
            );
            cluster.run_for(Duration::from_millis(400));
            cluster.check_at_rest();
        }
    }
}

/// The time until all of the `old` hosts have an agreed message, of those that are submitted within
/// a second: the 99th percentile, and the longest.
fn latency(cluster: &mut Cluster<Rmp>, old: usize) -> (Duration, Duration) {
    const STEP: Duration = Duration::from_micros(250);
    const STEPS: usize = 4_000;
    let mut waiting: Vec<(MessageId, Time)> = Vec::new();
    let mut latencies = Vec::new();
    let mut step = 0;
    while step < STEPS || !waiting.is_empty() {
        if step < STEPS && step % 4 == 0 {
            let id = cluster.submit(step / 4 % old, Service::Agreed, vec![1; 300]);
            waiting.push((id.expect("there is room"), cluster.now()));
        }
        cluster.run_for(STEP);
        let now = cluster.now();
        waiting.retain(|(id, at)| {
            let everywhere = (0..old).all(|host| cluster.has_delivered(host, *id));
            if everywhere {
                latencies.push(now.since(*at));
            }
            !everywhere
        });
        step += 1;
    }
    latencies.sort_unstable();
    let longest = latencies.last().copied().expect("many were sent");
    (latencies[latencies.len() * 99 / 100], longest)
}

/// 000 ch. 8: the list-change messages are there so that a join does not stop the others.
#[test]
fn the_second_of_a_join_is_at_most_twice_as_slow_as_the_one_before() {
    let most = RmpConfig::lan().body_max;
    for busy in [false, true] {
        // The second one cannot be let in by a list: the datagrams of the others are too long for
        // it.
        for (last_max, lists) in [(most, 1), (most - 100, 0)] {
            let one_way = Duration::from_micros(500);
            let mut cluster = group_with(5, 4, 500, one_way, busy, last_max);
            latency(&mut cluster, 4);
            let (made, before) = (lists_of(&cluster), latency(&mut cluster, 4));
            cluster.start(4);
            let with_join = latency(&mut cluster, 4);
            println!("busy {busy}, {lists} lists: p99 and longest {before:?}, then {with_join:?}");
            assert!(cluster.all_in_one_configuration());
            assert_eq!(lists_of(&cluster), made + lists);
            assert!(with_join.0 <= before.0 * 2 || lists == 0);
            cluster.check();
        }
    }
}

/// A full group goes on as it is beside a process for which it has no room, which is alone.
#[test]
fn who_finds_no_room_does_not_disturb_a_full_group() {
    for (hosts, seed) in [2, 3, 5].into_iter().flat_map(|it| [(it, 1), (it, 2)]) {
        let config = RmpConfig {
            members_max: hosts - 1,
            ..RmpConfig::lan()
        };
        let full = 0..hosts - 1;
        let mut cluster = with_started(hosts, full.clone(), seed, config);
        let before = full.clone().map(|host| cluster.configurations(host).len());
        let before: Vec<usize> = before.collect();
        cluster.start(hosts - 1);
        cluster.run_for(Duration::from_secs(10));
        let after = full.map(|host| cluster.configurations(host).len());
        assert_eq!(
            after.collect::<Vec<_>>(),
            before,
            "{hosts} hosts, seed {seed}"
        );
        let alone = cluster.configurations(hosts - 1);
        assert_eq!(alone.len(), 1, "{hosts} hosts, seed {seed}");
    }
}

/// Of more processes than a group may have, that start together, each works in a configuration soon
/// and stays there.
#[test]
fn of_too_many_that_start_together_each_has_a_configuration() {
    for (hosts, seed) in [2, 3, 5]
        .into_iter()
        .flat_map(|it| [(it, 1), (it, 2), (it, 3)])
    {
        let config = RmpConfig {
            members_max: hosts - 1,
            ..RmpConfig::lan()
        };
        let mut cluster = not_started(hosts, seed, config);
        for host in 0..hosts {
            cluster.start(host);
        }
        cluster.run_for(Duration::from_secs(5));
        let count = |cluster: &Cluster<Rmp>| -> Vec<usize> {
            let counts = (0..hosts).map(|host| cluster.configurations(host).len());
            counts.collect()
        };
        let settled = count(&cluster);
        cluster.run_for(Duration::from_secs(10));
        assert_eq!(count(&cluster), settled, "{hosts} hosts, seed {seed}");
        for host in 0..hosts {
            let now = cluster.current_configuration(host).expect("it works");
            assert!(now.members.len() < hosts, "{hosts} hosts, seed {seed}");
        }
    }
}

/// Two groups that can reach each other since they have formed. Each member announced its group for
/// the first time when as many intervals had passed as there are members, or nearly: a group of 100
/// was silent for 15 s, and of 128 that start together 48 and 80 stayed apart for 7 s.
#[test]
fn two_large_groups_find_each_other_soon() {
    const HALF: usize = 20;
    for seed in [1, 2, 3] {
        let mut cluster = not_started(2 * HALF, seed, RmpConfig::lan());
        let (one, other): (Vec<usize>, Vec<usize>) = (0..2 * HALF).partition(|it| *it < HALF);
        cluster.partition(&[&one, &other]);
        (0..2 * HALF).for_each(|host| {
            cluster.start(host);
        });
        let halves = |cluster: &Cluster<Rmp>| {
            (0..2 * HALF).all(|host| {
                let now = cluster.current_configuration(host);
                now.is_some_and(|it| it.members.len() == HALF)
            })
        };
        cluster.must("two groups", halves, Duration::from_secs(3));
        cluster.heal();
        super::come_together(&mut cluster, Duration::from_millis(2_600));
        cluster.check();
    }
}

/// Hosts that fit into no configuration with a full one stayed apart, and nothing said so.
#[test]
fn both_sides_tell_of_strangers_for_whom_there_is_no_room() {
    let config = RmpConfig {
        members_max: 3,
        ..RmpConfig::lan()
    };
    let mut cluster = with_started(4, 0..3, 7, config);
    cluster.start(3);
    cluster.run_for(Duration::from_secs(10));
    let no_room = |cluster: &Cluster<Rmp>, host: usize| {
        let protocol = cluster.protocol(host).expect("it lives");
        let refused = protocol.status().counters.strangers_refused;
        (refused, protocol.hearing(cluster.now()).no_room)
    };
    let fourth = cluster.member(3).expect("it lives");
    for host in 0..3 {
        let (refused, told) = no_room(&cluster, host);
        assert!(refused > 0, "host {host}");
        assert_eq!(told, [fourth], "host {host}");
    }
    let others: Vec<_> = (0..3).filter_map(|it| cluster.member(it)).collect();
    let (refused, mut told) = no_room(&cluster, 3);
    told.sort_unstable();
    assert!(refused > 0);
    assert!(others.iter().all(|it| told.contains(it)), "{told:?}");
    cluster.crash(0);
    let limit = Duration::from_secs(5);
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        limit,
    );
    for host in 1..4 {
        assert_eq!(
            no_room(&cluster, host).1.len(),
            usize::from(host == 3),
            "host {host}"
        );
    }
}
