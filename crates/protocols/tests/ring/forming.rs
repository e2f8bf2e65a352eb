//! Goal: rings form, whatever the order of start; a group of one is a ring too; no more come in
//! than may.
//! Method: start hosts together, one after another, one alone; look at configurations and
//! deliveries.

use std::time::Duration;

use groupcast_protocols::ring::{FAMILY, Ring, RingConfig};
use groupcast_sim::{Cluster, ClusterConfig};

use super::{cluster, formed};

#[test]
fn a_member_alone_orders_its_own_messages() {
    let mut cluster = formed(1, 1);
    for service in FAMILY.services {
        cluster.submit(0, *service, "hello").expect("there is room");
    }
    cluster.run_for(Duration::from_millis(50));
    assert_eq!(cluster.deliveries(0).len(), FAMILY.services.len());
    cluster.check();
}

#[test]
fn members_that_start_together_form_one_ring_at_once() {
    for hosts in 2..=9 {
        let mut cluster = cluster(hosts, hosts as u64);
        cluster.must(
            "one ring",
            Cluster::all_in_one_configuration,
            Duration::from_secs(1),
        );
        for host in 0..hosts {
            for service in FAMILY.services {
                cluster
                    .submit(host, *service, format!("{service} from {host}"))
                    .expect("there is room");
            }
        }
        cluster.run_for(Duration::from_millis(100));
        for host in 0..hosts {
            assert_eq!(
                cluster.deliveries(host).len(),
                hosts * FAMILY.services.len(),
                "host {host} of {hosts}"
            );
        }
        cluster.check();
    }
}

/// Hosts of which none is started yet, with rings of at most `most` members.
fn at_most(most: usize, hosts: usize, seed: u64) -> Cluster<Ring> {
    let config = RingConfig {
        members_max: most,
        ..RingConfig::lan()
    };
    Cluster::new(ClusterConfig::new(hosts, seed), move |member, rng, now| {
        Ring::new(config.clone(), member, rng, now).expect("the settings are valid")
    })
}

/// No configuration changes any more, and none has more than `most` members.
fn stays(cluster: &mut Cluster<Ring>, most: usize) {
    let changes = |cluster: &Cluster<Ring>| -> Vec<usize> {
        let hosts = 0..cluster.hosts();
        hosts.map(|it| cluster.configurations(it).len()).collect()
    };
    let before = changes(cluster);
    cluster.run_for(Duration::from_secs(20));
    assert_eq!(changes(cluster), before);
    for host in 0..cluster.hosts() {
        let members = |cluster: &Cluster<Ring>| {
            let configuration = cluster.current_configuration(host);
            configuration.map_or(0, |it| it.members.len())
        };
        assert!((1..=most).contains(&members(cluster)), "host {host}");
    }
    cluster.check();
}

#[test]
fn one_member_too_many_leaves_a_full_ring_as_it_is() {
    for (most, seed) in [(2, 40), (3, 41), (3, 42), (5, 43)] {
        for late in [0, most] {
            let mut cluster = at_most(most, most + 1, seed);
            let first: Vec<usize> = (0..=most).filter(|it| *it != late).collect();
            for host in &first {
                cluster.start(*host);
            }
            cluster.run_for(Duration::from_secs(1));
            let full = cluster.configurations(first[0]).len();
            cluster.start(late);
            cluster.run_for(Duration::from_secs(5));
            for host in first {
                assert_eq!(cluster.configurations(host).len(), full, "host {host}");
            }
            stays(&mut cluster, most);
        }
    }
}

/// One of the rings is full.
#[test]
fn too_many_that_start_together_form_rings_that_stay() {
    for (most, hosts) in [(3, 4), (3, 5), (4, 7)] {
        for seed in 0..10 {
            let mut cluster = at_most(most, hosts, seed);
            cluster.start_all();
            cluster.run_for(Duration::from_secs(5));
            stays(&mut cluster, most);
            let members = |host| {
                cluster
                    .current_configuration(host)
                    .map(|it| it.members.len())
            };
            let full = (0..hosts).filter(|it| members(*it) == Some(most)).count();
            assert_eq!(full, most, "{hosts} hosts, seed {seed}");
        }
    }
}

/// Two hosts begin at about the same time beside a ring of `of_ring`, one of which is started again
/// then if `restarts`; there is room for `most`. All of the ring that did not crash stay together.
fn newcomers_beside(most: usize, of_ring: &[usize], restarts: bool, seed: u64) {
    let hosts = of_ring.len() + 2 - usize::from(restarts);
    let mut cluster = at_most(most, hosts, seed);
    for host in of_ring {
        cluster.start(*host);
    }
    cluster.run_for(Duration::from_millis(800 + 23 * seed));
    let ring = cluster.current_configuration(of_ring[0]).cloned();
    let together = ring.expect("it is formed").members.len() == of_ring.len();
    assert!(together, "{of_ring:?}, seed {seed}");
    let again = of_ring[seed as usize % of_ring.len()];
    if restarts {
        cluster.crash(again);
        cluster.restart(again);
    }
    for host in (0..hosts).filter(|it| !of_ring.contains(it)) {
        cluster.start(host);
    }
    let stays = |host: &usize| !restarts || *host != again;
    let stay: Vec<usize> = of_ring.iter().copied().filter(stays).collect();
    let before: Vec<usize> = stay
        .iter()
        .map(|it| cluster.configurations(*it).len())
        .collect();
    cluster.run_for(Duration::from_secs(3));
    let members: Vec<_> = stay.iter().filter_map(|it| cluster.member(*it)).collect();
    for (host, before) in stay.iter().zip(before) {
        for later in &cluster.configurations(*host)[before..] {
            let all = members.iter().all(|it| later.members.contains(it));
            assert!(
                all,
                "{of_ring:?}, host {host}, seed {seed}: {:?}",
                later.members
            );
        }
    }
    cluster.check();
}

#[test]
fn those_that_begin_together_put_nobody_out_of_a_ring() {
    for of_ring in [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]] {
        for seed in 0..30 {
            newcomers_beside(3, &of_ring, false, seed);
        }
    }
    for of_ring in [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]] {
        for seed in 0..30 {
            newcomers_beside(3, &of_ring, true, seed);
        }
    }
}

#[test]
fn rings_that_have_no_room_for_each_other_stay_apart() {
    let mut cluster = at_most(3, 4, 44);
    cluster.partition(&[&[0, 1], &[2, 3]]);
    for host in 0..4 {
        cluster.start(host);
    }
    cluster.run_for(Duration::from_secs(1));
    let before = cluster.configurations(0).len();
    cluster.heal();
    cluster.run_for(Duration::from_secs(5));
    assert_eq!(cluster.configurations(0).len(), before);
    stays(&mut cluster, 3);
}

/// How long a ring of at most `most` takes until a host of it that crashed and began again is in.
fn restarts(most: usize, hosts: usize, restarted: usize, seed: u64) -> Duration {
    let mut cluster = at_most(most, hosts, seed);
    cluster.start_all();
    let formed = Cluster::all_in_one_configuration;
    cluster.must("one ring", formed, Duration::from_secs(2));
    cluster.crash(restarted);
    let from = cluster.now();
    cluster.restart(restarted);
    cluster.must("one ring again", formed, Duration::from_secs(5));
    let took = cluster.now().since(from);
    cluster.check();
    took
}

/// The new life gives the old one up as the others do, whether there would be room for both or not.
#[test]
fn a_host_that_begins_again_is_back_as_soon_where_its_ring_is_full() {
    for hosts in 2..=6 {
        for restarted in 0..hosts {
            let seed = (10 * hosts + restarted) as u64;
            let full = restarts(hosts, hosts, restarted, seed);
            let with_room = restarts(2 * hosts, hosts, restarted, seed);
            let most = with_room + Duration::from_millis(100);
            assert!(
                full <= most,
                "{restarted} of {hosts}: {full:?} instead of {with_room:?}"
            );
        }
    }
}

/// Two rings that can reach each other since they have formed. Each member announced its ring for
/// the first time when three quarters as many intervals had passed as there are members, or more:
/// two rings of 64 found each other after 10 s.
#[test]
fn two_large_rings_find_each_other_soon() {
    const HALF: usize = 20;
    for seed in [1, 2, 3] {
        let mut cluster = at_most(2 * HALF, 2 * HALF, seed);
        let (one, other): (Vec<usize>, Vec<usize>) = (0..2 * HALF).partition(|it| *it < HALF);
        cluster.partition(&[&one, &other]);
        cluster.start_all();
        let halves = |cluster: &Cluster<Ring>| {
            (0..2 * HALF).all(|host| {
                let now = cluster.current_configuration(host);
                now.is_some_and(|it| it.members.len() == HALF)
            })
        };
        cluster.must("two rings", halves, Duration::from_secs(2));
        cluster.heal();
        let one = Cluster::all_in_one_configuration;
        cluster.must("one ring", one, Duration::from_millis(2_000));
        cluster.check();
    }
}
