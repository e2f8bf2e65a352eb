//! Requests of clients: checks each frame, queues it for its order or answers it at once.

use bytes::Bytes;
use groupcast_core::{Service, Time};

use super::access::{Access, Right};
use super::client::{Client, ClientPhase, Pending};
use super::making::RingJoin;
use super::orders::OrderIndex;
use super::{ClientId, Engine, Question};
use crate::frame::{
    ClientFrame, DaemonFrame, Disconnect, FrameError, Publish, RawFrame, Reject, Request,
    credit_cost, has_credit,
};
use crate::name::{check_destination, check_group};
use crate::view::Cause;

impl Engine {
    pub(super) fn handle_frame(&mut self, now: Time, id: ClientId, raw: RawFrame) {
        let kind = raw.kind;
        let frame = match ClientFrame::decode(raw) {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                self.journal.counters.frames_unknown += 1;
                return;
            }
            Err(error) => return self.violation(now, id, &error),
        };
        let phase = self.clients.get(id).map(|client| &client.phase);
        match (phase, frame) {
            (Some(ClientPhase::Greeting), ClientFrame::Hello(hello)) => {
                self.handle_hello(now, id, hello);
            }
            (Some(ClientPhase::Open), ClientFrame::Hello(_))
            | (Some(ClientPhase::Greeting | ClientPhase::AwaitingName(_)), _) => {
                self.violation(now, id, &FrameError::Unexpected { kind });
            }
            (Some(ClientPhase::Open), frame) => self.handle_request(now, id, frame),
            (Some(ClientPhase::Leaving | ClientPhase::Gone) | None, _) => {}
        }
    }

    fn handle_request(&mut self, now: Time, id: ClientId, frame: ClientFrame) {
        match frame {
            ClientFrame::Hello(_) => {}
            ClientFrame::Join {
                group,
                discard_own,
                ring: false,
            } => {
                self.handle_join(now, id, group, discard_own);
            }
            ClientFrame::Join {
                group, discard_own, ..
            } => {
                let join = RingJoin::Join { group, discard_own };
                self.handle_ring_join(now, id, join);
            }
            ClientFrame::Leave { group } => self.handle_leave(now, id, &group),
            ClientFrame::Publish(publish) => self.handle_publish(now, id, publish),
            ClientFrame::Credit { bytes } => {
                if let Some(link) = self.clients.link_mut(id) {
                    link.output.credit(bytes);
                    self.schedule.ready.insert(id);
                    self.after_output(now, id, 0);
                }
            }
            ClientFrame::Status => self.ask(id, Question::Status),
            ClientFrame::Groups => self.ask(id, Question::Groups),
            ClientFrame::Ping { token } => {
                self.reply(now, id, &DaemonFrame::Pong { token });
            }
            ClientFrame::Rekey { path } => self.ask_rekey(now, id, path),
            ClientFrame::WhenSlow(policy) => self.handle_when_slow(id, policy),
            ClientFrame::Guest(frame) => self.handle_guest(now, id, frame),
            ClientFrame::Bus { token, request } => self.handle_bus(now, id, token, request),
            ClientFrame::Bye => self.begin_leave(now, id),
        }
    }

    pub(super) fn handle_join(
        &mut self,
        now: Time,
        id: ClientId,
        group: String,
        discard_own: bool,
    ) {
        let all = self.clients.memberships();
        let may_join = self.may_use(id, Right::Join, &group);
        let bad_group = self
            .bad_in_ring(&group)
            .or_else(|| self.not_known_to(id, &group))
            .or_else(|| self.only_elsewhere(&group));
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if let Some(discards) = client.wanted.get_mut(group.as_str()) {
            *discards = discard_own;
            self.routes_changed();
            return;
        }
        let bimodal = self.bimodal.find(&group);
        let error = match check_group(&group) {
            Err(error) => Some((Reject::Name, error.to_string())),
            Ok(()) if bad_group.is_some() => bad_group,
            Ok(()) if client.wanted.len() >= self.config.groups_per_client_max => Some((
                Reject::TooManyGroups,
                format!(
                    "a client may be in {} groups: leave one first",
                    self.config.groups_per_client_max
                ),
            )),
            Ok(()) if !may_join => Some((
                Reject::Forbidden,
                format!("the daemon's access rules do not let this client join {group:?}"),
            )),
            Ok(()) if all >= self.config.memberships_max => Some((
                Reject::TooManyGroups,
                format!(
                    "the clients of the daemon {} are in {all} groups, as many as they may be: leave one first, or connect to another daemon",
                    self.host
                ),
            )),
            Ok(()) => None,
        };
        if let Some((code, text)) = error {
            return self.reject(now, id, Request::Join(group), code, text);
        }
        let group: std::sync::Arc<str> = group.into();
        self.clients.want(id, group.clone(), discard_own);
        self.routes_changed();
        if let Some(index) = bimodal {
            return self.join_bimodal(now, id, index);
        }
        self.queue(self.order_of(&group), id, Pending::Join(group));
        self.check_group_requests(now, id);
    }

    fn handle_leave(&mut self, now: Time, id: ClientId, group: &str) {
        self.forget_ring_join(now, id, group, None);
        let Some(group) = self.clients.unwant(id, group) else {
            return;
        };
        self.routes_changed();
        // It is leaving the group already, to join it in another order.
        if self.making.moving.remove(&(id, group.clone())) {
            return;
        }
        if let Some(index) = self.bimodal.find(&group) {
            return self.part_bimodal(now, id, index, Cause::Leave);
        }
        self.queue(self.order_of(&group), id, Pending::Leave(group));
        self.check_group_requests(now, id);
    }

    fn handle_publish(&mut self, now: Time, id: ClientId, publish: Publish) {
        let cost = credit_cost(publish.stream_len()) as u64;
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let (number, last) = (publish.number, client.last_number);
        let Some(link) = &mut client.link else {
            return;
        };
        let outstanding = link.publish_outstanding;
        if !has_credit(outstanding, link.publish_window) {
            let text = format!(
                "message {number} exceeds the credit ({outstanding} of {} bytes are outstanding): wait for credit",
                link.publish_window
            );
            return self.disconnect(now, id, Disconnect::Protocol, text);
        }
        if number <= last {
            let text = format!("message {number} came after message {last}: numbers must increase");
            return self.disconnect(now, id, Disconnect::Protocol, text);
        }
        link.publish_outstanding += cost;
        client.last_number = number;
        let len = publish.payload().len();
        let mut orders = self.orders.indices();
        let known = orders.find(|on| client.orders[*on].addressed.is_of(&publish));
        let bad_name = match known {
            Some(_) => None,
            None => self.bad_destination(&publish),
        };
        let error = if bad_name.is_some() {
            bad_name
        } else if len > self.config.message_max {
            let max = self.config.message_max;
            let text = format!("the message has {len} bytes, at most {max} are allowed: split it");
            Some((Reject::TooLarge, text))
        } else {
            self.misdirected(&publish)
                .or_else(|| self.forbidden(id, &publish))
        };
        let bimodal = match publish.service {
            Service::Bimodal => publish
                .destinations()
                .next()
                .and_then(|name| self.bimodal.find(name)),
            _ => None,
        };
        match error {
            None => {
                self.journal.counters.published += 1;
                if let Some(client) = self.clients.get_mut(id) {
                    client.published(number);
                }
                match bimodal {
                    Some(group) => self.queue_bimodal(id, group, publish),
                    None => {
                        let first = publish.destinations().next().unwrap_or_default();
                        let on = known.unwrap_or_else(|| self.order_of(first));
                        self.queue(on, id, Pending::Publish(publish));
                    }
                }
            }
            Some((code, text)) => {
                self.give_back(id, cost);
                self.reject(now, id, Request::Publish(number), code, text);
            }
        }
    }

    /// The error in a message's destinations, if there is one.
    fn bad_destination(&self, publish: &Publish) -> Option<(Reject, String)> {
        let mut names = publish.destinations();
        names
            .find_map(|name| match check_destination(name) {
                Err(error) => Some((Reject::Name, error.to_string())),
                Ok(()) => self.bad_in_ring(name),
            })
            .or_else(|| self.of_two_orders(publish))
    }

    /// Why the client may not publish a message, if it may not.
    fn forbidden(&self, id: ClientId, publish: &Publish) -> Option<(Reject, String)> {
        let mut groups = publish.destinations();
        let group = groups.find(|group| !self.may_use(id, Right::Send, group))?;
        let text = format!("the daemon's access rules do not let this client publish to {group:?}");
        Some((Reject::Forbidden, text))
    }

    /// Replaces the access rules. A client that may not be in a group any more leaves it, and is
    /// told why. Messages that were published before are still delivered.
    pub fn set_access(&mut self, now: Time, access: Access) {
        self.access = access;
        self.routes_changed();
        for id in self.clients.ids() {
            let wanted = self.clients.get(id).map(|client| client.wanted.keys());
            let forbidden: Vec<_> = wanted
                .into_iter()
                .flatten()
                .filter(|group| !self.may_use(id, Right::Join, group))
                .cloned()
                .collect();
            for group in forbidden {
                self.handle_leave(now, id, &group);
                let text = format!(
                    "the daemon's access rules do not let this client be in {group:?} any more"
                );
                let request = Request::Join(group.to_string());
                self.reject(now, id, request, Reject::Forbidden, text);
            }
        }
    }

    pub(super) fn may_use(&self, id: ClientId, right: Right, group: &str) -> bool {
        if self.access.0.is_empty() {
            return true;
        }
        let Some(client) = self.clients.get(id) else {
            return false;
        };
        self.access.allows(client.origin(), right, group)
    }

    /// Queues a request for an order.
    pub(super) fn queue(&mut self, on: OrderIndex, id: ClientId, request: Pending) {
        let Some(client) = self.clients.queued(id, request.cost()) else {
            return;
        };
        if request.is_of_groups() {
            client.group_requests += 1;
        }
        let of_order = &mut client.orders[on];
        of_order.requests.push_back(request);
        if !of_order.in_turn {
            of_order.in_turn = true;
            let mark = of_order.mark;
            self.orders[on].submissions.take_turn(id, mark);
        }
    }

    /// Answers that a request is not carried out.
    pub(super) fn reject(
        &mut self,
        now: Time,
        id: ClientId,
        request: Request,
        code: Reject,
        text: String,
    ) {
        self.journal.counters.rejected += 1;
        let frame = DaemonFrame::Rejected {
            request,
            code,
            text,
        };
        self.reply(now, id, &frame);
    }

    /// Returns publish credit of this cost to the client.
    pub(super) fn give_back(&mut self, id: ClientId, cost: u64) {
        if let Some(link) = self.clients.link_mut(id) {
            link.publish_returned += cost;
            self.schedule.ready.insert(id);
        }
    }

    /// Answers a request at once, without credit. What the client does not read of such answers
    /// counts as its own backlog: a client that asks again and again and reads nothing is
    /// disconnected, before it takes much of what waits for all clients.
    pub(super) fn reply(&mut self, now: Time, id: ClientId, frame: &DaemonFrame) {
        self.send(id, frame);
        self.check_backlog(now, id);
    }

    /// Sends a frame that needs no credit. [`reply`](Self::reply) is for one that a client can ask
    /// for as often as it likes.
    pub(super) fn send(&mut self, id: ClientId, frame: &DaemonFrame) {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        frame.encode(&mut bytes);
        self.put(id, &bytes, &Bytes::new());
        self.scratch = bytes;
    }

    /// Puts a frame that begins with `head` into the client's output.
    pub(super) fn put(&mut self, id: ClientId, head: &[u8], rest: &Bytes) {
        if let Some(link) = self.clients.link_mut(id)
            && !link.closing
        {
            link.output.answer(head, rest);
            let memory = link.count_memory();
            self.clients.output_changed(memory);
            self.schedule.ready.insert(id);
        }
    }

    /// Puts pending reports (acceptance, credit) into the client's output, one frame each.
    pub(super) fn report(&mut self, id: ClientId) {
        let held_back = self.schedule.congestion.is_held_back(id);
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let has_requests = client.has_requests();
        let Some(link) = &mut client.link else {
            return;
        };
        if link.closing {
            return;
        }
        let accepted = client.accepted;
        let report_accepted = accepted > link.accepted_reported;
        link.accepted_reported = accepted;
        // A little credit is not worth a frame of its own, unless the client may have used up its
        // window and no request of it waits that would return more.
        let spent = !has_credit(link.publish_outstanding, link.publish_window);
        let worth = report_accepted
            || link.publish_returned >= link.publish_window / 4
            || spent && !has_requests;
        let returned = if held_back || !worth {
            0
        } else {
            std::mem::take(&mut link.publish_returned)
        };
        link.publish_outstanding -= returned;
        if report_accepted {
            self.send(id, &DaemonFrame::Accepted { up_to: accepted });
        }
        if returned > 0 {
            self.send(id, &DaemonFrame::Credit { bytes: returned });
        }
    }

    /// While the input of all clients is over its limit, ends the connection of the client with
    /// most of it, and drops what it has asked for. `id` has just sent more.
    pub(super) fn check_input(&mut self, now: Time, id: ClientId) {
        let max = self.config.input_max;
        while self.clients.input() > max {
            let input = self.clients.input();
            let (holder, of_it, unfinished) = self.clients.largest_input().unwrap_or((id, 0, 0));
            let text = format!(
                "the daemon {} has {input} bytes of its clients' messages waiting, {max} are allowed, and {of_it} of them are this client's, of which {unfinished} are of an unfinished message: publish again later, or smaller messages",
                self.host,
            );
            self.disconnect(now, holder, Disconnect::Overload, text.clone());
            self.drop_requests(now, holder, &text);
            if self.clients.input() >= input {
                // There is nothing of it that could be dropped.
                return self.disconnect(now, id, Disconnect::Overload, text);
            }
        }
    }

    /// Ends connections while the output of all clients is over its limit: those with the most
    /// output first.
    pub(super) fn check_output(&mut self, now: Time) {
        let max = self.config.output_max;
        while self.clients.output() > max
            && let Some((id, memory)) = self.clients.largest_output()
        {
            let text = format!(
                "too slow: {memory} bytes waited for this client, of {} that waited for all clients of the daemon {}, {max} are allowed; read messages as they come",
                self.clients.output(),
                self.host
            );
            self.disconnect(now, id, Disconnect::TooSlow, text);
        }
    }

    /// Ends the connection of a client that makes requests and does not read the answers.
    pub(super) fn check_backlog(&mut self, now: Time, id: ClientId) {
        let limit = self.config.disconnect_at;
        let link = self.clients.link_mut(id);
        if link.is_some_and(|link| link.output.in_memory() >= limit) {
            self.disconnect_slow(now, id);
        }
    }

    pub(super) fn disconnect_slow(&mut self, now: Time, id: ClientId) {
        let Some(link) = self.clients.link_mut(id) else {
            return;
        };
        let backlog = link.output.backlog();
        let text = match link.output.spill_size() {
            None => format!("too slow: {backlog} bytes waited; read messages as they come"),
            Some(size) if backlog as u64 >= size => format!(
                "too slow: {backlog} bytes waited, on the daemon's disk and in memory, {size} are allowed; read messages as they come"
            ),
            Some(_) => format!(
                "too slow: {backlog} bytes waited, and the daemon's disk took them more slowly than they came; read messages as they come"
            ),
        };
        self.disconnect(now, id, Disconnect::TooSlow, text);
    }

    pub(super) fn check_group_requests(&mut self, now: Time, id: ClientId) {
        let limit = self.config.group_requests_max;
        let waiting = |client: &Client| client.group_requests > limit;
        if self.clients.get(id).is_some_and(waiting) {
            let text = format!("more than {limit} joins and leaves wait: make fewer at a time");
            self.disconnect(now, id, Disconnect::Protocol, text);
        }
    }
}
