//! Goal: a receiver whose disk is slow does not slow the others, and has everything in the end;
//! where all disks are slow, the sender is as fast as they. Method: the small network with the
//! settings of files and a fixed rate; what a slow disk has not written takes the receiver's room.

use std::collections::BTreeMap;
use std::time::Duration;
use std::vec::Vec;

use super::net::{Net, file, member};
use crate::bulk::{BulkConfig, Notice, Outcome, RateControl, Wanted};

const LENGTH: usize = 30_000_000;
/// Bytes a second: it takes 15 s.
const RATE: u64 = 2_000_000;

/// What came of a transfer to receivers with these disks.
struct Came {
    /// When each receiver had everything.
    at: Vec<Duration>,
    /// When the sender knew it of all.
    all: Duration,
    demoted: u64,
    /// Packets that were sent, and those of the stream.
    packets: u64,
    of_stream: u64,
}

/// Sends a file to receivers whose disks write this many bytes a second; without a number, all at
/// once.
fn send(disks: &[Option<u64>]) -> Came {
    let config = BulkConfig {
        rate: RateControl::Fixed {
            bytes_per_second: RATE,
        },
        buffer_max: 512 << 10,
        ..BulkConfig::lan()
    };
    let mut net = Net::new(disks.len() + 1, &config, LENGTH);
    net.disks[1..].copy_from_slice(disks);
    net.send(file(LENGTH, Wanted::Count(disks.len())));
    let begun = net.now;
    let mut at = BTreeMap::new();
    net.must(Duration::from_secs(600), |net| {
        for index in 1..net.notices.len() {
            let mut notices = net.notices[index].iter();
            if notices.any(|it| matches!(it, Notice::Received { .. })) {
                at.entry(index).or_insert(net.now - begun);
            }
        }
        net.is_sent()
    });
    let outcomes = net.outcomes();
    for index in 1..=disks.len() {
        assert!(net.has_stream(index, 0), "{index}");
        assert_eq!(outcomes[&member(index)], Outcome::Complete);
    }
    let counters = net.endpoints[0].counters();
    Came {
        at: at.into_values().collect(),
        all: net.now - begun,
        demoted: counters.demoted,
        packets: counters.packets_sent,
        of_stream: (LENGTH as u64).div_ceil(config.packet as u64),
    }
}

/// Fails unless all but the last receivers have everything nearly as soon as without slow disks.
fn assert_alone(disks: &[Option<u64>]) {
    let fast = disks.iter().filter(|disk| disk.is_none()).count();
    let (alone, came) = (send(&disks[..fast]), send(disks));
    let latest = came.at[..fast].iter().max();
    let limit = alone.all.mul_f64(1.1);
    assert!(
        latest < Some(&limit),
        "{:?}, alone {:?}",
        came.at,
        alone.all
    );
    assert!(
        came.demoted >= (disks.len() - fast) as u64,
        "they are served later"
    );
    // What a slow one misses is sent to it as its disk takes it, and not again and again.
    let sent = came.packets as f64 / came.of_stream as f64;
    assert!(sent < 1.1 + (disks.len() - fast) as f64, "{sent} times");
    // And no slow one takes much longer than its disk.
    for (at, rate) in came.at[fast..].iter().zip(disks[fast..].iter().flatten()) {
        let own = Duration::from_secs_f64(LENGTH as f64 / *rate as f64);
        assert!(
            *at < own.mul_f64(1.3) + alone.all,
            "{at:?}, its disk needs {own:?}"
        );
    }
}

#[test]
fn one_slow_disk_of_four_slows_its_own_receiver() {
    assert_alone(&[None, None, None, Some(RATE / 10)]);
}

#[test]
fn one_slow_disk_of_two_slows_its_own_receiver() {
    assert_alone(&[None, Some(RATE / 4)]);
}

#[test]
fn a_disk_at_half_the_rate_slows_its_own_receiver() {
    assert_alone(&[None, None, Some(RATE / 2)]);
}

#[test]
fn several_slow_disks_slow_their_own_receivers() {
    let slow = [RATE / 10, RATE / 11, RATE / 12].map(Some);
    assert_alone(&[&[None; 4], &slow[..]].concat());
}

#[test]
fn where_all_disks_are_slow_the_sender_is_as_fast_as_they() {
    let came = send(&[Some(RATE / 2), Some(RATE / 2 + 1000), Some(RATE / 2 + 2000)]);
    assert!(came.all < Duration::from_secs(33), "{:?}", came.all);
    assert!(
        came.packets < came.of_stream * 5 / 4,
        "{} packets",
        came.packets
    );
}

#[test]
fn a_disk_that_is_a_little_slower_is_waited_for() {
    let came = send(&[None, None, None, Some(RATE * 9 / 10)]);
    assert_eq!(came.demoted, 0);
    assert!(came.all < Duration::from_secs(18), "{:?}", came.all);
}
