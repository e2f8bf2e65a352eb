//! Requests to groups, handlers and locks, on their way from the frames of clients to the order.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Service, Time};

use super::access::Right;
use super::client::Pending;
use super::orders::OrderIndex;
use super::submit::Submission;
use super::wire::GuestOp;
use super::{ClientId, Engine};
use crate::frame::{Disconnect, GuestFrame, GuestReply, Reject, credit_cost, has_credit};
use crate::guests::{Ending, GuestId, Role, RoleNotice, RoleState, Wanted};
use crate::name::check_group;

/// The shortest and the longest time of a request.
const WITHIN: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(3600)];

/// The guest that a client has said it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsGuest {
    pub(super) id: GuestId,
    /// The highest request number that the guest had used before this connection.
    floor: u64,
    /// The highest request number that it has used in this one.
    last: u64,
}

/// A request, an answer, a claim or a release that waits for the order.
#[derive(Debug)]
pub(super) enum GuestRequest {
    Ask {
        number: u64,
        handler: Option<u16>,
        group: String,
        payload: Bytes,
        cost: usize,
    },
    Answer {
        guest: GuestId,
        number: u64,
        payload: Bytes,
        cost: usize,
    },
    Claim {
        token: u64,
        may_wait: bool,
        role: Role,
        group: String,
    },
    Release {
        token: u64,
        role: Role,
        group: String,
    },
}

impl GuestRequest {
    /// The bytes that it counts for while it waits.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Ask { cost, .. } | Self::Answer { cost, .. } => *cost,
            Self::Claim { group, .. } | Self::Release { group, .. } => credit_cost(group.len()),
        }
    }

    /// Whether it is a claim or a release, rather than a message.
    pub(super) fn is_of_roles(&self) -> bool {
        matches!(self, Self::Claim { .. } | Self::Release { .. })
    }
}

/// A request or an answer on its way to the order.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfGuest {
    client: ClientId,
    cost: u64,
    /// If it is a request: its guest, and its number.
    request: Option<(GuestId, u64)>,
}

impl Engine {
    pub(super) fn handle_guest(&mut self, now: Time, id: ClientId, frame: GuestFrame) {
        match frame {
            GuestFrame::Guest { id: bits, floor } => self.handle_introduction(now, id, bits, floor),
            GuestFrame::Request {
                number,
                answers,
                handler,
                within,
                group,
                payload,
                stream_len,
            } => {
                let wanted = Wanted { answers, within };
                let cost = credit_cost(stream_len);
                let ask = GuestRequest::Ask {
                    number,
                    handler,
                    group,
                    payload,
                    cost,
                };
                if self.take_credit(now, id, cost) {
                    self.handle_ask(now, id, ask, wanted);
                }
            }
            GuestFrame::Answer {
                seq,
                payload,
                stream_len,
            } => {
                let cost = credit_cost(stream_len);
                if self.take_credit(now, id, cost) {
                    self.handle_answer(id, seq, payload, cost);
                }
            }
            GuestFrame::Claim {
                token,
                may_wait,
                role,
                group,
            } => {
                let claim = GuestRequest::Claim {
                    token,
                    may_wait,
                    role,
                    group: group.clone(),
                };
                self.handle_role(now, id, (group, role), token, claim);
            }
            GuestFrame::Release { token, role, group } => {
                let release = GuestRequest::Release {
                    token,
                    role,
                    group: group.clone(),
                };
                self.handle_role(now, id, (group, role), token, release);
            }
        }
        for on in self.orders.indices() {
            self.tell_guests(on, now);
        }
    }

    fn handle_role(
        &mut self,
        now: Time,
        id: ClientId,
        (group, role): (String, Role),
        token: u64,
        request: GuestRequest,
    ) {
        if let Some((code, text)) = self.check_group_of_order(&group) {
            self.journal.counters.rejected += 1;
            let state = RoleState::Refused {
                holder: String::new(),
                code,
                text,
            };
            let notice = RoleNotice {
                token,
                group,
                role,
                state,
            };
            return self.tell_guest(now, id, &GuestReply::Role(notice), &Bytes::new());
        }
        let on = self.order_of(&group);
        self.queue(on, id, Pending::Guest(request));
        self.check_group_requests(now, id);
    }

    fn handle_introduction(&mut self, now: Time, id: ClientId, bits: u64, floor: u64) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if client.guest.is_some() {
            let text = "the client has said which guest it is: it stays that one";
            return self.disconnect(now, id, Disconnect::Protocol, text.into());
        }
        client.guest = Some(AsGuest {
            id: GuestId(bits),
            floor,
            last: 0,
        });
        for order in self.orders.iter_mut() {
            order.guests.guest_came(GuestId(bits), id.0);
        }
    }

    /// Counts a frame against the client's credit to publish. Returns false if the client had none:
    /// its connection ends then.
    fn take_credit(&mut self, now: Time, id: ClientId, cost: usize) -> bool {
        let Some(link) = self.clients.link_mut(id) else {
            return false;
        };
        let (outstanding, window) = (link.publish_outstanding, link.publish_window);
        if has_credit(outstanding, window) {
            link.publish_outstanding += cost as u64;
            return true;
        }
        let text = format!(
            "a request or an answer exceeds the credit ({outstanding} of {window} bytes are \
             outstanding): wait for credit"
        );
        self.disconnect(now, id, Disconnect::Protocol, text);
        false
    }

    fn handle_ask(&mut self, now: Time, id: ClientId, ask: GuestRequest, wanted: Wanted) {
        let GuestRequest::Ask {
            number,
            handler,
            group,
            payload,
            cost,
        } = &ask
        else {
            return;
        };
        let (number, cost) = (*number, *cost);
        let refusal = self.check_ask(id, group, payload.len());
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let Some(guest) = client.guest.as_mut().filter(|guest| number > guest.last) else {
            let text = format!(
                "request {number} came before the client said which guest it is, or after a later \
                 one: numbers must increase"
            );
            return self.disconnect(now, id, Disconnect::Protocol, text);
        };
        guest.last = number;
        let guest = guest.id;
        let wanted = Wanted {
            within: wanted.within.clamp(WITHIN[0], WITHIN[1]),
            ..wanted
        };
        if let Some((code, text)) = refusal {
            self.give_back(id, cost as u64);
            self.journal.counters.rejected += 1;
            let reply = GuestReply::Ended {
                number,
                ending: Ending::Refused,
                answers: 0,
                code,
                text,
            };
            return self.tell_guest(now, id, &reply, &Bytes::new());
        }
        let on = self.order_of(group);
        let of = (&group.as_str().into(), *handler);
        let guests = &mut self.orders[on].guests;
        if guests.begin(now, (guest, number), id.0, wanted, of) {
            self.journal.counters.published += 1;
            self.queue(on, id, Pending::Guest(ask));
        } else {
            self.give_back(id, cost as u64);
        }
    }

    /// Why the client may not make a request, if it may not.
    fn check_ask(&self, id: ClientId, group: &str, len: usize) -> Option<(Reject, String)> {
        let refusal = self.check_group_of_order(group);
        if refusal.is_some() {
            return refusal;
        }
        let max = self.config.message_max;
        if len > max {
            let text = format!("the request has {len} bytes, at most {max} are allowed: split it");
            return Some((Reject::TooLarge, text));
        }
        if !self.may_use(id, Right::Send, group) {
            let text =
                format!("the daemon's access rules do not let this client send to {group:?}");
            return Some((Reject::Forbidden, text));
        }
        None
    }

    /// Why a group cannot have requests and roles, if it cannot.
    fn check_group_of_order(&self, group: &str) -> Option<(Reject, String)> {
        if let Err(error) = check_group(group) {
            return Some((Reject::Name, error.to_string()));
        }
        let bad_in_ring = self.bad_in_ring(group);
        if bad_in_ring.is_some() {
            return bad_in_ring;
        }
        let bimodal = self.bimodal.find(group).is_some() || self.bimodal.is_elsewhere(group);
        bimodal.then(|| {
            let text = format!("the group {group:?} is bimodal: it has no order for this");
            (Reject::Unsupported, text)
        })
    }

    /// A member answers the request that it was given as `seq`, in whichever order that was. An
    /// answer to any other request, or a second answer, is skipped.
    fn handle_answer(&mut self, id: ClientId, seq: u64, payload: Bytes, cost: usize) {
        let name = self.clients.get(id).map(|client| client.private.clone());
        let fits = payload.len() <= self.config.message_max;
        let given = name.filter(|_| fits).and_then(|name| {
            let mut orders = self.orders.indices();
            orders.find_map(|on| {
                let given = self.orders[on].guests.answer(id.0, &name, seq)?;
                Some((on, given))
            })
        });
        let Some((on, (guest, number))) = given else {
            self.journal.counters.rejected += 1;
            return self.give_back(id, cost as u64);
        };
        let answer = GuestRequest::Answer {
            guest,
            number,
            payload,
            cost,
        };
        self.queue(on, id, Pending::Guest(answer));
    }

    /// Turns a request of a client into a submission.
    pub(super) fn stage_guest(
        &mut self,
        on: OrderIndex,
        id: ClientId,
        request: GuestRequest,
        views: Option<usize>,
    ) {
        let mut bytes = Vec::new();
        let mut of_guest = None;
        match request {
            GuestRequest::Ask {
                number,
                handler,
                group,
                payload,
                cost,
            } => {
                let cost = cost as u64;
                let guest = self.clients.get(id).and_then(|client| client.guest);
                let open = guest.filter(|guest| self.orders[on].guests.is_open(guest.id, number));
                let Some(guest) = open else {
                    return self.give_back(id, cost);
                };
                let op = GuestOp::Request {
                    guest: guest.id,
                    number,
                    floor: guest.floor,
                    handler,
                    group: self.reference(on, id, &group),
                };
                op.encode(&mut bytes, id.0);
                bytes.extend_from_slice(&payload);
                of_guest = Some(OfGuest {
                    client: id,
                    cost,
                    request: Some((guest.id, number)),
                });
            }
            GuestRequest::Answer {
                guest,
                number,
                payload,
                cost,
            } => {
                GuestOp::Answer { guest, number }.encode(&mut bytes, id.0);
                bytes.extend_from_slice(&payload);
                of_guest = Some(OfGuest {
                    client: id,
                    cost: cost as u64,
                    request: None,
                });
            }
            GuestRequest::Claim {
                token,
                may_wait,
                role,
                group,
            } => {
                let name = group.as_str().into();
                let (on_their_way, max) =
                    (self.orders[on].claims_on_their_way, self.config.roles_max);
                let of = (&name, role);
                if !self.orders[on]
                    .guests
                    .may_claim(id.0, of, token, on_their_way, max)
                {
                    self.journal.counters.rejected += 1;
                    return;
                }
                self.orders[on].claims_on_their_way += 1;
                let group = self.reference(on, id, &group);
                let op = GuestOp::Claim {
                    token,
                    may_wait,
                    role,
                    group,
                };
                op.encode(&mut bytes, id.0);
            }
            GuestRequest::Release { token, role, group } => {
                let group = self.reference(on, id, &group);
                GuestOp::Release { token, role, group }.encode(&mut bytes, id.0);
            }
        }
        self.orders[on].submissions.stage_any(Submission {
            service: Service::Agreed,
            payload: bytes.into(),
            message: None,
            of_guest,
            views,
        });
    }

    /// The order took a request or an answer, or it never will: returns the credit, and ends a
    /// request that was not taken.
    pub(super) fn guest_handed_over(
        &mut self,
        on: OrderIndex,
        now: Time,
        of: OfGuest,
        taken: bool,
    ) {
        self.give_back(of.client, of.cost);
        if let Some((guest, number)) = of.request.filter(|_| !taken) {
            self.orders[on].guests.refuse(guest, number);
            self.tell_guests(on, now);
        }
    }

    /// Ends a request that waits in an order that will not carry it out; `why` is the reason, for
    /// people.
    pub(super) fn end_guest_request(
        &mut self,
        on: OrderIndex,
        now: Time,
        id: ClientId,
        request: GuestRequest,
        why: &str,
    ) {
        match request {
            GuestRequest::Ask { number, cost, .. } => {
                let guest = self.clients.get(id).and_then(|client| client.guest);
                let of = OfGuest {
                    client: id,
                    cost: cost as u64,
                    request: guest.map(|guest| (guest.id, number)),
                };
                self.guest_handed_over(on, now, of, false);
            }
            GuestRequest::Answer { cost, .. } => self.give_back(id, cost as u64),
            GuestRequest::Claim {
                token, role, group, ..
            }
            | GuestRequest::Release { token, role, group } => {
                let state = RoleState::Refused {
                    holder: String::new(),
                    code: Reject::Other,
                    text: why.to_owned(),
                };
                let notice = RoleNotice {
                    token,
                    group,
                    role,
                    state,
                };
                self.tell_guest(now, id, &GuestReply::Role(notice), &Bytes::new());
            }
        }
    }

    /// The connection of a client has ended.
    pub(super) fn guest_gone(&mut self, now: Time, id: ClientId) {
        let guest = self.clients.get(id).and_then(|client| client.guest);
        if let Some(guest) = guest {
            for order in self.orders.iter_mut() {
                order.guests.guest_gone(now, guest.id, id.0);
            }
        }
    }
}
