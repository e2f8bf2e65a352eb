//! Tasks of the groupcast workspace: `cargo xtask TASK`.
//!
//! One file a task; [`exec`] runs commands for them, [`setup`] knows what they need from the
//! machine. Nothing here is part of the product.

mod again;
mod arrows;
mod behaviour;
mod bench;
mod comments;
mod exec;
mod families;
mod fuzz;
mod no_std;
mod outcome;
mod programs;
mod python;
mod setup;
mod swarm;
mod tally;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
Tasks of the groupcast workspace

Usage: cargo xtask TASK [OPTIONS]

  test                 install what is needed and run every test that a change must pass
    --only STEP,...      only these steps      --skip STEP,...   all but these
    --list               name the steps        --swarm-seconds N (default 150)
  arrows               check which crate names which, that core and protocols stay no_std, and that the
                       registry lists every protocol
  behaviour            compare what the protocols do with what was recorded: trace hashes of seeds, captures of
                       bulk transfers, data of the lab's rows
    --record             record it anew              --only TEXT        only entries that begin so
    --swarm FILE, --groupcast FILE                   observe these builds
  swarm --seeds A..B [--jobs N] [...]
                       run the simulator's swarm over seeds; options go through to it
  explore [--losses N] [--crashes N] [...]
                       run every schedule of three members and a few messages; options go through
  rates [--cells A..B] [--half tuning|judging|both] [--rates A,B] [...]
                       what a transfer leaves to TCP-like flows on a shared link, in drawn cells; options go through
  soak [WHAT] [...]    run the long live tests, or one of failover, exclusion, forged, transfer, files, together, small-files,
                       shares, farewell, large, bus, people, chaos, rings, hostile, flood, insider, races and rekey; options
                       go through
                       (files, together: --rounds N --seed N; chaos, rings: --minutes N --hosts N --seed N; bus:
                       --minutes N --bus-clients N --seed N; exclusion: --minutes N --compilers N --real-time;
                       hostile: --clients N --seconds N; flood: --kind K --seconds N --flood-rate N; insider:
                       --minutes N --seed N; races: --rounds N --against FILE; rekey: --times N)
  bench                measure the ring: links, 3, 5 and 8 hosts, daemon and library, latency, small
                       messages, loss, beside the raw limit; one table (docs/performance.md)
    --quick              3 hosts, one run each       --only PART,...   only these parts
    --runs N (default 3) --duration S (default 2)    --binary FILE     measure this build
    --out FILE.json      keep results, add to those  --show            only print its table
  bench --instructions [--keep]
                       count instructions of deterministic work under callgrind, and compare them to
                       the baseline, or write that anew
  bench --peers [--hosts N] [--link L] [--runs N] [--duration S] [--out FILE] [--show]
                       Corosync and JGroups beside the ring, on the same hosts
  fuzz [TARGET [--seconds N] [...]]
                       fuzz one target (default 60 s); without a target, name them

Exit codes: 0 done, 1 failed, 2 usage.
";

/// Why a task ended without success.
enum Failure {
    /// It was called wrongly: what to do instead.
    Usage(String),
    /// It failed: what went wrong.
    Failed(String),
    /// The program that the options went through to has said why; its exit code.
    Said(u8),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
        Err(Failure::Said(code)) => ExitCode::from(code),
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}\nTry `cargo xtask help`.");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<(), Failure> {
    let Some((task, rest)) = args.split_first() else {
        return Err(Failure::Usage("no task was named".into()));
    };
    match task.as_str() {
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        "test" => test::task(rest),
        "arrows" => arrows(rest),
        "behaviour" => behaviour::task(rest),
        "swarm" => swarm::task(rest),
        "explore" => swarm::explore(rest),
        "rates" => swarm::rates(rest),
        "soak" => swarm::soak(rest),
        "bench" => bench::task(rest),
        "fuzz" => fuzz::task(rest),
        other => Err(Failure::Usage(format!("there is no task `{other}`"))),
    }
}

fn arrows(args: &[String]) -> Result<(), Failure> {
    if let Some(arg) = args.first() {
        return Err(Failure::Usage(format!(
            "`arrows` takes no argument, got `{arg}`"
        )));
    }
    let breaches = breaches()?;
    if breaches.is_empty() {
        println!(
            "the arrows hold; core and protocols are no_std; every protocol is in the registry"
        );
        return Ok(());
    }
    Err(Failure::Failed(breaches.join("\n       ")))
}

/// All that breaks the structure of the workspace.
fn breaches() -> Result<Vec<String>, String> {
    let mut breaches = arrows::check()?;
    breaches.extend(no_std::check()?);
    breaches.extend(families::check()?);
    Ok(breaches)
}

/// The number that follows the option `flag`.
fn number(flag: &str, value: &str) -> Result<u64, Failure> {
    value
        .parse()
        .map_err(|_| Failure::Usage(format!("`{flag}` takes a number of seconds, not `{value}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_usage_error(args: &[&str]) -> bool {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        matches!(run(&args), Err(Failure::Usage(_)))
    }

    #[test]
    fn wrong_calls_are_usage_errors() {
        for args in [
            &[][..],
            &["tests"],
            &["arrows", "now"],
            &["test", "--onyl", "lint"],
            &["test", "--only"],
            &["test", "--only", "no-such-step"],
            &["test", "--swarm-seconds", "soon"],
            &["fuzz", "no-such-target"],
            &["fuzz", "node", "--seconds", "x"],
            &["fuzz", "node", "--seconds"],
        ] {
            assert!(is_usage_error(args), "{args:?}");
        }
    }
}
