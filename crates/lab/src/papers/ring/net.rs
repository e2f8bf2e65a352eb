//! Points on namespaces of this machine: real sockets, real processes, one switch of wires that are as slow as said.
//!
//! All hosts share this machine's processors, so the wires must be slow enough to be what limits: 100 Mb/s is for
//! eight hosts on two cores, 1 Gb/s is not quite. There is no Spread here, and nothing is random.

use std::time::Duration;

use groupcast_bench::measure::BenchError;
use groupcast_bench::measure::report::{LatencySummary, Rate};
use groupcast_bench::measure::ring::{self, Mode, RingOptions, Spinning};
use groupcast_bench::testbed::{Link, Testbed};

use super::super::{Context, Data, RunError, Table};
use super::curve::{self, Measured};
use super::setup::{HOSTS, Implementation, Load, Setting, Wire};

/// Measures the points of `plan`, which are for 1 Gb/s, on 100 Mb/s and 1 Gb/s, loads in proportion; each once for
/// every seed, which is only its number here.
pub(super) fn run(
    context: &Context<'_>,
    plan: &[Setting],
    data: &mut Data,
    table: &mut Table,
) -> Result<(), RunError> {
    Testbed::available().map_err(RunError::Unavailable)?;
    let duration = Duration::from_millis(context.choose(2_000, 700));
    data.condition("counted a point", format!("{} ms", duration.as_millis()));
    data.condition("encryption", "on");
    data.condition(
        "processors for all hosts",
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    for (wire, link) in [(Wire::Mbit100, Link::Mbit100), (Wire::Gbit1, Link::Gbit1)] {
        let bed = Testbed::new(HOSTS, link).map_err(|error| failed(&error.into()))?;
        let settings: Vec<Setting> = plan
            .iter()
            .filter(|setting| setting.implementation != Implementation::Spread)
            .map(|setting| setting.on(wire))
            .collect();
        for setting in settings {
            for seed in context.seeds() {
                let measured = measure(&bed, link, &setting, duration, seed, context)?;
                curve::push(table, &setting.key(), &measured);
            }
        }
    }
    Ok(())
}

fn measure(
    bed: &Testbed,
    link: Link,
    setting: &Setting,
    duration: Duration,
    seed: u64,
    context: &Context<'_>,
) -> Result<Measured, RunError> {
    let options = RingOptions {
        hosts: HOSTS,
        size: setting.size,
        service: setting.service,
        rate: match setting.load {
            Load::Rate(mbps) => Rate::Mbps(mbps),
            Load::Window(_) => Rate::Max,
        },
        link,
        duration,
        encrypt: true,
        mode: match setting.implementation {
            Implementation::Library | Implementation::Paced => Mode::Library,
            Implementation::Daemon | Implementation::Spread => Mode::Daemon,
        },
        windows: setting.windows(),
        spin: Spinning::default(),
        loss_permille: 0,
    };
    let carried = ring::carry(bed, &options, &context.options().executable)
        .map_err(|error| failed(&error))?;
    let latency = LatencySummary::from(&carried.latencies);
    Ok(Measured {
        load: setting.load.name(),
        offered: setting.load.offered(),
        seed,
        throughput: carried.mbps_slowest,
        latency: latency.mean,
        latency_99: latency.p99,
        rotation: f64::NAN,
        again: 0,
        dropped: 0,
    })
}

fn failed(error: &BenchError) -> RunError {
    match error {
        BenchError::Unavailable(reason) => RunError::Unavailable(reason.clone()),
        error => RunError::Failed(error.to_string()),
    }
}
