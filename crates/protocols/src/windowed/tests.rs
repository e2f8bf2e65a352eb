//! A windowed group as a whole, in the simulator.

use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Event, Incarnation, MemberId, NodeId};
use groupcast_sim::{Cluster, ClusterConfig};

use super::*;

fn group(size: usize, seed: u64, loss: f64) -> Cluster<Windowed> {
    let mut cluster = Cluster::started(ClusterConfig::new(size, seed), move |member, rng, now| {
        Windowed::new(WindowedConfig::of(size), member, rng, now).expect("valid")
    });
    cluster.set_loss(loss);
    cluster.must(
        "all are found",
        |cluster| (0..size).all(|host| cluster.protocol(host).is_some_and(Windowed::is_complete)),
        Duration::from_secs(20),
    );
    cluster
}

/// Payloads that `host` delivered of `sender`, as numbers.
fn delivered(cluster: &Cluster<Windowed>, host: usize, sender: usize) -> Vec<u64> {
    let sender = cluster.member(sender);
    let deliveries = cluster.deliveries(host).iter();
    let of_sender = deliveries.filter(|delivery| Some(delivery.id.sender) == sender);
    of_sender
        .map(|delivery| u64::from_be_bytes(delivery.payload[..8].try_into().expect("a number")))
        .collect()
}

#[test]
fn everybody_delivers_everything_in_order_whatever_is_lost() {
    for seed in 0..4 {
        let mut cluster = group(5, seed, 0.2);
        for number in 0..150u64 {
            let payload = number.to_be_bytes().to_vec();
            for host in [0, 3] {
                let accepted = cluster.submit(host, Service::Fifo, payload.clone());
                accepted.expect("the queue has room");
            }
        }
        let all: Vec<u64> = (0..150).collect();
        cluster.must(
            "all is delivered",
            |cluster| (0..5).all(|host| cluster.deliveries(host).len() == 300),
            Duration::from_secs(60),
        );
        for host in 0..5 {
            assert_eq!(delivered(&cluster, host, 0), all);
            assert_eq!(delivered(&cluster, host, 3), all);
        }
    }
}

#[test]
fn one_member_that_pauses_stops_the_sender_after_a_window() {
    let mut cluster = group(4, 1, 0.0);
    cluster.pause(2);
    for number in 0..500u64 {
        let payload = number.to_be_bytes().to_vec();
        cluster
            .submit(0, Service::Fifo, payload)
            .expect("there is room");
    }
    cluster.run_for(Duration::from_secs(5));
    let window = WindowedConfig::default().window as usize;
    assert_eq!(delivered(&cluster, 1, 0).len(), window);
    assert_eq!(cluster.protocol(0).map(Windowed::outstanding), Some(window));
    cluster.resume(2);
    cluster.run_for(Duration::from_secs(5));
    assert_eq!(delivered(&cluster, 1, 0).len(), 500);
    assert_eq!(delivered(&cluster, 2, 0).len(), 500);
    assert_eq!(cluster.protocol(0).map(Windowed::outstanding), Some(0));
}

#[test]
fn who_leaves_has_its_messages_acknowledged_before() {
    let mut cluster = group(3, 2, 0.3);
    for number in 0..20u64 {
        let payload = number.to_be_bytes().to_vec();
        cluster
            .submit(1, Service::Reliable, payload)
            .expect("there is room");
    }
    cluster.leave(1);
    cluster.run_for(Duration::from_secs(1));
    assert_eq!(cluster.status(1), groupcast_sim::Status::Left);
    assert_eq!(delivered(&cluster, 0, 1).len(), 20);
    assert_eq!(delivered(&cluster, 2, 1).len(), 20);
}

#[test]
fn the_queue_is_bounded_and_says_when_there_is_room() {
    let member = MemberId {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };
    let config = WindowedConfig::of(1);
    let mut alone = Windowed::new(config, member, Rng::new(1), Time::ZERO).expect("valid");
    let payload = Bytes::from(std::vec![0; 8_000]);
    let full = (0..1000).find_map(|_| {
        alone
            .submit(Time::ZERO, Service::Fifo, payload.clone())
            .err()
    });
    assert!(matches!(full, Some(SubmitError::Full { .. })));
    let mut buf = TransmitBuf::new(16, 0, 0);
    while alone.poll_transmit(Time::ZERO, &mut buf).is_some() {
        buf.clear();
    }
    let mut events = core::iter::from_fn(|| alone.poll_event());
    assert!(events.any(|event| event == Event::Writable));
    let refused = alone.submit(Time::ZERO, Service::Agreed, payload);
    assert!(matches!(refused, Err(SubmitError::Unsupported { .. })));
}
