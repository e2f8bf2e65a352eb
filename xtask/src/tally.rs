//! How many tests passed, failed and were skipped, read from the lines that test runners print.

use std::fmt;
use std::ops::AddAssign;

/// Counts of tests. A check that runs no test runner (format, lint, …) counts as one test.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) passed: i64,
    pub(crate) failed: i64,
    pub(crate) skipped: i64,
}

impl Tally {
    pub(crate) const NONE: Self = Self {
        passed: 0,
        failed: 0,
        skipped: 0,
    };
    pub(crate) const ONE_PASSED: Self = Self {
        passed: 1,
        ..Self::NONE
    };
    pub(crate) const ONE_FAILED: Self = Self {
        failed: 1,
        ..Self::NONE
    };
    pub(crate) const ONE_SKIPPED: Self = Self {
        skipped: 1,
        ..Self::NONE
    };

    /// What `line` of a test runner's output adds to the counts.
    ///
    /// Most is said by the closing lines of libtest (unit, integration and doc tests) and of
    /// pytest. Two lines before libtest's correct what they will say: a live test that is ignored
    /// is counted where it is run, by the step `live`; and one that finds that it cannot run says
    /// `skipped:` and passes.
    pub(crate) fn of_line(line: &str) -> Self {
        let is_live =
            |reason: &str| reason.starts_with("live: ") || reason.starts_with("needs root");
        let ignored = line
            .strip_prefix("test ")
            .and_then(|line| line.split_once(" ... ignored, "));
        if ignored.is_some_and(|(_, reason)| is_live(reason)) {
            return Self {
                skipped: -1,
                ..Self::NONE
            };
        }
        if line.starts_with("skipped: ") {
            return Self {
                passed: -1,
                skipped: 1,
                ..Self::NONE
            };
        }
        Self::of_libtest(line)
            .or_else(|| Self::of_pytest(line))
            .unwrap_or(Self::NONE)
    }

    /// The counts in a closing line of libtest.
    fn of_libtest(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| {
            counts
                .split("; ")
                .find_map(|part| part.strip_suffix(what)?.trim().parse().ok())
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            skipped: count("ignored")?,
        })
    }

    /// The counts in a closing line of pytest: `3 passed, 1 skipped in 0.52s`, possibly between `=`
    /// signs. An error in setting up or collecting is a failure; a failure that was expected is a
    /// pass.
    fn of_pytest(line: &str) -> Option<Self> {
        let (counts, took) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
        let seconds = took.split_whitespace().next()?.strip_suffix('s')?;
        seconds.parse::<f64>().ok()?;
        let mut tally = Self::NONE;
        for part in counts.split(", ") {
            let (count, what) = part.split_once(' ')?;
            let count: i64 = count.parse().ok()?;
            match what {
                "passed" | "xfailed" => tally.passed += count,
                "failed" | "xpassed" | "error" | "errors" => tally.failed += count,
                "skipped" => tally.skipped += count,
                "deselected" | "warning" | "warnings" | "rerun" => {}
                _ => return None,
            }
        }
        Some(tally)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    /// The closing line of `cargo xtask test`; programs read it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Tally {
        let mut sum = Tally::NONE;
        for line in lines {
            sum += Tally::of_line(line);
        }
        sum
    }

    fn counts(passed: i64, failed: i64, skipped: i64) -> Tally {
        Tally {
            passed,
            failed,
            skipped,
        }
    }

    #[test]
    fn closing_lines_of_libtest_are_summed() {
        let lines = [
            "running 3 tests",
            "test ring::wire::golden ... ok",
            "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 1 filtered out; finished in 0.10s",
            "",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
            "test result: ok",
        ];
        assert_eq!(of(&lines), counts(13, 2, 3));
    }

    #[test]
    fn closing_lines_of_pytest_are_summed() {
        let lines = [
            "...s....F                                                                [100%]",
            "2 failed, 7 passed, 1 skipped, 3 warnings in 0.52s",
            "=================== 40 passed, 1 error, 2 xfailed in 75.10s (0:01:15) ===================",
            "4 passed in the end",
            "no tests ran in 0.01s",
            "FAILED tests/test_x.py::test_in_1.0s - 3 passed in vain",
        ];
        assert_eq!(of(&lines), counts(49, 3, 1));
    }

    #[test]
    fn a_live_test_is_counted_where_it_is_run() {
        let lines = [
            "test transfer ... ignored, live: needs root and network namespaces",
            "test wire::mtu ... ignored, needs root: makes network namespaces",
            "test role ... ignored, the part that runs inside a host",
            "test result: ok. 0 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ];
        assert_eq!(of(&lines), counts(0, 0, 1));
    }

    #[test]
    fn a_live_test_that_cannot_run_is_skipped_not_passed() {
        let lines = [
            "skipped: needs root to create network namespaces",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ];
        assert_eq!(of(&lines), counts(1, 0, 1));
    }

    #[test]
    fn the_closing_line_is_pinned() {
        let mut sum = Tally::ONE_PASSED;
        sum += Tally::ONE_SKIPPED;
        assert_eq!(sum.to_string(), "1 passed, 0 failed, 1 skipped");
    }
}
