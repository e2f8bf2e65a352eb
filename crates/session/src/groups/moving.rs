//! Moves clients whose group is carried by another order from now on.
//!
//! While daemons are together no group in use changes its ring, because no ring is made above it.
//! But parts of a network that meet may have had the group on different rings. Then the rings that
//! all know together decide, and a client in the wrong order moves: it leaves the group there, with
//! a view that it is not in, then joins it in the right order, whose first view it is in. Waiting
//! requests go to the right order at once. Roles end with the leave; a client that had one has to
//! claim it again.

use std::sync::Arc;

use groupcast_core::Time;

use super::client::{ClientPhase, Pending};
use super::exchange::Phase;
use super::orders::OrderIndex;
use super::rings::Rings;
use super::wire::GroupRef;
use super::{ClientId, Engine, Fact};
use crate::frame::{BusRequest, DaemonFrame, RINGS_MADE, Request, credit_cost};
use crate::names::{Planted, is_at_or_below};

/// The token of requests that the engine itself makes on behalf of a client.
pub(super) const OF_ENGINE: u64 = u64::MAX;

impl Engine {
    /// The rings were `before` and have changed: moves clients and requests to the orders of their
    /// groups.
    pub(super) fn move_all(&mut self, now: Time, before: &Rings) {
        if self.making.planted == Some(Planted::NobodyMoves) {
            return;
        }
        let changed = self.rings.changed_since(before);
        // Each name is compared with these: it is looked up only if it is at or below one.
        let names = self.clients.memberships();
        self.orders[OrderIndex::OWN].work.spend(names);
        let mut count = 0;
        for id in self.clients.ids() {
            let joins = self.reroute_all(now, id);
            let Some(client) = self.clients.get(id) else {
                continue;
            };
            if !matches!(client.phase, ClientPhase::Open) {
                continue;
            }
            let elsewhere = client.wanted.keys().filter(|group| {
                let mut tops = changed.iter();
                tops.any(|top| is_at_or_below(above(group), top))
                    && before.order_of(above(group)) != self.rings.order_of(above(group))
                    && self.bimodal.find(group).is_none()
                    && !joins.iter().any(|joined| **joined == ***group)
            });
            let elsewhere: Vec<Arc<str>> = elsewhere.cloned().collect();
            for group in elsewhere {
                let from = before.order_of(above(&group));
                if self.has_ended(from) {
                    count += 1;
                    self.join_again(id, group);
                } else if self.making.moving.insert((id, group.clone())) {
                    count += 1;
                    self.queue(from, id, Pending::Leave(group));
                }
            }
        }
        if count > 0 {
            self.journal.fact(Fact::Moved { count });
        }
    }

    /// A client of this daemon has left a group in the order `on`. If it is moving, it joins the
    /// group in the new order now.
    pub(super) fn left_to_move(
        &mut self,
        on: OrderIndex,
        now: Time,
        id: ClientId,
        group: GroupRef<'_>,
    ) {
        let Ok(group) = self.orders[on].table.group(self.orders[on].local, group) else {
            return;
        };
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let is_moving = self.making.moving.remove(&(id, group.clone()));
        let is_open = matches!(client.phase, ClientPhase::Open);
        if is_moving && is_open && client.wanted.contains_key(&group) {
            self.join_again(id, group);
        } else {
            self.untell_carrier(now, id, &group);
        }
    }

    /// Has the client join a group that it wants, in the order that carries the group now.
    fn join_again(&mut self, id: ClientId, group: Arc<str>) {
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let patterns = client.patterns.get(&group);
        let patterns: Vec<Arc<str>> = patterns.into_iter().flatten().cloned().collect();
        let to = self.order_of(&group);
        if patterns.is_empty() {
            return self.queue(to, id, Pending::Join(group));
        }
        for pattern in patterns {
            let request = BusRequest::Accept {
                group: group.to_string(),
                pattern: pattern.to_string(),
                ring: false,
            };
            self.queue(to, id, Pending::Bus(OF_ENGINE, request));
        }
    }

    /// Whether the order has ended: it carries nothing out, and no client is in a group of it.
    fn has_ended(&self, on: OrderIndex) -> bool {
        self.rings.is_closing(on) && matches!(self.orders[on].phase, Phase::Starting)
    }

    /// Moves the waiting requests of a client to the orders of their groups; returns the groups
    /// that these requests join.
    fn reroute_all(&mut self, now: Time, id: ClientId) -> Vec<String> {
        let mut joins = Vec::new();
        for on in self.orders.indices() {
            self.reroute(now, id, on, &mut joins);
        }
        joins
    }

    fn reroute(&mut self, now: Time, id: ClientId, on: OrderIndex, joins: &mut Vec<String>) {
        let has_ended = self.has_ended(on);
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if client.orders[on].requests.is_empty() {
            return;
        }
        // A leaving client says good-bye to the orders that it is in, and must not get into
        // another.
        if matches!(client.phase, ClientPhase::Leaving) && !has_ended {
            return;
        }
        let requests = std::mem::take(&mut client.orders[on].requests);
        let mut says_bye = false;
        for request in requests {
            let group = request.group_to_move().map(str::to_owned);
            let to = group.as_deref().map(|group| self.order_of(group));
            let follows = |group: &str| joins.iter().any(|joined| joined == group);
            let to = match &request {
                // A leave stays in the order of the join, unless the join itself moves.
                Pending::Leave(group) if !follows(group) => None,
                Pending::Bus(_, BusRequest::Reject { group, .. }) if !follows(group) => None,
                _ => to.filter(|to| *to != on),
            };
            if to.is_none() && !has_ended {
                if let Some(client) = self.clients.get_mut(id) {
                    client.orders[on].requests.push_back(request);
                }
                continue;
            }
            self.take_back(id, &request);
            if let (true, Some(group)) = (request.joins(), group) {
                joins.push(group);
            }
            match (to, request) {
                (Some(to), Pending::Publish(publish)) => match self.of_two_orders(&publish) {
                    Some((code, text)) => {
                        let cost = credit_cost(publish.stream_len()) as u64;
                        self.give_back(id, cost);
                        if let Some(client) = self.clients.get_mut(id) {
                            client.turned_away(publish.number);
                        }
                        self.reject(now, id, Request::Publish(publish.number), code, text);
                    }
                    None => self.queue(to, id, Pending::Publish(publish)),
                },
                (Some(to), request) => self.queue(to, id, request),
                (None, Pending::Disconnect) => says_bye = true,
                (None, request) => self.end_request(on, now, id, request),
            }
        }
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if client.orders[on].requests.is_empty() {
            client.orders[on].in_turn = false;
            self.orders[on].submissions.forget_turn(id);
        }
        if says_bye {
            self.say_bye_elsewhere(on, now, id);
        }
    }

    /// The client's good-bye waited in an order that has ended: says it in the orders to which its
    /// requests have moved.
    fn say_bye_elsewhere(&mut self, on: OrderIndex, now: Time, id: ClientId) {
        let orders = self.orders.indices();
        let client = self.clients.get(id);
        let to: Vec<OrderIndex> = orders
            .filter(|to| {
                let of = client.map(|client| &client.orders[*to].requests);
                let says_it = |it: &Pending| matches!(it, Pending::Disconnect);
                of.is_some_and(|it| !it.is_empty() && !it.iter().any(says_it))
            })
            .collect();
        for to in to {
            self.queue(to, id, Pending::Disconnect);
        }
        self.left_order(on, now, id);
    }

    /// A request does not wait any more: takes it out of the sums.
    pub(super) fn take_back(&mut self, id: ClientId, request: &Pending) {
        self.clients.unqueued(id, request.cost());
        if let Some(client) = self.clients.get_mut(id)
            && request.is_of_groups()
        {
            client.group_requests -= 1;
        }
    }

    /// Ends a request that waits in an order that has ended, and that no other order can take.
    fn end_request(&mut self, on: OrderIndex, now: Time, id: ClientId, request: Pending) {
        match request {
            Pending::Bus(token, _) if token != OF_ENGINE => {
                let result = Ok(());
                self.tell(now, id, &DaemonFrame::Done { token, result });
            }
            Pending::Guest(request) => {
                let why = "the ring that carried the group has ended: ask again";
                self.end_guest_request(on, now, id, request, why);
            }
            _ => {}
        }
    }

    /// Tells a client that a ring made by a join carries the group that it joins, before the first
    /// view there. A client that does not know such rings is told nothing.
    pub(super) fn tell_carrier(
        &mut self,
        on: OrderIndex,
        now: Time,
        id: ClientId,
        group: &Arc<str>,
    ) {
        let made = self.rings.made(on).map(|ring| ring.top.to_string());
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if client.features & RINGS_MADE == 0 {
            return;
        }
        let Some(ring) = made else {
            return self.untell_carrier(now, id, group);
        };
        client.told.insert(group.clone());
        let group = group.to_string();
        self.tell(now, id, &DaemonFrame::Carried { group, ring });
    }

    /// Tells a client that was told of the group's ring that the daemon's own order carries the
    /// group now.
    fn untell_carrier(&mut self, now: Time, id: ClientId, group: &Arc<str>) {
        let client = self.clients.get_mut(id);
        if client.is_some_and(|client| client.told.remove(group)) {
            let (group, ring) = (group.to_string(), String::new());
            self.tell(now, id, &DaemonFrame::Carried { group, ring });
        }
    }
}

/// The name whose order carries `group`: the rest of a name that begins with
/// [`BELOW`](super::filters::BELOW).
fn above(group: &str) -> &str {
    group.strip_prefix(super::filters::BELOW).unwrap_or(group)
}

impl Pending {
    /// The group whose order it is for, if it can move to another order.
    fn group_to_move(&self) -> Option<&str> {
        match self {
            Self::Join(group) | Self::Leave(group) => Some(group),
            Self::Publish(publish) => publish.destinations().next(),
            Self::Bus(_, request) => match request {
                BusRequest::Accept { group, .. }
                | BusRequest::Reject { group, .. }
                | BusRequest::Who { group, .. } => Some(group),
                BusRequest::Identify { .. } | BusRequest::Clients => None,
            },
            Self::Guest(_) | Self::Disconnect => None,
        }
    }

    /// Whether it makes the client a member of a group.
    fn joins(&self) -> bool {
        matches!(
            self,
            Self::Join(_) | Self::Bus(_, BusRequest::Accept { .. })
        )
    }
}
