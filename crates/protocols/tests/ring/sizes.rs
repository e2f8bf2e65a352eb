//! Goal: members whose ways carry datagrams of different sizes hand every message over as it was
//! sent, and the one whose way carries least is shut out by nothing.
//! Method: settings per member, messages of many packets, loss, so that packets are sent again
//! beside new ones; a way that loses what is longer.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{MemberId, Rng, Service, SocketClass};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::{Cluster, ClusterConfig};

/// A started cluster whose members have these sizes of datagrams, in turn.
fn started_with(sizes: &'static [usize], hosts: usize, seed: u64) -> Cluster<Ring> {
    let factory = move |member: MemberId, rng, now| {
        let body_max = sizes[member.node.0 as usize % sizes.len()];
        let config = RingConfig {
            body_max,
            ..RingConfig::lan()
        };
        Ring::new(config, member, rng, now).expect("the settings are valid")
    };
    Cluster::started(ClusterConfig::new(hosts, seed), factory)
}

/// The same, in one ring.
fn formed_with(sizes: &'static [usize], hosts: usize, seed: u64) -> Cluster<Ring> {
    let mut cluster = started_with(sizes, hosts, seed);
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_secs(2),
    );
    cluster
}

/// Messages of one to thirty packets from all members under loss: the checker compares what was
/// delivered with what was sent.
fn load(cluster: &mut Cluster<Ring>, messages: u64, seed: u64) {
    let mut random = Rng::new(seed);
    cluster.set_loss(0.03);
    for number in 0..messages {
        let len = random.range(100..40_000) as usize;
        let payload: Vec<u8> = (0..len)
            .map(|index| (index as u64 * 7 + number) as u8)
            .collect();
        let host = number as usize % cluster.hosts();
        cluster
            .submit(host, Service::Agreed, Bytes::from(payload))
            .expect("there is room");
        cluster.run_for(Duration::from_micros(random.range(0..1_500)));
    }
    cluster.heal();
    cluster.must(
        "everything is delivered everywhere",
        |cluster| {
            let all = |host| cluster.deliveries(host).len() as u64 == messages;
            (0..cluster.hosts()).all(all)
        },
        Duration::from_secs(5),
    );
}

#[test]
fn members_with_different_sizes_deliver_what_was_sent() {
    let mixtures: [&'static [usize]; 3] = [&[1431, 1381, 1351], &[1431, 1423], &[1431, 1300]];
    for (seed, sizes) in (50..).zip(mixtures) {
        let mut cluster = formed_with(sizes, 4, seed);
        load(&mut cluster, 150, seed);
        cluster.check();
    }
}

/// Bytes of a datagram around the protocol's body.
const AROUND: usize = 41;

/// The way to `host` loses bodies of more than `most` bytes.
fn narrow(cluster: &mut Cluster<Ring>, host: usize, most: usize) {
    cluster.drop_all(move |info| info.to == host && info.bytes.len() > most + AROUND);
}

/// The packets that the old ring exchanges are longer than the way to the newcomer carries.
#[test]
fn a_member_with_a_smaller_way_joins_a_ring_that_has_much_to_recover() {
    for seed in 60..66 {
        // Nodes are numbered from 1 on: it is the last one that has little.
        let mut cluster = started_with(&[600, 1431, 1431, 1431], 4, seed);
        cluster.partition(&[&[0, 1, 2], &[3]]);
        cluster.run_for(Duration::from_secs(1));
        cluster.heal();
        narrow(&mut cluster, 3, 600);
        // Host 1 hears no data: nothing becomes safe, and there is much to recover.
        cluster.drop_all(|info| {
            info.to == 1 && info.class == SocketClass::Data && info.bytes.len() > 1_000
        });
        for _ in 0..5 {
            for host in 0..3 {
                cluster
                    .submit(host, Service::Safe, vec![host as u8; 20_000])
                    .expect("there is room");
            }
        }
        let state = |cluster: &Cluster<Ring>| cluster.protocol(0).map(|it| it.status().state);
        let forms = |cluster: &Cluster<Ring>| state(cluster) == Some("commit");
        cluster.must("a ring forms", forms, Duration::from_secs(2));
        cluster.heal();
        narrow(&mut cluster, 3, 600);
        let whole = Cluster::all_in_one_configuration;
        cluster.must("one ring", whole, Duration::from_secs(2));
        let delivered =
            |cluster: &Cluster<Ring>| (0..3).all(|host| cluster.deliveries(host).len() == 15);
        cluster.must("everything is delivered", delivered, Duration::from_secs(2));
        // The ring of three, its end, the ring of four.
        assert_eq!(cluster.configurations(0).len(), 3, "seed {seed}");
        cluster.check();
    }
}

/// Joins, the commit token and announcements of many members are longer than the way to one of them
/// carries: with 16 the commit token, with 40 all of them.
#[test]
fn a_member_with_a_smaller_way_is_let_in_by_many() {
    for hosts in [16, 40] {
        let last = hosts - 1;
        let factory = move |member: MemberId, rng, now| {
            let narrow = member.node.0 == hosts as u64;
            let config = RingConfig {
                body_max: if narrow { 600 } else { 1431 },
                ..RingConfig::lan()
            };
            Ring::new(config, member, rng, now).expect("the settings are valid")
        };
        for late in [false, true] {
            let mut cluster = Cluster::new(ClusterConfig::new(hosts, 70), factory);
            narrow(&mut cluster, last, 600);
            for host in 0..last {
                cluster.start(host);
            }
            if late {
                cluster.run_for(Duration::from_secs(1));
            }
            cluster.start(last);
            let whole = Cluster::all_in_one_configuration;
            cluster.must("one ring", whole, Duration::from_secs(2));
            let before = cluster.configurations(last).len();
            cluster.run_for(Duration::from_secs(1));
            assert_eq!(cluster.configurations(last).len(), before);
            cluster.check();
        }
    }
}
