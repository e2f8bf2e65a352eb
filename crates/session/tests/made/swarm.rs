//! Random schedules of clients that ask for rings, join names with and without, leave, vanish and
//! publish, at daemons that crash, restart, part and meet. Whenever the daemons of a part have come
//! to rest they are judged, and planted bugs must be seen.
//!
//! The rules, after 000 ch. 8:
//!
//! 1. The daemons of a part know the same rings, each name once: there are never two of one name.
//! 2. A name has one outcome: whoever is in a group is in it on the one order that carries its
//!    name, and gets what is published to it.
//! 3. All changes come in one order: the histories of every ring are clean, and a ring is not made
//!    above a group that has members elsewhere by then.
//! 4. A ring has a daemon that uses it: none is left behind, and its address is its own.
//!
//! `GROUPCAST_SCHEDULES=A..B` runs other seeds than the usual ones.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::{MemberId, Rng, Service};
use groupcast_session::ClientId;
use groupcast_session::names::Planted;

use super::config;
use crate::world::World;

const NAMES: [&str; 7] = ["cb", "wb.cb", "p1.wb.cb", "ed.cb", "x", "y.x", "z.y.x"];
const STEPS: usize = 120;
/// Schedules of a plain run, and at most until a bug is seen.
const SEEDS: u64 = 150;
const SEEDS_OF_A_BUG: u64 = 400;

struct Schedule {
    world: World,
    rng: Rng,
    hosts: usize,
    clients: Vec<(MemberId, ClientId)>,
    names: usize,
    published: usize,
    /// The daemons have parted, or one has crashed.
    has_parted: bool,
}

impl Schedule {
    fn new(seed: u64, bug: Option<Planted>) -> Self {
        let mut rng = Rng::new(seed);
        let hosts = rng.range(2..5) as usize;
        let mut world = World::with_config(0, config());
        // In every other one a turn has time for two recipients.
        world.work = seed.is_multiple_of(2).then_some(20);
        if let Some(bug) = bug {
            world.plant(bug);
        }
        for host in 1..=hosts {
            world.start(host);
        }
        let mut schedule = Self {
            world,
            rng,
            hosts,
            clients: Vec::new(),
            names: 0,
            published: 0,
            has_parted: false,
        };
        schedule.meet();
        schedule.world.run_made(&mut schedule.rng);
        schedule
    }

    fn members(&self) -> Vec<MemberId> {
        self.world.daemons.keys().copied().collect()
    }

    fn meet(&mut self) {
        let all = self.members();
        self.divide(&[all]);
    }

    fn divide(&mut self, parts: &[Vec<MemberId>]) {
        self.world.divide(parts, &mut self.rng);
        self.world.reform_all(&mut self.rng);
    }

    fn part(&mut self) {
        self.has_parted = true;
        let mut parts = vec![Vec::new(); 2];
        for member in self.members() {
            parts[self.rng.below(2) as usize].push(member);
        }
        parts.retain(|part| !part.is_empty());
        self.divide(&parts);
    }

    fn step(&mut self, parts: bool) -> Result<(), String> {
        let members = self.members();
        let member = *self.rng.pick(&members).expect("there are some");
        match self.rng.below(100) {
            0..30 => {
                self.world.order(member, &mut self.rng);
            }
            30..60 => {
                self.world.deliver(member);
            }
            60..68 => {
                self.world.tend_made(&mut self.rng);
            }
            68..73 => self.world.run_made(&mut self.rng),
            73..88 => self.act(member),
            88..90 => self.ask_at_rest()?,
            90..92 => self.vanish(),
            92..95 if parts => self.part(),
            95..98 if parts => self.meet(),
            98 if parts => self.crash(member),
            _ => self.publish(),
        }
        Ok(())
    }

    /// A client asks for a ring when nothing else is under way: what is in use is known.
    fn ask_at_rest(&mut self) -> Result<(), String> {
        let Some((member, id)) = self.rng.pick(&self.clients).copied() else {
            return Ok(());
        };
        self.world.run_made(&mut self.rng);
        let name = *self.rng.pick(&NAMES).expect("there are some");
        let knows = |world: &World| {
            let rings = world.daemons[&member].engine.rings_made();
            rings.iter().any(|ring| ring.top.to_string() == name)
        };
        let was_there = knows(&self.world);
        let groups = self.world.daemons[&member].engine.groups();
        let below = format!(".{name}");
        let in_use = groups.into_iter().find(|group| {
            let is_below = *group.name == *name || group.name.ends_with(&below);
            is_below && !group.members.is_empty()
        });
        let mut asks = false;
        self.world.act(member, id, |client| {
            asks = client.welcome.is_some();
            if asks {
                client.join_on_ring(name);
            }
        });
        self.world.run_made(&mut self.rng);
        self.judge_parts()?;
        match in_use.filter(|_| asks && !was_there && knows(&self.world)) {
            Some(group) => Err(format!("a ring {name} is made above {}", group.name)),
            None => Ok(()),
        }
    }

    fn act(&mut self, member: MemberId) {
        if self.clients.len() < 2 * self.hosts {
            self.names += 1;
            let id = self.world.connect(member, &format!("c{}", self.names));
            self.clients.push((member, id));
        }
        let Some((member, id)) = self.rng.pick(&self.clients).copied() else {
            return;
        };
        let name = *self.rng.pick(&NAMES).expect("there are some");
        let what = self.rng.below(10);
        self.world.act(member, id, |client| match what {
            _ if client.welcome.is_none() => {}
            0..5 => client.join_on_ring(name),
            5..8 => client.join(name),
            _ => client.leave(name),
        });
    }

    fn publish(&mut self) {
        let Some((member, id)) = self.rng.pick(&self.clients).copied() else {
            return;
        };
        self.published += 1;
        let name = *self.rng.pick(&NAMES).expect("there are some");
        let payload = format!("message {}", self.published);
        self.world.act(member, id, |client| {
            if client.welcome.is_some() && client.may_publish() {
                client.publish(&[name], Service::Agreed, payload.as_bytes());
            }
        });
    }

    fn vanish(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let index = self.rng.below(self.clients.len() as u64) as usize;
        let (member, id) = self.clients.swap_remove(index);
        self.world.vanish(member, id);
    }

    fn crash(&mut self, member: MemberId) {
        self.has_parted = true;
        self.world.crash(member);
        self.clients.retain(|(daemon, _)| *daemon != member);
        self.world.start(member.node.0 as usize);
        self.meet();
    }

    /// Runs to its end: all meet and come to rest, then all clients go. What is violated.
    fn run(&mut self, seed: u64) -> Result<(), String> {
        // In others daemons stay together, and no address is given twice.
        let parts = !seed.is_multiple_of(3);
        for _ in 0..STEPS {
            self.step(parts)?;
        }
        self.meet();
        self.world.run_made(&mut self.rng);
        self.judge()?;
        for (member, id) in std::mem::take(&mut self.clients) {
            self.world.vanish(member, id);
        }
        self.world.run_made(&mut self.rng);
        for (member, daemon) in &self.world.daemons {
            let left = daemon.engine.rings_made();
            if !left.is_empty() || !daemon.engine.status().rings.is_empty() {
                let status = daemon.engine.status();
                let used: Vec<bool> = status
                    .rings
                    .iter()
                    .map(|it| daemon.engine.uses_ring(it.index))
                    .collect();
                return Err(format!(
                    "{member:?} has rings of nobody: {left:?}, used {used:?}, {:?}",
                    status.rings
                ));
            }
        }
        match self.world.judge_made().first() {
            None => Ok(()),
            Some(violation) => Err(violation.clone()),
        }
    }

    fn judge(&mut self) -> Result<(), String> {
        self.judge_parts()?;
        self.judge_groups()
    }

    /// The daemons of each part have come to rest.
    fn judge_parts(&self) -> Result<(), String> {
        let parts = self.world.parts();
        parts.iter().try_for_each(|part| self.judge_rings(part))
    }

    /// What the daemons of one part know of rings.
    fn judge_rings(&self, part: &[MemberId]) -> Result<(), String> {
        let all: Vec<_> = part
            .iter()
            .filter_map(|it| self.world.daemons.get(it))
            .collect();
        let first = all.first().map(|daemon| daemon.engine.rings_made());
        let first = first.unwrap_or_default();
        for daemon in &all {
            let rings = daemon.engine.rings_made();
            if rings != first {
                return Err(format!("the daemons know {first:?} and {rings:?}"));
            }
        }
        let mut addresses = BTreeSet::new();
        for ring in &first {
            // Parts may have given one address to two rings: they meet with it.
            if !addresses.insert(ring.multicast) && !self.has_parted {
                return Err(format!("two rings have the address of {}", ring.top));
            }
            let top = ring.top.to_string();
            let uses = all.iter().any(|daemon| {
                let rings = daemon.engine.status().rings;
                let mut of_it = rings.iter().filter(|it| *it.top == *top);
                of_it.any(|it| daemon.engine.uses_ring(it.index))
            });
            if !uses {
                return Err(format!("the ring {top} is left behind"));
            }
        }
        Ok(())
    }

    /// Everybody publishes to every name; who is in a group gets all that is sent to it, once.
    fn judge_groups(&mut self) -> Result<(), String> {
        let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
        let members = self.members();
        for member in members {
            let id = self.world.connect(member, "prober");
            self.clients.push((member, id));
            self.world.run_made(&mut self.rng);
            for name in NAMES {
                self.published += 1;
                let payload = format!("probe of {name} {}", self.published);
                self.world.act(member, id, |client| {
                    client.publish(&[name], Service::Agreed, payload.as_bytes());
                });
                *expected.entry(name).or_default() += 1;
            }
        }
        self.world.run_made(&mut self.rng);
        let mut views: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (member, id) in &self.clients {
            let client = &self.world.daemons[member].clients[id];
            if !client.open || client.welcome.is_none() {
                continue;
            }
            let own = client.welcome.as_ref().map(|it| it.private_name.clone());
            for name in NAMES {
                let last = client.views().rfind(|view| *view.group == *name);
                let is_in = |view: &&groupcast_session::View| {
                    let mut members = view.members.iter();
                    members.any(|it| Some(it.as_ref()) == own.as_deref())
                };
                let Some(last) = last.filter(is_in) else {
                    continue;
                };
                let members: Vec<String> = last.members.iter().map(ToString::to_string).collect();
                let first = views.entry(name).or_insert_with(|| members.clone());
                if *first != members {
                    return Err(format!("of {name} there are {first:?} and {members:?}"));
                }
                let begins = format!("probe of {name} ");
                let probes = client.messages();
                let got = probes.filter(|it| it.payload.starts_with(begins.as_bytes()));
                let got = got.count();
                if got != expected[name] {
                    return Err(format!("{own:?} got {got} of {} of {name}", expected[name]));
                }
            }
        }
        Ok(())
    }
}

fn seeds(usual: u64) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("GROUPCAST_SCHEDULES") else {
        return 0..usual;
    };
    let (from, to) = text.split_once("..").expect("A..B");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn whatever_happens_a_name_has_one_ring_and_none_is_left_behind() {
    for seed in seeds(SEEDS) {
        let mut schedule = Schedule::new(seed, None);
        if let Err(violation) = schedule.run(seed) {
            panic!("seed {seed}: {violation}");
        }
    }
}

#[test]
fn every_planted_bug_is_seen() {
    let mut missed = Vec::new();
    for bug in Planted::ALL {
        let mut seeds = 0..SEEDS_OF_A_BUG;
        let seen = seeds.any(|seed| Schedule::new(seed, Some(bug)).run(seed).is_err());
        if !seen {
            missed.push(bug);
        }
    }
    assert_eq!(missed, []);
}
