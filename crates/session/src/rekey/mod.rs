//! The change of a cluster's key while its daemons run: one daemon's part of it, without any I/O.
//!
//! The operator gives each daemon the new key. The key itself never travels. In the total order of
//! their messages daemons tell each other the fingerprint of the key, and how far they are with it
//! ([`Statement`]):
//!
//! ```text
//!            the operator              all members of the           all members of the
//!            names the file            configuration know it        configuration use it
//!  (one key) ─────────────▶ Known ───────────────────────▶ Used ──────────────────────▶ (one key)
//!            opens under     seals under the old key,      seals under the new key,
//!            both            opens under both              opens under both
//! ```
//!
//! So a daemon seals under the new key only when all members of its configuration open under it,
//! and drops the old key only when none of them seals under it any more: no datagram is lost, and
//! nothing waits.
//!
//! # Configurations
//! A statement counts only in the regular configuration in which it was delivered: in each new one
//! every daemon that changes its key says again how far it is. So no daemon has to remember who was
//! in which part. A part of the cluster that is cut off goes on by itself: when all its members
//! know the key, it uses the key, and meets the others under it. The change waits for a member that
//! does not know the key while it is in the configuration. Once it is not, the others do not hear
//! it any more; it comes back when it is given the key.
//!
//! A daemon whose only key is the one of a statement answers with [`Step::Done`]: it may have
//! finished the change while the other was away, or have started with the new key.
//!
//! # One at a time
//! The first [`Step::Known`] in the order of a configuration decides which change goes on. A daemon
//! that has named another key gives that one up and says so, unless it seals under it already.
//!
//! # Drain
//! After each input carry out [`poll_act`](KeyChange::poll_act) until there is none, and submit
//! [`next_statement`](KeyChange::next_statement) to the order, as an agreed message.

mod statement;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use groupcast_core::MemberId;

pub use self::statement::{Fingerprint, Statement, Step};

/// What the host has to do with its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// All members know the new key: seal datagrams under it from now on.
    Use(Fingerprint),
    /// All members use the new key: drop the old one.
    Finish(Fingerprint),
    /// Another change was first: drop the new key.
    GiveUp {
        /// The key that is dropped.
        ours: Fingerprint,
        /// The key of the change that goes on.
        theirs: Fingerprint,
    },
}

/// Why a change cannot begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The key is in use.
    #[error("this daemon uses that key already (fingerprint {0})")]
    InUse(Fingerprint),
    /// Another change is under way.
    #[error(
        "a change to another key (fingerprint {0}) is under way: finish it first, by `groupcast rekey` with the file of \
         that key on every host that `groupcast status` names"
    )]
    Another(Fingerprint),
}

/// The progress of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The new key.
    pub next: Fingerprint,
    /// This daemon's step; `None` if it does not know the key.
    pub own: Option<Step>,
    /// The members of the configuration for which the next step waits.
    pub waits_for: Vec<MemberId>,
}

/// One daemon's part in changes of the key.
#[derive(Debug)]
pub struct KeyChange {
    local: MemberId,
    /// The key that this daemon began with, or that of the last change that it finished.
    current: Fingerprint,
    /// The key that this daemon changes to, and its step.
    own: Option<(Fingerprint, Step)>,
    /// The members of the regular configuration; none in a transitional one.
    members: Vec<MemberId>,
    /// The changes that members named in this configuration and have not given up, in their order.
    agreed: Vec<Fingerprint>,
    /// The last statement of each member about a key that it changes to.
    changing: BTreeMap<MemberId, (Fingerprint, Step)>,
    /// The only key of each member that has said [`Step::Done`].
    done: BTreeMap<MemberId, Fingerprint>,
    statements: VecDeque<Statement>,
    acts: VecDeque<Act>,
}

impl KeyChange {
    /// The part of the daemon `local`, whose key is `current`.
    pub fn new(local: MemberId, current: Fingerprint) -> Self {
        Self {
            local,
            current,
            own: None,
            members: Vec::new(),
            agreed: Vec::new(),
            changing: BTreeMap::new(),
            done: BTreeMap::new(),
            statements: VecDeque::new(),
            acts: VecDeque::new(),
        }
    }

    /// The operator gave this daemon the key `next`, under which the host opens datagrams from now
    /// on. A second call for the same key changes nothing.
    ///
    /// # Errors
    /// Why the change cannot begin; the host must not open datagrams under the key then.
    pub fn begin(&mut self, next: Fingerprint) -> Result<(), Refused> {
        self.check(next)?;
        if self.own.is_none() {
            self.own = Some((next, Step::Known));
            self.say();
        }
        Ok(())
    }

    /// Whether a change to `next` could [`begin`](Self::begin), or has begun.
    ///
    /// # Errors
    /// Why it could not.
    pub fn check(&self, next: Fingerprint) -> Result<(), Refused> {
        if next == self.current {
            return Err(Refused::InUse(next));
        }
        match self.under_way() {
            Some(other) if other != next => Err(Refused::Another(other)),
            _ => Ok(()),
        }
    }

    /// A regular configuration of `members` was installed.
    pub fn handle_regular(&mut self, members: &[MemberId]) {
        self.members = members.to_vec();
        self.agreed.clear();
        self.changing.clear();
        self.done.clear();
        self.statements.clear();
        self.say();
    }

    /// The configuration has ended: statements until the next one do not count.
    pub fn handle_transitional(&mut self) {
        self.members.clear();
    }

    /// `from` said a statement, in the order of the configuration.
    pub fn handle_statement(&mut self, from: MemberId, statement: Statement) {
        if !self.members.contains(&from) {
            return;
        }
        let Statement { key, step } = statement;
        match step {
            Step::Done => {
                self.done.insert(from, key);
            }
            Step::GivenUp => {
                if self
                    .changing
                    .get(&from)
                    .is_some_and(|(theirs, _)| *theirs == key)
                {
                    self.changing.remove(&from);
                }
                self.forget_abandoned();
            }
            Step::Known | Step::Used => {
                self.changing.insert(from, (key, step));
                self.answer(key);
                if step == Step::Known {
                    self.agree(from, key);
                }
            }
        }
        self.advance();
    }

    /// The next thing to do with keys.
    pub fn poll_act(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// The next statement to submit; it stays the next until [`said`](Self::said).
    pub fn next_statement(&self) -> Option<Statement> {
        // A statement would not count in a configuration that has ended.
        self.statements
            .front()
            .copied()
            .filter(|_| !self.members.is_empty())
    }

    /// The order took the next statement.
    pub fn said(&mut self) {
        self.statements.pop_front();
    }

    /// The key of this daemon, or the one that it changes from.
    pub fn current(&self) -> Fingerprint {
        self.current
    }

    /// The progress of the change under way, if there is one.
    pub fn progress(&self) -> Option<Progress> {
        let next = self.under_way()?;
        let own = self.own.map(|(_, step)| step);
        let needed = own.unwrap_or(Step::Known);
        let behind = |member: &&MemberId| !self.is_at(**member, next, needed);
        Some(Progress {
            next,
            own,
            waits_for: self.members.iter().filter(behind).copied().collect(),
        })
    }

    /// The key of the change under way.
    fn under_way(&self) -> Option<Fingerprint> {
        let own = self.own.map(|(ours, _)| ours);
        own.or_else(|| self.agreed.first().copied())
    }

    /// Forgets changes that no member makes any more.
    fn forget_abandoned(&mut self) {
        let changing = &self.changing;
        self.agreed
            .retain(|key| changing.values().any(|(theirs, _)| theirs == key));
    }

    /// Queues a statement of this daemon's step, if it changes its key.
    fn say(&mut self) {
        if let Some((key, step)) = self.own {
            self.statements.push_back(Statement { key, step });
        }
    }

    /// Answers a statement about the only key of this daemon, once in a configuration.
    fn answer(&mut self, key: Fingerprint) {
        let statement = Statement {
            key,
            step: Step::Done,
        };
        let only = key == self.current && self.own.is_none_or(|(_, step)| step == Step::Known);
        let told = self.done.get(&self.local) == Some(&key) || self.statements.contains(&statement);
        if only && !told {
            self.statements.push_back(statement);
        }
    }

    /// The first change that is known in the order is the one that goes on.
    fn agree(&mut self, from: MemberId, key: Fingerprint) {
        if key == self.current {
            return;
        }
        if !self.agreed.contains(&key) {
            self.agreed.push(key);
        }
        let theirs = self.agreed[0];
        if from == self.local && self.own == Some((key, Step::Known)) && theirs != key {
            self.own = None;
            self.changing.remove(&from);
            self.acts.push_back(Act::GiveUp { ours: key, theirs });
            // An earlier statement of this daemon may still be on its way.
            let step = Step::GivenUp;
            self.statements.push_back(Statement { key, step });
        }
        self.forget_abandoned();
    }

    /// Takes the next steps of this daemon's change, as far as all members have come.
    fn advance(&mut self) {
        if let Some((key, Step::Known)) = self.own
            && self.all_are_at(key, Step::Known)
        {
            self.own = Some((key, Step::Used));
            self.acts.push_back(Act::Use(key));
            self.say();
        }
        if let Some((key, Step::Used)) = self.own
            && self.all_are_at(key, Step::Used)
        {
            self.own = None;
            self.current = key;
            self.changing.retain(|_, (other, _)| *other != key);
            self.forget_abandoned();
            self.acts.push_back(Act::Finish(key));
        }
    }

    fn all_are_at(&self, key: Fingerprint, step: Step) -> bool {
        let mut members = self.members.iter();
        !self.members.is_empty() && members.all(|member| self.is_at(*member, key, step))
    }

    /// Whether `member` has said that it is at `step` with `key`, or further.
    fn is_at(&self, member: MemberId, key: Fingerprint, step: Step) -> bool {
        let changing = self.changing.get(&member);
        changing.is_some_and(|(theirs, at)| *theirs == key && *at >= step)
            || self.done.get(&member) == Some(&key)
    }
}
