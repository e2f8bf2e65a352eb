//! One daemon's part of the group state: its clients, their groups, and the names that its numbers
//! stand for.
//!
//! Only that daemon's own messages change it, so it is equal at all daemons to which they were
//! delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::wire::{BINDINGS_MAX, BusOp, GroupRef, Op};
use crate::name::private;

/// The most clients of one daemon that its peers accept.
pub const CLIENTS_MAX: usize = 65_536;
/// The most groups of one client that the peers of its daemon accept.
pub const GROUPS_PER_CLIENT_MAX: usize = 65_536;
/// The most patterns of one client for one group that the peers of its daemon accept.
pub(super) const PATTERNS_PER_GROUP_MAX: usize = 65_536;

/// One daemon's part of the group state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Roster {
    /// The daemon's name.
    pub(super) host: Arc<str>,
    /// Names of the groups 1, 2, …
    pub(super) bindings: Vec<Arc<str>>,
    /// By number. Copies of the roster share them until they change.
    pub(super) clients: BTreeMap<u64, Arc<RosterClient>>,
    /// Private names of clients that disconnected while states were exchanged: other daemons may
    /// still have to deliver their messages.
    pub(super) departed: BTreeMap<u64, Arc<str>>,
}

/// A client of the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RosterClient {
    pub(super) private: Arc<str>,
    pub(super) groups: BTreeSet<Arc<str>>,
    /// Its id and patterns, if it uses the bus.
    pub(super) bus: Option<BusPart>,
}

/// The id and the patterns of a client on the bus.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct BusPart {
    pub(super) id: Option<Arc<str>>,
    /// For each group that it accepts messages of, the patterns for their tags: one at least. A
    /// group without an entry was joined without patterns: all its messages are for the client.
    pub(super) patterns: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl RosterClient {
    /// Its id on the bus.
    pub(super) fn id(&self) -> Option<&Arc<str>> {
        self.bus.as_ref()?.id.as_ref()
    }

    /// Its name without `@host`.
    pub(super) fn bare_name(&self) -> &str {
        self.private.split('@').next().unwrap_or_default()
    }
}

/// The effect of an [`Op`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// No view shows it.
    None,
    /// The client is in the group now.
    Joined { client: Arc<str>, group: Arc<str> },
    /// The client is in the group no more.
    Left { client: Arc<str>, group: Arc<str> },
    /// The client is leaving, and in these groups no more.
    Withdrawn {
        client: Arc<str>,
        groups: BTreeSet<Arc<str>>,
    },
    /// The client is gone, and was in these groups.
    Disconnected {
        client: Arc<str>,
        groups: BTreeSet<Arc<str>>,
    },
}

/// Why an operation is invalid; it is skipped then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum OpError {
    #[error("client {0} is not bound")]
    UnknownClient(u64),
    #[error("group {0} is not bound")]
    UnknownGroup(u64),
    #[error("{0} is bound already, or out of turn")]
    Rebound(u64),
    #[error("the sender's table is full")]
    Full,
    #[error("a private name cannot be joined")]
    Private,
}

impl Roster {
    pub(super) fn new(host: &str) -> Self {
        Self {
            host: host.into(),
            bindings: Vec::new(),
            clients: BTreeMap::new(),
            departed: BTreeMap::new(),
        }
    }

    /// Carries out an operation of the daemon.
    pub(super) fn apply(&mut self, op: &Op<'_>) -> Result<Change, OpError> {
        match *op {
            Op::BindGroup { number, name } => self.bind_group(number, name),
            Op::BindClient { client, name } => self.bind_client(client, name),
            Op::Join { client, group } => {
                let group = self.group(group)?;
                if crate::name::is_private(&group) {
                    return Err(OpError::Private);
                }
                let entry = self.client_mut(client)?;
                if entry.groups.len() >= GROUPS_PER_CLIENT_MAX {
                    return Err(OpError::Full);
                }
                Ok(if entry.groups.insert(group.clone()) {
                    Change::Joined {
                        client: entry.private.clone(),
                        group,
                    }
                } else {
                    Change::None
                })
            }
            Op::Bus { client, what, .. } => self.apply_bus(client, what),
            Op::Leave { client, group } => {
                let group = self.group(group)?;
                let entry = self.client_mut(client)?;
                if let Some(bus) = &mut entry.bus {
                    bus.patterns.remove(&group);
                }
                Ok(if entry.groups.remove(&group) {
                    Change::Left {
                        client: entry.private.clone(),
                        group,
                    }
                } else {
                    Change::None
                })
            }
            Op::Withdraw { client, groups } => self.withdraw(client, groups),
            Op::Disconnect { client } => {
                let entry = self
                    .clients
                    .remove(&client)
                    .ok_or(OpError::UnknownClient(client))?;
                let entry = Arc::unwrap_or_clone(entry);
                Ok(Change::Disconnected {
                    client: entry.private,
                    groups: entry.groups,
                })
            }
        }
    }

    fn withdraw(&mut self, client: u64, groups: u64) -> Result<Change, OpError> {
        let entry = self.client_mut(client)?;
        let count = usize::try_from(groups).unwrap_or(usize::MAX);
        let rest = match entry.groups.iter().nth(count).cloned() {
            Some(first) => entry.groups.split_off(&first),
            None => BTreeSet::new(),
        };
        let groups = std::mem::replace(&mut entry.groups, rest);
        if let Some(bus) = &mut entry.bus {
            bus.patterns.retain(|group, _| !groups.contains(group));
        }
        Ok(match groups.is_empty() {
            true => Change::None,
            false => Change::Withdrawn {
                client: entry.private.clone(),
                groups,
            },
        })
    }

    fn apply_bus(&mut self, number: u64, what: BusOp<'_>) -> Result<Change, OpError> {
        match what {
            BusOp::Accept { group, pattern } => {
                let join = Op::Join {
                    client: number,
                    group,
                };
                let group = self.group(group)?;
                let full = |client: &Arc<RosterClient>| {
                    let bus = client.bus.as_ref();
                    let patterns = bus.and_then(|bus| bus.patterns.get(&group));
                    patterns.is_some_and(|it| it.len() >= PATTERNS_PER_GROUP_MAX)
                };
                if self.clients.get(&number).is_some_and(full) {
                    return Err(OpError::Full);
                }
                let change = self.apply(&join)?;
                let bus = self.client_mut(number)?.bus.get_or_insert_default();
                bus.patterns
                    .entry(group)
                    .or_default()
                    .insert(pattern.into());
                Ok(change)
            }
            BusOp::Reject { group, pattern } => {
                let name = self.group(group)?;
                let bus = self.client_mut(number)?.bus.as_mut();
                let patterns = bus.and_then(|bus| bus.patterns.get_mut(&name));
                let was_last = patterns.is_some_and(|patterns| {
                    patterns.remove(pattern);
                    patterns.is_empty()
                });
                if !was_last {
                    return Ok(Change::None);
                }
                self.apply(&Op::Leave {
                    client: number,
                    group,
                })
            }
            BusOp::Identify { id } => {
                let bus = self.client_mut(number)?.bus.get_or_insert_default();
                bus.id = (!id.is_empty()).then(|| id.into());
                Ok(Change::None)
            }
            BusOp::Who { .. } => Ok(Change::None),
        }
    }

    /// The same, remembering the name of a client that disconnects.
    pub(super) fn apply_remembering(&mut self, op: &Op<'_>) -> Result<Change, OpError> {
        let change = self.apply(op)?;
        if let (Op::Disconnect { client }, Change::Disconnected { client: name, .. }) =
            (op, &change)
        {
            self.departed.insert(*client, name.clone());
        }
        Ok(change)
    }

    /// The memory that it takes, about.
    pub(super) fn memory(&self) -> usize {
        const EACH: usize = 64;
        let bindings = self.bindings.iter().map(|name| name.len() + EACH);
        let clients = self.clients.values().map(|client| {
            let groups = client.groups.iter().map(|group| group.len() + EACH);
            let entry = size_of::<RosterClient>() + client.private.len() + EACH;
            entry + groups.sum::<usize>()
        });
        let departed = self.departed.values().map(|name| name.len() + EACH);
        bindings.chain(clients).chain(departed).sum()
    }

    /// Forgets all clients but those with numbers that are `kept`.
    pub(super) fn keep_clients(&mut self, mut kept: impl FnMut(u64) -> bool) {
        self.clients.retain(|number, _| kept(*number));
    }

    /// Adds the names that `later`, the same daemon's part at a later moment, has for numbers.
    /// Memberships stay as they are. What it grows to is for the caller to bound: with each call by
    /// as much as a state holds.
    pub(super) fn learn(&mut self, later: &Self) {
        let known = self.bindings.len();
        self.bindings
            .extend(later.bindings.iter().skip(known).cloned());
        let clients = later.clients.iter();
        let names = clients.map(|(number, client)| (number, &client.private));
        for (number, private) in names.chain(&later.departed) {
            self.clients.entry(*number).or_insert_with(|| {
                Arc::new(RosterClient {
                    private: private.clone(),
                    groups: BTreeSet::new(),
                    bus: None,
                })
            });
        }
    }

    /// The name of the group that the daemon refers to.
    pub(super) fn group(&self, group: GroupRef<'_>) -> Result<Arc<str>, OpError> {
        match group {
            GroupRef::Named(name) => Ok(name.into()),
            GroupRef::Bound(number) => self
                .binding(number)
                .cloned()
                .ok_or(OpError::UnknownGroup(number)),
        }
    }

    /// The private name of a client of the daemon.
    pub(super) fn client(&self, number: u64) -> Result<&Arc<str>, OpError> {
        self.clients
            .get(&number)
            .map(|client| &client.private)
            .ok_or(OpError::UnknownClient(number))
    }

    fn binding(&self, number: u64) -> Option<&Arc<str>> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.bindings.get(index)
    }

    fn bind_group(&mut self, number: u64, name: &str) -> Result<Change, OpError> {
        if let Some(bound) = self.binding(number) {
            // A binding may come again after a state that contains it already.
            return if **bound == *name {
                Ok(Change::None)
            } else {
                Err(OpError::Rebound(number))
            };
        }
        if self.bindings.len() >= BINDINGS_MAX {
            return Err(OpError::Full);
        }
        if number != self.bindings.len() as u64 + 1 {
            return Err(OpError::Rebound(number));
        }
        self.bindings.push(name.into());
        Ok(Change::None)
    }

    fn bind_client(&mut self, number: u64, name: &str) -> Result<Change, OpError> {
        let private = private(name, &self.host);
        if let Some(bound) = self.clients.get(&number) {
            return if *bound.private == *private {
                Ok(Change::None)
            } else {
                Err(OpError::Rebound(number))
            };
        }
        if self.clients.len() >= CLIENTS_MAX {
            return Err(OpError::Full);
        }
        let client = RosterClient {
            private: private.into(),
            groups: BTreeSet::new(),
            bus: None,
        };
        self.clients.insert(number, Arc::new(client));
        Ok(Change::None)
    }

    fn client_mut(&mut self, number: u64) -> Result<&mut RosterClient, OpError> {
        self.clients
            .get_mut(&number)
            .map(Arc::make_mut)
            .ok_or(OpError::UnknownClient(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_bound_is_refused_and_changes_nothing() {
        let mut roster = Roster::new("h");
        let before = roster.clone();
        let join = |client, group| Op::Join { client, group };
        assert_eq!(
            roster.apply(&join(1, GroupRef::Named("g"))),
            Err(OpError::UnknownClient(1))
        );
        assert_eq!(
            roster.apply(&join(1, GroupRef::Bound(0))),
            Err(OpError::UnknownGroup(0))
        );
        assert_eq!(
            roster.apply(&Op::BindGroup {
                number: 2,
                name: "g"
            }),
            Err(OpError::Rebound(2))
        );
        assert_eq!(
            roster.apply(&Op::Disconnect { client: 1 }),
            Err(OpError::UnknownClient(1))
        );
        assert_eq!(roster, before);
    }

    #[test]
    fn nobody_joins_a_private_name() {
        let mut roster = Roster::new("h");
        roster
            .apply(&Op::BindClient {
                client: 1,
                name: "al",
            })
            .unwrap();
        let join = Op::Join {
            client: 1,
            group: GroupRef::Named("al@h"),
        };
        assert_eq!(roster.apply(&join), Err(OpError::Private));
    }

    #[test]
    fn a_client_that_leaves_is_taken_out_of_its_first_groups() {
        let mut roster = Roster::new("h");
        let bind = Op::BindClient {
            client: 1,
            name: "al",
        };
        roster.apply(&bind).unwrap();
        for group in ["b", "a", "c"] {
            let group = GroupRef::Named(group);
            roster.apply(&Op::Join { client: 1, group }).unwrap();
        }
        let mut withdraw = |groups| {
            let client = 1;
            match roster.apply(&Op::Withdraw { client, groups }) {
                Ok(Change::Withdrawn { groups, .. }) => groups.iter().map(|it| &**it).collect(),
                Ok(Change::None) => String::new(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(withdraw(0), "");
        assert_eq!(withdraw(2), "ab");
        assert_eq!(withdraw(u64::MAX), "c");
        assert_eq!(withdraw(1), "");
        let gone = roster.apply(&Op::Disconnect { client: 1 });
        assert!(matches!(gone, Ok(Change::Disconnected { groups, .. }) if groups.is_empty()));
    }

    #[test]
    fn numbers_are_bound_once() {
        let mut roster = Roster::new("h");
        let bind = |name| Op::BindGroup { number: 1, name };
        assert_eq!(roster.apply(&bind("g")), Ok(Change::None));
        assert_eq!(roster.apply(&bind("g")), Ok(Change::None));
        assert_eq!(roster.apply(&bind("other")), Err(OpError::Rebound(1)));
    }

    #[test]
    fn a_client_keeps_its_name() {
        let mut roster = Roster::new("h");
        let bind = |name| Op::BindClient { client: 1, name };
        assert_eq!(roster.apply(&bind("al")), Ok(Change::None));
        assert_eq!(roster.apply(&bind("al")), Ok(Change::None));
        assert_eq!(roster.apply(&bind("bo")), Err(OpError::Rebound(1)));
    }

    #[test]
    fn a_peer_makes_a_roster_no_larger_than_the_limits() {
        let mut roster = Roster::new("h");
        for number in 0..BINDINGS_MAX as u64 + 1 {
            let name = &number.to_string();
            let bind = Op::BindGroup {
                number: number + 1,
                name,
            };
            let fits = number < BINDINGS_MAX as u64;
            assert_eq!(roster.apply(&bind).is_ok(), fits);
        }
        for client in 0..CLIENTS_MAX as u64 + 1 {
            let name = &client.to_string();
            let bind = Op::BindClient { client, name };
            assert_eq!(roster.apply(&bind).is_ok(), client < CLIENTS_MAX as u64);
        }
        for group in 0..GROUPS_PER_CLIENT_MAX + 1 {
            let name = &group.to_string();
            let join = Op::Join {
                client: 1,
                group: GroupRef::Named(name),
            };
            assert_eq!(roster.apply(&join).is_ok(), group < GROUPS_PER_CLIENT_MAX);
        }
    }
}
