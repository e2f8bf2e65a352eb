//! Bytes pass.
//!
//! Goal: whatever is lost on either side, receivers below a relay, and below two, have the stream
//! whole; nothing that all below hold crosses the relay, and no more is kept than the settings
//! allow. Method: small networks; what receivers were given is compared with the stream.

use std::collections::BTreeMap;
use std::time::Duration;
use std::vec::Vec;

use groupcast_core::Time;

use super::net::{Link, Net, User, config};
use crate::bulk::{Bulk, BulkConfig, Outcome, RateControl, Served, Wanted};
use crate::relay::{Carries, RelayEvent};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn receivers_below_a_relay_have_everything_whatever_is_lost() {
    for seed in 1..5 {
        let mut net = Net::new(seed, 900_000, &[Link::losing(0.05), Link::losing(0.1)]);
        let beside = net.add_receiver(0);
        net.add_relay(0, 1);
        let below: Vec<usize> = (0..3).map(|_| net.add_receiver(1)).collect();
        net.send(Wanted::Open);
        net.must_end(MINUTE);
        let all: Vec<usize> = [beside].into_iter().chain(below).collect();
        for index in &all {
            assert!(net.is_whole(*index), "{index}");
            assert!(net.receiver(*index).ended, "{index}");
        }
        let complete: BTreeMap<_, _> = all.iter().map(|it| (*it, Outcome::Complete)).collect();
        assert_eq!(net.outcomes(), complete);
        let concluded = |event: &RelayEvent| {
            matches!(
                event,
                RelayEvent::Concluded {
                    complete: 3,
                    failed: 0,
                    bytes: 900_000,
                    result: Ok(()),
                    ..
                }
            )
        };
        assert!(net.events.iter().any(concluded), "{:?}", net.events);
    }
}

#[test]
fn two_hops_bring_it_all_and_name_everybody() {
    let links = [Link::losing(0.05), Link::losing(0.05), Link::losing(0.1)];
    let mut net = Net::new(7, 600_000, &links);
    net.add_relay(0, 1);
    let middle = net.add_receiver(1);
    let second = net.add_relay(1, 2);
    let last: Vec<usize> = (0..2).map(|_| net.add_receiver(2)).collect();
    net.send(Wanted::Open);
    net.must_end(MINUTE);
    let all = [middle, last[0], last[1]];
    assert!(all.iter().all(|index| net.is_whole(*index)));
    let complete: BTreeMap<_, _> = all.iter().map(|it| (*it, Outcome::Complete)).collect();
    assert_eq!(net.outcomes(), complete);
    let account = net.accounts.values().next().expect("there is a relay");
    let names: Vec<&[u8]> = account.receivers().map(|row| &row.name[..]).collect();
    let path = std::format!("h{second}/h{}", last[0]);
    assert!(names.contains(&path.as_bytes()), "{account:?}");
}

#[test]
fn a_stream_of_unknown_length_ends_below_where_it_ends_above() {
    for length in [0, 1, 500_000] {
        let mut net = Net::new(3, length, &[Link::losing(0.02), Link::losing(0.05)]);
        net.length = None;
        net.carries = Carries::Stream;
        net.add_relay(0, 1);
        let below = [net.add_receiver(1), net.add_receiver(1)];
        net.send(Wanted::Open);
        net.must_end(MINUTE);
        assert!(below.iter().all(|index| net.is_whole(*index)), "{length}");
        assert!(net.outcomes().values().all(|it| *it == Outcome::Complete));
    }
}

#[test]
fn packets_need_not_be_cut_alike_on_the_two_sides() {
    let mut net = Net::new(5, 300_001, &[Link::LAN, Link::losing(0.05)]);
    net.add_relay(0, 1);
    let small = BulkConfig {
        packet: 700,
        ..super::net::below()
    };
    let lower = net.stations[2].bulk.local();
    net.stations[2].bulk =
        Bulk::new(lower, small, groupcast_core::Rng::new(4)).expect("it is valid");
    let below = [net.add_receiver(1), net.add_receiver(1)];
    net.receiver(below[0]).held = std::vec![0..100_000, 150_000..250_000];
    net.receiver(below[1]).held = std::vec![0..90_000, 140_000..300_001];
    net.send(Wanted::Open);
    net.must_end(MINUTE);
    assert!(below.iter().all(|index| net.is_whole(*index)));
    assert!(net.offered < 120_000, "{}", net.offered);
}

#[test]
fn what_all_below_hold_does_not_come_again() {
    let length = 2_000_000;
    let mut net = Net::new(3, length, &[Link::LAN, Link::LAN]);
    net.add_relay(0, 1);
    for _ in 0..3 {
        let below = net.add_receiver(1);
        net.receiver(below).held = std::vec![0..length as u64];
    }
    net.send(Wanted::Open);
    net.must_end(MINUTE);
    assert!(net.offered < 5_000, "{}", net.offered);
    assert!(net.outcomes().values().all(|it| *it == Outcome::Complete));
}

#[test]
fn a_slow_receiver_below_slows_its_relay_which_keeps_no_more_than_it_may() {
    let length = 24_000_000;
    let mut net = Net::new(3, length, &[Link::LAN, Link::LAN]);
    net.add_relay(0, 1);
    let slow = net.add_receiver(1);
    net.receiver(slow).takes = 4_000_000;
    let quick = net.add_receiver(1);
    net.send(Wanted::Open);
    net.must_end(MINUTE);
    assert!(net.is_whole(slow) && net.is_whole(quick));
    let settings = config();
    let windows = 4 * u64::from(settings.window) * settings.packet as u64;
    let most = 2 * settings.buffer_max as u64 + windows;
    assert!(net.kept_max <= most, "{} of {most}", net.kept_max);
    let took = (net.sent_at.expect("it is over") - Time::ZERO).as_secs_f64();
    assert!(took > 2.0, "the sender followed the slow one: {took}");
}

#[test]
fn receivers_below_are_told_that_their_relay_is_served_later_and_that_the_sender_pauses() {
    let mut net = Net::new(3, 40_000_000, &[Link::LAN, Link::LAN, Link::LAN]);
    let rate = RateControl::Fixed {
        bytes_per_second: 10_000_000,
    };
    let sender = net.stations[0].bulk.local();
    let settings = BulkConfig { rate, ..config() };
    net.stations[0].bulk =
        Bulk::new(sender, settings, groupcast_core::Rng::new(4)).expect("it is valid");
    let near = [net.add_receiver(0), net.add_receiver(0)];
    net.add_relay(0, 1);
    net.add_relay(1, 2);
    let below = [net.add_receiver(1), net.add_receiver(2)];
    net.receiver(below[0]).takes = 1_000_000;
    net.send(Wanted::Open);
    let told = |net: &Net, served: &[Served]| {
        below.iter().all(|index| match &net.stations[*index].user {
            User::Receiver(receiver) => receiver.served == served,
            _ => false,
        })
    };
    let end = Time::ZERO + Duration::from_secs(30);
    assert!(net.run_until(end, |net| told(net, &[Served::Later])));
    let is_told = |event: &RelayEvent| {
        matches!(
            event,
            RelayEvent::Served {
                served: Served::Later,
                ..
            }
        )
    };
    assert_eq!(net.events.iter().filter(|it| is_told(it)).count(), 2);
    let id = net.id.expect("it was sent");
    let set = |net: &mut Net, rate| {
        let now = net.now;
        net.stations[0]
            .bulk
            .set_rate(now, id, rate)
            .expect("it is a rate");
    };
    set(&mut net, None);
    net.run(Duration::from_secs(3));
    assert!(told(&net, &[Served::Later, Served::Paused]));
    set(&mut net, Some(rate));
    // Its pass begins when the others have everything.
    let all = [Served::Later, Served::Paused, Served::Later, Served::Now];
    assert!(net.run_until(end, |net| told(net, &all)));
    for index in near {
        assert!(
            net.receiver(index).served.len() <= 2,
            "but a pause it waits for nothing"
        );
    }
}
