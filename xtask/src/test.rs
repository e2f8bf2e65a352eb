//! `cargo xtask test`: every test that a change must pass, as one list of steps.
//!
//! A step that fails does not stop the others, so that one run says all. Each profile is built
//! once: the tests' for the tests, the swarm's for the swarm, the release for the demo and the live
//! tests. To add a step (another language's bindings, another protocol), write its function and add
//! a line to [`STEPS`].

use std::time::{Duration, Instant};

use crate::again::try_again;
use crate::exec::{self, Finished, cargo};
use crate::outcome::{Outcome, StepReport, of_runner, summarise};
use crate::tally::Tally;
use crate::{Failure, fuzz, programs, python, setup, swarm};

/// How long the swarms of all protocols run at most, unless told otherwise. With the other steps it
/// stays below 30 minutes on two cores.
const SWARM_BUDGET: Duration = Duration::from_secs(150);
/// How long one command of a step may take before something hangs.
///
/// Far above what it takes, with all that it builds, on a machine that has other things to do.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(1_800);

/// How long the demo may take before something hangs.
const DEMO_TIME_MAX: Duration = Duration::from_secs(60);

/// One step.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Options) -> Outcome,
}

const STEPS: &[Step] = &[
    Step {
        name: "setup",
        about: "install what the other steps call",
        run: |_| match setup::install() {
            Ok(note) => Outcome::checked(note),
            Err(error) => Outcome::failed(error),
        },
    },
    Step {
        name: "format",
        about: "rustfmt; comments end at column 100",
        run: |_| format(),
    },
    Step {
        name: "arrows",
        about: "which crate names which; no_std",
        run: |_| arrows(),
    },
    Step {
        name: "lint",
        about: "clippy on everything, the fuzz targets too; warnings are errors",
        run: |_| lint(),
    },
    Step {
        name: "deny",
        about: "licences, sources and advisories of all that we depend on",
        run: |_| deny(),
    },
    Step {
        name: "tests",
        about: "unit, scenario and doc tests, fuzz corpus",
        run: |_| tests(),
    },
    Step {
        name: "docs",
        about: "documentation without warnings",
        run: |_| docs(),
    },
    Step {
        name: "swarm",
        about: "seeded faults in the simulator",
        run: swarm_step,
    },
    Step {
        name: "canaries",
        about: "every planted bug is caught",
        run: |_| {
            let finished = swarm::canaries();
            let note = format!("{} bugs", finished.tally.passed);
            of_runner(finished, note)
        },
    },
    Step {
        name: "demo",
        about: "the whole life of a group, real sockets",
        run: |_| demo(),
    },
    Step {
        name: "python",
        about: "the Python packages, in an environment of their own",
        run: |_| python_package(),
    },
    Step {
        name: "live",
        about: "daemons in network namespaces",
        run: |_| live(),
    },
];

/// Doc tests are built and run by themselves.
const DOC_TESTS: &[&str] = &["test", "--workspace", "--no-fail-fast", "--doc"];

/// The live tests, by the names of their targets. Of the whole workspace: one package's tests alone
/// would have other features of the same libraries, and build them again.
const LIVE: &[&str] = &["test", "--workspace", "--no-fail-fast", "--test", "live*"];
/// The tests that need namespaces, one at a time: they measure times. What they measured is shown
/// by `--show-output` behind these.
const LIVE_ALONE: &[&str] = &["--ignored", "--test-threads=1", "--skip=waiting::"];
/// Those of them that wait nearly all their time, beside each other.
const LIVE_WAITING: &[&str] = &["--ignored", "--test-threads=4", "waiting::"];

/// `cargo xtask test …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    let options = Options::parse(args)?;
    if options.list {
        for step in STEPS {
            println!("{:<9} {}", step.name, step.about);
        }
        return Ok(());
    }
    let begun = Instant::now();
    let reports: Vec<StepReport> = STEPS
        .iter()
        .filter(|step| options.wants(step.name))
        .map(|step| StepReport::of(step.name, step.about, || (step.run)(&options)))
        .collect();
    summarise(&reports, begun.elapsed())
}

/// What the caller asked for.
struct Options {
    /// The steps to run; none: all.
    only: Vec<String>,
    /// The steps to leave out.
    skip: Vec<String>,
    /// Name the steps, and run none.
    list: bool,
    /// How long the swarms run at most.
    swarm_budget: Duration,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, Failure> {
        let mut options = Self {
            only: Vec::new(),
            skip: Vec::new(),
            list: false,
            swarm_budget: SWARM_BUDGET,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .ok_or_else(|| Failure::Usage(format!("`{arg}` needs a value")))
            };
            match arg.as_str() {
                "--list" => options.list = true,
                "--only" => options.only = steps(value()?)?,
                "--skip" => options.skip = steps(value()?)?,
                "--swarm-seconds" => {
                    options.swarm_budget = Duration::from_secs(crate::number(arg, value()?)?);
                }
                other => {
                    return Err(Failure::Usage(format!("`test` has no option `{other}`")));
                }
            }
        }
        Ok(options)
    }

    fn wants(&self, name: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|wanted| wanted == name);
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }
}

/// The names of steps in `list`, all of them known.
fn steps(list: &str) -> Result<Vec<String>, Failure> {
    list.split(',')
        .map(|name| {
            if STEPS.iter().any(|step| step.name == name) {
                Ok(name.to_owned())
            } else {
                let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
                Err(Failure::Usage(format!(
                    "there is no step `{name}`; there are: {}",
                    known.join(", ")
                )))
            }
        })
        .collect()
}

fn format() -> Outcome {
    match exec::run(cargo(["fmt", "--all", "--check"]), COMMAND_TIME_MAX).error {
        None => judged(crate::comments::check()),
        Some(error) => Outcome::failed(error),
    }
}

fn arrows() -> Outcome {
    judged(crate::breaches())
}

/// A step that finds what breaks a rule of ours.
fn judged(breaches: Result<Vec<String>, String>) -> Outcome {
    match breaches {
        Ok(breaches) if breaches.is_empty() => Outcome::checked(""),
        Ok(breaches) => Outcome::failed(breaches.join("; ")),
        Err(error) => Outcome::failed(error),
    }
}

fn lint() -> Outcome {
    let mut clippy = cargo(["clippy", "--locked", "--workspace", "--all-targets"]);
    let note = match setup::found("c++") {
        Some(_) => {
            clippy.args(["--features", fuzz::FEATURE]);
            ""
        }
        None => "without the fuzz targets: libFuzzer is C++ and there is no c++ here",
    };
    clippy.args(["--", "-D", "warnings"]);
    match exec::run(clippy, COMMAND_TIME_MAX).error {
        None => Outcome::checked(note),
        Some(error) => Outcome::failed(error),
    }
}

/// What `deny.toml` asks of our dependencies. The list of advisories is somebody else's, on the
/// network: without it the rest is checked, and the note says so.
fn deny() -> Outcome {
    if setup::found("cargo-deny").is_none() {
        return Outcome::skipped("there is no cargo-deny here: `cargo install cargo-deny`");
    }
    let fetch = exec::run(cargo(["deny", "fetch", "db"]), COMMAND_TIME_MAX);
    let mut check = vec!["deny", "check", "licenses", "bans", "sources"];
    let note = match fetch.error {
        None => {
            check.push("advisories");
            ""
        }
        Some(_) => "without advisories: their list cannot be fetched",
    };
    match exec::run(cargo(&check), COMMAND_TIME_MAX).error {
        None => Outcome::checked(note),
        Some(error) => Outcome::failed(error),
    }
}

fn tests() -> Outcome {
    let programs = match programs::built(COMMAND_TIME_MAX) {
        Ok(programs) => programs,
        Err(error) => return Outcome::failed(error),
    };
    let each = programs::run(&programs, COMMAND_TIME_MAX);
    let failed: Vec<Vec<String>> = each.iter().map(|it| it.failed.clone()).collect();
    let all = each.into_iter().reduce(Finished::and).unwrap_or_default();
    let (tests, note) = try_again(all, |_| {
        let mut again = Finished::default();
        for (program, failed) in programs.iter().zip(&failed) {
            if !failed.is_empty() {
                again = again.and(program.again(failed, COMMAND_TIME_MAX));
            }
        }
        again
    });
    let docs = exec::run(cargo(DOC_TESTS), COMMAND_TIME_MAX);
    of_runner(tests.and(docs), note)
}

fn docs() -> Outcome {
    let mut doc = cargo(["doc", "--workspace", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    match exec::run(doc, COMMAND_TIME_MAX).error {
        None => Outcome::checked(""),
        Some(error) => Outcome::failed(error),
    }
}

fn swarm_step(options: &Options) -> Outcome {
    let (finished, seeds) = swarm::within(options.swarm_budget);
    match finished.error {
        None => Outcome::checked(format!("{seeds} seeds")),
        Some(error) => Outcome::failed(error),
    }
}

/// Builds the `groupcast` that the demo, the Python package and the live tests run.
fn release() -> Result<(), String> {
    let build = cargo(["build", "--release", "--bin", "groupcast"]);
    exec::run(build, COMMAND_TIME_MAX).error.map_or(Ok(()), Err)
}

fn demo() -> Outcome {
    if let Err(error) = release() {
        return Outcome::failed(error);
    }
    let demo = exec::command(exec::built("release", "groupcast"), ["demo"]);
    match exec::run(demo, DEMO_TIME_MAX).error {
        None => Outcome::checked(""),
        Some(error) => Outcome::failed(error),
    }
}

/// The checks of the Python packages, each one test, and the tests of the lab's and of the
/// applications at the bus.
fn python_package() -> Outcome {
    let python = match python::environment() {
        Ok(python) => python,
        Err(python::Lack::Absent(why)) => return Outcome::skipped(why),
        Err(python::Lack::Broken(error)) => return Outcome::failed(error),
    };
    if let Err(error) = release() {
        return Outcome::failed(error);
    }
    let [lab, applications] = python.tests();
    let lab = exec::run(lab, COMMAND_TIME_MAX);
    let mut sum = lab.and(exec::run(applications, COMMAND_TIME_MAX));
    for check in python.checks() {
        let error = exec::run(check, COMMAND_TIME_MAX).error;
        sum.tally += match error {
            None => Tally::ONE_PASSED,
            Some(_) => Tally::ONE_FAILED,
        };
        sum.error = sum.error.or(error);
    }
    of_runner(sum, String::new())
}

fn live() -> Outcome {
    if let Some(why) = setup::live_obstacle() {
        return Outcome::skipped(why);
    }
    if let Err(error) = release() {
        return Outcome::failed(error);
    }
    let run = |which: &[&str]| {
        let live = |more: &[String]| {
            let mut live = cargo(LIVE);
            live.arg("--").args(which).args(more);
            exec::run(live, COMMAND_TIME_MAX)
        };
        try_again(live(&[]), |failed| {
            live(&[&["--exact".to_owned()], failed].concat())
        })
    };
    let ((alone, note), (waiting, more)) = (run(LIVE_ALONE), run(LIVE_WAITING));
    let notes = [note, more];
    let notes = notes.into_iter().filter(|note| !note.is_empty());
    of_runner(alone.and(waiting), notes.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Option<Options> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Options::parse(&args).ok()
    }

    #[test]
    fn only_and_skip_choose_steps() {
        let options = parsed(&["--only", "lint,tests", "--skip", "tests"]).expect("it is valid");
        assert!(options.wants("lint"));
        assert!(!options.wants("tests") && !options.wants("docs"));
        assert!(parsed(&[]).expect("it is valid").wants("docs"));
    }

    #[test]
    fn names_of_steps_are_told_apart() {
        for (index, step) in STEPS.iter().enumerate() {
            assert!(STEPS[..index].iter().all(|other| other.name != step.name));
        }
    }
}
