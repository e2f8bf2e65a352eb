//! From the clients' requests to the order: gives clients their turns, binds names to numbers, and
//! handles the answers of the order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use groupcast_core::{MessageId, Service, SubmitError, Time};

use super::changes::{Changes, VIEWS_MAX};
use super::client::{Addressed, Client, ClientPhase, Pending};
use super::guests::OfGuest;
use super::orders::OrderIndex;
use super::own_state::OwnState;
use super::turns::{Mark, TURN, Turns};
use super::wire::{BusOp, GroupRef, Op, encode_data_head};
use super::{Carrier, ClientId, Engine};
use crate::frame::{BusRequest, Publish, Reject, Request, credit_cost};
use crate::name::is_private;

/// The bytes that a change of groups, or a question of the bus, counts for in a client's turn.
const CHANGE_TURN: usize = TURN / 4;

/// A client that would cause more views than this when it ends leaves its groups in parts, too.
const PARTING_VIEWS: usize = 1024;

/// One client may bind `1 / BINDINGS_SHARE` of the numbers for group names, and [`BINDINGS_MIN`] at
/// least.
const BINDINGS_SHARE: usize = 16;
const BINDINGS_MIN: usize = 16;

/// Requests, and this daemon's own messages, that wait for the order.
#[derive(Debug, Default)]
pub(super) struct Submissions {
    /// This daemon's state, which goes before everything else.
    state: Option<OwnState>,
    /// Messages that are ready to be submitted: a request, and before it the bindings that it
    /// needs.
    staged: VecDeque<Submission>,
    /// Clients with waiting requests.
    turns: Turns,
    /// Clients whose next request is a message that waits for a slow client.
    stopped: BTreeSet<ClientId>,
    /// Changes of groups that are on their way, and the clients whose changes wait.
    pub(super) changes: Changes,
    /// Numbers of the group names that this daemon has bound, agreed or on their way.
    numbers: BTreeMap<Arc<str>, u64>,
    /// The order takes nothing until it says that it is writable.
    full: bool,
}

/// What the next change of a client that leaves does.
#[derive(Debug)]
struct Parting {
    /// Of how many groups, by their names, it takes the client out, and how many views that causes.
    groups: usize,
    views: usize,
    /// These are all that it is in.
    is_last: bool,
}

#[derive(Debug)]
pub(super) struct Submission {
    pub(super) service: Service,
    pub(super) payload: Bytes,
    pub(super) message: Option<Published>,
    /// Set if it is a request to a group or an answer.
    pub(super) of_guest: Option<OfGuest>,
    /// How many views it causes, if it is a change of groups.
    pub(super) views: Option<usize>,
}

/// A client's message on its way to its carrier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    pub(super) client: ClientId,
    pub(super) number: u64,
    /// The credit that it cost its client.
    pub(super) cost: u64,
}

impl Submissions {
    /// Queues a client with requests for its turn. Its mark is that of its last one.
    pub(super) fn take_turn(&mut self, client: ClientId, mark: Mark) {
        self.turns.enter(client, mark);
    }

    /// The submissions of a new member in the order: keeps only the clients that wait for a turn.
    pub(super) fn begun_anew(mut self) -> Self {
        let others = self.changes.take_held_back().into_iter();
        for client in others.chain(self.stopped) {
            self.turns.enter(client, Some(0));
        }
        Self {
            turns: self.turns,
            ..Self::default()
        }
    }

    /// Removes a client without requests from the queue.
    pub(super) fn forget_turn(&mut self, client: ClientId) {
        self.turns.forget(client);
        self.stopped.remove(&client);
        self.changes.forget(client);
    }

    /// Whether requests of clients wait.
    pub(super) fn is_asked(&self) -> bool {
        !self.turns.is_empty() || !self.stopped.is_empty() || self.changes.are_held_back()
    }

    /// Whether requests of clients are on their way.
    pub(super) fn is_under_way(&self) -> bool {
        !self.staged.is_empty() || self.changes.are_on_their_way()
    }

    /// Sets the state to be submitted. Replaces one that waits: that of an earlier configuration is
    /// of no use.
    pub(super) fn set_state(&mut self, state: OwnState) {
        self.state = Some(state);
    }

    /// The next envelope of the state.
    pub(super) fn next_of_state(&self) -> Option<&Bytes> {
        self.state.as_ref()?.next()
    }

    /// The order has room again.
    pub(super) fn writable(&mut self) {
        self.full = false;
    }

    /// The order's message `number` of this daemon came back: changes up to it are not on their way
    /// any more.
    pub(super) fn came_back(&mut self, number: u64) {
        self.changes.came_back(number);
    }

    fn stage(&mut self, op: &Op<'_>, views: Option<usize>) {
        let mut bytes = Vec::new();
        op.encode(&mut bytes);
        self.stage_any(Submission {
            service: Service::Agreed,
            payload: bytes.into(),
            message: None,
            of_guest: None,
            views,
        });
    }

    pub(super) fn stage_any(&mut self, submission: Submission) {
        self.staged.push_back(submission);
    }

    /// Stages a message of the daemon itself, as agreed.
    pub(super) fn stage_own(&mut self, payload: Vec<u8>) {
        self.stage_any(Submission {
            service: Service::Agreed,
            payload: payload.into(),
            message: None,
            of_guest: None,
            views: None,
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
    /// Submits messages to their carriers until none are left or the carriers are full. `submit`
    /// has to call `Ordered::submit` of the carrier. A full carrier is tried again after its
    /// `Event::Writable`.
    pub fn pump(
        &mut self,
        now: Time,
        mut submit: impl FnMut(Carrier, Service, Bytes) -> Result<MessageId, SubmitError>,
    ) {
        self.say_names();
        if self.schedule.congestion.take_resumed() {
            self.resume_publishers();
        }
        for on in self.orders.indices() {
            self.orders[on].submissions.changes.begin_turn(now);
            while let Some((service, payload)) = self.next_for_order(on) {
                let result = submit(on.carrier(), service, payload);
                self.submitted_to_order(on, now, result);
            }
            // Requests that were not submitted may have been refused.
            self.tell_guests(on, now);
        }
        for index in 0..self.bimodal.len() {
            while let Some(payload) = self.next_for_gossip(now, index) {
                let result = submit(Carrier::Bimodal(index), Service::Bimodal, payload);
                self.submitted_to_gossip(now, index, result);
            }
        }
    }

    /// The next message for the order. It stays the next one until
    /// [`submitted_to_order`](Self::submitted_to_order).
    fn next_for_order(&mut self, on: OrderIndex) -> Option<(Service, Bytes)> {
        if self.orders[on].submissions.full {
            return None;
        }
        if let Some(state) = self.orders[on].submissions.next_of_state() {
            return Some((Service::Agreed, state.clone()));
        }
        if !self.orders[on].is_steady() {
            return None;
        }
        while self.orders[on].submissions.staged.is_empty() {
            self.stage_next(on)?;
        }
        let front = self.orders[on].submissions.staged.front()?;
        Some((front.service, front.payload.clone()))
    }

    /// The answer of the order to the next message.
    fn submitted_to_order(
        &mut self,
        on: OrderIndex,
        now: Time,
        result: Result<MessageId, SubmitError>,
    ) {
        // An order that the daemon is leaving takes nothing any more: later requests wait for its
        // end.
        let is_full = matches!(result, Err(SubmitError::Full { .. } | SubmitError::Leaving));
        self.orders[on].submissions.full |= is_full;
        if let Err(SubmitError::Full { .. }) = result {
            return;
        }
        if let Some(state) = &mut self.orders[on].submissions.state {
            let all = state.submitted(result);
            if all != Ok(false) {
                self.orders[on].submissions.state = None;
            }
            if let Err(error) = all {
                self.state_refused(on, now, &error);
            }
            return;
        }
        let Some(submission) = self.orders[on].submissions.staged.pop_front() else {
            return;
        };
        if let (Some(views), Ok(id)) = (submission.views, &result) {
            self.orders[on]
                .submissions
                .changes
                .handed_over(id.number, views);
        }
        if let Some(of_guest) = submission.of_guest {
            self.guest_handed_over(on, now, of_guest, result.is_ok());
        }
        if let Some(message) = submission.message {
            let service = submission.service;
            let placed =
                |id: MessageId| (service != Service::Unreliable).then_some((on, id.number));
            self.handed_over(now, message, result.map(placed));
        }
    }

    /// The answer of a carrier to a client's message. If it was taken, and will come back in an
    /// order, the result is that order and its number for the message; if it never will be taken,
    /// the message is rejected.
    pub(super) fn handed_over(
        &mut self,
        now: Time,
        message: Published,
        result: Result<Option<(OrderIndex, u64)>, SubmitError>,
    ) {
        let Published {
            client: id,
            number,
            cost,
        } = message;
        self.give_back(id, cost);
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        match result {
            Ok(placed) => client.handed_over(number, placed),
            Err(error) => {
                client.turned_away(number);
                let code = reject_code(&error);
                self.reject(now, id, Request::Publish(number), code, error.to_string());
            }
        }
    }

    /// Turns the next request into submissions; `None` if none may go.
    fn stage_next(&mut self, on: OrderIndex) -> Option<()> {
        if let Some(id) = self.orders[on].submissions.changes.next_held_back() {
            let views = self.views_of_next(on, id);
            let cost = self.stage_request(on, id, views);
            let mark = self.mark(on, id);
            let mark = self.orders[on].submissions.turns.charged(mark, cost);
            self.set_mark(on, id, mark);
            match self.has_requests(on, id) {
                true => self.orders[on].submissions.take_turn(id, mark),
                false => self.out_of_turn(on, id),
            }
            return Some(());
        }
        let id = self.orders[on].submissions.turns.next()?;
        let views = self.views_of_next(on, id);
        if views.is_some() && !self.orders[on].submissions.changes.have_room() {
            self.end_turn(on, id, false);
            self.orders[on].submissions.changes.hold_back(id);
            return Some(());
        }
        if views.is_none() && self.is_stopped(id) {
            self.end_turn(on, id, false);
            self.orders[on].submissions.stopped.insert(id);
            return Some(());
        }
        let cost = self.stage_request(on, id, views);
        let more = self.has_requests(on, id);
        if self.orders[on].submissions.turns.spend(cost) || !more {
            self.end_turn(on, id, more);
            if !more {
                self.out_of_turn(on, id);
            }
        }
        Some(())
    }

    /// The turn of `id` is over; if it has `more` requests, and none that wait for something else,
    /// it waits for another.
    fn end_turn(&mut self, on: OrderIndex, id: ClientId, more: bool) {
        let mark = self.orders[on].submissions.turns.end(more);
        self.set_mark(on, id, mark);
    }

    fn mark(&self, on: OrderIndex, id: ClientId) -> Mark {
        self.clients.get(id)?.orders[on].mark
    }

    fn set_mark(&mut self, on: OrderIndex, id: ClientId, mark: Mark) {
        if let Some(client) = self.clients.get_mut(id) {
            client.orders[on].mark = mark;
        }
    }

    /// Whether messages of a client wait for slow clients. One that leaves may say its last ones.
    fn is_stopped(&self, id: ClientId) -> bool {
        let is_open = |client: &Client| matches!(client.phase, ClientPhase::Open);
        self.schedule.congestion.is_stopped(id) && self.clients.get(id).is_some_and(is_open)
    }

    /// Clients that were stopped have their turns again, if they may.
    fn resume_publishers(&mut self) {
        for on in self.orders.indices() {
            for id in std::mem::take(&mut self.orders[on].submissions.stopped) {
                match self.is_stopped(id) {
                    true => _ = self.orders[on].submissions.stopped.insert(id),
                    false => {
                        let mark = self.mark(on, id);
                        self.orders[on].submissions.take_turn(id, mark);
                    }
                }
            }
        }
    }

    /// Turns the next request of a client, which causes `views`, into submissions, if there is one.
    /// Returns the bytes that this counts for in the client's turn.
    fn stage_request(&mut self, on: OrderIndex, id: ClientId, views: Option<usize>) -> usize {
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

    fn has_requests(&self, on: OrderIndex, id: ClientId) -> bool {
        let client = self.clients.get(id);
        client.is_some_and(|client| !client.orders[on].requests.is_empty())
    }

    fn out_of_turn(&mut self, on: OrderIndex, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id) {
            client.orders[on].in_turn = false;
        }
    }

    /// How many views the client's next request causes at all daemons, and one more for the change
    /// itself; `None` if it is no change of groups.
    fn views_of_next(&self, on: OrderIndex, id: ClientId) -> Option<usize> {
        let client = self.clients.get(id)?;
        let size = |group: &str| self.orders[on].table.size(group);
        let views = match client.orders[on].requests.front()? {
            Pending::Publish(_) => return None,
            Pending::Guest(request) if !request.is_of_roles() => return None,
            Pending::Guest(_) => 0,
            Pending::Join(group) | Pending::Leave(group) => size(group),
            Pending::Bus(_, request) => match request {
                BusRequest::Accept { group, .. }
                | BusRequest::Reject { group, .. }
                | BusRequest::Who { group, .. } => size(group),
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
        self.orders[on].submissions.staged.push_back(Submission {
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
    /// room in the table and the client has not bound its share: numbers are never freed, so one
    /// client must not take all of them.
    fn number(&mut self, on: OrderIndex, id: ClientId, group: &str) -> Option<u64> {
        let known = self.orders[on].submissions.numbers.get(group);
        if known.is_some() {
            return known.copied();
        }
        let max = self.config.bindings_max;
        let client = self.clients.get_mut(id)?;
        let share = (max / BINDINGS_SHARE).max(BINDINGS_MIN);
        if self.orders[on].submissions.numbers.len() >= max || client.orders[on].bindings >= share {
            return None;
        }
        client.orders[on].bindings += 1;
        Some(self.orders[on].submissions.bind(group))
    }
}

/// The code for a message that a carrier does not take.
fn reject_code(error: &SubmitError) -> Reject {
    match error {
        SubmitError::Leaving => Reject::Stopping,
        SubmitError::TooLarge { .. } => Reject::TooLarge,
        SubmitError::Unsupported { .. } => Reject::Unsupported,
        SubmitError::Minority { .. } => Reject::Minority,
        _ => Reject::Other,
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

    #[test]
    fn one_client_does_not_take_all_numbers_of_groups() {
        let config = EngineConfig {
            bindings_max: 320,
            ..EngineConfig::default()
        };
        let local = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        let mut engine = Engine::new(config, local, "h").unwrap();
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
