//! Clients of the bus: their patterns, their ids, and the question who would get a message.
//!
//! A client that *accepts* a group with a pattern is a member of it, and gets those messages whose
//! tag matches one of its patterns. When it takes its last pattern for the group back, it leaves
//! the group. For a client that accepts a group whose name begins with `*.`, that group stands for
//! all groups below the rest of the name; a client that joins it without a pattern is in the group
//! of that name and nothing else. A client's *id* is a name that reaches it as a destination,
//! whatever the tag; an id makes it a member of nothing.
//!
//! All of this is agreed, as joins are, and is part of the daemons' state; a question who would get
//! a message is asked in the order and answered at its place. So it is exact there, and equal at
//! all daemons. The asking daemon answers; the others pass over the question. Of bimodal groups
//! nothing is agreed: `bimodal::bus` has what holds there.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use groupcast_core::{MemberId, Service, Time};

use super::access::Right;
use super::chain::Payload;
use super::client::Pending;
use super::making::RingJoin;
use super::moving::OF_ENGINE;
use super::orders::OrderIndex;
use super::patterns::{ALL, AskedRoom};
use super::roster::{Change, OpError};
use super::spread::HAND_OVER;
use super::wire::{BusOp, GroupRef, Op};
use super::{ClientId, Engine};
use crate::frame::{BusClient, BusRequest, DaemonFrame, Reject};
use crate::name::{check_destination, check_group};

/// A question compiles at most this many patterns of others that came with their daemons' states
/// and not one by one.
const ASKED_WORK_MAX: usize = 256;
/// A question tries at most this many patterns, of all daemons: some 10 ms.
const ASKED_TRIES_MAX: usize = 8_192;
/// To look a pattern up and to try it takes as long as looking at this many members of a group.
const ASKED_TRY: usize = 64;
/// The most bytes of names in a list of all clients: far below the longest frame, and made in few
/// milliseconds.
const LIST_MAX: usize = 4 << 20;

impl Engine {
    pub(super) fn handle_bus(&mut self, now: Time, id: ClientId, token: u64, request: BusRequest) {
        let request = match request {
            BusRequest::Accept {
                group,
                pattern,
                ring: true,
            } => {
                let join = RingJoin::Accept {
                    token,
                    group,
                    pattern,
                };
                return self.handle_ring_join(now, id, join);
            }
            request => request,
        };
        if let BusRequest::Reject { group, pattern } = &request
            && self.forget_ring_join(now, id, group, Some(pattern))
        {
            let result = Ok(());
            return self.tell(now, id, &DaemonFrame::Done { token, result });
        }
        if let Err(refusal) = self.take_bus(id, &request) {
            self.journal.counters.rejected += 1;
            let result = Err(refusal);
            return self.tell(now, id, &DaemonFrame::Done { token, result });
        }
        if request == BusRequest::Clients {
            let frame = match self.bus_clients() {
                Some(clients) => DaemonFrame::BusClientsReport { token, clients },
                None => {
                    self.journal.counters.rejected += 1;
                    let why = format!(
                        "the list of all clients and their domains has more than {LIST_MAX} bytes"
                    );
                    let result = Err((Reject::TooManyGroups, why));
                    DaemonFrame::Done { token, result }
                }
            };
            return self.tell(now, id, &frame);
        }
        if self.take_bimodal_bus(now, id, &request) {
            let result = Ok(());
            return self.tell(now, id, &DaemonFrame::Done { token, result });
        }
        let on = match &request {
            BusRequest::Accept { group, .. }
            | BusRequest::Reject { group, .. }
            | BusRequest::Who { group, .. } => self.order_of(group),
            BusRequest::Identify { .. } | BusRequest::Clients => OrderIndex::OWN,
        };
        self.queue(on, id, Pending::Bus(token, request));
        self.check_group_requests(now, id);
    }

    /// Checks a request, and notes what the client wants.
    fn take_bus(&mut self, id: ClientId, request: &BusRequest) -> Result<(), (Reject, String)> {
        let name = |error: crate::name::NameError| (Reject::Name, error.to_string());
        match request {
            BusRequest::Accept { group, pattern, .. } => {
                check_group(group).map_err(name)?;
                self.check_accept(id, group, pattern)?;
                let group: Arc<str> = group.as_str().into();
                let wanted = self.clients.get(id).map(|client| &client.wanted);
                if wanted.is_some_and(|wanted| !wanted.contains_key(&group)) {
                    self.clients.want(id, group.clone(), false);
                    self.routes_changed();
                }
                self.clients.want_pattern(id, &group, pattern);
            }
            BusRequest::Reject { group, pattern } => {
                match self.clients.unwant_pattern(id, group, pattern) {
                    Some(true) => {
                        self.clients.unwant(id, group);
                        self.routes_changed();
                    }
                    Some(false) => {}
                    None => {
                        let text = format!("{pattern:?} was not accepted for {group:?}");
                        return Err((Reject::NotAccepted, text));
                    }
                }
            }
            BusRequest::Identify { id: called } if called.is_empty() => {}
            BusRequest::Identify { id: called } => {
                check_group(called).map_err(name)?;
                self.bad_id(called).map_or(Ok(()), Err)?;
                self.check_right(id, called)?;
            }
            BusRequest::Who { group, .. } => {
                check_destination(group).map_err(name)?;
                self.bad_in_ring(group).map_or(Ok(()), Err)?;
                if self.bimodal.find(group).is_some() {
                    let text = format!(
                        "the group {group:?} is bimodal: its messages have no place in an order at which it is \
                         known who gets them"
                    );
                    return Err((Reject::Unsupported, text));
                }
            }
            BusRequest::Clients => {}
        }
        Ok(())
    }

    fn check_accept(
        &mut self,
        id: ClientId,
        group: &str,
        pattern: &str,
    ) -> Result<(), (Reject, String)> {
        self.not_known_to(id, group).map_or(Ok(()), Err)?;
        self.only_elsewhere(group).map_or(Ok(()), Err)?;
        self.bad_pattern_group(group).map_or(Ok(()), Err)?;
        self.check_right(id, group)?;
        let Some(client) = self.clients.get(id) else {
            return Ok(());
        };
        let known = client.patterns.get(group);
        if known.is_some_and(|known| known.contains(pattern)) {
            return Ok(());
        }
        let own = [
            (
                client.pattern_count(),
                self.config.patterns_per_client_max,
                "patterns of a client",
            ),
            (
                self.clients.patterns(),
                self.config.memberships_max,
                "patterns of all clients",
            ),
        ];
        let groups = [
            (
                client.wanted.len(),
                self.config.groups_per_client_max,
                "groups of a client",
            ),
            (
                self.clients.memberships(),
                self.config.memberships_max,
                "groups of all clients",
            ),
        ];
        let is_member = client.wanted.contains_key(group);
        let groups = groups.into_iter().filter(|_| !is_member);
        if let Some((_, max, what)) = own.into_iter().chain(groups).find(|it| it.0 >= it.1) {
            let text = format!("there may be {max} {what} at this daemon: take some back first");
            return Err((Reject::TooManyGroups, text));
        }
        let patterns = match self.bimodal.find(group) {
            Some(_) => self.bimodal.patterns(),
            None => {
                let on = self.order_of(group);
                &mut self.orders[on].filters.compiled
            }
        };
        if patterns.is_work(pattern) {
            self.journal.counters.patterns_compiled += 1;
        }
        match patterns.admit(pattern) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let text = "the patterns of this daemon's clients take as much memory as they may: take some back first";
                Err((Reject::TooManyGroups, text.into()))
            }
            Err(error) => Err((Reject::Pattern, error)),
        }
    }

    fn check_right(&self, id: ClientId, group: &str) -> Result<(), (Reject, String)> {
        if self.may_use(id, Right::Join, group) {
            return Ok(());
        }
        let text = format!("the daemon's access rules do not let this client join {group:?}");
        Err((Reject::Forbidden, text))
    }

    /// Applies an operation to the groups, and to the filters of this daemon's clients.
    pub(super) fn apply_to_table(
        &mut self,
        on: OrderIndex,
        sender: MemberId,
        op: &Op<'_>,
    ) -> Result<Change, OpError> {
        let order = &mut self.orders[on];
        let (table, filters) = (&mut order.table, &mut order.filters);
        if sender != order.local {
            // Whoever asks about the group will want it, and then there may be many.
            if let Op::Bus {
                what: BusOp::Accept { pattern, .. },
                ..
            } = op
            {
                let _ = filters.compiled.get(pattern);
            }
            return table.apply(sender, op);
        }
        let (Op::Bus { client, .. }
        | Op::Leave { client, .. }
        | Op::Withdraw { client, .. }
        | Op::Disconnect { client }) = *op
        else {
            return table.apply(sender, op);
        };
        let old = table.id_of(sender, client).cloned();
        let change = table.apply(sender, op)?;
        match (op, &change) {
            (Op::Bus { what, .. }, _) => {
                let new = table.id_of(sender, client).cloned();
                let (BusOp::Accept { group, .. }
                | BusOp::Reject { group, .. }
                | BusOp::Who { group, .. }) = *what
                else {
                    filters.identify(client, old.as_ref(), new.as_ref());
                    return Ok(change);
                };
                let group = table.group(sender, group)?;
                match what {
                    BusOp::Accept { pattern, .. } => filters.accept(client, &group, pattern),
                    BusOp::Reject { pattern, .. } => filters.reject(client, &group, pattern),
                    BusOp::Who { .. } | BusOp::Identify { .. } => {}
                }
            }
            (_, Change::Left { group, .. }) => filters.leave(client, group),
            (_, Change::Withdrawn { groups, .. } | Change::Disconnected { groups, .. }) => {
                if matches!(change, Change::Disconnected { .. }) {
                    filters.identify(client, old.as_ref(), None);
                }
                for group in groups {
                    filters.leave(client, group);
                }
            }
            _ => {}
        }
        Ok(change)
    }

    /// A request of a client of this daemon has come to its place in the order: answers it.
    pub(super) fn answer_bus(
        &mut self,
        on: OrderIndex,
        now: Time,
        id: ClientId,
        token: u64,
        what: BusOp<'_>,
        refused: Option<OpError>,
    ) {
        if token == OF_ENGINE {
            return;
        }
        let frame = match (refused, what) {
            (Some(error), _) => DaemonFrame::Done {
                token,
                result: Err((Reject::Other, error.to_string())),
            },
            (None, BusOp::Who { tag, group }) => match self.audience(on, tag, group) {
                Ok(ids) => DaemonFrame::WhoReport { token, ids },
                Err(text) => {
                    let result = Err((Reject::TooManyGroups, text));
                    DaemonFrame::Done { token, result }
                }
            },
            (None, _) => DaemonFrame::Done {
                token,
                result: Ok(()),
            },
        };
        self.tell(now, id, &frame);
    }

    /// The ids of those whom a message is for, in the order of their private names, which stand for
    /// those without an id.
    ///
    /// # Errors
    /// Why this daemon cannot say, for people.
    fn audience(
        &mut self,
        on: OrderIndex,
        tag: &str,
        group: GroupRef<'_>,
    ) -> Result<Vec<String>, String> {
        let Ok(group) = self.orders[on].table.group(self.orders[on].local, group) else {
            return Ok(Vec::new());
        };
        let order = &mut self.orders[on];
        let compiled = &mut order.filters.compiled;
        let mut is_known = true;
        let mut room = AskedRoom {
            tried: ASKED_TRIES_MAX,
            compiled: ASKED_WORK_MAX,
        };
        let audience = order.table.audience(&group, |patterns| {
            let matches = match tag {
                ALL => Some(true),
                // Of those that are left nothing is told.
                _ if !is_known => None,
                tag => compiled.any_matches(patterns, tag, &mut room),
            };
            is_known &= matches.is_some();
            matches.unwrap_or(false)
        });
        order
            .work
            .spend((ASKED_TRIES_MAX - room.tried) * ASKED_TRY + audience.len() * HAND_OVER);
        if !is_known && room.tried == 0 {
            return Err(format!(
                "more than {ASKED_TRIES_MAX} patterns would have to be tried on the tag: ask with `*`, or \
                 about a domain with fewer"
            ));
        }
        if !is_known {
            let text = "this daemon has still to compile many patterns for the group: ask again";
            return Err(text.into());
        }
        let names = audience
            .into_iter()
            .map(|(private, id)| id.unwrap_or(private));
        Ok(names.map(|name| name.to_string()).collect())
    }

    /// All known clients of the bus, with their groups in all orders that this daemon is in; `None`
    /// if their names are too long for a list. All clients are walked over, and count as named.
    fn bus_clients(&mut self) -> Option<Vec<BusClient>> {
        let rosters = self.orders.iter().flat_map(|it| it.table.rosters());
        let walked: usize = rosters.map(|(_, roster)| roster.clients.len()).sum();
        self.named += walked as u64;
        let mut told: BTreeMap<&Arc<str>, BusClient> = BTreeMap::new();
        let mut bytes = 0;
        for client in self.orders.iter().flat_map(|it| it.table.bus_clients()) {
            let entry = told.entry(&client.private).or_insert_with(|| {
                bytes += client.private.len();
                BusClient {
                    name: client.private.to_string(),
                    id: String::new(),
                    groups: Vec::new(),
                }
            });
            if let Some(id) = client.id().filter(|_| entry.id.is_empty()) {
                bytes += id.len();
                entry.id = id.to_string();
            }
            for group in client.bus.iter().flat_map(|bus| bus.patterns.keys()) {
                bytes += group.len();
                self.named += 1;
                entry.groups.push(group.to_string());
            }
            if bytes > LIST_MAX {
                return None;
            }
        }
        Some(told.into_values().collect())
    }

    /// Sends a frame in its place among the client's messages.
    pub(super) fn tell(&mut self, now: Time, id: ClientId, frame: &DaemonFrame) {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        frame.encode(&mut bytes);
        let nothing = Bytes::new();
        let limits = self.limits_of_own(id);
        self.hand_over(
            now,
            id,
            &bytes,
            Payload::new(&nothing, 0, 1),
            Service::Agreed,
            limits,
        );
        self.scratch = bytes;
    }
}
