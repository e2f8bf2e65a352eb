//! `cargo xtask swarm` and `cargo xtask soak`: build the suite's programs once, hand the options
//! over; and the part of the swarm that every change must pass.

use std::ops::Range;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::exec::{self, Finished};
use crate::tally::Tally;
use crate::{Failure, exec::cargo};

/// The profile of the swarm: optimised, with overflow checks and debug assertions.
const PROFILE: &str = "swarm";
/// How many seeds tell how fast the swarm is.
const SAMPLE: u64 = 64;
/// How long the build may take before something hangs.
const BUILD_TIME_MAX: Duration = Duration::from_secs(900);
/// Within how many seeds each planted bug must be caught.
const PLANT_SEEDS: u64 = 2_000;
/// How long the search for one planted bug may take.
const PLANT_TIME_MAX: Duration = Duration::from_secs(240);

/// `cargo xtask swarm …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    exec::hand_over(build())?;
    exec::hand_over(program(PROFILE, "swarm", args))
}

/// `cargo xtask soak …`
pub(crate) fn soak(args: &[String]) -> Result<(), Failure> {
    let release = ["build", "--release"];
    exec::hand_over(cargo(release.into_iter().chain(["--package", "groupcast"])))?;
    // It calls the suite's other programs.
    let suite = ["--package", "groupcast-suite", "--bins"];
    exec::hand_over(cargo(release.into_iter().chain(suite)))?;
    exec::hand_over(program("release", "soak", args))
}

/// The command that builds the swarm.
fn build() -> Command {
    cargo([
        "build",
        "--profile",
        PROFILE,
        "--package",
        "groupcast-suite",
        "--no-default-features",
        "--bin",
        "swarm",
    ])
}

/// Builds the swarm; where it is.
pub(crate) fn built() -> Result<std::path::PathBuf, Failure> {
    exec::hand_over(build())?;
    Ok(exec::built(PROFILE, "swarm"))
}

fn program(profile: &str, name: &str, args: &[String]) -> Command {
    exec::command(exec::built(profile, name), args)
}

fn swarm(args: &[&str]) -> Command {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    program(PROFILE, "swarm", &args)
}

/// Builds the swarm and runs as many seeds, from 0, as fit into `budget`: the first few tell how
/// many that are. The same seeds every time, so what they find is found again. Returns how many.
pub(crate) fn within(budget: Duration) -> (Finished, u64) {
    let mut finished = exec::run(build(), BUILD_TIME_MAX);
    if finished.error.is_some() {
        return (finished, 0);
    }
    let jobs = jobs();
    let seeds = |range: Range<u64>| {
        let range = format!("{}..{}", range.start, range.end);
        let time_max = budget * 2 + Duration::from_secs(60);
        exec::run(swarm(&["--seeds", &range, "--jobs", &jobs]), time_max)
    };
    let begun = Instant::now();
    finished = seeds(0..SAMPLE);
    let sampled = begun.elapsed();
    if finished.error.is_some() || sampled >= budget {
        return (finished, SAMPLE);
    }
    let rate = SAMPLE as f64 / sampled.as_secs_f64();
    let end = SAMPLE + (rate * (budget - sampled).as_secs_f64()) as u64;
    if end > SAMPLE {
        finished = seeds(SAMPLE..end);
    }
    (finished, end)
}

/// Checks that the swarm catches each bug that can be planted.
pub(crate) fn canaries() -> Finished {
    let mut sum = exec::run(build(), BUILD_TIME_MAX);
    if sum.error.is_some() {
        return sum;
    }
    let plants = match plants() {
        Ok(plants) => plants,
        Err(error) => {
            sum.error = Some(error);
            return sum;
        }
    };
    let jobs = jobs();
    let range = format!("0..{PLANT_SEEDS}");
    let mut missed = Vec::new();
    for plant in plants {
        let args = [
            "--seeds",
            &range,
            "--jobs",
            &jobs,
            "--plant",
            &plant,
            "--expect-violation",
        ];
        match exec::run(swarm(&args), PLANT_TIME_MAX).error {
            None => sum.tally += Tally::ONE_PASSED,
            Some(error) => {
                sum.tally += Tally::ONE_FAILED;
                missed.push(error);
            }
        }
    }
    if !missed.is_empty() {
        sum.error = Some(missed.join("; "));
    }
    sum
}

/// Names of the bugs that can be planted, as the swarm lists them, one a line.
fn plants() -> Result<Vec<String>, String> {
    let mut list = swarm(&["--list-plants"]);
    let output = list
        .output()
        .map_err(|error| format!("cannot run `{}`: {error}", exec::shown(&list)))?;
    let names: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect();
    if !output.status.success() || names.is_empty() {
        return Err(format!("`{}` names no planted bug", exec::shown(&list)));
    }
    Ok(names)
}

fn jobs() -> String {
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .to_string()
}
