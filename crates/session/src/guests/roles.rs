//! The roles of clients in groups, and the queues for them. They follow from the agreed order
//! alone, so they are equal at all daemons of a configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use groupcast_core::{MemberId, OrderPlace};

use super::{Party, Role};

/// The most roles that one client has or waits for, in all groups together.
pub const ROLES_PER_CLIENT_MAX: usize = 256;
/// The most roles that the clients of one daemon have or wait for, at any setting.
pub const ROLES_PER_DAEMON_MAX: usize = 65_536;

/// A client's claim to a role that it has, or waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    /// The place of the claim in the order.
    pub(super) since: OrderPlace,
    pub(super) party: Party,
    /// The client's private name.
    pub(super) name: Arc<str>,
    /// The client's number for it.
    pub(super) token: u64,
    /// The client is willing to wait for it.
    pub(super) may_wait: bool,
    /// The client has the role.
    pub(super) granted: bool,
}

/// The outcome of a claim at its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Claimed {
    /// The client has the role; `anew` unless it had it before.
    Held { anew: bool },
    /// Another client has it, and the client waits in the queue.
    Waits { holder: Arc<str> },
    /// Another client has it.
    Taken { holder: Arc<str> },
    /// A limit of roles is reached.
    Full(Full),
}

/// The limit of roles that is reached: of the client, or of all clients of its daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Full {
    Client,
    Daemon,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Client => write!(
                f,
                "a client may have and wait for {ROLES_PER_CLIENT_MAX} roles: give one back"
            ),
            Self::Daemon => write!(
                f,
                "the clients of a daemon may have and wait for {ROLES_PER_DAEMON_MAX} roles: give one back, or connect \
                 to another daemon"
            ),
        }
    }
}

/// A claim that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    pub(super) group: Arc<str>,
    pub(super) role: Role,
    pub(super) claim: Claim,
    /// The claim that has the role now, if it has passed on.
    pub(super) next: Option<Claim>,
}

/// All roles.
#[derive(Debug, Default)]
pub(super) struct Roles {
    /// The claims to each role. The first claim to an exclusive role has it, the others wait, in
    /// the order of their places.
    claims: BTreeMap<(Arc<str>, Role), Vec<Claim>>,
    by_party: BTreeMap<Party, BTreeSet<(Arc<str>, Role)>>,
    /// How many claims the clients of each daemon have.
    by_daemon: BTreeMap<MemberId, usize>,
}

impl Roles {
    /// A client claims a role, at its place in the order.
    pub(super) fn claim(&mut self, group: &Arc<str>, role: Role, mut claim: Claim) -> Claimed {
        let key = (group.clone(), role);
        let queue = self.claims.get_mut(&key);
        if let Some(queue) = queue {
            let holder = queue.first().map(|first| first.name.clone());
            if let Some(known) = queue.iter_mut().find(|it| it.party == claim.party) {
                known.token = claim.token;
                return match (known.granted, holder) {
                    (false, Some(holder)) => Claimed::Waits { holder },
                    _ => Claimed::Held { anew: false },
                };
            }
            if let Some(holder) = holder.filter(|_| role.is_exclusive()) {
                if !claim.may_wait {
                    return Claimed::Taken { holder };
                }
                if let Some(full) = self.full(claim.party) {
                    return Claimed::Full(full);
                }
                claim.granted = false;
                self.insert(key, claim);
                return Claimed::Waits { holder };
            }
        }
        if let Some(full) = self.full(claim.party) {
            return Claimed::Full(full);
        }
        claim.granted = true;
        self.insert(key, claim);
        Claimed::Held { anew: true }
    }

    /// A client gives a role back, or stops waiting for it.
    ///
    /// # Errors
    /// The client neither has the role nor waits for it; the error names the client that has the
    /// role, if one does.
    pub(super) fn release(
        &mut self,
        group: &Arc<str>,
        role: Role,
        party: Party,
    ) -> Result<Ended, Option<Arc<str>>> {
        let key = (group.clone(), role);
        let Some(queue) = self.claims.get_mut(&key) else {
            return Err(None);
        };
        let Some(at) = queue.iter().position(|claim| claim.party == party) else {
            let holder = queue.first().filter(|_| role.is_exclusive());
            return Err(holder.map(|claim| claim.name.clone()));
        };
        let claim = queue.remove(at);
        let passes_on = role.is_exclusive() && claim.granted;
        let next = queue.first_mut().filter(|_| passes_on).map(|next| {
            next.granted = true;
            next.clone()
        });
        if queue.is_empty() {
            self.claims.remove(&key);
        }
        if let Some(of_party) = self.by_party.get_mut(&party) {
            of_party.remove(&key);
            if of_party.is_empty() {
                self.by_party.remove(&party);
            }
        }
        if let Some(of_daemon) = self.by_daemon.get_mut(&party.daemon) {
            *of_daemon -= 1;
            if *of_daemon == 0 {
                self.by_daemon.remove(&party.daemon);
            }
        }
        let (group, role) = key;
        Ok(Ended {
            group,
            role,
            claim,
            next,
        })
    }

    /// A client has left `group`, or all groups: its roles there end.
    pub(super) fn leave(&mut self, party: Party, group: Option<&str>) -> Vec<Ended> {
        let of_party = self.by_party.get(&party).into_iter().flatten();
        let keys: Vec<_> = of_party
            .filter(|(of, _)| group.is_none_or(|group| **of == *group))
            .cloned()
            .collect();
        let ended = keys.iter();
        ended
            .filter_map(|(group, role)| self.release(group, *role, party).ok())
            .collect()
    }

    /// The claims of the clients that have a role.
    pub(super) fn holders(&self, group: &Arc<str>, role: Role) -> impl Iterator<Item = &Claim> {
        let claims = self.claims.get(&(group.clone(), role));
        claims.into_iter().flatten().filter(|claim| claim.granted)
    }

    /// All claims, by group and role.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Arc<str>, Role, &Claim)> {
        self.claims.iter().flat_map(|((group, role), claims)| {
            claims.iter().map(move |claim| (group, *role, claim))
        })
    }

    /// Adds a claim behind the others. Its client must have none to this role.
    pub(super) fn insert(&mut self, key: (Arc<str>, Role), claim: Claim) {
        let of_party = self.by_party.entry(claim.party).or_default();
        of_party.insert(key.clone());
        *self.by_daemon.entry(claim.party.daemon).or_default() += 1;
        self.claims.entry(key).or_default().push(claim);
    }

    /// Whether the client has the role or waits for it.
    pub(super) fn is_claimed(&self, party: Party, group: &Arc<str>, role: Role) -> bool {
        let of_party = self.by_party.get(&party);
        of_party.is_some_and(|of_party| of_party.contains(&(group.clone(), role)))
    }

    /// How many roles the clients of a daemon have and wait for.
    pub(super) fn of_daemon(&self, daemon: MemberId) -> usize {
        self.by_daemon.get(&daemon).copied().unwrap_or_default()
    }

    /// Why the client may have no further role, if it may not.
    pub(super) fn full(&self, party: Party) -> Option<Full> {
        let of_client = self.by_party.get(&party).map_or(0, BTreeSet::len);
        if of_client >= ROLES_PER_CLIENT_MAX {
            return Some(Full::Client);
        }
        (self.of_daemon(party.daemon) >= ROLES_PER_DAEMON_MAX).then_some(Full::Daemon)
    }
}
