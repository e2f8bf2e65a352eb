//! A verdict: claims, what was measured for each, and whether they held.

use serde::{Deserialize, Serialize};

/// What a judge says of a run.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The claims, each judged. All must hold.
    pub checks: Vec<Check>,
    /// What a reader should know beside: slips of the paper, reasons looked for, limits of the run.
    pub notes: Vec<String>,
}

/// One claim and whether it held.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// Whether it held.
    pub held: bool,
    /// What was claimed, with its bound.
    pub claim: String,
    /// What came out.
    pub measured: String,
}

impl Verdict {
    /// A verdict without claims, which does not pass.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a claim, and whether it held.
    pub fn check(&mut self, held: bool, claim: impl Into<String>, measured: impl Into<String>) {
        self.checks.push(Check {
            held,
            claim: claim.into(),
            measured: measured.into(),
        });
    }

    /// Adds what a reader should know beside.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Whether every claim held. A verdict without a claim says nothing, so it does not pass.
    pub fn passed(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.held)
    }

    /// `pass` or `fail`.
    pub fn word(&self) -> &'static str {
        if self.passed() { "pass" } else { "fail" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_claim_that_fails_is_enough_and_none_is_no_pass() {
        let mut verdict = Verdict::new();
        assert!(!verdict.passed());
        verdict.check(true, "a", "1");
        assert!(verdict.passed());
        verdict.check(false, "b", "2");
        assert!(!verdict.passed());
        verdict.check(true, "c", "3");
        assert_eq!(verdict.word(), "fail");
    }
}
