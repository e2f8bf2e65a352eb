//! `cargo xtask swarm` and `cargo xtask soak`: build the suite's programs once, hand the options over; and the part of
//! the swarm that every change must pass.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::exec::{self, Finished};
use crate::tally::Tally;
use crate::{Failure, exec::cargo};

/// The profile of the swarm: optimised, with overflow checks and debug assertions.
const PROFILE: &str = "swarm";
/// How many seeds a chunk has: small enough that the time is kept, large enough that both cores stay busy.
const CHUNK: u64 = 100;
/// How long a chunk may take before something hangs.
const CHUNK_TIME_MAX: Duration = Duration::from_secs(300);
/// Within how many seeds each planted bug must be caught.
const PLANT_SEEDS: u64 = 2_000;
/// How long the search for one planted bug may take.
const PLANT_TIME_MAX: Duration = Duration::from_secs(240);

/// `cargo xtask swarm …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    exec::hand_over(build(PROFILE, "swarm"))?;
    exec::hand_over(program(PROFILE, "swarm", args))
}

/// `cargo xtask soak …`
pub(crate) fn soak(args: &[String]) -> Result<(), Failure> {
    exec::hand_over(cargo(["build", "--release", "--bin", "groupcast"]))?;
    exec::hand_over(build("release", "soak"))?;
    exec::hand_over(program("release", "soak", args))
}

/// The command that builds the suite's program `name`.
pub(crate) fn build(profile: &str, name: &str) -> Command {
    cargo([
        "build",
        "--profile",
        profile,
        "--package",
        "groupcast-suite",
        "--bin",
        name,
    ])
}

fn program(profile: &str, name: &str, args: &[String]) -> Command {
    exec::command(exec::built(profile, name), args)
}

fn swarm(args: &[&str]) -> Command {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    program(PROFILE, "swarm", &args)
}

/// Builds the swarm and runs seed after seed from 0, chunk by chunk, until `budget` is used up. The same seeds every
/// time: what they find is found again.
pub(crate) fn within(budget: Duration) -> (Finished, u64) {
    let mut finished = exec::run(build(PROFILE, "swarm"), Duration::from_secs(900));
    if finished.error.is_some() {
        return (finished, 0);
    }
    let jobs = jobs();
    let begun = Instant::now();
    let mut seeds = 0;
    while finished.error.is_none() && (seeds == 0 || begun.elapsed() < budget) {
        let range = format!("{seeds}..{}", seeds + CHUNK);
        finished = exec::run(swarm(&["--seeds", &range, "--jobs", &jobs]), CHUNK_TIME_MAX);
        seeds += CHUNK;
    }
    finished.tally = Tally::NONE;
    (finished, seeds)
}

/// Checks that the swarm catches each bug that can be planted.
pub(crate) fn canaries() -> Finished {
    let mut sum = exec::run(build(PROFILE, "swarm"), Duration::from_secs(900));
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
    let (jobs, range) = (jobs(), format!("0..{PLANT_SEEDS}"));
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
