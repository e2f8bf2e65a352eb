//! What a daemon holds while states are exchanged: messages, and what has come of the states.
//! [`exchange`](super::exchange) has the rules of the exchange.
//!
//! What is held has a limit, [`held_max`](super::EngineConfig::held_max): deliveries, interrupted
//! configurations, and what is kept of their states. That is the names in the last state of each
//! daemon, and those names of earlier ones that held messages use. Over the limit the connections
//! of this daemon's subscribers end, because they must not miss messages without notice. Then
//! nobody is left who could be shown the interrupted configurations. They become one, in which no
//! names and no payloads are kept, and of other daemons only requests, since all daemons have to
//! know which came: of each guest the first one, the last one and that with the highest number, of
//! as many guests as their table has. It is carried out without views. What comes in the exchange
//! under way is kept but for its data, however many requests there are: all daemons carry it out,
//! and have one table of guests after it, in which those that came first have their places. It is
//! bounded by what the send queues of the daemons held.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use groupcast_core::{ConfigId, Delivery, MemberId};

use super::roster::Roster;
use super::wire::{Envelope, GuestOp, State, StatePart, StateParts, StateReader};
use crate::guests::{GUESTS_MAX, GUESTS_PER_DAEMON_MAX, GuestId, Parts};

/// The memory of a held delivery beside its payload, about.
const HELD_OVERHEAD: usize = 128;
/// The memory of an interrupted configuration beside its deliveries and its members, about.
const SEGMENT_OVERHEAD: usize = 512;

/// The bytes that a held delivery counts for.
pub(super) fn held_bytes(delivery: &Delivery) -> usize {
    delivery.payload.len() + HELD_OVERHEAD
}

/// Exchanges that have not been completed, oldest first; the last is the one under way.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) segments: Vec<Segment>,
    /// What the states of interrupted exchanges said of names, by daemon: held messages may use
    /// them.
    pub(super) learned: BTreeMap<MemberId, Roster>,
    /// Bytes of held deliveries.
    deliveries: usize,
    /// Bytes of interrupted configurations and of `learned`.
    interrupted: usize,
    /// Too much was held: data is not held any more, since no client is left that could get it.
    pub(super) shed: bool,
}

/// The deliveries from one regular configuration to the next.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) config: ConfigId,
    pub(super) members: Vec<MemberId>,
    /// The daemons that go on together, once it is closed.
    pub(super) together: Option<Vec<MemberId>>,
    pub(super) states: BTreeMap<MemberId, Roster>,
    /// States of which only some parts have come.
    incomplete: BTreeMap<MemberId, StateParts>,
    /// The parts of these states that are about roles and guests.
    pub(super) parts: Parts,
    /// The parts of these states that are about rings made by joins.
    pub(super) names: Vec<(MemberId, Vec<u8>)>,
    pub(super) held: VecDeque<Delivery>,
}

impl Exchange {
    /// Takes a message of the order into the exchange under way; returns a state that has come
    /// whole with it, to be read and [taken](Self::take_state).
    pub(super) fn take(&mut self, delivery: Delivery) -> Option<StateReader> {
        let segment = self.segments.last_mut()?;
        let sender = delivery.id.sender;
        match Envelope::decode(&delivery.payload) {
            Ok(Some(Envelope::State(config))) => {
                let is_expected = segment.expects(sender, config);
                return is_expected.then(|| StateReader::new(config, delivery.payload));
            }
            Ok(Some(Envelope::StatePart(part))) => return segment.take_state_part(sender, &part),
            _ => {}
        }
        let mut delivery = delivery;
        if !self.shed || keeps_without_data(&mut delivery) {
            self.deliveries += held_bytes(&delivery);
            segment.held.push_back(delivery);
        }
        None
    }

    /// Takes the state of a daemon; returns whether it was the last one.
    pub(super) fn take_state(&mut self, sender: MemberId, state: State) -> bool {
        let segment = self.segments.last_mut();
        segment.is_some_and(|segment| segment.take_state(sender, state))
    }

    /// Bytes of all that is held.
    pub(super) fn bytes(&self) -> usize {
        self.deliveries + self.interrupted
    }

    /// The exchange under way was interrupted; `next` are the daemons of the next configuration,
    /// and `local` is this one. Of its states only names are kept, of daemons that are in `next` or
    /// have messages held here. Returns the states, which are to be let go.
    pub(super) fn interrupt(&mut self, local: MemberId, next: &[MemberId]) -> Vec<Roster> {
        let Some(segment) = self.segments.last_mut() else {
            return Vec::new();
        };
        segment
            .together
            .get_or_insert_with(|| intersection(&segment.members, next));
        segment.incomplete.clear();
        segment.parts.clear();
        segment.names.clear();
        let states = std::mem::take(&mut segment.states);
        if self.shed {
            self.join_interrupted(local);
            return states.into_values().collect();
        }
        let used = self.used();
        for (daemon, roster) in &states {
            let learned = self.learned.entry(*daemon);
            let learned = learned.or_insert_with(|| Roster::new(&roster.host));
            learned.keep_clients(|client| used.contains(&(*daemon, client)));
            learned.learn(roster);
        }
        let held: BTreeSet<MemberId> = used.into_iter().map(|(daemon, _)| daemon).collect();
        self.learned
            .retain(|daemon, _| next.contains(daemon) || held.contains(daemon));
        let segments = self.segments.iter().map(Segment::overhead);
        let learned = self.learned.values().map(Roster::memory);
        self.interrupted = segments.chain(learned).sum();
        states.into_values().collect()
    }

    /// The daemons of which messages are held, with the numbers of the clients that these use.
    fn used(&self) -> BTreeSet<(MemberId, u64)> {
        let held = self.held().into_iter();
        let used = held.map(|delivery| {
            let client = match Envelope::decode(&delivery.payload) {
                Ok(Some(Envelope::Data(data))) => data.client,
                Ok(Some(Envelope::Op(op))) => op.number(),
                Ok(Some(Envelope::Guest { client, .. })) => client,
                // No client has the number 0.
                _ => 0,
            };
            (delivery.id.sender, client)
        });
        used.collect()
    }

    /// Drops all held data. `local` is this daemon.
    pub(super) fn shed(&mut self, local: MemberId) {
        self.shed = true;
        for segment in &mut self.segments {
            segment.held.retain_mut(keeps_without_data);
        }
        if let Some(under_way) = self.segments.pop() {
            self.join_interrupted(local);
            self.segments.push(under_way);
        }
        self.deliveries = self.held().into_iter().map(held_bytes).sum();
    }

    /// After too much was held: makes one of the interrupted configurations, which are all that
    /// there are. Keeps this daemon's own messages, and the requests of others.
    fn join_interrupted(&mut self, local: MemberId) {
        self.learned.clear();
        let mut segments = std::mem::take(&mut self.segments).into_iter();
        if let Some(mut joined) = segments.next() {
            for segment in segments {
                joined.config = segment.config;
                joined.members = segment.members;
                joined.together = match (joined.together, segment.together) {
                    (Some(some), Some(others)) => Some(intersection(&some, &others)),
                    (some, others) => some.or(others),
                };
                joined.held.extend(segment.held);
            }
            let is_kept = |it: &Delivery| it.id.sender == local || Asking::of(it).is_some();
            joined.held.retain(is_kept);
            forget_older_requests(&mut joined.held, local);
            self.segments.push(joined);
        }
        self.interrupted = self.segments.iter().map(Segment::overhead).sum();
        self.deliveries = self.held().into_iter().map(held_bytes).sum();
    }

    /// All held deliveries, in their order.
    pub(super) fn held(&self) -> Vec<&Delivery> {
        let held = self.segments.iter().flat_map(|segment| &segment.held);
        held.collect()
    }

    /// Held deliveries of one daemon.
    pub(super) fn held_of(&self, daemon: MemberId) -> impl Iterator<Item = &Delivery> {
        let held = self.segments.iter().flat_map(|segment| &segment.held);
        held.filter(move |delivery| delivery.id.sender == daemon)
    }
}

impl Segment {
    /// Nothing of this configuration has come yet.
    pub(super) fn new(config: ConfigId, members: Vec<MemberId>) -> Self {
        Self {
            config,
            members,
            together: None,
            states: BTreeMap::new(),
            incomplete: BTreeMap::new(),
            parts: Parts::new(),
            names: Vec::new(),
            held: VecDeque::new(),
        }
    }

    /// Whether the configuration has ended here, and not all of its daemons came along.
    pub(super) fn is_split(&self) -> bool {
        let together = self.together.as_ref();
        together.is_some_and(|together| together.len() < self.members.len())
    }

    /// The memory that it takes beside its deliveries, about.
    fn overhead(&self) -> usize {
        let together = self.together.as_ref().map_or(0, Vec::len);
        SEGMENT_OVERHEAD + (self.members.len() + together) * size_of::<MemberId>()
    }

    /// Whether a state of this daemon for the exchange of `config` is still to come.
    fn expects(&self, sender: MemberId, config: ConfigId) -> bool {
        let is_known = self.states.contains_key(&sender);
        config == self.config && self.members.contains(&sender) && !is_known
    }

    /// Takes the state of a daemon; returns whether that was the last one.
    fn take_state(&mut self, sender: MemberId, state: State) -> bool {
        if !self.expects(sender, state.config) {
            return false;
        }
        self.names.push((sender, state.names));
        self.states.insert(sender, state.roster);
        self.parts.insert(sender, state.part);
        self.states.len() == self.members.len()
    }

    /// Takes a part of a daemon's state; returns the state if it has come whole.
    fn take_state_part(&mut self, sender: MemberId, part: &StatePart<'_>) -> Option<StateReader> {
        if !self.expects(sender, part.config) {
            return None;
        }
        let whole = self.incomplete.entry(sender).or_default().take(part)?;
        self.incomplete.remove(&sender);
        match Envelope::decode(&whole) {
            Ok(Some(Envelope::State(config))) if config == self.config => {
                Some(StateReader::new(config, whole.into()))
            }
            _ => None,
        }
    }
}

/// Whether a held message is kept when held data is dropped. Of a request all but the payload is
/// kept, because all daemons have to know which requests came.
fn keeps_without_data(delivery: &mut Delivery) -> bool {
    let head = match Envelope::decode(&delivery.payload) {
        Ok(Some(Envelope::Guest {
            op: GuestOp::Request { .. },
            payload_at,
            ..
        })) => Some(payload_at),
        _ => None,
    };
    match head.and_then(|head| delivery.payload.get(..head)) {
        Some(head) => {
            delivery.payload = Bytes::copy_from_slice(head);
            true
        }
        None => !Envelope::is_data(&delivery.payload),
    }
}

/// A request to a group, as the table of guests sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Asking {
    guest: GuestId,
    /// For a handler.
    handled: bool,
    /// The guest had used such a number in an earlier connection.
    repeats: bool,
}

impl Asking {
    /// The request that a delivery is, if it is one, and its number.
    fn of(delivery: &Delivery) -> Option<(Self, u64)> {
        let Ok(Some(Envelope::Guest { op, .. })) = Envelope::decode(&delivery.payload) else {
            return None;
        };
        let GuestOp::Request {
            guest,
            number,
            floor,
            handler,
            ..
        } = op
        else {
            return None;
        };
        let asking = Self {
            guest,
            handled: handler.is_some(),
            repeats: number <= floor,
        };
        Some((asking, number))
    }
}

/// Lets go requests of other daemons than `local` that came in interrupted exchanges, which only
/// serve to tell what came. Of those of a guest that differ in their numbers the first one, the
/// last one and that with the highest number are kept, and only of as many guests as their table
/// has: those that asked last. So this daemon may tell of a number that it does not know whether
/// it came; another one that does is believed.
fn forget_older_requests(held: &mut VecDeque<Delivery>, local: MemberId) {
    /// The places of requests that differ in their numbers.
    struct Kept {
        first: usize,
        last: usize,
        highest: usize,
        max: u64,
    }
    let mut kept: BTreeMap<Asking, Kept> = BTreeMap::new();
    // By guest: the place of its last request, and its daemon.
    let mut guests: BTreeMap<GuestId, (usize, MemberId)> = BTreeMap::new();
    for (at, delivery) in held.iter().enumerate() {
        let asking = Asking::of(delivery).filter(|_| delivery.id.sender != local);
        let Some((asking, number)) = asking else {
            continue;
        };
        let known = kept.entry(asking).or_insert(Kept {
            first: at,
            last: at,
            highest: at,
            max: number,
        });
        known.last = at;
        if number > known.max {
            (known.highest, known.max) = (at, number);
        }
        guests.insert(asking.guest, (at, delivery.id.sender));
    }
    let mut by_daemon: BTreeMap<MemberId, usize> = BTreeMap::new();
    let mut latest: Vec<_> = guests.into_iter().map(|(guest, it)| (it, guest)).collect();
    latest.sort_unstable();
    let latest = latest.into_iter().rev().filter(|((_, daemon), _)| {
        let count = by_daemon.entry(*daemon).or_default();
        *count += 1;
        *count <= GUESTS_PER_DAEMON_MAX
    });
    let latest: BTreeSet<GuestId> = latest.take(GUESTS_MAX).map(|(_, it)| it).collect();
    kept.retain(|asking, _| latest.contains(&asking.guest));
    let places = kept.into_values();
    let places = places.flat_map(|it| [it.first, it.last, it.highest]);
    let places: BTreeSet<usize> = places.collect();
    let mut at = 0..;
    held.retain(|delivery| {
        let is_kept = at.next().is_some_and(|at| places.contains(&at));
        is_kept || delivery.id.sender == local || Asking::of(delivery).is_none()
    });
}

/// The members that are in both lists, in the order of the first.
pub(super) fn intersection(some: &[MemberId], others: &[MemberId]) -> Vec<MemberId> {
    let some = some.iter().copied();
    some.filter(|member| others.contains(member)).collect()
}

#[cfg(test)]
mod tests {
    use groupcast_core::{
        Configuration, ConfigurationKind, Event, Incarnation, MessageId, NodeId, OrderPlace,
        Service, Time,
    };

    use super::*;
    use crate::groups::exchange::Phase;
    use crate::groups::orders::OrderIndex;
    use crate::groups::wire::{GroupRef, Op};
    use crate::groups::{Carrier, Engine, EngineConfig, Fact};
    use crate::guests::Part;

    fn member(number: u64) -> MemberId {
        MemberId {
            node: NodeId(number),
            incarnation: Incarnation(number),
        }
    }

    /// A delivery of daemon `number` in the configuration `config`.
    fn delivery(number: u64, config: ConfigId, seq: u64, payload: Vec<u8>) -> Event {
        Event::Deliver(Delivery {
            id: MessageId {
                sender: member(number),
                number: seq,
            },
            service: Service::Agreed,
            place: Some(OrderPlace { config, seq }),
            payload: payload.into(),
        })
    }

    /// A member that never says its state interrupts every exchange, and another one is there each
    /// time, with much to say.
    #[test]
    fn of_states_in_interrupted_exchanges_little_is_kept() {
        let mut engine = Engine::new(EngineConfig::default(), member(1), "h").unwrap();
        let (now, silent) = (Time::ZERO, member(2));
        let mut roster = Roster::new("far");
        roster
            .apply(&Op::BindClient {
                client: 1,
                name: "al",
            })
            .unwrap();
        for group in 0..100 {
            let name = format!("g{group}");
            let group = GroupRef::Named(&name);
            roster.apply(&Op::Join { client: 1, group }).unwrap();
        }
        for life in 3..53 {
            let config = ConfigId {
                counter: life,
                representative: member(1),
            };
            let event = Event::Configuration(Configuration {
                kind: ConfigurationKind::Regular,
                id: config,
                members: vec![member(1), silent, member(life)],
                left: Vec::new(),
            });
            engine.handle_event(now, Carrier::Order, event);
            let state = State {
                config,
                part: Part::default(),
                roster: roster.clone(),
                names: vec![0; 1_000],
            }
            .encoded();
            let event = delivery(life, config, life << 20, state);
            engine.handle_event(now, Carrier::Order, event);
            if life == 10 {
                let mut op = Vec::new();
                Op::Disconnect { client: 1 }.encode(&mut op);
                let event = delivery(life, config, (life << 20) + 1, op);
                engine.handle_event(now, Carrier::Order, event);
            }
        }
        let Phase::Exchanging(exchange) = &engine.orders[OrderIndex::OWN].phase else {
            panic!("no exchange is complete");
        };
        let segments = &exchange.segments;
        assert_eq!(segments.len(), 50);
        let is_kept = |segment: &&Segment| !segment.states.is_empty() || !segment.names.is_empty();
        assert_eq!(segments.iter().filter(is_kept).count(), 1, "the last one");
        // Of the daemon of which a message is held.
        let learned: Vec<MemberId> = exchange.learned.keys().copied().collect();
        assert_eq!(learned, [member(10)]);
        let clients = &exchange.learned[&member(10)].clients;
        assert!(clients[&1].groups.is_empty());
        assert_eq!(&*clients[&1].private, "al@far");
    }

    /// The configuration `counter` of daemon 1, a silent one, and `other` is installed, and the
    /// state of `other` comes: one client, with the number `client`.
    fn interrupt(engine: &mut Engine, counter: u64, other: u64, client: u64) -> ConfigId {
        let now = Time::ZERO;
        let config = ConfigId {
            counter,
            representative: member(1),
        };
        let event = Event::Configuration(Configuration {
            kind: ConfigurationKind::Regular,
            id: config,
            members: vec![member(1), member(2), member(other)],
            left: Vec::new(),
        });
        engine.handle_event(now, Carrier::Order, event);
        let mut roster = Roster::new("far");
        let name = &format!("c{client}");
        roster.apply(&Op::BindClient { client, name }).unwrap();
        let state = State {
            config,
            part: Part::default(),
            roster,
            names: Vec::new(),
        }
        .encoded();
        let event = delivery(other, config, counter << 20, state);
        engine.handle_event(now, Carrier::Order, event);
        config
    }

    fn exchange(engine: &Engine) -> &Exchange {
        match &engine.orders[OrderIndex::OWN].phase {
            Phase::Exchanging(exchange) => exchange,
            _ => panic!("no exchange is complete"),
        }
    }

    /// Another client of daemon 3 is there each time, and a message of one of them is held.
    #[test]
    fn names_in_states_do_not_add_up_while_exchanges_are_interrupted() {
        let mut engine = Engine::new(EngineConfig::default(), member(1), "h").unwrap();
        for counter in 1..=100 {
            let config = interrupt(&mut engine, counter, 3, counter);
            if counter == 10 {
                let mut op = Vec::new();
                Op::Disconnect { client: 10 }.encode(&mut op);
                let event = delivery(3, config, (counter << 20) + 1, op);
                engine.handle_event(Time::ZERO, Carrier::Order, event);
            }
        }
        let learned = &exchange(&engine).learned[&member(3)];
        let numbers: Vec<u64> = learned.clients.keys().copied().collect();
        assert_eq!(
            numbers,
            [10, 99],
            "who is named in a held message, and the last"
        );
    }

    #[test]
    fn interrupted_exchanges_are_counted_and_over_the_limit_become_one() {
        let held_max = 16 << 10;
        let config = EngineConfig {
            held_max,
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, member(1), "h").unwrap();
        let mut bytes = Vec::new();
        for counter in 1..=200 {
            interrupt(&mut engine, counter, 2 + counter, 1);
            bytes.push(exchange(&engine).bytes());
        }
        assert!(bytes.windows(2).take(20).skip(1).all(|it| it[0] < it[1]));
        assert!(bytes.iter().all(|it| *it <= held_max), "{bytes:?}");
        assert_eq!(exchange(&engine).segments.len(), 2);
        assert!(exchange(&engine).learned.is_empty());
        let mut facts = std::iter::from_fn(|| engine.poll_fact());
        assert!(facts.any(|fact| matches!(fact, Fact::HeldTooMuch { .. })));
    }

    /// Delivers `count` requests of daemon 3 in the configuration `counter`: each of another of
    /// `guests` guests, and with a higher number.
    fn ask(engine: &mut Engine, config: ConfigId, count: u64, guests: u64) {
        for index in 0..count {
            let number = config.counter * count + index;
            let mut bytes = Vec::new();
            let op = GuestOp::Request {
                guest: GuestId(number % guests),
                number,
                floor: 0,
                handler: None,
                group: GroupRef::Named("g"),
            };
            op.encode(&mut bytes, 1);
            bytes.extend([7; 100]);
            let event = delivery(3, config, (config.counter << 20) + 1 + index, bytes);
            engine.handle_event(Time::ZERO, Carrier::Order, event);
        }
    }

    /// The highest number of each guest, as this daemon would say it.
    fn numbers(engine: &Engine) -> BTreeMap<GuestId, u64> {
        let held = exchange(engine).held();
        let part = engine.own_part(OrderIndex::OWN, &held, &Roster::new("h"));
        part.guests.iter().map(|it| (it.guest, it.last)).collect()
    }

    fn little_is_held() -> Engine {
        let config = EngineConfig {
            held_max: 16 << 10,
            ..EngineConfig::default()
        };
        Engine::new(config, member(1), "h").unwrap()
    }

    #[test]
    fn requests_in_interrupted_exchanges_do_not_add_up() {
        let mut engine = little_is_held();
        let mut shed = 0;
        for counter in 1..=200 {
            let config = interrupt(&mut engine, counter, 3, 1);
            ask(&mut engine, config, 20, 4);
            let bytes = exchange(&engine).bytes();
            assert!(bytes <= 16 << 10, "{bytes} bytes after {counter}");
            shed += usize::from(exchange(&engine).shed);
        }
        assert!(shed > 150, "{shed}");
        let last = 200 * 20 + 19;
        let expected = (last - 3..=last).map(|number| (GuestId(number % 4), number));
        assert_eq!(numbers(&engine), expected.collect());
    }

    #[test]
    fn of_requests_of_others_as_many_guests_are_kept_as_their_table_has() {
        let mut engine = little_is_held();
        for counter in 1..=200 {
            let config = interrupt(&mut engine, counter, 3, 1);
            ask(&mut engine, config, 20, u64::MAX);
        }
        interrupt(&mut engine, 201, 3, 1);
        assert_eq!(exchange(&engine).held().len(), GUESTS_PER_DAEMON_MAX);
        let last = 200 * 20 + 19;
        let kept = GUESTS_PER_DAEMON_MAX as u64;
        let expected = (last + 1 - kept..=last).map(|number| (GuestId(number), number));
        assert_eq!(numbers(&engine), expected.collect());
    }

    /// The table of guests follows from the order and is equal at all daemons. So one that has shed
    /// carries out each request of the exchange under way: those that came first have a place, and
    /// for those that come when all places are taken by clients that are there, there is none.
    #[test]
    fn who_has_a_place_in_the_table_of_guests_does_not_depend_on_what_a_daemon_may_hold() {
        const ASKING: u64 = GUESTS_PER_DAEMON_MAX as u64 + 50;
        let tables = [EngineConfig::default().held_max, 16 << 10].map(|held_max| {
            let config = EngineConfig {
                held_max,
                ..EngineConfig::default()
            };
            let mut engine = Engine::new(config, member(1), "h").unwrap();
            let config = ConfigId {
                counter: 1,
                representative: member(1),
            };
            let event = Event::Configuration(Configuration {
                kind: ConfigurationKind::Regular,
                id: config,
                members: vec![member(1), member(3)],
                left: Vec::new(),
            });
            engine.handle_event(Time::ZERO, Carrier::Order, event);
            let mut far = Roster::new("far");
            for client in 1..=ASKING {
                let name = &format!("c{client}");
                far.apply(&Op::BindClient { client, name }).unwrap();
            }
            let group = GroupRef::Named("g");
            far.apply(&Op::Join { client: 1, group }).unwrap();
            let state = |number: u64, roster: Roster, seq: u64| {
                let bytes = State {
                    config,
                    part: Part::default(),
                    roster,
                    names: Vec::new(),
                }
                .encoded();
                delivery(number, config, seq, bytes)
            };
            engine.handle_event(Time::ZERO, Carrier::Order, state(3, far, 1));
            for client in 1..=ASKING {
                let mut bytes = Vec::new();
                let op = GuestOp::Request {
                    guest: GuestId(client),
                    number: 1,
                    floor: 0,
                    handler: None,
                    group,
                };
                op.encode(&mut bytes, client);
                bytes.extend([7; 100]);
                let event = delivery(3, config, 1 + client, bytes);
                engine.handle_event(Time::ZERO, Carrier::Order, event);
            }
            assert_eq!(exchange(&engine).shed, held_max == 16 << 10);
            let own = state(1, Roster::new("h"), 2 + ASKING);
            engine.handle_event(Time::ZERO, Carrier::Order, own);
            let part = engine.own_part(OrderIndex::OWN, &[], &Roster::new("h"));
            part.guests
        });
        let places: Vec<u64> = tables[0].iter().map(|it| it.guest.0).collect();
        assert!(places.into_iter().eq(1..=GUESTS_PER_DAEMON_MAX as u64));
        assert_eq!(tables[0], tables[1]);
    }
}
