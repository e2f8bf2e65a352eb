//! What the network promises: rates, times, queues, partitions.

use super::*;
use crate::host::address;

/// What host `from` sends.
fn message(from: usize, class: SocketClass, len: usize) -> Datagram {
    Datagram::new(from, address(from), class, vec![0; len].into())
}

/// Whether a copy of it arrives at host `to` now.
fn arrives(network: &mut Network, from: usize, to: usize, class: SocketClass) -> bool {
    let message = message(from, class, 100);
    network.deliver(Time::ZERO, &message, to, false)[0].is_some()
}

fn network(config: NetworkConfig) -> Network {
    Network::new(config, 3, Rng::new(1))
}

/// How many of 20,000 copies, far enough apart not to queue, arrive.
fn arrivals(network: &mut Network, to: usize) -> usize {
    let message = message(0, SocketClass::Data, 100);
    (0..20_000)
        .flat_map(|n| network.deliver(Time::from_millis(n), &message, to, true))
        .flatten()
        .count()
}

#[test]
fn loss_and_duplication_have_the_rates_that_were_asked_for() {
    let mut lossy = network(NetworkConfig {
        loss: 0.2,
        ..NetworkConfig::default()
    });
    assert!((15_700..16_300).contains(&arrivals(&mut lossy, 1)));
    lossy.set_ingress_loss(2, 0.5);
    assert!((7_700..8_300).contains(&arrivals(&mut lossy, 2)));
    let mut double = network(NetworkConfig {
        duplication: 0.1,
        ..NetworkConfig::default()
    });
    assert!((21_800..22_200).contains(&arrivals(&mut double, 1)));
    assert_eq!(double.counters().lost, 0);
}

#[test]
fn a_link_takes_its_time_and_the_latency_comes_on_top() {
    let mut network = network(NetworkConfig {
        bandwidth: 8_000_000,
        latency: Duration::from_millis(5),
        ..NetworkConfig::default()
    });
    // One byte a microsecond: 1,434 bytes are 1,500 on the wire.
    let mut leave = |host| {
        network
            .leave(Time::ZERO, host, 1_434)
            .map(|it| it.at_switch.as_nanos())
    };
    let (first, second) = (leave(0), leave(0));
    assert_eq!((first, second), (Some(6_500_000), Some(8_000_000)));
    assert_eq!(leave(1), Some(6_500_000), "each host has its own link");
}

#[test]
fn a_full_send_buffer_makes_the_host_wait_and_its_patience_ends() {
    let mut network = network(NetworkConfig {
        bandwidth: 8_000_000,
        egress_queue: 3_000,
        send_patience: Duration::from_millis(3),
        ..NetworkConfig::default()
    });
    // 1.5 ms each: two fit, two more wait for no more than 3 ms, and one that finds just that goes
    // too.
    let room: Vec<Option<u128>> = (0..6)
        .map(|_| network.leave(Time::ZERO, 0, 1_434))
        .map(|left| left.map(|it| (it.room - Time::ZERO).as_micros()))
        .collect();
    let expected = [
        Some(0),
        Some(0),
        Some(1_500),
        Some(3_000),
        Some(4_500),
        None,
    ];
    assert_eq!(room, expected);
    assert_eq!(network.counters().egress_dropped, 1);
}

#[test]
fn the_tail_is_dropped_beyond_the_queue_and_room_comes_back_with_time() {
    let mut network = network(NetworkConfig {
        bandwidth: 8_000_000,
        ingress_queue: 4_000,
        ..NetworkConfig::default()
    });
    let message = message(0, SocketClass::Data, 1_434);
    let burst = |network: &mut Network, now| {
        (0..10)
            .flat_map(|_| network.deliver(now, &message, 1, true))
            .flatten()
            .count()
    };
    assert_eq!(burst(&mut network, Time::ZERO), 3, "3 × 1,500 exceed 4,000");
    assert_eq!(network.counters().ingress_dropped, 7);
    assert_eq!(burst(&mut network, Time::from_millis(100)), 3);
}

#[test]
fn a_partition_cuts_both_ways_between_components_and_nothing_within() {
    let mut network = Network::new(NetworkConfig::default(), 5, Rng::new(1));
    let cut = Block::partition(5, &[&[0, 1], &[2]]);
    cut.iter().for_each(|block| network.block(*block));
    let reaches = |network: &mut Network, from, to| {
        [SocketClass::Data, SocketClass::Control].map(|class| arrives(network, from, to, class))
    };
    for (from, to, expected) in [
        (0, 1, true),
        (3, 4, true),
        (0, 2, false),
        (2, 3, false),
        (4, 0, false),
    ] {
        assert_eq!(
            reaches(&mut network, from, to),
            [expected; 2],
            "{from} to {to}"
        );
        assert_eq!(
            reaches(&mut network, to, from),
            [expected; 2],
            "{to} to {from}"
        );
    }
    cut.iter().for_each(|block| network.unblock(*block));
    assert_eq!(reaches(&mut network, 0, 2), [true; 2]);
}

#[test]
fn a_block_stops_one_class_one_way_and_overlapping_blocks_are_counted() {
    let mut network = network(NetworkConfig::default());
    let block = Block {
        from: 0,
        to: 1,
        class: SocketClass::Data,
    };
    network.block(block);
    network.block(block);
    network.unblock(block);
    let mut passes = |from, to, class| arrives(&mut network, from, to, class);
    assert!(!passes(0, 1, SocketClass::Data));
    assert!(passes(0, 1, SocketClass::Control));
    assert!(passes(1, 0, SocketClass::Data));
    network.heal();
    network.unblock(block);
    assert!(arrives(&mut network, 0, 1, SocketClass::Data));
}

#[test]
fn jitter_reorders_and_corruption_flips_a_bit_within_the_datagram() {
    let mut network = network(NetworkConfig {
        jitter: Duration::from_micros(100),
        corruption: 1.0,
        ..NetworkConfig::default()
    });
    let message = message(0, SocketClass::Data, 100);
    let arrivals: Vec<Arrival> = (0..1_000)
        .flat_map(|n| network.deliver(Time::from_nanos(n * 10_000), &message, 1, true))
        .flatten()
        .collect();
    assert_eq!(arrivals.len(), 1_000);
    assert!(!arrivals.is_sorted_by_key(|arrival| arrival.at));
    assert!(
        arrivals
            .iter()
            .all(|arrival| arrival.flipped.is_some_and(|bit| bit < 800))
    );
}

#[test]
fn a_filter_drops_the_very_datagram_that_it_chooses() {
    let mut network = network(NetworkConfig::default());
    network.drop_once(|info| info.to == 1 && info.index == 2);
    let arrived: Vec<bool> = (0..5)
        .map(|_| arrives(&mut network, 0, 1, SocketClass::Data))
        .collect();
    assert_eq!(arrived, [true, true, false, true, true]);
    assert_eq!(network.counters().filtered, 1);
}
