//! From the clients' requests to the order: gives clients their turns, and handles the answers of
//! the order. What a request becomes is in [`stage`](super::stage).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use groupcast_core::{MessageId, Service, SubmitError, Time};

use super::changes::Changes;
use super::client::{Client, ClientPhase, Owner};
use super::guests::OfGuest;
use super::orders::OrderIndex;
use super::own_state::OwnState;
use super::turns::{Mark, Turns};
use super::{Carrier, ClientId, Engine};
use crate::frame::{Reject, Request};

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
    pub(super) numbers: BTreeMap<Arc<str>, u64>,
    /// How many of them the clients of each owner have bound.
    pub(super) bound_by: BTreeMap<Owner, usize>,
    /// The order takes nothing until it says that it is writable.
    full: bool,
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

    /// Sets the state to be submitted.
    pub(super) fn set_state(&mut self, state: OwnState) {
        self.state = Some(state);
    }

    /// The state that waits is not submitted any more.
    pub(super) fn take_back_state(&mut self) {
        self.state = None;
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

    pub(super) fn stage_any(&mut self, submission: Submission) {
        self.staged.push_back(submission);
    }
}

impl Engine {
    /// Submits messages to their carriers until none are left or the carriers are full. `submit`
    /// has to call `Ordered::submit` of the carrier. A full carrier is tried again after its
    /// `Event::Writable`, an order for whose messages the turn has no time
    /// ([`has_time_for`](Self::has_time_for)) in the next turn.
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
        if !self.orders[on].is_steady() || self.orders[on].is_behind() {
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
            self.stage_held_back(on, id);
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

    /// Turns the change of groups of `id` that was held back into submissions, out of turn.
    fn stage_held_back(&mut self, on: OrderIndex, id: ClientId) {
        let views = self.views_of_next(on, id);
        let cost = self.stage_request(on, id, views);
        let submissions = &self.orders[on].submissions;
        let mark = submissions.turns.charged(self.mark(on, id), cost);
        self.set_mark(on, id, mark);
        match self.has_requests(on, id) {
            true => self.orders[on].submissions.take_turn(id, mark),
            false => self.out_of_turn(on, id),
        }
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

    fn has_requests(&self, on: OrderIndex, id: ClientId) -> bool {
        let client = self.clients.get(id);
        client.is_some_and(|client| !client.orders[on].requests.is_empty())
    }

    fn out_of_turn(&mut self, on: OrderIndex, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id) {
            client.orders[on].in_turn = false;
        }
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
