//! The agreed state of all groups, as of the last message that was delivered to subscribers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use groupcast_core::id::fnv1a;
use groupcast_core::{ConfigId, MemberId};

#[cfg(test)]
use super::filters::Filters;
use super::filters::wildcards;
#[cfg(test)]
use super::installing::Installing;
#[cfg(test)]
use super::patterns::Patterns;
use super::roster::{Change, OpError, Roster, RosterClient};
use super::wire::{GroupRef, Op};
use crate::view::{Cause, View, ViewId, ViewKind};

/// All groups.
#[derive(Debug)]
pub(super) struct Table {
    local: MemberId,
    rosters: BTreeMap<MemberId, Roster>,
    groups: BTreeMap<Arc<str>, Group>,
    /// The visible daemons: in a transition those that go on together. `None`, for all, while the
    /// configuration is regular.
    within: Option<BTreeSet<MemberId>>,
}

/// A member of a group: private name, daemon, client number. Views name members in this order.
pub(super) type Member = (Arc<str>, MemberId, u64);

/// The members of a group.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) members: BTreeSet<Member>,
    /// The members that are clients of this daemon.
    pub(super) subscribers: BTreeSet<u64>,
}

impl Group {
    /// Adds a member to one of `groups`.
    pub(super) fn insert(
        groups: &mut BTreeMap<Arc<str>, Self>,
        is_local: bool,
        group: &Arc<str>,
        member: Member,
    ) {
        let entry = match groups.get_mut(group) {
            Some(entry) => entry,
            None => groups.entry(group.clone()).or_default(),
        };
        if is_local {
            entry.subscribers.insert(member.2);
        }
        entry.members.insert(member);
    }
}

impl Table {
    /// The table before the first configuration: no client is visible.
    pub(super) fn new(local: MemberId) -> Self {
        Self {
            local,
            rosters: BTreeMap::new(),
            groups: BTreeMap::new(),
            within: Some(BTreeSet::new()),
        }
    }

    /// The part of `daemon`, if it is known.
    pub(super) fn roster(&self, daemon: MemberId) -> Option<&Roster> {
        self.rosters.get(&daemon)
    }

    /// The parts of all known daemons.
    pub(super) fn rosters(&self) -> impl Iterator<Item = (MemberId, &Roster)> {
        self.rosters
            .iter()
            .map(|(daemon, roster)| (*daemon, roster))
    }

    /// The id on the bus of a client of `daemon`.
    pub(super) fn id_of(&self, daemon: MemberId, client: u64) -> Option<&Arc<str>> {
        self.rosters.get(&daemon)?.clients.get(&client)?.id()
    }

    /// Clients of this daemon in `group`.
    pub(super) fn subscribers(&self, group: &str) -> Option<&BTreeSet<u64>> {
        self.groups.get(group).map(|group| &group.subscribers)
    }

    /// How many members `group` has at all daemons.
    pub(super) fn size(&self, group: &str) -> usize {
        self.groups.get(group).map_or(0, |it| it.members.len())
    }

    /// Whether this daemon has clients in any group.
    pub(super) fn has_subscribers(&self) -> bool {
        let mut groups = self.groups.values();
        groups.any(|group| !group.subscribers.is_empty())
    }

    /// Of the `count` groups behind the group `after`, by their names, those in which this daemon
    /// has clients; and the last of them all if others may follow.
    pub(super) fn subscribed(
        &self,
        after: Option<&str>,
        count: usize,
    ) -> (Vec<Arc<str>>, Option<Arc<str>>) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let groups = self.groups.range::<str, _>((from, Bound::Unbounded));
        let (mut subscribed, mut last) = (Vec::new(), None);
        for (left, (name, group)) in (0..count).rev().zip(groups) {
            if !group.subscribers.is_empty() {
                subscribed.push(name.clone());
            }
            if left == 0 {
                last = Some(name.clone());
            }
        }
        (subscribed, last)
    }

    /// Private names of the visible members of `group`.
    pub(super) fn members(&self, group: &str) -> Vec<Arc<str>> {
        let group = self.groups.get(group);
        group.map(|group| self.visible(group)).unwrap_or_default()
    }

    /// How many groups there are.
    pub(super) fn count(&self) -> usize {
        self.groups.len()
    }

    /// The groups behind the group `after`, by their names, and the private names of their visible
    /// members.
    pub(super) fn memberships(
        &self,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&Arc<str>, Vec<Arc<str>>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let groups = self.groups.range::<str, _>((from, Bound::Unbounded));
        groups.map(|(name, group)| (name, self.visible(group)))
    }

    /// Whether a transitional configuration is installed, or none yet.
    pub(super) fn is_transitional(&self) -> bool {
        self.within.is_some()
    }

    /// Carries out an operation of `daemon`.
    pub(super) fn apply(&mut self, daemon: MemberId, op: &Op<'_>) -> Result<Change, OpError> {
        let id = op.number();
        let roster = self
            .rosters
            .get_mut(&daemon)
            .ok_or(OpError::UnknownClient(id))?;
        let change = roster.apply(op)?;
        match &change {
            Change::None => {}
            Change::Joined { client, group } => {
                let is_local = daemon == self.local;
                let member = (client.clone(), daemon, id);
                Group::insert(&mut self.groups, is_local, group, member);
            }
            Change::Left { client, group } => self.remove(daemon, id, client, group),
            Change::Withdrawn { client, groups } | Change::Disconnected { client, groups } => {
                for group in groups {
                    self.remove(daemon, id, client, group);
                }
            }
        }
        Ok(change)
    }

    /// The name of the group that `daemon` refers to.
    pub(super) fn group(&self, daemon: MemberId, group: GroupRef<'_>) -> Result<Arc<str>, OpError> {
        match (self.rosters.get(&daemon), group) {
            (Some(roster), _) => roster.group(group),
            (None, GroupRef::Named(name)) => Ok(name.into()),
            (None, GroupRef::Bound(number)) => Err(OpError::UnknownGroup(number)),
        }
    }

    /// Adds the names of a daemon's later state, without installing it.
    pub(super) fn learn(&mut self, daemon: MemberId, later: &Roster) {
        self.rosters
            .entry(daemon)
            .or_insert_with(|| Roster::new(&later.host))
            .learn(later);
    }

    /// Installs a regular configuration: replaces everything by the states of its members, and the
    /// groups that they make. Returns what there was.
    pub(super) fn replace(
        &mut self,
        rosters: BTreeMap<MemberId, Roster>,
        groups: BTreeMap<Arc<str>, Group>,
    ) -> (BTreeMap<MemberId, Roster>, BTreeMap<Arc<str>, Group>) {
        self.within = None;
        let rosters = std::mem::replace(&mut self.rosters, rosters);
        (rosters, std::mem::replace(&mut self.groups, groups))
    }

    /// The same at once.
    #[cfg(test)]
    pub(super) fn install(&mut self, states: BTreeMap<MemberId, Roster>) {
        let mut installing = Installing::new(self.local, states);
        installing.go_on(&mut Patterns::default(), |_| true);
        installing.finish(self, &mut Filters::default());
    }

    /// Installs a transitional configuration: of the visible daemons only those in `daemons` stay
    /// visible. Returns whether that changed anything.
    pub(super) fn narrow(&mut self, daemons: impl IntoIterator<Item = MemberId>) -> bool {
        let daemons: BTreeSet<_> = daemons.into_iter().collect();
        let narrowed = match &self.within {
            None => daemons,
            Some(within) => within.intersection(&daemons).copied().collect(),
        };
        let changed = self.within.as_ref() != Some(&narrowed);
        self.within = Some(narrowed);
        changed
    }

    /// Whether `daemon` is visible: views show its clients.
    pub(super) fn shows(&self, daemon: MemberId) -> bool {
        self.within
            .as_ref()
            .is_none_or(|within| within.contains(&daemon))
    }

    /// The view of `group` that came to be at (`config`, `seq`).
    pub(super) fn view(
        &self,
        group: &Arc<str>,
        (config, seq): (ConfigId, u64),
        cause: Cause,
        changed: Option<Arc<str>>,
    ) -> View {
        let (kind, within) = match &self.within {
            None => (ViewKind::Regular, None),
            Some(daemons) => (ViewKind::Transitional, Some(component(daemons))),
        };
        let members = self.groups.get(group).map(|group| self.visible(group));
        View {
            group: group.clone(),
            id: ViewId {
                config,
                seq,
                within,
            },
            kind,
            approximate: false,
            cause,
            changed,
            members: members.unwrap_or_default(),
        }
    }

    /// The clients that a message to `group` is for, by private name, with their ids. These are
    /// clients of visible daemons: members of the group or of a domain above it, if they have no
    /// patterns or `passes` accepts their patterns, and clients whose id or private name is
    /// `group`.
    pub(super) fn audience(
        &self,
        group: &str,
        mut passes: impl FnMut(&BTreeSet<Arc<str>>) -> bool,
    ) -> BTreeMap<Arc<str>, Option<Arc<str>>> {
        let mut audience = BTreeMap::new();
        let mut members = Vec::new();
        for name in std::iter::once(group.to_owned()).chain(wildcards(group)) {
            let is_wildcard = name != group;
            let group = self.groups.get_key_value(&*name);
            let of_group = group.into_iter().flat_map(|(_, group)| &group.members);
            members.extend(
                of_group.map(|(_, daemon, number)| (*daemon, *number, is_wildcard, name.clone())),
            );
        }
        for (daemon, number, is_wildcard, name) in members {
            let client = self
                .rosters
                .get(&daemon)
                .and_then(|it| it.clients.get(&number));
            let Some(client) = client.filter(|_| self.shows(daemon)) else {
                continue;
            };
            let patterns = client.bus.as_ref().and_then(|bus| bus.patterns.get(&*name));
            if patterns.map_or(!is_wildcard, &mut passes) {
                audience.insert(client.private.clone(), client.id().cloned());
            }
        }
        for client in self.visible_clients() {
            if client.id().is_some_and(|id| **id == *group) || *client.private == *group {
                audience.insert(client.private.clone(), client.id().cloned());
            }
        }
        audience
    }

    /// The clients of the bus at visible daemons, in the order of their private names.
    pub(super) fn bus_clients(&self) -> Vec<&RosterClient> {
        let on_bus = self.visible_clients().filter(|it| it.bus.is_some());
        let mut clients: Vec<_> = on_bus.collect();
        clients.sort_by(|one, other| one.private.cmp(&other.private));
        clients
    }

    fn visible_clients(&self) -> impl Iterator<Item = &RosterClient> {
        let visible = self
            .rosters
            .iter()
            .filter(|(daemon, _)| self.shows(**daemon));
        visible.flat_map(|(_, roster)| roster.clients.values().map(|it| &**it))
    }

    fn visible(&self, group: &Group) -> Vec<Arc<str>> {
        let members = group.members.iter();
        members
            .filter(|(_, daemon, _)| self.shows(*daemon))
            .map(|(name, ..)| name.clone())
            .collect()
    }

    fn remove(&mut self, daemon: MemberId, client: u64, private: &Arc<str>, group: &Arc<str>) {
        let Some(entry) = self.groups.get_mut(group) else {
            return;
        };
        entry.members.remove(&(private.clone(), daemon, client));
        if daemon == self.local {
            entry.subscribers.remove(&client);
        }
        if entry.members.is_empty() {
            self.groups.remove(group);
        }
    }
}

/// A hash that differs between the components of a divided configuration.
fn component(daemons: &BTreeSet<MemberId>) -> u64 {
    let bytes: Vec<u8> = daemons
        .iter()
        .flat_map(|daemon| [daemon.node.0, daemon.incarnation.0])
        .flat_map(u64::to_be_bytes)
        .collect();
    fnv1a(&bytes)
}
