//! Requests to groups, handlers and locks, on their way from the order to the clients: carries them
//! out at their place, puts them into this daemon's state, and tells the clients what follows.

use bytes::Bytes;
use groupcast_core::{Delivery, MemberId, OrderPlace, Service, Time};

use super::chain::Payload;
use super::orders::OrderIndex;
use super::roster::Roster;
use super::slow::SlowLimits;
use super::spread::HAND_OVER;
use super::wire::{Envelope, GroupRef, GuestOp};
use super::{ClientId, Engine};
use crate::frame::{GuestReply, encode_guest_reply};
use crate::guests::{By, HeldOp, Part, Parts, Party, Request};
use crate::when_slow::WhenSlow;

impl Engine {
    /// Carries out a message of the order about requests and roles.
    pub(super) fn apply_guest(
        &mut self,
        on: OrderIndex,
        now: Time,
        delivery: &Delivery,
        client: u64,
        op: GuestOp<'_>,
        payload_at: usize,
    ) {
        let Some(at) = delivery.place else {
            return;
        };
        let daemon = delivery.id.sender;
        let is_local = daemon == self.orders[on].local;
        let asker = matches!(op, GuestOp::Request { .. } if is_local).then_some(ClientId(client));
        if is_local && matches!(op, GuestOp::Claim { .. }) {
            self.orders[on].claims_on_their_way =
                self.orders[on].claims_on_their_way.saturating_sub(1);
        }
        let roles = matches!(op, GuestOp::Claim { .. } | GuestOp::Release { .. });
        if roles && self.orders[on].defers_roles {
            return;
        }
        let result = self.apply_guest_op(on, daemon, client, op, at, &delivery.payload, payload_at);
        if let Err(error) = result {
            self.nonsense(daemon, error);
        }
        self.tell_guests_of(on, now, asker);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "each is a different fact about the message"
    )]
    fn apply_guest_op(
        &mut self,
        on: OrderIndex,
        daemon: MemberId,
        client: u64,
        op: GuestOp<'_>,
        at: OrderPlace,
        bytes: &Bytes,
        payload_at: usize,
    ) -> Result<(), String> {
        let text = |error: super::roster::OpError| error.to_string();
        let (order, asked) = (&mut self.orders[on], &mut self.asked);
        let (table, guests) = (&order.table, &mut order.guests);
        let roster = table.roster(daemon);
        let roster = roster.ok_or("a request or a role of an unknown daemon")?;
        let name = roster.client(client).map_err(text)?.clone();
        let party = Party { daemon, client };
        let by = By {
            party,
            name: &name,
            at,
        };
        let group = |group: GroupRef<'_>| roster.group(group).map_err(text);
        match op {
            GuestOp::Request {
                guest,
                number,
                floor,
                handler,
                group: to,
            } => {
                // Its place, unless another order is as far: then the next number.
                *asked = at.seq.max(asked.saturating_add(1));
                let request = Request {
                    guest,
                    number,
                    floor,
                    handler,
                    group: group(to)?,
                    payload: bytes.slice(payload_at..),
                    known_as: *asked,
                };
                let to = request.group.clone();
                let is_member = |party: Party| is_in(table.roster(party.daemon), party.client, &to);
                // In an interrupted exchange every former part has holders of its own.
                let split = order.is_split || order.defers_roles;
                guests.apply_request(by, request, split, is_member);
            }
            GuestOp::Answer { guest, number } => {
                let payload = bytes.slice(payload_at..);
                guests.apply_answer(party, &name, (guest, number), payload);
            }
            GuestOp::Claim {
                token,
                may_wait,
                role,
                group: of,
            } => {
                let group = group(of)?;
                match is_in(Some(roster), client, &group) {
                    true => guests.apply_claim(by, (&group, role), token, may_wait),
                    false => guests.refuse_stranger(party, (&group, role), token),
                }
            }
            GuestOp::Release {
                token,
                role,
                group: of,
            } => {
                let group = group(of)?;
                guests.apply_release(by, (&group, role), token);
            }
        }
        Ok(())
    }

    /// A client has left `group`, or all groups, at this place.
    pub(super) fn leave_roles(
        &mut self,
        on: OrderIndex,
        now: Time,
        party: Party,
        group: Option<&str>,
        at: OrderPlace,
    ) {
        if !self.orders[on].defers_roles {
            self.orders[on].guests.leave_roles(party, group, at);
        }
        self.orders[on].guests.apply_leave(party, group);
        self.tell_guests(on, now);
    }

    /// This daemon's part of the state of roles and guests, as of the last message that was
    /// delivered to it, held or not.
    pub(super) fn own_part(&self, on: OrderIndex, held: &[&Delivery], roster: &Roster) -> Part {
        let ops = held
            .iter()
            .filter_map(|delivery| self.held_op(on, delivery));
        self.orders[on]
            .guests
            .part(ops, |client, group| is_in(Some(roster), client, group))
    }

    /// The effect of a held message on that part; `None` if it has none.
    fn held_op(&self, on: OrderIndex, delivery: &Delivery) -> Option<HeldOp> {
        let at = delivery.place?;
        let envelope = Envelope::decode(&delivery.payload);
        let Ok(Some(Envelope::Guest { client, op, .. })) = envelope else {
            return None;
        };
        let daemon = delivery.id.sender;
        let is_own = daemon == self.orders[on].local;
        match op {
            GuestOp::Request {
                guest,
                number,
                floor,
                handler,
                ..
            } => Some(HeldOp::Request {
                from: Party { daemon, client },
                request: Request {
                    guest,
                    number,
                    floor,
                    handler,
                    group: "".into(),
                    payload: Bytes::new(),
                    known_as: 0,
                },
                at,
            }),
            GuestOp::Claim {
                token,
                may_wait,
                role,
                group,
            } if is_own => Some(HeldOp::Claim {
                client,
                group: self.orders[on].table.group(daemon, group).ok()?,
                role,
                token,
                may_wait,
                at,
            }),
            GuestOp::Release { token, role, group } if is_own => Some(HeldOp::Release {
                client,
                group: self.orders[on].table.group(daemon, group).ok()?,
                role,
                token,
                at,
            }),
            _ => None,
        }
    }

    /// The states of all daemons have come: installs their parts.
    pub(super) fn install_guests(
        &mut self,
        on: OrderIndex,
        now: Time,
        at: OrderPlace,
        parts: Parts,
    ) {
        let order = &mut self.orders[on];
        let table = &order.table;
        order.guests.install(at, parts, |party| {
            let name = table.roster(party.daemon)?.client(party.client).ok()?;
            Some(name.clone())
        });
        self.tell_guests(on, now);
    }

    /// Only clients of these daemons can answer from now on.
    pub(super) fn narrow_guests(&mut self, on: OrderIndex, now: Time, daemons: &[MemberId]) {
        self.orders[on]
            .guests
            .narrow(|daemon| daemons.contains(&daemon));
        self.tell_guests(on, now);
    }

    /// Hands pending effects to clients, and pending observations to the history.
    pub(super) fn tell_guests(&mut self, on: OrderIndex, now: Time) {
        self.tell_guests_of(on, now, None);
    }

    /// The same. The effects follow from a request of `asker`, a client of this daemon.
    fn tell_guests_of(&mut self, on: OrderIndex, now: Time, asker: Option<ClientId>) {
        while let Some(observation) = self.orders[on].guests.poll_observation() {
            self.journal.observe(on.carrier(), observation);
        }
        while let Some(effect) = self.orders[on].guests.poll_effect() {
            let (client, reply, payload) = GuestReply::of(effect);
            let id = ClientId(client);
            self.orders[on].work.spend(HAND_OVER);
            let GuestReply::Request { group, .. } = &reply else {
                self.tell_guest(now, id, &reply, &payload);
                continue;
            };
            // For a member, a request is a message of its group.
            let when_slow = self.when_slow(id, group);
            let limits = SlowLimits::of(&self.config, when_slow);
            self.hand_over_guest(now, id, &reply, &payload, limits);
            if let Some(asker) = asker.filter(|_| when_slow == WhenSlow::Block) {
                self.fed(id, asker);
            }
        }
    }

    /// Sends a reply to a client, in its place among the client's messages.
    pub(super) fn tell_guest(
        &mut self,
        now: Time,
        id: ClientId,
        reply: &GuestReply,
        payload: &Bytes,
    ) {
        let limits = self.limits_of_own(id);
        self.hand_over_guest(now, id, reply, payload, limits);
    }

    fn hand_over_guest(
        &mut self,
        now: Time,
        id: ClientId,
        reply: &GuestReply,
        payload: &Bytes,
        limits: SlowLimits,
    ) {
        let mut head = std::mem::take(&mut self.scratch);
        head.clear();
        encode_guest_reply(&mut head, reply, payload.len());
        let payload = Payload::new(payload, 0, 1);
        self.hand_over(now, id, &head, payload, Service::Agreed, limits);
        self.scratch = head;
    }
}

/// Whether a client of the daemon is in the group.
fn is_in(roster: Option<&Roster>, client: u64, group: &str) -> bool {
    let client = roster.and_then(|roster| roster.clients.get(&client));
    client.is_some_and(|client| client.groups.contains(group))
}
