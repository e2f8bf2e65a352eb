//! Goal: a transfer with copies for hosts without multicast shares its sender's link with TCP as
//! one without copies does. Four receivers are behind a link of 100 Mb/s, by which everything
//! leaves the sender's site, a TCP-like flow, too. Method: the simulator's fabric; what the flow
//! delivers while the transfer runs, where nobody gets copies and where two of the four do.

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

use crate::bulk::{BulkConfig, Messages, MessagesConfig, RateControl, Wanted, inspect};

/// Host 0 sends; after the receivers come the two ends of the flow.
const RECEIVERS: usize = 4;
const FLOW: [usize; 2] = [RECEIVERS + 1, RECEIVERS + 2];
/// Long enough to last.
const LENGTH: u32 = 60_000_000;

fn world(without: &[usize]) -> Experiment<Messages> {
    let mut topology = Topology::new();
    let [near, far] = [Kind::Plain; 2].map(|kind| topology.add(kind));
    let gigabit = LinkSpec::ethernet(1_000_000_000, Duration::from_micros(20))
        .with_queue(QueueLimit::bytes(512 << 10));
    let shared = LinkSpec::ethernet(100_000_000, Duration::from_millis(2))
        .with_queue(QueueLimit::bytes(256 << 10));
    topology.connect(near, far, shared);
    for host in 0..RECEIVERS + 3 {
        let place = topology.add(Kind::Plain);
        let router = match host {
            0 => near,
            _ if host == FLOW[0] => near,
            _ => far,
        };
        topology.connect(place, router, gigabit);
        topology.place_host(place);
    }
    let mut config = ExperimentConfig::new(topology, inspect, 7);
    config.without_multicast = FLOW.into();
    config.without_multicast.extend(without);
    config.invites = true;
    config.hosts = HostConfig {
        data_buffer: BufferLimit::bytes(4 << 20),
        ..HostConfig::default()
    };
    let settings = MessagesConfig {
        bulk: BulkConfig {
            rate: RateControl::FAIR,
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

/// Bytes that the flow has delivered, and packets that receiver 4 has of the transfer.
fn got(world: &Experiment<Messages>) -> (u64, u64) {
    let node = world.node(RECEIVERS).expect("it runs");
    let messages = node.instance(Channel::SOLE).expect("it has one");
    let packets = messages.bulk().counters().packets_received;
    (world.flow_uses()[0].delivered_bytes, packets)
}

/// Megabits a second of the flow, and of the transfer as it leaves the sender's site, where these
/// receivers get copies.
fn shares(without: &[usize]) -> (f64, f64) {
    let mut world = world(without);
    world.run_to(Time::from_millis(3_000));
    let before = got(&world);
    world.run_to(Time::from_millis(9_000));
    let after = got(&world);
    assert_eq!(world.violations(), []);
    let megabits = |bytes: u64| bytes as f64 * 8e-6 / 6.0;
    let flow = megabits(after.0 - before.0);
    let stream = megabits((after.1 - before.1) * BulkConfig::lan().packet as u64);
    let leaves = stream * (without.len() as f64 + 1.0);
    let copies = without.len();
    std::eprintln!(
        "{copies} copies: the flow {flow:.1}, the transfer {stream:.1}, leaving {leaves:.1} Mb/s"
    );
    (flow, leaves)
}

#[test]
fn copies_take_nothing_from_tcp_on_the_link_that_carries_them() {
    let (flow_alone, leaves_alone) = shares(&[]);
    let (flow, leaves) = shares(&[3, 4]);
    assert!(flow > 0.9 * flow_alone, "{flow} of {flow_alone} Mb/s");
    assert!(leaves > 0.5 * leaves_alone, "{leaves} of {leaves_alone}");
}
