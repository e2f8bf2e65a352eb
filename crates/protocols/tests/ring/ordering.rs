//! Goal: the services keep what they promise in a whole ring: order, safety, sizes, idling. Method:
//! loss of chosen datagrams, large and small messages, both priority methods, and the clock.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Event, Incarnation, MemberId, NodeId, Ordered, Protocol, Rng, Service, SocketClass,
    SubmitError, Time,
};
use groupcast_protocols::ring::{Ring, RingConfig, TokenPriority};
use groupcast_sim::Cluster;

use super::{formed, with_config};

/// First byte of a token's body.
const TOKEN: u8 = 2;

/// After a rest, `sender` says something, and all `hosts` have it within `limit`.
fn wake_up(cluster: &mut Cluster<Ring>, sender: usize, hosts: usize, limit: Duration) {
    cluster.run_for(Duration::from_millis(977));
    let id = cluster
        .submit(sender, Service::Agreed, "wake up")
        .expect("there is room");
    cluster.must(
        "delivered everywhere",
        |cluster| (0..hosts).all(|host| cluster.has_delivered(host, id)),
        limit,
    );
}

#[test]
fn the_first_message_after_a_rest_takes_less_than_two_milliseconds() {
    let mut cluster = formed(5, 21);
    for sender in 0..5 {
        wake_up(&mut cluster, sender, 5, Duration::from_millis(2));
    }
    cluster.check();
}

#[test]
fn a_resting_token_goes_to_who_has_something_to_say_past_all_others() {
    // Three ways of 30 µs and more: to ask, to pass the token, and of the message. Around the ring
    // it would be up to 21.
    let three_ways = Duration::from_micros(200);
    let mut cluster = formed(20, 28);
    for sender in (0..20).rev() {
        wake_up(&mut cluster, sender, 20, three_ways);
        let id = cluster
            .submit((sender + 7) % 20, Service::Safe, "and at once again")
            .expect("there is room");
        cluster.must(
            "safe everywhere",
            |cluster| (0..20).all(|host| cluster.has_delivered(host, id)),
            Duration::from_millis(5),
        );
    }
    cluster.check();
}

#[test]
fn a_resting_ring_sends_few_datagrams() {
    let mut cluster = formed(5, 22);
    cluster.run_for(Duration::from_secs(1));
    let sealed = |cluster: &Cluster<_>| {
        (0..5)
            .map(|host| cluster.counters(host).sealed)
            .sum::<u64>()
    };
    let before = sealed(&cluster);
    cluster.run_for(Duration::from_secs(10));
    let rate = (sealed(&cluster) - before) / 10 / 5;
    assert!(
        rate < 80,
        "{rate} datagrams a second of each member of an idle ring"
    );
}

#[test]
fn a_message_of_64_mib_arrives_whole_and_one_byte_more_is_refused() {
    let mut cluster = formed(2, 23);
    let largest = Bytes::from(vec![7; 64 << 20]);
    let too_large = Bytes::from(vec![7; (64 << 20) + 1]);
    assert!(matches!(
        cluster.submit(0, Service::Agreed, too_large),
        Err(SubmitError::TooLarge { .. })
    ));
    let id = cluster
        .submit(0, Service::Agreed, largest)
        .expect("the queue is empty");
    assert!(matches!(
        cluster.submit(0, Service::Agreed, "one more"),
        Err(SubmitError::Full { .. })
    ));
    cluster.must(
        "delivered",
        |cluster| cluster.has_delivered(1, id),
        Duration::from_secs(60),
    );
    cluster.check();
}

#[test]
fn a_refused_submitter_is_told_when_there_is_room() {
    let config = RingConfig {
        queue_max: 10_000,
        ..RingConfig::lan()
    };
    let local = MemberId {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };
    let mut ring = Ring::new(config, local, Rng::new(24), Time::ZERO).expect("valid");
    let refused = loop {
        if let Err(error) = ring.submit(Time::ZERO, Service::Fifo, vec![1; 900].into()) {
            break error;
        }
    };
    assert!(matches!(refused, SubmitError::Full { queued: 9900 }));
    let mut events = Vec::new();
    while let Some(due) = ring
        .poll_timeout()
        .filter(|due| *due < Time::from_millis(300))
    {
        ring.handle_timeout(due);
        events.extend(core::iter::from_fn(|| ring.poll_event()));
    }
    assert_eq!(
        events
            .iter()
            .filter(|event| **event == Event::Writable)
            .count(),
        1
    );
    ring.submit(Time::from_millis(300), Service::Fifo, vec![1; 900].into())
        .expect("there is room");
}

#[test]
fn both_priority_methods_and_the_original_ring_keep_one_order_under_loss() {
    for (seed, priority) in [
        (25, TokenPriority::FirstMethod),
        (26, TokenPriority::SecondMethod),
    ] {
        for accelerated_window in [None, Some(0), Some(24)] {
            let config = RingConfig {
                priority,
                accelerated_window,
                personal_window: Some(24),
                ..RingConfig::lan()
            };
            let mut cluster = with_config(4, seed, config);
            cluster.must(
                "one ring",
                Cluster::all_in_one_configuration,
                Duration::from_secs(1),
            );
            cluster.set_loss(0.05);
            for round in 0..200u64 {
                for host in 0..4 {
                    cluster
                        .submit(host, Service::Agreed, vec![round as u8; 700])
                        .expect("there is room");
                }
                cluster.run_for(Duration::from_micros(300));
            }
            cluster.heal();
            cluster.run_for(Duration::from_millis(500));
            for host in 0..4 {
                assert_eq!(
                    cluster.deliveries(host).len(),
                    800,
                    "{priority:?} {accelerated_window:?}"
                );
            }
            cluster.check();
        }
    }
}

#[test]
fn a_lost_token_is_sent_again_long_before_the_ring_breaks() {
    let mut cluster = formed(3, 27);
    let before = cluster.configurations(0).len();
    for host in 0..3 {
        cluster
            .submit(host, Service::Safe, "x")
            .expect("there is room");
        cluster.drop_next(|info| info.body().first() == Some(&TOKEN));
        cluster.run_for(Duration::from_millis(60));
    }
    assert_eq!(cluster.configurations(0).len(), before);
    let status = |host| cluster.protocol(host).expect("runs").status();
    assert!(
        (0..3)
            .map(|host| status(host).counters.token_retransmissions)
            .sum::<u64>()
            >= 1
    );
    assert!((0..3).all(|host| cluster.deliveries(host).len() == 3));
    cluster.check();
}

#[test]
fn a_safe_message_waits_until_all_hold_it_and_holds_back_what_follows() {
    let mut cluster = formed(3, 28);
    let deaf = 2;
    cluster.drop_all(move |info| info.to == deaf && info.class == SocketClass::Data);
    let safe = cluster
        .submit(0, Service::Safe, "safe")
        .expect("there is room");
    let agreed = cluster
        .submit(0, Service::Agreed, "agreed")
        .expect("there is room");
    cluster.run_for(Duration::from_millis(100));
    assert!(!cluster.has_delivered(0, safe) && !cluster.has_delivered(1, agreed));
    cluster.heal();
    cluster.must(
        "both everywhere",
        |cluster| {
            (0..3).all(|host| {
                cluster.has_delivered(host, safe) && cluster.has_delivered(host, agreed)
            })
        },
        Duration::from_millis(100),
    );
    cluster.check();
}

/// More packets than have places at a time: nobody else says anything that would give it a turn.
#[test]
fn a_member_that_is_alone_delivers_a_long_message_soon() {
    let mut cluster = formed(1, 61);
    let payload = Bytes::from(vec![7; 5 << 20]);
    for service in [Service::Reliable, Service::Agreed, Service::Safe] {
        let id = cluster.submit(0, service, payload.clone()).unwrap();
        let delivered = |it: &Cluster<Ring>| it.has_delivered(0, id);
        cluster.must("delivered", delivered, Duration::from_millis(1));
    }
    cluster.check();
}
