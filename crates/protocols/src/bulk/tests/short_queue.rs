//! Goal: TCP keeps its share of a link whose queue is too short to show in a round trip, and a
//! transfer keeps its own. A queue of 8 KiB holds five packets, which wait for 0.6 ms at 100 Mb/s.
//! Method: the simulator's fabric, with a TCP-like flow through the same link; other delays and
//! queues with each seed.

use std::time::Duration;

use groupcast_core::Time;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::link::{LinkSpec, Loss};
use groupcast_sim::topology::{Kind, Topology};

use super::fabric::{self, Sent, bytes, link, place};
use crate::bulk::{BulkConfig, Messages, RateControl, inspect};

const LENGTH: u32 = 60_000_000;
/// What is looked at, from when on.
const FROM: Time = Time::from_millis(2000);
const LASTS: Duration = Duration::from_secs(3);

/// Host 0 sends to `receivers` behind the shared link, each with a link of its own.
fn world(
    receivers: usize,
    shared: LinkSpec,
    own: LinkSpec,
    has_flow: bool,
) -> Experiment<Messages> {
    let flow = [receivers + 1, receivers + 2];
    let mut topology = Topology::new();
    let [near, far] = [Kind::Plain; 2].map(|kind| topology.add(kind));
    topology.connect(near, far, shared);
    for host in 0..=flow[1] {
        let fast = link(1000, 20, 4 << 20);
        match host {
            0 => place(&mut topology, near, fast),
            _ if host == flow[0] => place(&mut topology, near, fast),
            _ if host == flow[1] => place(&mut topology, far, fast),
            _ => place(&mut topology, far, own),
        }
    }
    let mut config = ExperimentConfig::new(topology, inspect, 7);
    config.without_multicast = flow.into();
    config.acquainted = receivers;
    let bulk = BulkConfig {
        rate: RateControl::FAIR,
        ..BulkConfig::lan()
    };
    let sent = Sent {
        receivers,
        length: LENGTH,
        begins: Time::from_millis(100),
        flow: has_flow.then_some(flow),
    };
    fabric::world(config, bulk, &sent)
}

/// The megabits a second of the flow, and of the receiver that has least.
fn run(mut world: Experiment<Messages>, receivers: usize) -> (f64, f64) {
    let look = |world: &Experiment<Messages>| {
        let flow: u64 = world.flow_uses().iter().map(|it| it.delivered_bytes).sum();
        let least = (1..=receivers).map(|host| bytes(world, host));
        (flow as f64, least.fold(f64::MAX, f64::min))
    };
    world.run_to(FROM);
    let before = look(&world);
    world.run_to(FROM + LASTS);
    let after = look(&world);
    let megabits = |bytes: f64| bytes * 8e-6 / LASTS.as_secs_f64();
    (megabits(after.0 - before.0), megabits(after.1 - before.1))
}

#[test]
fn tcp_has_its_share_of_a_queue_too_short_to_show() {
    for seed in 0..4 {
        for receivers in [1, 4] {
            let shared = link(100, 50 + 30 * seed, 8_000 + 1_000 * seed);
            let world = world(receivers, shared, link(1000, 20, 4 << 20), true);
            let (flow, least) = run(world, receivers);
            let which = std::format!("{receivers}, {seed}: {flow:.1} beside {least:.1} Mb/s");
            std::eprintln!("{which}");
            // Two flows have 38 Mb/s each.
            assert!(flow > 19.0, "{which}");
            assert!(least > 9.5, "{which}");
        }
    }
}

/// What a link loses by itself, and what bursts of the own packets wait for each other, is no
/// queue.
#[test]
fn what_is_lost_by_chance_is_lost_to_no_queue() {
    for loss in [0.01, 0.05] {
        let lossy = link(1000, 20, 4 << 20).with_loss(Loss::Rate(loss));
        let (_, least) = run(world(2, link(100, 50, 1 << 20), lossy, false), 2);
        std::eprintln!("{loss}: {least:.1} Mb/s");
        assert!(least > 80.0 * (1.0 - loss), "{least} Mb/s at {loss}");
    }
}
