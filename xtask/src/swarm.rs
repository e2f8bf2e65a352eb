//! `cargo xtask swarm`, `explore`, `rates` and `soak`: build the suite's programs once, hand the
//! options over; and the part of the swarm that every change must pass.

use std::ops::Range;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::exec::{self, Finished};
use crate::tally::Tally;
use crate::{Failure, exec::cargo};

/// The profile of the swarm: optimised, with overflow checks and debug assertions.
const PROFILE: &str = "swarm";
/// How many seeds every change must pass, over all protocols together.
const SEEDS: u64 = 5_000;
/// Which share of them, and of the time, the first protocol gets that the swarm lists.
const FIRST_SHARE: f64 = 0.4;
/// How many seeds tell how fast a swarm is.
const SAMPLE: u64 = 32;
/// How long one part of a share may take before something hangs; it is meant to take a minute at
/// most.
const PART_TIME_MAX: Duration = Duration::from_secs(900);
/// How long the build may take before something hangs.
const BUILD_TIME_MAX: Duration = Duration::from_secs(900);
/// Within how many seeds each planted bug must be caught.
const PLANT_SEEDS: u64 = 2_000;
/// How long the search for one planted bug may take.
const PLANT_TIME_MAX: Duration = Duration::from_secs(600);

/// `cargo xtask swarm …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    exec::hand_over(build())?;
    exec::hand_over(program(PROFILE, "swarm", args))
}

/// `cargo xtask explore …`
pub(crate) fn explore(args: &[String]) -> Result<(), Failure> {
    exec::hand_over(build_of("explore"))?;
    exec::hand_over(program(PROFILE, "explore", args))
}

/// `cargo xtask rates …`
pub(crate) fn rates(args: &[String]) -> Result<(), Failure> {
    exec::hand_over(build_of("rates"))?;
    exec::hand_over(program(PROFILE, "rates", args))
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
    build_of("swarm")
}

/// The command that builds a program of the suite for the simulator.
fn build_of(name: &'static str) -> Command {
    cargo([
        "build",
        "--profile",
        PROFILE,
        "--package",
        "groupcast-suite",
        "--no-default-features",
        "--bin",
        name,
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

/// Builds the swarm and runs [`SEEDS`] seeds in all, from 0, over everything that it lists: the
/// first gets [`FIRST_SHARE`] of them, the others share the rest. The same seeds every time, so
/// what they find is found again. Where they do not fit into `budget`, as the first few of each
/// tell, as many run as fit. Returns how many ran.
pub(crate) fn within(budget: Duration) -> (Finished, u64) {
    let mut sum = exec::run(build(), BUILD_TIME_MAX);
    if sum.error.is_some() {
        return (sum, 0);
    }
    let names = match listed("--list-protocols") {
        Ok(lines) => lines.concat(),
        Err(error) => {
            sum.error = Some(error);
            return (sum, 0);
        }
    };
    let others = names.len().saturating_sub(1).max(1) as f64;
    let (mut errors, mut total) = (Vec::new(), 0);
    for (index, name) in names.iter().enumerate() {
        let share = match index {
            0 => FIRST_SHARE,
            _ => (1.0 - FIRST_SHARE) / others,
        };
        let seeds = (SEEDS as f64 * share).round() as u64;
        let (finished, ran) = share_of(name, seeds, budget.mul_f64(share));
        sum.tally += finished.tally;
        errors.extend(finished.error);
        total += ran;
    }
    sum.error = (!errors.is_empty()).then(|| errors.join("; "));
    (sum, total)
}

/// Runs `most` seeds over `name`, or as many as fit into `budget`: a part at a time, since the
/// machine may have become slower meanwhile.
fn share_of(name: &str, most: u64, budget: Duration) -> (Finished, u64) {
    let jobs = jobs();
    let seeds = |range: Range<u64>| {
        let range = format!("{}..{}", range.start, range.end);
        let args = ["--protocol", name, "--seeds", &range, "--jobs", &jobs];
        exec::run(swarm(&args), PART_TIME_MAX)
    };
    let begun = Instant::now();
    let mut end = SAMPLE.min(most);
    let mut finished = seeds(0..end);
    while finished.error.is_none() && end < most {
        let part = part_of(end, begun.elapsed(), budget);
        if part == 0 {
            break;
        }
        let next = (end + part).min(most);
        let ran = seeds(end..next);
        finished.tally += ran.tally;
        finished.error = ran.error;
        end = next;
    }
    (finished, end)
}

/// How many seeds to run next where `ran` took `elapsed` of `budget`: what fits into half of the
/// rest, and all of it when that is little.
fn part_of(ran: u64, elapsed: Duration, budget: Duration) -> u64 {
    let left = budget.saturating_sub(elapsed).as_secs_f64();
    let fits = ran as f64 / elapsed.as_secs_f64().max(1e-3) * left;
    match fits as u64 {
        few if few <= 2 * SAMPLE => few,
        many => many / 2,
    }
}

/// Checks that the swarm catches each bug that can be planted.
pub(crate) fn canaries() -> Finished {
    let mut sum = exec::run(build(), BUILD_TIME_MAX);
    if sum.error.is_some() {
        return sum;
    }
    let plants = match listed("--list-plants") {
        Ok(plants) => plants,
        Err(error) => {
            sum.error = Some(error);
            return sum;
        }
    };
    let jobs = jobs();
    let range = format!("0..{PLANT_SEEDS}");
    let mut missed = Vec::new();
    for words in plants {
        let [plant, protocol] = &words[..] else {
            sum.error = Some(format!(
                "`{}` is no planted bug of a protocol",
                words.join(" ")
            ));
            return sum;
        };
        let args = [
            "--protocol",
            protocol,
            "--seeds",
            &range,
            "--jobs",
            &jobs,
            "--plant",
            plant,
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

/// The words of each line that the swarm lists.
fn listed(option: &str) -> Result<Vec<Vec<String>>, String> {
    let mut list = swarm(&[option]);
    let output = list
        .output()
        .map_err(|error| format!("cannot run `{}`: {error}", exec::shown(&list)))?;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Vec<String>> = text.lines().map(words).collect();
    if !output.status.success() || lines.is_empty() {
        return Err(format!("`{}` lists nothing", exec::shown(&list)));
    }
    Ok(lines)
}

fn jobs() -> String {
    exec::processors().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_into_the_budget_and_come_to_an_end() {
        let budget = Duration::from_secs(60);
        let (mut ran, mut elapsed, mut parts) = (SAMPLE, Duration::from_secs(2), 0);
        loop {
            let part = part_of(ran, elapsed, budget);
            if part == 0 {
                break;
            }
            // Sixteen a second all along.
            ran += part;
            elapsed += Duration::from_secs_f64(part as f64 / 16.0);
            parts += 1;
        }
        assert!(elapsed <= budget && elapsed > Duration::from_secs(55));
        assert!(parts < 12, "{parts} parts");
        assert_eq!(part_of(SAMPLE, Duration::from_secs(61), budget), 0);
    }
}
