//! Goal: a receiver that refuses is named, and of two receivers with one name neither is taken for
//! the other. Method: a small network of endpoints whose users keep what they are told.

use std::boxed::Box;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Incarnation, MemberId, NodeId, Rng, Time};

use super::endpoints::{config, knowing, under};
use super::net::{Link, Net, file, member};
use crate::bulk::wire::Message;
use crate::bulk::{Bulk, BulkConfig, Failure, Notice, Outcome, Wanted};

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

/// Endpoints 1 and 2 have one name, and the second one's registration comes later.
fn net_of_one_name(settings: &BulkConfig, length: usize) -> Net {
    let mut net = Net::new(4, settings, length);
    net.endpoints[2] = Bulk::new(SAME, settings.clone(), Rng::new(7)).expect("the settings fit");
    net.late[2] = Duration::from_millis(5);
    net
}

/// The other incarnation of the node of endpoint 1.
const SAME: MemberId = MemberId {
    node: NodeId(2),
    incarnation: Incarnation(7),
};

fn is_told(net: &Net, index: usize) -> bool {
    net.notices[index].iter().any(
        |notice| matches!(notice, Notice::Failed { failure, .. } if *failure == Failure::SameName),
    )
}

#[test]
fn two_receivers_of_one_name_are_both_told_at_once() {
    assert_eq!(SAME.node, member(1).node);
    // The shortest takes 40 ms, the longest, in which another one is slow, 1 s and more.
    let lengths = [(100_000, None), (600_000, None), (600_000, Some(600_000))];
    let wanted = [Wanted::Open, Wanted::Count(1), Wanted::Count(2)];
    let each = lengths
        .iter()
        .flat_map(|it| wanted.iter().map(move |to| (*it, to)));
    for ((length, slow), receivers) in each {
        for (policy, lost) in knowing().into_iter().flat_map(|it| [(it, 0.0), (it, 0.1)]) {
            let mut net = net_of_one_name(&under(policy), length);
            net.loss[1] = lost;
            net.loss[2] = lost;
            net.links[3] = slow.map(|rate| Link::new(rate, Duration::from_millis(100)));
            net.send(file(length, receivers.clone()));
            let what = std::format!("{policy:?} {receivers:?} {length} B {slow:?}, {lost} lost");
            let is_known = |net: &Net| is_told(net, 1) && is_told(net, 2);
            if lost == 0.0 {
                assert!(net.run_until(Time::from_millis(50), is_known), "{what}");
            }
            net.must(Duration::from_secs(40), Net::is_sent);
            net.run(Duration::from_millis(100));
            assert!(is_known(&net), "{what}: {:?}", net.notices);
            let outcomes = net.outcomes();
            assert_eq!(outcomes[&member(1)], Outcome::SameName, "{what}");
            assert_eq!(outcomes[&SAME], Outcome::SameName, "{what}");
            assert_eq!(outcomes.get(&member(3)), Some(&Outcome::Complete), "{what}");
        }
    }
}

/// Both have come, although none is served: the sender waits for nobody else.
#[test]
fn two_of_one_name_are_as_many_as_it_waits_for() {
    let mut net = net_of_one_name(&config(), 100_000);
    net.acceptance[3] = None;
    net.send(file(100_000, Wanted::Count(2)));
    net.must(Duration::from_millis(500), Net::is_sent);
    net.run(Duration::from_millis(100));
    assert!(is_told(&net, 1) && is_told(&net, 2));
}

#[test]
fn who_comes_with_the_name_of_one_that_is_complete_is_told() {
    let mut net = net_of_one_name(&config(), 30_000);
    net.late[2] = Duration::from_millis(300);
    // No data comes to another one before all that.
    net.loses = Some(Box::new(|now, to, bytes| {
        let is_data = matches!(Message::decode(bytes), Ok((_, Message::Data(_))));
        to == 3 && is_data && now < Time::from_millis(800)
    }));
    let id = net.send(file(30_000, Wanted::Count(2)));
    let is_complete = |net: &Net| net.outcomes().contains_key(&member(1));
    net.must(Duration::from_millis(100), is_complete);
    net.must(Duration::from_secs(20), Net::is_sent);
    let outcomes = net.outcomes();
    assert_eq!(outcomes[&member(1)], Outcome::Complete);
    assert_eq!(outcomes[&SAME], Outcome::SameName);
    net.run(Duration::from_millis(10));
    assert!(is_told(&net, 2) && !is_told(&net, 1));
    assert!(net.notices[1].contains(&Notice::Ended { id }));
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

#[test]
fn a_restart_at_the_end_of_a_short_transfer_ends_it_well_and_little_later() {
    for policy in knowing() {
        let mut net = Net::new(2, &under(policy), 300_000);
        net.send(file(300_000, Wanted::Count(1)));
        net.run(Duration::from_millis(10));
        net.restart(1, &under(policy));
        net.data[1].clear();
        let is_there = |net: &Net| net.has_stream(1, 0);
        net.must(Duration::from_secs(3), is_there);
        net.must(config().rto_initial * 3, Net::is_sent);
        let of_one: Vec<Outcome> = net.outcomes().into_values().collect();
        assert_eq!(of_one, [Outcome::Vanished, Outcome::Complete], "{policy:?}");
    }
}
