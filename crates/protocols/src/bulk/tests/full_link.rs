//! Goal: on a full link a receiver that gets copies has what one has that multicasts reach, and is
//! not demoted. Receivers share a link of 100 Mb/s with a short queue, which the transfer alone
//! fills; one to three of them get copies. Method: the simulator's fabric, with other delays and
//! queues for each seed; what each receiver gets in two seconds in which none can have everything.

use std::time::Duration;
use std::vec::Vec;

use groupcast_core::Time;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::topology::{Kind, Topology};

use super::fabric::{self, Sent, bulk, bytes, link, place};
use crate::bulk::{BulkConfig, Messages, RateControl, inspect};

/// Host 0 sends, the first of the others get copies.
const RECEIVERS: usize = 4;
const LENGTH: u32 = 60_000_000;
const BEGINS: Time = Time::from_millis(500);
/// Other delays and queues with each.
const SEEDS: u64 = 4;
/// What is looked at, from when on.
const FROM: Time = Time::from_millis(1500);
const LASTS: Duration = Duration::from_secs(2);

fn world(copies: usize, seed: u64) -> Experiment<Messages> {
    let mut topology = Topology::new();
    let [near, far] = [Kind::Plain; 2].map(|kind| topology.add(kind));
    let shared = link(100, 20 + 37 * seed, 13_000 + 600 * seed);
    topology.connect(near, far, shared);
    for host in 0..=RECEIVERS {
        let router = if host == 0 { near } else { far };
        place(&mut topology, router, link(1000, 20, 512 << 10));
    }
    let mut config = ExperimentConfig::new(topology, inspect, seed);
    config.without_multicast = (1..=copies).collect();
    config.invites = true;
    let bulk = BulkConfig {
        rate: RateControl::FAIR,
        ..BulkConfig::lan()
    };
    let sent = Sent {
        receivers: RECEIVERS,
        length: LENGTH,
        begins: BEGINS,
        flow: None,
    };
    fabric::world(config, bulk, &sent)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// The megabits a second of each receiver, and how many were demoted.
fn run(copies: usize, seed: u64) -> (Vec<f64>, u64) {
    let mut world = world(copies, seed);
    let all = |world: &Experiment<Messages>| -> Vec<f64> {
        (1..=RECEIVERS).map(|host| bytes(world, host)).collect()
    };
    world.run_to(FROM);
    let before = all(&world);
    world.run_to(FROM + LASTS);
    let gained = all(&world).into_iter().zip(before);
    let rates = gained.map(|(now, before)| (now - before) * 8e-6 / LASTS.as_secs_f64());
    (rates.collect(), bulk(&world, 0).counters().demoted)
}

#[test]
fn a_receiver_with_copies_has_as_much_of_a_full_link_as_one_with_multicast() {
    let (alone, _) = run(0, 0);
    for copies in 1..=3 {
        let (mut by_copies, mut by_multicast) = (Vec::new(), Vec::new());
        for seed in 0..SEEDS {
            let (rates, demoted) = run(copies, seed);
            assert_eq!(demoted, 0, "{copies} copies, seed {seed}: {rates:?}");
            let multicast = median(rates[copies..].to_vec());
            for rate in &rates[..copies] {
                assert!(*rate > 0.8 * multicast, "seed {seed}: {rates:?}");
            }
            by_copies.extend_from_slice(&rates[..copies]);
            by_multicast.push(multicast);
        }
        let [by_copies, by_multicast] = [by_copies, by_multicast].map(median);
        std::eprintln!("{copies}: {by_copies:.1} Mb/s by copies, {by_multicast:.1} by multicast");
        // Of three copies and the multicast, such a queue holds two or three packets each.
        let share = alone[0] / (copies + 1) as f64;
        assert!(
            copies > 2 || by_multicast > 0.9 * share,
            "{by_multicast} of {share}"
        );
    }
}
