//! Goal: a group survives crashes, partitions, leaves and joins, and keeps its guarantees. Method:
//! load from every host while the fault strikes; then progress, and the checker's verdict.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{ConfigurationKind, Service};
use groupcast_protocols::rmp::{Rmp, RmpConfig};
use groupcast_sim::Cluster;

use super::{come_together, formed, progress, with_started};
use crate::all_have;

/// First byte of an ACK's body.
const ACK: u8 = 34;

/// Every living host submits one message each millisecond for `duration`.
fn load(cluster: &mut Cluster<Rmp>, duration: Duration) {
    let services = [Service::Fifo, Service::Agreed, Service::Safe];
    for step in 0..duration.as_millis() {
        for host in 0..cluster.hosts() {
            if cluster.status(host) == groupcast_sim::Status::Up {
                let len = if step % 50 == 7 { 20_000 } else { 100 };
                let service = services[(step as usize + host) % services.len()];
                let payload = Bytes::from(vec![step as u8; len]);
                cluster
                    .submit(host, service, payload)
                    .expect("there is room");
            }
        }
        cluster.run_for(Duration::from_millis(1));
    }
}

#[test]
fn the_others_go_on_within_half_a_second_of_a_crash() {
    for crashed in 0..5 {
        let mut cluster = formed(5, 30 + crashed as u64);
        load(&mut cluster, Duration::from_millis(100));
        cluster.crash(crashed);
        come_together(&mut cluster, Duration::from_millis(500));
        progress(&mut cluster);
        cluster.check();
    }
}

#[test]
fn parts_go_on_apart_and_come_together_again() {
    let mut cluster = formed(5, 41);
    load(&mut cluster, Duration::from_millis(50));
    cluster.partition(&[&[0, 1], &[2, 3, 4]]);
    load(&mut cluster, Duration::from_millis(1_500));
    let members = |host| {
        cluster
            .current_configuration(host)
            .map(|it| it.members.len())
    };
    assert_eq!((members(0), members(4)), (Some(2), Some(3)));
    cluster.heal();
    load(&mut cluster, Duration::from_millis(50));
    progress(&mut cluster);
    cluster.check();
}

#[test]
fn who_leaves_costs_the_others_less_than_a_time_out() {
    let mut cluster = formed(4, 42);
    load(&mut cluster, Duration::from_millis(50));
    cluster.leave(2);
    let limit = Duration::from_millis(1_200);
    cluster.must("gone", |it| !it.is_alive(2), limit);
    come_together(&mut cluster, Duration::from_millis(60));
    let left = cluster.configurations(0).last().expect("one").left.clone();
    assert_eq!(left.len(), 1, "it is told from a crash");
    progress(&mut cluster);
    cluster.check_at_rest();
}

#[test]
fn who_comes_back_is_let_in_and_sees_nothing_of_before() {
    let mut cluster = formed(3, 43);
    load(&mut cluster, Duration::from_millis(20));
    cluster.crash(1);
    cluster.run_for(Duration::from_secs(1));
    load(&mut cluster, Duration::from_millis(20));
    cluster.start(1);
    progress(&mut cluster);
    assert!(cluster.deliveries(1).len() <= 3);
    cluster.check();
}

/// The reason for the order rule `settled`: host 2 sends, host 0 orders, host 1 hears it, and both
/// are cut off from host 2 before that hears it.
#[test]
fn a_message_whose_sender_does_not_learn_its_order_stands_at_one_place() {
    let mut cluster = formed(3, 44);
    // Host 2 hears no ACK from now on, and so never knows the place of its message.
    cluster.drop_all(|it| it.to == 2 && it.body().first() == Some(&ACK));
    let id = cluster.submit(2, Service::Agreed, "in doubt").unwrap();
    cluster.run_for(Duration::from_millis(5));
    assert!(!cluster.has_delivered(0, id) && !cluster.has_delivered(1, id));
    cluster.partition(&[&[0, 1], &[2]]);
    cluster.run_for(Duration::from_secs(1));
    assert!(cluster.has_delivered(2, id), "alone, it has a place");
    assert!(!cluster.has_delivered(0, id), "another one");
    cluster.heal();
    progress(&mut cluster);
    let kinds = cluster.configurations(2).iter().map(|it| it.kind);
    assert!(
        kinds
            .filter(|it| *it == ConfigurationKind::Transitional)
            .count()
            >= 2
    );
    cluster.check();
}

/// A process that was alone says something, comes together with another, and that one dies at some
/// moment of it: what the first one says then is delivered, whatever had been agreed by then.
#[test]
fn who_comes_together_with_one_that_dies_goes_on_alone() {
    for first in 0..2 {
        let second = 1 - first;
        for step in 0..100 {
            let mut cluster = with_started(2, first..first + 1, 60, RmpConfig::lan());
            let before = cluster.submit(first, Service::Agreed, "before").unwrap();
            cluster.start(second);
            cluster.run_for(Duration::from_micros(10_000 + 100 * step));
            cluster.crash(second);
            let mut said = vec![before];
            for _ in 0..3 {
                cluster.run_for(Duration::from_secs(1));
                said.push(cluster.submit(first, Service::Agreed, "after").unwrap());
            }
            let limit = Duration::from_millis(100);
            cluster.must("delivered", |it| all_have(it, &said), limit);
            cluster.check();
        }
    }
}
