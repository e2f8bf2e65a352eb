//! Goal: a receiver that is served later costs nobody on the way to it anything meanwhile. Seven
//! receivers have links of 1 Gb/s, one has 100 Mb/s, which a TCP-like flow shares. Method: the
//! simulator's fabric, whose routers prune the tree by membership; what the flow delivers while the
//! seven are served, and whether the eighth has everything in the end. Multicasts reach the eighth,
//! or it gets copies, which the sender stops.

use std::format;
use std::time::Duration;

use groupcast_core::Time;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::flow::{Congestion, FlowConfig};
use groupcast_sim::link::{LinkSpec, Loss};
use groupcast_sim::topology::{Kind, Topology};

use super::fabric::{self, Sent, bulk, link, packets, place};
use crate::bulk::{BulkConfig, Messages, RateControl, inspect};

/// Host 0 sends; the slow one is the last receiver, then come the two ends of the flow.
const RECEIVERS: usize = 8;
const SLOW: usize = RECEIVERS;
const FLOW: [usize; 2] = [RECEIVERS + 1, RECEIVERS + 2];
const LENGTH: u32 = 60_000_000;

/// The fast ones have links of so many megabits a second, and `port` is that of the slow one.
fn world(
    rate: RateControl,
    has_multicast: bool,
    fast: u64,
    port: LinkSpec,
) -> Experiment<Messages> {
    let mut topology = Topology::new();
    let [near, far] = [Kind::Plain; 2].map(|kind| topology.add(kind));
    topology.connect(near, far, port);
    for host in 0..RECEIVERS + 3 {
        let is_far = host == SLOW || host == FLOW[1];
        let router = if is_far { far } else { near };
        let megabits = match host {
            1..SLOW => fast,
            _ => 1000,
        };
        place(&mut topology, router, link(megabits, 20, 512 << 10));
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

fn port() -> LinkSpec {
    link(100, 20, 256 << 10)
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

/// What the flows behind the port have until all but the slow one have everything, in Mb/s, since
/// what filled the queue has left and they have found out, which takes `settling`; until when.
fn flows_have(world: &mut Experiment<Messages>, settling: Duration) -> (f64, Time) {
    let delivered = |world: &Experiment<Messages>| -> u64 {
        world.flow_uses().iter().map(|it| it.delivered_bytes).sum()
    };
    let from = world.now() + settling;
    world.run_to(from);
    let before = delivered(world);
    assert!(!has_all(world, 1), "there is something to look at");
    let to = until(world, |world| (1..SLOW).all(|host| has_all(world, host)));
    let megabits = (delivered(world) - before) as f64 * 8e-6 / (to - from).as_secs_f64();
    (megabits, to)
}

#[test]
fn a_receiver_that_waits_for_its_pass_leaves_its_port_to_others() {
    let fixed = RateControl::Fixed {
        bytes_per_second: 75_000_000,
    };
    for (rate, has_multicast) in [(fixed, true), (RateControl::ALL, true), (fixed, false)] {
        let mut world = world(rate, has_multicast, 1000, port());
        until(&mut world, |world| bulk(world, 0).counters().stood_by > 0);
        let (megabits, to) = flows_have(&mut world, Duration::from_millis(250));
        let which = format!("{rate:?}, {has_multicast}");
        assert!(megabits > 60.0, "{which}: the flow has {megabits} Mb/s");
        assert!(!has_all(&world, SLOW));
        let last = until(&mut world, |world| has_all(world, SLOW));
        std::eprintln!("{which}: {megabits:.1} Mb/s, seven at {to:?}, the last at {last:?}");
        assert_eq!(world.violations(), []);
    }
}

/// Where the others take what the port takes, and not more, the flows behind the port would back
/// off until the one that is left behind loses next to nothing: it would get most by listening, at
/// their cost.
#[test]
fn whose_port_held_the_rate_leaves_it_to_others_though_it_would_lose_little() {
    for (fast, flows) in [(70, 2), (100, 1), (100, 2)] {
        let mut world = world(RateControl::FAIR, true, fast, port());
        // One is there already.
        for _ in 0..flows {
            world.add_flow(FlowConfig::new(FLOW, Congestion::Cubic));
        }
        until(&mut world, |world| bulk(world, 0).counters().demoted > 0);
        let (megabits, to) = flows_have(&mut world, Duration::from_millis(500));
        let which = format!("{fast} Mb/s, {} flows", flows + 1);
        std::eprintln!("{which}: {megabits:.1} Mb/s until {to:?}");
        assert!(megabits > 85.0, "{which}: they have {megabits} Mb/s");
        assert_eq!(world.violations(), []);
    }
}

/// What its path loses by itself costs nobody anything.
#[test]
fn who_is_demoted_for_what_its_path_loses_by_itself_goes_on_listening() {
    let lossy = link(1000, 20, 256 << 10).with_loss(Loss::Rate(0.05));
    let mut world = world(RateControl::FAIR, true, 1000, lossy);
    until(&mut world, |world| {
        (1..=SLOW).all(|host| has_all(world, host))
    });
    let counters = bulk(&world, 0).counters();
    assert_eq!((counters.demoted, counters.stood_by), (1, 0));
}
