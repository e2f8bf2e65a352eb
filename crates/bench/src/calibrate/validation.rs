//! The validation of the simulator: a real ring between network namespaces beside its simulation,
//! at three loads.
//!
//! The prices are fixed beforehand, by a [`Calibration`] that knows nothing of rings. The wires are
//! token buckets of 100 Mb/s, in the kernel and in the simulator: there the machine's processors,
//! which all hosts and the emulated network share, are not what limits. One process a host with the
//! ring in it sends and receives; all hosts share the machine's cores in the simulation too.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use groupcast_core::{Service, Time};
use groupcast_protocols::ring::{FAMILY, ORDER, Ring, RingConfig};
use groupcast_sim::HostConfig;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::host::config::Processors;
use groupcast_sim::link::LinkSpec;
use groupcast_sim::measure::MeterConfig;
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::{Kind, Topology};
use serde::Serialize;

use super::Calibration;
use crate::measure::BenchError;
use crate::measure::library::QUEUE_MAX;
use crate::measure::report::Rate;
use crate::measure::ring::{ClientsOf, Mode, RingOptions, Spinning, Windows, carry};
use crate::testbed::{Link, Testbed};

/// How far throughput may be off, as a part of what was measured.
pub const THROUGHPUT_OFF_MAX: f64 = 0.15;
/// The same of the latency.
pub const LATENCY_OFF_MAX: f64 = 0.30;

/// Above this load by others a core, a measured latency is mostly theirs.
const BUSY: f64 = 0.3;
/// A token bucket of the test bed holds what it lets through in a millisecond.
const BUCKET: Duration = Duration::from_millis(1);
/// Payload of a message.
const SIZE: usize = 1_350;
/// When sources begin in the simulation: the ring has formed.
const BEGIN: Duration = Duration::from_secs(1);
/// As in the measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Seeds of the simulation: its median is reported.
const SEEDS: u64 = 5;

/// What to compare.
#[derive(Clone, Debug)]
pub struct ValidationOptions {
    /// Hosts. Default 3.
    pub hosts: usize,
    /// What all senders offer together. Default 10 Mb/s, 60 Mb/s, as much as the ring takes.
    pub loads: Vec<Rate>,
    /// Measurements of each load; their median counts. Default 5.
    pub runs: usize,
    /// How long each counts. Default 1.5 s.
    pub duration: Duration,
}

impl Default for ValidationOptions {
    fn default() -> Self {
        Self {
            hosts: 3,
            loads: vec![Rate::Mbps(10.0), Rate::Mbps(60.0), Rate::Max],
            runs: 5,
            duration: Duration::from_millis(1_500),
        }
    }
}

/// What a ring did, or was predicted to do.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// Payload at the slowest receiver, in Mb/s.
    pub mbps: f64,
    /// The median latency, in microseconds.
    pub p50_us: f64,
    /// The mean latency, in microseconds.
    pub mean_us: f64,
}

/// One load.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was offered.
    pub load: Rate,
    /// What the simulation says: of each number the median over seeds.
    pub simulated: Outcome,
    /// What was measured: of each number the median over runs.
    pub measured: Outcome,
    /// All runs.
    pub runs: Vec<Outcome>,
    /// By how much the simulated throughput is off.
    pub throughput_off: f64,
    /// By how much the simulated median latency is off.
    pub latency_off: f64,
}

impl Row {
    /// Whether both are as near as they should be.
    pub fn holds(&self) -> bool {
        self.throughput_off.abs() <= THROUGHPUT_OFF_MAX && self.latency_off.abs() <= LATENCY_OFF_MAX
    }
}

/// The simulation beside the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct ValidationReport {
    /// The prices, fixed before.
    pub calibration: Calibration,
    /// How many hosts the ring has.
    pub hosts: usize,
    /// One a load.
    pub rows: Vec<Row>,
    /// Whether every row holds.
    pub holds: bool,
}

/// Calibrates, predicts, measures, in this order. About half a minute with the defaults.
///
/// # Errors
/// Where no test bed can be built, or a process fails.
pub fn run(options: &ValidationOptions, executable: &Path) -> Result<ValidationReport, BenchError> {
    let calibration = Calibration::measure(executable)?;
    let host = calibration.host();
    let predictions = options
        .loads
        .iter()
        .map(|load| predict(options, &host, *load))
        .collect::<Result<Vec<_>, _>>()?;
    let bed = Testbed::new(options.hosts, Link::Mbit100)?;
    let rows = options
        .loads
        .iter()
        .zip(predictions)
        .map(|(load, simulated)| {
            let runs = (0..options.runs.max(1))
                .map(|_| measure(&bed, options, executable, *load))
                .collect::<Result<Vec<_>, _>>()?;
            let measured = middle(&runs);
            Ok(Row {
                load: *load,
                simulated,
                measured,
                throughput_off: simulated.mbps / measured.mbps - 1.0,
                latency_off: simulated.p50_us / measured.p50_us - 1.0,
                runs,
            })
        })
        .collect::<Result<Vec<_>, BenchError>>()?;
    Ok(ValidationReport {
        calibration,
        hosts: options.hosts,
        holds: rows.iter().all(Row::holds),
        rows,
    })
}

/// One real run.
fn measure(
    bed: &Testbed,
    options: &ValidationOptions,
    executable: &Path,
    load: Rate,
) -> Result<Outcome, BenchError> {
    let ring = RingOptions {
        hosts: options.hosts,
        size: SIZE,
        service: Service::Agreed,
        rate: load,
        link: Link::Mbit100,
        duration: options.duration,
        encrypt: true,
        mode: Mode::Library,
        order: &ORDER,
        is_lone: false,
        windows: Windows::default(),
        spin: Spinning::default(),
        loss_permille: 0,
        clients: ClientsOf::default(),
        wakes: false,
    };
    let carried = carry(bed, &ring, executable)?;
    Ok(Outcome {
        mbps: carried.mbps_slowest,
        p50_us: carried.latencies.percentile_us(50.0),
        mean_us: carried.latencies.mean_us(),
    })
}

/// What the simulation says of hosts like `host` that share this machine's cores.
fn predict(
    options: &ValidationOptions,
    host: &HostConfig,
    load: Rate,
) -> Result<Outcome, BenchError> {
    let outcomes = (0..SEEDS)
        .map(|seed| simulate(options, host, load, seed))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(middle(&outcomes))
}

fn simulate(
    options: &ValidationOptions,
    host: &HostConfig,
    load: Rate,
    seed: u64,
) -> Result<Outcome, BenchError> {
    let mut config = ExperimentConfig::new(network(options.hosts), FAMILY.inspect, seed);
    config.contract = FAMILY.contract;
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    config.hosts = HostConfig {
        processors: Processors::Shared { machine: 0, cores },
        // The member submits to its ring directly.
        offered_max: 1,
        ..host.clone()
    };
    config.measure = MeterConfig {
        warm_up: BEGIN + WARM_UP,
        ..MeterConfig::default()
    };
    let ring = RingConfig {
        queue_max: QUEUE_MAX,
        ..RingConfig::lan()
    };
    let mut experiment = Experiment::new(config, move |member, rng, now| {
        Ring::new(ring.clone(), member, rng, now).expect("a library member's own settings")
    });
    experiment.start_all();
    for host in 0..options.hosts {
        experiment
            .add_source(host, source(load, options.hosts))
            .map_err(|error| BenchError::client("simulate a source", error))?;
    }
    experiment.run_to(Time::ZERO + BEGIN + WARM_UP + options.duration);
    let measures = experiment
        .finish()
        .map_err(BenchError::io("end a simulation"))?;
    let latency = &measures.overall.latency;
    let micros = |seconds: Option<f64>| seconds.unwrap_or(0.0) * 1e6;
    Ok(Outcome {
        mbps: measures.overall.goodput_slowest_bps / 1e6,
        p50_us: micros(latency.quantile(0.5)),
        mean_us: micros(latency.mean()),
    })
}

/// Hosts around a switch, every direction of every wire a token bucket as on the test bed.
fn network(hosts: usize) -> Topology {
    let bandwidth = Link::Mbit100.bits_per_second().unwrap_or(0);
    let burst = (BUCKET.as_secs_f64() * bandwidth as f64 / 8.0) as u64;
    let link = LinkSpec::ethernet(bandwidth, Duration::ZERO).with_burst(burst);
    let mut topology = Topology::new();
    let switch = topology.add(Kind::Plain);
    for _ in 0..hosts {
        let host = topology.add(Kind::Plain);
        topology.connect(host, switch, link);
        topology.place_host(host);
    }
    topology
}

fn source(load: Rate, hosts: usize) -> SourceConfig {
    let arrivals = match load {
        Rate::Max => Arrivals::Saturate,
        Rate::Mbps(mbps) => Arrivals::Constant {
            rate: mbps * 1e6 / 8.0 / SIZE as f64 / hosts as f64,
        },
    };
    SourceConfig {
        start: Time::ZERO + BEGIN,
        stagger: arrivals
            .rate()
            .map_or(Duration::ZERO, |rate| Duration::from_secs_f64(rate.recip())),
        ..SourceConfig::new(arrivals, SIZE as u32, Service::Agreed)
    }
}

/// Of each number the median.
fn middle(outcomes: &[Outcome]) -> Outcome {
    let middle = |of: fn(&Outcome) -> f64| {
        let mut values: Vec<f64> = outcomes.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    Outcome {
        mbps: middle(|it| it.mbps),
        p50_us: middle(|it| it.p50_us),
        mean_us: middle(|it| it.mean_us),
    }
}

impl fmt::Display for ValidationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.calibration)?;
        writeln!(
            f,
            "{} hosts, 100 Mb/s, {SIZE} B, agreed, a process a host; medians\n\
             offered Mb/s   slowest receiver, Mb/s        latency p50 (mean), µs\n\
             \x20              simulated measured    off   simulated         measured              off",
            self.hosts
        )?;
        for row in &self.rows {
            let (simulated, measured) = (&row.simulated, &row.measured);
            writeln!(
                f,
                "{:>12} {:11.1} {:8.1} {:+5.1} %   {:7.0} ({:7.0}) {:7.0} ({:7.0})   {:+5.1} %  {}",
                row.load.to_string(),
                simulated.mbps,
                measured.mbps,
                row.throughput_off * 100.0,
                simulated.p50_us,
                simulated.mean_us,
                measured.p50_us,
                measured.mean_us,
                row.latency_off * 100.0,
                if row.holds() {
                    "holds"
                } else {
                    "DOES NOT HOLD"
                },
            )?;
        }
        if self.calibration.other_load > BUSY {
            writeln!(
                f,
                "the machine had other work to do: latencies say more about that than about the ring; run it again when \
                 it is quiet"
            )?;
        }
        write!(
            f,
            "asked for: throughput within {:.0} %, latency within {:.0} %",
            THROUGHPUT_OFF_MAX * 100.0,
            LATENCY_OFF_MAX * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prediction_follows_the_load_and_the_time_to_wake_up() {
        let options = ValidationOptions {
            duration: Duration::from_millis(200),
            ..ValidationOptions::default()
        };
        let host = HostConfig::vm_2026();
        let light = simulate(&options, &host, Rate::Mbps(30.0), 1).unwrap();
        assert!((light.mbps / 30.0 - 1.0).abs() < 0.05, "{light:?}");
        // Half a rotation until the token is there, a hop until the message is: each hop wakes a
        // process up.
        let hop = host.wake_up.as_secs_f64() * 1e6;
        assert!((2.0 * hop..5.0 * hop).contains(&light.p50_us), "{light:?}");
        // A host's own messages do not cross its inbound link: more than 3/2 of 100 Mb/s is
        // impossible.
        let full = simulate(&options, &host, Rate::Max, 1).unwrap();
        assert!((70.0..150.0).contains(&full.mbps), "{full:?}");
        assert!(
            full.p50_us > 100.0 * light.p50_us,
            "a full queue is long: {full:?}"
        );
    }

    #[test]
    fn a_row_holds_within_its_limits() {
        let outcome = Outcome {
            mbps: 1.0,
            p50_us: 1.0,
            mean_us: 1.0,
        };
        let row = |throughput_off, latency_off| Row {
            load: Rate::Max,
            simulated: outcome,
            measured: outcome,
            runs: Vec::new(),
            throughput_off,
            latency_off,
        };
        assert!(row(0.14, -0.29).holds());
        assert!(!row(-0.16, 0.0).holds() && !row(0.0, 0.31).holds());
    }
}
