//! Goal: a member claims no number for a packet that it has no room to keep.
//! Method: little may be on its way, two rings have as much of it as they may when they merge, and
//! messages span many packets.

use std::time::Duration;

use groupcast_core::{MemberId, Ordered as _, Service, SocketClass};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::{Cluster, ClusterConfig};

use super::with_config;

#[test]
fn what_is_recovered_leaves_room_for_what_follows() {
    for seed in 0..10 {
        let config = RingConfig {
            seq_gap_max: 64,
            ..RingConfig::lan()
        };
        let mut cluster = with_config(4, seed, config);
        cluster.must(
            "one ring",
            Cluster::all_in_one_configuration,
            Duration::from_secs(2),
        );
        cluster.partition(&[&[0, 1], &[2, 3]]);
        cluster.run_for(Duration::from_secs(1));
        // One member of each ring hears no data any more: nothing becomes safe, and all that may be
        // is on its way.
        cluster.drop_all(|info| {
            let deaf = info.to == 1 || info.to == 3;
            deaf && info.class == SocketClass::Data && info.bytes.len() > 1_000
        });
        for host in 0..4 {
            for _ in 0..4 {
                cluster
                    .submit(host, Service::Agreed, vec![host as u8; 60_000])
                    .expect("there is room");
            }
        }
        cluster.run_for(Duration::from_millis(20 + 10 * seed));
        cluster.heal();
        cluster.must(
            "everything is delivered at its sender",
            |cluster| {
                let own = |host: usize| {
                    let member = cluster.member(host);
                    let own = cluster.deliveries(host).iter();
                    own.filter(|it| Some(it.id.sender) == member).count()
                };
                cluster.all_in_one_configuration() && (0..4).all(|host| own(host) == 4)
            },
            Duration::from_secs(10),
        );
        cluster.check();
    }
}

/// Three members, of which host 1 may have little on its way and the others much, in one ring.
fn one_with_a_small_gap(seed: u64) -> Cluster<Ring> {
    let factory = |member: MemberId, rng, now| {
        let small = member.node.0 == 2;
        let lan = RingConfig::lan();
        let config = RingConfig {
            seq_gap_max: if small { 64 } else { lan.seq_gap_max },
            ..lan
        };
        Ring::new(config, member, rng, now).expect("the settings are valid")
    };
    let mut cluster = Cluster::started(ClusterConfig::new(3, seed), factory);
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_secs(2),
    );
    cluster
}

/// Each counts with the gap that others have, not with its own.
#[test]
fn a_member_with_a_small_gap_stays_with_others_that_have_a_large_one() {
    let mut cluster = one_with_a_small_gap(11);
    // Its windows grow while it takes little.
    for _ in 0..3 {
        for number in 0..60 {
            cluster
                .submit(number % 3, Service::Agreed, vec![1; 60_000])
                .expect("there is room");
        }
        cluster.run_for(Duration::from_millis(300));
    }
    let changes = |cluster: &Cluster<Ring>| cluster.configurations(0).len();
    let before = changes(&cluster);
    assert_eq!(before, 1);
    let all = |cluster: &Cluster<Ring>| (0..3).all(|it| cluster.deliveries(it).len() == 180);
    cluster.must("everything is delivered", all, Duration::from_secs(10));
    assert_eq!(changes(&cluster), before);
    cluster.check();
}

/// When the ring changes, the others hold more of it than the member with the small gap has room
/// for.
#[test]
fn a_member_with_a_small_gap_delivers_what_the_others_deliver_when_one_dies() {
    for seed in 0..8 {
        let mut cluster = one_with_a_small_gap(seed);
        // It hears no data, so nothing becomes safe, and the others go on up to their own gap.
        cluster.drop_all(|info| {
            info.to == 1 && info.class == SocketClass::Data && info.bytes.len() > 1_000
        });
        for number in 0..40 {
            let host = [0, 2][number % 2];
            let _ = cluster.submit(host, Service::Agreed, vec![1; 60_000]);
        }
        cluster.run_for(Duration::from_millis(20 + 10 * seed));
        cluster.crash(2);
        cluster.heal();
        let pair = |it: &Cluster<Ring>| {
            let now = it.current_configuration(1).map(|it| it.members.len());
            now == Some(2) && it.all_in_one_configuration()
        };
        cluster.must("a ring of two", pair, Duration::from_secs(10));
        cluster.run_for(Duration::from_secs(2));
        cluster.check();
    }
}

/// Hosts that fit into no configuration with a full one stayed apart, and nothing said so.
#[test]
fn both_sides_tell_of_strangers_for_whom_there_is_no_room() {
    let config = RingConfig {
        members_max: 3,
        ..RingConfig::lan()
    };
    let mut cluster = with_config(4, 7, config);
    cluster.run_for(Duration::from_secs(10));
    let no_room = |cluster: &Cluster<Ring>, host: usize| {
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
