//! A cell as a world of the simulator, and what each of its parties gets.
//!
//! ```text
//!          sender ─┐                     ┌─ receivers behind the shared link
//!          rivals ─┤ near ══ shared ══ far
//! other receivers ─┘                     └─ where rivals send to
//! ```
//!
//! All links but the shared one are ten times as fast.

use std::collections::BTreeSet;
use std::time::Duration;

use groupcast_core::node::Channel;
use groupcast_core::trace::{Inspected, Role};
use groupcast_core::{Service, Time};
use groupcast_protocols::bulk::{BulkConfig, RateControl};
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::flow::{Congestion, FlowConfig};
use groupcast_sim::host::config::{BufferLimit, Cost, Effect, Perturbation};
use groupcast_sim::link::queue::QueueLimit;
use groupcast_sim::link::{LinkSpec, Loss};
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::{Kind, Topology};
use groupcast_sim::{ClockRate, HostConfig};

use super::cell::{Cell, Rivals};
use super::stream::Stream;

/// Who is there in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Party {
    /// The transfer at this rate, and the rivals.
    Transfer(RateControl),
    /// The rivals and a flow like them, where the transfer would be.
    OneMore,
}

/// Megabits a second of what is carried.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Got {
    /// The rivals, all together.
    pub(crate) rivals: f64,
    /// The transfer at its slowest receiver that loses nothing; or the flow in its place.
    pub(crate) transfer: f64,
    /// The most that waited for the shared link, in milliseconds.
    pub(crate) queue: f64,
}

/// Hosts by number: the sender, the receivers, then where rivals begin and where they end.
struct Places {
    receivers: usize,
}

impl Places {
    const SENDER: usize = 0;
    const FLOWS: usize = 3;

    fn receiver(&self, index: usize) -> usize {
        1 + index
    }

    fn rival(&self, index: usize) -> [usize; 2] {
        let first = 1 + self.receivers + 2 * index;
        [first, first + 1]
    }

    fn count(&self) -> usize {
        1 + self.receivers + 2 * Self::FLOWS
    }
}

/// Runs a cell with `party`.
pub(crate) fn run(cell: &Cell, party: Party, seed: u64) -> Got {
    let places = Places {
        receivers: cell.receivers,
    };
    let (topology, shared) = topology(cell, &places);
    let second = places.rival(0);
    let is_pair = cell.rivals == Rivals::Transfer;
    let runs = matches!(party, Party::Transfer(_));
    let rate = match party {
        Party::Transfer(rate) => rate,
        Party::OneMore => RateControl::Window,
    };
    let mut hosts: BTreeSet<usize> = match runs {
        true => (0..=cell.receivers).collect(),
        false => BTreeSet::new(),
    };
    let inspect = |_, _: &[u8], _: &mut dyn FnMut(&[u8])| Inspected {
        kind: "any",
        role: Role::Data,
    };
    let mut config = ExperimentConfig::new(topology, inspect, seed);
    config.acquainted = places.count();
    config.hosts = host(cell, false);
    for index in 0..cell.receivers {
        let receiver = host(cell, true);
        config.overrides.insert(places.receiver(index), receiver);
    }
    if is_pair {
        // A group of its own.
        hosts.extend(second);
        config.addresses.extend(second.map(|host| (host, 1)));
    }
    let all = 0..places.count();
    config.without_multicast = all.filter(|host| !hosts.contains(host)).collect();
    let (receivers, pair_from) = (cell.receivers, second[0] as u64 + 1);
    let mut experiment = Experiment::new(config, move |local, rng, _| {
        let receivers = if local.node.0 == pair_from {
            1
        } else {
            receivers
        };
        Stream::new(local, rate, receivers, rng)
    });
    if cell.clocks_off {
        experiment.set_clock_rate(Places::SENDER, ClockRate::off_by_ppm(100));
        for index in (1..cell.receivers).step_by(2) {
            experiment.set_clock_rate(places.receiver(index), ClockRate::off_by_ppm(-100));
        }
    }
    let end = cell.duration();
    let [comes, goes] = match cell.they_go {
        true => [end / 4, end * 3 / 4],
        false => [Duration::ZERO, end],
    };
    let flow = |places: [usize; 2], kind, [start, stop]: [Duration; 2]| FlowConfig {
        start: Time::ZERO + start,
        stop: Time::ZERO + stop,
        ..FlowConfig::new(places, kind)
    };
    let mut flows = 0;
    if let Rivals::Flows(kind, count) = cell.rivals {
        for index in 0..count {
            // Not in step.
            let late = Duration::from_millis(37 * index as u64);
            experiment.add_flow(flow(places.rival(index), kind, [comes + late, goes]));
        }
        flows = count;
    }
    if let Party::OneMore = party {
        let kind = match cell.rivals {
            Rivals::Flows(kind, _) => kind,
            _ => Congestion::Cubic,
        };
        experiment.add_flow(flow(
            places.rival(2),
            kind,
            [Duration::from_millis(11), end],
        ));
    }
    experiment.start_together(hosts.iter().copied());
    let begin = Duration::from_millis(100);
    for sender in [Places::SENDER, second[0]] {
        if hosts.contains(&sender) {
            let source = SourceConfig {
                start: Time::ZERO + begin,
                ..SourceConfig::new(
                    Arrivals::Trace([(Duration::ZERO, 1)].into()),
                    1,
                    Service::Reliable,
                )
            };
            let placed = experiment.add_source(sender, source);
            placed.expect("a trace of one message is in order");
        }
    }
    // What happens while it finds its place counts half.
    let from = comes + (goes - comes) / 8;
    let look = |experiment: &Experiment<Stream>| {
        let uses = experiment.flow_uses();
        let flows: Vec<u64> = uses.iter().map(|it| it.delivered_bytes).collect();
        let packets = |host: usize| {
            let node = experiment.node(host);
            let stream = node.and_then(|node| node.instance(Channel::SOLE));
            stream.map_or(0, Stream::received)
        };
        let each: Vec<u64> = (0..cell.receivers)
            .map(|index| packets(places.receiver(index)))
            .collect();
        (flows, each, packets(second[1]))
    };
    experiment.run_to(Time::ZERO + from);
    let before = look(&experiment);
    experiment.run_to(Time::ZERO + goes);
    let after = look(&experiment);
    let seconds = (goes - from).as_secs_f64();
    let megabits = |bytes: u64| bytes as f64 * 8e-6 / seconds;
    let packet = BulkConfig::lan().packet as u64;
    let grown: Vec<u64> = after.0.iter().zip(&before.0).map(|(a, b)| a - b).collect();
    let each = after.1.iter().zip(&before.1).map(|(a, b)| (a - b) * packet);
    let clean = each
        .enumerate()
        .filter(|(index, _)| !cell.loses(*index) || cell.receivers == 1);
    let slowest = clean.map(|(_, bytes)| bytes).min().unwrap_or(0);
    let mut got = Got {
        rivals: megabits(grown[..flows].iter().sum()),
        transfer: megabits(slowest),
        queue: 0.0,
    };
    if is_pair {
        got.rivals = megabits((after.2 - before.2) * packet);
    }
    if let Party::OneMore = party {
        got.transfer = megabits(grown[flows]);
    }
    let uses: Vec<_> = experiment.fabric().uses().collect();
    let queued = uses[shared].queue_max_bytes;
    got.queue = queued as f64 * 8e3 / cell.bandwidth() as f64;
    got
}

/// The network, and which way is the shared one.
fn topology(cell: &Cell, places: &Places) -> (Topology, usize) {
    let mut topology = Topology::new();
    let [near, far] = [Kind::Plain; 2].map(|kind| topology.add(kind));
    let fast = LinkSpec::ethernet(cell.bandwidth() * 10, Duration::from_micros(20))
        .with_queue(QueueLimit::bytes(4 << 20));
    let shared = LinkSpec::ethernet(cell.bandwidth(), Duration::from_micros(50))
        .with_queue(QueueLimit::bytes(cell.buffer_kib << 10));
    let edge = topology.connect(near, far, shared);
    let mut place = |router, link| {
        let host = topology.add(Kind::Plain);
        topology.connect(host, router, link);
        topology.place_host(host);
    };
    place(near, fast);
    for index in 0..cell.receivers {
        let router = if index == 0 || cell.all_behind {
            far
        } else {
            near
        };
        let loss = if cell.loses(index) {
            Loss::Rate(0.01)
        } else {
            Loss::None
        };
        place(router, fast.with_loss(loss));
    }
    for _ in 0..Places::FLOWS {
        place(near, fast);
        place(far, fast);
    }
    debug_assert_eq!(topology.hosts().len(), places.count());
    (topology, edge.ways()[0].index())
}

/// A host whose processor costs something; a busy one has little to spare.
fn host(cell: &Cell, receives: bool) -> HostConfig {
    let usual = HostConfig {
        receive: Cost::nanos(1_000, 300, 300),
        send: Cost::nanos(1_000, 300, 300),
        send_batch: 16,
        receive_batch: 16,
        data_buffer: BufferLimit {
            overhead: 832,
            ..BufferLimit::bytes(4 << 20)
        },
        effect: Effect::End,
        ..HostConfig::default()
    };
    if !cell.busy || !receives {
        return usual;
    }
    // Nanoseconds of a full frame on the shared link: 1,538 bytes.
    let frame = 1_538 * 8 * 1_000 / cell.link;
    HostConfig {
        receive: Cost::nanos(1_000, frame * 4 / 5, 0),
        perturbation: Some(Perturbation {
            probability: 0.05,
            interval: Duration::from_millis(4),
        }),
        ..usual
    }
}
