//! A message on its way to many clients, in parts.
//!
//! A message may name a hundred groups, and all clients of the daemon may be in each of them: then
//! a hundred thousand members are looked at to find its recipients. A host whose turns are to be
//! short says how much work may be done in one ([`Engine::begin_turn`]), and takes an event of an
//! order only while there is some left ([`Engine::has_time_for`]). What is left of a message is
//! done in the next turn, before anything else of its order: so every client gets its messages and
//! views in their order, and nothing is carried out before its place.
//!
//! Meanwhile no message of a client is [handed](Engine::pump) to that order: where the daemon is
//! alone in it, or its clients publish more than they can be given, they wait for their credit. A
//! state of an exchange goes as ever.
//!
//! Each order has an equal share of a turn. A host that sets no limit, and one that hands over an
//! event although there is no time for it, gets all work done at once.

use std::sync::Arc;

use groupcast_core::{Delivery, Time};

use super::access::Right;
use super::orders::OrderIndex;
use super::route::{Recipient, Route};
use super::wire::Envelope;
use super::{Carrier, ClientId, Engine};
use crate::name::is_private;

/// The work of a turn that takes some milliseconds at most: to look at one member of a group counts
/// for one.
pub const WORK_PER_TURN: usize = 1 << 18;

/// To hand a message to a client counts for this much.
pub(super) const HAND_OVER: usize = 16;

/// To hand a view to one counts for this much: the rule for it as a slow client is looked up.
pub(super) const VIEW_HAND_OVER: usize = 32;

/// To make a view counts for this much, beside its members and the clients that get it.
pub(super) const VIEW: usize = 160;

/// The work of an order in a turn.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// What is left of it; `None` if there is no limit.
    left: Option<usize>,
    /// What was done since the start.
    #[cfg(test)]
    done: usize,
}

impl Work {
    /// Counts work that is done.
    pub(super) fn spend(&mut self, work: usize) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(work);
        }
        #[cfg(test)]
        {
            self.done += work;
        }
    }

    /// The same; whether there is time for more.
    pub(super) fn spend_some(&mut self, work: usize) -> bool {
        self.spend(work);
        !self.is_spent()
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left == Some(0)
    }

    /// What was done since the start.
    #[cfg(test)]
    pub(super) fn done(&self) -> usize {
        self.done
    }
}

/// A message that not all of its recipients here have got yet.
#[derive(Debug)]
pub(super) struct Spread {
    delivery: Delivery,
    stage: Stage,
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Its recipients are being found: those in the destinations before this one stand in the
    /// order's [`Routing`](super::route::Routing). If facts have changed since on which recipients
    /// depend, and that are no part of the order, the route is that of this message alone.
    Finding { next: usize, as_of: u64 },
    /// It goes to its recipients, from this one on.
    Following { route: Box<Route>, next: usize },
    /// It is of the bimodal group with this index, and its tag is being tried on the patterns of
    /// the group's clients. It has the turns of the daemon's own order.
    Bimodal { index: usize },
}

impl Engine {
    /// A turn of the host begins, in which about `work` is to be done for messages to clients;
    /// [`WORK_PER_TURN`] takes some milliseconds. Goes on with the messages that were not done in
    /// the last one. From the first call on, ask [`has_time_for`](Self::has_time_for) before each
    /// event.
    pub fn begin_turn(&mut self, now: Time, work: usize) {
        let used = self.orders.iter().filter(|it| it.current.is_some());
        let share = (work / used.count().max(1)).max(1);
        for on in self.orders.indices() {
            self.orders[on].work.left = Some(share);
            self.go_on_spreading(on, now);
        }
    }

    /// Whether there is time for another event of this carrier in this turn. If not, call
    /// [`begin_turn`](Self::begin_turn) before it, without sleeping, as
    /// [`poll_timeout`](Self::poll_timeout) says.
    pub fn has_time_for(&self, carrier: Carrier) -> bool {
        let on = match carrier {
            Carrier::Order => OrderIndex::OWN,
            Carrier::Ring(index) => OrderIndex::of_ring(index),
            Carrier::Bimodal(_) => return self.orders[OrderIndex::OWN].spread.is_none(),
        };
        !self.orders[on].is_behind()
    }

    /// The rest of the message waits for the next turn.
    pub(super) fn put_off(&mut self, on: OrderIndex, delivery: &Delivery, stage: Stage) {
        let delivery = delivery.clone();
        self.orders[on].spread = Some(Spread { delivery, stage });
    }

    fn go_on_spreading(&mut self, on: OrderIndex, now: Time) {
        if let Some(spread) = self.orders[on].spread.take() {
            self.go_on_with(on, now, spread);
        }
        self.go_on_stepping(on, now);
    }

    fn go_on_with(&mut self, on: OrderIndex, now: Time, spread: Spread) {
        let Spread { delivery, stage } = spread;
        match stage {
            Stage::Following { route, next } => self.follow(on, now, &delivery, route, next),
            Stage::Bimodal { index } => self.apply_bimodal(now, index, &delivery),
            Stage::Finding { next, as_of } => {
                if let Ok(Some(Envelope::Data(data))) = Envelope::decode(&delivery.payload) {
                    self.apply_data(on, now, &delivery, data, (next, as_of));
                }
            }
        }
    }

    /// Does what is left of the message and the steps under way, however much that is: something is
    /// to come behind it.
    pub(super) fn finish_spreading(&mut self, on: OrderIndex, now: Time) {
        if self.orders[on].has_begun() {
            self.without_limit(on, |engine| engine.go_on_spreading(on, now));
        }
    }

    /// Does something of which nothing can be left for the next turn.
    pub(super) fn without_limit(&mut self, on: OrderIndex, act: impl FnOnce(&mut Self)) {
        let left = self.orders[on].work.left.take();
        act(self);
        self.orders[on].work.left = left;
    }

    /// Finds the clients of this daemon that a message with this tag to the destinations is for:
    /// each once, with the index of the first destination that it is in, and the rule for it as a
    /// slow client. Begins with the destination `from`, after those before it. Returns the one to
    /// go on with in the next turn, if this one has no time for all.
    pub(super) fn find_recipients(
        &mut self,
        on: OrderIndex,
        tag: &str,
        from: usize,
    ) -> Option<usize> {
        let (mut destinations, mut recipients) = self.orders[on].routing.take_lists();
        let mut found = std::mem::take(&mut self.orders[on].routing.found);
        if from == 0 {
            recipients.clear();
        }
        let mut next = from;
        while let Some(name) = destinations.get(next) {
            // Each turn does something.
            if next > from && self.orders[on].work.is_spent() {
                break;
            }
            if !destinations[..next].contains(name) {
                if !self.find_clients(on, name, tag, &mut found) {
                    break;
                }
                self.orders[on].work.spend(recipients.len() + found.len());
                self.merge(&mut recipients, &found, next, name);
            }
            next += 1;
        }
        let is_left = next < destinations.len();
        let routing = &mut self.orders[on].routing;
        routing.set_lists(&mut destinations, &mut recipients);
        routing.found = found;
        is_left.then_some(next)
    }

    /// Finds the clients of this daemon that a message to `name` is for, each once and ascending.
    /// Returns false if this turn has no time to try all patterns: the next one goes on.
    fn find_clients(
        &mut self,
        on: OrderIndex,
        name: &str,
        tag: &str,
        found: &mut Vec<ClientId>,
    ) -> bool {
        found.clear();
        let order = &mut self.orders[on];
        let work = &mut order.work;
        if !order.filters.try_some(name, tag, |it| work.spend_some(it)) {
            return false;
        }
        if let Some(subscribers) = order.table.subscribers(name) {
            order.work.spend(subscribers.len());
            let passing = order.filters.passes(subscribers.iter(), name, tag);
            found.extend(passing.map(|id| ClientId(*id)));
        } else if is_private(name)
            && let Some((client, host)) = name.split_once('@')
            && *host == *self.host
        {
            found.extend(self.clients.holder(client));
        }
        // The right to read a group is checked when a client joins it; these clients are no
        // members.
        let members = found.len();
        for id in self.orders[on].filters.without_membership(name, tag) {
            let id = ClientId(id);
            if self.may_use(id, Right::Join, name) {
                found.push(id);
            }
        }
        if found.len() > members {
            found.sort_unstable();
            found.dedup();
        }
        true
    }

    /// Adds the clients in `found` to the recipients, which are ascending like them: those in the
    /// destination `name` with this index.
    fn merge(
        &self,
        recipients: &mut Vec<Recipient>,
        found: &[ClientId],
        index: usize,
        name: &Arc<str>,
    ) {
        let rule = self.slow_rule(name);
        let new = |id: ClientId| Recipient {
            id,
            index,
            when_slow: self.when_slow_by(id, rule),
        };
        if recipients.is_empty() {
            recipients.extend(found.iter().map(|id| new(*id)));
            return;
        }
        let known = recipients.len();
        let mut at = 0;
        for id in found {
            while at < known && recipients[at].id < *id {
                at += 1;
            }
            match recipients[..known].get_mut(at).filter(|it| it.id == *id) {
                // It is a recipient by an earlier destination; its rule is the least patient one.
                Some(first) => first.when_slow = first.when_slow.max(self.possible(rule)),
                None => recipients.push(new(*id)),
            }
        }
        if recipients.len() > known {
            // Two runs, each in order.
            recipients.sort_by_key(|it| it.id);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::io::IoSlice;

    use groupcast_core::{
        ConfigId, Event, Incarnation, MemberId, MessageId, NodeId, OrderPlace, Service,
    };

    use super::*;
    use crate::frame::Label;
    use crate::groups::exchange::Phase;
    use crate::groups::roster::Roster;
    use crate::groups::wire::{GroupRef, Op, encode_data_head};
    use crate::groups::{EngineConfig, Transport};

    pub(in crate::groups) const LOCAL: MemberId = MemberId {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };
    const ON: OrderIndex = OrderIndex::OWN;

    /// An engine with `count` clients, which are all in `groups` groups and get credit for all that
    /// comes.
    pub(in crate::groups) fn crowd(count: u64, groups: usize) -> Engine {
        crowd_of(count, groups, Vec::new())
    }

    /// The same with further rings, in which they are in groups of the same names.
    pub(in crate::groups) fn crowd_of(count: u64, groups: usize, rings: Vec<String>) -> Engine {
        let config = EngineConfig {
            rings,
            clients_max: 65_536,
            output_max: 1 << 40,
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, LOCAL, "h").unwrap();
        let mut roster = Roster::new("h");
        for number in 1..=count {
            let (id, client) = engine.clients.connect(Transport::Unix);
            assert_eq!(id.0, number);
            client.link.as_mut().unwrap().output.set_window(1 << 30);
            let name = &format!("c{number}");
            let bind = Op::BindClient {
                client: number,
                name,
            };
            roster.apply(&bind).unwrap();
            for group in 0..groups {
                let name = format!("g{group}");
                let group = GroupRef::Named(&name);
                let client = number;
                roster.apply(&Op::Join { client, group }).unwrap();
            }
        }
        for order in engine.orders.iter_mut() {
            order.phase = Phase::Steady;
            let rosters = BTreeMap::from([(LOCAL, roster.clone())]);
            order.table.install(rosters);
        }
        engine
    }

    pub(in crate::groups) fn deliver(seq: u64, payload: Vec<u8>) -> Event {
        Event::Deliver(Delivery {
            id: MessageId {
                sender: LOCAL,
                number: seq,
            },
            service: Service::Agreed,
            place: Some(OrderPlace {
                config: ConfigId {
                    counter: 1,
                    representative: LOCAL,
                },
                seq,
            }),
            payload: payload.into(),
        })
    }

    /// A message of client 1 to this many groups, in which `text` stands. It has no route that is
    /// known.
    pub(in crate::groups) fn message(seq: u64, groups: usize, text: &str) -> Event {
        let first = seq as usize;
        let names = (first..first + groups).map(|it| format!("g{}", it % groups));
        let names: Vec<String> = names.collect();
        let names = names.iter().map(|name| GroupRef::Named(name));
        let mut bytes = Vec::new();
        encode_data_head(&mut bytes, 1, None, None, names);
        bytes.extend(text.as_bytes());
        deliver(seq, bytes)
    }

    /// Hands over the events in turns of this much work. Returns the work of each.
    fn take_turns(engine: &mut Engine, events: Vec<Event>, work: usize) -> Vec<usize> {
        let (mut events, mut turns) = (events.into_iter().peekable(), Vec::new());
        loop {
            let before = engine.orders[ON].work.done;
            engine.begin_turn(Time::ZERO, work);
            while engine.has_time_for(Carrier::Order)
                && let Some(event) = events.next()
            {
                engine.handle_event(Time::ZERO, Carrier::Order, event);
            }
            turns.push(engine.orders[ON].work.done - before);
            if events.peek().is_none() && engine.orders[ON].spread.is_none() {
                return turns;
            }
        }
    }

    /// The messages with one of `texts` that a client has got, in their order.
    pub(in crate::groups) fn got<'a>(
        engine: &mut Engine,
        client: u64,
        texts: &[&'a str],
    ) -> Vec<&'a str> {
        let mut bytes = Vec::new();
        loop {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = engine.slices(ClientId(client), &mut slices);
            let slices = slices[..count].iter();
            let more: Vec<u8> = slices.flat_map(|slice| slice.to_vec()).collect();
            if more.is_empty() {
                break;
            }
            engine.consumed(Time::ZERO, ClientId(client), more.len());
            bytes.extend(more);
        }
        let at = |text: &str| {
            let mut windows = bytes.windows(text.len());
            windows.position(|it| it == text.as_bytes())
        };
        let mut found: Vec<_> = texts
            .iter()
            .filter_map(|text| Some((at(text)?, *text)))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn messages_to_a_hundred_groups_of_all_clients_keep_no_turn_long() {
        const COUNT: u64 = 1_000;
        let mut engine = crowd(COUNT, 100);
        let mut leave = Vec::new();
        let group = GroupRef::Named("g0");
        Op::Leave { client: 8, group }.encode(&mut leave);
        let events = vec![
            message(1, 100, "first"),
            message(2, 100, "second"),
            deliver(3, leave),
            message(4, 1, "third"),
        ];
        let turns = take_turns(&mut engine, events, WORK_PER_TURN);
        // A turn ends with the group, the client or the view with which its work is done.
        let most = WORK_PER_TURN + (VIEW_HAND_OVER + 1) * COUNT as usize;
        assert!(turns.iter().all(|work| *work <= most), "{turns:?}");
        assert!(turns.len() >= 3, "{turns:?}");
        let texts = ["first", "second", "third"];
        for client in 1..=COUNT {
            let has_left = client == 8;
            let expected = if has_left { &texts[..2] } else { &texts };
            assert_eq!(got(&mut engine, client, &texts), expected, "{client}");
        }
    }

    #[test]
    fn a_message_to_one_group_of_very_many_clients_keeps_no_turn_long() {
        const COUNT: u64 = 40_000;
        let mut engine = crowd(COUNT, 1);
        let events = vec![message(1, 1, "first"), message(2, 1, "second")];
        let turns = take_turns(&mut engine, events, WORK_PER_TURN);
        let most = WORK_PER_TURN + 2 * COUNT as usize;
        assert!(turns.iter().all(|work| *work <= most), "{turns:?}");
        assert!(turns.len() >= 5, "{turns:?}");
        assert_eq!(engine.counters().delivered, 2 * COUNT);
        for client in [1, COUNT / 2, COUNT] {
            let texts = ["first", "second"];
            assert_eq!(got(&mut engine, client, &texts), texts);
        }
    }

    /// To look at the members of the group takes less than a hundredth of it.
    #[test]
    fn a_tag_that_is_tried_on_very_many_patterns_keeps_no_turn_long() {
        const COUNT: u64 = 100;
        const PATTERNS: usize = 50;
        let mut engine = crowd(COUNT, 1);
        let filters = &mut engine.orders[ON].filters;
        for client in 1..=COUNT {
            for number in 0..PATTERNS {
                filters.accept(client, &"g0".into(), &format!("x*Z{number}"));
            }
        }
        filters.accept(7, &"g0".into(), "x+[0-9]");
        let tagged = |seq: u64| {
            let tag = format!("{}{seq}", "x".repeat(254));
            let label = Label {
                tag: &tag,
                ..Label::NONE
            };
            let mut bytes = Vec::new();
            let groups = std::iter::once(GroupRef::Named("g0"));
            encode_data_head(&mut bytes, 1, None, Some(label), groups);
            bytes.extend(format!("text{seq}").as_bytes());
            deliver(seq, bytes)
        };
        let work = 10_000;
        let turns = take_turns(&mut engine, (1..=5).map(tagged).collect(), work);
        let one_client = (PATTERNS + 1) * 20;
        let most = work + one_client + 2 * COUNT as usize + HAND_OVER;
        assert!(turns.iter().all(|work| *work <= most), "{turns:?}");
        assert!(turns.len() > 30, "{} turns", turns.len());
        let texts = ["text1", "text2", "text3", "text4", "text5"];
        assert_eq!(got(&mut engine, 7, &texts), texts);
        assert!(got(&mut engine, 8, &texts).is_empty());
    }

    #[test]
    fn without_a_history_clients_get_the_same_and_no_lines_are_made() {
        let [with, without] = [true, false].map(|is_observed| {
            let mut engine = crowd(20, 3);
            engine.set_observed(is_observed);
            let mut leave = Vec::new();
            let group = GroupRef::Named("g0");
            Op::Leave { client: 8, group }.encode(&mut leave);
            engine.handle_event(Time::ZERO, Carrier::Order, deliver(1, leave));
            let lines = std::iter::from_fn(|| engine.poll_observation()).count();
            (engine.counters().views, lines)
        });
        assert_eq!((with, without), ((20, 1), (20, 0)));
    }

    /// For each of them it would take 7 KB.
    #[test]
    fn a_view_of_a_thousand_members_is_in_memory_once_for_all_of_them() {
        const COUNT: u64 = 1_000;
        let mut engine = crowd(COUNT, 1);
        let mut leave = Vec::new();
        let group = GroupRef::Named("g0");
        Op::Leave { client: 8, group }.encode(&mut leave);
        engine.handle_event(Time::ZERO, Carrier::Order, deliver(1, leave));
        assert_eq!(engine.counters().views, COUNT);
        let memory = engine.clients.output();
        assert!(memory < 100 * COUNT as usize, "{memory}");
        for client in [1, COUNT] {
            assert_eq!(got(&mut engine, client, &["c1@h", "c1000@h"]).len(), 2);
        }
    }

    #[test]
    fn a_host_that_does_not_ask_for_time_gets_everything_in_its_order() {
        let mut engine = crowd(50, 10);
        engine.begin_turn(Time::ZERO, 1);
        let texts = ["first", "second", "third"];
        for (seq, text) in (1..).zip(texts) {
            engine.handle_event(Time::ZERO, Carrier::Order, message(seq, 10, text));
            assert!(!engine.has_time_for(Carrier::Order));
        }
        while !engine.has_time_for(Carrier::Order) {
            engine.begin_turn(Time::ZERO, 1);
        }
        for client in [1, 25, 50] {
            assert_eq!(got(&mut engine, client, &texts), texts);
        }
        // The same without a limit.
        let mut unlimited = crowd(50, 10);
        unlimited.handle_event(Time::ZERO, Carrier::Order, message(1, 10, "first"));
        assert!(unlimited.has_time_for(Carrier::Order));
        assert_eq!(unlimited.counters().delivered, 50);
    }

    /// A client of another name, or with other rights, gets the next message.
    #[test]
    fn a_route_that_was_found_while_something_changed_is_no_route_of_later_messages() {
        for changes in [false, true] {
            let mut engine = crowd(50, 10);
            engine.begin_turn(Time::ZERO, 1);
            engine.handle_event(Time::ZERO, Carrier::Order, message(1, 10, "first"));
            assert!(engine.orders[ON].spread.is_some());
            if changes {
                engine.routes_changed();
            }
            while !engine.has_time_for(Carrier::Order) {
                engine.begin_turn(Time::ZERO, 1);
            }
            let Event::Deliver(next) = message(11, 10, "second") else {
                panic!("it is a delivery");
            };
            let known = engine.orders[ON].routing.take(&next);
            assert_eq!(known.is_none(), changes);
        }
    }

    /// Messages that wait behind others must wait where their clients have no credit for more.
    #[test]
    fn a_daemon_that_is_behind_with_an_order_hands_no_message_to_it() {
        let mut engine = crowd(50, 10);
        engine.begin_turn(Time::ZERO, 1);
        engine.handle_event(Time::ZERO, Carrier::Order, message(1, 10, "first"));
        let submissions = &mut engine.orders[ON].submissions;
        submissions.stage_own(b"own".to_vec());
        let submitted = |engine: &mut Engine| {
            let mut count = 0;
            engine.pump(Time::ZERO, |_, _, _| {
                count += 1;
                Ok(MessageId {
                    sender: LOCAL,
                    number: 1,
                })
            });
            count
        };
        let mut turns = 0;
        while !engine.has_time_for(Carrier::Order) {
            assert_eq!(submitted(&mut engine), 0);
            assert_eq!(engine.poll_timeout(), Some(Time::ZERO), "it has to go on");
            engine.begin_turn(Time::ZERO, 1);
            turns += 1;
        }
        assert!(turns > 50, "{turns}");
        assert_eq!(engine.poll_timeout(), None);
        assert_eq!(submitted(&mut engine), 1);
    }

    /// An engine with a ring whose clients, and those of the own order, have got a part of a
    /// message.
    fn halfway_in_two_orders() -> (Engine, OrderIndex) {
        let mut engine = crowd_of(20, 10, vec!["r".into()]);
        let ring = OrderIndex::of_ring(0);
        engine.begin_turn(Time::ZERO, 1);
        for carrier in [Carrier::Order, Carrier::Ring(0)] {
            engine.handle_event(Time::ZERO, carrier, message(1, 10, "first"));
        }
        for on in [ON, ring] {
            assert!(engine.orders[on].spread.is_some());
        }
        (engine, ring)
    }

    #[test]
    fn an_engine_that_stops_has_given_what_it_began_in_every_order() {
        let (mut engine, _) = halfway_in_two_orders();
        engine.handle_event(Time::ZERO, Carrier::Order, Event::Left);
        assert_eq!(engine.counters().delivered, 2 * 20);
    }

    #[test]
    fn a_ring_that_begins_anew_has_given_what_it_began() {
        let (mut engine, _) = halfway_in_two_orders();
        engine.begin_ring(Time::ZERO, 0, LOCAL);
        assert_eq!(engine.counters().delivered, 20);
        assert!(engine.orders[ON].spread.is_some());
    }

    /// Clients that get a message without being in its groups do not show that otherwise.
    #[test]
    fn a_ring_is_in_use_while_a_message_is_being_given() {
        let (mut engine, ring) = halfway_in_two_orders();
        engine.orders[ring].table.install(BTreeMap::new());
        assert!(engine.uses_ring(0));
        while engine.orders[ring].spread.is_some() {
            engine.begin_turn(Time::ZERO, 1);
        }
        assert!(!engine.uses_ring(0));
    }

    /// A client gets a message once, by the first destination that it is in.
    #[test]
    fn recipients_of_several_groups_are_found_as_if_each_were_looked_for() {
        let mut engine = crowd(20, 0);
        let mut roster = Roster::new("h");
        let is_in = |client: u64, group: u64| !(client * 7 + group * 5).is_multiple_of(3);
        for client in 1..=20 {
            let name = &format!("c{client}");
            roster.apply(&Op::BindClient { client, name }).unwrap();
            for group in (0..6).filter(|group| is_in(client, *group)) {
                let name = format!("g{group}");
                let group = GroupRef::Named(&name);
                roster.apply(&Op::Join { client, group }).unwrap();
            }
        }
        let order = &mut engine.orders[ON];
        order.table.install(BTreeMap::from([(LOCAL, roster)]));
        for first in 0..6 {
            let groups = [first, (first + 4) % 6, first, (first + 1) % 6];
            let routing = &mut engine.orders[ON].routing;
            routing.destinations = groups.map(|it| format!("g{it}").into()).to_vec();
            assert_eq!(engine.find_recipients(ON, "", 0), None);
            let recipients = engine.orders[ON].routing.recipients.iter();
            let found: Vec<_> = recipients.map(|it| (it.id.0, it.index)).collect();
            let expected = (1..=20).filter_map(|client| {
                let index = groups.iter().position(|group| is_in(client, *group))?;
                Some((client, index))
            });
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
