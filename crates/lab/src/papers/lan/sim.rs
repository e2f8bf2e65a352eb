//! A point on the simulator: 31 machines on two switches, with what 001's machines cost.
//!
//! Costs are those of the host model's preset, of which 001 confirms none, times what lets 29 more
//! receivers take the 4 ms that Fig. 8 prints ([`Open`](super::point::Open)); that and what else
//! the paper does not print is swept.

use std::ops::Range;
use std::time::Duration;

use groupcast_core::trace::Inspect;
use groupcast_core::{Incarnation, Instrumented, MemberId, NodeId, Rng, Service, Time};
use groupcast_protocols::bulk::{self, BulkConfig, Messages, MessagesConfig, Wanted};
use groupcast_sim::HostConfig;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::host::config::Cost;
use groupcast_sim::link::{BusSpec, LinkSpec, QueueLimit};
use groupcast_sim::measure::{HostMeasures, Measures, MeterConfig};
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::{Kind, Topology};

use super::super::{Context, RunError, Table};
use super::compare::{self, Tcp, Udp};
use super::point::{Duplex, LanPoint, RECEIVERS, System};
use super::points::{self, Measured};

/// Bits a second of every link (001 section 5).
const BANDWIDTH: u64 = 100_000_000;
/// Cable, card and switch.
const DELAY: Duration = Duration::from_micros(5);
/// What a switch keeps for all its ports.
const SWITCH: u64 = 512 << 10;
/// Machines on the first switch, the sender among them (001 Fig. 7).
const FIRST_SWITCH: u32 = 16;
/// When a first message has gone to all, so that everybody knows everybody: what comes later is
/// measured.
const BEGIN: Duration = Duration::from_secs(2);
/// Messages of a run, each after the one before has long ended.
const MESSAGES: u32 = 3;
/// From one to the next. A transfer that takes longer never ended.
const APART: Duration = Duration::from_secs(8);

/// Measures every point of `plan` with every seed.
pub(super) fn run(
    context: &Context<'_>,
    name: &str,
    plan: &[LanPoint],
    seeds: Range<u64>,
) -> Result<Table, RunError> {
    let all: Vec<(LanPoint, u64)> = plan
        .iter()
        .flat_map(|setting| seeds.clone().map(|seed| (*setting, seed)))
        .collect();
    let measured = context.each(&all, |(setting, seed)| measure(setting, *seed))?;
    let mut table = points::table(name);
    for ((setting, seed), measured) in all.iter().zip(&measured) {
        points::push(&mut table, &setting.key(), *seed, measured);
    }
    Ok(table)
}

fn measure(setting: &LanPoint, seed: u64) -> Result<Measured, RunError> {
    let packet = setting.packet as usize;
    let Some(policy) = setting.system.policy() else {
        return match setting.system {
            System::Tcp => simulate(setting, seed, compare::inspect, Tcp::new),
            _ => simulate(setting, seed, compare::inspect, move |local, rng, now| {
                Udp::new(local, packet, rng, now)
            }),
        };
    };
    let settings = MessagesConfig {
        bulk: BulkConfig {
            // The announcement says how long the message is, and who registers has room for it:
            // that is the paper's exchange before the data, and there is no other.
            reserve: false,
            ..BulkConfig::paper(policy, packet, setting.window)
        },
        receivers: Wanted::Count(setting.receivers as usize),
        ..MessagesConfig::default()
    };
    // The paper's protocols refuse some parameters, and one of its figures is about that.
    let nobody = MemberId {
        node: NodeId(0),
        incarnation: Incarnation(0),
    };
    if Messages::new(nobody, settings.clone(), Rng::new(seed)).is_err() {
        return Ok(Measured::NONE);
    }
    simulate(setting, seed, bulk::inspect, move |local, rng, _| {
        Messages::new(local, settings.clone(), rng).expect("the settings were tried above")
    })
}

fn simulate<P: Instrumented>(
    setting: &LanPoint,
    seed: u64,
    inspect: Inspect,
    factory: impl Fn(MemberId, Rng, Time) -> P + Send + Sync + 'static,
) -> Result<Measured, RunError> {
    let mut config = ExperimentConfig::new(topology(setting), inspect, seed);
    config.hosts = host(setting);
    config.overrides.insert(0, sender(setting));
    config.measure = MeterConfig {
        warm_up: BEGIN,
        ..MeterConfig::default()
    };
    let mut experiment = Experiment::new(config, factory);
    experiment.start_all();
    let failed = |error: &dyn std::fmt::Display| RunError::Failed(error.to_string());
    for source in sources(setting) {
        experiment
            .add_source(0, source)
            .map_err(|error| failed(&error))?;
    }
    experiment.run_to(Time::ZERO + BEGIN + APART * MESSAGES);
    let measures = experiment.finish().map_err(|error| failed(&error))?;
    Ok(read(&measures))
}

/// A short message for acquaintance, then those that are measured.
fn sources(setting: &LanPoint) -> [SourceConfig; 2] {
    let at = |start: Duration, times: u32, size: u64| SourceConfig {
        start: Time::ZERO + start,
        ..SourceConfig::new(
            Arrivals::Trace((0..times).map(|turn| (APART * turn, size as u32)).collect()),
            0,
            Service::Reliable,
        )
    };
    [
        at(Duration::from_millis(600), 1, 1),
        at(BEGIN, MESSAGES, setting.size),
    ]
}

fn topology(setting: &LanPoint) -> Topology {
    let mut topology = Topology::new();
    let switches = [(); 2].map(|()| topology.add(Kind::Switch { buffer: SWITCH }));
    let port = LinkSpec::ethernet(BANDWIDTH, DELAY);
    let socket = port.with_queue(QueueLimit::bytes(setting.open.send_buffer << 10));
    topology.connect(switches[0], switches[1], port);
    for machine in 0..=setting.receivers {
        // Half of fewer receivers are on the second switch, too.
        let first = machine * (RECEIVERS + 1) < FIRST_SWITCH * (setting.receivers + 1);
        let switch = switches[usize::from(!first)];
        let host = topology.add(Kind::Plain);
        match setting.open.duplex {
            Duplex::Full => {
                topology.connect_ways(host, switch, [socket, port]);
            }
            Duplex::Half => {
                let cable = topology.add(Kind::Bus(cable()));
                let tap = LinkSpec::ideal(0, Duration::ZERO);
                topology.connect(host, cable, tap);
                topology.connect(cable, switch, tap);
            }
        }
        topology.place_host(host);
    }
    topology
}

/// A cable of two stations, after IEEE 802.3u. What waits at either is not bounded: on a shared
/// cable the simulator's processes do not wait for room in their send buffers.
fn cable() -> BusSpec {
    BusSpec {
        bandwidth: BANDWIDTH,
        propagation: Duration::from_nanos(500),
        slot: Duration::from_nanos(5_120),
        gap: Duration::from_nanos(960),
        queue: QueueLimit::NONE,
        ..BusSpec::default()
    }
}

/// A receiver.
fn host(setting: &LanPoint) -> HostConfig {
    let preset = HostConfig::pentium_650();
    let scale = |time: Duration| time * setting.open.costs as u32 / 100;
    let price = |cost: Cost| Cost {
        call: match setting.system {
            // Segments and acknowledgements are the kernel's, which makes no calls.
            System::Tcp => Duration::ZERO,
            _ => scale(cost.call),
        },
        packet: scale(cost.packet),
        kibibyte: scale(cost.kibibyte),
    };
    HostConfig {
        receive: price(preset.receive),
        send: price(preset.send),
        wait: scale(preset.wait),
        wake_up: scale(preset.wake_up),
        ..preset
    }
}

/// The sender: before it sends a packet it copies it out of the user's memory, if it is one of
/// 001's protocols.
fn sender(setting: &LanPoint) -> HostConfig {
    let host = host(setting);
    let copy = match setting.system {
        System::Udp | System::Tcp => Duration::ZERO,
        _ => Duration::from_nanos(setting.open.copy * 1_024),
    };
    HostConfig {
        send: Cost {
            kibibyte: host.send.kibibyte + copy,
            ..host.send
        },
        ..host
    }
}

fn read(measures: &Measures) -> Measured {
    let sender = &measures.hosts[0];
    let each = |count: u64| count as f64 / f64::from(MESSAGES);
    let whole = sender.delivered == u64::from(MESSAGES);
    let receivers = &measures.hosts[1..];
    let got = receivers
        .iter()
        .all(|host| host.delivered == u64::from(MESSAGES));
    let time = sender.latency.mean().filter(|_| whole && got);
    let time = time.unwrap_or(f64::NAN) * 1_000.0;
    Measured {
        time,
        packets: each(sent(sender, "data")),
        sent: each(receivers.iter().map(|host| sent(host, "report")).sum()),
        arrived: each(received(sender, "report")),
        repairs: each(sender.traffic.repairs.sent),
        buffered: counter(sender, "unacknowledged_max"),
        processor: sender.usage.cpu_busy.as_secs_f64() * 1_000.0 / f64::from(MESSAGES) / time,
    }
}

fn sent(host: &HostMeasures, kind: &str) -> u64 {
    let kinds = host.kinds.iter().filter(|count| count.kind == kind);
    kinds.map(|count| count.packets.sent).sum()
}

fn received(host: &HostMeasures, kind: &str) -> u64 {
    let kinds = host.kinds.iter().filter(|count| count.kind == kind);
    kinds.map(|count| count.packets.received).sum()
}

fn counter(host: &HostMeasures, name: &str) -> f64 {
    let mut counters = host.usage.counters.iter();
    let found = counters.find(|(counter, _)| *counter == name);
    found.map_or(f64::NAN, |(_, value)| *value as f64)
}
