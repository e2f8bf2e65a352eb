//! A point on the simulator: hosts at one 10 Mb/s Ethernet, with what 000's machines cost.
//!
//! The host model is calibrated on two numbers that 000 prints and that are not RMP's: a remote
//! procedure call of 1 ms, and 1100 KB/s of TCP. All else is a prediction.

use std::time::Duration;

use groupcast_core::trace::Inspect;
use groupcast_core::{Instrumented, MemberId, Rng, Time};
use groupcast_protocols::rmp::{self, Rmp};
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::host::config::Cost;
use groupcast_sim::measure::{HostMeasures, Measures, MeterConfig};

use super::super::{Data, RunError};
use super::compare::{self, Routes, Rpc, Tcp};
use super::point::{Load, Measured, RmpPoint, System};
use super::stage::{BEGIN, host, settings, source, sparc, topology};
use super::timed::{RETURNED, RETURNED_AFTER, Timed};

/// What is left out of a point that is measured for a time.
const WARM_UP: Duration = Duration::from_secs(1);
/// For how long a point with packets of 8 KB is measured; smaller ones are quicker.
const COUNTED: Duration = Duration::from_secs(20);
/// How finely the end of a file is seen.
const WINDOW: Duration = Duration::from_millis(5);
/// Slower than this a file is given up, in bytes a second on the cable.
const SLOWEST: f64 = 150e3;
/// States what 000 leaves open.
pub(super) fn conditions(plan: &[RmpPoint], data: &mut Data) {
    data.condition(
        "network",
        "one 10 Mb/s Ethernet with collisions; a packet of 8 KB is six frames",
    );
    data.condition(
        "host model",
        "calibrated on a remote procedure call of 1 ms and TCP of 1100 KB/s alone",
    );
    data.condition("KB", "1000 B; packets of 8 KB have 8192 B");
    data.condition(
        "RMP",
        "000's constants, stop and wait, one packet an ACK, order when the ACK is heard; a silent \
         ring announces itself once a second (ours)",
    );
    data.condition(
        "time-outs",
        "confirmed after 12 ms, timers from 24 ms on: above a round trip with 8 KB",
    );
    let is = |system: System| {
        plan.iter()
            .any(|point| point.system.name() == system.name())
    };
    if is(System::MbusI) {
        data.condition(
            "MBus I",
            "a model: the server is a host of its own, and its work on a message costs nothing but \
             TCP",
        );
    }
    if plan
        .iter()
        .any(|point| matches!(point.system, System::BusOnRmp(_)))
    {
        data.condition(
            "MBus II",
            "a model: RMP, with what Table 3's first column says beyond network calls; memcpy 4 \
             times as fast as the loop before it; fixed time-outs of 100 ms before version 12",
        );
    }
}

/// Measures a point; `scale` is how much of the usual time or file is measured.
pub(super) fn measure(point: &RmpPoint, seed: u64, scale: f64) -> Result<Measured, RunError> {
    let point = &match point.load {
        Load::File(bytes) => RmpPoint {
            load: Load::File((bytes as f64 * scale) as u64),
            ..*point
        },
        _ => *point,
    };
    let sinks = point.sinks_at();
    let routes = Routes {
        sinks: sinks.clone(),
        server: (point.system == System::MbusI).then(|| point.members()),
    };
    match point.system {
        System::Rmp | System::BusOnRmp(_) => {
            let settings = settings(point);
            settings
                .validate()
                .map_err(|error| RunError::Failed(error.to_string()))?;
            simulate(point, seed, scale, rmp::inspect, move |local, rng, now| {
                let rmp = Rmp::new(settings.clone(), local, rng, now);
                Timed::new(rmp.expect("the settings were checked"), now)
            })
        }
        System::Rpc => {
            let receivers: Vec<usize> = sinks.collect();
            simulate(
                point,
                seed,
                scale,
                compare::inspect,
                move |local, rng, now| Rpc::new(local, receivers.clone(), rng, now),
            )
        }
        System::MbusI | System::Tcp => simulate(
            point,
            seed,
            scale,
            compare::inspect,
            move |local, rng, now| Tcp::new(local, routes.clone(), rng, now),
        ),
    }
}

/// How long to warm up and to measure.
fn times(point: &RmpPoint, scale: f64) -> (Duration, Duration) {
    match point.load {
        Load::File(bytes) => {
            let copies = match point.system {
                System::Rmp | System::BusOnRmp(_) => 1,
                System::MbusI | System::Rpc | System::Tcp => point.sinks + 1,
            };
            let bytes = bytes as f64 * (point.sources * copies) as f64;
            (
                Duration::ZERO,
                Duration::from_secs_f64(bytes / SLOWEST + 10.0),
            )
        }
        Load::Rate(rate) if rate < 20.0 => (WARM_UP, Duration::from_secs_f64(400.0 * scale / rate)),
        _ if point.size >= 4_096 => (WARM_UP, COUNTED.mul_f64(scale)),
        _ => (WARM_UP, COUNTED.mul_f64(scale / 4.0)),
    }
}

fn simulate<P: Instrumented>(
    point: &RmpPoint,
    seed: u64,
    scale: f64,
    inspect: Inspect,
    factory: impl Fn(MemberId, Rng, Time) -> P + Send + Sync + 'static,
) -> Result<Measured, RunError> {
    let failed = |error: &dyn std::fmt::Display| RunError::Failed(error.to_string());
    let (warm_up, counted) = times(point, scale);
    let is_file = matches!(point.load, Load::File(_));
    let mut config = ExperimentConfig::new(topology(point), inspect, seed);
    config.hosts = host(point);
    config.mtu = config.hosts.mtu;
    config.measure = MeterConfig {
        warm_up: BEGIN + warm_up,
        window: WINDOW,
        own: is_file,
        ..MeterConfig::default()
    };
    let mut experiment = Experiment::new(config, factory);
    experiment.start_all();
    for host in 0..point.sources {
        experiment
            .add_source(host, source(point, host))
            .map_err(|error| failed(&error))?;
    }
    experiment.run_to(Time::ZERO + BEGIN + warm_up);
    let before = cable(&mut experiment);
    experiment.run_to(Time::ZERO + BEGIN + warm_up + counted);
    let cable = cable(&mut experiment).since(before);
    let measures = experiment.finish().map_err(|error| failed(&error))?;
    Ok(read(point, &measures, cable))
}

/// What the Ethernet did.
#[derive(Clone, Copy)]
struct Cable {
    busy: Duration,
    collisions: u64,
}

impl Cable {
    fn since(self, before: Self) -> Self {
        Self {
            busy: self.busy - before.busy,
            collisions: self.collisions - before.collisions,
        }
    }
}

fn cable<P: Instrumented>(experiment: &mut Experiment<P>) -> Cable {
    let counters = experiment.fabric().buses().map(|(_, counters)| counters);
    let none = Cable {
        busy: Duration::ZERO,
        collisions: 0,
    };
    counters.fold(none, |sum, counters| Cable {
        busy: sum.busy + counters.busy,
        collisions: sum.collisions + counters.collisions,
    })
}

fn read(point: &RmpPoint, measures: &Measures, cable: Cable) -> Measured {
    let time = match point.load {
        Load::File(bytes) => file_time(point, measures, bytes),
        _ => measures.measured.as_secs_f64(),
    };
    let sent: u64 = measures.hosts.iter().map(|host| host.submitted).sum();
    let sent = sent as f64;
    let total = |kinds: &[&str]| {
        let all = measures.hosts.iter().flat_map(|host| &host.kinds);
        let of = all.filter(|count| kinds.contains(&count.kind));
        of.map(|count| count.packets.sent).sum::<u64>() as f64
    };
    let millis = |seconds: Option<f64>| seconds.unwrap_or(f64::NAN) * 1e3;
    let overall = &measures.overall;
    let share = |host: usize| network_share(&measures.hosts[host]);
    Measured {
        throughput: sent * f64::from(point.size) / time / 1e3,
        latency: millis(overall.latency.mean()),
        arrival: millis(overall.arrival.mean()),
        period: time * 1e3 * point.sources as f64 / sent,
        returned: returned(measures),
        cable: cable.busy.as_secs_f64() / time * 100.0,
        collisions: cable.collisions as f64 / sent,
        multicasts: total(&["data", "ack", "null ack", "nack"]) / sent,
        unicasts: total(&["confirm"]) / sent,
        repairs: total(&["repair"]) / sent,
        network_share: share(0),
        network_share_sink: share(point.sinks_at().end - 1),
    }
}

/// When the last sink had the last packet, in seconds since the first was sent; not a number if one
/// has not all.
fn file_time(point: &RmpPoint, measures: &Measures, bytes: u64) -> f64 {
    let messages = bytes / u64::from(point.size) * point.sources as u64;
    let sinks = || point.sinks_at().map(|host| &measures.hosts[host]);
    if sinks().any(|host| host.delivered != messages) {
        return f64::NAN;
    }
    let ends = sinks().filter_map(|host| {
        let mut windows = host.windows.iter();
        windows.rposition(|window| window.delivered > 0)
    });
    let windows = ends.max().map_or(f64::NAN, |last| last as f64 + 1.0);
    windows * WINDOW.as_secs_f64()
}

/// From a packet's leaving to its delivery at its sender, in milliseconds; not a number if that is
/// not measured.
fn returned(measures: &Measures) -> f64 {
    let counters = measures.hosts.iter().map(|host| &host.usage);
    let sum = |name: &str| {
        counters
            .clone()
            .filter_map(|it| it.counter(name))
            .sum::<u64>() as f64
    };
    sum(RETURNED_AFTER) / sum(RETURNED) / 1e6
}

/// The share of a host's processor time that is in network calls, in percent.
fn network_share(host: &HostMeasures) -> f64 {
    const FRAME: u64 = 1_480;
    const UDP_HEADER: u64 = 8;
    let plain = sparc();
    let calls = |cost: Cost, count: u64, bytes: u64| {
        let each = bytes.checked_div(count).unwrap_or(0);
        let frames = (each + UDP_HEADER).div_ceil(FRAME) * count;
        cost.of(count, frames, bytes)
    };
    let time: Duration = (host.kinds.iter())
        .map(|kind| {
            let packets = &kind.packets;
            calls(plain.send, packets.sent, packets.sent_bytes)
                + calls(plain.receive, packets.received, packets.received_bytes)
        })
        .sum();
    time.as_secs_f64() / host.usage.cpu_busy.as_secs_f64() * 100.0
}
