//! The states of all daemons on their way into the table, in parts: they may have 100,000
//! memberships, and each costs as much as a short message. Until all are there the table stays as
//! it was, and then it changes at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use groupcast_core::MemberId;

use super::filters::Filters;
use super::patterns::Patterns;
use super::roster::Roster;
use super::table::{Group, Table};

/// To put a membership into its group counts for this much.
const MEMBERSHIP: usize = 96;

/// To arrange a pattern counts for this much.
const PATTERN: usize = 32;

/// To compile one counts for this much.
const COMPILE: usize = 1 << 16;

/// To let go of a membership, a pattern or a name counts for this much.
const LET_GO: usize = 24;

/// States of the daemons of a configuration, and how far they are.
#[derive(Debug)]
pub(super) struct Installing {
    local: MemberId,
    rosters: BTreeMap<MemberId, Roster>,
    groups: BTreeMap<Arc<str>, Group>,
    filters: Filters,
    next: Next,
}

/// What is done next.
#[derive(Debug)]
enum Next {
    /// Memberships: those behind that of a client of a daemon in a group.
    Memberships(Option<(MemberId, u64, Arc<str>)>),
    /// Patterns of this daemon's clients: those behind that of a client for a group.
    Patterns(Option<(u64, Arc<str>, Arc<str>)>),
    Nothing,
}

impl Installing {
    /// Nothing is done yet.
    pub(super) fn new(local: MemberId, states: BTreeMap<MemberId, Roster>) -> Self {
        let mut rosters = states;
        for roster in rosters.values_mut() {
            roster.departed.clear();
        }
        Self {
            local,
            rosters,
            groups: BTreeMap::new(),
            filters: Filters::default(),
            next: Next::Memberships(None),
        }
    }

    /// Goes on until all is done or `spend`, which counts the work, finds no time for more. Returns
    /// whether all is done.
    pub(super) fn go_on(
        &mut self,
        compiled: &mut Patterns,
        mut spend: impl FnMut(usize) -> bool,
    ) -> bool {
        if let Next::Memberships(after) = &self.next {
            let after = after.clone();
            self.next = match self.add_memberships(after, &mut spend) {
                None => Next::Patterns(None),
                last => Next::Memberships(last),
            };
        }
        if let Next::Patterns(after) = &self.next {
            let after = after.clone();
            self.next = match self.add_patterns(after, compiled, &mut spend) {
                None => Next::Nothing,
                last => Next::Patterns(last),
            };
        }
        matches!(self.next, Next::Nothing)
    }

    /// All is done: it replaces what `table` and `filters` have, which is to be let go.
    pub(super) fn finish(self, table: &mut Table, filters: &mut Filters) -> Replaced {
        let (rosters, groups) = table.replace(self.rosters, self.groups);
        Replaced {
            groups,
            filters: filters.replace(self.filters),
            rosters: rosters.into_values().collect(),
            memberships: BTreeSet::new(),
        }
    }

    /// Adds the memberships behind `after`; returns the last one if others may follow.
    fn add_memberships(
        &mut self,
        after: Option<(MemberId, u64, Arc<str>)>,
        spend: &mut impl FnMut(usize) -> bool,
    ) -> Option<(MemberId, u64, Arc<str>)> {
        let from = after
            .as_ref()
            .map_or(Bound::Unbounded, |(daemon, ..)| Bound::Included(*daemon));
        for (daemon, roster) in self.rosters.range((from, Bound::Unbounded)) {
            let is_local = *daemon == self.local;
            let after = after.as_ref().filter(|(it, ..)| it == daemon);
            let from = after.map_or(Bound::Unbounded, |(_, client, _)| Bound::Included(*client));
            for (number, client) in roster.clients.range((from, Bound::Unbounded)) {
                let after = after.filter(|(_, it, _)| it == number);
                let from = after.map_or(Bound::Unbounded, |(.., group)| Bound::Excluded(&**group));
                for group in client.groups.range::<str, _>((from, Bound::Unbounded)) {
                    let member = (client.private.clone(), *daemon, *number);
                    Group::insert(&mut self.groups, is_local, group, member);
                    if !spend(MEMBERSHIP) {
                        return Some((*daemon, *number, group.clone()));
                    }
                }
                spend(1);
            }
        }
        None
    }

    /// Arranges the patterns of this daemon's clients behind `after`; returns the last one if
    /// others may follow.
    fn add_patterns(
        &mut self,
        after: Option<(u64, Arc<str>, Arc<str>)>,
        compiled: &mut Patterns,
        spend: &mut impl FnMut(usize) -> bool,
    ) -> Option<(u64, Arc<str>, Arc<str>)> {
        let roster = self.rosters.get(&self.local)?;
        let from = after
            .as_ref()
            .map_or(Bound::Unbounded, |(client, ..)| Bound::Included(*client));
        for (number, client) in roster.clients.range((from, Bound::Unbounded)) {
            let Some(bus) = &client.bus else {
                continue;
            };
            let after = after.as_ref().filter(|(it, ..)| it == number);
            if after.is_none() {
                self.filters.identify(*number, None, bus.id.as_ref());
                spend(PATTERN);
            }
            let from = after.map_or(Bound::Unbounded, |(_, group, _)| Bound::Included(&**group));
            for (group, patterns) in bus.patterns.range::<str, _>((from, Bound::Unbounded)) {
                let after = after.filter(|(_, it, _)| it == group);
                let from = after.map_or(Bound::Unbounded, |(.., it)| Bound::Excluded(&**it));
                for pattern in patterns.range::<str, _>((from, Bound::Unbounded)) {
                    let work = if compiled.is_work(pattern) {
                        COMPILE
                    } else {
                        PATTERN
                    };
                    if let Ok(compiled) = compiled.get(pattern) {
                        self.filters.insert(*number, group, pattern, compiled);
                    }
                    if !spend(work) {
                        return Some((*number, group.clone(), pattern.clone()));
                    }
                }
            }
        }
        None
    }
}

/// What is not needed any more. To let go of it takes time, too.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    groups: BTreeMap<Arc<str>, Group>,
    filters: Filters,
    rosters: Vec<Roster>,
    /// The groups of a client of one of them.
    memberships: BTreeSet<Arc<str>>,
}

impl Replaced {
    /// Rosters alone.
    pub(super) fn of(rosters: Vec<Roster>) -> Self {
        Self {
            rosters,
            ..Self::default()
        }
    }

    /// Lets go of it until nothing is left or `spend`, which counts the work, finds no time for
    /// more. Returns whether nothing is left.
    pub(super) fn let_go(&mut self, mut spend: impl FnMut(usize) -> bool) -> bool {
        while let Some((_, group)) = self.groups.pop_first() {
            if !spend(LET_GO * (1 + group.members.len())) {
                return false;
            }
        }
        while let Some(count) = self.filters.let_go() {
            if !spend(LET_GO * count) {
                return false;
            }
        }
        while self.memberships.pop_first().is_some() || self.let_go_of_roster() {
            if !spend(LET_GO) {
                return false;
            }
        }
        true
    }

    /// Lets go of one thing more of the rosters; returns whether there was any.
    fn let_go_of_roster(&mut self) -> bool {
        let Some(roster) = self.rosters.last_mut() else {
            return false;
        };
        if let Some((_, client)) = roster.clients.pop_first() {
            // Copies of the roster may have it, too.
            if let Some(client) = Arc::into_inner(client) {
                self.memberships = client.groups;
            }
        } else if roster.bindings.pop().is_none() {
            self.rosters.pop();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;
    use crate::groups::wire::{BusOp, GroupRef, Op};

    fn member(number: u64) -> MemberId {
        MemberId {
            node: NodeId(number),
            incarnation: Incarnation(number),
        }
    }

    /// Two daemons, each with five clients in some of four groups, two of them by patterns.
    fn states() -> BTreeMap<MemberId, Roster> {
        let roster = |host: &str| {
            let mut roster = Roster::new(host);
            roster.bindings = (0..1_000).map(|it| format!("b{it}").into()).collect();
            for client in 1..=5 {
                let name = &format!("c{client}");
                roster.apply(&Op::BindClient { client, name }).unwrap();
                for group in ["a.b", "c", "d", "*.b"] {
                    let group = GroupRef::Named(group);
                    if client % 2 == 0 {
                        roster.apply(&Op::Join { client, group }).unwrap();
                        continue;
                    }
                    for pattern in ["x", "x|y", "z.*"] {
                        let what = BusOp::Accept { group, pattern };
                        let token = 1;
                        let op = Op::Bus {
                            client,
                            token,
                            what,
                        };
                        roster.apply(&op).unwrap();
                    }
                }
                let (what, token) = (BusOp::Identify { id: "id" }, 1);
                roster
                    .apply(&Op::Bus {
                        client,
                        token,
                        what,
                    })
                    .unwrap();
            }
            roster
        };
        BTreeMap::from([(member(1), roster("h")), (member(2), roster("far"))])
    }

    #[test]
    fn groups_and_patterns_are_the_same_in_parts() {
        let (mut compiled, mut work) = (Patterns::default(), 0);
        let mut at_once = Installing::new(member(1), states());
        assert!(at_once.go_on(&mut compiled, |it| {
            work += it;
            true
        }));
        // 40 memberships, and 36 patterns of which two are compiled.
        assert!(
            work >= 40 * MEMBERSHIP + 34 * PATTERN + 2 * COMPILE,
            "{work}"
        );
        let mut in_parts = Installing::new(member(1), states());
        let mut parts = 1;
        while !in_parts.go_on(&mut compiled, |_| false) {
            parts += 1;
        }
        assert!(parts >= 40 + 36, "{parts}");
        assert_eq!(format!("{in_parts:?}"), format!("{at_once:?}"));
        let group = &in_parts.groups["a.b"];
        assert_eq!((group.members.len(), group.subscribers.len()), (10, 5));
        assert_eq!(in_parts.filters.without_membership("a.b", "zz"), [1, 3, 5]);
        assert_eq!(
            in_parts.filters.without_membership("id", ""),
            [1, 2, 3, 4, 5]
        );
    }

    /// Else every later state of their daemon would have them.
    #[test]
    fn who_disconnected_during_an_exchange_is_forgotten_when_it_ends() {
        let (mut compiled, local) = (Patterns::default(), member(1));
        let mut table = Table::new(local);
        let mut states = states();
        for roster in states.values_mut() {
            roster.departed.insert(9, "gone@h".into());
        }
        let mut installing = Installing::new(local, states);
        assert!(installing.go_on(&mut compiled, |_| true));
        installing.finish(&mut table, &mut Filters::default());
        assert_eq!(table.rosters().count(), 2);
        assert!(table.rosters().all(|(_, it)| it.departed.is_empty()));
    }

    /// They name nobody in a group, but are looked at.
    #[test]
    fn clients_without_groups_take_time() {
        let (mut compiled, mut work) = (Patterns::default(), 0);
        let mut roster = Roster::new("h");
        for client in 1..=1_000 {
            let name = &format!("c{client}");
            roster.apply(&Op::BindClient { client, name }).unwrap();
        }
        let mut installing = Installing::new(member(1), BTreeMap::from([(member(1), roster)]));
        assert!(installing.go_on(&mut compiled, |it| {
            work += it;
            true
        }));
        assert!(work >= 1_000, "{work}");
    }

    #[test]
    fn what_is_replaced_is_let_go_in_parts() {
        let (mut compiled, local) = (Patterns::default(), member(1));
        let mut table = Table::new(local);
        let mut filters = Filters::default();
        for first in [true, false] {
            let mut installing = Installing::new(local, states());
            assert!(installing.go_on(&mut compiled, |_| true));
            let mut replaced = installing.finish(&mut table, &mut filters);
            let (mut parts, mut work) = (1, 0);
            while !replaced.let_go(|it| {
                work += it;
                false
            }) {
                parts += 1;
            }
            // Four groups; of three clients patterns for each of them; ten clients with four
            // groups; 1,000 names of two daemons.
            assert_eq!(parts > 4 + 12 + 10 * 5 + 2_000, !first, "{parts}");
            let all = 2 * 40 + 36 + 2_000;
            assert_eq!(work >= LET_GO * all, !first, "{work}");
        }
        assert_eq!(table.size("c"), 10);
        assert_eq!(filters.without_membership("id", ""), [1, 2, 3, 4, 5]);
    }
}
