//! Coverage: how often each transition of the protocol met each kind of fault.

use std::collections::BTreeMap;
use std::fmt;

use groupcast_core::trace::Transition;

use super::fault::{Fault, FaultKind};
use crate::world::RecordedTransition;

/// Transitions against kinds of faults.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Coverage {
    rows: BTreeMap<Transition, Row>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Row {
    total: u64,
    /// While nothing was wrong.
    calm: u64,
    met: [u64; FaultKind::ALL.len()],
}

impl Coverage {
    /// Counts `transitions` against the `faults` that were there.
    pub(crate) fn count(&mut self, transitions: &[RecordedTransition], faults: &[Fault]) {
        for RecordedTransition { at, transition, .. } in transitions {
            let of_whomever = Transition {
                about: None,
                ..*transition
            };
            let row = self.rows.entry(of_whomever).or_default();
            let mut met = [false; FaultKind::ALL.len()];
            for kind in faults.iter().flat_map(|fault| fault.met_at(*at)) {
                met[kind as usize] = true;
            }
            row.total += 1;
            row.calm += u64::from(met.iter().all(|met| !met));
            for (count, met) in row.met.iter_mut().zip(met) {
                *count += u64::from(met);
            }
        }
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Self) {
        for (transition, theirs) in &other.rows {
            let row = self.rows.entry(*transition).or_default();
            row.total += theirs.total;
            row.calm += theirs.calm;
            for (count, more) in row.met.iter_mut().zip(theirs.met) {
                *count += more;
            }
        }
    }

    /// How often `transition` happened, and how often under `kind`.
    pub fn of(&self, transition: &Transition, kind: FaultKind) -> (u64, u64) {
        self.rows
            .get(transition)
            .map_or((0, 0), |row| (row.total, row.met[kind as usize]))
    }

    /// The transitions that happened, and kinds of faults that they never met.
    pub fn gaps(&self) -> impl Iterator<Item = (Transition, FaultKind)> {
        self.rows.iter().flat_map(|(transition, row)| {
            let empty = FaultKind::ALL.into_iter();
            let empty = empty.filter(|kind| row.met[*kind as usize] == 0);
            empty.map(|kind| (*transition, kind))
        })
    }

    /// The transitions that happened.
    pub fn transitions(&self) -> impl Iterator<Item = Transition> {
        self.rows.keys().copied()
    }
}

impl fmt::Display for Coverage {
    /// A table: a line a transition, a column a kind of fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |it: &Transition| format!("{} -> {} ({})", it.from, it.to, it.cause);
        let width = self.rows.keys().map(|it| name(it).len()).max().unwrap_or(0);
        write!(f, "{:width$} {:>9} {:>9}", "transition", "total", "calm")?;
        for kind in FaultKind::ALL {
            write!(f, " {:>9}", kind.name())?;
        }
        for (transition, row) in &self.rows {
            write!(
                f,
                "\n{:width$} {:>9} {:>9}",
                name(transition),
                row.total,
                row.calm
            )?;
            for count in row.met {
                write!(f, " {count:>9}")?;
            }
        }
        Ok(())
    }
}
