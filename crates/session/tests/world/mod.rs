//! A world of engines over a perfect ordered channel that can divide, merge, crash and restart its
//! members.
//!
//! The channel keeps Extended Virtual Synchrony by construction: what a component has ordered is
//! delivered to all its members in one order, members that move together deliver the same set, and
//! a configuration change cuts off what only others have.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "several tests include it, and each uses a part"
)]

pub mod bus;
pub mod client;
mod made;
mod rings;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;

use bytes::Bytes;
use groupcast_check::Checker;
use groupcast_core::trace::{Observation, digest};
use groupcast_core::{
    ConfigId, Configuration, ConfigurationKind, Delivery, Event, Gap, Incarnation, MemberId,
    MessageId, NodeId, OrderPlace, Rng, Service, SubmitError, Time,
};
use groupcast_session::groups::{Carrier, Fact, Question, Transport};
use groupcast_session::names::Planted;
use groupcast_session::{ClientId, Engine, EngineConfig};

use self::bus::BusClient;
use self::client::TestClient;
use self::rings::RingChannel;

/// How many messages wait in a member's send queue before it is full.
const QUEUE_MAX: usize = 8;

/// What `engine` has for `client`, taken by a socket that always has room.
pub fn take_output(engine: &mut Engine, now: Time, client: ClientId) -> Vec<u8> {
    let mut taken = Vec::new();
    loop {
        let mut slices = [IoSlice::new(&[]); 16];
        let count = engine.slices(client, &mut slices);
        let bytes: Vec<u8> = slices[..count]
            .iter()
            .flat_map(|slice| slice.to_vec())
            .collect();
        if bytes.is_empty() {
            return taken;
        }
        engine.consumed(now, client, bytes.len());
        taken.extend(bytes);
    }
}

/// A daemon of the world.
pub struct Daemon {
    pub host: String,
    pub member: MemberId,
    pub engine: Engine,
    /// Submitted, not ordered yet.
    pub queue: VecDeque<(MessageId, Service, Bytes)>,
    submitted: u64,
    was_full: bool,
    /// Ordered (or installed), not delivered yet.
    pub inbox: VecDeque<Event>,
    pub clients: BTreeMap<ClientId, TestClient>,
    pub buses: BTreeMap<ClientId, BusClient>,
    /// Regular configurations that were delivered.
    pub configs: Vec<ConfigId>,
    pub facts: Vec<Fact>,
    /// Which of the world's rings is at each of its places for rings.
    pub places: BTreeMap<usize, usize>,
    ring_changes: u64,
}

/// Daemons that can hear each other.
struct Component {
    config: ConfigId,
    members: Vec<MemberId>,
}

pub struct World {
    pub daemons: BTreeMap<MemberId, Daemon>,
    pub now: Time,
    components: Vec<Component>,
    seq: u64,
    counter: u64,
    lives: u64,
    config: EngineConfig,
    /// The most messages that a daemon's ring takes before it orders one.
    pub queue_max: usize,
    /// The longest message that a daemon's ring takes.
    pub message_max: usize,
    /// `reliable` and `fifo` messages are delivered without a place; a `reliable` one overtakes
    /// what it likes.
    pub early: bool,
    /// How much is done in a turn of a daemon for messages to clients, if that is limited.
    pub work: Option<usize>,
    /// Histories of clients whose daemon is no more.
    pub past: Vec<(MemberId, TestClient)>,
    /// Judges the histories of the daemons.
    pub checker: Checker,
    /// The further rings: those of the configuration, then those that joins have made.
    rings: Vec<RingChannel>,
    /// The bug of names that is planted.
    planted: Option<Planted>,
}

impl World {
    pub fn new(hosts: usize) -> Self {
        Self::with_config(hosts, EngineConfig::default())
    }

    /// `hosts` daemons, none of which has a configuration yet.
    pub fn with_config(hosts: usize, config: EngineConfig) -> Self {
        let mut world = Self {
            daemons: BTreeMap::new(),
            now: Time::ZERO,
            components: Vec::new(),
            seq: 0,
            counter: 0,
            lives: 0,
            config,
            queue_max: QUEUE_MAX,
            message_max: usize::MAX,
            early: false,
            work: None,
            past: Vec::new(),
            checker: Checker::new(),
            rings: Vec::new(),
            planted: None,
        };
        for top in &world.config.rings {
            world.rings.push(RingChannel::new(top, None));
        }
        for host in 1..=hosts {
            world.start(host);
        }
        world
    }

    /// Starts daemon `host` in a new life, alone.
    pub fn start(&mut self, host: usize) -> MemberId {
        self.lives += 1;
        let member = MemberId {
            node: NodeId(host as u64),
            incarnation: Incarnation(self.lives),
        };
        let name = format!("h{host}");
        let daemon = Daemon {
            engine: Engine::new(self.config.clone(), member, &name).expect("the limits are right"),
            host: name,
            member,
            queue: VecDeque::new(),
            submitted: 0,
            was_full: false,
            inbox: VecDeque::new(),
            clients: BTreeMap::new(),
            buses: BTreeMap::new(),
            configs: Vec::new(),
            facts: Vec::new(),
            places: (0..self.config.rings.len()).map(|it| (it, it)).collect(),
            ring_changes: 0,
        };
        self.daemons.insert(member, daemon);
        self.checker.observe(member, &Observation::Start);
        for ring in 0..self.config.rings.len() {
            self.begin_ring(ring, member);
        }
        if let Some(bug) = self.planted {
            self.daemon(member).engine.plant_in_names(Some(bug));
        }
        member
    }

    /// Ends the life of a daemon without a word.
    pub fn crash(&mut self, member: MemberId) {
        let Some(daemon) = self.daemons.remove(&member) else {
            return;
        };
        self.checker.observe(member, &Observation::Crash);
        for ring in &mut self.rings {
            ring.crash(member);
        }
        let clients = daemon.clients.into_values();
        self.past.extend(clients.map(|client| (member, client)));
    }

    pub fn member(&self, host: usize) -> MemberId {
        let mut members = self.daemons.keys().rev();
        *members
            .find(|member| member.node.0 == host as u64)
            .expect("the host runs")
    }

    pub fn daemon(&mut self, member: MemberId) -> &mut Daemon {
        self.daemons.get_mut(&member).expect("the daemon runs")
    }

    /// Connects a client and says hello for it.
    pub fn connect(&mut self, member: MemberId, name: &str) -> ClientId {
        self.connect_with(member, TestClient::new(name))
    }

    /// Connects a client that has written its hello.
    pub fn connect_with(&mut self, member: MemberId, client: TestClient) -> ClientId {
        let now = self.now;
        let daemon = self.daemon(member);
        let id = daemon
            .engine
            .connected(now, Transport::Unix)
            .expect("there is room");
        daemon.clients.insert(id, client);
        self.flush(member, id);
        self.settle(member);
        id
    }

    pub fn client(&mut self, member: MemberId, id: ClientId) -> &mut TestClient {
        let daemon = self.daemon(member);
        daemon.clients.get_mut(&id).expect("the client is known")
    }

    /// Lets a client act, and hands what it wrote to its daemon.
    pub fn act(&mut self, member: MemberId, id: ClientId, act: impl FnOnce(&mut TestClient)) {
        act(self.client(member, id));
        self.flush(member, id);
        self.settle(member);
    }

    /// Closes the connection of a client without a word.
    pub fn vanish(&mut self, member: MemberId, id: ClientId) {
        let now = self.now;
        let daemon = self.daemon(member);
        daemon
            .clients
            .get_mut(&id)
            .expect("the client is known")
            .open = false;
        daemon.engine.closed(now, id);
        self.settle(member);
    }

    fn flush(&mut self, member: MemberId, id: ClientId) {
        let now = self.now;
        let daemon = self.daemon(member);
        let client = daemon.clients.get_mut(&id).expect("the client is known");
        let written = std::mem::take(&mut client.written);
        let mut rest = &written[..];
        while !rest.is_empty() && client.open {
            let Some(space) = daemon.engine.space(id) else {
                break;
            };
            let len = space.len().min(rest.len());
            space[..len].copy_from_slice(&rest[..len]);
            daemon.engine.received_all(now, id, len);
            rest = &rest[len..];
        }
    }

    /// Divides all daemons into `parts`: a new configuration in each, what is not ordered stays in
    /// the queues. Each moving set keeps a random part of what its members have not delivered of
    /// others.
    pub fn divide(&mut self, parts: &[Vec<MemberId>], rng: &mut Rng) {
        let old = std::mem::take(&mut self.components);
        for part in parts {
            let mut members = part.clone();
            members.sort();
            self.counter += 1;
            let config = ConfigId {
                counter: self.counter,
                representative: members[0],
            };
            for component in &old {
                let together: Vec<_> = members
                    .iter()
                    .copied()
                    .filter(|member| component.members.contains(member))
                    .collect();
                let moving = self.daemons.iter_mut();
                let moving = moving.filter(|(member, _)| together.contains(member));
                let mut inboxes: BTreeMap<_, _> = moving
                    .map(|(member, daemon)| (*member, &mut daemon.inbox))
                    .collect();
                close(&mut inboxes, component.config, rng);
            }
            for member in &members {
                let configuration = Configuration {
                    kind: ConfigurationKind::Regular,
                    id: config,
                    members: members.clone(),
                    left: Vec::new(),
                };
                let daemon = self.daemon(*member);
                daemon.inbox.push_back(Event::Configuration(configuration));
            }
            self.components.push(Component { config, members });
        }
    }

    /// The next place in the order is behind `seq`.
    pub fn go_on_from(&mut self, seq: u64) {
        self.seq = seq;
    }

    /// The daemons that can hear each other, in each part.
    pub fn parts(&self) -> Vec<Vec<MemberId>> {
        let components = self.components.iter();
        components
            .map(|component| component.members.clone())
            .collect()
    }

    /// Orders the next message of `member`'s queue, if there is one; whether there was.
    pub fn order(&mut self, member: MemberId, rng: &mut Rng) -> bool {
        let Some(component) = self
            .components
            .iter()
            .find(|component| component.members.contains(&member))
        else {
            return false;
        };
        let (config, members) = (component.config, component.members.clone());
        let now = self.now;
        let daemon = self.daemon(member);
        let Some((id, service, payload)) = daemon.queue.pop_front() else {
            return false;
        };
        if daemon.was_full {
            daemon.was_full = false;
            daemon
                .engine
                .handle_event(now, Carrier::Order, Event::Writable);
        }
        self.seq += 1 << 16;
        let is_early = self.early && matches!(service, Service::Reliable | Service::Fifo);
        let placed = service != Service::Unreliable && !is_early;
        let delivery = Delivery {
            id,
            service,
            place: placed.then_some(OrderPlace {
                config,
                seq: self.seq,
            }),
            payload,
        };
        for receiver in members {
            let daemon = self.daemons.get_mut(&receiver);
            let Some(daemon) = daemon else {
                continue;
            };
            let own = receiver == member && is_early;
            if placed || own || is_early && service == Service::Fifo {
                daemon.inbox.push_back(Event::Deliver(delivery.clone()));
            } else if is_early || rng.below(4) != 0 {
                // It overtakes whatever it likes, a configuration's beginning excepted.
                let last = daemon
                    .inbox
                    .iter()
                    .rposition(|event| matches!(event, Event::Configuration(_)));
                let first = last.map_or(0, |at| at + 1);
                let at = first + rng.below((daemon.inbox.len() - first) as u64 + 1) as usize;
                daemon.inbox.insert(at, Event::Deliver(delivery.clone()));
            }
        }
        self.settle(member);
        true
    }

    /// The ring refuses the next message of `member`'s queue: it reports it as lost instead of
    /// ordering it.
    pub fn refuse(&mut self, member: MemberId) {
        let daemon = self.daemon(member);
        let (id, ..) = daemon.queue.pop_front().expect("a message waits");
        let gap = Gap {
            sender: id.sender,
            first: id.number,
            last: id.number,
        };
        daemon.inbox.push_back(Event::Gap(gap));
    }

    /// Delivers the next event of `member`; whether there was one.
    pub fn deliver(&mut self, member: MemberId) -> bool {
        if !self.has_time(member, Carrier::Order) {
            return true;
        }
        let now = self.now;
        let daemon = self.daemons.get_mut(&member).expect("the daemon runs");
        let Some(event) = daemon.inbox.pop_front() else {
            return false;
        };
        if let Event::Configuration(config) = &event
            && config.kind == ConfigurationKind::Regular
        {
            daemon.configs.push(config.id);
        }
        if let Some(observation) = Observation::of(&event) {
            self.checker.observe(member, &observation);
        }
        daemon.engine.handle_event(now, Carrier::Order, event);
        self.settle(member);
        true
    }

    /// Begins a turn of a daemon, if they are limited; whether it has time for another event. What
    /// the last turn left undone has a turn of its own: messages may have waited for it.
    fn has_time(&mut self, member: MemberId, carrier: Carrier) -> bool {
        let (now, Some(work)) = (self.now, self.work) else {
            return true;
        };
        let engine = &mut self.daemon(member).engine;
        let had_time = engine.has_time_for(carrier);
        engine.begin_turn(now, work);
        let has_time = had_time && engine.has_time_for(carrier);
        self.settle(member);
        has_time
    }

    /// Orders and delivers until nothing happens any more.
    pub fn run(&mut self, rng: &mut Rng) {
        loop {
            let members: Vec<_> = self.daemons.keys().copied().collect();
            let mut busy = false;
            for member in members {
                busy |= self.order(member, rng);
                busy |= self.deliver(member);
                for ring in 0..self.rings.len() {
                    busy |= self.order_in_ring(ring, member);
                    busy |= self.deliver_in_ring(ring, member);
                }
            }
            if !busy {
                return;
            }
        }
    }

    /// Drains one engine: its submissions into the queue, its output into the clients.
    pub fn settle(&mut self, member: MemberId) {
        let now = self.now;
        let Some(daemon) = self.daemons.get_mut(&member) else {
            return;
        };
        let (queue_max, max) = (self.queue_max, self.message_max);
        let (checker, rings) = (&mut self.checker, &mut self.rings);
        let (queue, submitted, was_full) = (
            &mut daemon.queue,
            &mut daemon.submitted,
            &mut daemon.was_full,
        );
        let places = &daemon.places;
        daemon.engine.pump(now, |carrier, service, payload| {
            if let Carrier::Ring(place) = carrier {
                return rings[places[&place]].submit(member, service, payload);
            }
            assert_eq!(carrier, Carrier::Order, "no group is bimodal");
            let len = payload.len();
            if len > max {
                return Err(SubmitError::TooLarge { len, max });
            }
            if queue.len() >= queue_max {
                *was_full = true;
                return Err(SubmitError::Full { queued: 1 });
            }
            *submitted += 1;
            let id = MessageId {
                sender: member,
                number: *submitted,
            };
            let submission = Observation::Submit {
                id,
                service,
                digest: digest(&payload),
            };
            checker.observe(member, &submission);
            queue.push_back((id, service, payload));
            Ok(id)
        });
        while let Some((id, question)) = daemon.engine.poll_question() {
            let json = match &question {
                Question::Status => format!("{{\"clients\":{}}}", daemon.clients.len()),
                Question::Groups => format!("[{}]", daemon.engine.groups().len()),
                Question::Rekey(path) => format!("{{\"path\":{path:?}}}"),
            };
            daemon.engine.answer(now, id, question, json.into());
        }
        let mut credit = Vec::new();
        while let Some(id) = daemon.engine.poll_output() {
            if let Some(client) = daemon.buses.get_mut(&id) {
                let bytes = take_output(&mut daemon.engine, now, id);
                if client.take(&bytes) {
                    credit.push(id);
                }
                continue;
            }
            let client = daemon.clients.get_mut(&id).expect("it connected");
            if client.reads {
                let bytes = take_output(&mut daemon.engine, now, id);
                client.received.extend(bytes);
                client.read(daemon.configs.len());
            }
            if !client.written.is_empty() {
                credit.push(id);
            }
        }
        while let Some(id) = daemon.engine.poll_close() {
            match daemon.buses.get_mut(&id) {
                Some(client) => client.open = false,
                None => daemon.clients.get_mut(&id).expect("it connected").open = false,
            }
        }
        while let Some((carrier, observation)) = daemon.engine.poll_observation() {
            match carrier {
                Carrier::Ring(place) => {
                    self.rings[daemon.places[&place]].observe(member, &observation);
                }
                _ => self.checker.observe(member, &observation),
            }
        }
        while let Some(fact) = daemon.engine.poll_fact() {
            daemon.facts.push(fact);
        }
        for id in &credit {
            if !self.flush_bus(member, *id) {
                self.flush(member, *id);
            }
        }
        if self.follow_rings(member) || !credit.is_empty() {
            self.settle(member);
        }
    }
}

/// The transition of the daemons that move together out of `config`.
fn close(inboxes: &mut BTreeMap<MemberId, &mut VecDeque<Event>>, config: ConfigId, rng: &mut Rng) {
    let together: Vec<MemberId> = inboxes.keys().copied().collect();
    // Deliveries of this configuration that are still under way, by place: all members have the
    // same ones ordered.
    let mut pending: BTreeMap<u64, Delivery> = BTreeMap::new();
    let mut delivered = 0;
    for inbox in inboxes.values() {
        let mut first = None;
        for event in inbox.iter() {
            if let Event::Deliver(delivery) = event
                && let Some(place) = delivery.place
                && place.config == config
            {
                first.get_or_insert(place.seq);
                pending.insert(place.seq, delivery.clone());
            }
        }
        delivered = delivered.max(first.unwrap_or(u64::MAX));
    }
    // What a member has delivered, all that move with it deliver; of the rest, what was sent by
    // others may be lost.
    let places: Vec<u64> = pending.keys().copied().collect();
    let must = places.partition_point(|seq| *seq < delivered);
    let span = (places.len() - must) as u64;
    let regular = must + rng.below(span + 1) as usize;
    let kept = regular + rng.below((places.len() - regular) as u64 + 1) as usize;
    let is_kept =
        |index: usize, delivery: &Delivery| index < kept || together.contains(&delivery.id.sender);
    let kept: BTreeSet<u64> = places
        .iter()
        .enumerate()
        .filter(|(index, seq)| is_kept(*index, &pending[seq]))
        .map(|(_, seq)| *seq)
        .collect();
    let transition_at = places.get(regular).copied();
    let transition = Event::Configuration(Configuration {
        kind: ConfigurationKind::Transitional,
        id: config,
        members: together.clone(),
        left: Vec::new(),
    });
    for old in inboxes.values_mut() {
        let mut inbox = VecDeque::new();
        let mut said = false;
        for event in old.drain(..) {
            let seq = match &event {
                Event::Deliver(Delivery {
                    place: Some(place), ..
                }) if place.config == config => Some(place.seq),
                _ => None,
            };
            if seq.is_some() && seq == transition_at {
                inbox.push_back(transition.clone());
                said = true;
            }
            if seq.is_none_or(|seq| kept.contains(&seq)) {
                inbox.push_back(event);
            }
        }
        if !said {
            inbox.push_back(transition.clone());
        }
        **old = inbox;
    }
}
