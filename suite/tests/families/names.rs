//! Rings that joins make, over the datagrams of RMP.
//!
//! The swarm: clients join names with and without asking for a ring, leave, vanish, publish, ask
//! and claim roles, at daemons that crash, restart, part and meet; then all meet, come to rest, and
//! are judged by the rules of 000 ch. 8: one table of rings, each name on one of them and nowhere
//! else, no ring of nobody; and all histories by the checker. `GROUPCAST_SCHEDULES=A..B` runs other
//! seeds than the usual ones.
//!
//! The measurement: how long a join takes to a name that is known and to one that is not, what a
//! ring costs in datagrams and who gets them, at 1,000 names over 20 rings. `docs/names.md` has the
//! table, which this test prints and holds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use groupcast_core::family::Factory;
use groupcast_core::{Rng, Service};
use groupcast_protocols::rmp::{Rmp, RmpConfig};
use groupcast_session::client::Ask;
use groupcast_session::guests::{Role, RoleState};
use groupcast_session::names::{Planted, Pool};
use groupcast_session::{ClientId, EngineConfig};
use groupcast_suite::names::{Client, LINGER, World, WorldConfig};

const NAMES: [&str; 7] = ["cb", "wb.cb", "p1.wb.cb", "ed.cb", "x", "y.x", "z.y.x"];
const STEPS: usize = 40;
/// Seeds of a plain run.
const SEEDS: u64 = 6;
/// After the last fault all must be at rest within this time.
const REST: Duration = Duration::from_secs(20);

fn rmp(config: RmpConfig) -> Factory {
    Arc::new(move |member, rng, now| {
        Box::new(Rmp::new(config.clone(), member, rng, now).expect("the preset is valid"))
    })
}

fn engine(prefix: u8) -> EngineConfig {
    EngineConfig {
        ring_pool: Pool::new(Ipv4Addr::new(239, 192, 80, 0), prefix, 4809),
        order: "rmp".to_owned(),
        ..EngineConfig::default()
    }
}

/// With room for a ring's label.
fn settings(of: RmpConfig) -> RmpConfig {
    RmpConfig {
        body_max: of.body_max - 8,
        ..of
    }
}

fn world(
    (hosts, rings): (usize, usize),
    of: RmpConfig,
    seed: u64,
    planted: Option<Planted>,
) -> World {
    let settings = settings(of);
    let mut world = World::new(WorldConfig {
        hosts,
        rings,
        seed,
        engine: engine(24),
        own: rmp(settings.clone()),
        ring: rmp(settings),
        planted,
    });
    for host in 0..hosts {
        world.start(host);
    }
    let together = |world: &World| {
        (0..hosts).all(|host| world.engine(host, |it| it.status().daemons.len()) == Some(hosts))
    };
    assert!(
        world.run_until(REST, together),
        "seed {seed}: they do not meet"
    );
    world
}

struct Schedule {
    world: World,
    rng: Rng,
    hosts: usize,
    clients: Vec<(usize, ClientId)>,
    count: usize,
}

impl Schedule {
    fn new(seed: u64, planted: Option<Planted>) -> Self {
        let mut rng = Rng::new(seed).fork("names");
        let hosts = rng.range(2..5) as usize;
        Self {
            world: world((hosts, 16), RmpConfig::lan(), seed, planted),
            rng,
            hosts,
            clients: Vec::new(),
            count: 0,
        }
    }

    fn next(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    fn step(&mut self) {
        let host = self.rng.below(self.hosts as u64) as usize;
        match self.rng.below(100) {
            0..84 => self.act(host),
            84..88 => {
                if let Some((host, id)) = self.rng.pick(&self.clients).copied() {
                    self.world.vanish(host, id);
                    self.clients.retain(|it| *it != (host, id));
                }
            }
            88..92 => {
                self.world.crash(host);
                self.clients.retain(|(of, _)| *of != host);
                self.run();
                self.world.start(host);
            }
            92..96 => {
                let mut parts = vec![Vec::new(); 2];
                for host in 0..self.hosts {
                    parts[self.rng.below(2) as usize].push(host);
                }
                self.world.divide(&parts);
            }
            _ => self.world.heal(),
        }
        self.run();
    }

    fn run(&mut self) {
        let millis = match self.rng.below(4) {
            0 => self.rng.range(100..900),
            _ => self.rng.range(1..50),
        };
        self.world.run_for(Duration::from_millis(millis));
    }

    fn act(&mut self, host: usize) {
        if self.clients.len() < 2 * self.hosts {
            let name = format!("c{}", self.next());
            if let Some(id) = self.world.connect(host, &name) {
                self.clients.push((host, id));
            }
        }
        let Some((host, id)) = self.rng.pick(&self.clients).copied() else {
            return;
        };
        let name = *self.rng.pick(&NAMES).expect("there are some");
        let (what, number) = (self.rng.below(100), self.next());
        let role = Role::Lock(0);
        self.world.act(host, id, |client| {
            if !client.is_open() {
                return;
            }
            let connection = client.connection();
            // What is refused at once is no act.
            match what {
                0..30 => drop(connection.join_on_ring(name, false)),
                30..52 => drop(connection.join(name, false)),
                52..64 => drop(connection.leave(name)),
                64..72 => drop(connection.claim(name, role, true)),
                72..76 => drop(connection.release(name, role)),
                76..86 => {
                    let text = format!("request {number}");
                    drop(connection.ask(name, Ask::default(), text.as_bytes()));
                }
                _ => {
                    let text = format!("message {number}");
                    drop(connection.publish(&[name], Service::Agreed, text.as_bytes()));
                }
            }
        });
    }

    /// Runs to its end. What is violated.
    fn play(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            self.step();
        }
        self.world.heal();
        let hosts = self.hosts;
        let quiet = |world: &World| {
            (0..hosts).all(|host| {
                let daemons = world.engine(host, |it| it.status().daemons.len());
                daemons == Some(hosts)
            })
        };
        if !self.world.run_until(REST, quiet) {
            return Err("the daemons do not meet".into());
        }
        self.world.run_for(REST);
        self.judge()?;
        for (host, id) in std::mem::take(&mut self.clients) {
            self.world.vanish(host, id);
        }
        self.world.run_for(10 * LINGER);
        for host in 0..hosts {
            let left = self
                .world
                .engine(host, groupcast_session::Engine::rings_made);
            if self.world.rings_of(host) > 0 || left.as_ref().is_none_or(|left| !left.is_empty()) {
                return Err(format!("h{host} has rings of nobody: {left:?}"));
            }
        }
        let violations = self.world.cluster.violations(false, None);
        match violations.first() {
            None => Ok(()),
            Some(violation) => Err(violation.to_string()),
        }
    }

    fn judge(&mut self) -> Result<(), String> {
        let rings = |world: &World, host: usize| {
            let rings = world.engine(host, groupcast_session::Engine::rings_made);
            rings.unwrap_or_default()
        };
        let all: Vec<_> = (0..self.hosts).map(|it| rings(&self.world, it)).collect();
        if let Some(other) = all.iter().find(|it| **it != all[0]) {
            return Err(format!("daemons know {:?} and {other:?}", all[0]));
        }
        for ring in &all[0] {
            let top = ring.top.to_string();
            let used = (0..self.hosts).any(|host| {
                let uses = self.world.engine(host, |engine| {
                    let rings = engine.status().rings;
                    let mut of_it = rings.iter().filter(|it| *it.top == *top);
                    of_it.any(|it| engine.uses_ring(it.index))
                });
                uses.unwrap_or(false)
            });
            if !used {
                return Err(format!("the ring {top} is left behind"));
            }
        }
        self.judge_clients()
    }

    /// Everybody publishes to every name: who is in a group gets it once, and all who are in it see
    /// one view.
    fn judge_clients(&mut self) -> Result<(), String> {
        let mut probes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for host in 0..self.hosts {
            let Some(id) = self.world.connect(host, "prober") else {
                continue;
            };
            self.world.run_for(Duration::from_millis(50));
            for name in NAMES {
                let text = format!("probe {} of {name}", self.next());
                let published = self.world.act(host, id, |client| {
                    let connection = client.connection();
                    connection.publish(&[name], Service::Agreed, text.as_bytes())
                });
                if !matches!(published, Some(Ok(_))) {
                    return Err(format!("nobody can publish at h{host}: {published:?}"));
                }
                probes.entry(name).or_default().push(text);
            }
            self.clients.push((host, id));
        }
        self.world.run_for(REST);
        let mut views: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut holders: BTreeSet<String> = BTreeSet::new();
        for (host, id) in self.clients.clone() {
            let judged = self.world.act(host, id, |client| {
                judge_client(client, &probes, &mut views, &mut holders)
            });
            judged.unwrap_or(Ok(()))?;
        }
        Ok(())
    }
}

fn judge_client<'a>(
    client: &Client,
    probes: &BTreeMap<&'a str, Vec<String>>,
    views: &mut BTreeMap<&'a str, Vec<String>>,
    holders: &mut BTreeSet<String>,
) -> Result<(), String> {
    let name = &client.name;
    let asked: BTreeSet<&String> = client.asked.iter().collect();
    if asked.len() < client.asked.len() {
        return Err(format!("{name} is asked twice: {:?}", client.asked));
    }
    for ((group, role), state) in &client.roles {
        if *state == RoleState::Held && !holders.insert(format!("{role} of {group}")) {
            return Err(format!("two hold {role} of {group}, one is {name}"));
        }
    }
    for (group, probes) in probes {
        let Some(view) = client.view(group) else {
            continue;
        };
        let members: Vec<String> = view.members.iter().map(ToString::to_string).collect();
        let first = views.entry(group).or_insert_with(|| members.clone());
        if *first != members {
            return Err(format!("of {group} there are {first:?} and {members:?}"));
        }
        for probe in probes {
            let got = client.messages.get(probe).copied().unwrap_or(0);
            if got != 1 {
                return Err(format!("{name} got {probe:?} {got} times"));
            }
        }
    }
    Ok(())
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("GROUPCAST_SCHEDULES") else {
        return 0..SEEDS;
    };
    let (from, to) = text.split_once("..").expect("A..B");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn over_real_packets_a_name_has_one_ring_and_none_is_left_behind() {
    let mut made = 0;
    for seed in seeds() {
        let mut schedule = Schedule::new(seed, None);
        if let Err(violation) = schedule.play() {
            panic!("seed {seed}: {violation}");
        }
        made += schedule.world.rings_begun();
    }
    assert!(made > 0, "no ring was ever joined");
}

#[test]
fn over_real_packets_a_planted_bug_is_seen() {
    let bug = Planted::RingStays;
    let seen = (0..20).any(|seed| Schedule::new(seed, Some(bug)).play().is_err());
    assert!(seen, "{bug:?}");
}

/// What a join took, and what it cost the daemons' own order and rings in datagrams.
#[derive(Default)]
struct Row {
    joins: u32,
    /// Until its daemon knew of the ring.
    agreed: Duration,
    took: Duration,
    longest: Duration,
    own: u64,
    rings: u64,
}

const HOSTS: usize = 8;
const RINGS: usize = 20;
const NAMES_A_RING: usize = 50;
/// It is in no ring.
const OUTSIDER: usize = HOSTS - 1;

impl Row {
    /// A client joins a name, and sees its first view.
    fn join(&mut self, world: &mut World, (host, id): (usize, ClientId), name: &str, asks: bool) {
        let traffic = |world: &World| {
            let all = (0..HOSTS).map(|host| world.traffic(host).map(|it| it.datagrams));
            all.fold([0; 2], |[own, rings], it| [own + it[0], rings + it[1]])
        };
        let (begun, before) = (world.cluster.now(), traffic(world));
        world.act(host, id, |client| {
            let connection = client.connection();
            let asked = match asks {
                true => connection.join_on_ring(name, false),
                false => connection.join(name, false),
            };
            asked.expect("the name is good");
        });
        let knows = |world: &World| {
            let ring = world.engine(host, |engine| engine.ring_of(name).is_some());
            ring.unwrap_or(false)
        };
        assert!(
            world.run_until(REST, knows),
            "nobody makes a ring for {name}"
        );
        self.agreed += world.cluster.now() - begun;
        let is_in = |world: &World| world.sees(host, id, |client| client.view(name).is_some());
        assert!(world.run_until(REST, is_in), "{name} at h{host}");
        let after = traffic(world);
        let took = world.cluster.now() - begun;
        self.joins += 1;
        self.took += took;
        self.longest = self.longest.max(took);
        self.own += after[0] - before[0];
        self.rings += after[1] - before[1];
    }

    fn print(&self, what: &str) {
        let joins = f64::from(self.joins);
        println!(
            "{what}: {} joins, {:.1} ms in the mean ({:.1} until the ring is known), {:.1} ms at most; \
             meanwhile {:.1} datagrams of the own order came to all hosts, and {:.1} of rings",
            self.joins,
            self.took.as_secs_f64() * 1e3 / joins,
            self.agreed.as_secs_f64() * 1e3 / joins,
            self.longest.as_secs_f64() * 1e3,
            self.own as f64 / joins,
            self.rings as f64 / joins,
        );
    }
}

/// Eight hosts on a LAN, of which one is in all of 20 rings, one in none, and the others in a third
/// each; 50 names on every ring.
#[test]
fn a_thousand_names_over_twenty_rings() {
    let mut world = world((HOSTS, RINGS), RmpConfig::daemon(), 1, None);
    let clients: Vec<(usize, ClientId)> = (0..HOSTS)
        .map(|host| {
            let id = world
                .connect(host, &format!("c{host}"))
                .expect("there is room");
            (host, id)
        })
        .collect();
    world.run_for(Duration::from_secs(1));
    let [mut unknown, mut known, mut there] = [Row::default(), Row::default(), Row::default()];
    for ring in 0..RINGS {
        let top = format!("r{ring}.top");
        let others = [1 + ring % 6, 1 + (ring + 1) % 6];
        unknown.join(&mut world, clients[0], &top, true);
        // Others learn of it, and join names on it.
        for host in others {
            known.join(&mut world, clients[host], &format!("n{host}.{top}"), false);
        }
        for name in 3..NAMES_A_RING {
            let host = [0, others[0], others[1]][name % 3];
            there.join(&mut world, clients[host], &format!("m{name}.{top}"), false);
        }
    }
    unknown.print("to a name that no ring has, which is made");
    known.print("to a name of a ring that its daemon is not in");
    there.print("to a name of a ring that its daemon is in");
    assert_eq!(unknown.joins + known.joins + there.joins, 1_000);
    assert_eq!(world.rings_of(0), RINGS);

    // At rest, then a message to each ring.
    let before: Vec<_> = (0..HOSTS).map(|host| world.traffic(host)).collect();
    world.run_for(Duration::from_secs(10));
    let idle: Vec<_> = (0..HOSTS).map(|host| world.traffic(host)).collect();
    for ring in 0..RINGS {
        world.act(clients[0].0, clients[0].1, |client| {
            let connection = client.connection();
            let name = format!("r{ring}.top");
            let published = connection.publish(&[&name], Service::Agreed, &[0; 1_000]);
            published.expect("there is credit");
        });
    }
    world.run_for(Duration::from_secs(1));
    for host in [0, 1, OUTSIDER] {
        let [own, rings] = world.traffic(host);
        println!(
            "h{host}: in {} rings; at rest {} datagrams in 10 s of the own order and {} of rings; in all {} and {}",
            world.rings_of(host),
            idle[host][0].datagrams - before[host][0].datagrams,
            idle[host][1].datagrams - before[host][1].datagrams,
            own.datagrams,
            rings.datagrams
        );
    }
    assert_eq!(world.rings_of(OUTSIDER), 0);
    assert_eq!(world.traffic(OUTSIDER)[1].datagrams, 0, "packets of rings");
    assert_eq!(world.cluster.violations(false, None), []);
    // Nobody joins a ring for another's sake.
    for host in 1..OUTSIDER {
        let is_in = |ring: &usize| [1 + ring % 6, 1 + (ring + 1) % 6].contains(&host);
        let rings = (0..RINGS).filter(is_in).count();
        assert_eq!(world.rings_of(host), rings, "h{host}");
    }
}
