//! Goal: receivers that multicasts do not reach get one transfer with those that they reach; data
//! is copied to those that need it and to nobody else, and what leaves the sender's host keeps to
//! its rate. Method: the small network, where such receivers get what the sender lets be copied.

use std::boxed::Box;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::Time;

use super::endpoints::config;
use super::net::{Net, file, member};
use crate::bulk::wire::Message;
use crate::bulk::{BulkConfig, Multidriver, Outcome, Policy, RateControl, SlowPolicy, Wanted, Xtp};

const LENGTH: usize = 400_000;
/// Longer than any control message here.
const DATA: usize = 500;

/// How many bytes of data `to` got as copies from `since` on.
fn copied(net: &Net, to: usize, since: Time) -> usize {
    let of = net.copied.iter();
    of.filter(|(at, copied, bytes)| *copied == to && *at >= since && *bytes > DATA)
        .map(|(.., bytes)| bytes)
        .sum()
}

fn fixed(bytes_per_second: u64) -> RateControl {
    RateControl::Fixed { bytes_per_second }
}

/// The settings of all policies under which receivers need not hear each other.
fn policies() -> Vec<BulkConfig> {
    let rounds = Multidriver::for_window(config().window);
    let policies = [
        Policy::Nak { poll: 8 },
        Policy::Ack,
        Policy::Ring,
        Policy::Xtp(Xtp::for_window(config().window)),
        Policy::Multidriver(rounds),
        Policy::List(rounds),
    ];
    let settings = policies.map(|policy| BulkConfig {
        policy,
        block: config().block.filter(|_| policy.takes_parity()),
        ..config()
    });
    settings.into()
}

#[test]
fn receivers_with_and_without_multicast_get_one_transfer() {
    for settings in policies() {
        let policy = settings.policy;
        let mut net = Net::new(5, &settings, LENGTH);
        net.take_multicast_from(&[3, 4]);
        for index in 1..5 {
            net.loss[index] = 0.02;
        }
        net.send(file(LENGTH, Wanted::Count(4)));
        net.must(Duration::from_secs(30), Net::is_sent);
        for index in 1..5 {
            assert!(net.has_stream(index, 0), "{policy:?}: {index}");
            assert_eq!(net.outcomes()[&member(index)], Outcome::Complete);
        }
    }
}

#[test]
fn data_is_copied_to_those_that_take_part_and_only_until_they_have_it() {
    let settings = BulkConfig {
        rate: fixed(1_000_000),
        ..config()
    };
    let mut net = Net::new(6, &settings, LENGTH);
    net.take_multicast_from(&[3, 4, 5]);
    // One hears the announcements and does not take part.
    net.acceptance[4] = None;
    net.send(file(LENGTH, Wanted::Count(4)));
    net.must(Duration::from_secs(30), Net::is_sent);
    assert!([1, 2, 3, 5].iter().all(|index| net.has_stream(*index, 0)));
    let since = Time::ZERO;
    assert!((LENGTH..LENGTH * 11 / 10).contains(&copied(&net, 3, since)));
    assert_eq!(copied(&net, 4, since), 0);
    assert!(net.copied.iter().any(|(_, to, _)| *to == 4), "control is");
    assert_eq!((copied(&net, 1, since), copied(&net, 2, since)), (0, 0));
}

#[test]
fn nothing_is_copied_to_a_receiver_that_has_everything_or_has_gone() {
    let settings = BulkConfig {
        rate: fixed(1_000_000),
        ..config()
    };
    let mut net = Net::new(4, &settings, LENGTH);
    net.take_multicast_from(&[2, 3]);
    net.acceptance[3].as_mut().unwrap().held = core::iter::once(0..LENGTH as u64).collect();
    net.send(file(LENGTH, Wanted::Count(3)));
    net.must(Duration::from_secs(5), |net| {
        copied(net, 2, Time::ZERO) > 50_000
    });
    assert_eq!(copied(&net, 3, Time::ZERO), 0, "it has everything");
    net.cut[2] = true;
    net.must(Duration::from_secs(10), |net| {
        net.outcomes().get(&member(2)) == Some(&Outcome::Vanished)
    });
    let (now, packets) = (net.now, net.endpoints[0].counters().packets_sent);
    net.must(Duration::from_secs(10), Net::is_sent);
    assert!(net.endpoints[0].counters().packets_sent > packets);
    assert!(net.has_stream(1, 0));
    assert_eq!(copied(&net, 2, now), 0);
}

#[test]
fn a_receiver_without_multicast_that_has_everything_holds_up_nobody() {
    for settings in policies() {
        let policy = settings.policy;
        let took = |without: &[usize]| {
            let mut net = Net::new(4, &settings, LENGTH);
            net.take_multicast_from(without);
            // Its user takes its time after that.
            let mut transfer = file(LENGTH, Wanted::Count(3));
            transfer.confirm = true;
            net.acceptance[3].as_mut().unwrap().held = core::iter::once(0..LENGTH as u64).collect();
            net.send(transfer);
            let (begun, has_all) = (net.now, |net: &Net| {
                net.has_stream(1, 0) && net.has_stream(2, 0)
            });
            net.must(Duration::from_secs(10), has_all);
            (net.now - begun).as_secs_f64()
        };
        let (with, without) = (took(&[]), took(&[3]));
        assert!(without < with * 1.1, "{policy:?}: {without} s, not {with}");
    }
}

#[test]
fn each_copy_counts_against_the_rate() {
    // Bytes a second of the stream, where this many get copies.
    let speed = |copies: usize| {
        let settings = BulkConfig {
            rate: fixed(1_200_000),
            ..config()
        };
        let mut net = Net::new(5, &settings, LENGTH);
        let without: Vec<usize> = (1..=copies).collect();
        net.take_multicast_from(&without);
        net.send(file(LENGTH, Wanted::Count(4)));
        net.must(Duration::from_secs(1), |net| !net.data[4].is_empty());
        let since = net.now;
        net.must(Duration::from_secs(30), Net::is_sent);
        LENGTH as f64 / (net.now - since).as_secs_f64()
    };
    let alone = speed(0);
    assert!((1_000_000.0..1_200_000.0).contains(&alone), "{alone}");
    for copies in 1..=3 {
        let part = speed(copies) * (copies as f64 + 1.0) / alone;
        assert!((0.95..1.1).contains(&part), "{copies}: {part}");
    }
}

#[test]
fn a_receiver_that_stands_by_gets_no_copies_until_its_pass_which_is_its_own() {
    const SLOW: usize = 3;
    const LONG: usize = 6_000_000;
    let settings = BulkConfig {
        slow: SlowPolicy::Demote,
        slow_after: Duration::from_millis(20),
        present_within: Duration::from_millis(200),
        rate: fixed(6_000_000),
        packet: 1000,
        ..BulkConfig::lan()
    };
    let mut net = Net::new(8, &settings, LONG);
    net.take_multicast_from(&[SLOW, 4]);
    net.loss[SLOW] = 0.5;
    // What it says itself is heard; it never confirms what it was told.
    net.loses = Some(Box::new(|_: Time, to, body: &Bytes| {
        to == SLOW && matches!(Message::decode(body), Ok((_, Message::Attend(_))))
    }));
    net.send(file(LONG, Wanted::Count(7)));
    net.must(Duration::from_secs(60), |net| {
        net.endpoints[0].counters().stood_by == 1
    });
    let since = net.now + Duration::from_millis(1);
    net.run(Duration::from_millis(1));
    net.must(Duration::from_secs(60), |net| {
        (1..8).all(|index| index == SLOW || net.has_stream(index, 0))
    });
    assert_eq!(copied(&net, SLOW, since), 0);
    assert!(copied(&net, 4, since) > 1_000_000);
    net.must(Duration::from_secs(60), Net::is_sent);
    assert!(net.has_stream(SLOW, 0));
    assert_eq!(copied(&net, SLOW, since), 0, "its pass was unicast");
}
