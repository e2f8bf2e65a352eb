//! The verdict on files of histories, for a person and for a machine: what `groupcast check` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use groupcast_core::trace::Observation;
use groupcast_core::{Contract, MemberId};
use serde::Serialize;

use crate::checker::{Checker, LIMIT};
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
    let mut judges = Judges::default();
    for file in files {
        judges.read(file.as_ref())?;
    }
    let report = judges.report();
    if report.observers == 0 {
        return Err(HistoryError::Empty);
    }
    Ok(report)
}

/// A judge for what is ordered, and one for each bimodal group: their messages are numbered apart.
#[derive(Default)]
struct Judges {
    ordered: Checker,
    groups: BTreeMap<String, Judge>,
}

/// The judge of one bimodal group, and the members whose lives it has been told of.
struct Judge {
    checker: Checker,
    begun: BTreeSet<MemberId>,
}

impl Judges {
    fn read(&mut self, path: &Path) -> Result<(), HistoryError> {
        let file = path.display().to_string();
        let open = File::open(path).map_err(|source| HistoryError::Open {
            file: file.clone(),
            source,
        })?;
        let mut history = read_history(file, BufReader::with_capacity(1 << 16, open));
        while let Some(entry) = history.next() {
            let (member, observation) = entry?;
            let name = history.name();
            if let Some(group) = history.group() {
                self.observe_in(group, member, name, &observation);
                continue;
            }
            if let (Observation::Start, Some(name)) = (&observation, name) {
                self.ordered.set_name(member, name);
            }
            self.ordered.observe(member, &observation);
            if matches!(observation, Observation::Leave | Observation::Crash) {
                for judge in self.groups.values_mut() {
                    if judge.begun.contains(&member) {
                        judge.checker.observe(member, &observation);
                    }
                }
            }
        }
        Ok(())
    }

    fn observe_in(
        &mut self,
        group: &str,
        member: MemberId,
        name: Option<&str>,
        observation: &Observation,
    ) {
        if !self.groups.contains_key(group) {
            let judge = Judge {
                checker: Checker::new().under(Contract::Gapped),
                begun: BTreeSet::new(),
            };
            self.groups.insert(group.to_owned(), judge);
        }
        let Some(judge) = self.groups.get_mut(group) else {
            return;
        };
        if judge.begun.insert(member) {
            if let Some(name) = name {
                judge.checker.set_name(member, name);
            }
            judge.checker.observe(member, &Observation::Start);
        }
        judge.checker.observe(member, observation);
    }

    fn report(&self) -> Report {
        let outcome = Outcome::default();
        let mut report = Report::new(&self.ordered, &outcome);
        for (group, judge) in &self.groups {
            let own = Report::new(&judge.checker, &outcome);
            report.messages += own.messages;
            report.deliveries += own.deliveries;
            // Lines are counted by the group's judge, which has not seen the others.
            let told = own.violations.into_iter().map(|violation| Violation {
                line: None,
                text: format!("in the bimodal group {group:?}: {}", violation.text),
                ..violation
            });
            report.violations.extend(told);
        }
        report.violations.truncate(LIMIT);
        report.clean = report.violations.is_empty();
        report
    }
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
