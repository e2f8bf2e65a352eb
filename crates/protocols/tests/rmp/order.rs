//! Goal: messages of every service and size arrive everywhere, in one order, soon. Method: lone
//! messages after a rest, bursts, loss, and the virtual clock.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::Service;
use groupcast_protocols::rmp::{NackTo, OrderRule, RmpConfig};

use super::{formed, with_config};
use crate::all_have;

const SERVICES: [Service; 5] = [
    Service::Reliable,
    Service::Fifo,
    Service::Causal,
    Service::Agreed,
    Service::Safe,
];

#[test]
fn a_lone_message_is_everywhere_within_two_milliseconds() {
    let mut cluster = formed(5, 21);
    for sender in 0..5 {
        cluster.run_for(Duration::from_millis(977));
        let id = cluster.submit(sender, Service::Agreed, "alone").unwrap();
        let limit = Duration::from_millis(2);
        cluster.must("everywhere", |it| all_have(it, &[id]), limit);
    }
    cluster.check();
}

#[test]
fn a_lone_safe_message_takes_a_rotation_of_the_token_and_not_one_of_null_acks_a_second() {
    let mut cluster = formed(5, 22);
    for sender in 0..5 {
        cluster.run_for(Duration::from_millis(977));
        let id = cluster.submit(sender, Service::Safe, "alone").unwrap();
        let limit = Duration::from_millis(20);
        cluster.must("everywhere", |it| all_have(it, &[id]), limit);
    }
    cluster.check();
}

#[test]
fn all_services_and_sizes_arrive_in_one_order_at_twenty_percent_loss() {
    for (seed, nack) in [(23, NackTo::Multicast), (24, NackTo::Unicast)] {
        let config = RmpConfig {
            nack,
            ..RmpConfig::lan()
        };
        let mut cluster = with_config(4, seed, config);
        cluster.set_loss(0.2);
        let mut ids = Vec::new();
        for step in 0..60 {
            for host in 0..4 {
                let len = if step % 20 == 7 { 30_000 } else { 100 };
                let payload = Bytes::from(vec![step as u8; len]);
                let service = SERVICES[(step + host) % SERVICES.len()];
                ids.push(cluster.submit(host, service, payload).unwrap());
            }
            cluster.run_for(Duration::from_millis(2));
        }
        let limit = Duration::from_secs(20);
        cluster.must("everywhere", |it| all_have(it, &ids), limit);
        cluster.check();
    }
}

/// More packets than have places at a time: nobody else says anything that would give it a turn.
#[test]
fn a_member_that_is_alone_delivers_all_that_it_accepted_without_a_further_turn() {
    for gap_max in [64, RmpConfig::lan().gap_max] {
        let config = RmpConfig {
            gap_max,
            ..RmpConfig::lan()
        };
        let mut cluster = with_config(1, 27, config);
        let payload = Bytes::from(vec![7; 5 << 20]);
        for service in SERVICES {
            let id = cluster.submit(0, service, payload.clone()).unwrap();
            let limit = Duration::from_millis(1);
            cluster.must("delivered", |it| all_have(it, &[id]), limit);
        }
        cluster.check();
    }
}

#[test]
fn a_long_message_arrives_whole_beside_short_ones() {
    let mut cluster = formed(3, 25);
    let payload = Bytes::from(vec![7; 5 << 20]);
    let mut ids = vec![cluster.submit(0, Service::Agreed, payload).unwrap()];
    for _ in 0..20 {
        ids.push(cluster.submit(1, Service::Fifo, "short").unwrap());
        cluster.run_for(Duration::from_millis(1));
    }
    let limit = Duration::from_secs(20);
    cluster.must("everywhere", |it| all_have(it, &ids), limit);
    cluster.check();
}

#[test]
fn the_paper_s_constants_order_messages_too() {
    let mut cluster = with_config(4, 26, RmpConfig::paper());
    let mut ids = Vec::new();
    for host in 0..4 {
        ids.push(cluster.submit(host, Service::Agreed, "one").unwrap());
        ids.push(cluster.submit(host, Service::Agreed, "two").unwrap());
    }
    let limit = Duration::from_secs(2);
    cluster.must("everywhere", |it| all_have(it, &ids), limit);
    cluster.check();
}

#[test]
fn one_packet_at_a_time_is_slower_and_arrives() {
    let config = RmpConfig {
        stop_and_wait: true,
        order: OrderRule::Heard,
        ..RmpConfig::lan()
    };
    let mut cluster = with_config(3, 27, config);
    let submit = |it: &mut super::Cluster<_>| it.submit(0, Service::Agreed, vec![1; 1_300]);
    let ids: Vec<_> = (0..50).map(|_| submit(&mut cluster).unwrap()).collect();
    let limit = Duration::from_secs(5);
    cluster.must("everywhere", |it| all_have(it, &ids), limit);
    cluster.check();
}
