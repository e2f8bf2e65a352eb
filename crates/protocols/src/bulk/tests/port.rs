//! Goal: a receiver that is served later costs nobody on the way to it anything meanwhile. Seven
//! receivers have links of 1 Gb/s, one has 100 Mb/s, which a TCP-like flow shares. Method: the
//! simulator's fabric, whose routers prune the tree by membership; what the flow delivers while the
//! seven are served, and whether the eighth has everything in the end. Multicasts reach the eighth,
//! or it gets copies, which the sender stops.

use std::format;
use std::time::Duration;

use groupcast_core::Time;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::topology::{Kind, Topology};

use super::fabric::{self, Sent, bulk, link, packets, place};
use crate::bulk::{BulkConfig, Messages, RateControl, inspect};

/// Host 0 sends; the slow one is the last receiver, then come the two ends of the flow.
const RECEIVERS: usize = 8;
const SLOW: usize = RECEIVERS;
const FLOW: [usize; 2] = [RECEIVERS + 1, RECEIVERS + 2];
const LENGTH: u32 = 60_000_000;

fn world(rate: RateControl, has_multicast: bool) -> Experiment<Messages> {
    let mut topology = Topology::new();
    let [near, far] = [Kind::Plain; 2].map(|kind| topology.add(kind));
    topology.connect(near, far, link(100, 20, 256 << 10));
    for host in 0..RECEIVERS + 3 {
        let is_far = host == SLOW || host == FLOW[1];
        let router = if is_far { far } else { near };
        place(&mut topology, router, link(1000, 20, 512 << 10));
    }
    let mut config = ExperimentConfig::new(topology, inspect, 7);
    config.without_multicast = FLOW.into();
    if has_multicast {
        config.acquainted = RECEIVERS;
    } else {
        config.without_multicast.insert(SLOW);
        config.invites = true;
    }
    let bulk = BulkConfig {
        rate,
        slow_after: Duration::from_millis(50),
        ..BulkConfig::lan()
    };
    let sent = Sent {
        receivers: RECEIVERS,
        length: LENGTH,
        begins: Time::from_millis(200),
        flow: Some(FLOW),
    };
    fabric::world(config, bulk, &sent)
}

fn has_all(world: &Experiment<Messages>, host: usize) -> bool {
    packets(world, host) >= LENGTH as u64 / BulkConfig::lan().packet as u64
}

/// Runs until `done`, in steps; when.
fn until(world: &mut Experiment<Messages>, done: impl Fn(&Experiment<Messages>) -> bool) -> Time {
    let end = world.now() + Duration::from_secs(60);
    while !done(world) {
        assert!(world.now() < end, "not within a minute");
        let next = world.now() + Duration::from_millis(5);
        world.run_to(next);
    }
    world.now()
}

#[test]
fn a_receiver_that_waits_for_its_pass_leaves_its_port_to_others() {
    let fixed = RateControl::Fixed {
        bytes_per_second: 75_000_000,
    };
    for (rate, has_multicast) in [(fixed, true), (RateControl::ALL, true), (fixed, false)] {
        let mut world = world(rate, has_multicast);
        let delivered = |world: &Experiment<Messages>| world.flow_uses()[0].delivered_bytes;
        until(&mut world, |world| bulk(world, 0).counters().stood_by > 0);
        // What fills the queue has to leave, and the flow to find out.
        let from = world.now() + Duration::from_millis(250);
        world.run_to(from);
        let before = delivered(&world);
        assert!(!has_all(&world, 1), "there is something to look at");
        let to = until(&mut world, |world| {
            (1..SLOW).all(|host| has_all(world, host))
        });
        let megabits = (delivered(&world) - before) as f64 * 8e-6 / (to - from).as_secs_f64();
        let which = format!("{rate:?}, {has_multicast}");
        assert!(megabits > 60.0, "{which}: the flow has {megabits} Mb/s");
        assert!(!has_all(&world, SLOW));
        let last = until(&mut world, |world| has_all(world, SLOW));
        std::eprintln!("{which}: {megabits:.1} Mb/s, seven at {to:?}, the last at {last:?}");
        assert_eq!(world.violations(), []);
    }
}
