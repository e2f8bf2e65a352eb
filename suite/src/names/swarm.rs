//! The swarm of names: clients at daemons that make rings, over the datagrams of RMP.
//!
//! Clients join names with and without asking for a ring, leave, vanish and publish; they ask
//! groups and holders of handlers, answer, and claim and release roles; meanwhile daemons crash and
//! start again, part and meet, and datagrams are lost. Then all meet, come to rest, and are judged
//! by the rules of 000 ch. 8:
//!
//! 1. All daemons know the same rings, each name once.
//! 2. A client that is in a group is in it on the one order that carries its name, sees the view of
//!    all others, and gets what is published to it, once.
//! 3. All changes come in one order: the histories of every order are clean.
//! 4. A ring has a daemon that uses it; without clients there is no ring.
//! 5. No member is asked twice, a request has the answers that it ends with, one process at most
//!    answers for a handler, a handler and a lock have one holder, and every request ends.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use groupcast_core::family::Factory;
use groupcast_core::{Rng, Service};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_protocols::rmp::{Rmp, RmpConfig};
use groupcast_session::guests::Role;
use groupcast_session::names::{Planted, Pool};
use groupcast_session::{ClientId, Engine, EngineConfig};

use super::seat::LABEL;
use super::seen::{Act, Probes};
use super::{LINGER, World, WorldConfig};
use crate::asking::{AskTally, judge_roles};

/// Trees that share names with each other, so that rings are asked for above and below others.
const NAMES: [&str; 7] = ["cb", "wb.cb", "p1.wb.cb", "ed.cb", "x", "y.x", "z.y.x"];
/// A request is this often one for a role that somebody has claimed: others find hardly ever a
/// member that answers.
const ASKS_CLAIMED: f64 = 0.8;
/// How many things happen in a run.
const STEPS: usize = 60;
/// In how many rings a host may be at one time: each name may have one, and former ones still end.
const RINGS: usize = 16;
/// After the last fault all must be at rest within this time.
const REST: Duration = Duration::from_secs(20);
/// What is at rest stays so for this time.
const STILL: Duration = Duration::from_secs(1);
/// How often it is looked whether all is at rest.
const GLANCE: Duration = Duration::from_millis(50);
/// The most of 1,000 datagrams that are lost.
const LOSS_MAX: u64 = 30;

/// What became of a seed.
#[derive(Default, Debug)]
pub struct SeedReport {
    /// Which.
    pub seed: u64,
    /// What was violated.
    pub violation: Option<String>,
    /// How often a daemon joined a ring.
    pub stays: usize,
    /// Crashes and partings.
    pub faults: usize,
    /// What clients asked.
    pub asked: AskTally,
}

/// Makes members with these settings.
pub fn rmp(config: RmpConfig) -> Factory {
    Arc::new(move |member, rng, now| {
        let rmp = Rmp::new(config.clone(), member, rng, now);
        Box::new(rmp.expect("the preset is valid"))
    })
}

/// Makes members of the other protocol.
fn ring() -> Factory {
    Arc::new(|member, rng, now| {
        let config = RingConfig::lan();
        let config = RingConfig {
            body_max: config.body_max - LABEL,
            ..config
        };
        let ring = Ring::new(config, member, rng, now);
        Box::new(ring.expect("the preset is valid"))
    })
}

/// The settings with room for a ring's label.
pub fn labelled(of: RmpConfig) -> RmpConfig {
    RmpConfig {
        body_max: of.body_max - LABEL,
        ..of
    }
}

/// The settings of daemons that have addresses for rings.
pub fn engine() -> EngineConfig {
    EngineConfig {
        ring_pool: Pool::new(Ipv4Addr::new(239, 192, 80, 0), 24, 4809),
        order: "rmp".to_owned(),
        ..EngineConfig::default()
    }
}

/// Runs a seed, with a bug of names if one is planted.
pub fn run_seed(seed: u64, planted: Option<Planted>) -> SeedReport {
    let mut schedule = Schedule::new(seed, planted);
    let violation = schedule.play().err();
    SeedReport {
        seed,
        violation,
        stays: schedule.world.rings_begun(),
        faults: schedule.faults,
        asked: schedule.asked,
    }
}

struct Schedule {
    world: World,
    rng: Rng,
    hosts: usize,
    clients: Vec<(usize, ClientId)>,
    /// The roles to answer that clients have claimed, and at which names.
    claimed: Vec<(&'static str, Role)>,
    /// Hosts whose daemon has crashed.
    down: Vec<usize>,
    count: usize,
    faults: usize,
    asked: AskTally,
    /// What clients have against their requests and roles.
    found: Vec<String>,
}

impl Schedule {
    fn new(seed: u64, planted: Option<Planted>) -> Self {
        let mut rng = Rng::new(seed).fork("names");
        let hosts = rng.range(2..5) as usize;
        let settings = labelled(RmpConfig::lan());
        let own = match rng.chance(0.5) {
            true => rmp(settings.clone()),
            false => ring(),
        };
        let world = World::new(WorldConfig {
            hosts,
            rings: RINGS,
            seed,
            engine: engine(),
            own,
            ring: rmp(settings),
            planted,
        });
        Self {
            world,
            rng,
            hosts,
            clients: Vec::new(),
            claimed: Vec::new(),
            down: Vec::new(),
            count: 0,
            faults: 0,
            asked: AskTally::default(),
            found: Vec::new(),
        }
    }

    fn next(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    /// Runs to its end. What is violated.
    fn play(&mut self) -> Result<(), String> {
        for host in 0..self.hosts {
            self.world.start(host);
        }
        self.meet()?;
        // In every second one no datagram is lost.
        let loss = self.rng.chance(0.5).then(|| self.rng.range(1..LOSS_MAX));
        self.world
            .cluster
            .set_loss(loss.map_or(0.0, |it| it as f64 / 1_000.0));
        for _ in 0..STEPS {
            self.step();
        }
        for host in std::mem::take(&mut self.down) {
            self.world.start(host);
        }
        self.world.heal();
        self.world.cluster.set_loss(0.0);
        self.meet()?;
        self.rest()?;
        self.probe()?;
        self.judge_asking()?;
        self.end()
    }

    fn step(&mut self) {
        let host = self.rng.below(self.hosts as u64) as usize;
        match self.rng.below(100) {
            0..84 => self.act(host),
            84..88 => {
                if let Some((host, id)) = self.rng.pick(&self.clients).copied() {
                    self.vanish(host, id);
                    self.clients.retain(|it| *it != (host, id));
                }
            }
            88..91 if self.world.runs(host) => self.crash(host),
            91..93 => {
                if let Some(host) = self.down.pop() {
                    self.world.start(host);
                }
            }
            93..96 => {
                self.faults += 1;
                let mut parts = vec![Vec::new(); 2];
                for host in 0..self.hosts {
                    parts[self.rng.below(2) as usize].push(host);
                }
                self.world.divide(&parts);
            }
            _ => self.world.heal(),
        }
        let millis = match self.rng.below(5) {
            0 => self.rng.range(100..900),
            _ => self.rng.range(1..50),
        };
        self.world.run_for(Duration::from_millis(millis));
    }

    fn crash(&mut self, host: usize) {
        self.faults += 1;
        for (of, id) in self.clients.clone() {
            if of == host {
                self.take_account(host, id);
            }
        }
        self.clients.retain(|(of, _)| *of != host);
        self.world.crash(host);
        self.down.push(host);
    }

    fn vanish(&mut self, host: usize, id: ClientId) {
        self.take_account(host, id);
        self.world.vanish(host, id);
    }

    /// What a client that goes has seen is judged.
    fn take_account(&mut self, host: usize, id: ClientId) {
        let (asked, found) = (&mut self.asked, &mut self.found);
        self.world.act(host, id, |client| {
            asked.add(&client.asking);
            client.asking.judge(&client.name, found);
        });
    }

    fn act(&mut self, host: usize) {
        if self.world.runs(host) && self.clients.len() < 2 * self.hosts {
            let name = format!("c{}", self.next());
            if let Some(id) = self.world.connect(host, &name) {
                self.clients.push((host, id));
            }
        }
        let Some((host, id)) = self.rng.pick(&self.clients).copied() else {
            return;
        };
        let mut name = *self.rng.pick(&NAMES).expect("there are some");
        let mut act = Act::draw(&mut self.rng);
        match &mut act {
            Act::Claim(role @ (Role::Answering | Role::Handler(_)), _) => {
                self.claimed.push((name, *role));
            }
            Act::Ask(ask) if self.rng.chance(ASKS_CLAIMED) => {
                if let Some((at, role)) = self.rng.pick(&self.claimed).copied() {
                    name = at;
                    ask.handler = match role {
                        Role::Handler(number) => Some(number),
                        _ => None,
                    };
                }
            }
            _ => {}
        }
        let text = format!("{} of {name}", self.next());
        self.world
            .act(host, id, |client| client.act(act, name, &text));
    }

    /// All daemons come to be in one configuration.
    fn meet(&mut self) -> Result<(), String> {
        let hosts = self.hosts;
        let met = self.world.run_until(REST, |world| {
            (0..hosts).all(|host| {
                let daemons = world.engine(host, |it| it.status().daemons.len());
                daemons == Some(hosts)
            })
        });
        met.then_some(()).ok_or("the daemons do not meet".into())
    }

    /// All comes to rest: what stands in the way of that, if it does not.
    fn rest(&mut self) -> Result<(), String> {
        let limit = self.world.cluster.now() + REST;
        let mut since = None;
        loop {
            let now = self.world.cluster.now();
            match self.restless() {
                None if since.is_some_and(|since| now >= since + STILL) => return Ok(()),
                None => _ = since.get_or_insert(now),
                Some(why) if now >= limit => return Err(why),
                Some(_) => since = None,
            }
            self.world.run_for(GLANCE);
        }
    }

    /// What is under way, or not as it should be when nothing is.
    fn restless(&mut self) -> Option<String> {
        let mut first = None;
        for host in 0..self.hosts {
            let status = self.world.engine(host, Engine::status)?;
            let clients = status.clients.iter();
            let busy = clients.filter(|it| it.unaccepted > 0 || it.backlog > 0 || it.input > 0);
            let held = status.held + status.rings.iter().map(|it| it.held).sum::<usize>();
            if held > 0 || busy.count() > 0 || status.daemons.len() != self.hosts {
                return Some(format!("h{host} is busy: {status:?}"));
            }
            let rings = self.world.engine(host, Engine::rings_made)?;
            let first = first.get_or_insert_with(|| rings.clone());
            if *first != rings {
                return Some(format!("daemons know {first:?} and {rings:?}"));
            }
        }
        for ring in first.iter().flatten() {
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
                return Some(format!("the ring {top} is left behind"));
            }
            if let Some(apart) = self.ring_apart(&top) {
                return Some(apart);
            }
        }
        let tops = first.unwrap_or_default();
        let tops: Vec<String> = tops.iter().map(|ring| ring.top.to_string()).collect();
        self.apart(&tops).err()
    }

    /// What keeps the daemons that are in a ring from being together there.
    fn ring_apart(&self, top: &str) -> Option<String> {
        let mut configs = Vec::new();
        for host in 0..self.hosts {
            let status = self.world.engine(host, Engine::status)?;
            for ring in status.rings.iter().filter(|ring| *ring.top == *top) {
                if self.world.is_in_ring(host, ring.index) {
                    configs.push((ring.config, ring.daemons.len()));
                }
            }
        }
        let (config, _) = *configs.first()?;
        let whole = (config, configs.len());
        let is_whole = config.is_some() && configs.iter().all(|it| *it == whole);
        (!is_whole).then(|| format!("the ring {top} is not whole: {configs:?}"))
    }

    /// All who are in a group see one view of it on its ring, and nobody waits for the end of a
    /// request.
    fn apart(&mut self, rings: &[String]) -> Result<(), String> {
        let mut views = BTreeMap::new();
        for (host, id) in self.clients.clone() {
            let seen = self.world.act(host, id, |client| {
                let open = client.connection().open_requests();
                match client.is_open() {
                    true if open > 0 => Err(format!("{} waits for {open} requests", client.name)),
                    true => client.agrees(&NAMES, rings, &mut views),
                    false => Ok(()),
                }
            });
            seen.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// Everybody publishes to every name, and who is in it gets that once.
    fn probe(&mut self) -> Result<(), String> {
        let mut probes = Probes::new();
        for host in 0..self.hosts {
            let name = format!("prober{}", self.next());
            let Some(id) = self.world.connect(host, &name) else {
                return Err(format!("h{host} takes no client"));
            };
            self.world.run_for(GLANCE);
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
        self.rest()?;
        for (host, id) in self.clients.clone() {
            let got = self.world.act(host, id, |client| client.got_once(&probes));
            got.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// Requests, handlers and locks.
    fn judge_asking(&mut self) -> Result<(), String> {
        let mut all = Vec::new();
        for (host, id) in self.clients.clone() {
            self.take_account(host, id);
            let open = self.world.act(host, id, |client| {
                let asking = std::mem::take(&mut client.seen.asking);
                client.is_open().then(|| (client.name.clone(), asking))
            });
            all.extend(open.flatten());
        }
        let open = all.iter().map(|(name, asking)| (name.as_str(), asking));
        judge_roles(open, &mut self.found);
        self.found.first().cloned().map_or(Ok(()), Err)
    }

    /// All clients go, and with them all rings; the histories are judged.
    fn end(&mut self) -> Result<(), String> {
        for (host, id) in std::mem::take(&mut self.clients) {
            self.world.vanish(host, id);
        }
        let hosts = self.hosts;
        let gone = self.world.run_until(REST + 10 * LINGER, |world| {
            (0..hosts).all(|host| {
                let made = world.engine(host, |engine| engine.rings_made().len());
                world.rings_of(host) == 0 && made == Some(0)
            })
        });
        if !gone {
            let left: Vec<_> = (0..hosts)
                .map(|host| self.world.engine(host, Engine::rings_made))
                .collect();
            return Err(format!("there are rings of nobody: {left:?}"));
        }
        let violations = self.world.cluster.violations(false, None);
        violations.first().map_or(Ok(()), |it| Err(it.to_string()))
    }
}
