//! The verdict on files of histories: reads them, feeds the judges, and says what the files leave
//! open.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use groupcast_core::trace::Observation;
use groupcast_core::{Contract, MemberId, NodeId};

use crate::checker::{Checker, LIMIT};
use crate::coverage::{Coverage, Unjudged};
use crate::ndjson::{HistoryError, Joined, read_history};
use crate::outcome::Outcome;
use crate::report::CheckReport;
use crate::violation::Violation;

/// Judges the histories in `files`, all of one run.
///
/// A history that just ends, without a leave, is held only to what its member must have done by
/// then. If the others' configurations tell that the member was gone, it was killed; otherwise the
/// report says what could not be judged. Fails if a file cannot be read or is not a history, if two
/// files tell the same life, or if all are empty.
pub fn check_files<P: AsRef<Path>>(
    files: impl IntoIterator<Item = P>,
) -> Result<CheckReport, HistoryError> {
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

/// A judge for what daemons' own orders order, one for each further ring, whose members are others,
/// and one for each bimodal group, whose messages are numbered apart.
#[derive(Default)]
struct Judges {
    ordered: Checker,
    rings: BTreeMap<String, Checker>,
    groups: BTreeMap<String, GroupJudge>,
    /// Of each life, the number of the file that tells it.
    files_of: BTreeMap<MemberId, usize>,
    files: Vec<String>,
    /// The lives whose files end within a line.
    torn: BTreeSet<MemberId>,
    /// The rings that daemons joined.
    joined: Vec<Joined>,
    /// The files without a whole line.
    empty: Vec<String>,
    /// The names of daemons, of their own histories and of clients in views.
    names: BTreeMap<NodeId, String>,
}

/// The judge of one bimodal group, and the members that have a life in it.
struct GroupJudge {
    checker: Checker,
    begun: BTreeSet<MemberId>,
}

impl Judges {
    fn read(&mut self, path: &Path) -> Result<(), HistoryError> {
        let file = path.display().to_string();
        let cannot = |source| HistoryError::Open {
            file: file.clone(),
            source,
        };
        let open = File::open(path).map_err(cannot)?;
        if open.metadata().map_err(cannot)?.is_dir() {
            return Err(HistoryError::Directory { file });
        }
        self.files.push(file.clone());
        let mut history = read_history(file.clone(), BufReader::with_capacity(1 << 16, open));
        let mut last = None;
        while let Some(entry) = history.next() {
            let (member, observation) = entry?;
            last = Some(member);
            self.note_names(&observation);
            let name = history.name();
            if let Some(group) = history.group() {
                self.observe_in(group, member, name, &observation);
                continue;
            }
            let ring = history.ring();
            if observation == Observation::Start {
                self.begin(member, ring, name)?;
                if history.is_early() {
                    self.judge(ring).expect_early(member);
                }
            }
            self.observe(member, ring, &observation);
        }
        self.joined.extend_from_slice(history.joined());
        match last {
            Some(member) if history.ends_torn() => {
                self.torn.insert(member);
            }
            Some(_) => {}
            None => self.empty.push(file),
        }
        Ok(())
    }

    /// A life of `member` begins in the file that is being read.
    fn begin(
        &mut self,
        member: MemberId,
        ring: Option<&str>,
        name: Option<&str>,
    ) -> Result<(), HistoryError> {
        let file = self.files.len() - 1;
        match self.files_of.entry(member) {
            Entry::Occupied(first) if *first.get() != file => {
                return Err(HistoryError::Twice {
                    file: self.files[file].clone(),
                    first: self.files[*first.get()].clone(),
                    member: name.map_or_else(
                        || member.to_string(),
                        |name| format!("{name}.{:016x}", member.incarnation.0),
                    ),
                });
            }
            // A second start in the same file is for the rules to judge.
            Entry::Occupied(_) => {}
            Entry::Vacant(entry) => {
                entry.insert(file);
            }
        }
        if let Some(name) = name {
            self.judge(ring).set_name(member, name);
            self.names.insert(member.node, name.to_owned());
        }
        Ok(())
    }

    /// Notes the daemons of the clients that a view names, `client@daemon`: one of them may have no
    /// history of its own.
    fn note_names(&mut self, observation: &Observation) {
        let Observation::GroupView { members, .. } = observation else {
            return;
        };
        for member in members {
            if let Some((_, daemon)) = member.rsplit_once('@') {
                let name = self.names.entry(NodeId::from_name(daemon));
                name.or_insert_with(|| daemon.to_owned());
            }
        }
    }

    /// The judge of a further ring, or of what is on none.
    fn judge(&mut self, ring: Option<&str>) -> &mut Checker {
        match ring {
            Some(top) => self.rings.entry(top.to_owned()).or_default(),
            None => &mut self.ordered,
        }
    }

    fn observe(&mut self, member: MemberId, ring: Option<&str>, observation: &Observation) {
        self.judge(ring).observe(member, observation);
        if matches!(observation, Observation::Leave | Observation::Crash) {
            for judge in self.groups.values_mut() {
                if judge.begun.contains(&member) {
                    judge.checker.observe(member, observation);
                }
            }
        }
    }

    fn observe_in(
        &mut self,
        group: &str,
        member: MemberId,
        name: Option<&str>,
        observation: &Observation,
    ) {
        if !self.groups.contains_key(group) {
            let judge = GroupJudge {
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

    fn report(&self) -> CheckReport {
        let outcome = Outcome::default();
        let mut report = CheckReport::new(&self.ordered, &outcome);
        let mut coverage = Coverage::of(self.ordered.ledger(), &self.torn);
        for (group, judge) in &self.groups {
            coverage.add_group(judge.checker.ledger(), self.ordered.ledger());
            let own = CheckReport::new(&judge.checker, &outcome);
            report.messages += own.messages;
            report.deliveries += own.deliveries;
            let place = format!("in the bimodal group {group:?}");
            report.violations.extend(named(&place, own.violations));
        }
        for (top, judge) in &self.rings {
            let own = CheckReport::new(judge, &outcome);
            report.observers += own.observers;
            report.messages += own.messages;
            report.deliveries += own.deliveries;
            report.configurations += own.configurations;
            let place = format!("in the ring {top:?}");
            report.violations.extend(named(&place, own.violations));
            let of_ring = Coverage::of(judge.ledger(), &self.torn);
            coverage.killed += of_ring.killed;
            let named = of_ring.unjudged.into_iter().map(|unjudged| Unjudged {
                text: format!("{place}: {}", unjudged.text),
                ..unjudged
            });
            coverage.unjudged.extend(named);
        }
        coverage.unjudged.extend(self.missing_of_rings(&coverage));
        report.violations.truncate(LIMIT);
        report.clean = report.violations.is_empty();
        let empty = self.empty.iter().map(|file| Unjudged {
            member: None,
            name: None,
            text: format!("{file} has no whole line"),
        });
        report.unjudged = coverage.unjudged;
        for unjudged in report.unjudged.iter_mut().filter(|it| it.name.is_none()) {
            let node = unjudged.member.map(|member| member.node);
            unjudged.name = node.and_then(|node| self.names.get(&node)).cloned();
        }
        report.unjudged.extend(empty);
        report.killed = coverage.killed;
        report
    }

    /// The stays in rings that no file tells of, though daemons' own histories do.
    fn missing_of_rings(&self, coverage: &Coverage) -> Vec<Unjudged> {
        let is_known = |member: MemberId| {
            let mut known = coverage.unjudged.iter();
            self.files_of.contains_key(&member) || known.any(|it| it.member == Some(member))
        };
        let missing = self.joined.iter().filter(|it| !is_known(it.member));
        let missing = missing.map(|Joined { ring, member, name }| Unjudged {
            member: Some(*member),
            name: name.clone(),
            text: format!(
                "in the ring {ring:?}: its history is missing: the daemon's own says that it joined"
            ),
        });
        missing.collect()
    }
}

/// What a judge of its own found, with the `place` that it judged. Its lines are not told: it has
/// counted them without the others.
fn named(place: &str, violations: Vec<Violation>) -> impl Iterator<Item = Violation> {
    violations.into_iter().map(move |violation| Violation {
        line: None,
        text: format!("{place}: {}", violation.text),
        ..violation
    })
}
