//! Random schedules over several orders: clients join, leave, publish and vanish in groups of the
//! daemons' own order and of two rings; daemons come into rings because clients want something of
//! them, and leave when they do not; every order divides and merges by itself, at any moment, and
//! daemons crash. Then everything heals, and every order is judged by itself.
//!
//! `GROUPCAST_SCHEDULES=A..B` runs other seeds than the usual ones.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_check::Outcome;
use groupcast_core::{MemberId, OrderPlace, Rng, Service};
use groupcast_session::names::lowest_top;
use groupcast_session::{ClientId, EngineConfig, View};

use crate::world::World;
use crate::world::client::TestClient;

const RINGS: [&str; 2] = ["wb.cb", "cb"];
const GROUPS: [&str; 5] = ["room", "hall", "cb", "ed.cb", "page1.wb.cb"];
const STEPS: usize = 600;

struct Schedule {
    world: World,
    rng: Rng,
    actors: Vec<(MemberId, ClientId)>,
    names: usize,
    /// How often a daemon has left a ring.
    left: usize,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let config = EngineConfig {
            rings: RINGS.map(String::from).to_vec(),
            ..EngineConfig::default()
        };
        let world = World::with_config(rng.range(2..6) as usize, config);
        let mut schedule = Self {
            world,
            rng,
            actors: Vec::new(),
            names: 0,
            left: 0,
        };
        schedule.divide();
        schedule
    }

    fn members(&self) -> Vec<MemberId> {
        self.world.daemons.keys().copied().collect()
    }

    fn step(&mut self) {
        let members = self.members();
        let member = *self.rng.pick(&members).expect("daemons run");
        let ring = self.rng.below(RINGS.len() as u64) as usize;
        match self.rng.below(100) {
            0..12 => drop(self.world.order(member, &mut self.rng)),
            12..30 => drop(self.world.deliver(member)),
            30..42 => drop(self.world.order_in_ring(ring, member)),
            42..60 => drop(self.world.deliver_in_ring(ring, member)),
            60..78 => self.publish(),
            78..86 => self.change_membership(),
            86..88 => self.connect(member),
            88..90 => self.vanish(),
            90..92 => self.leave_unused(ring, member),
            92..94 => self.divide(),
            94..99 => self.divide_ring(ring),
            _ => self.crash(member),
        }
    }

    fn publish(&mut self) {
        let Some((member, id)) = self.rng.pick(&self.actors).copied() else {
            return;
        };
        let group = *self.rng.pick(&GROUPS).expect("there are some");
        let services = [Service::Fifo, Service::Causal, Service::Agreed];
        let service = *self.rng.pick(&services).expect("there are some");
        self.world.act(member, id, |client| {
            if client.welcome.is_some() && client.may_publish() {
                let number = client.published + 1;
                let payload = format!("{}.{member:?}#{number:06}", client.name);
                client.publish(&[group], service, payload.as_bytes());
            }
        });
    }

    fn change_membership(&mut self) {
        let Some((member, id)) = self.rng.pick(&self.actors).copied() else {
            return;
        };
        let group = *self.rng.pick(&GROUPS).expect("there are some");
        let joins = self.rng.chance(0.4);
        self.world.act(member, id, |client| match joins {
            _ if client.welcome.is_none() => {}
            true => client.join(group),
            false => client.leave(group),
        });
    }

    fn connect(&mut self, member: MemberId) {
        if self.actors.len() < 10 {
            self.names += 1;
            let id = self.world.connect(member, &format!("c{}", self.names));
            self.actors.push((member, id));
        }
    }

    fn vanish(&mut self) {
        if !self.actors.is_empty() {
            let index = self.rng.below(self.actors.len() as u64) as usize;
            let (member, id) = self.actors.swap_remove(index);
            self.world.vanish(member, id);
        }
    }

    fn parts(&mut self, members: Vec<MemberId>) -> Vec<Vec<MemberId>> {
        let parts = self.rng.range(1..4);
        let mut divided = vec![Vec::new(); parts as usize];
        for member in members {
            divided[self.rng.below(parts) as usize].push(member);
        }
        divided.retain(|part| !part.is_empty());
        divided
    }

    fn divide(&mut self) {
        let parts = self.parts(self.members());
        self.world.divide(&parts, &mut self.rng);
    }

    /// The daemons that are in the ring, and those whose clients ask for it.
    fn wanting(&self, ring: usize) -> Vec<MemberId> {
        let mut members = self.members();
        members.retain(|member| {
            let engine = &self.world.daemons[member].engine;
            self.world.is_in_ring(ring, *member) || engine.asks_for_ring(ring)
        });
        members
    }

    fn divide_ring(&mut self, ring: usize) {
        let parts = self.parts(self.wanting(ring));
        self.world.divide_ring(ring, &parts, &mut self.rng);
    }

    fn crash(&mut self, member: MemberId) {
        self.world.crash(member);
        self.actors.retain(|(daemon, _)| *daemon != member);
        self.world.start(member.node.0 as usize);
        self.divide();
        for ring in 0..RINGS.len() {
            self.divide_ring(ring);
        }
    }

    /// The daemon takes all that has come for it in the ring, and leaves it if it is of no use.
    fn leave_unused(&mut self, ring: usize, member: MemberId) {
        while self.world.order_in_ring(ring, member) || self.world.deliver_in_ring(ring, member) {}
        self.left += usize::from(self.world.leave_unused(ring, member));
    }

    /// Every order is whole again, and everything under way arrives.
    fn heal(&mut self) {
        let all = self.members();
        self.world.divide(&[all], &mut self.rng);
        self.world.run(&mut self.rng);
        for ring in 0..RINGS.len() {
            let wanting = self.wanting(ring);
            if !wanting.is_empty() {
                self.world.divide_ring(ring, &[wanting], &mut self.rng);
                self.world.run(&mut self.rng);
            }
        }
    }

    fn clients(&self) -> impl Iterator<Item = &TestClient> {
        let living = self.world.daemons.values();
        let living = living.flat_map(|daemon| daemon.clients.values());
        living.chain(self.world.past.iter().map(|(_, client)| client))
    }
}

/// Views with equal names are equal; a place of an order holds one message; messages of one client
/// to one order come in its order, each once.
fn check_seen(schedule: &Schedule) {
    let mut views: BTreeMap<(String, String), &View> = BTreeMap::new();
    let mut places: BTreeMap<OrderPlace, (&[u8], &str)> = BTreeMap::new();
    for client in schedule.clients() {
        for view in client.views() {
            let key = (view.group.to_string(), view.id.to_string());
            assert_eq!(*views.entry(key).or_insert(view), view);
        }
        let mut last: BTreeMap<(Option<usize>, String), String> = BTreeMap::new();
        for message in client.messages() {
            let place = message.place.expect("all have one");
            let what = (&message.payload[..], message.sender.as_str());
            assert_eq!(*places.entry(place).or_insert(what), what);
            let text = String::from_utf8_lossy(&message.payload).into_owned();
            let (from, number) = text.split_once('#').expect("payloads have numbers");
            let on = lowest_top(&RINGS, message.group());
            let before = last.insert((on, from.into()), number.into());
            assert!(before.is_none_or(|before| *before < *number), "{text}");
        }
    }
}

/// Everything is accepted, and all members of a group end with one view of it, which names them.
fn check_end(schedule: &Schedule) {
    for (member, id) in &schedule.actors {
        let client = &schedule.world.daemons[member].clients[id];
        assert_eq!(client.accepted, client.published, "{}", client.name);
        assert_eq!(client.outstanding, 0, "{}", client.name);
    }
    for group in GROUPS {
        let mut members = BTreeSet::new();
        let mut last: Option<Vec<_>> = None;
        for daemon in schedule.world.daemons.values() {
            let status = daemon.engine.status();
            assert_eq!((status.held, status.input), (0, 0));
            let groups = daemon.engine.groups();
            let seen = groups.iter().find(|it| *it.name == *group);
            for client in daemon.clients.values().filter(|client| client.open) {
                let mut views = client.views().rev();
                let view = views.find(|view| &*view.group == group);
                let own = format!("{}@{}", client.name, daemon.host);
                let is_in = seen.is_some_and(|it| it.members.iter().any(|name| **name == *own));
                if let Some(view) = view.filter(|_| is_in) {
                    members.insert(own);
                    assert_eq!(last.get_or_insert(view.members.clone()), &view.members);
                }
            }
        }
        let named: Vec<_> = last.unwrap_or_default();
        let named: BTreeSet<String> = named.iter().map(ToString::to_string).collect();
        assert_eq!(named, members, "{group}");
    }
}

fn run(seed: u64) -> usize {
    let mut schedule = Schedule::new(seed);
    for _ in 0..STEPS {
        schedule.step();
    }
    schedule.heal();
    check_seen(&schedule);
    check_end(&schedule);
    let mut own = schedule.world.checker.finish(&Outcome::default());
    own.retain(|violation| !["safe", "resilience"].contains(&violation.rule));
    assert!(own.is_empty(), "{own:#?}");
    for (ring, top) in RINGS.iter().enumerate() {
        assert_eq!(schedule.world.judge_ring(ring), [""; 0], "{top}");
    }
    schedule.left
}

#[test]
fn random_schedules_over_several_orders_keep_every_promise() {
    let seeds = std::env::var("GROUPCAST_SCHEDULES").ok().and_then(|range| {
        let (from, to) = range.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    let mut left = 0;
    for seed in seeds.unwrap_or(0..200) {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(count) => left += count,
            Err(_) => panic!(
                "seed {seed} failed: GROUPCAST_SCHEDULES={seed}..{}",
                seed + 1
            ),
        }
    }
    assert!(left > 0, "no daemon ever left a ring");
}
