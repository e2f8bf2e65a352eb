//! Goal: what 003 3.3.4 says of NAPP: without loss there are ACKs alone; who lacks a packet says so
//! unless another has; who hears nothing polls; a state vector tells what others have; a lost
//! receiver fails the delivery. Method: the simulator's cluster, with single datagrams lost by
//! choice, and counters; the swarm for the planted bug.

use std::collections::BTreeMap;
use std::string::String;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Contract, Instrumented as _, MessageId, Rng, Service, Time};
use groupcast_sim::swarm::{Swarm, SwarmConfig};
use groupcast_sim::{Cluster, ClusterConfig};

use super::wire::{Message, What};
use super::{FAMILY, Napp, NappConfig, Planted};

const MINUTE: Duration = Duration::from_secs(60);

/// A source, host 0, and receivers, which have heard each other.
fn group(receivers: usize, seed: u64, config: NappConfig) -> Cluster<Napp> {
    let config = NappConfig {
        receivers: receivers as u32,
        ..config
    };
    let mut world = ClusterConfig::new(receivers + 1, seed);
    world.contract = Contract::Unreliable;
    let mut cluster = Cluster::started(world, move |local, rng: Rng, _| {
        Napp::new(local, config.clone(), rng).expect("the settings are in their ranges")
    });
    for host in 0..=receivers {
        send(&mut cluster, host, 1);
    }
    cluster.run_for(Duration::from_secs(5));
    cluster
}

fn send(cluster: &mut Cluster<Napp>, host: usize, len: usize) -> MessageId {
    let payload = Bytes::from(std::vec![7; len]);
    let submitted = cluster.submit(host, Service::Reliable, payload);
    submitted.expect("there is room")
}

/// Until its account is there.
fn settled(cluster: &mut Cluster<Napp>, id: MessageId) -> Duration {
    let since = cluster.now();
    let is_settled = |cluster: &Cluster<Napp>| cluster.has_delivered(0, id);
    cluster.must("it is settled", is_settled, MINUTE);
    cluster.now() - since
}

fn counted(cluster: &Cluster<Napp>, host: usize) -> BTreeMap<&'static str, u64> {
    let mut counted = BTreeMap::new();
    let entity = cluster.protocol(host).expect("it runs");
    entity.measure(&mut |name, value| {
        counted.insert(name, value);
    });
    counted
}

/// How much more the source has counted than `before`.
fn since(
    cluster: &Cluster<Napp>,
    before: &BTreeMap<&'static str, u64>,
) -> impl Fn(&str) -> u64 + use<> {
    let now = counted(cluster, 0);
    let before = before.clone();
    move |name: &str| now[name] - before[name]
}

/// How often all receivers have said something of this name.
fn said(cluster: &Cluster<Napp>, name: &str) -> u64 {
    let hosts = 1..cluster.hosts();
    hosts.map(|host| counted(cluster, host)[name]).sum()
}

fn read(body: &[u8]) -> Option<Message> {
    Message::decode(&Bytes::copy_from_slice(body)).ok()
}

/// Whether it is the packet with this number, the first time.
fn is_packet(body: &[u8], number: u32) -> bool {
    matches!(read(body), Some(Message::Data { again: false, sequence, .. }) if sequence == number)
}

#[test]
fn without_loss_a_byte_costs_an_ack_of_each_and_no_poll() {
    for receivers in [2, 5, 50] {
        let mut cluster = group(receivers, 1, NappConfig::default());
        let before = counted(&cluster, 0);
        let id = send(&mut cluster, 0, 1);
        settled(&mut cluster, id);
        cluster.run_for(Duration::from_secs(1));
        assert!((0..=receivers).all(|host| cluster.has_delivered(host, id)));
        let counts = since(&cluster, &before);
        assert_eq!(counts("ACKs heard"), receivers as u64);
        assert_eq!((counts("PACKs heard"), counts("SREJs heard")), (0, 0));
        assert_eq!((counts("repairs"), counts("failed")), (0, 0));
        cluster.check();
    }
}

#[test]
fn acks_come_after_so_many_packets_in_sequence_and_move_the_window() {
    let config = NappConfig {
        window: 32,
        ..NappConfig::default()
    };
    let mut cluster = group(4, 1, config);
    let before = counted(&cluster, 0);
    // 200 packets: an ACK at 16, 32 … 192 and one at the end.
    let id = send(&mut cluster, 0, 200 * Napp::PACKET);
    settled(&mut cluster, id);
    assert!((0..=4).all(|host| cluster.has_delivered(host, id)));
    let counts = since(&cluster, &before);
    assert_eq!(counts("ACKs heard"), 4 * 13);
    assert_eq!((counts("PACKs heard"), counts("repairs")), (0, 0));
    cluster.check();
}

/// All twenty lack the packet in the middle.
fn all_miss_one(probability: u32) -> u64 {
    let config = NappConfig {
        probability,
        ..NappConfig::default()
    };
    let mut cluster = group(20, 3, config);
    let before = counted(&cluster, 0);
    cluster.drop_all(|datagram| is_packet(datagram.body(), 1));
    let id = send(&mut cluster, 0, 3 * Napp::PACKET);
    settled(&mut cluster, id);
    assert!((0..=20).all(|host| cluster.has_delivered(host, id)));
    let counts = since(&cluster, &before);
    assert_eq!((counts("repairs"), counts("PACKs heard")), (1, 0));
    cluster.check();
    counts("SREJs heard")
}

#[test]
fn who_lacks_a_packet_says_so_with_p_and_one_repair_serves_all() {
    let (always, rarely) = (all_miss_one(100), all_miss_one(10));
    assert_eq!(always, 20);
    assert!(
        (1..10).contains(&rarely),
        "{rarely} of 20 with a probability of 10 %"
    );
}

#[test]
fn who_hears_nothing_polls_and_an_srej_that_is_heard_makes_a_loss_known() {
    let mut cluster = group(3, 1, NappConfig::default());
    let before = counted(&cluster, 0);
    // Everything is lost the first time: nobody knows that anything was sent.
    let is_fresh = |body: &[u8]| matches!(read(body), Some(Message::Data { again: false, .. }));
    cluster.drop_all(move |datagram| is_fresh(datagram.body()));
    let id = send(&mut cluster, 0, 4 * Napp::PACKET);
    settled(&mut cluster, id);
    assert!((0..=3).all(|host| cluster.has_delivered(host, id)));
    let counts = since(&cluster, &before);
    // A PACK brings the first packet again, which says that three more were sent.
    assert!(counts("PACKs heard") >= 1 && counts("SREJs heard") >= 3);
    assert!(counts("repairs") >= 4);
    cluster.check();
}

#[test]
fn a_state_vector_tells_what_a_receiver_has_that_is_not_heard() {
    let mut cluster = group(3, 1, NappConfig::default());
    let before = counted(&cluster, 0);
    let is_control = |body: &[u8]| matches!(read(body), Some(Message::Control { .. }));
    cluster.drop_all(move |datagram| {
        (datagram.from, datagram.to) == (2, 0) && is_control(datagram.body())
    });
    let id = send(&mut cluster, 0, 1);
    let took = settled(&mut cluster, id);
    assert!((0..=3).all(|host| cluster.has_delivered(host, id)));
    assert!(took < NappConfig::default().patience, "{took:?}");
    assert_eq!(since(&cluster, &before)("failed"), 0);
    cluster.check();
}

#[test]
fn an_ack_that_is_lost_is_repeated_and_a_close_that_is_lost_is_said_again() {
    let mut cluster = group(1, 1, NappConfig::default());
    let (mut acks, mut closes) = (0, 0);
    cluster.drop_all(move |datagram| {
        let seen = match read(datagram.body()) {
            Some(Message::Control {
                what: What::Ack, ..
            }) => &mut acks,
            Some(Message::Close { .. }) => &mut closes,
            _ => return false,
        };
        *seen += 1;
        *seen == 1
    });
    let before = said(&cluster, "ACKs");
    let id = send(&mut cluster, 0, 1);
    let took = settled(&mut cluster, id);
    assert!(took >= NappConfig::default().ack_interval, "{took:?}");
    cluster.run_for(Duration::from_secs(3));
    let after = said(&cluster, "ACKs");
    assert_eq!(after - before, 3, "lost, heard, and answered with a close");
    cluster.run_for(Duration::from_secs(3));
    assert_eq!(said(&cluster, "ACKs"), after);
    cluster.check();
}

#[test]
fn a_receiver_that_is_lost_fails_the_delivery_and_the_next_does_without() {
    let mut cluster = group(4, 1, NappConfig::default());
    let before = counted(&cluster, 0);
    let id = send(&mut cluster, 0, 400 * Napp::PACKET);
    // It has the first packets, and then no more.
    let is_later = |body: &[u8]| matches!(read(body), Some(Message::Data { sequence: 40.., .. }));
    cluster.drop_all(move |datagram| datagram.to == 3 && is_later(datagram.body()));
    cluster.run_for(Duration::from_millis(500));
    assert!(!cluster.has_delivered(0, id));
    cluster.crash(3);
    let took = settled(&mut cluster, id);
    assert!(took >= Duration::from_secs(1), "{took:?}");
    assert_eq!(since(&cluster, &before)("failed"), 1);
    let next = send(&mut cluster, 0, 1);
    settled(&mut cluster, next);
    assert!(
        [0, 1, 2, 4]
            .iter()
            .all(|host| cluster.has_delivered(*host, next))
    );
    assert_eq!(since(&cluster, &before)("failed"), 1);
    cluster.check();
}

#[test]
fn with_loss_all_that_answered_have_every_message() {
    for seed in 0..20 {
        let config = NappConfig {
            opens: 16,
            ..NappConfig::default()
        };
        let mut cluster = group(6, seed, config);
        let before = counted(&cluster, 0);
        cluster.set_loss(0.1);
        let ids: Vec<MessageId> = (0..5)
            .map(|number| send(&mut cluster, 0, number * 40_000))
            .collect();
        let last = *ids.last().expect("there are five");
        settled(&mut cluster, last);
        let lacking = (1..=6).flat_map(|host| ids.iter().map(move |id| (host, *id)));
        let lacking = lacking.filter(|(host, id)| !cluster.has_delivered(*host, *id));
        let lacking = lacking.count();
        assert_eq!(lacking, 0, "seed {seed}");
        assert_eq!(since(&cluster, &before)("failed"), 0, "seed {seed}");
        cluster.check();
    }
}

#[test]
fn what_is_no_control_of_a_receiver_changes_nothing() {
    use groupcast_core::Protocol as _;
    let mut cluster = group(2, 1, NappConfig::default());
    let is_control = |body: &[u8]| matches!(read(body), Some(Message::Control { .. }));
    cluster.drop_all(move |datagram| is_control(datagram.body()));
    let id = send(&mut cluster, 0, 1);
    cluster.run_for(Duration::from_millis(40));
    let members = [1, 2].map(|host| cluster.member(host).expect("it runs"));
    let source = cluster.member(0).expect("it runs");
    // Of another's index, of too many receivers, of packets that were not sent.
    for (index, vector) in [(0u16, &[1u32, 1][..]), (1, &[1, 1, 1]), (1, &[2, 2])] {
        let at = members.iter().max().copied().expect("there are two");
        let forged = Message::Control {
            what: What::Ack,
            source,
            message: id.number,
            number: 1,
            index,
            vector: vector.to_vec(),
        };
        cluster.act(0, |entity, now: Time| {
            entity.handle_datagram(now, at, forged.encode());
        });
    }
    assert!(!cluster.has_delivered(0, id));
    assert_eq!(counted(&cluster, 0)["junk"], 3);
}

#[test]
fn t_pack_is_longer_than_t_ack() {
    let config = NappConfig {
        pack_interval: Duration::from_millis(50),
        ..NappConfig::default()
    };
    assert!(config.validate().is_err() && NappConfig::default().validate().is_ok());
}

/// The planted bug: who has it says so of all others.
#[test]
fn that_a_receiver_speaks_for_others_is_found() {
    let config = SwarmConfig {
        duration: Duration::from_secs(30),
        ..SwarmConfig::of(&FAMILY)
    };
    let swarm = Swarm::of(&FAMILY, Some(Planted::OwnForAll.name()), config);
    let report = swarm.run_range(0..2_000, 2, true, &|_| ());
    let found = report.failures.first();
    let found = found.expect("one of 2,000 seeds shows it");
    let lies = |violation: &String| violation.contains("which it never delivered");
    assert!(found.violations.iter().any(lies), "{found:?}");
}

/// Without it, nobody is said to have what it has not, and most messages find room.
#[test]
fn no_fault_makes_an_account_false() {
    let config = SwarmConfig {
        duration: Duration::from_secs(30),
        ..SwarmConfig::of(&FAMILY)
    };
    let messages = config.messages as u64;
    let report = Swarm::of(&FAMILY, None, config).run_range(0..40, 2, false, &|_| ());
    let failures = report
        .failures
        .iter()
        .map(|it| (it.seed, it.violations.first()));
    let failures: Vec<_> = failures.collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(
        report.accepted > 40 * messages * 3 / 4,
        "{}",
        report.accepted
    );
}
