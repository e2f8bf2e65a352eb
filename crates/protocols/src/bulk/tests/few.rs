//! Goal: with a rate that is found, a receiver behind a port far slower than the others' does not
//! make all slow, and has everything in the end; where all share what is slow with a TCP-like flow,
//! nobody is demoted; and whatever they share, the flow gets what it gets from a sender that
//! demotes nobody. Method: the simulator's fabric, with some delays and queues.

use std::time::Duration;

use groupcast_core::Time;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::link::LinkSpec;
use groupcast_sim::topology::{Kind, Topology};

use super::fabric::{self, Sent, bulk, bytes, packets, place};
use crate::bulk::{BulkConfig, Messages, RateControl, SlowPolicy, inspect};

/// Host 0 sends; then come the receivers, and the two ends of the flow.
const RECEIVERS: usize = 7;
const FLOW: [usize; 2] = [RECEIVERS + 1, RECEIVERS + 2];
const BEGINS: Time = Time::from_millis(200);

/// Megabits a second of what the receivers have.
struct Links {
    /// Of the link that all share, and the flow.
    shared: u64,
    /// Of the port of the last receiver.
    last: u64,
    /// Whether the flow goes to the last receiver's router, through its port.
    flow_to_last: bool,
    /// Whether the first receiver is near, and the others far.
    near_and_far: bool,
    /// How many receivers there are.
    receivers: usize,
    /// At which rate is sent.
    rate: RateControl,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            shared: 1000,
            last: 1000,
            flow_to_last: false,
            near_and_far: false,
            receivers: RECEIVERS,
            rate: RateControl::FAIR,
        }
    }
}

fn link(megabits: u64, micros: u64) -> LinkSpec {
    // 20 ms of queue, as far as switches have that.
    let queue = (megabits * 2_500).clamp(32 << 10, 512 << 10);
    fabric::link(megabits, micros, queue)
}

fn world(
    links: &Links,
    length: u32,
    has_flow: bool,
    slow: SlowPolicy,
    seed: u64,
) -> Experiment<Messages> {
    let mut topology = Topology::new();
    let [near, far, last] = [Kind::Plain; 3].map(|kind| topology.add(kind));
    topology.connect(near, far, link(links.shared, 20 + 31 * seed));
    topology.connect(far, last, link(links.last, 20));
    let flow = FLOW.map(|end| end - RECEIVERS + links.receivers);
    for host in 0..links.receivers + 3 {
        let router = match host {
            _ if host == links.receivers => last,
            _ if host == flow[1] && links.flow_to_last => last,
            _ if host == 0 || host == flow[0] => near,
            _ => far,
        };
        let micros = match host {
            2.. if host < RECEIVERS.min(links.receivers + 1) && links.near_and_far => 15_000,
            _ => 20,
        };
        place(&mut topology, router, link(1000, micros));
    }
    let mut config = ExperimentConfig::new(topology, inspect, seed);
    config.without_multicast = flow.into();
    config.acquainted = links.receivers;
    let bulk = BulkConfig {
        rate: links.rate,
        slow,
        ..BulkConfig::lan()
    };
    let sent = Sent {
        receivers: links.receivers,
        length,
        begins: BEGINS,
        flow: has_flow.then_some(flow),
    };
    fabric::world(config, bulk, &sent)
}

fn demoted(world: &Experiment<Messages>) -> u64 {
    bulk(world, 0).counters().demoted
}

/// When `host` has all packets, in seconds after the beginning, if it has by `until`.
fn done(
    world: &mut Experiment<Messages>,
    hosts: core::ops::RangeInclusive<usize>,
    length: u32,
    until: Time,
) -> Option<f64> {
    let all = u64::from(length).div_ceil(BulkConfig::lan().packet as u64);
    let mut now = BEGINS;
    while now < until {
        now += Duration::from_millis(20);
        world.run_to(now);
        if hosts.clone().all(|host| packets(world, host) >= all) {
            return Some((now - BEGINS).as_secs_f64());
        }
    }
    None
}

#[test]
fn one_slow_port_does_not_make_all_slow() {
    const LENGTH: u32 = 8_000_000;
    for (last, seed) in [(5, 0), (5, 1), (20, 2)] {
        let links = Links {
            last,
            ..Links::default()
        };
        let mut world = world(&links, LENGTH, false, SlowPolicy::Demote, seed);
        let alone = f64::from(LENGTH) * 8e-6 / last as f64;
        let until = BEGINS + Duration::from_secs_f64(2.0 * alone);
        let others = done(&mut world, 1..=RECEIVERS - 1, LENGTH, until).expect("they get it");
        let all = done(&mut world, 1..=RECEIVERS, LENGTH, until).expect("it gets it");
        std::eprintln!(
            "{last} Mb/s: the others after {others:.2} s, all after {all:.2} of {alone:.2} s"
        );
        assert!(others < 3.0, "{others}");
        assert!(all < 1.5 * alone + others, "{all} of {alone}");
        assert_eq!(demoted(&world), 1);
    }
}

/// The one is given up, and the others get it as soon as if it were served later.
#[test]
fn one_slow_port_is_given_up_where_slow_receivers_are_dropped() {
    const LENGTH: u32 = 8_000_000;
    let links = Links {
        last: 5,
        ..Links::default()
    };
    let mut world = world(&links, LENGTH, false, SlowPolicy::Drop, 0);
    let until = BEGINS + Duration::from_secs(5);
    let others = done(&mut world, 1..=RECEIVERS - 1, LENGTH, until).expect("they get it");
    assert!(others < 3.0, "{others}");
    assert_eq!(demoted(&world), 0);
}

const FIFTY: RateControl = RateControl::Fixed {
    bytes_per_second: 50_000_000 / 8,
};

/// Whether the rate is found or not: the one is given up, and the other one has it soon. Where slow
/// ones are not dropped, both go on.
#[test]
fn of_two_the_slow_one_is_given_up_where_slow_receivers_are_dropped() {
    const LENGTH: u32 = 6_000_000;
    for (rate, within) in [(FIFTY, 4.0), (RateControl::FAIR, 5.0)] {
        for seed in 0..2 {
            let links = Links {
                last: 4,
                receivers: 2,
                rate,
                ..Links::default()
            };
            let mut dropping = world(&links, LENGTH, false, SlowPolicy::Drop, seed);
            let until = BEGINS + Duration::from_secs(14);
            let first = done(&mut dropping, 1..=1, LENGTH, until).expect("it gets it");
            dropping.run_to(until);
            let packets = packets(&dropping, 2);
            std::eprintln!("{rate:?}, {seed}: {first:.2} s, the other has {packets} packets");
            assert!(first < within, "{first}");
            assert!(packets < u64::from(LENGTH) / 1400 / 2, "{packets}");
        }
    }
}

/// One of two is not given up for what both share, nor for its distance.
#[test]
fn of_two_that_share_what_is_slow_both_get_it() {
    const LENGTH: u32 = 10_000_000;
    for (rate, shared, near_and_far, flow) in [
        (FIFTY, 20, false, false),
        (FIFTY, 20, true, false),
        (RateControl::FAIR, 20, false, false),
        (RateControl::FAIR, 20, true, true),
        (RateControl::FAIR, 20, false, true),
        (RateControl::FAIR, 1000, true, false),
    ] {
        for seed in 0..2 {
            let links = Links {
                shared,
                near_and_far,
                receivers: 2,
                rate,
                ..Links::default()
            };
            let mut world = world(&links, LENGTH, flow, SlowPolicy::Drop, seed);
            let until = BEGINS + Duration::from_secs(60);
            let all = done(&mut world, 1..=2, LENGTH, until);
            std::eprintln!("{rate:?}, {shared}, {near_and_far}, {flow}, {seed}: {all:.2?} s");
            assert!(all.is_some(), "one was given up");
        }
    }
}

/// Megabits a second of the flow and of the second receiver, in eight seconds, and how many were
/// demoted.
fn beside_a_flow(links: &Links, slow: SlowPolicy, seed: u64) -> ([f64; 2], u64) {
    let mut world = world(links, 64_000_000, true, slow, seed);
    let lasts = Duration::from_secs(8);
    world.run_to(BEGINS + Duration::from_secs(2));
    let has = |world: &Experiment<Messages>| {
        [world.flow_uses()[0].delivered_bytes as f64, bytes(world, 2)]
    };
    let before = has(&world);
    world.run_to(BEGINS + Duration::from_secs(2) + lasts);
    let now = has(&world);
    let rates = [0, 1].map(|at| (now[at] - before[at]) * 8e-6 / lasts.as_secs_f64());
    (rates, demoted(&world))
}

#[test]
fn what_all_share_is_followed() {
    for (near_and_far, flow_to_last, last) in
        [(false, false, 1000), (true, false, 1000), (false, true, 50)]
    {
        let links = Links {
            shared: if flow_to_last { 100 } else { 20 },
            last,
            flow_to_last,
            near_and_far,
            ..Links::default()
        };
        for seed in 0..2 {
            let [(demoting, demoted), (waiting, _)] = [SlowPolicy::Demote, SlowPolicy::Wait]
                .map(|slow| beside_a_flow(&links, slow, seed));
            std::eprintln!("{near_and_far}, {flow_to_last}, {seed}: {demoting:.1?}, {waiting:.1?}");
            // A receiver that shares its port with the flow may leave that to it, and get the rest
            // later.
            assert!(demoted == 0 || flow_to_last, "{demoted}");
            assert!(demoting[0] > 0.9 * waiting[0], "{demoting:?}, {waiting:?}");
        }
    }
}
