//! Requests to groups, handlers and locks (000 ch. 11, version 2; ch. 8, Fig. 7): carries requests
//! of guests to the members of a group, and keeps which member has which role in it.
//! `docs/guests.md` is the specification.
//!
//! [`Guests`] is a plain value, without I/O, clock or knowledge of what orders messages. Its host,
//! a daemon's engine or a member without a daemon, hands it the operations of the agreed order,
//! with their places; the events of members and connections; and the time. It gives back
//! [`Effect`]s, for the clients of its host alone. Its state is of two kinds. The roles and the
//! table of guests' numbers follow from the order and are equal at all hosts. Open requests, and
//! the requests that members were given and have not answered, are this host's own.
//!
//! The host keeps the members of groups.

mod asked;
mod effect;
mod numbers;
mod open;
mod part;
mod planted;
mod roles;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use groupcast_core::id::fnv1a;
use groupcast_core::trace::Observation;
use groupcast_core::{MemberId, OrderPlace, Time};

use self::asked::Asked;
pub use self::asked::{ASKED_ALL_MAX, ASKED_MAX};
pub use self::effect::{Effect, Ending, Role, RoleNotice, RoleState};
pub(crate) use self::numbers::Blank;
use self::numbers::{Admission, Numbered, Numbers};
pub use self::numbers::{GUESTS_MAX, GUESTS_PER_DAEMON_MAX, GuestId};
use self::open::NOT_TAKEN;
use self::open::Open;
pub use self::open::{AWAITED_MAX, AWAITED_PER_GUEST_MAX, OPEN_MAX, Wanted};
pub(crate) use self::part::{FLAGS as PART_FLAGS, HeldOp, Part, PartClaim, PartGuest};
#[doc(hidden)]
pub use self::planted::Planted;
use self::roles::{Claim, Claimed, Ended, Roles};
pub use self::roles::{ROLES_PER_CLIENT_MAX, ROLES_PER_DAEMON_MAX};
use crate::frame::Reject;

/// A client: its daemon, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Party {
    /// The daemon, or the member that is its own client.
    pub daemon: MemberId,
    /// The client's number at that daemon.
    pub client: u64,
}

/// A request at its place in the order.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) guest: GuestId,
    pub(crate) number: u64,
    /// The highest number that the guest had used in earlier connections.
    pub(crate) floor: u64,
    pub(crate) handler: Option<u16>,
    pub(crate) group: Arc<str>,
    pub(crate) payload: Bytes,
    /// How the members of this host name it when they answer: higher than all before.
    pub(crate) known_as: u64,
}

/// The client of an operation in the order, and the operation's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By<'a> {
    pub(crate) party: Party,
    /// Its private name.
    pub(crate) name: &'a Arc<str>,
    pub(crate) at: OrderPlace,
}

/// Guests, handlers and locks, as one host knows them.
#[derive(Debug)]
pub struct Guests {
    local: MemberId,
    roles: Roles,
    numbers: Numbers,
    open: Open,
    asked: Asked,
    observations: VecDeque<Observation>,
    /// A rule that is broken on purpose.
    planted: Option<Planted>,
}

impl Guests {
    /// The empty state of the host `local`.
    pub fn new(local: MemberId) -> Self {
        Self {
            local,
            roles: Roles::default(),
            numbers: Numbers::default(),
            open: Open::default(),
            asked: Asked::default(),
            observations: VecDeque::new(),
            planted: None,
        }
    }

    /// The host is `local` in the order from now on, and knows nothing of it. Requests that still
    /// wait for the order, which are among `waiting`, stay open; the others end as unknown, in
    /// parts.
    pub(crate) fn begin_anew(
        &mut self,
        local: MemberId,
        waiting: impl IntoIterator<Item = (GuestId, u64)>,
    ) {
        let (mut open, planted) = (std::mem::take(&mut self.open), self.planted);
        open.begin_anew(waiting);
        *self = Self {
            open,
            planted,
            ..Self::new(local)
        };
    }

    /// Breaks a rule on purpose.
    #[doc(hidden)]
    pub fn plant(&mut self, bug: Option<Planted>) {
        self.planted = bug;
    }

    /// Ends the requests whose time is up.
    pub fn handle_timeout(&mut self, now: Time) {
        self.open.handle_timeout(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next; `None` if no request is open.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.open.next_deadline()
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.open.effects.pop_front()
    }

    /// The next line of the history.
    pub(crate) fn poll_observation(&mut self) -> Option<Observation> {
        self.observations.pop_front()
    }

    /// A client of this host says which guest it is.
    pub(crate) fn guest_came(&mut self, guest: GuestId, client: u64) {
        self.open.guest_came(guest, client);
    }

    /// A client of this host asks a group or the holder of a handler, or repeats a request in a new
    /// connection. Returns whether the host is to submit the request to the order; if not, there is
    /// no room, and the request has ended.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        (guest, number): (GuestId, u64),
        client: u64,
        wanted: Wanted,
        (group, handler): (&Arc<str>, Option<u16>),
    ) -> bool {
        let role = handler.map_or(Role::Answering, Role::Handler);
        let asked = self.roles.holders(group, role).count();
        let taken = self.open.begin(now, (guest, number), client, wanted, asked);
        if let Err(why) = taken {
            self.open.effects.push_back(Effect::Ended {
                client,
                number,
                ending: Ending::Refused,
                answers: 0,
                why,
            });
        }
        taken.is_ok()
    }

    /// Whether a request of a guest of this host has not ended.
    pub(crate) fn is_open(&self, guest: GuestId, number: u64) -> bool {
        self.open.contains((guest, number))
    }

    /// The order did not take a request: ends it.
    pub(crate) fn refuse(&mut self, guest: GuestId, number: u64) {
        self.open
            .end_because((guest, number), Ending::Refused, NOT_TAKEN);
    }

    /// The connection of a guest of this host has ended.
    pub(crate) fn guest_gone(&mut self, now: Time, guest: GuestId, client: u64) {
        self.open.guest_gone(now, guest, client);
    }

    /// A client of this host answers the request that it was given as `known_as`. Returns the
    /// request's guest and number; `None` if the client was given none of that name, or has
    /// answered it.
    pub(crate) fn answer(
        &mut self,
        client: u64,
        name: &str,
        known_as: u64,
    ) -> Option<(GuestId, u64)> {
        let given = self.asked.take(client, known_as)?;
        self.observations.push_back(Observation::Replied {
            request: request_name(given.guest, given.number),
            client: name.to_owned(),
            handler: given.handler,
        });
        Some((given.guest, given.number))
    }

    /// A request has come in the order; in a part of the network that is `split` off, others may
    /// have given it to another holder of the handler. `is_member` tells whether a client is in the
    /// request's group at that place.
    pub(crate) fn apply_request(
        &mut self,
        by: By<'_>,
        request: Request,
        split: bool,
        is_member: impl Fn(Party) -> bool,
    ) {
        let key = (request.guest, request.number);
        let numbered = Numbered {
            guest: request.guest,
            number: request.number,
            floor: request.floor,
            handled: request.handler.is_some(),
            split,
        };
        let numbered = match self.planted {
            Some(Planted::NoTable) => Numbered {
                floor: 0,
                ..numbered
            },
            _ => numbered,
        };
        let is_own = by.party.daemon == self.local;
        let mut admission = self.numbers.admit(by.at.seq, by.party, numbered);
        if self.planted == Some(Planted::Repeats) {
            admission = Admission::New;
        }
        let ending = match admission {
            Admission::New => return self.ask(by, request, is_own, is_member),
            // A request that is open here goes on.
            Admission::Repeated | Admission::Unknown if self.open.is_placed(key) => return,
            Admission::Repeated => Ending::Repeated,
            Admission::Unknown => Ending::Unknown,
            Admission::Full => Ending::Refused,
        };
        if is_own {
            self.open.end(key, ending);
        }
    }

    fn ask(
        &mut self,
        by: By<'_>,
        request: Request,
        is_own: bool,
        is_member: impl Fn(Party) -> bool,
    ) {
        let key = (request.guest, request.number);
        let role = match request.handler {
            Some(number) if self.planted != Some(Planted::HandlerIsAll) => Role::Handler(number),
            _ => Role::Answering,
        };
        let asked: Vec<(Party, Arc<str>)> = self
            .roles
            .holders(&request.group, role)
            // While roles are settled later, a client that has left still has its role.
            .filter(|claim| is_member(claim.party))
            .map(|claim| (claim.party, claim.name.clone()))
            .collect();
        for (party, name) in &asked {
            if party.daemon != self.local {
                continue;
            }
            self.asked
                .give(party.client, request.known_as, key, request.handler);
            self.observations.push_back(Observation::Asked {
                request: request_name(request.guest, request.number),
                group: request.group.to_string(),
                client: name.to_string(),
            });
            self.open.effects.push_back(Effect::Asked {
                client: party.client,
                place: OrderPlace {
                    seq: request.known_as,
                    ..by.at
                },
                handler: request.handler,
                guest: by.name.clone(),
                group: request.group.clone(),
                payload: request.payload.clone(),
            });
        }
        if is_own {
            let asked = asked.into_iter().map(|(party, _)| party).collect();
            self.open.place(key, request.group, asked);
        }
    }

    /// An answer has come in the order.
    pub(crate) fn apply_answer(
        &mut self,
        from: Party,
        name: &Arc<str>,
        (guest, number): (GuestId, u64),
        payload: Bytes,
    ) {
        let name = name.clone();
        self.open.answer((guest, number), from, name, payload);
    }

    /// A member claims a role, at its place in the order.
    pub(crate) fn apply_claim(
        &mut self,
        by: By<'_>,
        (group, role): (&Arc<str>, Role),
        token: u64,
        may_wait: bool,
    ) {
        let claim = Claim {
            since: by.at,
            party: by.party,
            name: by.name.clone(),
            token,
            may_wait,
            granted: false,
        };
        let state = match self.roles.claim(group, role, claim) {
            Claimed::Held { anew } => {
                if anew {
                    self.granted(group, role, by.name, by.at);
                }
                RoleState::Held
            }
            Claimed::Waits { holder } => RoleState::Waits {
                holder: holder.to_string(),
            },
            Claimed::Taken { .. } if self.planted == Some(Planted::TakenIsHeld) => {
                self.granted(group, role, by.name, by.at);
                RoleState::Held
            }
            Claimed::Taken { holder } => taken(role, &holder),
            Claimed::Full(full) => too_many(full.to_string()),
        };
        self.notice(by.party, group, role, token, state);
    }

    /// Whether a client of this host may claim a role, if all clients of the host may have and wait
    /// for `max` roles, and `on_their_way` claims have not come in the order yet. If it may not, it
    /// gets a notice.
    pub(crate) fn may_claim(
        &mut self,
        client: u64,
        (group, role): (&Arc<str>, Role),
        token: u64,
        on_their_way: usize,
        max: usize,
    ) -> bool {
        let party = Party {
            daemon: self.local,
            client,
        };
        let roles = self.roles.of_daemon(self.local);
        if roles + on_their_way < max || self.roles.is_claimed(party, group, role) {
            return true;
        }
        let text = format!(
            "the clients of this daemon have, wait for and ask for {} roles, {max} are allowed: give one back, or connect \
             to another daemon",
            roles + on_their_way
        );
        self.notice(party, group, role, token, too_many(text));
        false
    }

    /// A client claims a role in a group that it is not in: refuses it.
    pub(crate) fn refuse_stranger(
        &mut self,
        party: Party,
        (group, role): (&Arc<str>, Role),
        token: u64,
    ) {
        let state = RoleState::Refused {
            holder: String::new(),
            code: Reject::NotMember,
            text: format!("roles are for members of {group:?}: join it first"),
        };
        self.notice(party, group, role, token, state);
    }

    /// A client gives a role back, or stops waiting for it.
    pub(crate) fn apply_release(
        &mut self,
        by: By<'_>,
        (group, role): (&Arc<str>, Role),
        token: u64,
    ) {
        let state = match self.roles.release(group, role, by.party) {
            Ok(ended) => {
                self.ended(ended, by.at);
                RoleState::Released
            }
            Err(holder) => not_held(role, holder.as_deref()),
        };
        self.notice(by.party, group, role, token, state);
    }

    /// A client has left `group`, or all groups, at this place: its roles there end.
    pub(crate) fn leave_roles(&mut self, party: Party, group: Option<&str>, at: OrderPlace) {
        if group.is_some() || self.planted != Some(Planted::Outlives) {
            for ended in self.roles.leave(party, group) {
                self.ended(ended, at);
            }
        }
    }

    /// A client has left `group`, or has disconnected if it is `None`: requests do not wait for its
    /// answers any more.
    pub(crate) fn apply_leave(&mut self, party: Party, group: Option<&str>) {
        self.open.member_gone(party, group);
        if group.is_none() {
            self.numbers.client_gone(party);
            if party.daemon == self.local {
                self.asked.forget(party.client);
            }
        }
    }

    /// Only clients of these daemons can answer from now on.
    pub(crate) fn narrow(&mut self, stays: impl Fn(MemberId) -> bool) {
        self.open.narrow(stays);
    }

    /// A claim has ended, and the role may have passed on: records this, and tells the next holder.
    fn ended(&mut self, ended: Ended, at: OrderPlace) {
        let Ended {
            group,
            role,
            claim,
            next,
        } = ended;
        if claim.granted && role.is_exclusive() {
            self.observations.push_back(Observation::Freed {
                group: group.to_string(),
                role: role.to_string(),
                client: claim.name.to_string(),
                place: at,
            });
        }
        if let Some(next) = next {
            self.granted(&group, role, &next.name, at);
            self.notice(next.party, &group, role, next.token, RoleState::Held);
        }
    }

    fn granted(&mut self, group: &Arc<str>, role: Role, name: &Arc<str>, at: OrderPlace) {
        if role.is_exclusive() {
            self.observations.push_back(Observation::Granted {
                group: group.to_string(),
                role: role.to_string(),
                client: name.to_string(),
                place: at,
            });
        }
    }

    /// Tells a client about a role, if it is one of this host.
    fn notice(&mut self, to: Party, group: &Arc<str>, role: Role, token: u64, state: RoleState) {
        if to.daemon != self.local {
            return;
        }
        let notice = RoleNotice {
            token,
            group: group.to_string(),
            role,
            state,
        };
        self.open.effects.push_back(Effect::Role {
            client: to.client,
            notice,
        });
    }
}

/// The refusal of a claim beyond a limit.
fn too_many(text: String) -> RoleState {
    RoleState::Refused {
        holder: String::new(),
        code: Reject::TooManyRoles,
        text,
    }
}

/// The refusal of a claim to a role that another client has.
fn taken(role: Role, holder: &str) -> RoleState {
    RoleState::Refused {
        holder: holder.to_owned(),
        code: Reject::Taken,
        text: format!("{holder} has {role}: ask again when it is free, or ask to wait"),
    }
}

/// The refusal of a release by a client that does not have the role.
fn not_held(role: Role, holder: Option<&str>) -> RoleState {
    let text = match holder {
        Some(holder) => format!("{holder} has {role}, not this client: only its holder frees it"),
        None => format!("this client neither has {role} nor waits for it"),
    };
    RoleState::Refused {
        holder: holder.unwrap_or_default().to_owned(),
        code: Reject::NotHeld,
        text,
    }
}

/// The name of a request in histories. A guest's bits are its secret, so a digest stands for them.
fn request_name(guest: GuestId, number: u64) -> String {
    format!("{:016x}:{number}", fnv1a(&guest.0.to_be_bytes()))
}

/// The parts of several hosts, by host.
pub(crate) type Parts = BTreeMap<MemberId, Part>;
