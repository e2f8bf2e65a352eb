//! Points on the simulator: eight hosts around a switch, with what 002's hosts cost.
//!
//! Prices of system calls, messages and clients are the presets of the host model, which take no more from 002 than
//! what the accelerated protocol reaches on 10 Gb/s (see [`HostConfig::xeon_10g`]). Latencies follow from them and from
//! two numbers that 002 does not print: how long cards and interrupts hold a frame back, and the switch's memory.

use std::time::Duration;

use groupcast_core::Time;
use groupcast_protocols::ring::{Ring, RingConfig, TokenPriority, inspect};
use groupcast_sim::HostConfig;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::host::config::{ClientConfig, Cost};
use groupcast_sim::link::LinkSpec;
use groupcast_sim::measure::{Measures, MeterConfig};
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::{Kind, Topology};

use super::super::{Context, Data, RunError, Table};
use super::curve::{self, Measured};
use super::setup::{HOSTS, Implementation, Load, Setting, Wire};
use crate::bench::ring::Method;

/// When the sources begin: the ring has formed long before.
const BEGIN: Duration = Duration::from_millis(1_000);
/// Messages that the ring orders in what is counted, about: enough for a hundred rotations.
const MESSAGES: f64 = 3_000.0;
/// What a switch keeps for all its ports: 2 MiB, as the smaller ones of both kinds do.
const SWITCH: u64 = 2 << 20;
/// Bytes of a large message's packet beyond its payload, at most; a small one's fills an Ethernet frame.
const HEADERS: usize = 100;

/// Measures every point of `plan` with every seed.
pub(super) fn run(
    context: &Context<'_>,
    plan: &[Setting],
    data: &mut Data,
    table: &mut Table,
) -> Result<(), RunError> {
    let points: Vec<(Setting, u64)> = plan
        .iter()
        .flat_map(|setting| context.seeds().map(|seed| (*setting, seed)))
        .collect();
    let scale = context.choose(1.0, 0.5);
    let measured = context.each(&points, |(setting, seed)| measure(setting, *seed, scale))?;
    conditions(plan, data);
    for ((setting, _), measured) in points.iter().zip(&measured) {
        curve::push(table, &setting.key(), measured);
    }
    Ok(())
}

fn conditions(plan: &[Setting], data: &mut Data) {
    let mut said = Vec::new();
    for setting in plan {
        let delay = card_delay(setting.wire);
        let line = (
            format!("card and interrupt, {} Mb/s", setting.wire.mbps()),
            format!("{} µs", delay.as_micros()),
        );
        if !said.contains(&line) {
            data.condition(&line.0, &line.1);
            said.push(line);
        }
    }
    data.condition("switch memory", "2 MiB");
    for setting in plan {
        let Load::Rate(_) = setting.load else {
            continue;
        };
        let windows = setting.windows();
        let line = (
            format!(
                "windows, {}, {}, {} Mb/s, {} B",
                setting.implementation.name(),
                setting.protocol.name(),
                setting.wire.mbps(),
                setting.size
            ),
            format!(
                "personal {}, accelerated {}, {} method",
                windows.personal.unwrap_or(0),
                windows.accelerated.unwrap_or(0),
                match windows.method {
                    Method::First => "first",
                    Method::Second => "second",
                }
            ),
        );
        if !said.contains(&line) {
            data.condition(&line.0, &line.1);
            said.push(line);
        }
    }
}

/// How long card, driver and interrupt hold a frame back at a receiving host, whatever else it does.
fn card_delay(wire: Wire) -> Duration {
    match wire {
        Wire::Mbit100 | Wire::Gbit1 => Duration::from_micros(20),
        Wire::Gbit10 => Duration::from_micros(10),
    }
}

fn topology(wire: Wire) -> Topology {
    let mut topology = Topology::new();
    let switch = topology.add(Kind::Switch { buffer: SWITCH });
    let link = LinkSpec::ethernet((wire.mbps() * 1e6) as u64, card_delay(wire) / 2);
    for _ in 0..HOSTS {
        let host = topology.add(Kind::Plain);
        topology.connect(host, switch, link);
        topology.place_host(host);
    }
    topology
}

fn hosts(setting: &Setting) -> HostConfig {
    match setting.implementation {
        Implementation::Library | Implementation::Paced => HostConfig {
            offered_max: match setting.load {
                Load::Window(_) => 1,
                Load::Rate(_) => HostConfig::xeon_10g().offered_max,
            },
            ..HostConfig::xeon_10g()
        },
        Implementation::Daemon => HostConfig::xeon_10g_daemon(),
        Implementation::Spread => spread(),
    }
}

/// 002's hosts with Spread: a message to or from a client costs the daemon what lets Spread reach 2.1 Gb/s with 1,350 B
/// and 5.3 Gb/s with 8,850 B (002 IV-A.3).
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

fn ring(setting: &Setting) -> RingConfig {
    let windows = setting.windows();
    let lan = RingConfig::lan();
    RingConfig {
        body_max: lan.body_max.max(setting.size + HEADERS),
        queue_max: match setting.load {
            Load::Window(packets) => packets as usize * setting.size,
            Load::Rate(_) => 64 * setting.size,
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

fn source(setting: &Setting) -> SourceConfig {
    let arrivals = match setting.load {
        Load::Window(_) => Arrivals::Saturate,
        Load::Rate(mbps) => Arrivals::Constant {
            rate: mbps * 1e6 / 8.0 / setting.size as f64 / HOSTS as f64,
        },
    };
    let gap = arrivals.rate().map_or(0.0, f64::recip);
    SourceConfig {
        start: Time::ZERO + BEGIN,
        stagger: Duration::from_secs_f64(gap),
        ..SourceConfig::new(arrivals, setting.size as u32, setting.service)
    }
}

/// How long to warm up and to count: so many messages at the offered rate, a moment at least.
fn times(setting: &Setting, scale: f64) -> (Duration, Duration) {
    let bits = MESSAGES * scale * setting.size as f64 * 8.0;
    let mbps = match setting.load {
        Load::Rate(mbps) => mbps.min(setting.wire.mbps() * 0.5),
        Load::Window(_) => setting.wire.mbps() * 0.4,
    };
    let counted = Duration::from_secs_f64((bits / mbps / 1e6).clamp(0.01, 0.5));
    (counted / 4, counted)
}

fn measure(setting: &Setting, seed: u64, scale: f64) -> Result<Measured, RunError> {
    let (warm_up, counted) = times(setting, scale);
    let mut config = ExperimentConfig::new(topology(setting.wire), inspect, seed);
    config.hosts = hosts(setting);
    config.measure = MeterConfig {
        warm_up: BEGIN + warm_up,
        ..MeterConfig::default()
    };
    let settings = ring(setting);
    settings
        .validate()
        .map_err(|error| RunError::Failed(error.to_string()))?;
    let mut experiment = Experiment::new(config, move |local, rng, now| {
        Ring::new(settings.clone(), local, rng, now).expect("the settings were checked")
    });
    experiment.start_all();
    for host in 0..HOSTS {
        experiment
            .add_source(host, source(setting))
            .map_err(|error| RunError::Failed(error.to_string()))?;
    }
    experiment.run_to(Time::ZERO + BEGIN + warm_up + counted);
    let measures = experiment
        .finish()
        .map_err(|error| RunError::Failed(error.to_string()))?;
    Ok(read(setting, seed, &measures))
}

fn read(setting: &Setting, seed: u64, measures: &Measures) -> Measured {
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
        load: setting.load.name(),
        offered: setting.load.offered(),
        seed,
        throughput: overall.goodput_slowest_bps / 1e6,
        latency: micros(overall.latency.mean()),
        latency_99: micros(overall.latency.quantile(0.99)),
        rotation: micros(Some(measures.measured.as_secs_f64())) * HOSTS as f64 / tokens as f64,
        again: overall.traffic.repairs.sent,
        dropped: dropped_by_links + overflowed,
    }
}
