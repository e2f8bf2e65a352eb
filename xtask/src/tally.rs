//! How many tests passed, failed and were skipped, read from the lines that test runners print.

use std::fmt;
use std::ops::AddAssign;

/// Counts of tests. A check that runs no test runner (format, lint, …) counts as one test.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
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

    /// The counts in a closing line of libtest (unit, integration and doc tests); `None` for any other line.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
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

    #[test]
    fn closing_lines_of_libtest_are_read() {
        let ok = "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 1 filtered out; finished in 0.10s";
        assert_eq!(
            Tally::of_line(ok),
            Some(Tally {
                passed: 12,
                failed: 0,
                skipped: 3
            })
        );
        let failed = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s";
        assert_eq!(
            Tally::of_line(failed),
            Some(Tally {
                passed: 1,
                failed: 2,
                skipped: 0
            })
        );
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in [
            "test ring::wire::golden ... ok",
            "running 3 tests",
            "test result: ok",
            "",
        ] {
            assert_eq!(Tally::of_line(line), None, "{line}");
        }
    }

    #[test]
    fn the_closing_line_is_pinned() {
        let mut sum = Tally::ONE_PASSED;
        sum += Tally::ONE_SKIPPED;
        assert_eq!(sum.to_string(), "1 passed, 0 failed, 1 skipped");
    }
}
