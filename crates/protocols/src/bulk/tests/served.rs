//! Goal: a receiver of which nothing comes for long knows why, and that it is over, whatever is
//! lost. Method: the small network, in which the sender pauses, or a receiver is slow.

use std::boxed::Box;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Rng, Time};

use super::net::{Net, file, member};
use crate::bulk::wire::{Message, ServedWhen};
use crate::bulk::{Bulk, BulkConfig, Notice, RateControl, Served, SlowPolicy, Wanted};

const LENGTH: usize = 6_000_000;
/// Bytes a second: it takes 3 s.
const RATE: RateControl = RateControl::Fixed {
    bytes_per_second: 2_000_000,
};
const MINUTE: Duration = Duration::from_secs(60);

fn config() -> BulkConfig {
    BulkConfig {
        rate: RATE,
        buffer_max: 512 << 10,
        slow_after: Duration::from_millis(200),
        ..BulkConfig::lan()
    }
}

fn begun(receivers: usize) -> Net {
    begun_with(receivers, SlowPolicy::Demote)
}

fn begun_with(receivers: usize, slow: SlowPolicy) -> Net {
    let config = BulkConfig { slow, ..config() };
    let mut net = Net::new(receivers + 1, &config, LENGTH);
    net.send(file(LENGTH, Wanted::Count(receivers)));
    net
}

/// What a receiver was told of when it is served.
fn told(net: &Net, index: usize) -> Vec<Served> {
    let served = |notice: &Notice| match notice {
        Notice::Served { served, .. } => Some(*served),
        _ => None,
    };
    net.notices[index].iter().filter_map(served).collect()
}

fn set_rate(net: &mut Net, rate: Option<RateControl>) {
    let (now, id) = (net.now, net.id.expect("it is sent"));
    let set = net.endpoints[0].set_rate(now, id, rate);
    set.expect("it is a rate");
}

/// Words of such a kind are lost on the way to all.
fn loses(net: &mut Net, is_lost: fn(ServedWhen) -> bool) {
    net.loses = Some(Box::new(move |_: Time, _, body: &Bytes| {
        let message = Message::decode(body).expect("it was encoded").1;
        matches!(message, Message::ServedWhen(said) if is_lost(said))
    }));
}

#[test]
fn receivers_of_a_sender_that_pauses_are_told_so_and_that_it_goes_on() {
    let mut net = begun_with(3, SlowPolicy::Wait);
    net.loss[2] = 0.3;
    net.run(Duration::from_secs(1));
    set_rate(&mut net, None);
    net.run(Duration::from_secs(20));
    for index in 1..4 {
        assert_eq!(told(&net, index), [Served::Paused], "{index}");
    }
    set_rate(&mut net, Some(RATE));
    net.must(MINUTE, Net::is_sent);
    for index in 1..4 {
        let both = [Served::Paused, Served::Now];
        assert_eq!(told(&net, index), both, "{index}");
    }
}

/// A word is kept until it is said again, however often the sender says it, and whatever the
/// receiver's own settings are.
#[test]
fn a_word_is_not_forgotten_before_it_is_said_again() {
    for (announce_ms, vanish_ms) in [(1_300, 10_000), (50, 1_000)] {
        let settings = BulkConfig {
            announce_interval: Duration::from_millis(announce_ms),
            present_within: Duration::from_millis(4 * announce_ms),
            slow: SlowPolicy::Wait,
            ..config()
        };
        let vanish_after = Duration::from_millis(vanish_ms);
        let of_receiver = BulkConfig {
            vanish_after,
            rto_max: vanish_after / 4,
            ..settings.clone()
        };
        let mut net = Net::new(3, &settings, LENGTH);
        for index in 1..3 {
            let rng = Rng::new(index as u64);
            net.endpoints[index] =
                Bulk::new(member(index), of_receiver.clone(), rng).expect("the settings fit");
        }
        net.send(file(LENGTH, Wanted::Count(2)));
        let id = net.id.expect("it is sent");
        net.must(MINUTE, |net| {
            let progress = net.endpoints[0].progress(id);
            progress.is_some_and(|it| it.position > 0)
        });
        set_rate(&mut net, None);
        net.run(MINUTE);
        for index in 1..3 {
            assert_eq!(told(&net, index), [Served::Paused], "{announce_ms} ms");
        }
        set_rate(&mut net, Some(RATE));
        net.must(MINUTE, Net::is_sent);
    }
}

#[test]
fn a_word_that_it_goes_on_may_be_lost() {
    let mut net = begun(2);
    net.run(Duration::from_secs(1));
    set_rate(&mut net, None);
    net.run(Duration::from_secs(2));
    loses(&mut net, |said| said.served == Served::Now);
    let slow = RateControl::Fixed {
        bytes_per_second: 100_000,
    };
    set_rate(&mut net, Some(slow));
    net.run(Duration::from_secs(4));
    assert_eq!(told(&net, 1), [Served::Paused], "it may go on to pause");
    net.run(Duration::from_secs(4));
    assert_eq!(told(&net, 1), [Served::Paused, Served::Now]);
}

#[test]
fn a_receiver_that_is_served_later_is_told_so_and_when_its_turn_comes() {
    let mut net = begun(4);
    net.disks[4] = Some(200_000);
    net.must(MINUTE, |net| told(net, 4) == [Served::Later]);
    assert!(!net.has_stream(1, 0), "the others are served meanwhile");
    net.must(MINUTE, |net| told(net, 4).len() == 2);
    assert!(!net.has_stream(4, 0), "it is served now");
    net.must(MINUTE, Net::is_sent);
    assert_eq!(told(&net, 4), [Served::Later, Served::Now]);
    assert!((1..4).all(|index| told(&net, index).is_empty()));
}

#[test]
fn a_receiver_that_stands_by_is_told_that_it_is_served_later() {
    let mut net = begun(7);
    net.loss[3] = 0.5;
    net.must(MINUTE, |net| told(net, 3) == [Served::Later]);
    net.must(MINUTE, |net| net.endpoints[0].counters().stood_by == 1);
    net.must(MINUTE, Net::is_sent);
    assert_eq!(told(&net, 3).first(), Some(&Served::Later));
    assert!(told(&net, 3).len() <= 2);
    assert!(
        [1, 2, 4, 5, 6, 7]
            .iter()
            .all(|index| told(&net, *index).is_empty())
    );
}

/// It hears no multicast, and each of the two words is forgotten by itself.
#[test]
fn a_receiver_that_stands_by_is_told_of_a_pause_and_of_its_end() {
    let mut net = begun(7);
    net.loss[3] = 0.5;
    net.must(MINUTE, |net| net.endpoints[0].counters().stood_by == 1);
    net.run(Duration::from_secs(1));
    assert_eq!(told(&net, 3), [Served::Later]);
    set_rate(&mut net, None);
    net.run(Duration::from_secs(3));
    assert_eq!(told(&net, 3), [Served::Later, Served::Paused]);
    set_rate(&mut net, Some(RATE));
    let all = [Served::Later, Served::Paused, Served::Later];
    net.must(Duration::from_secs(6), |net| told(net, 3).starts_with(&all));
}

#[test]
fn a_pause_is_told_to_those_that_are_served_later_as_well() {
    let mut net = begun(4);
    net.disks[4] = Some(200_000);
    net.must(MINUTE, |net| told(net, 4) == [Served::Later]);
    set_rate(&mut net, None);
    net.run(Duration::from_secs(2));
    assert_eq!(told(&net, 4), [Served::Later, Served::Paused]);
    set_rate(&mut net, Some(RATE));
    net.run(Duration::from_millis(700));
    let all = [Served::Later, Served::Paused, Served::Later];
    assert_eq!(told(&net, 4), all);
}
