//! Goal: a receiver that refuses is named, and of two receivers with one name neither is taken for
//! the other. Method: a small network of endpoints whose users keep what they are told.

use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Incarnation, MemberId, Rng};

use super::endpoints::config;
use super::net::{Net, file, member};
use crate::bulk::{Bulk, Failure, Notice, Outcome, Wanted};

#[test]
fn a_receiver_that_refuses_is_named_and_the_transfer_does_not_wait_for_it() {
    for receivers in [Wanted::Open, Wanted::Count(1)] {
        let mut net = Net::new(2, &config(), 10_000);
        net.acceptance[1] = None;
        let id = net.send(file(10_000, receivers));
        net.run(Duration::from_millis(20));
        net.endpoints[1].refuse(net.now, id, "the disk is full", b"one");
        net.must(config().present_within * 2, Net::is_sent);
        let settled = Notice::Settled {
            id,
            receiver: member(1),
            outcome: Outcome::Refused("the disk is full".into()),
            name: Bytes::from_static(b"one"),
        };
        assert!(net.notices[0].contains(&settled));
    }
}

#[test]
fn two_receivers_of_one_name_are_both_told_at_once() {
    for receivers in [Wanted::Open, Wanted::Count(2)] {
        let mut net = Net::new(4, &config(), 3_000_000);
        let same = MemberId {
            node: member(1).node,
            incarnation: Incarnation(7),
        };
        net.endpoints[2] = Bulk::new(same, config(), Rng::new(7)).expect("the settings fit");
        net.send(file(3_000_000, receivers));
        net.must(Duration::from_secs(20), Net::is_sent);
        let outcomes = net.outcomes();
        assert_eq!(outcomes[&member(1)], Outcome::SameName);
        assert_eq!(outcomes[&same], Outcome::SameName);
        assert_eq!(outcomes[&member(3)], Outcome::Complete);
        for index in [1, 2] {
            let told = net.notices[index].iter().any(|notice| {
                matches!(notice, Notice::Failed { failure, .. } if *failure == Failure::SameName)
            });
            assert!(told, "{:?}", net.notices[index]);
        }
    }
}

#[test]
fn a_receiver_that_was_restarted_is_not_taken_for_two() {
    let mut net = Net::new(3, &config(), 300_000);
    net.late[1] = Duration::from_millis(40);
    net.send(file(300_000, Wanted::Count(2)));
    net.run(Duration::from_millis(60));
    net.restart(1, &config());
    net.must(Duration::from_secs(20), Net::is_sent);
    let mut outcomes = net.outcomes();
    assert_eq!(outcomes.remove(&member(2)), Some(Outcome::Complete));
    let of_one: Vec<Outcome> = outcomes.into_values().collect();
    assert_eq!(of_one, [Outcome::Vanished, Outcome::Complete]);
}
