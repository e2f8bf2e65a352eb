//! Ends that nobody wants.
//!
//! Goal: when a relay, a relay behind it or the sender goes, both sides are told or find out,
//! nobody waits for ever, and nothing is said to be complete that is not. And a transfer that comes
//! back to where it was is refused. Method: stations that die in the middle, relays in a ring.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::Time;

use super::net::{Link, Net};
use crate::bulk::{Failure, Outcome, Wanted};
use crate::relay::{Carries, Relay, RelayConfig, RelayEvent};

const MINUTE: Duration = Duration::from_secs(60);

/// A network that is busy for long with what a relay cannot have whole at any time.
fn busy(groups: usize) -> Net {
    Net::new(3, 24_000_000, &std::vec![Link::LAN; groups])
}

fn slow_receiver(net: &mut Net, group: usize) -> usize {
    let index = net.add_receiver(group);
    net.receiver(index).takes = 500_000;
    index
}

#[test]
fn a_relay_that_dies_is_named_and_those_below_learn_that_nothing_more_comes() {
    let mut net = busy(2);
    let relay = net.add_relay(0, 1);
    let below = slow_receiver(&mut net, 1);
    let beside = net.add_receiver(0);
    let death = Some(Time::from_millis(3000));
    net.stations[relay].dies = death;
    net.stations[relay + 1].dies = death;
    net.send(Wanted::Open);
    net.must_end(MINUTE);
    net.run(Duration::from_secs(15));
    let expected = BTreeMap::from([
        (relay, Outcome::Vanished),
        (below, Outcome::Failed("gone".into())),
        (beside, Outcome::Complete),
    ]);
    assert_eq!(net.outcomes(), expected);
    assert_eq!(net.receiver(below).failure, Some(Failure::Lost));
}

#[test]
fn a_relay_below_a_relay_that_dies_is_named_with_all_behind_it() {
    let mut net = busy(3);
    net.add_relay(0, 1);
    let middle = net.add_receiver(1);
    let second = net.add_relay(1, 2);
    let last = slow_receiver(&mut net, 2);
    let death = Some(Time::from_millis(4000));
    net.stations[second].dies = death;
    net.stations[second + 1].dies = death;
    net.send(Wanted::Open);
    net.must_end(MINUTE);
    // The receivers behind it stand in its place.
    let expected = BTreeMap::from([
        (middle, Outcome::Complete),
        (
            last,
            Outcome::Failed("the relay that it is behind is gone".into()),
        ),
    ]);
    assert_eq!(net.outcomes(), expected);
}

#[test]
fn when_the_sender_dies_or_gives_up_those_below_hear_it_and_keep_what_came() {
    for gives_up in [false, true] {
        let mut net = busy(2);
        net.add_relay(0, 1);
        let below = slow_receiver(&mut net, 1);
        if !gives_up {
            net.stations[0].dies = Some(Time::from_millis(3000));
        }
        net.send(Wanted::Open);
        net.run(Duration::from_millis(3000));
        if gives_up {
            let id = net.id.expect("it was sent");
            net.stations[0]
                .bulk
                .cancel(net.now, id, "a file has changed");
        }
        net.run(Duration::from_secs(20));
        let expected = match gives_up {
            true => "a file has changed",
            false => "it was stopped: the relay does not hear the sender any more",
        };
        let expected = Some(Failure::Cancelled(expected.into()));
        assert_eq!(net.receiver(below).failure, expected);
        assert!(net.relays[0].0.is_idle());
    }
}

#[test]
fn what_a_relay_has_whole_when_the_sender_dies_reaches_those_below() {
    let mut net = Net::new(3, 16_000_000, &[Link::LAN, Link::LAN]);
    net.add_relay(0, 1);
    let below = slow_receiver(&mut net, 1);
    net.stations[0].dies = Some(Time::from_millis(4000));
    net.send(Wanted::Open);
    net.run(Duration::from_secs(4));
    assert!(!net.is_whole(below));
    net.run(MINUTE);
    assert!(net.is_whole(below));
    assert!(net.relays[0].0.is_idle());
}

#[test]
fn a_relay_that_is_stopped_tells_both_sides() {
    let mut net = busy(2);
    let relay = net.add_relay(0, 1);
    let below = slow_receiver(&mut net, 1);
    net.send(Wanted::Open);
    net.run(Duration::from_millis(3000));
    net.stop_relay(0);
    net.run(Duration::from_secs(2));
    let upper = net.stations[relay].bulk.local();
    let stopped = Outcome::Failed("the relay was stopped".into());
    assert_eq!(net.settled[&upper].0, stopped);
    let expected = Failure::Cancelled("it was stopped: the relay was stopped".into());
    assert_eq!(net.receiver(below).failure, Some(expected));
    assert!(net.relays[0].0.is_idle());
}

#[test]
fn relays_in_a_ring_refuse_what_comes_back() {
    let mut net = Net::new(3, 300_000, &[Link::LAN, Link::LAN]);
    net.add_relay(0, 1);
    let back = net.add_relay(1, 0);
    let beside = net.add_receiver(0);
    let below = net.add_receiver(1);
    net.send(Wanted::Open);
    net.must_end(MINUTE);
    assert!(net.is_whole(beside) && net.is_whole(below));
    let outcomes = net.outcomes();
    assert_eq!(outcomes[&beside], Outcome::Complete);
    assert_eq!(outcomes[&below], Outcome::Complete);
    let Outcome::Refused(reason) = &outcomes[&back] else {
        panic!("the way back was taken: {outcomes:?}");
    };
    assert!(reason.contains("loop"), "{reason}");
}

#[test]
fn of_two_relays_into_one_group_one_stays() {
    let mut net = Net::new(3, 300_000, &[Link::LAN, Link::LAN]);
    net.add_relay(0, 1);
    net.add_relay(0, 1);
    let below = net.add_receiver(1);
    net.send(Wanted::Open);
    net.must_end(MINUTE);
    assert!(net.is_whole(below));
    let refused = |event: &&RelayEvent| matches!(event, RelayEvent::Refused { .. });
    assert_eq!(
        net.events.iter().filter(refused).count(),
        1,
        "{:?}",
        net.events
    );
}

#[test]
fn a_sender_that_is_started_again_takes_the_place_of_the_former() {
    let mut net = busy(2);
    net.add_relay(0, 1);
    let below = slow_receiver(&mut net, 1);
    net.send(Wanted::Open);
    net.run(Duration::from_millis(2500));
    let former = net.stations[0].bulk.local();
    let life = groupcast_core::MemberId {
        incarnation: groupcast_core::Incarnation(4711),
        ..former
    };
    let rng = groupcast_core::Rng::new(77);
    net.stations[0].bulk =
        crate::bulk::Bulk::new(life, super::net::config(), rng).expect("it is valid");
    net.receiver(below).takes = 0;
    net.send(Wanted::Open);
    net.must_end(MINUTE);
    net.run(Duration::from_secs(11));
    assert!(net.is_whole(below));
    assert!(net.relays[0].0.is_idle());
    let concluded =
        |event: &&RelayEvent| matches!(event, RelayEvent::Concluded { result: Ok(()), .. });
    assert_eq!(
        net.events.iter().filter(concluded).count(),
        1,
        "{:?}",
        net.events
    );
}

#[test]
fn a_sender_that_was_lost_is_told_to_send_again() {
    let mut net = Net::new(3, 300_000, &[Link::LAN, Link::LAN]);
    let relay = net.add_relay(0, 1);
    net.add_receiver(1);
    net.send(Wanted::Count(3));
    net.run(Duration::from_secs(1));
    net.links[0].loss = 1.0;
    net.run(Duration::from_secs(15));
    assert!(net.relays[0].0.is_idle());
    net.links[0].loss = 0.0;
    net.run(Duration::from_secs(1));
    let upper = net.stations[relay].bulk.local();
    let Some((Outcome::Refused(reason), _)) = net.settled.get(&upper) else {
        panic!("it was taken again: {:?}", net.settled);
    };
    assert!(reason.contains("send it again"), "{reason}");
}

#[test]
fn streams_of_one_sender_do_not_end_each_other() {
    let mut net = Net::new(3, 300_000, &[Link::LAN, Link::LAN]);
    net.carries = Carries::Stream;
    net.add_relay(0, 1);
    net.add_receiver(1);
    net.send(Wanted::Count(9));
    net.run(Duration::from_secs(1));
    net.send(Wanted::Count(9));
    net.run(Duration::from_secs(1));
    let count = |wanted: fn(&RelayEvent) -> bool| {
        let events = net.events.iter().filter(|event| wanted(event));
        events.count()
    };
    assert_eq!(count(|it| matches!(it, RelayEvent::Accepted { .. })), 2);
    assert_eq!(count(|it| matches!(it, RelayEvent::Concluded { .. })), 0);
}

#[test]
fn a_relay_behind_a_relay_is_not_counted_beside_those_behind_it() {
    let mut net = Net::new(3, 300_000, &[Link::LAN; 3]);
    net.add_relay(0, 1);
    net.add_relay(1, 2);
    let near = net.add_receiver(2);
    net.add_receiver(2);
    net.send(Wanted::Count(3));
    net.run(Duration::from_secs(5));
    assert!(net.receiver(near).data.is_empty(), "two of three are there");
    let third = net.add_receiver(2);
    net.must_end(MINUTE);
    assert!(net.is_whole(near) && net.is_whole(third));
}

#[test]
fn what_nobody_below_answers_makes_room_for_what_somebody_does() {
    let mut net = Net::new(3, 300_000, &[Link::LAN, Link::LAN]);
    net.add_relay(0, 1);
    net.carries = Carries::Stream;
    let below = net.add_receiver(1);
    net.stations[below].born = Time::from_millis(12_000);
    let config = RelayConfig {
        transfers_max: 1,
        ..RelayConfig::new(b"relay")
    };
    net.relays[0].0 = Relay::new(config);
    net.send(Wanted::Count(9));
    net.run(Duration::from_secs(11));
    net.send(Wanted::Count(2));
    net.run(Duration::from_secs(3));
    let makes_room = |event: &RelayEvent| match event {
        RelayEvent::Refused { reason, .. } => reason.contains("need the room"),
        _ => false,
    };
    assert!(makes_room(&net.events[0]), "{:?}", net.events);
    let accepted = |event: &RelayEvent| matches!(event, RelayEvent::Accepted { .. });
    assert!(net.events.iter().any(accepted), "{:?}", net.events);
}

#[test]
fn what_a_relay_cannot_do_is_refused_with_what_to_do() {
    use crate::bulk::{Bulk, BulkConfig, DeliverTo, Multidriver, Policy, Transfer};
    use crate::xgm::Subgroups;
    let rounds = BulkConfig {
        policy: Policy::Multidriver(Multidriver::for_window(64)),
        block: None,
        ..super::net::config()
    };
    for (config, deliver_to, says) in [
        (
            rounds,
            DeliverTo::AtOnce,
            "protocols nak, ack, ring and tree",
        ),
        (super::net::config(), DeliverTo::Aside, "without --together"),
    ] {
        let mut net = Net::new(3, 1000, &[Link::LAN, Link::LAN]);
        let relay = net.add_relay(0, 1);
        net.add_receiver(1);
        let sender = net.stations[0].bulk.local();
        let rng = groupcast_core::Rng::new(1);
        net.stations[0].bulk = Bulk::new(sender, config, rng).expect("it is valid");
        let transfer = Transfer {
            about: Bytes::from_static(b"a file"),
            length: Some(1000),
            rewindable: true,
            receivers: Wanted::Open,
            subgroups: Subgroups::ALL,
            confirm: true,
            deliver_to,
            replies: false,
            strict: false,
        };
        net.id = net.stations[0].bulk.send(net.now, transfer).ok();
        net.must_end(MINUTE);
        let upper = net.stations[relay].bulk.local();
        let Outcome::Refused(reason) = &net.settled[&upper].0 else {
            panic!("it was taken: {:?}", net.settled);
        };
        assert!(reason.contains(says), "{reason}");
    }
}
