//! The part of a host's state about roles and guests, and the merging of the parts of all hosts
//! after an exchange.

use std::collections::BTreeMap;
use std::sync::Arc;

use groupcast_core::OrderPlace;

use super::numbers::{Blank, Entry, Numbered, Numbers};
use super::roles::{Claim, Roles};
use super::{By, GuestId, Guests, Parts, Party, Planted, Request, Role, RoleState};
use super::{not_held, taken, too_many};

/// A host's part of the state: the claims of its own clients, and its table of guests.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Part {
    pub(crate) claims: Vec<PartClaim>,
    pub(crate) guests: Vec<PartGuest>,
}

impl Part {
    /// Whether it has neither claims nor guests.
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.guests.is_empty()
    }
}

/// A claim of a client of the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartClaim {
    pub(crate) client: u64,
    pub(crate) token: u64,
    pub(crate) group: Arc<str>,
    pub(crate) role: Role,
    pub(crate) since: OrderPlace,
    pub(crate) flags: u8,
}

/// The client was told that it has the role.
const GRANTED: u8 = 1;
/// It asked to wait for it.
const MAY_WAIT: u8 = 2;
/// Its last claim or release came in an interrupted exchange, and was not answered.
const UNANSWERED: u8 = 4;
/// Its last operation gives the role back.
const RELEASED: u8 = 8;
/// The client is not in the group.
const STRANGER: u8 = 16;
/// All flags.
pub(crate) const FLAGS: u8 = 31;

impl PartClaim {
    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether the client has the role or a place in the queue for it.
    fn stands(&self) -> bool {
        !self.is(RELEASED | STRANGER)
    }
}

/// A guest in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PartGuest {
    pub(crate) guest: GuestId,
    pub(crate) last: u64,
    pub(crate) blank: Option<Blank>,
    pub(crate) at: u64,
    pub(crate) home: Party,
    pub(crate) present: bool,
}

/// An operation that came in an interrupted exchange, and counts in the state.
#[derive(Clone, Debug)]
pub(crate) enum HeldOp {
    /// A client of this host claims a role.
    Claim {
        client: u64,
        group: Arc<str>,
        role: Role,
        token: u64,
        may_wait: bool,
        at: OrderPlace,
    },
    /// A client of this host gives a role back.
    Release {
        client: u64,
        group: Arc<str>,
        role: Role,
        token: u64,
        at: OrderPlace,
    },
    /// A request, of any host.
    Request {
        from: Party,
        request: Request,
        at: OrderPlace,
    },
}

impl Guests {
    /// This host's part, after all operations that were applied and those that are `held`, in their
    /// order. `is_member` tells whether a client of this host is in a group after them.
    pub(crate) fn part(
        &self,
        held: impl Iterator<Item = HeldOp>,
        is_member: impl Fn(u64, &str) -> bool,
    ) -> Part {
        let own = self.roles.all();
        let own = own.filter(|(_, _, claim)| claim.party.daemon == self.local);
        let mut claims: Vec<PartClaim> = own
            .map(|(group, role, claim)| PartClaim {
                client: claim.party.client,
                token: claim.token,
                group: group.clone(),
                role,
                since: claim.since,
                flags: flag(GRANTED, claim.granted) | flag(MAY_WAIT, claim.may_wait),
            })
            .collect();
        let mut numbers = self.numbers.clone();
        for op in held {
            take_held(&mut claims, &mut numbers, op);
        }
        claims.retain_mut(|claim| {
            let is_member = is_member(claim.client, &claim.group);
            if !is_member {
                claim.flags |= STRANGER;
            }
            is_member || claim.is(UNANSWERED)
        });
        let guests = numbers.entries().map(|(guest, entry)| PartGuest {
            guest,
            last: entry.last,
            blank: entry.blank,
            at: entry.at,
            home: entry.home,
            present: entry.present,
        });
        Part {
            claims,
            guests: guests.collect(),
        }
    }

    /// All parts have come, the last one at `at`: installs the roles and numbers that follow from
    /// all of them. `name` gives the private name of a client, if the client is there.
    pub(crate) fn install(
        &mut self,
        at: OrderPlace,
        parts: Parts,
        name: impl Fn(Party) -> Option<Arc<str>>,
    ) {
        self.open.narrow(|daemon| parts.contains_key(&daemon));
        let is_kept = self.planted != Some(Planted::NoTable);
        let guests = parts.values().filter(|_| is_kept);
        let guests = guests.flat_map(|part| &part.guests).map(|it| {
            let entry = Entry {
                last: it.last,
                blank: it.blank,
                at: it.at,
                home: it.home,
                present: it.present,
            };
            (it.guest, entry)
        });
        self.numbers = Numbers::merge(guests, |party| name(party).is_some());
        self.roles = Roles::default();
        let mut claims: Vec<(Party, PartClaim)> = Vec::new();
        for (daemon, part) in parts {
            claims.extend(part.claims.into_iter().map(|claim| {
                let client = claim.client;
                (Party { daemon, client }, claim)
            }));
        }
        let own_first = self.planted == Some(Planted::OwnFirst);
        // Granted claims go first, so that neither a waiting client nor a limit takes a role away
        // from its holder.
        claims.sort_by_key(|(party, claim)| {
            let later = own_first && party.daemon != self.local;
            let since = (claim.since.seq, claim.since.config);
            (later, !claim.is(GRANTED), since, *party)
        });
        let mut holders: BTreeMap<(Arc<str>, Role), Arc<str>> = BTreeMap::new();
        for (party, claim) in claims {
            let Some(name) = name(party) else { continue };
            let by = By {
                party,
                name: &name,
                at,
            };
            let key = (claim.group.clone(), claim.role);
            let holder = holders.get(&key);
            let stands = self.settle(by, (&key.0, key.1), &claim, holder);
            if stands && claim.role.is_exclusive() {
                holders.entry(key).or_insert(name);
            }
        }
    }

    /// Settles one claim, after those that go before it, and tells its client. Returns whether the
    /// claim stands.
    fn settle(
        &mut self,
        by: By<'_>,
        (group, role): (&Arc<str>, Role),
        claim: &PartClaim,
        holder: Option<&Arc<str>>,
    ) -> bool {
        // Claims beyond the limits of a daemon are left out, at all daemons alike.
        let full = self.roles.full(by.party);
        let fits = full.is_none() && !self.roles.is_claimed(by.party, group, role);
        let keeps = self.planted == Some(Planted::AllHold) && claim.is(GRANTED);
        let holder = holder.filter(|_| !keeps);
        let holds = claim.stands() && holder.is_none() && fits;
        let waits = claim.stands() && claim.is(MAY_WAIT) && !claim.is(GRANTED) && fits;
        if holds || waits {
            let entry = Claim {
                since: claim.since,
                party: by.party,
                name: by.name.clone(),
                token: claim.token,
                may_wait: claim.is(MAY_WAIT),
                granted: holds,
            };
            self.roles.insert((group.clone(), role), entry);
        }
        if holds {
            self.granted(group, role, by.name, by.at);
        }
        let told = claim.is(GRANTED) && !claim.is(UNANSWERED);
        let state = match holder {
            _ if claim.is(STRANGER) => {
                return self.settle_stranger(by.party, (group, role), claim);
            }
            _ if claim.is(RELEASED) && claim.is(GRANTED | MAY_WAIT) => RoleState::Released,
            _ if claim.is(RELEASED) => not_held(role, holder.map(|name| &**name)),
            _ if holds && told => return true,
            _ if holds => RoleState::Held,
            _ if waits && !claim.is(UNANSWERED) => return true,
            Some(holder) if waits => RoleState::Waits {
                holder: holder.to_string(),
            },
            holder if claim.is(GRANTED) => RoleState::Lost {
                holder: holder.map(ToString::to_string).unwrap_or_default(),
            },
            Some(holder) if full.is_none() || !claim.is(MAY_WAIT) => taken(role, holder),
            _ => too_many(full.map(|full| full.to_string()).unwrap_or_default()),
        };
        self.notice(by.party, group, role, claim.token, state);
        holds || waits
    }

    fn settle_stranger(
        &mut self,
        party: Party,
        (group, role): (&Arc<str>, Role),
        claim: &PartClaim,
    ) -> bool {
        match claim.is(RELEASED) {
            true => self.notice(party, group, role, claim.token, not_held(role, None)),
            false => self.refuse_stranger(party, (group, role), claim.token),
        }
        false
    }
}

fn flag(flag: u8, is_set: bool) -> u8 {
    if is_set { flag } else { 0 }
}

fn take_held(claims: &mut Vec<PartClaim>, numbers: &mut Numbers, op: HeldOp) {
    match op {
        HeldOp::Claim {
            client,
            group,
            role,
            token,
            may_wait,
            at,
        } => match standing(claims, client, &group, role) {
            Some(known) => {
                known.token = token;
                known.flags |= UNANSWERED;
            }
            None => claims.push(PartClaim {
                client,
                token,
                group,
                role,
                since: at,
                flags: UNANSWERED | flag(MAY_WAIT, may_wait),
            }),
        },
        HeldOp::Release {
            client,
            group,
            role,
            token,
            at,
        } => match standing(claims, client, &group, role) {
            Some(known) => {
                known.token = token;
                known.flags |= UNANSWERED | RELEASED;
            }
            None => claims.push(PartClaim {
                client,
                token,
                group,
                role,
                since: at,
                flags: UNANSWERED | RELEASED,
            }),
        },
        HeldOp::Request { from, request, at } => {
            let numbered = Numbered {
                guest: request.guest,
                number: request.number,
                floor: request.floor,
                handled: request.handler.is_some(),
                // It is held since the exchange was interrupted.
                split: true,
            };
            // Only the change of the table counts here.
            let _ = numbers.admit(at.seq, from, numbered);
        }
    }
}

/// The client's claim to a role, unless the client has given the role back.
fn standing<'a>(
    claims: &'a mut [PartClaim],
    client: u64,
    group: &str,
    role: Role,
) -> Option<&'a mut PartClaim> {
    claims.iter_mut().find(|claim| {
        let same = claim.client == client && *claim.group == *group && claim.role == role;
        same && !claim.is(RELEASED)
    })
}

#[cfg(test)]
mod tests {
    use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId};

    use super::super::{ROLES_PER_CLIENT_MAX, ROLES_PER_DAEMON_MAX};
    use super::*;

    fn daemon(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    fn place(seq: u64) -> OrderPlace {
        let config = ConfigId {
            counter: 1,
            representative: daemon(1),
        };
        OrderPlace { config, seq }
    }

    fn claim(client: u64, number: u16, seq: u64) -> PartClaim {
        PartClaim {
            client,
            token: 1,
            group: "g".into(),
            role: Role::Lock(number),
            since: place(seq),
            flags: MAY_WAIT,
        }
    }

    fn name(party: Party) -> Option<Arc<str>> {
        Some(format!("{}@{}", party.client, party.daemon.node.0).into())
    }

    #[test]
    fn a_state_brings_no_more_roles_than_its_daemon_may_have_and_all_see_the_same() {
        let per_client = ROLES_PER_CLIENT_MAX as u16;
        let clients = (ROLES_PER_DAEMON_MAX / ROLES_PER_CLIENT_MAX) as u64 + 2;
        let greedy = (1..=clients).flat_map(|client| {
            let numbers = 0..per_client + 1;
            numbers.map(move |number| claim(client, number, client))
        });
        let mut greedy: Vec<PartClaim> = greedy.collect();
        greedy.push(greedy[0].clone());
        let ours = vec![claim(1, 0, 1_000), claim(2, per_client, 1_000)];
        let parts = |claims: [Vec<PartClaim>; 2]| -> Parts {
            let part = |claims| Part {
                claims,
                guests: Vec::new(),
            };
            (1..).map(daemon).zip(claims.map(part)).collect()
        };
        let both = [1, 2].map(|node| {
            let mut guests = Guests::new(daemon(node));
            let parts = parts([ours.clone(), greedy.clone()]);
            guests.install(place(2_000), parts, name);
            guests
        });
        let all = both.each_ref().map(|guests| {
            let all = guests.roles.all();
            let all = all.map(|(_, role, claim)| (role, claim.clone()));
            all.collect::<Vec<_>>()
        });
        assert_eq!(all[0], all[1]);
        let of = |node| both[0].roles.of_daemon(daemon(node));
        assert_eq!(of(2), ROLES_PER_DAEMON_MAX);
        assert_eq!(of(1), 2, "ours do not suffer for it");
        let mut guests = both.into_iter().next().unwrap();
        let role = (&Arc::from("g"), Role::Lock(60_000));
        let mut ask = |node, client| {
            let party = Party {
                daemon: daemon(node),
                client,
            };
            let name = name(party).unwrap();
            let by = By {
                party,
                name: &name,
                at: place(3_000),
            };
            guests.apply_claim(by, role, 1, true);
            guests.roles.is_claimed(party, role.0, role.1)
        };
        assert!(!ask(2, 5_000));
        assert!(ask(1, 5_000));
    }

    /// What a client of daemon 1 hears when these parts have come, and who then has what.
    fn installed(parts: [Vec<PartClaim>; 2]) -> (Vec<(Role, RoleState)>, Guests) {
        let part = |claims| Part {
            claims,
            guests: Vec::new(),
        };
        let parts: Parts = (1..).map(daemon).zip(parts.map(part)).collect();
        let mut guests = Guests::new(daemon(1));
        guests.install(place(2_000), parts, name);
        let mut told = Vec::new();
        while let Some(effect) = guests.poll_effect() {
            if let super::super::Effect::Role { notice, .. } = effect {
                told.push((notice.role, notice.state));
            }
        }
        (told, guests)
    }

    fn granted(claim: PartClaim) -> PartClaim {
        let flags = claim.flags | GRANTED;
        PartClaim { flags, ..claim }
    }

    fn asked_now(claim: PartClaim) -> PartClaim {
        let flags = claim.flags | UNANSWERED;
        PartClaim { flags, ..claim }
    }

    #[test]
    fn what_a_client_has_counts_before_what_it_asks_for() {
        let most = ROLES_PER_CLIENT_MAX as u16;
        let has = (1..=most).map(|number| granted(claim(1, number, u64::from(number))));
        // They come first by number, and last by place; another has one of them.
        let late = [
            asked_now(claim(1, 0, 1_000)),
            asked_now(claim(1, most + 1, 1_001)),
        ];
        let others = vec![granted(claim(1, most + 1, 500))];
        let (told, guests) = installed([late.into_iter().chain(has).collect(), others]);
        let refused = |role| {
            let state = told.iter().find(|(of, _)| *of == Role::Lock(role));
            let code = match state {
                Some((_, RoleState::Refused { code, .. })) => Some(*code),
                _ => None,
            };
            code == Some(crate::frame::Reject::TooManyRoles)
        };
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(refused(0) && refused(most + 1), "{told:?}");
        assert_eq!(guests.roles.of_daemon(daemon(1)), ROLES_PER_CLIENT_MAX);
    }

    #[test]
    fn who_had_a_role_has_it_before_who_waited_for_longer_and_who_loses_one_hears_that() {
        let waits = vec![claim(1, 1, 20)];
        let (told, guests) = installed([waits, vec![granted(claim(1, 1, 30))]]);
        assert_eq!(told, []);
        let group = Arc::from("g");
        let has = guests.roles.holders(&group, Role::Lock(1)).next();
        assert_eq!(has.map(|claim| claim.party.daemon), Some(daemon(2)));
        let most = ROLES_PER_CLIENT_MAX as u16;
        let has = (0..=most).map(|number| granted(claim(1, number, u64::from(number))));
        let (told, _) = installed([has.collect(), Vec::new()]);
        let holder = String::new();
        assert_eq!(told, [(Role::Lock(most), RoleState::Lost { holder })]);
    }
}
