//! From an order to the subscribers: finds the clients that a message or a view is for, and puts it
//! into their output.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use groupcast_core::trace::Observation;
use groupcast_core::{ConfigId, Delivery, MemberId, OrderPlace, Service, Time};

use super::chain::{COPY_MAX, Payload};
use super::client::Client;
use super::orders::OrderIndex;
use super::output::ForSlow;
use super::roster::Change;
use super::route::Recipient;
use super::route::Route;
use super::slow::SlowLimits;
use super::spread::{HAND_OVER, Stage, VIEW, VIEW_HAND_OVER};
use super::wire::{Data, Envelope, Op};
use super::{ClientId, Engine, Fact};
use crate::frame::{
    BUS, DaemonFrame, HEADER_LEN, Label, MessageHead, RESILIENT, SERVICE_AT, encode_message_head,
    update_message_head,
};
use crate::guests::Party;
use crate::view::{Cause, View};
use crate::when_slow::WhenSlow;

/// Where publishers wait for a client, and this many times
/// [`stop_publishers_at`](super::EngineConfig::stop_publishers_at) waits for it, what they have
/// sent already waits, too.
const STOPS_AT: usize = 2;

impl Engine {
    /// Carries out a message of the order at its place, with the table as it is there. What this
    /// turn has no time for is [put off](Self::put_off).
    pub(super) fn apply(&mut self, on: OrderIndex, now: Time, delivery: &Delivery) {
        if let Some(route) = self.orders[on].routing.take(delivery) {
            return self.follow(on, now, delivery, route, 0);
        }
        let sender = delivery.id.sender;
        match Envelope::decode(&delivery.payload) {
            Ok(Some(Envelope::Data(data))) => {
                let as_of = self.orders[on].routing.changes();
                self.apply_data(on, now, delivery, data, (0, as_of));
            }
            Ok(Some(Envelope::Op(op))) => {
                // Only data is of use without a place.
                if let Some(place) = delivery.place {
                    self.apply_op(on, now, sender, &op, (place.config, place.seq));
                    // Messages of this daemon's clients may have waited for this operation.
                    self.follow_ahead(on, now, Some(sender));
                }
            }
            Ok(Some(Envelope::Guest {
                client,
                op,
                payload_at,
            })) => self.apply_guest(on, now, delivery, client, op, payload_at),
            Ok(Some(Envelope::Names { config, word })) => {
                self.apply_names(on, now, delivery, config, word);
            }
            // A state of a configuration that is over, or a message of the daemons that is not
            // about groups.
            Ok(Some(Envelope::State(_) | Envelope::StatePart(_) | Envelope::OfDaemon)) => {}
            Ok(None) => self.nonsense(sender, "an unknown kind of envelope"),
            Err(error) => self.nonsense(sender, error),
        }
    }

    /// Counts a message that makes no sense.
    pub(super) fn nonsense(&mut self, from: MemberId, error: impl ToString) {
        self.journal.counters.nonsense += 1;
        self.journal.fact(Fact::Nonsense {
            from,
            error: error.to_string(),
        });
    }

    /// Carries out a message to clients. Its recipients in the destinations before `from` are found
    /// already, as of this many changes of the tables.
    pub(super) fn apply_data(
        &mut self,
        on: OrderIndex,
        now: Time,
        delivery: &Delivery,
        mut data: Data<'_>,
        (from, as_of): (usize, u64),
    ) {
        let client = data.client;
        match self.resolve(on, delivery, &mut data) {
            Ok(sender) => match self.find_recipients(on, data.label.tag, from) {
                Some(next) => self.put_off(on, delivery, Stage::Finding { next, as_of }),
                None => {
                    let route = self.find_route(on, delivery, &sender, &data, as_of);
                    self.follow(on, now, delivery, route, 0);
                }
            },
            // A message without a place may have come before its sender is known here. If it is
            // unreliable, nothing was promised of it.
            Err(_) if delivery.service == Service::Unreliable => {
                self.journal.counters.unreliable_dropped += 1;
            }
            Err(_)
                if delivery.place.is_none()
                    && self.orders[on].ahead.keep(delivery, self.config.held_max) => {}
            Err(error) => {
                self.nonsense(delivery.id.sender, error);
                self.came_back(on, delivery, client);
            }
        }
    }

    /// The clients and groups of `daemon`, or of all daemons, have changed: messages that came
    /// before may have recipients now. Drops the messages of daemons that are gone.
    pub(super) fn follow_ahead(&mut self, on: OrderIndex, now: Time, daemon: Option<MemberId>) {
        for delivery in self.orders[on].ahead.take(daemon) {
            let sender = delivery.id.sender;
            if self.orders[on].table.roster(sender).is_some() {
                self.without_limit(on, |engine| engine.apply(on, now, &delivery));
            }
        }
    }

    /// Gives a message to its recipients, from the one at `next` on, and notes for its sender that
    /// it came back.
    pub(super) fn follow(
        &mut self,
        on: OrderIndex,
        now: Time,
        delivery: &Delivery,
        mut route: Box<Route>,
        mut next: usize,
    ) {
        let recipients = route.recipients.len();
        let payload = Payload::new(&delivery.payload, route.payload_at(), recipients);
        if !route.recipients.is_empty() {
            let seq = delivery.place.map(|place| place.seq);
            update_message_head(&mut route.head, seq, payload.len());
            if !route.labelled.is_empty() {
                update_message_head(&mut route.labelled, seq, payload.len());
            }
        }
        // An older client may not know these services.
        let later = matches!(delivery.service, Service::KResilient(_) | Service::Majority);
        while let Some(recipient) = route.recipients.get(next) {
            if self.orders[on].work.is_spent() {
                return self.put_off(on, delivery, Stage::Following { route, next });
            }
            self.orders[on].work.spend(HAND_OVER);
            next += 1;
            let Recipient {
                id,
                index,
                when_slow,
            } = *recipient;
            let head = match !route.labelled.is_empty() && self.knows(id, BUS) {
                true => &mut route.labelled,
                false => &mut route.head,
            };
            head[HEADER_LEN] = index as u8;
            if later {
                let service = self.service_for(id, delivery.service);
                head[SERVICE_AT] = service.code();
            }
            let limits = SlowLimits::of(&self.config, when_slow);
            self.hand_over(now, id, head, payload, delivery.service, limits);
            if delivery.id.sender == self.orders[on].local && when_slow == WhenSlow::Block {
                self.fed(id, ClientId(route.client));
            }
        }
        self.came_back(on, delivery, route.client);
        self.orders[on].routing.keep(route);
    }

    /// The service that a client is told for a message. A client that does not know resilient
    /// services is told that the message is agreed, which is true of it.
    fn service_for(&self, id: ClientId, service: Service) -> Service {
        match self.knows(id, RESILIENT) {
            true => service,
            false => Service::Agreed,
        }
    }

    pub(super) fn knows(&self, id: ClientId, feature: u64) -> bool {
        let knows = |client: &Client| client.features & feature != 0;
        self.clients.get(id).is_some_and(knows)
    }

    /// A message came back; if this daemon submitted it, notes that for the client that published
    /// it.
    fn came_back(&mut self, on: OrderIndex, delivery: &Delivery, client: u64) {
        if delivery.id.sender != self.orders[on].local || delivery.service == Service::Unreliable {
            return;
        }
        let (id, number) = (ClientId(client), delivery.id.number);
        if let Some(client) = self.clients.get_mut(id) {
            match delivery.place {
                Some(_) => client.came_back(on, number),
                None => client.came_back_alone(on, number),
            }
            self.schedule.ready.insert(id);
        }
    }

    /// Finds the names of a message's destinations; returns that of its sender.
    fn resolve(
        &mut self,
        on: OrderIndex,
        delivery: &Delivery,
        data: &mut Data<'_>,
    ) -> Result<Arc<str>, String> {
        let from = delivery.id.sender;
        let sender: Arc<str> = match (data.sender, self.orders[on].table.roster(from)) {
            (Some(name), _) => name.into(),
            (None, Some(roster)) => roster.client(data.client).map_err(text)?.clone(),
            (None, None) => return Err(format!("client {} of an unknown daemon", data.client)),
        };
        self.orders[on].routing.destinations.clear();
        while let Some(reference) = data.next_destination().map_err(text)? {
            let name = self.orders[on].table.group(from, reference).map_err(text)?;
            self.orders[on].routing.destinations.push(name);
        }
        Ok(sender)
    }

    /// Makes a route to the recipients that were found, and encodes the frame head for them.
    fn find_route(
        &mut self,
        on: OrderIndex,
        delivery: &Delivery,
        sender: &Arc<str>,
        data: &Data<'_>,
        as_of: u64,
    ) -> Box<Route> {
        let from = delivery.id.sender;
        let routing = &mut self.orders[on].routing;
        let mut route = routing.begin(delivery, data.payload_at(), data.client, as_of);
        let own = (from == self.orders[on].local).then_some(ClientId(data.client));
        let wanted = self.orders[on].routing.recipients.iter().filter(|it| {
            own != Some(it.id)
                || !self.discards_own(it.id, &self.orders[on].routing.destinations[it.index])
        });
        route.recipients.extend(wanted);
        if !route.recipients.is_empty() {
            let head = MessageHead {
                service: delivery.service,
                place: delivery.place,
                number: None,
                sender,
                label: None,
            };
            let destinations = &self.orders[on].routing.destinations;
            encode_message_head(&mut route.head, &head, 0, destinations, 0);
            let id = self.orders[on].table.id_of(from, data.client);
            if data.label != Label::NONE || id.is_some() {
                let head = MessageHead {
                    label: Some((id.map_or("", |id| id), data.label)),
                    ..head
                };
                encode_message_head(&mut route.labelled, &head, 0, destinations, 0);
            }
        }
        route
    }

    fn discards_own(&self, id: ClientId, group: &str) -> bool {
        let client = self.clients.get(id);
        client.is_some_and(|client| client.wanted.get(group) == Some(&true))
    }

    /// Puts a message or a view into a client's output, unless the client is too slow.
    pub(super) fn hand_over(
        &mut self,
        now: Time,
        id: ClientId,
        head: &[u8],
        payload: Payload<'_>,
        service: Service,
        limits: SlowLimits,
    ) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let Some(link) = &mut client.link else {
            return;
        };
        if link.closing {
            return;
        }
        let backlog = link.output.backlog();
        let counted = match limits.in_memory {
            true => link.output.in_memory(),
            false => backlog,
        };
        let spill = link.output.spill_size();
        let is_full = spill.is_some_and(|size| backlog as u64 >= size);
        if is_full || counted >= limits.disconnect_at {
            return self.disconnect_slow(now, id);
        }
        if service == Service::Unreliable && counted >= limits.drop_at {
            client.dropped += 1;
            if client.dropped == 1 {
                let client = client.private.clone();
                self.journal.fact(Fact::Misses { client, backlog });
            }
            self.warn_slow(now, id, limits);
            self.journal.counters.unreliable_dropped += 1;
            return;
        }
        let blocking = link.output.blocking();
        let for_slow = match (limits.block_at, limits.spill_at) {
            (Some(_), _) => ForSlow::Block,
            (None, Some(at)) => ForSlow::Spill {
                at,
                size: self.config.spill_each_max,
            },
            (None, None) => ForSlow::Keep,
        };
        link.output.deliver(head, payload, for_slow);
        if !link.spill_told && link.output.spill_size().is_some() {
            link.spill_told = true;
            let client = client.private.clone();
            self.journal.fact(Fact::Spills { client, backlog });
        }
        let memory = link.count_memory();
        self.journal.counters.delivered += 1;
        self.schedule.ready.insert(id);
        // Like the other limits, this one is checked against the output before this message: one
        // message alone is never too much.
        let is_slow = limits.block_at.is_some_and(|limit| blocking >= limit);
        if is_slow && self.schedule.congestion.begin(id) {
            link.taken = 0;
            self.set_deadline(id, Some(now + self.config.stalled_within));
        }
        let stops_at = limits.block_at.map(|at| at.saturating_mul(STOPS_AT));
        if stops_at.is_some_and(|at| blocking >= at) {
            self.schedule.congestion.stop(id);
        }
        self.clients.output_changed(memory);
        if counted >= limits.warn_at || spill.is_some_and(|size| backlog as u64 >= size / 2) {
            self.warn_slow(now, id, limits);
        }
        self.go_on_spilling(id);
        self.check_output(now);
    }

    /// Carries out a change of the groups, and shows views of it.
    fn apply_op(
        &mut self,
        on: OrderIndex,
        now: Time,
        sender: MemberId,
        op: &Op<'_>,
        at: (ConfigId, u64),
    ) {
        self.orders[on].routing.changed();
        let party = Party {
            daemon: sender,
            client: op.number(),
        };
        let place = OrderPlace {
            config: at.0,
            seq: at.1,
        };
        let result = self.apply_to_table(on, sender, op);
        let refused = result.as_ref().err().copied();
        match result {
            Ok(Change::None) => {}
            Ok(Change::Joined { client, group }) => {
                if sender == self.orders[on].local {
                    self.tell_carrier(on, now, ClientId(op.number()), &group);
                }
                self.show(on, now, sender, &group, at, Cause::Join, client, None);
            }
            Ok(Change::Left { client, group }) => {
                self.leave_roles(on, now, party, Some(&group), place);
                let leaver = match *op {
                    Op::Leave { client, .. } | Op::Bus { client, .. }
                        if sender == self.orders[on].local =>
                    {
                        Some(ClientId(client))
                    }
                    _ => None,
                };
                self.show(on, now, sender, &group, at, Cause::Leave, client, leaver);
            }
            Ok(Change::Withdrawn { client, groups }) => {
                for group in groups {
                    self.leave_roles(on, now, party, Some(&group), place);
                    let client = client.clone();
                    self.show(on, now, sender, &group, at, Cause::Disconnect, client, None);
                }
            }
            Ok(Change::Disconnected { client, groups }) => {
                self.leave_roles(on, now, party, None, place);
                for group in groups {
                    let client = client.clone();
                    self.show(on, now, sender, &group, at, Cause::Disconnect, client, None);
                }
            }
            Err(error) => self.nonsense(sender, error),
        }
        if let Op::Leave { client, group } = *op
            && sender == self.orders[on].local
        {
            self.left_to_move(on, now, ClientId(client), group);
        }
        if let Op::Disconnect { client } = *op
            && sender == self.orders[on].local
        {
            self.left_order(on, now, ClientId(client));
        }
        if let Op::Bus {
            client,
            token,
            what,
        } = *op
            && sender == self.orders[on].local
        {
            self.answer_bus(on, now, ClientId(client), token, what, refused);
        }
    }

    /// Sends the view that a change of membership caused to the subscribers here, and to the client
    /// that left.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a different fact about the change"
    )]
    fn show(
        &mut self,
        on: OrderIndex,
        now: Time,
        daemon: MemberId,
        group: &Arc<str>,
        at: (ConfigId, u64),
        cause: Cause,
        changed: Arc<str>,
        leaver: Option<ClientId>,
    ) {
        if !self.orders[on].table.shows(daemon) {
            return;
        }
        // To make a view takes time proportional to the group, and most changes concern no client
        // here.
        let subscribers = self.orders[on].table.subscribers(group);
        if leaver.is_none() && subscribers.is_none_or(BTreeSet::is_empty) {
            return;
        }
        let view = self.orders[on].table.view(group, at, cause, Some(changed));
        self.send_view(on, now, view, leaver);
    }

    /// Sends the view of `group` that a configuration change causes.
    pub(super) fn show_change(
        &mut self,
        on: OrderIndex,
        now: Time,
        group: &Arc<str>,
        at: (ConfigId, u64),
    ) {
        let view = self.orders[on].table.view(group, at, Cause::Network, None);
        self.send_view(on, now, view, None);
    }

    fn send_view(&mut self, on: OrderIndex, now: Time, view: View, leaver: Option<ClientId>) {
        let subscribers = self.orders[on].table.subscribers(&view.group);
        let subscribers = subscribers.into_iter().flatten().copied().map(ClientId);
        let recipients: Vec<_> = subscribers.chain(leaver).collect();
        if recipients.is_empty() {
            return;
        }
        if self.journal.is_observed() {
            let shown = Observation::GroupView {
                group: view.group.to_string(),
                view: view.id.to_string(),
                members: view.members.iter().map(ToString::to_string).collect(),
            };
            self.journal.observe(on.carrier(), shown);
        }
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let group = view.group.clone();
        let work = VIEW + view.members.len() + recipients.len() * VIEW_HAND_OVER;
        self.orders[on].work.spend(work);
        DaemonFrame::View(view).encode(&mut bytes);
        // A long one is in memory once for all.
        let head = match bytes.len() > COPY_MAX {
            true => HEADER_LEN,
            false => bytes.len(),
        };
        let rest = Bytes::copy_from_slice(&bytes[head..]);
        let payload = Payload::new(&rest, 0, recipients.len());
        for id in recipients {
            self.journal.counters.views += 1;
            let limits = SlowLimits::of(&self.config, self.when_slow(id, &group));
            self.hand_over(now, id, &bytes[..head], payload, Service::Agreed, limits);
        }
        self.scratch = bytes;
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
