//! The verdict on files of histories, for a person and for a machine: what `groupcast check` prints.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use groupcast_core::trace::Observation;
use serde::Serialize;

use crate::checker::Checker;
use crate::ndjson::{HistoryError, read_history};
use crate::outcome::Outcome;
use crate::violation::Violation;

/// What was judged, and what was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// Whether no violation was found.
    pub clean: bool,
    /// Lives of members.
    pub observers: u64,
    /// Distinct messages.
    pub messages: u64,
    /// Deliveries, over all observers.
    pub deliveries: u64,
    /// Distinct regular configurations.
    pub configurations: u64,
    /// What was found, at most 100.
    pub violations: Vec<Violation>,
}

impl Report {
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
            violations,
        }
    }
}

/// Judges the histories in `files`, all of one run.
///
/// A history that just ends, without a leave, may be of a member that was killed or of one that still runs: it is held
/// only to what it must have done by then. Fails if a file cannot be read or is not a history, or if all are empty.
pub fn check_files<P: AsRef<Path>>(
    files: impl IntoIterator<Item = P>,
) -> Result<Report, HistoryError> {
    let mut checker = Checker::new();
    for file in files {
        read_into(&mut checker, file.as_ref())?;
    }
    let report = Report::new(&checker, &Outcome::default());
    if report.observers == 0 {
        return Err(HistoryError::Empty);
    }
    Ok(report)
}

fn read_into(checker: &mut Checker, path: &Path) -> Result<(), HistoryError> {
    let file = path.display().to_string();
    let open = File::open(path).map_err(|source| HistoryError::Open {
        file: file.clone(),
        source,
    })?;
    let mut history = read_history(file, BufReader::with_capacity(1 << 16, open));
    while let Some(entry) = history.next() {
        let (member, observation) = entry?;
        if let (Observation::Start, Some(name)) = (&observation, history.name()) {
            checker.set_name(member, name);
        }
        checker.observe(member, &observation);
    }
    Ok(())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        let verdict = match self.violations.len() {
            0 => "no violation".to_owned(),
            1 => "1 violation".to_owned(),
            many => format!("{many} violations"),
        };
        write!(
            f,
            "{verdict} (observers: {}, configurations: {}, messages: {}, deliveries: {})",
            self.observers, self.configurations, self.messages, self.deliveries
        )
    }
}
