//! Tests that fail are run once more, and what passes then is named.
//!
//! The tests that start daemons share the machine with whatever else runs on it: a test can miss
//! what it waits for through no fault of the code. One that passes at the second try counts as
//! passed. It is named in the summary, since it is a fault all the same: of the test, or of the
//! code.

use crate::exec::Finished;

/// With more tests than this that failed it is no chance, and none is run again.
const AGAIN_MAX: usize = 5;

/// What `first` says, and `again` of the tests that failed in it, whose names it gets; with a note
/// of what passed then.
pub(crate) fn try_again(
    first: Finished,
    again: impl FnOnce(&[String]) -> Finished,
) -> (Finished, String) {
    if first.failed.is_empty() || first.failed.len() > AGAIN_MAX {
        return (first, String::new());
    }
    let again = again(&first.failed);
    judge(first, &again)
}

/// What both runs together say, and a note of what passed in the second one.
fn judge(mut first: Finished, again: &Finished) -> (Finished, String) {
    if first.crashed > 0 || (again.error.is_some() && again.failed.is_empty()) {
        return (first, String::new());
    }
    let (fails, passes): (Vec<String>, Vec<String>) = first
        .failed
        .into_iter()
        .partition(|name| again.failed.contains(name));
    let turned = i64::try_from(passes.len()).expect("it is small");
    first.tally.failed -= turned;
    first.tally.passed += turned;
    first.error = match fails.as_slice() {
        [] => None,
        fails => Some(format!("failed twice: {}", fails.join(", "))),
    };
    first.failed = fails;
    let note = match passes.as_slice() {
        [] => String::new(),
        passes => format!("passed at the second try: {}", passes.join(", ")),
    };
    (first, note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    fn finished(passed: i64, failed: &[&str]) -> Finished {
        let count = i64::try_from(failed.len()).expect("it is small");
        Finished {
            error: (count > 0).then(|| "exit status: 101".into()),
            tally: Tally {
                passed,
                failed: count,
                skipped: 0,
            },
            skipped: Vec::new(),
            failed: failed.iter().map(|&name| name.into()).collect(),
            crashed: 0,
        }
    }

    #[test]
    fn what_passes_at_the_second_try_is_passed_and_named() {
        let (sum, note) = judge(finished(8, &["a", "b"]), &finished(2, &[]));
        assert_eq!((sum.tally.passed, sum.tally.failed), (10, 0));
        assert_eq!(sum.error, None);
        assert_eq!(note, "passed at the second try: a, b");
    }

    #[test]
    fn what_fails_twice_is_failed_and_named() {
        let (sum, note) = judge(finished(8, &["a", "b"]), &finished(1, &["b"]));
        assert_eq!((sum.tally.passed, sum.tally.failed), (9, 1));
        assert_eq!(sum.error.as_deref(), Some("failed twice: b"));
        assert_eq!(note, "passed at the second try: a");
    }

    #[test]
    fn a_second_try_that_could_not_run_changes_nothing() {
        let broken = Finished {
            error: Some("signal 6".into()),
            ..finished(0, &[])
        };
        let (sum, note) = judge(finished(8, &["a"]), &broken);
        assert_eq!((sum.tally.passed, sum.tally.failed), (8, 1));
        assert!(sum.error.is_some() && note.is_empty());
    }

    #[test]
    fn beside_a_runner_that_crashed_no_second_try_counts() {
        let crashed = Finished {
            crashed: 1,
            ..finished(8, &["a"])
        };
        let (sum, _) = judge(crashed, &finished(1, &[]));
        assert_eq!((sum.tally.passed, sum.tally.failed), (8, 1));
        assert!(sum.error.is_some());
    }
}
