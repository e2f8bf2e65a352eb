//! Goal: under XTP slots follow the size of the group, by the best that is known of it, so that few
//! answers come to a request however large the group is; and a bucket always lives longer than a
//! slot. Method: a small network of endpoints; what is announced is read, answers are counted.

use std::rc::Rc;
use std::time::Duration;
use std::vec::Vec;
use std::{boxed::Box, cell::RefCell};

use groupcast_core::NodeId;

use super::endpoints::config;
use super::net::{Net, file, member};
use crate::bulk::wire::Message;
use crate::bulk::{Bulk, BulkConfig, Control, Listed, Outcome, Policy, Repair, Slot, Wanted, Xtp};
use crate::xgm::Subgroups;

const EACH: Duration = Duration::from_micros(200);

fn with(slot: Slot) -> BulkConfig {
    let usual = Xtp::for_window(1024);
    let xtp = Xtp {
        every: 10,
        control: Control {
            slot,
            ..usual.control
        },
        ..usual
    };
    BulkConfig {
        policy: Policy::Xtp(xtp),
        repair: Repair::Selective,
        block: None,
        window: 1024,
        ..config()
    }
}

/// The slot that a sender announces to such receivers, when a census has found this many hosts.
fn announced(slot: Slot, receivers: Wanted, counted: Option<usize>) -> Slot {
    let mut net = Net::new(2, &with(slot), 1_000);
    net.endpoints[0].set_group_size(counted);
    let heard = Rc::new(RefCell::new(Vec::new()));
    let hears = Rc::clone(&heard);
    net.loses = Some(Box::new(move |_, _, body| {
        if let Ok((_, Message::Announce(announce))) = Message::decode(body)
            && let Policy::Xtp(xtp) = announce.policy
        {
            hears.borrow_mut().push(xtp.control.slot);
        }
        false
    }));
    net.send(file(1_000, receivers));
    net.run(Duration::from_millis(10));
    let heard = heard.borrow();
    heard.first().copied().expect("it was announced")
}

#[test]
fn what_is_set_wins_then_who_is_wanted_then_what_was_counted() {
    let upto = |ms| Slot::UpTo(Duration::from_millis(ms));
    let node = |index| NodeId(index);
    let listed = |index| Listed {
        node: node(index),
        subgroups: Subgroups::ALL,
    };
    let by_size = Slot::ForEach(EACH);
    let members = Wanted::Members((0..20).map(node).collect());
    let list = Wanted::Listed((0..15).map(listed).collect());
    let between = Wanted::Between { min: 1, max: 25 };
    // A time that is set holds whatever the size.
    assert_eq!(announced(upto(7), Wanted::Count(50), Some(90)), upto(7));
    assert_eq!(announced(Slot::None, members.clone(), Some(90)), Slot::None);
    // The number that the transfer names or counts goes before the one that was counted in the
    // group.
    assert_eq!(announced(by_size, Wanted::Count(50), Some(90)), upto(10));
    assert_eq!(announced(by_size, members, Some(90)), upto(4));
    assert_eq!(announced(by_size, list, Some(90)), upto(3));
    assert_eq!(announced(by_size, between, Some(90)), upto(5));
    // Where the transfer is for whoever is there, the count holds.
    assert_eq!(announced(by_size, Wanted::Open, Some(90)), upto(18));
    assert_eq!(announced(by_size, Wanted::Present, Some(90)), upto(18));
    // Nobody knows; and nobody is there.
    let unknown = Slot::UpTo(Slot::UNKNOWN);
    assert_eq!(announced(by_size, Wanted::Open, None), unknown);
    assert_eq!(announced(by_size, Wanted::Open, Some(0)), unknown);
    // A slot has its bound.
    assert_eq!(announced(by_size, Wanted::Open, Some(1 << 40)), upto(1_000));
}

/// Answers that come to a request in the mean, and how many of them come after their bucket.
fn answers(slot: Slot, receivers: usize) -> (f64, u64) {
    let mut net = Net::new(receivers + 1, &with(slot), 300_000);
    net.send(file(300_000, Wanted::Count(receivers)));
    net.must(Duration::from_secs(60), Net::is_sent);
    let complete = |index| net.outcomes().get(&member(index)) == Some(&Outcome::Complete);
    assert!((1..=receivers).all(complete));
    let late = net.endpoints[0].counters().answers_late;
    assert_eq!(net.endpoints[0].counters().outrun, 0);
    let counters = net.endpoints[1..].iter().map(Bulk::counters);
    let (mut sent, mut damped) = (0, 0);
    for counters in counters {
        // The last answer is to the poll by name at the end.
        sent += counters.reports_sent + counters.naks_sent - 1;
        damped += counters.answers_damped;
    }
    let requests = (sent + damped) as f64 / receivers as f64;
    (sent as f64 / requests, late)
}

#[test]
fn few_answers_come_to_a_request_however_many_receivers_there_are() {
    // A millisecond passes from sending to dequeuing, so a slot of 1 ms for each leaves two.
    for receivers in [10, 50, 200] {
        let (by_size, late) = answers(Slot::ForEach(Duration::from_millis(1)), receivers);
        assert!((1.0..4.0).contains(&by_size), "{receivers}: {by_size}");
        assert_eq!(late, 0, "a bucket lives longer than the slot");
        let (fixed, _) = answers(Slot::UpTo(Duration::from_millis(2)), receivers);
        let law = 1.0 + receivers as f64 / 2.0;
        assert!(fixed > law * 0.7, "{receivers}: {fixed} with a fixed slot");
    }
}
