//! What a judge found, for a person and for a machine: what `groupcast check` prints.

use std::fmt;

use serde::Serialize;

use crate::checker::Checker;
use crate::coverage::Unjudged;
use crate::outcome::Outcome;
use crate::violation::Violation;

/// What was judged, what was found, and what could not be judged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CheckReport {
    /// Whether no violation was found.
    pub clean: bool,
    /// Members that have a history; a daemon that starts again is another member.
    pub observers: u64,
    /// Distinct messages.
    pub messages: u64,
    /// Deliveries, over all observers.
    pub deliveries: u64,
    /// Distinct regular configurations.
    pub configurations: u64,
    /// Observers that were killed, as the others' configurations tell; only of files.
    pub killed: u64,
    /// What was found, at most 100.
    pub violations: Vec<Violation>,
    /// What could not be judged; only of files.
    pub unjudged: Vec<Unjudged>,
}

impl CheckReport {
    /// The verdict of `checker` on a run that ended in `outcome`.
    pub fn new(checker: &Checker, outcome: &Outcome) -> Self {
        let seen = checker.statistics();
        let violations = checker.finish(outcome);
        Self {
            clean: violations.is_empty(),
            observers: seen.observers,
            messages: seen.messages,
            deliveries: seen.deliveries,
            configurations: seen.configurations,
            killed: 0,
            violations,
            unjudged: Vec::new(),
        }
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        for unjudged in &self.unjudged {
            writeln!(f, "{unjudged}")?;
        }
        match self.violations.len() {
            0 => f.write_str("no violation")?,
            1 => f.write_str("1 violation")?,
            many => write!(f, "{many} violations")?,
        }
        match self.unjudged.len() {
            0 => {}
            1 => f.write_str(", and 1 thing could not be judged")?,
            many => write!(f, ", and {many} things could not be judged")?,
        }
        write!(f, " (observers: {}", self.observers)?;
        if self.killed > 0 {
            write!(f, ", of which killed: {}", self.killed)?;
        }
        write!(
            f,
            ", configurations: {}, messages: {}, deliveries: {})",
            self.configurations, self.messages, self.deliveries
        )
    }
}
