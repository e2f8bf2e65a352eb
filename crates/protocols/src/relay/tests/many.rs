//! Two hundred receivers, five of them behind a relay over 20 ms and 50 Mb/s.
//!
//! Goal: it ends, with everybody complete, in a time that the slow way explains: the others do not
//! pay for it more than the sender's policy for slow receivers lets them. Method: a LAN of 1 Gb/s
//! with 195 receivers and the relay; below it a link with that delay and rate, and a queue of 128
//! KiB. Prints what it took.

use std::time::Duration;
use std::vec::Vec;

use groupcast_core::Time;

use super::net::{Link, Net};
use crate::bulk::{Outcome, Wanted};

#[test]
fn two_hundred_receivers_of_which_five_are_behind_a_slow_way() {
    const LENGTH: usize = 4_000_000;
    let lan = Link {
        loss: 0.001,
        ..Link::LAN
    };
    let far = Link {
        delay: Duration::from_millis(20),
        rate: 50_000_000 / 8,
        queue: 128 << 10,
        loss: 0.001,
    };
    let mut net = Net::new(1, LENGTH, &[lan, far]);
    net.add_relay(0, 1);
    let near: Vec<usize> = (0..195).map(|_| net.add_receiver(0)).collect();
    let behind: Vec<usize> = (0..5).map(|_| net.add_receiver(1)).collect();
    net.send(Wanted::Open);
    net.must_end(Duration::from_secs(120));
    let took = (net.sent_at.expect("it is over") - Time::ZERO).as_secs_f64();
    let all = near.iter().chain(&behind);
    assert!(all.clone().all(|index| net.is_whole(*index)));
    let outcomes = net.outcomes();
    assert_eq!(outcomes.len(), 200);
    assert!(
        outcomes
            .values()
            .all(|outcome| *outcome == Outcome::Complete)
    );
    let line = LENGTH as f64 * 8.0 / 50e6;
    std::println!(
        "200 receivers, 5 behind 20 ms and 50 Mb/s: {took:.2} s; that line alone takes {line:.2} s"
    );
    // A second to register, the line with its framing, and what its rate takes to be found.
    assert!(took < 1.0 + 6.0 * line + 2.0, "{took}");
}
