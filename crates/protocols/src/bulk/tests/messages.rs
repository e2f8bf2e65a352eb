//! Goal: every policy carries a stream to all receivers whatever the network loses, with the
//! paper's number of acknowledgements where it loses nothing. Method: the simulator's cluster, one
//! message a transfer, the checker's verdict, the endpoints' counters.

use std::time::Duration;
use std::vec;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Contract, MessageId, Service};
use groupcast_sim::{Cluster, ClusterConfig};

use crate::bulk::{
    BulkConfig, Counters, Messages, MessagesConfig, NakRule, Policy, RateControl, Repair, Wanted,
};

const POLICIES: [Policy; 5] = [
    Policy::Ack,
    Policy::Nak { poll: 16 },
    Policy::Ring,
    Policy::Tree { height: 3 },
    Policy::Tree { height: 1 },
];

fn cluster(hosts: usize, seed: u64, bulk: BulkConfig) -> Cluster<Messages> {
    let mut config = ClusterConfig::new(hosts, seed);
    config.contract = Contract::Accounted;
    let settings = MessagesConfig {
        bulk,
        receivers: Wanted::Count(hosts - 1),
        ..MessagesConfig::default()
    };
    Cluster::started(config, move |member, rng, _| {
        Messages::new(member, settings.clone(), rng).expect("the settings fit each other")
    })
}

/// A silent receiver is given up soon.
fn hasty(policy: Policy) -> BulkConfig {
    BulkConfig {
        policy,
        rto_max: Duration::from_millis(200),
        vanish_after: Duration::from_secs(1),
        ..BulkConfig::lan()
    }
}

fn payload(len: usize) -> Bytes {
    let byte = |index: usize| (index * 7 + index / 251) as u8;
    Bytes::from((0..len).map(byte).collect::<Vec<u8>>())
}

/// Submits `len` bytes at host 0 and waits until every host has delivered them.
fn send(cluster: &mut Cluster<Messages>, len: usize, within: Duration) -> MessageId {
    let payload = payload(len);
    let id = cluster
        .submit(0, Service::Fifo, payload.clone())
        .expect("there is room");
    let delivered = |cluster: &Cluster<Messages>| {
        (0..cluster.hosts()).all(|host| cluster.has_delivered(host, id))
    };
    cluster.must("delivered everywhere", delivered, within);
    for host in 0..cluster.hosts() {
        let delivery = cluster
            .deliveries(host)
            .iter()
            .find(|delivery| delivery.id == id);
        assert_eq!(delivery.map(|delivery| &delivery.payload), Some(&payload));
    }
    id
}

fn counters(cluster: &Cluster<Messages>, host: usize) -> Counters {
    cluster.protocol(host).expect("it runs").bulk().counters()
}

/// 001 table 2, for a whole transfer of P packets to N receivers: in the network, and at the
/// sender.
fn table_2(policy: Policy, n: u64, p: u64) -> (u64, u64) {
    match policy {
        Policy::Ack => (n * p, n * p),
        Policy::Nak { poll } => (n * p.div_ceil(poll.into()), n * p.div_ceil(poll.into())),
        Policy::Ring => (p + n - 1, p + n - 1),
        Policy::Tree { height } => (n * p, p * n.div_ceil(height.into())),
        Policy::Xtp(_)
        | Policy::Multidriver(_)
        | Policy::List(_)
        | Policy::Collectors(_)
        | Policy::Cp(_) => {
            unreachable!("003's policies are no rows of 001's table")
        }
    }
}

#[test]
fn without_loss_acknowledgements_are_as_many_as_table_2_says() {
    for policy in POLICIES {
        for (receivers, packets) in [(7, 1), (7, 45), (1, 20), (4, 64)] {
            let config = BulkConfig::paper(policy, 1000, 20);
            let mut cluster = cluster(receivers + 1, 1, config);
            send(&mut cluster, packets * 1000 - 1, Duration::from_secs(5));
            cluster.run_for(Duration::from_millis(50));
            let in_network: u64 = (1..=receivers)
                .map(|host| counters(&cluster, host).reports_sent)
                .sum();
            let at_sender = counters(&cluster, 0);
            assert_eq!(
                (in_network, at_sender.reports_received),
                table_2(policy, receivers as u64, packets as u64),
                "{policy:?} with {receivers} receivers and {packets} packets"
            );
            assert_eq!(
                (at_sender.packets_repeated, at_sender.naks_received),
                (0, 0)
            );
            cluster.check();
        }
    }
}

#[test]
fn every_policy_gets_through_loss_by_either_repair() {
    for (index, policy) in POLICIES.into_iter().enumerate() {
        for repair in [Repair::GoBackN, Repair::Selective] {
            let config = BulkConfig {
                repair,
                suppression: None,
                ..BulkConfig::paper(policy, 1400, 32)
            };
            let mut cluster = cluster(6, index as u64, config);
            cluster.set_loss(0.05);
            for len in [0, 1, 1400, 150_000] {
                send(&mut cluster, len, Duration::from_secs(60));
            }
            assert!(counters(&cluster, 0).packets_repeated > 0);
            cluster.check();
        }
    }
}

#[test]
fn the_defaults_get_through_heavy_loss_and_repeat_little_more_than_was_lost() {
    let mut cluster = cluster(4, 3, BulkConfig::lan());
    cluster.set_loss(0.2);
    send(&mut cluster, 2_000_000, Duration::from_secs(60));
    let counters = counters(&cluster, 0);
    // Alone, each receiver needs 1.25 transmissions a packet; repeats without parity take 1.63 for
    // three.
    let packets = 2_000_000_u64.div_ceil(1400);
    let sent = counters.packets_sent + counters.parity_sent;
    let ratio = sent as f64 / packets as f64;
    assert!(
        (1.25..1.55).contains(&ratio),
        "{ratio} transmissions a packet"
    );
    cluster.check();
}

#[test]
fn multicast_naks_are_suppressed_where_another_receiver_has_asked() {
    let asked = |nak| {
        let config = BulkConfig {
            nak,
            repair: Repair::Selective,
            suppression: None,
            rate: RateControl::Fixed {
                bytes_per_second: 4_000_000,
            },
            ..BulkConfig::paper(Policy::Nak { poll: 512 }, 1400, 512)
        };
        let mut cluster = cluster(9, 5, config);
        let mut count = 0;
        // What one packet in twenty loses, all receivers lose.
        cluster.drop_all(move |datagram| {
            let data = datagram.from == 0 && datagram.bytes.len() > 1000;
            count += u64::from(data && datagram.to == 1);
            data && count % 20 == 7
        });
        send(&mut cluster, 400_000, Duration::from_secs(20));
        cluster.check();
        let total = |count: fn(Counters) -> u64| {
            (1..9)
                .map(|host| count(counters(&cluster, host)))
                .sum::<u64>()
        };
        (total(|c| c.naks_sent), total(|c| c.naks_suppressed))
    };
    let (unicast, none) = asked(NakRule::Unicast);
    let delay_max = Duration::from_millis(4);
    let (multicast, suppressed) = asked(NakRule::Multicast { delay_max });
    assert_eq!(none, 0);
    assert!(
        suppressed > 0 && multicast * 2 < unicast,
        "{multicast} of {unicast}, {suppressed} suppressed"
    );
}

#[test]
fn memory_of_the_sender_stays_within_two_windows_and_a_block() {
    let config = BulkConfig {
        rate: RateControl::Window,
        window: 64,
        policy: Policy::Nak { poll: 48 },
        ..BulkConfig::lan()
    };
    let mut cluster = cluster(5, 7, config);
    cluster.set_loss(0.02);
    send(&mut cluster, 3_000_000, Duration::from_secs(20));
    let sender = cluster.protocol(0).expect("it runs");
    let most = sender.bulk().status().buffered_max;
    assert!(most > 0 && most <= (2 * 64 + 64) * 1400, "{most} bytes");
}

#[test]
fn a_receiver_that_dies_is_accounted_for_and_does_not_stop_the_others() {
    for policy in POLICIES {
        let mut cluster = cluster(5, 11, hasty(policy));
        let id = cluster
            .submit(0, Service::Fifo, payload(5_000_000))
            .expect("there is room");
        cluster.run_for(Duration::from_millis(70));
        cluster.crash(2);
        let delivered = |cluster: &Cluster<Messages>| {
            [0, 1, 3, 4]
                .iter()
                .all(|host| cluster.has_delivered(*host, id))
        };
        cluster.must(
            "delivered by the others",
            delivered,
            Duration::from_secs(20),
        );
        cluster.check();
    }
}

#[test]
fn a_restarted_receiver_gets_the_next_message() {
    let mut cluster = cluster(4, 13, BulkConfig::lan());
    send(&mut cluster, 10_000, Duration::from_secs(5));
    cluster.crash(3);
    cluster.restart(3);
    let id = send(&mut cluster, 10_000, Duration::from_secs(10));
    assert_eq!(id.number, 2);
    cluster.check();
}

#[test]
fn messages_of_several_senders_cross() {
    let mut config = ClusterConfig::new(4, 17);
    config.contract = Contract::Accounted;
    config.network.loss = 0.03;
    let settings = MessagesConfig {
        receivers: Wanted::Count(3),
        ..MessagesConfig::default()
    };
    let mut cluster = Cluster::started(config, move |member, rng, _| {
        Messages::new(member, settings.clone(), rng).expect("the settings fit each other")
    });
    let mut ids = vec![];
    for round in 0..3 {
        for host in 0..4 {
            let id = cluster.submit(host, Service::Fifo, payload(20_000 * (round + 1)));
            ids.push(id.expect("there is room"));
        }
    }
    let delivered = |cluster: &Cluster<Messages>| {
        (0..4).all(|host| ids.iter().all(|id| cluster.has_delivered(host, *id)))
    };
    cluster.must("all delivered", delivered, Duration::from_secs(30));
    cluster.check();
}

#[test]
fn receivers_that_took_the_sender_for_gone_are_served_when_it_is_back() {
    for policy in POLICIES {
        let mut cluster = cluster(4, 19, hasty(policy));
        let id = cluster
            .submit(0, Service::Fifo, payload(5_000_000))
            .expect("there is room");
        cluster.run_for(Duration::from_millis(70));
        cluster.pause(0);
        cluster.run_for(Duration::from_secs(3));
        cluster.resume(0);
        let delivered =
            |cluster: &Cluster<Messages>| (0..4).all(|host| cluster.has_delivered(host, id));
        cluster.must("delivered", delivered, Duration::from_secs(20));
        cluster.check();
    }
}

#[test]
fn a_leave_delivers_and_accounts_for_what_it_gives_up() {
    let mut cluster = cluster(2, 23, BulkConfig::lan());
    cluster.crash(1);
    for _ in 0..3 {
        let submitted = cluster.submit(0, Service::Fifo, payload(1_000));
        submitted.expect("there is room");
    }
    cluster.leave(0);
    cluster.run_for(Duration::from_secs(9));
    assert!(cluster.is_alive(0) && cluster.deliveries(0).is_empty());
    cluster.run_for(Duration::from_secs(2));
    assert!(!cluster.is_alive(0));
    assert_eq!(cluster.deliveries(0).len(), 3);
    cluster.check();
}

/// Found by a fuzzer: what came whole after the leave was acknowledged, and delivered by nobody.
#[test]
fn who_leaves_in_the_middle_of_a_message_says_so() {
    let slow = BulkConfig {
        rate: RateControl::Fixed {
            bytes_per_second: 200_000,
        },
        ..BulkConfig::lan()
    };
    let mut cluster = cluster(3, 29, slow);
    let id = cluster
        .submit(0, Service::Fifo, payload(200_000))
        .expect("there is room");
    // It takes a second.
    cluster.run_for(Duration::from_millis(500));
    cluster.leave(1);
    let accounted = |cluster: &Cluster<Messages>| cluster.has_delivered(0, id);
    cluster.must("accounted", accounted, Duration::from_secs(2));
    assert!(cluster.has_delivered(2, id) && !cluster.has_delivered(1, id));
    cluster.check();
}
