//! Points on namespaces of this machine: real sockets, real processes, one switch of wires that are
//! as slow as said.
//!
//! All hosts share this machine's processors, so the wires must be slow enough to be what limits:
//! 100 Mb/s is for eight hosts on two cores, 1 Gb/s is not quite. There is no Spread here, and
//! nothing is random.

use std::time::Duration;

use groupcast_bench::measure::BenchError;
use groupcast_bench::measure::report::{LatencySummary, Rate};
use groupcast_bench::measure::ring::{self, ClientsOf, Mode, RingOptions, Spinning};
use groupcast_bench::testbed::{Link, Testbed};
use groupcast_protocols::ring::ORDER;

use super::super::{Context, Data, RunError};
use super::point::{HOSTS, Implementation, Load, Measured, Point, Wire};

/// States what holds for all points.
pub(super) fn conditions(context: &Context<'_>, data: &mut Data) {
    data.condition(
        "counted a point",
        format!("{} ms", counted(context).as_millis()),
    );
    data.condition("encryption", "on");
    data.condition(
        "processors for all hosts",
        std::thread::available_parallelism().map_or(1, usize::from),
    );
}

/// How long a point is counted.
fn counted(context: &Context<'_>) -> Duration {
    Duration::from_millis(context.choose(2_000, 700))
}

/// Measures the points of `plan`, which are for 1 Gb/s, on 100 Mb/s and 1 Gb/s, loads in
/// proportion; each once for every seed, which is only its number here.
pub(super) fn measure_all(
    context: &Context<'_>,
    plan: &[Point],
) -> Result<Vec<(Point, u64, Measured)>, RunError> {
    Testbed::available().map_err(RunError::Unavailable)?;
    let mut all = Vec::new();
    for (wire, link) in [(Wire::Mbit100, Link::Mbit100), (Wire::Gbit1, Link::Gbit1)] {
        let bed = Testbed::new(HOSTS, link).map_err(|error| failed(&error.into()))?;
        let points = plan
            .iter()
            .filter(|point| point.implementation != Implementation::Spread)
            .map(|point| point.on(wire));
        for point in points {
            for seed in context.seeds() {
                let measured = measure(&bed, link, &point, context)?;
                all.push((point, seed, measured));
            }
        }
    }
    Ok(all)
}

fn measure(
    bed: &Testbed,
    link: Link,
    point: &Point,
    context: &Context<'_>,
) -> Result<Measured, RunError> {
    let options = RingOptions {
        hosts: HOSTS,
        size: point.size,
        service: point.service,
        rate: match point.load {
            Load::Rate(mbps) => Rate::Mbps(mbps),
            Load::Window(_) => Rate::Max,
        },
        link,
        duration: counted(context),
        encrypt: true,
        mode: match point.implementation {
            Implementation::Library | Implementation::Paced => Mode::Library,
            Implementation::Daemon | Implementation::Spread => Mode::Daemon,
        },
        order: &ORDER,
        is_lone: false,
        windows: point.windows(),
        spin: Spinning::default(),
        loss_permille: 0,
        clients: ClientsOf::default(),
        wakes: false,
    };
    let carried = ring::carry(bed, &options, &context.options().executable)
        .map_err(|error| failed(&error))?;
    let latency = LatencySummary::from(&carried.latencies);
    Ok(Measured {
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
