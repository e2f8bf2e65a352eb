//! Goal: a transfer that begins beside a TCP-like flow which has filled the queue of a slow link
//! leaves it half of its share at least, though all round trips are long from the start; and one
//! over a way that is long without a queue is not slower for that. Method: the simulator's fabric;
//! what the flow and the receiver get in twenty seconds, and how long four megabytes take.

use std::time::Duration;

use groupcast_core::Time;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::topology::{Kind, Topology};

use super::fabric::{self, Sent, bytes, link, packets, place};
use crate::bulk::{BulkConfig, Messages, RateControl, inspect};

/// Host 0 sends to host 1, beside a flow.
const FLOW: [usize; 2] = [2, 3];

/// All share a link of this many megabits a second, with a queue of this many bytes.
fn world(
    [megabits, micros, queue]: [u64; 3],
    length: u32,
    begins: Time,
    has_flow: bool,
    seed: u64,
) -> Experiment<Messages> {
    let mut topology = Topology::new();
    let [near, far] = [Kind::Plain; 2].map(|kind| topology.add(kind));
    topology.connect(near, far, link(megabits, micros + 31 * seed, queue));
    for host in 0..=FLOW[1] {
        let router = if host % 2 == 0 { near } else { far };
        place(&mut topology, router, link(1000, 20, 512 << 10));
    }
    let mut config = ExperimentConfig::new(topology, inspect, seed);
    config.without_multicast = FLOW.into();
    config.acquainted = 1;
    let bulk = BulkConfig {
        rate: RateControl::FAIR,
        ..BulkConfig::lan()
    };
    let sent = Sent {
        receivers: 1,
        length,
        begins,
        flow: has_flow.then_some(FLOW),
    };
    fabric::world(config, bulk, &sent)
}

#[test]
fn a_flow_that_was_there_before_keeps_half_of_its_share() {
    const BEGINS: Time = Time::from_millis(5_000);
    const SECONDS: u64 = 20;
    for seed in 0..4 {
        let mut world = world([10, 20, 256 << 10], 60_000_000, BEGINS, true, seed);
        let has = |world: &Experiment<Messages>| {
            [world.flow_uses()[0].delivered_bytes as f64, bytes(world, 1)]
        };
        world.run_to(BEGINS);
        let first = has(&world);
        let mut before = first;
        for second in 1..=SECONDS {
            world.run_to(BEGINS + Duration::from_secs(second));
            let now = has(&world);
            let [flow, own] = [0, 1].map(|at| (now[at] - before[at]) * 8e-6);
            std::eprint!("{flow:.1}/{own:.1} ");
            before = now;
        }
        let [flow, own] = [0, 1].map(|at| (before[at] - first[at]) * 8e-6 / SECONDS as f64);
        std::eprintln!("\n{seed}: the flow has {flow:.2} Mb/s, the receiver {own:.2}");
        assert!(flow > 2.4 && own > 1.0, "{flow} and {own}");
    }
}

#[test]
fn a_long_way_does_not_make_the_start_slow() {
    const LENGTH: u32 = 4_000_000;
    const BEGINS: Time = Time::from_millis(200);
    for micros in [1_000, 20_000, 50_000] {
        let mut world = world([50, micros, 128 << 10], LENGTH, BEGINS, false, 0);
        let all = u64::from(LENGTH).div_ceil(BulkConfig::lan().packet as u64);
        let mut now = BEGINS;
        while packets(&world, 1) < all {
            assert!(now < BEGINS + Duration::from_secs(20), "{micros}");
            now += Duration::from_millis(10);
            world.run_to(now);
        }
        let took = (now - BEGINS).as_secs_f64();
        std::eprintln!("{micros} us: {took:.2} s");
        // The link carries it in 0.7 s.
        assert!(
            took < 1.0 + 40e-6 * micros as f64,
            "{took} s over {micros} us"
        );
    }
}
