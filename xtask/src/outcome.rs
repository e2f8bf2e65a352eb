//! What a step of `cargo xtask test` did, and the table of all of them.

use std::time::{Duration, Instant};

use crate::Failure;
use crate::exec::Finished;
use crate::tally::Tally;

/// What a step did.
pub(crate) struct Outcome {
    state: State,
    /// Why it failed or was skipped, or what else is worth a word.
    note: String,
    tally: Tally,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    Failed,
    Skipped,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

impl Outcome {
    pub(crate) fn checked(note: impl Into<String>) -> Self {
        Self {
            state: State::Ok,
            note: note.into(),
            tally: Tally::ONE_PASSED,
        }
    }

    pub(crate) fn failed(note: impl Into<String>) -> Self {
        Self {
            state: State::Failed,
            note: note.into(),
            tally: Tally::ONE_FAILED,
        }
    }

    pub(crate) fn skipped(why: impl Into<String>) -> Self {
        Self {
            state: State::Skipped,
            note: why.into(),
            tally: Tally::ONE_SKIPPED,
        }
    }
}

/// The outcome of a step whose tests a runner counted. A failure without a failed test (it does not
/// compile, it crashed, it hung) counts as one.
pub(crate) fn of_runner(finished: Finished, note: String) -> Outcome {
    let mut tally = finished.tally;
    let note = match finished.skipped.as_slice() {
        [] => note,
        skipped if note.is_empty() => format!("skipped: {}", skipped.join("; ")),
        skipped => format!("{note}; skipped: {}", skipped.join("; ")),
    };
    match finished.error {
        None if tally.failed == 0 => Outcome {
            state: State::Ok,
            note,
            tally,
        },
        error => {
            tally.failed = tally.failed.max(1);
            Outcome {
                state: State::Failed,
                note: error.unwrap_or(note),
                tally,
            }
        }
    }
}

/// What a step did, and how long it took.
pub(crate) struct StepReport {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

impl StepReport {
    /// Runs `step`, and says so.
    pub(crate) fn of(name: &'static str, about: &str, step: impl FnOnce() -> Outcome) -> Self {
        println!("\n== {name}: {about}");
        let begun = Instant::now();
        let outcome = step();
        let took = begun.elapsed();
        println!(
            "== {name}: {} after {:.1} s{}{}",
            outcome.state.word(),
            took.as_secs_f64(),
            if outcome.note.is_empty() { "" } else { ": " },
            outcome.note
        );
        Self {
            name,
            outcome,
            took,
        }
    }
}

/// Prints the table and, last, the line that programs read.
pub(crate) fn summarise(reports: &[StepReport], took: Duration) -> Result<(), Failure> {
    let mut sum = Tally::NONE;
    println!(
        "\n{:<9} {:<8} {:>8} {:>7} {:>7} {:>8}  note",
        "step", "state", "seconds", "passed", "failed", "skipped"
    );
    for StepReport {
        name,
        outcome,
        took,
    } in reports
    {
        sum += outcome.tally;
        println!(
            "{:<9} {:<8} {:>8.1} {:>7} {:>7} {:>8}  {}",
            name,
            outcome.state.word(),
            took.as_secs_f64(),
            outcome.tally.passed,
            outcome.tally.failed,
            outcome.tally.skipped,
            outcome.note
        );
    }
    println!("{:<9} {:<8} {:>8.1}\n", "total", "", took.as_secs_f64());
    println!("{sum}");
    if sum.failed == 0 {
        Ok(())
    } else {
        Err(Failure::Said(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_that_ends_badly_without_a_failed_test_counts_as_one() {
        let crashed = Finished {
            error: Some("signal 6".into()),
            tally: Tally::ONE_PASSED,
            crashed: 1,
            ..Finished::default()
        };
        let outcome = of_runner(crashed, String::new());
        assert!(outcome.state == State::Failed);
        assert_eq!((outcome.tally.passed, outcome.tally.failed), (1, 1));
        assert_eq!(outcome.note, "signal 6");
    }

    #[test]
    fn any_failed_test_fails_the_run() {
        let report = |outcome| StepReport {
            name: "x",
            outcome,
            took: Duration::ZERO,
        };
        assert!(summarise(&[report(Outcome::checked(""))], Duration::ZERO).is_ok());
        assert!(summarise(&[report(Outcome::skipped("why"))], Duration::ZERO).is_ok());
        let mixed = [
            report(Outcome::checked("")),
            report(Outcome::failed("broken")),
        ];
        assert!(summarise(&mixed, Duration::ZERO).is_err());
    }
}
