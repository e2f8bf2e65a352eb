//! Goal: a Start that all have lost costs no storm of rosters; and a receiver that is heard, but
//! never says what it needs, does not hold the others for ever; nor does one that has no room for
//! two packets. Method: the small network, in which what is lost is chosen, and a receiver made by
//! hand.

use std::boxed::Box;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use groupcast_core::{Protocol as _, Rng};

use super::endpoints::config;
use super::net::{Net, file, member};
use super::replies::bare_report;
use crate::bulk::wire::{Message, Purpose, ReceiverReport};
use crate::bulk::{Bulk, BulkConfig, Failure, Notice, Outcome, RateControl, Wanted};

const LENGTH: usize = 400_000;

#[test]
fn a_start_that_all_have_lost_is_told_to_each_alone() {
    const RECEIVERS: usize = 40;
    let settings = BulkConfig {
        rate: RateControl::Fixed {
            bytes_per_second: 1_000_000,
        },
        ..config()
    };
    let mut net = Net::new(RECEIVERS + 1, &settings, LENGTH);
    let starts = Rc::new(Cell::new(0));
    let seen = Rc::clone(&starts);
    net.loses = Some(Box::new(move |_, _, body| {
        let is_start = matches!(Message::decode(body), Ok((_, Message::Start(_))));
        seen.set(seen.get() + usize::from(is_start));
        // That of the beginning.
        is_start && seen.get() <= RECEIVERS
    }));
    net.send(file(LENGTH, Wanted::Count(RECEIVERS)));
    net.must(Duration::from_secs(5), Net::is_sent);
    assert!((1..=RECEIVERS).all(|index| net.has_stream(index, 0)));
    let starts = starts.get();
    assert!((2 * RECEIVERS..4 * RECEIVERS).contains(&starts), "{starts}");
}

#[test]
fn who_is_heard_and_never_ready_is_given_up() {
    let settings = BulkConfig {
        reserve: true,
        ..config()
    };
    let mut net = Net::new(3, &settings, LENGTH);
    net.acceptance[2] = None;
    net.send(file(LENGTH, Wanted::Count(2)));
    let say = |net: &mut Net, purpose| {
        let report = ReceiverReport {
            purpose,
            ..bare_report(net)
        };
        let body = Message::Report(report).encode(1);
        let now = net.now;
        net.endpoints[0].handle_datagram(now, member(2), body);
        net.run(Duration::from_millis(100));
    };
    say(&mut net, Purpose::Register);
    let begun = net.now;
    while !net.is_sent() && net.now < begun + 5 * settings.vanish_after {
        say(&mut net, Purpose::Acknowledge);
    }
    let outcomes = net.outcomes();
    assert_eq!(outcomes[&member(1)], Outcome::Complete);
    let Outcome::Failed(reason) = &outcomes[&member(2)] else {
        panic!("{outcomes:?}");
    };
    assert!(reason.contains("has not said for 2 s"), "{reason}");
    assert!(net.has_stream(1, 0));
}

#[test]
fn who_has_no_room_for_two_packets_refuses_and_says_why() {
    let settings = config();
    let mut net = Net::new(3, &settings, LENGTH);
    let narrow = BulkConfig {
        packet: 400,
        buffer_max: 900,
        ..settings
    };
    net.endpoints[2] = Bulk::new(member(2), narrow, Rng::new(2)).expect("they fit");
    let id = net.send(file(LENGTH, Wanted::Count(2)));
    net.must(Duration::from_secs(5), Net::is_sent);
    let outcomes = net.outcomes();
    assert_eq!(outcomes[&member(1)], Outcome::Complete);
    let reason = "two packets of 1000 bytes do not fit into its buffer_max of 900 bytes";
    assert_eq!(outcomes[&member(2)], Outcome::Refused(reason.into()));
    let (packet, buffer_max) = (1000, 900);
    let failure = Failure::LargePackets { packet, buffer_max };
    assert!(net.notices[2].contains(&Notice::Failed { id, failure }));
    assert!(net.has_stream(1, 0) && net.data[2].is_empty());
}
