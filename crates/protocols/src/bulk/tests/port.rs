//! Goal: a receiver that is served later costs nobody on the way to it anything meanwhile. Seven
//! receivers have links of 1 Gb/s, one has 100 Mb/s, which a TCP-like flow shares. Method: the
//! simulator's fabric, whose routers prune the tree by membership; what the flow delivers while the
//! seven are served, and whether the eighth has everything in the end. Multicasts reach the eighth,
//! or it gets copies, which the sender stops.

use std::format;
use std::time::Duration;

use groupcast_core::node::Channel;
use groupcast_core::{Service, Time};
use groupcast_sim::HostConfig;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::flow::{Congestion, FlowConfig};
use groupcast_sim::host::config::BufferLimit;
use groupcast_sim::link::LinkSpec;
use groupcast_sim::link::queue::QueueLimit;
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::{Kind, Topology};

use crate::bulk::{Bulk, BulkConfig, Messages, MessagesConfig, RateControl, Wanted, inspect};

/// Host 0 sends; the slow one is the last receiver, then come the two ends of the flow.
const RECEIVERS: usize = 8;
const SLOW: usize = RECEIVERS;
const FLOW: [usize; 2] = [RECEIVERS + 1, RECEIVERS + 2];
const LENGTH: u32 = 60_000_000;

fn world(rate: RateControl, has_multicast: bool) -> Experiment<Messages> {
    let mut topology = Topology::new();
    let [near, far] = [Kind::Plain; 2].map(|kind| topology.add(kind));
    let gigabit = LinkSpec::ethernet(1_000_000_000, Duration::from_micros(20))
        .with_queue(QueueLimit::bytes(512 << 10));
    let shared = LinkSpec::ethernet(100_000_000, Duration::from_micros(20))
        .with_queue(QueueLimit::bytes(256 << 10));
    topology.connect(near, far, shared);
    for host in 0..RECEIVERS + 3 {
        let place = topology.add(Kind::Plain);
        let router = match host {
            SLOW => far,
            _ if host == FLOW[1] => far,
            _ => near,
        };
        topology.connect(place, router, gigabit);
        topology.place_host(place);
    }
    let mut config = ExperimentConfig::new(topology, inspect, 7);
    config.without_multicast = FLOW.into();
    if has_multicast {
        config.acquainted = RECEIVERS;
    } else {
        config.without_multicast.insert(SLOW);
        config.invites = true;
    }
    config.hosts = HostConfig {
        data_buffer: BufferLimit::bytes(4 << 20),
        ..HostConfig::default()
    };
    let settings = MessagesConfig {
        bulk: BulkConfig {
            rate,
            slow_after: Duration::from_millis(50),
            ..BulkConfig::lan()
        },
        receivers: Wanted::Count(RECEIVERS),
        ..MessagesConfig::default()
    };
    let mut world = Experiment::new(config, move |member, rng, _| {
        Messages::new(member, settings.clone(), rng).expect("the settings fit each other")
    });
    world.add_flow(FlowConfig::new(FLOW, Congestion::Cubic));
    world.start_together(0..=RECEIVERS);
    let one = Arrivals::Trace([(Duration::ZERO, LENGTH)].into());
    let source = SourceConfig {
        start: Time::from_millis(200),
        ..SourceConfig::new(one, LENGTH, Service::Fifo)
    };
    let placed = world.add_source(0, source);
    placed.expect("a trace of one message is in order");
    world
}

pub(super) fn bulk(world: &Experiment<Messages>, host: usize) -> &Bulk {
    let node = world.node(host).expect("it runs");
    let messages = node.instance(Channel::SOLE).expect("it has one");
    messages.bulk()
}

/// Packets of the stream that `host` has.
pub(super) fn packets(world: &Experiment<Messages>, host: usize) -> u64 {
    let counters = bulk(world, host).counters();
    counters.packets_received + counters.packets_restored - counters.duplicates - counters.refused
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
