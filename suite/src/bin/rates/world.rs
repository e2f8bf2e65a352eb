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
    let mut world = World::new(cell, party, seed);
    world.add_flows();
    world.begin_transfers();
    world.measure()
}

/// A cell in which a run goes on.
struct World<'a> {
    cell: &'a Cell,
    party: Party,
    places: Places,
    experiment: Experiment<Stream>,
    /// The index of the way that is the shared link.
    shared: usize,
    /// Rivals that are flows.
    flows: usize,
}

/// What had arrived at a moment.
struct Arrived {
    /// Bytes of each flow.
    flows: Vec<u64>,
    /// Packets of the transfer, by receiver.
    transfer: Vec<u64>,
    /// Packets of the transfer beside it.
    pair: u64,
}

impl<'a> World<'a> {
    fn new(cell: &'a Cell, party: Party, seed: u64) -> Self {
        let places = Places {
            receivers: cell.receivers,
        };
        let (topology, shared) = topology(cell, &places);
        let rate = match party {
            Party::Transfer(rate) => rate,
            Party::OneMore => RateControl::Window,
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
        let pair = places.rival(0);
        if cell.rivals == Rivals::Transfer {
            // A group of its own.
            config.addresses.extend(pair.map(|host| (host, 1)));
        }
        let streams = streams(cell, party, &places);
        let all = 0..places.count();
        config.without_multicast = all.filter(|host| !streams.contains(host)).collect();
        let (receivers, pair_from) = (cell.receivers, pair[0] as u64 + 1);
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
        Self {
            cell,
            party,
            places,
            experiment,
            shared,
            flows: 0,
        }
    }

    /// When rivals come and go, from the beginning of the run.
    fn rivals_are_there(&self) -> [Duration; 2] {
        let end = self.cell.duration();
        match self.cell.they_go {
            true => [end / 4, end * 3 / 4],
            false => [Duration::ZERO, end],
        }
    }

    /// The rivals, and what is in the place of the transfer.
    fn add_flows(&mut self) {
        let flow = |places: [usize; 2], kind, [start, stop]: [Duration; 2]| FlowConfig {
            start: Time::ZERO + start,
            stop: Time::ZERO + stop,
            ..FlowConfig::new(places, kind)
        };
        let [come, go] = self.rivals_are_there();
        let mut kind_of_one_more = Congestion::Cubic;
        if let Rivals::Flows(kind, count) = self.cell.rivals {
            for index in 0..count {
                // Not in step.
                let late = Duration::from_millis(37 * index as u64);
                let places = self.places.rival(index);
                self.experiment
                    .add_flow(flow(places, kind, [come + late, go]));
            }
            self.flows = count;
            kind_of_one_more = kind;
        }
        if let Party::OneMore = self.party {
            let times = [Duration::from_millis(11), self.cell.duration()];
            let places = self.places.rival(2);
            self.experiment
                .add_flow(flow(places, kind_of_one_more, times));
        }
    }

    /// Starts the hosts that send and receive transfers, and has their senders begin.
    fn begin_transfers(&mut self) {
        let hosts = streams(self.cell, self.party, &self.places);
        self.experiment.start_together(hosts.iter().copied());
        for sender in [Places::SENDER, self.places.rival(0)[0]] {
            if !hosts.contains(&sender) {
                continue;
            }
            let once = Arrivals::Trace([(Duration::ZERO, 1)].into());
            let source = SourceConfig {
                start: Time::ZERO + Duration::from_millis(100),
                ..SourceConfig::new(once, 1, Service::Reliable)
            };
            let placed = self.experiment.add_source(sender, source);
            placed.expect("a trace of one message is in order");
        }
    }

    /// Runs to the end, and counts while rivals are there.
    fn measure(mut self) -> Got {
        let [come, go] = self.rivals_are_there();
        // What happens while it finds its place does not count.
        let from = come + (go - come) / 8;
        self.experiment.run_to(Time::ZERO + from);
        let before = self.arrived();
        self.experiment.run_to(Time::ZERO + go);
        let after = self.arrived();
        let seconds = (go - from).as_secs_f64();
        let megabits = |bytes: u64| bytes as f64 * 8e-6 / seconds;
        let packet = BulkConfig::lan().packet as u64;
        let grown = after.flows.iter().zip(&before.flows);
        let grown: Vec<u64> = grown.map(|(after, before)| after - before).collect();
        let each = after.transfer.iter().zip(&before.transfer);
        let each = each.map(|(after, before)| (after - before) * packet);
        let cell = self.cell;
        let clean = each
            .enumerate()
            .filter(|(index, _)| !cell.loses(*index) || cell.receivers == 1);
        let slowest = clean.map(|(_, bytes)| bytes).min().unwrap_or(0);
        let rivals = match cell.rivals {
            Rivals::Transfer => (after.pair - before.pair) * packet,
            _ => grown[..self.flows].iter().sum(),
        };
        let transfer = match self.party {
            Party::Transfer(_) => slowest,
            Party::OneMore => grown[self.flows],
        };
        let uses: Vec<_> = self.experiment.fabric().uses().collect();
        let queued = uses[self.shared].queue_max_bytes;
        Got {
            rivals: megabits(rivals),
            transfer: megabits(transfer),
            queue: queued as f64 * 8e3 / cell.bandwidth() as f64,
        }
    }

    fn arrived(&self) -> Arrived {
        let uses = self.experiment.flow_uses();
        let packets = |host: usize| {
            let node = self.experiment.node(host);
            let stream = node.and_then(|node| node.instance(Channel::SOLE));
            stream.map_or(0, Stream::received)
        };
        let receivers = 0..self.cell.receivers;
        Arrived {
            flows: uses.iter().map(|it| it.delivered_bytes).collect(),
            transfer: receivers
                .map(|index| packets(self.places.receiver(index)))
                .collect(),
            pair: packets(self.places.rival(0)[1]),
        }
    }
}

/// The hosts that send and receive transfers.
fn streams(cell: &Cell, party: Party, places: &Places) -> BTreeSet<usize> {
    let mut hosts = BTreeSet::new();
    if let Party::Transfer(_) = party {
        hosts.extend(0..=cell.receivers);
    }
    if cell.rivals == Rivals::Transfer {
        hosts.extend(places.rival(0));
    }
    hosts
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
