//! `groupcast sim`: a scenario over its seeds. Here only options, progress and what is printed; the
//! rest is `groupcast_lab::scenario`'s.

use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use groupcast_lab::scenario::{
    self, Outline, RunError, RunOptions, RunReport, Scenario, ScenarioError, Summary, Watch,
    WriteError,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::{Failure, printed};
use crate::number;
use crate::table::Table;

/// Run a scenario in the simulator: a network, hosts, a protocol, sources, changes, all in one TOML
/// file.
///
/// docs/scenarios.md describes the file and the results. A scenario that makes no sense is an error
/// that points at the line. The same scenario and seeds give the same results, byte for byte,
/// whatever --jobs. Exit 0: all ran; 1: a run broke a promise, or the results cannot be written; 2:
/// the scenario is wrong.
#[derive(clap::Args)]
#[command(after_long_help = models())]
pub(crate) struct Args {
    /// The scenario (TOML)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The seeds to run, A to B−1 [default: the scenario's]
    #[arg(long, value_name = "A..B", allow_hyphen_values = true, value_parser = scenario::parse_seeds)]
    seeds: Option<Range<u64>>,
    /// Runs at the same time [default: one a processor]
    #[arg(long, value_name = "N", value_parser = number::above_0::<NonZeroUsize>)]
    jobs: Option<NonZeroUsize>,
    /// Write the results into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Lay a value over the file's, for example source.0.rate=50/s; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Read and check the scenario, say what it is, and run nothing
    #[arg(long)]
    check: bool,
}

/// The host models, for the help.
fn models() -> String {
    let mut text = String::from("Host models:\n");
    for (name, what) in groupcast_sim::HostConfig::PRESETS {
        text += &format!("  {name:16} {what}\n");
    }
    text
}

/// Runs the scenario and prints the results.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let scenario = Scenario::read(&args.file, &args.settings).map_err(|error| explain(&error))?;
    let seeds = args.seeds.clone().unwrap_or_else(|| scenario.seeds());
    if args.check {
        let outline = scenario
            .outline(seeds.start)
            .map_err(|error| explain(&error))?;
        printed(print_outline(&scenario, &outline, &seeds, args.json))?;
        return Ok(ExitCode::SUCCESS);
    }
    let jobs = args
        .jobs
        .or_else(|| std::thread::available_parallelism().ok());
    let options = RunOptions {
        jobs: jobs.map_or(1, NonZeroUsize::get),
        out: args.out.clone(),
        seeds,
    };
    let bar = Bar::new(&scenario, &options);
    let report = scenario::run(&scenario, &options, &bar);
    bar.bar.finish_and_clear();
    let report = report.map_err(failed)?;
    printed(match args.json {
        true => print_json(&report, options.jobs),
        false => print(&scenario, &report, &options),
    })?;
    match report.broken.first() {
        None => Ok(ExitCode::SUCCESS),
        Some((seed, count, first)) => Err(Failure::failed(format!(
            "{} of {} runs broke a promise; seed {seed} {count} times, first: {first}",
            report.broken.len(),
            report.summary.seeds.len(),
        ))
        .help(format!("run it alone with --seeds {seed}..{}", seed + 1))),
    }
}

/// A bar on stderr, if that is a terminal.
struct Bar {
    bar: ProgressBar,
}

impl Bar {
    fn new(scenario: &Scenario, options: &RunOptions) -> Self {
        let seeds = options.seeds.end - options.seeds.start;
        let bar = ProgressBar::new(seeds.saturating_mul(100));
        let template = "{msg} {wide_bar} {percent:>3} %, {eta} left";
        // The template is right; if it were not, the default bar would do.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(scenario.name().to_owned());
        Self { bar }
    }
}

impl Watch for Bar {
    fn progress(&self, _seed: u64, _percent: u16) {
        self.bar.inc(1);
    }
}

/// The summary, and the speed, which depends on the machine and so is in no file.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    speed: Speed,
}

#[derive(Serialize)]
struct Speed {
    wall_s: f64,
    /// Events in a second of processor time.
    events_per_s: f64,
    hops_per_s: f64,
    jobs: usize,
}

impl Speed {
    fn of(report: &RunReport, jobs: usize) -> Self {
        let busy = report.busy.as_secs_f64().max(1e-9);
        Self {
            wall_s: report.wall.as_secs_f64(),
            events_per_s: report.events as f64 / busy,
            hops_per_s: report.hops as f64 / busy,
            jobs,
        }
    }
}

fn print_json(report: &RunReport, jobs: usize) -> io::Result<()> {
    let line = Line {
        summary: &report.summary,
        speed: Speed::of(report, jobs),
    };
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, &line)?;
    writeln!(stdout)
}

/// The rows of the table: the measure's name in the results, its label, its factor and its unit.
const ROWS: &[(&str, &str, f64, &str)] = &[
    ("throughput_mean", "deliveries a host", 1.0, "/s"),
    ("throughput_slowest", "the slowest host", 1.0, "/s"),
    ("goodput_slowest_bps", "its payload", 1e-6, "Mb/s"),
    ("latency_mean_s", "latency, mean", 1e3, "ms"),
    ("latency_p50_s", "latency, median", 1e3, "ms"),
    ("latency_p99_s", "latency, 99 %", 1e3, "ms"),
    ("latency_max_s", "latency, longest", 1e3, "ms"),
    ("missing", "not delivered", 1.0, ""),
    ("refused", "not accepted", 1.0, ""),
    ("duplicates", "arrived again", 1.0, ""),
    ("requests_sent", "requests", 1.0, ""),
    ("repairs_sent", "repairs", 1.0, ""),
    ("control_sent", "control packets", 1.0, ""),
    ("interference", "interference", 100.0, "%"),
    ("configurations_max", "configurations", 1.0, ""),
];

fn print(scenario: &Scenario, report: &RunReport, options: &RunOptions) -> io::Result<()> {
    let summary = &report.summary;
    let mut stdout = anstream::stdout().lock();
    let run = |column: &str| {
        let cell = summary.runs.first().and_then(|run| run.get(column));
        cell.and_then(scenario::Cell::number).unwrap_or(0.0)
    };
    writeln!(
        stdout,
        "{}: {} on {} vertices with {} hosts; {} of {} s measured; {}",
        scenario.name(),
        summary.protocol,
        run("vertices"),
        run("hosts"),
        significant(summary.duration_s - summary.warm_up_s),
        significant(summary.duration_s),
        plural(summary.seeds.len(), "seed"),
    )?;
    let interval = format!("{} %", significant(summary.confidence * 100.0));
    let mut table = Table::new(&["", "mean", &interval, "least", "greatest", ""]);
    for (name, called, factor, unit) in ROWS {
        if let Some(estimate) = summary.measures.get(name) {
            let number = |value: f64| significant(value * factor);
            let interval = match (estimate.low, estimate.high) {
                (Some(low), Some(high)) => format!("{} … {}", number(low), number(high)),
                _ => "".into(),
            };
            table.row([
                (*called).into(),
                number(estimate.mean),
                interval,
                number(estimate.min),
                number(estimate.max),
                (*unit).into(),
            ]);
        }
    }
    table.write(&mut stdout)?;
    if scenario.is_judged() && report.broken.is_empty() {
        writeln!(stdout, "every promise was kept")?;
    }
    let speed = Speed::of(report, options.jobs);
    writeln!(
        stdout,
        "{} million events, {} million hops in {} s: {} million events/s, {} million hops/s of processor time",
        significant(report.events as f64 / 1e6),
        significant(report.hops as f64 / 1e6),
        significant(speed.wall_s),
        significant(speed.events_per_s / 1e6),
        significant(speed.hops_per_s / 1e6),
    )?;
    match &options.out {
        Some(directory) => writeln!(stdout, "results: {}", directory.display()),
        None => Ok(()),
    }
}

fn print_outline(
    scenario: &Scenario,
    outline: &Outline,
    seeds: &Range<u64>,
    json: bool,
) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if json {
        serde_json::to_writer(&mut stdout, outline)?;
        return writeln!(stdout);
    }
    writeln!(
        stdout,
        "{}: {} for {} s, seeds {}..{}\nnetwork (seed {}): {}, {}, {}\n{}, {}",
        scenario.name(),
        outline.protocol,
        outline.duration_s,
        seeds.start,
        seeds.end,
        seeds.start,
        plural(outline.vertices, "vertex"),
        plural(outline.links, "link"),
        plural(outline.hosts, "host"),
        plural(outline.sources, "source"),
        plural(outline.changes, "change"),
    )
}

fn plural(count: usize, noun: &str) -> String {
    match (count, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "vertex") => format!("{count} vertices"),
        _ => format!("{count} {noun}s"),
    }
}

/// The number with four significant digits, or fewer if these suffice.
fn significant(value: f64) -> String {
    let magnitude = value.abs().log10().floor();
    let decimals = match magnitude.is_finite() {
        true => (3.0 - magnitude).clamp(0.0, 9.0) as usize,
        false => 0,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn failed(error: RunError) -> Failure {
    match error {
        RunError::Scenario { error, .. } => explain(&error),
        RunError::Write(error) => cannot_write(&error),
        error => Failure::failed(error),
    }
}

fn cannot_write(error: &WriteError) -> Failure {
    Failure::failed(error)
        .help("name a directory that this user can write, with room for the results")
}

/// The failure for a wrong scenario: a usage error, with the place.
fn explain(error: &ScenarioError) -> Failure {
    let Some(place) = error.place() else {
        return Failure::usage(error).help(error.help());
    };
    Failure::usage(format!("{place}: {error}"))
        .help(error.help())
        .shown_in(&place.source.name, &place.source.text, place.span.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_enough() {
        for (value, text) in [
            (0.0, "0"),
            (99.95, "99.95"),
            (100.0, "100"),
            (1234567.0, "1234567"),
            (1.23456, "1.235"),
            (0.00123456, "0.001235"),
            (-0.5, "-0.5"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(significant(value), text);
        }
    }
}
