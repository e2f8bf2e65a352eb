//! The same measurement at one rate after the other, and how deep the machine's processors sleep.
//!
//! A processor that was idle for longer sleeps deeper and wakes later. A bare round trip by idle
//! gap shows how much of a latency at low rates is the machine's.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::super::report::{Conditions, Rate, RingReport};
use super::super::ring::{self, RingOptions};
use super::super::{BenchError, ping};
use super::report::Wakes;
use crate::testbed::Testbed;

/// The rates of a sweep: Mb/s of all senders together, and as much as is taken.
pub const RATES: [Rate; 8] = [
    Rate::Mbps(1.0),
    Rate::Mbps(5.0),
    Rate::Mbps(25.0),
    Rate::Mbps(50.0),
    Rate::Mbps(115.0),
    Rate::Mbps(250.0),
    Rate::Mbps(500.0),
    Rate::Max,
];

/// Idle times between two round trips.
const GAPS: [Duration; 6] = [
    Duration::from_micros(100),
    Duration::from_micros(300),
    Duration::from_millis(1),
    Duration::from_millis(3),
    Duration::from_millis(10),
    Duration::from_millis(30),
];

/// What a sweep showed.
#[derive(Clone, Debug, Serialize)]
pub struct SweepReport {
    /// Bare round trips by idle gap, before the sweep.
    pub sleep: Vec<RoundTrip>,
    /// The measurement at each rate, in the order of [`RATES`].
    pub sweep: Vec<RingReport>,
}

/// A bare round trip between two hosts that were idle before it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RoundTrip {
    /// From one ping to the next, in microseconds.
    pub gap_us: f64,
    /// Half are below, in microseconds.
    pub p50: f64,
    /// 99 of 100 are below, in microseconds.
    pub p99: f64,
}

/// Measures `options` at each of [`RATES`], `runs` times, with counts.
///
/// # Errors
/// As [`ring::run`].
pub fn run(
    options: &RingOptions,
    runs: usize,
    executable: &Path,
) -> Result<SweepReport, BenchError> {
    Testbed::available().map_err(BenchError::Unavailable)?;
    let bed = Testbed::new(options.hosts, options.link)?;
    let sleep = GAPS.map(|gap| {
        let latencies = ping::round_trips_after(&bed, executable, gap)?;
        Ok(RoundTrip {
            gap_us: gap.as_secs_f64() * 1e6,
            p50: latencies.percentile_us(50.0),
            p99: latencies.percentile_us(99.0),
        })
    });
    let sleep = sleep.into_iter().collect::<Result<_, BenchError>>()?;
    drop(bed);
    let at = |rate| {
        let options = RingOptions {
            rate,
            wakes: true,
            ..options.clone()
        };
        ring::run(&options, runs, executable)
    };
    Ok(SweepReport {
        sleep,
        sweep: RATES.into_iter().map(at).collect::<Result<_, _>>()?,
    })
}

impl fmt::Display for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.sweep.first() {
            let conditions = &first.conditions;
            let Conditions {
                hosts,
                size,
                service,
                mode,
                clients,
                ..
            } = conditions;
            writeln!(
                f,
                "{hosts} hosts, {mode}, clients {clients}; {service} messages of {size} bytes; for each ordered message:\n"
            )?;
        }
        writeln!(
            f,
            "{:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>8} {:>8}  µs of a processor",
            "Mb/s",
            "got",
            "mean µs",
            "p99 µs",
            "wakings",
            "rotating",
            "resting",
            "switches",
            "calls",
            "empty",
            "rotat./s",
            "messages"
        )?;
        for report in &self.sweep {
            row(f, report)?;
        }
        writeln!(
            f,
            "\nrotating, resting: the least wakings that are possible\n"
        )?;
        writeln!(f, "bare UDP ping-pong by idle gap")?;
        for RoundTrip { gap_us, p50, p99 } in &self.sleep {
            writeln!(
                f,
                "{gap_us:>8.0} µs apart: {p50:>6.0} µs, 99 % below {p99:.0}"
            )?;
        }
        Ok(())
    }
}

/// The row of one rate.
fn row(f: &mut fmt::Formatter<'_>, report: &RingReport) -> fmt::Result {
    let figures = &report.medians;
    let Some(work) = figures.wakes.clone() else {
        return Ok(());
    };
    let wakes = Wakes::from(work);
    let cpu = wakes
        .roles
        .iter()
        .map(|role| format!("{:.0} {}", role.cpu_us, role.role.name()));
    writeln!(
        f,
        "{:>6} {:>8.1} {:>8.0} {:>8.0} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>7.1} {:>7.1} {:>8.0} {:>8.1}  {}",
        report.conditions.rate,
        figures.mbps_slowest,
        figures.latency_us.mean,
        figures.latency_us.p99,
        wakes.wakings,
        wakes.least_rotating,
        wakes.least_resting,
        wakes.switches,
        wakes.calls,
        wakes.calls_empty,
        wakes.rotations_per_s,
        wakes.messages_per_rotation,
        cpu.collect::<Vec<_>>().join(", ")
    )
}
