//! The account of those below in the sender's.
//!
//! Goal: each receiver below is named with what became of it, whatever that was, and a receiver
//! below counts as one that has come. Method: receivers that die, fail, refuse and come late.

use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Rng, Time};

use super::net::{Link, Net, below, name, node};
use crate::bulk::{Bulk, BulkConfig, Outcome, Wanted};
use crate::relay::RelayEvent;

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn who_fails_below_is_named_with_what_became_of_it() {
    let mut net = Net::new(3, 3_000_000, &[Link::LAN, Link::LAN]);
    let relay = net.add_relay(0, 1);
    let good = net.add_receiver(1);
    let full = net.add_receiver(1);
    net.receiver(full).fails = Some("its disk is full");
    let busy = net.add_receiver(1);
    net.receiver(busy).refuses = Some("it takes one transfer only");
    let dead = net.add_receiver(1);
    net.stations[dead].dies = Some(Time::from_millis(1300));
    net.receiver(dead).takes = 1_000_000;
    net.send(Wanted::Open);
    net.must_end(MINUTE);
    let expected = BTreeMap::from([
        (good, Outcome::Complete),
        (full, Outcome::Failed("its disk is full".into())),
        (busy, Outcome::Refused("it takes one transfer only".into())),
        (dead, Outcome::Vanished),
    ]);
    assert_eq!(net.outcomes(), expected);
    assert!(net.is_whole(good));
    let upper = net.stations[relay].bulk.local();
    let Outcome::Failed(reason) = &net.settled[&upper].0 else {
        panic!("the relay has not failed: {:?}", net.settled);
    };
    assert!(
        reason.starts_with("3 of 4 receivers below are not complete: "),
        "{reason}"
    );
}

#[test]
fn a_sender_of_an_earlier_release_hears_of_failures_and_of_nothing_else() {
    for fails in [None, Some("its disk is full")] {
        let mut net = Net::new(3, 200_000, &[Link::LAN, Link::LAN]);
        net.keeps = false;
        let relay = net.add_relay(0, 1);
        net.add_receiver(1);
        let below = net.add_receiver(1);
        net.receiver(below).fails = fails;
        net.send(Wanted::Open);
        net.must_end(MINUTE);
        let upper = net.stations[relay].bulk.local();
        let said = match fails {
            None => Outcome::Complete,
            Some(_) => {
                let reason = "1 of 2 receivers below are not complete: h4: its disk is full";
                Outcome::Failed(String::from(reason))
            }
        };
        assert_eq!(net.settled[&upper].0, said);
    }
}

#[test]
fn a_relay_with_nobody_below_takes_no_part_and_one_whose_all_refuse_says_so() {
    let mut net = Net::new(3, 200_000, &[Link::LAN, Link::LAN]);
    let relay = net.add_relay(0, 1);
    let beside = net.add_receiver(0);
    let below = net.add_receiver(1);
    net.receiver(below).refuses = Some("not today");
    net.send(Wanted::Open);
    net.must_end(MINUTE);
    let reason = "nobody below takes it: h4: refused: not today";
    let expected = BTreeMap::from([
        (beside, Outcome::Complete),
        (relay, Outcome::Refused(String::from(reason))),
    ]);
    assert_eq!(net.outcomes(), expected);
}

#[test]
fn a_receiver_below_can_be_required_and_counts() {
    for by_count in [false, true] {
        let mut net = Net::new(3, 200_000, &[Link::LAN, Link::LAN]);
        net.add_relay(0, 1);
        let below = [net.add_receiver(1), net.add_receiver(1)];
        let beside = net.add_receiver(0);
        // The last of them is started after two seconds.
        net.stations[beside].born = Time::from_millis(2000);
        net.send(match by_count {
            true => Wanted::Count(3),
            false => Wanted::Members([node(below[1]), node(beside)].into()),
        });
        net.run(Duration::from_millis(1900));
        assert_eq!(net.offered, 0, "it waits for the last");
        net.must_end(Duration::from_secs(20));
        let took = net.sent_at.expect("it is over");
        assert!(
            took < Time::from_millis(20_000),
            "nobody is waited for in vain: {took:?}"
        );
        let all = [below[0], below[1], beside];
        assert!(all.iter().all(|index| net.is_whole(*index)));
        let complete: BTreeMap<_, _> = all.iter().map(|it| (*it, Outcome::Complete)).collect();
        assert_eq!(net.outcomes(), complete);
    }
}

#[test]
fn who_comes_below_before_the_start_is_served_if_it_holds_what_was_not_asked_for() {
    let mut net = Net::new(3, 500_000, &[Link::LAN, Link::LAN]);
    net.add_relay(0, 1);
    let first = net.add_receiver(1);
    net.receiver(first).held = std::vec![0..400_000];
    let second = net.add_receiver(1);
    net.receiver(second).held = std::vec![0..400_000];
    net.stations[second].born = Time::from_millis(700);
    let third = net.add_receiver(1);
    net.stations[third].born = Time::from_millis(700);
    let beside = net.add_receiver(0);
    net.stations[beside].born = Time::from_millis(1500);
    net.send(Wanted::Members([node(beside)].into()));
    net.must_end(MINUTE);
    assert!(net.is_whole(first) && net.is_whole(second) && net.is_whole(beside));
    let expected = BTreeMap::from([
        (beside, Outcome::Complete),
        (first, Outcome::Complete),
        (second, Outcome::Complete),
        (third, Outcome::Late),
    ]);
    assert_eq!(net.outcomes(), expected);
}

#[test]
fn who_comes_too_late_below_is_named_at_the_sender_and_is_in_no_account() {
    // It takes some seconds: who comes late hears data for a second before it says so.
    let slow = Link {
        rate: 1_000_000,
        ..Link::LAN
    };
    let mut net = Net::new(3, 4_000_000, &[slow, Link::LAN, Link::LAN]);
    net.add_relay(0, 1);
    let second = net.add_relay(1, 2);
    let good = net.add_receiver(2);
    let late = [net.add_receiver(1), net.add_receiver(2)];
    for index in late {
        net.stations[index].born = Time::from_millis(1500);
    }
    net.send(Wanted::Members([node(good)].into()));
    net.must_end(MINUTE);
    assert_eq!(net.outcomes(), BTreeMap::from([(good, Outcome::Complete)]));
    let [near, far] = late.map(name);
    let far_below = Bytes::from([&name(second), &b"/"[..], &far].concat());
    let told: BTreeSet<Bytes> = net.came_late.iter().cloned().collect();
    assert_eq!(told, BTreeSet::from([near.clone(), far_below.clone()]));
    assert_eq!(net.came_late.len(), 2, "each once");
    let of_relays = net.events.iter().filter_map(|event| match event {
        RelayEvent::CameLate { name, .. } => Some(name.clone()),
        _ => None,
    });
    let of_relays: BTreeSet<Bytes> = of_relays.collect();
    assert_eq!(of_relays, BTreeSet::from([near, far, far_below]));
}

#[test]
fn a_failure_that_finds_no_row_is_a_failure_all_the_same() {
    for fails in [None, Some("its disk is full")] {
        let mut net = Net::new(3, 200_000, &[Link::LAN, Link::LAN, Link::LAN]);
        let first = net.add_relay(0, 1);
        // Room for the second relay and two receivers behind it.
        let lower = &mut net.stations[first + 1];
        let config = BulkConfig {
            receivers_max: 3,
            ..below()
        };
        let bulk = Bulk::new(lower.bulk.local(), config, Rng::new(4));
        lower.bulk = bulk.expect("it is valid");
        net.add_relay(1, 2);
        let last = [(); 3].map(|()| net.add_receiver(2));
        net.receiver(last[2]).fails = fails;
        // It registers last.
        net.stations[last[2]].born = Time::from_millis(100);
        net.send(Wanted::Open);
        net.must_end(MINUTE);
        assert_eq!(net.outcomes().len(), 2, "one has no row");
        let said = &net.settled[&net.stations[first].bulk.local()].0;
        match fails {
            None => assert_eq!(*said, Outcome::Complete),
            Some(_) => assert!(
                matches!(said, Outcome::Failed(reason) if reason.contains("no room")),
                "{said:?}"
            ),
        }
    }
}
