//! What a client's request becomes on its way to the order: a message, and before it the bindings
//! of names to numbers that it needs.

use groupcast_core::Service;

use super::changes::VIEWS_MAX;
use super::client::{Addressed, Client, Pending};
use super::filters::wildcards;
use super::orders::OrderIndex;
use super::submit::{Published, Submission, Submissions};
use super::turns::TURN;
use super::wire::{BusOp, GroupRef, Op, encode_data_head};
use super::{ClientId, Engine};
use crate::frame::{BusRequest, Publish, credit_cost};
use crate::name::is_private;

/// The bytes that a change of groups, or a question of the bus, counts for in a client's turn.
const CHANGE_TURN: usize = TURN / 4;

/// A client that would cause more views than this when it ends leaves its groups in parts, too.
const PARTING_VIEWS: usize = 1024;

/// One client may bind `1 / BINDINGS_SHARE` of the numbers for group names, and [`BINDINGS_MIN`] at
/// least. All clients of a user, or from a host, may bind half of what others have left.
const BINDINGS_SHARE: usize = 16;
const BINDINGS_MIN: usize = 16;

/// What the next change of a client that leaves does.
#[derive(Debug)]
struct Parting {
    /// Of how many groups, by their names, it takes the client out, and how many views that causes.
    groups: usize,
    views: usize,
    /// These are all that it is in.
    is_last: bool,
}

impl Submissions {
    fn stage(&mut self, op: &Op<'_>, views: Option<usize>) {
        let mut bytes = Vec::new();
        op.encode(&mut bytes);
        self.stage_agreed(bytes, views);
    }

    /// Stages a message of the daemon itself, as agreed.
    pub(super) fn stage_own(&mut self, payload: Vec<u8>) {
        self.stage_agreed(payload, None);
    }

    fn stage_agreed(&mut self, payload: Vec<u8>, views: Option<usize>) {
        self.stage_any(Submission {
            service: Service::Agreed,
            payload: payload.into(),
            message: None,
            of_guest: None,
            views,
        });
    }

    /// Binds `group`, which has no number yet, to the next one.
    fn bind(&mut self, group: &str) -> u64 {
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(group.into(), number);
        let name = group;
        self.stage(&Op::BindGroup { number, name }, None);
        number
    }
}

impl Engine {
    /// Turns the next request of a client, which causes `views`, into submissions, if there is one.
    /// Returns the bytes that this counts for in the client's turn.
    pub(super) fn stage_request(
        &mut self,
        on: OrderIndex,
        id: ClientId,
        views: Option<usize>,
    ) -> usize {
        if self.stage_withdrawal(on, id, views) {
            return CHANGE_TURN;
        }
        let request = self.clients.get_mut(id);
        let request = request.and_then(|client| client.next_request(on));
        let Some(request) = request else {
            return 0;
        };
        let cost = request.cost();
        self.clients.unqueued(id, cost);
        self.bind_client(on, id);
        match request {
            Pending::Join(group) => self.stage_membership(on, id, &group, true, views),
            Pending::Leave(group) => self.stage_membership(on, id, &group, false, views),
            Pending::Publish(publish) => self.stage_message(on, id, publish),
            Pending::Bus(token, request) => self.stage_bus(on, id, token, &request, views),
            Pending::Guest(request) => self.stage_guest(on, id, request, views),
            Pending::Disconnect => {
                let client = id.0;
                self.orders[on]
                    .submissions
                    .stage(&Op::Disconnect { client }, views);
            }
        }
        views.map_or(cost, |_| CHANGE_TURN)
    }

    /// Takes a client that leaves out of the first of its groups, if it is in too many to leave
    /// them at once; whether it did.
    fn stage_withdrawal(&mut self, on: OrderIndex, id: ClientId, views: Option<usize>) -> bool {
        let client = self.clients.get(id);
        let next = client.and_then(|client| client.orders[on].requests.front());
        if !matches!(next, Some(Pending::Disconnect)) {
            return false;
        }
        let parting = self.parting(on, id);
        if parting.is_last {
            return false;
        }
        let (client, groups) = (id.0, parting.groups as u64);
        let submissions = &mut self.orders[on].submissions;
        submissions.stage(&Op::Withdraw { client, groups }, views);
        true
    }

    /// How many views the client's next request causes at all daemons, and one more for the change
    /// itself; `None` if it is no change of groups.
    pub(super) fn views_of_next(&self, on: OrderIndex, id: ClientId) -> Option<usize> {
        let client = self.clients.get(id)?;
        let size = |group: &str| self.orders[on].table.size(group);
        let views = match client.orders[on].requests.front()? {
            Pending::Publish(_) => return None,
            Pending::Guest(request) if !request.is_of_roles() => return None,
            Pending::Guest(_) => 0,
            Pending::Join(group) | Pending::Leave(group) => size(group),
            Pending::Bus(_, request) => match request {
                BusRequest::Accept { group, .. } | BusRequest::Reject { group, .. } => size(group),
                BusRequest::Who { group, .. } => {
                    let above = wildcards(group).map(|name| size(&name));
                    size(group) + above.sum::<usize>()
                }
                BusRequest::Identify { .. } | BusRequest::Clients => 0,
            },
            Pending::Disconnect => {
                let parting = self.parting(on, id);
                match parting.is_last {
                    true => parting.views,
                    // It fills a batch: the next part goes when this one is carried out.
                    false => parting.views.max(VIEWS_MAX),
                }
            }
        };
        Some(views + 1)
    }

    /// The groups that a client which leaves is taken out of by the next change.
    fn parting(&self, on: OrderIndex, id: ClientId) -> Parting {
        let order = &self.orders[on];
        let client = order
            .own_roster()
            .and_then(|roster| roster.clients.get(&id.0));
        let mut parting = Parting {
            groups: 0,
            views: 0,
            is_last: true,
        };
        for group in client.iter().flat_map(|client| &client.groups) {
            let views = parting.views + order.table.size(group);
            if parting.groups >= self.config.groups_left_at_once
                || parting.groups > 0 && views > PARTING_VIEWS
            {
                parting.is_last = false;
                break;
            }
            parting.groups += 1;
            parting.views = views;
        }
        parting
    }

    fn bind_client(&mut self, on: OrderIndex, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id)
            && !client.orders[on].bound
        {
            client.orders[on].bound = true;
            let name = &client.name;
            let bind = Op::BindClient { client: id.0, name };
            self.orders[on].submissions.stage(&bind, None);
        }
    }

    fn stage_membership(
        &mut self,
        on: OrderIndex,
        id: ClientId,
        group: &str,
        joins: bool,
        views: Option<usize>,
    ) {
        let number = self.number(on, id, group);
        let group = number.map_or(GroupRef::Named(group), GroupRef::Bound);
        let client = id.0;
        let op = match joins {
            true => Op::Join { client, group },
            false => Op::Leave { client, group },
        };
        self.orders[on].submissions.stage(&op, views);
    }

    fn stage_bus(
        &mut self,
        on: OrderIndex,
        id: ClientId,
        token: u64,
        request: &BusRequest,
        views: Option<usize>,
    ) {
        let what = match request {
            BusRequest::Accept { group, pattern, .. } => BusOp::Accept {
                group: self.reference(on, id, group),
                pattern,
            },
            BusRequest::Reject { group, pattern } => BusOp::Reject {
                group: self.reference(on, id, group),
                pattern,
            },
            BusRequest::Identify { id } => BusOp::Identify { id },
            BusRequest::Who { tag, group } => BusOp::Who {
                tag,
                group: self.reference(on, id, group),
            },
            // This one was answered when it came.
            BusRequest::Clients => return,
        };
        let client = id.0;
        let op = Op::Bus {
            client,
            token,
            what,
        };
        self.orders[on].submissions.stage(&op, views);
    }

    fn stage_message(&mut self, on: OrderIndex, id: ClientId, publish: Publish) {
        let service = publish.service;
        let published = Published {
            client: id,
            number: publish.number,
            cost: credit_cost(publish.stream_len()) as u64,
        };
        let mut head = std::mem::take(&mut self.scratch);
        head.clear();
        if service == Service::Unreliable {
            self.address_unordered(on, id, &publish, &mut head);
        } else {
            self.address(on, id, &publish, &mut head);
        }
        self.orders[on].submissions.stage_any(Submission {
            service,
            payload: publish.into_payload_after(&head),
            message: Some(published),
            of_guest: None,
            views: None,
        });
        self.scratch = head;
    }

    /// Writes the envelope of an ordered message up to its payload, with the numbers of its groups.
    fn address(&mut self, on: OrderIndex, id: ClientId, publish: &Publish, head: &mut Vec<u8>) {
        if let Some(client) = self.clients.get(id)
            && client.orders[on].addressed.is_of(publish)
        {
            return head.extend_from_slice(&client.orders[on].addressed.head);
        }
        let refs: Vec<_> = publish
            .destinations()
            .map(|name| self.reference(on, id, name))
            .collect();
        encode_data_head(head, id.0, None, publish.label(), refs.into_iter());
        if let Some(client) = self.clients.get_mut(id) {
            let Addressed {
                address,
                labelled,
                head: known,
            } = &mut client.orders[on].addressed;
            address.clear();
            address.extend_from_slice(publish.address_bytes());
            *labelled = publish.label().is_some();
            known.clone_from(head);
        }
    }

    /// Writes that of an unreliable message. It may overtake a binding, so it uses only bindings
    /// that came back.
    fn address_unordered(
        &mut self,
        on: OrderIndex,
        id: ClientId,
        publish: &Publish,
        head: &mut Vec<u8>,
    ) {
        let agreed = self.orders[on].own_roster();
        let agreed_groups = agreed.map_or(0, |roster| roster.bindings.len() as u64);
        let agreed_client = agreed.is_some_and(|roster| roster.client(id.0).is_ok());
        let refs: Vec<_> = publish
            .destinations()
            .map(|name| match self.reference(on, id, name) {
                GroupRef::Bound(number) if number > agreed_groups => GroupRef::Named(name),
                reference => reference,
            })
            .collect();
        let sender = match self.clients.get(id) {
            Some(client) if !agreed_client => Some(&*client.private),
            _ => None,
        };
        encode_data_head(head, id.0, sender, publish.label(), refs.into_iter());
    }

    /// The reference to a destination in a request of client `id`: a number where there is one.
    pub(super) fn reference<'a>(
        &mut self,
        on: OrderIndex,
        id: ClientId,
        name: &'a str,
    ) -> GroupRef<'a> {
        let number = if is_private(name) {
            None
        } else {
            self.number(on, id, name)
        };
        number.map_or(GroupRef::Named(name), GroupRef::Bound)
    }

    /// The number of `group`, for a request of client `id`. Binds a new one, as long as there is
    /// room in the table, and neither the client nor its user has bound their share: numbers are
    /// never freed, so nobody must take all of them, by connecting again and again neither.
    fn number(&mut self, on: OrderIndex, id: ClientId, group: &str) -> Option<u64> {
        let known = self.orders[on].submissions.numbers.get(group);
        if known.is_some() {
            return known.copied();
        }
        let max = self.config.bindings_max;
        let client = self.clients.get_mut(id)?;
        let (owner, of_client) = (client.owner(), &mut client.orders[on].bindings);
        let submissions = &mut self.orders[on].submissions;
        let bound = submissions.numbers.len();
        let of_owner = submissions.bound_by.get(&owner).copied().unwrap_or(0);
        let left_by_others = max.saturating_sub(bound - of_owner);
        if bound >= max
            || *of_client >= (max / BINDINGS_SHARE).max(BINDINGS_MIN)
            || of_owner >= (left_by_others / 2).max(BINDINGS_MIN)
        {
            return None;
        }
        *of_client += 1;
        submissions.bound_by.insert(owner, of_owner + 1);
        Some(submissions.bind(group))
    }
}

impl Client {
    fn next_request(&mut self, on: OrderIndex) -> Option<Pending> {
        let request = self.orders[on].requests.pop_front()?;
        if request.is_of_groups() {
            self.group_requests -= 1;
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, MemberId, NodeId};

    use super::*;
    use crate::groups::{EngineConfig, Transport};

    /// An engine with 320 numbers for groups.
    fn engine() -> Engine {
        let config = EngineConfig {
            bindings_max: 320,
            ..EngineConfig::default()
        };
        let local = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        Engine::new(config, local, "h").unwrap()
    }

    /// The clients come one after the other: the numbers stay when their clients are gone.
    #[test]
    fn a_user_who_connects_again_and_again_does_not_take_all_numbers_of_groups() {
        let mut engine = engine();
        let mut come = |user: u32, name: &str| {
            let (id, client) = engine.clients.connect(Transport::Unix);
            client.user = Some(user);
            let bound = (0..1_000).filter_map(|number| {
                engine.number(OrderIndex::OWN, id, &format!("{name}{number}"))
            });
            let bound = bound.count();
            engine.clients.disconnect(id);
            engine.clients.remove(id);
            bound
        };
        let of_greedy: usize = (0..17).map(|it| come(7, &format!("g{it}-"))).sum();
        assert_eq!(of_greedy, 160, "half of them");
        assert_eq!(come(8, "other"), 20, "a client's share");
        assert_eq!(come(7, "again"), 0);
    }

    #[test]
    fn one_client_does_not_take_all_numbers_of_groups() {
        let mut engine = engine();
        let (greedy, _) = engine.clients.connect(Transport::Unix);
        let (other, _) = engine.clients.connect(Transport::Unix);
        let bound = (0..1_000)
            .filter_map(|number| engine.number(OrderIndex::OWN, greedy, &format!("g{number}")));
        assert_eq!(bound.count(), 20);
        assert_eq!(engine.number(OrderIndex::OWN, other, "g3"), Some(4));
        assert_eq!(engine.number(OrderIndex::OWN, greedy, "new"), None);
        assert_eq!(engine.number(OrderIndex::OWN, other, "new"), Some(21));
        assert_eq!(engine.number(OrderIndex::OWN, greedy, "new"), Some(21));
    }
}
