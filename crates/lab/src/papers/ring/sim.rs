//! A point on the simulator: eight hosts around a switch, with what 002's hosts cost.
//!
//! Prices of system calls, messages and clients are the presets of the host model, which take no
//! more from 002 than what the accelerated protocol reaches on 10 Gb/s (see
//! [`HostConfig::xeon_10g`]). Latencies follow from them and from two numbers that 002 does not
//! print: how long cards and interrupts hold a frame back, and the switch's memory.

use std::time::Duration;

use groupcast_bench::measure::ring::Method;
use groupcast_core::Time;
use groupcast_protocols::ring::{Ring, RingConfig, TokenPriority, inspect};
use groupcast_sim::HostConfig;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::host::config::{ClientConfig, Cost};
use groupcast_sim::link::LinkSpec;
use groupcast_sim::measure::{Measures, MeterConfig};
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::{Kind, Topology};

use super::super::{Data, RunError};
use super::point::{HOSTS, Implementation, Load, Measured, Open, Point};

/// When the sources begin: the ring has formed long before.
const BEGIN: Duration = Duration::from_millis(1_000);
/// Messages that the ring orders in what is counted, about: enough for a hundred rotations.
const MESSAGES: f64 = 3_000.0;
/// What a switch keeps for all its ports: 2 MiB, as the smaller ones of both kinds do.
const SWITCH: u64 = 2 << 20;
/// Bytes of a large message's packet beyond its payload, at most; a small one's fills an Ethernet
/// frame.
const HEADERS: usize = 100;

/// States what 002 leaves open.
pub(super) fn conditions(plan: &[Point], data: &mut Data) {
    let Some(first) = plan.first() else { return };
    let Open {
        card,
        wake_up,
        windows: (personal, accelerated),
    } = first.open;
    data.condition(
        "card and interrupt, from host to host",
        format!("{card} µs"),
    );
    data.condition("a waiting process runs after", format!("{wake_up} µs"));
    data.condition("switch memory", "2 MiB, 512 KiB a port");
    data.condition(
        "windows of daemon and spread",
        format!("personal {personal}, accelerated {accelerated} (original 0)"),
    );
    data.condition(
        "priority method",
        "original second; accelerated first, in spread second",
    );
    data.condition(
        "library's messages",
        "handed over when the visit before took its own; one more waits",
    );
}

fn topology(point: &Point) -> Topology {
    let mut topology = Topology::new();
    let switch = topology.add(Kind::Switch { buffer: SWITCH });
    let bandwidth = (point.wire.mbps() * 1e6) as u64;
    let link = LinkSpec::ethernet(bandwidth, Duration::from_micros(point.open.card) / 2);
    for _ in 0..HOSTS {
        let host = topology.add(Kind::Plain);
        topology.connect(host, switch, link);
        topology.place_host(host);
    }
    topology
}

fn hosts(point: &Point) -> HostConfig {
    let library = HostConfig::xeon_10g();
    let host = match (point.implementation, point.load) {
        // A visit is to find what it may send, not more.
        (Implementation::Library, Load::Window(_)) => HostConfig {
            offered_max: 1,
            ..library
        },
        (Implementation::Library | Implementation::Paced, _) => library,
        (Implementation::Daemon, _) => HostConfig::xeon_10g_daemon(),
        (Implementation::Spread, _) => spread(),
    };
    HostConfig {
        wake_up: Duration::from_micros(point.open.wake_up),
        ..host
    }
}

/// 002's hosts with Spread: a message to or from a client costs the daemon what lets Spread reach
/// 2.1 Gb/s with 1,350 B and 5.3 Gb/s with 8,850 B (002 IV-A.3).
fn spread() -> HostConfig {
    let message = Cost::nanos(0, 2_350, 105);
    let daemon = HostConfig::xeon_10g_daemon();
    HostConfig {
        submit: message,
        deliver: message,
        clients: daemon.clients.map(|clients| ClientConfig {
            submit: Cost::nanos(0, 650, 150),
            deliver: Cost::nanos(0, 650, 150),
            ..clients
        }),
        ..daemon
    }
}

fn ring(point: &Point) -> RingConfig {
    let windows = point.windows();
    let lan = RingConfig::lan();
    RingConfig {
        body_max: lan.body_max.max(point.size + HEADERS),
        queue_max: match point.load {
            Load::Window(packets) => packets as usize * point.size,
            Load::Rate(_) => 64 * point.size,
        },
        personal_window: windows.personal,
        global_window: windows.global,
        accelerated_window: windows.accelerated,
        priority: match windows.method {
            Method::First => TokenPriority::FirstMethod,
            Method::Second => TokenPriority::SecondMethod,
        },
        ..lan
    }
}

fn source(point: &Point) -> SourceConfig {
    let arrivals = match point.load {
        Load::Window(_) => Arrivals::Saturate,
        Load::Rate(mbps) => Arrivals::Constant {
            rate: mbps * 1e6 / 8.0 / point.size as f64 / HOSTS as f64,
        },
    };
    let gap = arrivals.rate().map_or(0.0, f64::recip);
    SourceConfig {
        start: Time::ZERO + BEGIN,
        stagger: Duration::from_secs_f64(gap),
        ..SourceConfig::new(arrivals, point.size as u32, point.service)
    }
}

/// How long to warm up and to count: this many messages at the offered rate. Where more is offered
/// than is taken, five times as many: what a whole rotation brings is delivered at once if it is
/// Safe.
fn times(point: &Point, scale: f64) -> (Duration, Duration) {
    let bits = MESSAGES * scale * point.size as f64 * 8.0;
    let wire = point.wire.mbps();
    let (mbps, times) = match point.load {
        Load::Rate(mbps) if mbps > wire => (wire, 10.0),
        Load::Rate(mbps) => (mbps, 1.0),
        Load::Window(_) => (wire, 3.0),
    };
    let counted = Duration::from_secs_f64((bits * times / mbps / 1e6).clamp(0.005, 0.3));
    (counted / 4, counted)
}

/// Measures a point; `scale` is how much of the usual time is counted.
pub(super) fn measure(point: &Point, seed: u64, scale: f64) -> Result<Measured, RunError> {
    let (warm_up, counted) = times(point, scale);
    let mut config = ExperimentConfig::new(topology(point), inspect, seed);
    config.hosts = hosts(point);
    config.measure = MeterConfig {
        warm_up: BEGIN + warm_up,
        ..MeterConfig::default()
    };
    let settings = ring(point);
    settings
        .validate()
        .map_err(|error| RunError::Failed(error.to_string()))?;
    let mut experiment = Experiment::new(config, move |local, rng, now| {
        Ring::new(settings.clone(), local, rng, now).expect("the settings were checked")
    });
    experiment.start_all();
    for host in 0..HOSTS {
        experiment
            .add_source(host, source(point))
            .map_err(|error| RunError::Failed(error.to_string()))?;
    }
    experiment.run_to(Time::ZERO + BEGIN + warm_up + counted);
    let measures = experiment
        .finish()
        .map_err(|error| RunError::Failed(error.to_string()))?;
    Ok(read(&measures))
}

fn read(measures: &Measures) -> Measured {
    let overall = &measures.overall;
    let micros = |seconds: Option<f64>| seconds.unwrap_or(f64::NAN) * 1e6;
    let tokens: u64 = measures
        .hosts
        .iter()
        .flat_map(|host| &host.kinds)
        .filter(|kind| kind.kind == "token")
        .map(|kind| kind.packets.sent)
        .sum();
    let dropped_by_links: u64 = measures.links.iter().map(|link| link.dropped).sum();
    let overflowed: u64 = measures
        .hosts
        .iter()
        .map(|host| host.usage.overflowed)
        .sum();
    Measured {
        // What is Safe comes a rotation at once: in a short run the slowest receiver is the one
        // that just waits.
        throughput: overall.goodput_mean_bps / 1e6,
        latency: micros(overall.latency.mean()),
        latency_99: micros(overall.latency.quantile(0.99)),
        rotation: micros(Some(measures.measured.as_secs_f64())) * HOSTS as f64 / tokens as f64,
        again: overall.traffic.repairs.sent,
        dropped: dropped_by_links + overflowed,
    }
}
