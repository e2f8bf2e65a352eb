//! Two hundred receivers, five of them behind a relay over 20 ms and 50 Mb/s.
//!
//! Goal: it ends, with everybody complete, in a time that the slow way explains: the relay costs
//! little beside a sender that stands at the far end itself. Method: a LAN of 1 Gb/s with 195
//! receivers and the relay; below it a link with that delay and rate, and a queue of 128 KiB. The
//! same without a relay, twice: to those of the LAN alone, and to the five over that link alone.
//! Prints what it took.

use std::time::Duration;
use std::vec::Vec;

use groupcast_core::Time;

use super::net::{Link, Net};
use crate::bulk::{Outcome, Wanted};

const LENGTH: usize = 4_000_000;
const NEAR: usize = 195;
const FAR: usize = 5;
const LAN: Link = Link {
    loss: 0.001,
    ..Link::LAN
};
const WAY: Link = Link {
    delay: Duration::from_millis(20),
    rate: 50_000_000 / 8,
    queue: 128 << 10,
    loss: 0.001,
};

/// Sends to this many receivers in each group, and says how many seconds that takes.
fn takes(mut net: Net, receivers: &[usize]) -> f64 {
    let groups = receivers.iter().enumerate();
    let each: Vec<usize> = groups
        .flat_map(|(group, count)| core::iter::repeat_n(group, *count))
        .collect();
    let all: Vec<usize> = each.iter().map(|group| net.add_receiver(*group)).collect();
    net.send(Wanted::Open);
    net.must_end(Duration::from_secs(120));
    assert!(all.iter().all(|index| net.is_whole(*index)));
    let outcomes = net.outcomes();
    assert_eq!(outcomes.len(), all.len());
    let mut outcomes = outcomes.values();
    assert!(outcomes.all(|outcome| *outcome == Outcome::Complete));
    (net.sent_at.expect("it is over") - Time::ZERO).as_secs_f64()
}

#[test]
fn two_hundred_receivers_of_which_five_are_behind_a_slow_way() {
    let mut relayed = Net::new(1, LENGTH, &[LAN, WAY]);
    relayed.add_relay(0, 1);
    let relayed = takes(relayed, &[NEAR, FAR]);
    let near = takes(Net::new(1, LENGTH, &[LAN]), &[NEAR]);
    let far = takes(Net::new(1, LENGTH, &[WAY]), &[FAR]);
    std::println!(
        "{} receivers, {FAR} of them behind a relay over 20 ms and 50 Mb/s: {relayed:.2} s; those {FAR} over that way \
         without a relay {far:.2} s; the other {NEAR} alone {near:.2} s",
        NEAR + FAR
    );
    // The slow way carries it in 0.7 s. That it is long is no queue.
    assert!(far < 2.5, "{far}");
    // The relay registers later than others do, and its account has to be told.
    assert!(relayed < 1.5 * far + 1.0, "{relayed} beside {far}");
}
