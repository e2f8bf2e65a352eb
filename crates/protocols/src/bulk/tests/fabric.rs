//! The world of tests on the simulator's fabric: host 0 sends one message to the hosts behind it,
//! perhaps beside a TCP-like flow.

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
use groupcast_sim::topology::{Kind, Topology, Vertex};

use crate::bulk::{Bulk, BulkConfig, Messages, MessagesConfig, Wanted};

/// What is sent.
pub(super) struct Sent {
    /// How many hosts get it.
    pub(super) receivers: usize,
    /// How many bytes it has.
    pub(super) length: u32,
    /// When it is submitted.
    pub(super) begins: Time,
    /// The ends of the flow, hosts behind the receivers.
    pub(super) flow: Option<[usize; 2]>,
}

/// A link of this many megabits a second, with a queue of this many bytes.
pub(super) fn link(megabits: u64, micros: u64, queue: u64) -> LinkSpec {
    LinkSpec::ethernet(megabits * 1_000_000, Duration::from_micros(micros))
        .with_queue(QueueLimit::bytes(queue))
}

/// The next host is at the end of a link to `router`.
pub(super) fn place(topology: &mut Topology, router: Vertex, link: LinkSpec) {
    let place = topology.add(Kind::Plain);
    topology.connect(place, router, link);
    topology.place_host(place);
}

/// The hosts of `config`, with settings of their own for the transfer.
pub(super) fn world(
    mut config: ExperimentConfig,
    bulk: BulkConfig,
    sent: &Sent,
) -> Experiment<Messages> {
    config.hosts = HostConfig {
        data_buffer: BufferLimit::bytes(4 << 20),
        ..HostConfig::default()
    };
    let settings = MessagesConfig {
        bulk,
        receivers: Wanted::Count(sent.receivers),
        ..MessagesConfig::default()
    };
    let mut world = Experiment::new(config, move |member, rng, _| {
        Messages::new(member, settings.clone(), rng).expect("the settings fit each other")
    });
    if let Some(ends) = sent.flow {
        world.add_flow(FlowConfig::new(ends, Congestion::Cubic));
    }
    world.start_together(0..=sent.receivers);
    let one = Arrivals::Trace([(Duration::ZERO, sent.length)].into());
    let source = SourceConfig {
        start: sent.begins,
        ..SourceConfig::new(one, sent.length, Service::Fifo)
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

/// Bytes of the stream that `host` has.
pub(super) fn bytes(world: &Experiment<Messages>, host: usize) -> f64 {
    packets(world, host) as f64 * BulkConfig::lan().packet as f64
}
