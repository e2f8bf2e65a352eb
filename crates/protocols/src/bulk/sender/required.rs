//! The receivers that have to stay (003 4.3: the required membership is a quality of service on
//! which the connection is contingent). One that goes ends the transfer for all, and all are told
//! who it was.
//!
//! Two kinds of transfers need it. Of a *strict* one whoever is waited for has to stay until it is
//! complete. Of one with marks (`marks.rs`) whoever is counted in has to stay until the last mark
//! is told; afterwards everybody holds everything, and nothing is gained by ending it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

use bytes::Bytes;
use groupcast_core::text::printable;
use groupcast_core::{MemberId, NodeId};

use super::super::config::Policy;
use super::super::context::Context;
use super::super::transfer::{DeliverTo, Outcome, STOPPED, Transfer, Wanted};
use super::{Sender, State};

/// Who has to stay, and whether all have.
#[derive(Debug)]
pub(super) struct Required {
    nodes: BTreeSet<NodeId>,
    /// This many of all, whoever they are.
    count: usize,
    /// Whether all that are there when it starts are required.
    takes_roster: bool,
    /// What receivers call themselves.
    names: BTreeMap<NodeId, Bytes>,
    /// Why it cannot be kept any more.
    broken: Option<String>,
}

impl Required {
    /// Who has to stay in a transfer; `None`: nobody.
    pub(super) fn of(transfer: &Transfer, policy: Policy) -> Option<Self> {
        let has_marks = transfer.deliver_to != DeliverTo::AtOnce;
        let minimum = match policy {
            Policy::Cp(rule) => rule.minimum as usize,
            _ => 0,
        };
        if !transfer.strict && !has_marks && minimum == 0 {
            return None;
        }
        let wanted = &transfer.receivers;
        Some(Self {
            nodes: match transfer.strict || has_marks {
                true => named(wanted),
                false => BTreeSet::new(),
            },
            count: match wanted {
                _ if !transfer.strict && !has_marks => minimum,
                Wanted::Count(count) => *count,
                Wanted::Between { min, .. } if transfer.strict => *min,
                _ => minimum,
            },
            takes_roster: has_marks
                || transfer.strict && matches!(wanted, Wanted::Open | Wanted::Present),
            names: BTreeMap::new(),
            broken: None,
        })
    }

    fn break_by(&mut self, node: NodeId, outcome: &Outcome) {
        let name = self.names.get(&node).map(|name| printable(name));
        let name = name.filter(|name| !name.is_empty());
        let who = match name {
            Some(name) => alloc::format!(": {name}"),
            None => String::new(),
        };
        let what = match outcome {
            Outcome::Absent => "did not come",
            _ => "has gone",
        };
        let why = alloc::format!("a receiver that is required {what}{who}");
        self.broken.get_or_insert(why);
    }
}

/// The receivers that a transfer names.
fn named(wanted: &Wanted) -> BTreeSet<NodeId> {
    match wanted {
        Wanted::Members(nodes) => nodes.iter().copied().collect(),
        _ => BTreeSet::new(),
    }
}

impl Sender {
    /// The list has changed before the first pass: who is on it is required.
    pub(super) fn require_listed(&mut self) {
        if let Some(required) = &mut self.required
            && matches!(self.state, State::Announcing(_))
        {
            required.nodes = named(&self.transfer.receivers);
        }
    }

    /// The receivers of the first pass are counted in.
    pub(super) fn require_roster(&mut self) {
        let roster = self.roster().iter().map(|member| member.node);
        let roster: BTreeSet<NodeId> = roster.collect();
        if let Some(required) = self.required.as_mut().filter(|it| it.takes_roster) {
            required.nodes.extend(roster);
        }
        self.look_for_too_few();
    }

    /// A receiver says what it is called.
    pub(super) fn note_name(&mut self, receiver: MemberId, name: &Bytes) {
        if let Some(required) = &mut self.required {
            required.names.insert(receiver.node, name.clone());
        }
    }

    /// A receiver is settled: if it is required, the transfer may not go on.
    pub(super) fn look_for_break(&mut self, receiver: MemberId, outcome: &Outcome) {
        if self.required.is_none() || *outcome == Outcome::Complete || self.are_all_told() {
            return;
        }
        // Another life of it may be there, or be complete.
        let is_here = |member: &MemberId| member.node == receiver.node;
        let mut done = self.settled.iter().filter(|(_, complete)| **complete);
        let stays = self.peers.keys().any(is_here) || done.any(|(it, _)| is_here(it));
        let Some(required) = &mut self.required else {
            return;
        };
        if *outcome == Outcome::Excluded {
            // Nobody has to wait for it any more.
            required.nodes.remove(&receiver.node);
            required.count = required.count.saturating_sub(1);
        } else if required.nodes.contains(&receiver.node) && !stays {
            required.break_by(receiver.node, outcome);
        }
        self.look_for_too_few();
    }

    /// Whether too few are left of those that are counted.
    fn look_for_too_few(&mut self) {
        let complete = self.settled.iter().filter(|(_, complete)| **complete);
        let stay = self.peers.keys().chain(complete.map(|(member, _)| member));
        let left: usize = stay.map(|member| self.stands_for_count(member)).sum();
        let is_begun = !matches!(self.state, State::Announcing(_));
        if let Some(required) = self.required.as_mut().filter(|it| left < it.count)
            && is_begun
        {
            let count = required.count;
            let are = if left == 1 { "is" } else { "are" };
            let why = alloc::format!("it needs {count} receivers, and only {left} {are} left");
            required.broken.get_or_insert(why);
        }
    }

    /// Ends a transfer of which a required receiver has gone; whether it is over. It is asked for
    /// when the transfer has begun or is about to: before, who has not registered yet would not
    /// hear of it.
    pub(super) fn ends_broken(&mut self, context: &mut Context<'_>) -> bool {
        let broken = self.required.as_ref().and_then(|it| it.broken.clone());
        if let Some(why) = broken.filter(|_| !self.is_over()) {
            // The same content may come again, when all are there.
            self.tell_cancelled(context, &alloc::format!("{STOPPED}: {why}"));
            let cause = "a receiver that is required has gone";
            self.end_all(context, Outcome::Cancelled, cause);
        }
        self.is_over()
    }
}
