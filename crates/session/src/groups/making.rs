//! Rings that joins ask for: takes clients' requests to the name service, the messages of the name
//! service to the daemons' own order, and the rings that are agreed there to the daemon.
//!
//! The engine's [`NameService`](crate::names::NameService) makes rings, and knows which ones joins
//! have made. Its messages, called *words*, travel in the daemons' own order. A word counts only in
//! the configuration in which it was said: every daemon ignores a word that is held while states
//! are exchanged, or comes late. Instead, each daemon's state says which rings it is a site of.
//!
//! A daemon becomes a *site* of a ring before it joins the ring, and stays one until it has left
//! it, so a ring without sites has no members. The host finds rings made by joins with
//! [`Engine::ring_at`], joins and leaves them like configured ones, and calls
//! [`Engine::done_with_ring`] when it has left one and wants nothing of it.

use std::collections::BTreeMap;

use groupcast_core::{ConfigId, Delivery, MemberId, Time};

use super::access::Right;
use super::client::ClientPhase;
use super::filters::BELOW;
use super::orders::{Order, OrderIndex};
use super::wire::encode_names;
use super::{ClientId, Engine, Fact};
use crate::frame::{BusRequest, DaemonFrame, Reject, Request};
use crate::name::check_group;
use crate::names::{
    DomainName, InUse, NameEvent, NameService, Planted, QUESTIONS_MAX, RINGS_MADE_MAX, Refusal,
    RingAddress, is_at_or_below,
};

/// The most rings of one client: those that joins have made and in the group of whose top it is,
/// and those that it waits for. Half of all.
const RINGS_PER_CLIENT_MAX: usize = RINGS_MADE_MAX / 2;

/// To ask for a ring has each daemon look at all names that its clients use, once for the question
/// and once more for the ring. So the client rests as if it had been told as many names as a daemon
/// has by default.
const ASKED_NAMES: u64 = 100_000;

/// Joins that wait for rings, and clients that move between orders.
#[derive(Debug, Default)]
pub(super) struct Making {
    /// The joins that wait for a ring of this name.
    waiting: BTreeMap<DomainName, Vec<Waiting>>,
    /// Clients and groups that they are leaving in one order, to join them in another.
    pub(super) moving: std::collections::BTreeSet<(ClientId, std::sync::Arc<str>)>,
    /// Counts changes of the daemon's rings.
    changes: u64,
    /// A rule of names that is broken on purpose.
    pub(super) planted: Option<Planted>,
}

/// A join that waits for its ring.
#[derive(Debug)]
struct Waiting {
    client: ClientId,
    join: RingJoin,
}

/// A join that asks for a ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum RingJoin {
    /// A client's join of a group.
    Join { group: String, discard_own: bool },
    /// A request of the bus to accept messages.
    Accept {
        token: u64,
        group: String,
        pattern: String,
    },
}

impl RingJoin {
    fn group(&self) -> &str {
        let (Self::Join { group, .. } | Self::Accept { group, .. }) = self;
        group
    }
}

impl Engine {
    /// Replaces the name service. Call it before anything else.
    pub fn set_name_service(&mut self, names: Box<dyn NameService>) {
        self.names = names;
    }

    /// Breaks a rule of names on purpose, to prove that the swarm sees it.
    #[doc(hidden)]
    pub fn plant_in_names(&mut self, bug: Option<Planted>) {
        self.making.planted = bug;
        let names = crate::names::Implicit::new(self.local).planted(bug);
        self.names = Box::new(names);
    }

    /// The address of the ring `index`, if a join has made it.
    pub fn ring_at(&self, index: usize) -> Option<&RingAddress> {
        self.rings.made(OrderIndex::of_ring(index))
    }

    /// How many places for rings the daemon has, filled or not: their indices are below it.
    pub fn ring_places(&self) -> usize {
        self.rings.places()
    }

    /// A count that goes up whenever [`ring_at`](Self::ring_at) changes.
    pub fn ring_changes(&self) -> u64 {
        self.making.changes
    }

    /// The rings that joins have made, as agreed by all daemons of the configuration.
    pub fn rings_made(&self) -> Vec<RingAddress> {
        self.names.rings()
    }

    /// The top of the ring that carries `group`; `None` if the daemon's own order does.
    pub fn ring_of(&self, group: &str) -> Option<&str> {
        self.rings.top(self.order_of(group)).map(|top| &**top)
    }

    /// The host is not in the ring `index`, which a join has made: gives the ring back, unless
    /// clients still want something of it.
    pub fn done_with_ring(&mut self, index: usize) {
        let on = OrderIndex::of_ring(index);
        let Some(ring) = self.rings.made(on) else {
            return;
        };
        let top = ring.top.clone();
        // Of rings that others have made nothing is to be given back, and to look would cost a walk
        // over all clients.
        if !self.rings.is_closing(on) && !self.names.is_site(&top) {
            return;
        }
        if self.uses_ring(index) || self.making.waiting.contains_key(&top) {
            return;
        }
        if self.rings.is_closing(on) {
            self.rings.forget(on);
            self.orders[on] = Order::new(self.local);
            self.making.changes += 1;
        } else {
            self.names.remove_site(&top);
        }
    }

    /// A client joins a group and wants a ring of its own for it.
    pub(super) fn handle_ring_join(&mut self, now: Time, id: ClientId, join: RingJoin) {
        match self.check_ring_join(id, &join) {
            Err((code, text)) => self.refuse_ring_join(now, id, join, code, text),
            // The ring exists already.
            Ok(None) => self.join_at_last(now, id, join),
            Ok(Some(top)) => {
                let waiting = self.making.waiting.entry(top.clone()).or_default();
                waiting.push(Waiting { client: id, join });
                if let Some(pool) = self.config.ring_pool {
                    self.names.ask(&top, pool);
                    self.named += ASKED_NAMES;
                }
                self.tend_names(now);
            }
        }
    }

    /// The top of the ring to ask for; `None` if the ring exists.
    fn check_ring_join(
        &self,
        id: ClientId,
        join: &RingJoin,
    ) -> Result<Option<DomainName>, (Reject, String)> {
        let group = join.group();
        if group.starts_with(BELOW) {
            let text = format!(
                "{group:?} stands for all below a name, and a ring has one: ask for the ring of the name itself, which \
                 carries all below it too"
            );
            return Err((Reject::Name, text));
        }
        check_group(group).map_err(|error| (Reject::Name, error.to_string()))?;
        let top = group.parse::<DomainName>();
        let top = top.map_err(|error| (Reject::Name, error.to_string()))?;
        if !self.may_use(id, Right::Join, group) {
            let text = format!("the daemon's access rules do not let this client join {group:?}");
            return Err((Reject::Forbidden, text));
        }
        let on = self.order_of(group);
        if self.rings.top(on).is_some_and(|top| **top == *group) {
            return Ok(None);
        }
        if self.bimodal.find(group).is_some() || self.bimodal.is_elsewhere(group) {
            let text = format!("the group {group:?} is bimodal: no ring carries it");
            return Err((Reject::Unsupported, text));
        }
        if self.config.ring_pool.is_none() {
            let text = format!(
                "the daemon {} has no addresses for rings that joins ask for: name some in its configuration, for \
                 example `ring_pool = {{ network = \"239.192.80.0/24\", port = 4809 }}`",
                self.host
            );
            return Err((Reject::Unsupported, text));
        }
        let client = self.clients.get(id);
        if client.is_some_and(|client| client.wanted.contains_key(group)) {
            let text = format!(
                "this client is in {group:?} already, which no ring of its own carries: leave it first"
            );
            return Err((Reject::Unsupported, text));
        }
        let rings = self.rings_of(id);
        if rings >= RINGS_PER_CLIENT_MAX {
            let text = format!(
                "this client has asked for {rings} rings, as many as one may: leave the groups of one first, or connect again"
            );
            return Err((Reject::TooManyGroups, text));
        }
        let waiting = self.making.waiting.values().map(Vec::len).sum::<usize>();
        let questions = self.making.waiting.len();
        if questions >= QUESTIONS_MAX || waiting >= self.config.group_requests_max {
            let text = format!(
                "{waiting} joins wait for {questions} rings, as many as may be: wait for those"
            );
            return Err((Reject::TooManyGroups, text));
        }
        Ok(Some(top))
    }

    /// How many rings were made, or are asked for, of whose top the client is in the group.
    fn rings_of(&self, id: ClientId) -> usize {
        let wanted = self.clients.get(id).map(|client| &client.wanted);
        let made = self.rings.all_made().filter(|(on, _, is_closing)| {
            let top = self.rings.top(*on).filter(|_| !is_closing);
            top.is_some_and(|top| wanted.is_some_and(|wanted| wanted.contains_key(top)))
        });
        let asked = self.making.waiting.values();
        let asked = asked.filter(|all| all.iter().any(|it| it.client == id));
        made.count() + asked.count()
    }

    fn refuse_ring_join(
        &mut self,
        now: Time,
        id: ClientId,
        join: RingJoin,
        code: Reject,
        text: String,
    ) {
        match join {
            RingJoin::Join { group, .. } => {
                self.reject(now, id, Request::Join(group), code, text);
            }
            RingJoin::Accept { token, .. } => {
                self.journal.counters.rejected += 1;
                let result = Err((code, text));
                self.tell(now, id, &DaemonFrame::Done { token, result });
            }
        }
    }

    fn join_at_last(&mut self, now: Time, id: ClientId, join: RingJoin) {
        match join {
            RingJoin::Join { group, discard_own } => self.handle_join(now, id, group, discard_own),
            RingJoin::Accept {
                token,
                group,
                pattern,
            } => {
                let request = BusRequest::Accept {
                    group,
                    pattern,
                    ring: false,
                };
                self.handle_bus(now, id, token, request);
            }
        }
    }

    /// A client takes its join of `group` back, or, on the bus, its `pattern` for it. Returns
    /// whether the join waited for a ring.
    pub(super) fn forget_ring_join(
        &mut self,
        now: Time,
        id: ClientId,
        group: &str,
        pattern: Option<&str>,
    ) -> bool {
        let is_it = |waiting: &Waiting| {
            waiting.client == id
                && match &waiting.join {
                    RingJoin::Join { group: of, .. } => pattern.is_none() && of == group,
                    RingJoin::Accept {
                        group: of,
                        pattern: by,
                        ..
                    } => pattern == Some(by) && of == group,
                }
        };
        let all = self.making.waiting.values_mut();
        let forgotten: Vec<Waiting> = all
            .flat_map(|all| all.extract_if(.., |it| is_it(it)))
            .collect();
        for waiting in &forgotten {
            if let RingJoin::Accept { token, .. } = waiting.join {
                let text = format!("{group:?} was taken back before its ring was made");
                let result = Err((Reject::NotAccepted, text));
                self.tell(now, id, &DaemonFrame::Done { token, result });
            }
        }
        !forgotten.is_empty()
    }

    /// All states of the daemons' own order have come: `said` are the parts of the name services.
    pub(super) fn install_names(
        &mut self,
        now: Time,
        members: &[MemberId],
        said: Vec<(MemberId, Vec<u8>)>,
    ) {
        self.names.reformed(members, &said);
        self.tend_names(now);
    }

    /// A word of a name service has come in the order.
    pub(super) fn apply_names(
        &mut self,
        on: OrderIndex,
        now: Time,
        delivery: &Delivery,
        config: ConfigId,
        word: &[u8],
    ) {
        let Some(place) = delivery.place.filter(|_| on == OrderIndex::OWN) else {
            return self.nonsense(delivery.id.sender, "a word about rings without a place");
        };
        let is_late = self.orders[on].config() != Some(config) || place.config != config;
        if is_late {
            return;
        }
        if let Err(error) = self.names.handle_word(delivery.id.sender, place, word) {
            self.nonsense(delivery.id.sender, error);
        }
        self.tend_names(now);
    }

    /// Carries out the events of the name service.
    fn tend_names(&mut self, now: Time) {
        while let Some(event) = self.names.poll_event() {
            match event {
                NameEvent::Changed => self.rings_changed(now),
                NameEvent::IsFree(top) => {
                    let in_use = self.in_use(&top);
                    self.names.answer(&top, in_use);
                }
                NameEvent::Settled(top, outcome) => self.settled(now, &top, outcome),
            }
        }
    }

    /// The question for a ring is settled: joins the clients that wait, or refuses them.
    fn settled(&mut self, now: Time, top: &DomainName, outcome: Result<(), Refusal>) {
        if let Err(refusal) = &outcome {
            let why = refusal.to_string();
            self.journal.fact(Fact::RingRefused { why });
        }
        for Waiting { client, join } in self.making.waiting.remove(top).unwrap_or_default() {
            let phase = self.clients.get(client).map(|it| &it.phase);
            if !matches!(phase, Some(ClientPhase::Open)) {
                continue;
            }
            match &outcome {
                Ok(()) => self.join_at_last(now, client, join),
                Err(refusal) => {
                    let text = refusal.to_string();
                    self.refuse_ring_join(now, client, join, Reject::Unsupported, text);
                }
            }
        }
    }

    /// A name at or below `top` that this daemon uses already, if there is one.
    fn in_use(&mut self, top: &DomainName) -> Option<InUse> {
        let names = self.clients.memberships();
        self.orders[OrderIndex::OWN].work.spend(names);
        let top = top.to_string();
        let in_use = |group: &str| InUse {
            group: group.to_owned(),
            ring: self.ring_of(group).unwrap_or_default().to_owned(),
        };
        // A domain that stands for all below a name must not belong to two orders.
        let is_used = |group: &str| match group.strip_prefix(BELOW) {
            Some(above) => is_at_or_below(above, &top) || is_at_or_below(&top, above),
            None => is_at_or_below(group, &top),
        };
        let clients = self.clients.iter();
        let clients = clients.filter(|(_, it)| matches!(it.phase, ClientPhase::Open));
        let mut wanted = clients.flat_map(|(_, client)| client.wanted.keys());
        if let Some(group) = wanted.find(|group| is_used(group)) {
            return Some(in_use(group));
        }
        let roster = self.orders[OrderIndex::OWN].own_roster();
        let on_bus = roster.into_iter().flat_map(|it| it.clients.values());
        let mut ids = on_bus.filter_map(|client| client.id());
        if let Some(id) = ids.find(|id| is_at_or_below(id, &top)) {
            return Some(in_use(id));
        }
        let mut configured = self.rings.configured();
        if let Some(ring) = configured.find(|it| is_at_or_below(it, &top)) {
            return Some(in_use(ring));
        }
        let mut bimodal = self.config.bimodal_groups.iter();
        bimodal
            .find(|group| is_at_or_below(group, &top))
            .map(|group| in_use(group))
    }

    /// The set of agreed rings has changed.
    fn rings_changed(&mut self, now: Time) {
        let before = self.rings.clone();
        self.rings.set_made(&self.names.rings());
        let places = self.rings.places();
        let (local, count) = (self.local, 1 + places);
        self.orders.grow(count, || Order::new(local));
        self.clients.grow(count);
        self.making.changes += 1;
        for (on, ring, is_closing) in self.rings.all_made() {
            let was = before.made(on).filter(|_| !before.is_closing(on));
            let top: std::sync::Arc<str> = ring.top.to_string().into();
            match (was, is_closing) {
                (None, false) => self.journal.fact(Fact::RingMade {
                    ring: top,
                    multicast: ring.multicast,
                }),
                (Some(_), true) => self.journal.fact(Fact::RingEnded { ring: top }),
                _ => {}
            }
        }
        self.routes_changed();
        for (_, client) in self.clients.iter_mut() {
            client.forget_addresses();
        }
        self.move_all(now, &before);
    }

    /// Whether the daemon may be in the ring: it is a site of it and remains one.
    pub(super) fn may_be_in(&self, on: OrderIndex) -> bool {
        let Some(ring) = self.rings.made(on) else {
            return true;
        };
        self.names.is_site(&ring.top) && !self.names.is_changing(&ring.top)
    }

    /// Whether the name service has a word that can be submitted now.
    pub(super) fn has_names_to_say(&self) -> bool {
        self.names.has_words() && self.orders[OrderIndex::OWN].is_steady()
    }

    /// Makes this daemon a site of the rings that clients ask for, and submits the words of the
    /// name service.
    pub(super) fn say_names(&mut self) {
        let made = self.rings.all_made().filter(|(.., is_closing)| !is_closing);
        let asked: Vec<DomainName> = made
            .filter(|(on, ..)| self.orders[*on].submissions.is_asked())
            .map(|(_, ring, _)| ring.top.clone())
            .collect();
        for top in asked {
            self.names.add_site(&top);
        }
        let own = &mut self.orders[OrderIndex::OWN];
        let Some(config) = own.config().filter(|_| own.is_steady()) else {
            return;
        };
        while let Some(word) = self.names.poll_word() {
            let mut payload = Vec::new();
            encode_names(&mut payload, config, &word);
            own.submissions.stage_own(payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::groups::spread::tests::crowd;
    use crate::names::Pool;

    #[test]
    fn who_asks_for_a_ring_pays_for_looking_at_all_names_and_so_does_the_turn() {
        const NAMES: usize = 1_000;
        let mut engine = crowd(1, 0);
        engine.config.ring_pool = Pool::new(Ipv4Addr::new(239, 192, 80, 0), 28, 4809);
        for number in 0..NAMES {
            let group = format!("g{number}").into();
            engine.clients.want(ClientId(1), group, false);
        }
        let join = RingJoin::Join {
            group: "wb.cb".into(),
            discard_own: false,
        };
        engine.handle_ring_join(Time::ZERO, ClientId(1), join);
        assert_eq!(engine.named, ASKED_NAMES);
        let done = |engine: &Engine| engine.orders[OrderIndex::OWN].work.done();
        let before = done(&engine);
        engine.in_use(&"wb.cb".parse().unwrap());
        assert_eq!(done(&engine) - before, NAMES);
        engine.rings_changed(Time::ZERO);
        assert_eq!(done(&engine) - before, 2 * NAMES);
    }
}
