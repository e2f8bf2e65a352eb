//! Goal: one parity packet repairs a different loss at each receiver, as a sum where nobody misses
//! two; where much is lost parity goes out before anybody can have asked. Method: a small network
//! in which what is lost is chosen, and every packet that leaves is noted with its time.

use std::boxed::Box;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Rng, Time};

use super::net::{Net, accepting, file};
use crate::bulk::parity::XOR;
use crate::bulk::wire::{Data, Message};
use crate::bulk::{
    Acceptance, BulkConfig, Order, Outcome, Policy, RateControl, SlowPolicy, Wanted,
};

const BLOCK: u64 = 64;
const RECEIVERS: usize = 4;
/// Bytes of a packet, and packets of the stream.
const PACKET: usize = 500;
const PACKETS: u64 = 50 * BLOCK;

/// When the last packet of each block left first, and its parity packets with their indices.
#[derive(Default)]
struct Seen {
    ends: BTreeMap<u64, Time>,
    parity: BTreeMap<u64, Vec<(Time, u16)>>,
}

/// Sends a file; `loses` says whether a receiver loses the first transmission of a packet, and of a
/// parity packet (whose number is that of the packet behind its block). Everybody must get
/// everything.
fn run(mut loses: impl FnMut(usize, u64) -> bool + 'static) -> (Net, Seen) {
    let config = BulkConfig {
        packet: PACKET,
        window: 256,
        block: Some(BLOCK as u16),
        policy: Policy::Nak { poll: 128 },
        rate: RateControl::Fixed {
            bytes_per_second: 2_000_000,
        },
        slow: SlowPolicy::Wait,
        ..BulkConfig::lan()
    };
    let length = PACKET * PACKETS as usize;
    let mut net = Net::new(RECEIVERS + 1, &config, length);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let notes = Rc::clone(&seen);
    net.loses = Some(Box::new(move |now: Time, to: usize, body: &Bytes| {
        let Ok((_, Message::Data(Data { header, .. }))) = Message::decode(body) else {
            return false;
        };
        let number = header.number.0;
        let mut notes = notes.borrow_mut();
        if let Some(index) = header.parity {
            if to == 1 {
                let parity = notes.parity.entry(number).or_default();
                parity.push((now, index));
            }
            return loses(to, number + BLOCK);
        }
        if number % BLOCK == BLOCK - 1 {
            notes.ends.entry(number + 1 - BLOCK).or_insert(now);
        }
        !header.again && loses(to, number)
    }));
    net.send(file(length, Wanted::Count(RECEIVERS)));
    net.must(Duration::from_secs(20), Net::is_sent);
    assert!((1..=RECEIVERS).all(|index| net.has_stream(index, 0)));
    net.loses = None;
    let seen = std::mem::take(&mut *seen.borrow_mut());
    (net, seen)
}

#[test]
fn the_sum_of_a_block_repairs_a_different_loss_at_each_receiver() {
    // Each loses another packet of every block, and nothing else.
    let (net, seen) = run(|to, number| number % BLOCK == 7 * to as u64);
    let parity: Vec<u16> = seen
        .parity
        .values()
        .flatten()
        .map(|(_, index)| *index)
        .collect();
    assert!(parity.iter().all(|index| *index == XOR), "{parity:?}");
    // As soon as the loss is known, one for each block.
    assert!(parity.len() > 40 && parity.len() <= 50, "{}", parity.len());
    assert!(seen.parity.values().all(|parity| parity.len() == 1));
    let restored: u64 = (1..=RECEIVERS)
        .map(|index| net.endpoints[index].counters().packets_restored)
        .sum();
    assert_eq!(restored, (RECEIVERS * parity.len()) as u64);
}

#[test]
fn who_misses_two_packets_of_a_block_gets_two_that_are_no_sum() {
    let (net, seen) = run(|to, number| {
        let at = number % BLOCK;
        at == 7 * to as u64 || at == 40 && to == 2
    });
    let parity = |is: fn(u16) -> bool| {
        let all = seen.parity.values().flatten();
        all.filter(|(_, index)| is(*index)).count()
    };
    let (sums, others) = (parity(|index| index == XOR), parity(|index| index != XOR));
    assert!((80..=100).contains(&others), "{others}");
    assert!(sums <= 50, "{sums}");
    let sender = net.endpoints[0].counters();
    assert_eq!(sender.parity_sent, (sums + others) as u64);
}

/// The share of blocks with parity whose first left before anybody can have asked: asking takes two
/// milliseconds.
fn foreseen(loss: f64) -> f64 {
    let mut rng = Rng::new(5);
    let (_, seen) = run(move |_, _| rng.chance(loss));
    assert!(seen.parity.len() > 10, "{}", seen.parity.len());
    let early = seen.parity.iter().filter(|(block, parity)| {
        let end = seen.ends[block];
        parity[0].0 - end < Duration::from_micros(1_900)
    });
    early.count() as f64 / seen.parity.len() as f64
}

#[test]
fn parity_goes_out_before_anybody_has_asked_where_much_is_lost_and_there_only() {
    assert!(foreseen(0.1) > 0.8);
    assert!(foreseen(0.01) < 0.05);
}

/// A receiver holds part of a block from an earlier transfer, and gets more parity of it than it
/// misses packets.
#[test]
fn parity_of_a_block_that_is_held_in_part_stands_for_no_packet() {
    let config = BulkConfig {
        packet: 1_000,
        window: 256,
        block: Some(64),
        policy: Policy::Nak { poll: 64 },
        rate: RateControl::Fixed {
            bytes_per_second: 4_000_000,
        },
        slow: SlowPolicy::Wait,
        vanish_after: Duration::from_secs(5),
        ..BulkConfig::lan()
    };
    let mut net = Net::new(4, &config, 2_000_000);
    net.loss = std::vec![0.0, 0.05, 0.05, 0.05];
    // All but the first half of every other block.
    let missing = (0..2_000_000).step_by(128_000);
    net.acceptance[2] = Some(Acceptance {
        held: missing.map(|at| at + 32_000..at + 128_000).collect(),
        ..accepting(Order::AsTheyCome)
    });
    net.send(file(2_000_000, Wanted::Count(3)));
    net.must(Duration::from_secs(20), Net::is_sent);
    let outcomes = net.outcomes();
    assert!(outcomes.values().all(|it| *it == Outcome::Complete));
    assert!(net.endpoints[0].counters().parity_sent > 0);
}
