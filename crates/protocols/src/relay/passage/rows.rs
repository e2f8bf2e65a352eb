//! The rows of a passage: the receivers below, the outcome of each, and what the relay says of them
//! above.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::text::printable;
use groupcast_core::{MemberId, NodeId, Time};

use super::super::account::{Account, Word};
use super::super::accounts::{AccountEvent, Said};
use super::super::{Carries, RELAY_GONE, RelayEvent, Sides};
use super::Passage;
use crate::bulk::Outcome;

impl Passage {
    /// Once the last word on a list was said, returns one time the nodes that answered it.
    pub(in crate::relay) fn take_audience(&mut self) -> Option<BTreeSet<NodeId>> {
        if self.has_told_audience || self.carries != Carries::List || !self.is_concluded() {
            return None;
        }
        self.has_told_audience = true;
        let has_answered = |row: &u32| {
            let outcome = &self.account.rows()[*row as usize].outcome;
            !matches!(outcome, None | Some(Outcome::Vanished | Outcome::Absent))
        };
        let direct = self.direct.iter().filter(|(_, row)| has_answered(row));
        Some(direct.map(|(member, _)| member.node).collect())
    }

    pub(super) fn registered(
        &mut self,
        now: Time,
        sides: &mut Sides<'_>,
        receiver: MemberId,
        name: &[u8],
        events: &mut VecDeque<RelayEvent>,
    ) {
        self.answered.get_or_insert(now);
        let name = called(receiver, name);
        match self.add_row(now, sides, receiver.node, name, events) {
            Some(row) => {
                self.direct.insert(receiver, row);
            }
            None => {
                self.unlisted.insert(receiver);
                sides
                    .lower
                    .dismiss(now, self.lower, receiver, &Outcome::Late);
            }
        }
    }

    /// Adds a row for one more receiver. `None` if the account is final, or has as many rows as the
    /// lower endpoint may have receivers; each life of a node counts.
    pub(super) fn add_row(
        &mut self,
        now: Time,
        sides: &mut Sides<'_>,
        node: NodeId,
        name: Bytes,
        events: &mut VecDeque<RelayEvent>,
    ) -> Option<u32> {
        let row = self.account.rows().len() as u32;
        if row as usize >= sides.lower.config().receivers_max {
            return None;
        }
        let registered = RelayEvent::Registered {
            id: self.id,
            name: name.clone(),
        };
        let said = self.say(now, sides, Word::Registered { node, name });
        said.then(|| events.push_back(registered))?;
        Some(row)
    }

    pub(super) fn settle(
        &mut self,
        now: Time,
        sides: &mut Sides<'_>,
        row: u32,
        outcome: Outcome,
        events: &mut VecDeque<RelayEvent>,
    ) {
        let name = self.account.rows().get(row as usize);
        let name = name.map(|row| row.name.clone()).unwrap_or_default();
        let said = self.say(
            now,
            sides,
            Word::Settled {
                row,
                outcome: outcome.clone(),
            },
        );
        if said {
            events.push_back(RelayEvent::Settled {
                id: self.id,
                name,
                outcome,
            });
        }
    }

    /// Settles the open receivers behind `relay`, which is settled itself and says nothing more of
    /// them.
    pub(super) fn settled_relay(
        &mut self,
        now: Time,
        sides: &mut Sides<'_>,
        (relay, outcome): (MemberId, &Outcome),
        events: &mut VecDeque<RelayEvent>,
    ) {
        let account = sides.kept.account(self.lower.number, relay);
        if account.is_some_and(Account::is_final) {
            return;
        }
        for row in self.behind.get(&relay).cloned().unwrap_or_default() {
            self.settle(now, sides, row, behind_one_that_was(outcome), events);
        }
    }

    /// Settles the rows that are still open when nothing more comes from below: a relay that was
    /// given up there, as late for example, may have named receivers since, and says nothing more
    /// of them.
    pub(super) fn settle_the_rest(
        &mut self,
        now: Time,
        sides: &mut Sides<'_>,
        events: &mut VecDeque<RelayEvent>,
    ) {
        let rows = self.account.rows();
        let of_relay = |row: u32| {
            let mut relays = self.behind.iter();
            let (relay, _) = relays.find(|(_, rows)| rows.contains(&row))?;
            rows[*self.direct.get(relay)? as usize].outcome.as_ref()
        };
        let open = rows.iter().enumerate().map(|(row, it)| (row as u32, it));
        let open = open.filter(|(_, it)| it.outcome.is_none() && !it.is_aside);
        let outcome = |row| of_relay(row).map_or_else(relay_gone, behind_one_that_was);
        let open: Vec<_> = open.map(|(row, _)| (row, outcome(row))).collect();
        for (row, outcome) in open {
            self.settle(now, sides, row, outcome, events);
        }
    }

    /// A receiver below came too late, and gets no row.
    pub(super) fn came_late(
        &self,
        sides: &mut Sides<'_>,
        node: NodeId,
        name: Bytes,
        events: &mut VecDeque<RelayEvent>,
    ) {
        sides.told.say_late(self.id, node, name.clone());
        events.push_back(RelayEvent::CameLate { id: self.id, name });
    }

    /// Takes in what a relay below has said.
    pub(in crate::relay) fn hear_account(
        &mut self,
        now: Time,
        sides: &mut Sides<'_>,
        event: &AccountEvent,
        events: &mut VecDeque<RelayEvent>,
    ) {
        let Some(own) = self.direct.get(&event.relay).copied() else {
            return;
        };
        let below = |name: &Bytes| {
            let relay = &self.account.rows()[own as usize].name;
            Bytes::from([relay, &b"/"[..], name].concat())
        };
        let word = match &event.said {
            Said::Word(word) => word,
            Said::CameLate { node, name } => {
                return self.came_late(sides, *node, below(name), events);
            }
        };
        let behind = self.behind.get(&event.relay);
        let row_of = |row: &u32| behind.and_then(|rows| rows.get(*row as usize)).copied();
        match word {
            Word::Registered { node, name } => {
                let name = below(name);
                if behind.is_none_or(Vec::is_empty) {
                    // From now on the rows of the receivers behind it stand for it.
                    self.say(now, sides, Word::Aside { row: own });
                }
                match self.add_row(now, sides, *node, name, events) {
                    Some(row) => self.behind.entry(event.relay).or_default().push(row),
                    None => {
                        self.unlisted.insert(event.relay);
                    }
                }
            }
            Word::Settled { row, outcome } => {
                if let Some(row) = row_of(row) {
                    self.settle(now, sides, row, outcome.clone(), events);
                }
            }
            Word::Aside { row } => {
                if let Some(row) = row_of(row) {
                    self.say(now, sides, Word::Aside { row });
                }
            }
            Word::Final => {}
        }
    }

    /// Sets aside the rows of receivers that were restarted before the start: each has another row,
    /// under the same node.
    pub(super) fn set_former_lives_aside(&mut self, now: Time, sides: &mut Sides<'_>) {
        let rows = self.account.rows();
        let complete: BTreeSet<NodeId> = self
            .direct
            .values()
            .map(|row| &rows[*row as usize])
            .filter(|row| row.outcome == Some(Outcome::Complete))
            .map(|row| row.node)
            .collect();
        let is_former = |row: &u32| {
            let row = &rows[*row as usize];
            row.outcome == Some(Outcome::Vanished) && complete.contains(&row.node)
        };
        let former: Vec<u32> = self.direct.values().copied().filter(is_former).collect();
        for row in former {
            self.say(now, sides, Word::Aside { row });
        }
    }

    /// Adds a word to the account, here and above; returns whether the account took it.
    pub(super) fn say(&mut self, now: Time, sides: &mut Sides<'_>, word: Word) -> bool {
        if !self.account.add(&word) {
            return false;
        }
        match self.is_registered {
            true => sides.told.say(now, self.id, word),
            false => self.unsaid.push(word),
        }
        true
    }

    /// Whether the transfer is complete for all receivers below; a list, for any.
    pub(super) fn result(&self) -> Result<(), String> {
        let is_complete = |outcome: &Option<Outcome>| *outcome == Some(Outcome::Complete);
        let mut rows = self.account.receivers();
        if self.carries == Carries::List {
            return match rows.any(|row| is_complete(&row.outcome)) {
                true => Ok(()),
                false => Err("nothing of it is here".into()),
            };
        }
        let all = self.account.receivers().count();
        match rows.filter(|row| !is_complete(&row.outcome)).count() {
            0 if all > 0 && self.has_unlisted_failure() => Err(format!(
                "a receiver below is not complete, and the account has no room for more than {all}"
            )),
            0 if all > 0 => Ok(()),
            failed => Err(format!(
                "{failed} of {all} receivers below are not complete: {}",
                self.failures()
            )),
        }
    }

    /// Whether a receiver without a row is not complete. One behind a relay shares the relay's own
    /// outcome: a relay is complete only if all receivers behind it are.
    fn has_unlisted_failure(&self) -> bool {
        let rows = self.account.rows();
        let is_complete = |member: &MemberId| {
            let row = self.direct.get(member);
            row.is_some_and(|row| rows[*row as usize].outcome == Some(Outcome::Complete))
        };
        !self.unlisted.iter().all(is_complete)
    }

    /// The receivers that failed below and how, in words; only the first, if they are many.
    pub(super) fn failures(&self) -> String {
        const ENOUGH: usize = 400;
        let mut text = String::new();
        for row in self.account.receivers() {
            let Some(outcome) = row.outcome.as_ref().filter(|it| **it != Outcome::Complete) else {
                continue;
            };
            if text.len() > ENOUGH {
                text.push_str("; and others");
                break;
            }
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(&printable(&row.name));
            text.push_str(": ");
            text.push_str(&in_words(outcome));
        }
        text
    }
}

fn relay_gone() -> Outcome {
    Outcome::Failed(RELAY_GONE.into())
}

/// The name of a receiver below: the one that it says, or what it is if it says none.
pub(super) fn called(receiver: MemberId, name: &[u8]) -> Bytes {
    match name {
        [] => Bytes::from(format!("{receiver}")),
        name => Bytes::copy_from_slice(name),
    }
}

/// The outcome of a receiver of which its relay says nothing more; `outcome` is the relay's.
fn behind_one_that_was(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Late => Outcome::Late,
        _ => relay_gone(),
    }
}

fn in_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Complete => "complete".into(),
        Outcome::Refused(reason) => format!("refused: {}", printable(reason.as_bytes())),
        Outcome::Failed(reason) => printable(reason.as_bytes()),
        Outcome::Vanished => "not heard any more".into(),
        Outcome::Slow => "too slow".into(),
        Outcome::Late => "too late for a relay".into(),
        Outcome::SameName => "another receiver has its name".into(),
        Outcome::Cancelled => "cancelled".into(),
        _ => "not served".into(),
    }
}
