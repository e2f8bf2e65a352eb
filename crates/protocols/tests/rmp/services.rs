//! Goal: every service is delivered when its promise allows, not before and not much later, and
//! what a message outlives it does outlive. Method: loss towards chosen hosts, crashes at the
//! moment of the first delivery, partitions.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use groupcast_core::{Delivery, Gap, MessageId, Service, SubmitError};
use groupcast_protocols::rmp::{FAMILY, Rmp};
use groupcast_sim::Cluster;
use groupcast_sim::swarm::{Crashes, crash_at_delivery};

use super::formed;
use crate::all_have;

/// First byte of the body of a packet of messages.
const DATA: u8 = 33;
/// First byte of an ACK's body.
const ACK: u8 = 34;

fn submit(cluster: &mut Cluster<Rmp>, host: usize, service: Service) -> MessageId {
    let text = format!("{service} of {host}");
    cluster.submit(host, service, text).expect("there is room")
}

/// A group in which every member has sent enough that it may send several packets at once.
fn warm(hosts: usize, seed: u64) -> Cluster<Rmp> {
    let mut cluster = formed(hosts, seed);
    for _ in 0..6 {
        for host in 0..hosts {
            submit(&mut cluster, host, Service::Agreed);
        }
        cluster.run_for(Duration::from_millis(5));
    }
    cluster
}

/// Bodies of this kind reach none of `hosts` from now on.
fn deafen(cluster: &mut Cluster<Rmp>, kind: u8, hosts: &'static [usize]) {
    cluster.drop_all(move |it| it.body().first() == Some(&kind) && hosts.contains(&it.to));
}

fn delivery(cluster: &Cluster<Rmp>, host: usize, id: MessageId) -> Delivery {
    let deliveries = cluster.deliveries(host);
    let mut named = deliveries.iter().filter(|it| it.id == id);
    named.next().expect("it is delivered").clone()
}

#[test]
fn a_message_is_delivered_once_enough_members_hold_it_and_not_before() {
    // 0 sends; 1 and 2 hear it, 3 and 4 do not.
    let held_by = 3;
    let services = [
        Service::KResilient(0),
        Service::KResilient(1),
        Service::KResilient(2),
        Service::Majority,
        Service::KResilient(3),
        Service::KResilient(4),
        Service::KResilient(127),
        Service::Safe,
    ];
    for (seed, service) in services.into_iter().enumerate() {
        let mut cluster = formed(5, 70 + seed as u64);
        deafen(&mut cluster, DATA, &[3, 4]);
        let id = submit(&mut cluster, 0, service);
        cluster.run_for(Duration::from_millis(150));
        let wanted = match service {
            Service::KResilient(k) => usize::from(k) + 1,
            Service::Majority => 3,
            _ => 5,
        };
        for host in 0..3 {
            let delivered = cluster.has_delivered(host, id);
            assert_eq!(delivered, wanted <= held_by, "{service} at {host}");
        }
        cluster.heal();
        let limit = Duration::from_secs(3);
        cluster.must("everywhere", |it| all_have(it, &[id]), limit);
        cluster.check();
    }
}

#[test]
fn early_messages_come_before_they_are_ordered_and_their_sender_s_copy_with_the_ack() {
    for (sender, service) in [
        (1, Service::Reliable),
        (2, Service::Fifo),
        (3, Service::Fifo),
    ] {
        let mut cluster = warm(4, 80);
        let acks = |it: &Cluster<Rmp>| {
            let sender = it.protocol(sender).expect("runs");
            sender.status().counters.acks_sent
        };
        let before = acks(&cluster);
        deafen(&mut cluster, ACK, &[0, 1, 2, 3]);
        let id = submit(&mut cluster, sender, service);
        cluster.run_for(Duration::from_millis(3));
        for host in (0..4).filter(|host| *host != sender) {
            assert_eq!(delivery(&cluster, host, id).place, None, "{service}");
        }
        // A member that has the token itself orders it at once.
        let ordered = acks(&cluster) > before;
        assert_eq!(cluster.has_delivered(sender, id), ordered, "{service}");
        cluster.heal();
        let limit = Duration::from_secs(2);
        cluster.must("accepted", |it| it.has_delivered(sender, id), limit);
        assert_eq!(delivery(&cluster, sender, id).place, None);
        cluster.run_for(Duration::from_millis(200));
        cluster.check();
    }
}

#[test]
fn a_fifo_message_comes_behind_earlier_ones_of_its_sender_and_a_reliable_one_does_not() {
    let mut cluster = warm(4, 81);
    deafen(&mut cluster, ACK, &[0, 1, 2, 3]);
    let ordered = submit(&mut cluster, 2, Service::Agreed);
    let behind = submit(&mut cluster, 2, Service::Fifo);
    let beside = submit(&mut cluster, 2, Service::Reliable);
    cluster.run_for(Duration::from_millis(5));
    for host in [0, 1, 3] {
        assert!(cluster.has_delivered(host, beside));
        assert!(!cluster.has_delivered(host, behind));
    }
    cluster.heal();
    let all = [ordered, behind, beside];
    let limit = Duration::from_secs(2);
    cluster.must("everywhere", |it| all_have(it, &all), limit);
    cluster.check();
}

/// Host 1 alone hears what host 0 sends, and nobody an ACK.
fn whisper(cluster: &mut Cluster<Rmp>, services: &[Service]) -> Vec<MessageId> {
    cluster.drop_all(|it| {
        let kind = it.body().first().copied();
        kind == Some(ACK) || kind == Some(DATA) && it.from == 0 && it.to != 1
    });
    let ids = services.iter().map(|service| submit(cluster, 0, *service));
    let ids: Vec<MessageId> = ids.collect();
    cluster.run_for(Duration::from_millis(5));
    ids
}

/// Host 1 alone has an early message of host 0 when that crashes, and nobody hears that it was ever
/// ordered.
#[test]
fn what_one_member_delivered_early_reaches_all_that_go_along_with_it() {
    for service in [Service::Reliable, Service::Fifo] {
        let mut cluster = warm(4, 82);
        let ids = whisper(&mut cluster, &[service]);
        assert!(cluster.has_delivered(1, ids[0]) && !cluster.has_delivered(3, ids[0]));
        cluster.crash(0);
        let together = Cluster::all_in_one_configuration;
        cluster.must("one configuration", together, Duration::from_secs(2));
        assert!(all_have(&cluster, &ids));
        assert_eq!(delivery(&cluster, 3, ids[0]).place, None);
        cluster.heal();
        cluster.run_for(Duration::from_secs(1));
        cluster.check_at_rest();
    }
}

/// The sender goes along with one that has its early message: that has it once.
#[test]
fn an_early_message_is_not_sent_again_to_those_that_have_it() {
    let mut cluster = warm(4, 83);
    let services = [
        Service::Reliable,
        Service::Agreed,
        Service::Fifo,
        Service::Reliable,
    ];
    let ids = whisper(&mut cluster, &services);
    assert!(cluster.has_delivered(1, ids[0]) && cluster.has_delivered(1, ids[3]));
    assert!(
        !cluster.has_delivered(1, ids[2]),
        "it waits for the one before it"
    );
    cluster.heal();
    cluster.partition(&[&[0, 1], &[2, 3]]);
    cluster.run_for(Duration::from_secs(1));
    for host in [0, 1] {
        assert!(ids.iter().all(|id| cluster.has_delivered(host, *id)));
    }
    cluster.check();
}

/// The holders 0, 1 and 2 of a message of 0, which it delivers as 2-resilient; `crashed` of them
/// end in that moment.
fn crash_holders(crashed: &[usize]) -> (Cluster<Rmp>, MessageId) {
    let mut cluster = formed(6, 93);
    deafen(&mut cluster, DATA, &[3, 4, 5]);
    let id = submit(&mut cluster, 0, Service::KResilient(2));
    let first = |cluster: &Cluster<Rmp>| (0..6).any(|it| cluster.has_delivered(it, id));
    cluster.must("delivered", first, Duration::from_secs(1));
    for host in crashed {
        cluster.crash(*host);
    }
    cluster.heal();
    cluster.run_for(Duration::from_secs(3));
    (cluster, id)
}

#[test]
fn k_crashes_at_the_moment_of_delivery_lose_nothing_and_one_more_may() {
    for crashed in [[0, 1], [0, 2], [1, 2]] {
        let (cluster, id) = crash_holders(&crashed);
        for host in cluster.alive() {
            assert!(cluster.has_delivered(host, id), "{crashed:?}: {host}");
        }
        cluster.check_at_rest();
    }
    let (cluster, id) = crash_holders(&[0, 1, 2]);
    assert!(!cluster.alive().any(|host| cluster.has_delivered(host, id)));
    cluster.check_at_rest();
}

#[test]
fn a_minority_refuses_majority_messages_and_reports_those_that_it_may_not_deliver() {
    let mut cluster = formed(5, 94);
    // Nobody but the sender gets it, so no majority ever holds it.
    let deaf = Rc::new(Cell::new(true));
    let still = Rc::clone(&deaf);
    cluster.drop_all(move |it| still.get() && it.body().first() == Some(&DATA));
    let lost = submit(&mut cluster, 0, Service::Majority);
    let behind = submit(&mut cluster, 0, Service::Agreed);
    cluster.run_for(Duration::from_millis(100));
    deaf.set(false);
    cluster.partition(&[&[0, 1], &[2, 3, 4]]);
    let parted = |cluster: &Cluster<Rmp>| {
        let members = |host| {
            let current = cluster.current_configuration(host);
            current.map(|it| it.members.len())
        };
        members(0) == Some(2) && members(1) == Some(2) && members(3) == Some(3)
    };
    cluster.must("two parts", parted, Duration::from_secs(3));
    let gap = Gap {
        sender: lost.sender,
        first: lost.number,
        last: lost.number,
    };
    assert_eq!(cluster.gaps(0), [gap]);
    let refused = cluster.submit(1, Service::Majority, "too few");
    assert_eq!(refused, Err(SubmitError::Minority { members: 2, of: 5 }));
    let limit = Duration::from_secs(1);
    let both = |it: &Cluster<Rmp>| it.has_delivered(0, behind) && it.has_delivered(1, behind);
    cluster.must("what stands behind it", both, limit);
    // The others are a majority of the five.
    let here = submit(&mut cluster, 3, Service::Majority);
    let three = |it: &Cluster<Rmp>| (2..5).all(|host| it.has_delivered(host, here));
    cluster.must("the others", three, limit);
    cluster.heal();
    let together = Cluster::all_in_one_configuration;
    cluster.must("one configuration", together, Duration::from_secs(3));
    let again = submit(&mut cluster, 1, Service::Majority);
    let limit = Duration::from_secs(2);
    cluster.must("everywhere", |it| all_have(it, &[again]), limit);
    cluster.run_for(Duration::from_millis(200));
    cluster.check_at_rest();
}

#[test]
fn directed_seeds_lose_nothing_to_as_many_crashes_as_a_service_outlives() {
    for seed in 0..12 {
        let outlived = crash_at_delivery(&FAMILY, seed, Crashes::Outlived);
        assert_eq!(outlived.violations, [""; 0], "{outlived:?}");
        assert!(!outlived.loss_shown, "{outlived:?}");
        let more = crash_at_delivery(&FAMILY, seed, Crashes::OneMore);
        assert_eq!(more.violations, [""; 0], "{more:?}");
        assert!(more.loss_shown, "{more:?}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn the_checker_finds_it_where_one_holder_fewer_is_enough() {
    use groupcast_protocols::rmp::{Planted, RmpConfig};

    let config = RmpConfig {
        planted: Some(Planted::OneHolderFewer),
        ..RmpConfig::lan()
    };
    let mut cluster = super::with_config(6, 95, config);
    deafen(&mut cluster, DATA, &[2, 3, 4, 5]);
    let id = submit(&mut cluster, 0, Service::KResilient(2));
    let first = |cluster: &Cluster<Rmp>| (0..6).any(|it| cluster.has_delivered(it, id));
    cluster.must("delivered", first, Duration::from_secs(1));
    cluster.crash(0);
    cluster.crash(1);
    cluster.heal();
    cluster.run_for(Duration::from_secs(3));
    let violations = cluster.violations(true, Some(&[]));
    assert!(violations.iter().any(|it| it.rule == "resilience"));
}
