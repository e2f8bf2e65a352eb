//! The account of a relay: the receivers below it, and the outcome of each. It grows word by word,
//! at the relay and at the sender that the relay tells; no word is ever taken back.

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::NodeId;

use crate::bulk::Outcome;

/// One word of a relay's account.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Word {
    /// A receiver takes part below; it gets the next row.
    Registered {
        /// Its node.
        node: NodeId,
        /// Its name; behind another relay `relay/name`.
        name: Bytes,
    },
    /// The receiver in a row has its outcome.
    Settled {
        /// The row's number, from 0.
        row: u32,
        /// The outcome.
        outcome: Outcome,
    },
    /// A row counts no more, because others stand in its place: those of the receivers behind a
    /// relay, or that of a receiver's next life.
    Aside {
        /// The row's number, from 0.
        row: u32,
    },
    /// Every row is settled, and no more will come.
    Final,
}

/// A receiver below a relay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its node.
    pub node: NodeId,
    /// Its name; behind another relay `relay/name`.
    pub name: Bytes,
    /// Its outcome, once known.
    pub outcome: Option<Outcome>,
    /// Whether other rows stand in its place.
    pub is_aside: bool,
}

/// The receivers below a relay, one row each.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Account {
    rows: Vec<Row>,
    is_final: bool,
}

impl Account {
    /// The longest name of a row, in bytes. Longer ones lose their beginning.
    pub const NAME_MAX: usize = 512;

    /// Adds a word. Returns false and changes nothing if the word contradicts those before.
    pub fn add(&mut self, word: &Word) -> bool {
        if self.is_final {
            return false;
        }
        match word {
            Word::Registered { node, name } => self.rows.push(Row {
                node: *node,
                name: name.clone(),
                outcome: None,
                is_aside: false,
            }),
            Word::Settled { row, outcome } => match self.rows.get_mut(*row as usize) {
                Some(row) if row.outcome.is_none() => row.outcome = Some(outcome.clone()),
                _ => return false,
            },
            Word::Aside { row } => match self.rows.get_mut(*row as usize) {
                Some(row) if !row.is_aside => row.is_aside = true,
                _ => return false,
            },
            Word::Final => {
                let is_open = |row: &Row| row.outcome.is_none() && !row.is_aside;
                if self.rows.iter().any(is_open) {
                    return false;
                }
                self.is_final = true;
            }
        }
        true
    }

    /// All rows, also those set aside.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows that count.
    pub fn receivers(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.is_aside)
    }

    /// Whether every receiver is settled, and the relay has said so.
    pub fn is_final(&self) -> bool {
        self.is_final
    }
}
