//! Daemons with further rings in the simulator: engines over the datagrams of real members, one for
//! the daemons' own order and one for each ring that a daemon is in.
//!
//! A simulated process is a [`Seat`]: a member of one order. A host has as many seats as it may be
//! in rings, and one for its own order; behind them stands one engine with its clients. As at a
//! daemon, a ring's datagrams begin with a label that follows from its name and address, each stay
//! in a ring is the life of a new member, and the host joins and leaves as its engine says. The
//! network brings a datagram to the seats of its order alone, as multicast addresses do.

mod client;
mod seat;
pub(crate) mod seen;
pub mod swarm;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use groupcast_core::family::Factory;
use groupcast_core::{Incarnation, MemberId, NodeId, Rng, Time};
use groupcast_session::groups::Transport;
use groupcast_session::names::{Planted, RingAddress};
use groupcast_session::{ClientId, Engine, EngineConfig};
use groupcast_sim::{Cluster, ClusterConfig, Status};

pub use self::client::Client;
pub use self::seat::Seat;
use self::seat::{Daemon, Label, label};
pub use self::seen::Seen;

/// How often hosts look at what their daemons ask for.
const GLANCE: Duration = Duration::from_micros(200);
/// How often hosts look whether clients want anything of a ring, which takes longer.
const LOOK: Duration = Duration::from_millis(20);
/// A daemon stays in a ring of which nobody wants anything for this long.
pub const LINGER: Duration = Duration::from_millis(400);

/// How a world is made.
pub struct WorldConfig {
    /// How many hosts there are.
    pub hosts: usize,
    /// The most rings that a host may be in at one time.
    pub rings: usize,
    /// The seed of everything random.
    pub seed: u64,
    /// The settings of the engines.
    pub engine: EngineConfig,
    /// Makes members of the daemons' own order.
    pub own: Factory,
    /// Makes members of rings.
    pub ring: Factory,
    /// A bug in the rules of names, if one is planted.
    pub planted: Option<Planted>,
}

/// Hosts with a daemon each, and their network.
pub struct World {
    /// The processes; those of a host follow each other.
    pub cluster: Cluster<Seat>,
    config: WorldConfig,
    hosts: Vec<Host>,
    /// The order that each seat is in now.
    orders: Rc<RefCell<Vec<Option<Label>>>>,
    traffic: Rc<RefCell<Vec<Traffic>>>,
    rng: Rng,
    /// When hosts look next whether clients want anything of their rings.
    look_at: Time,
    /// How many stays in rings have begun.
    begun: usize,
}

/// What the network has brought to a process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Datagrams.
    pub datagrams: u64,
    /// Their bytes, without the headers of UDP and below.
    pub bytes: u64,
}

struct Host {
    daemon: Option<Rc<RefCell<Daemon>>>,
    ring_changes: u64,
    /// By the place of a ring.
    stays: BTreeMap<usize, Stay>,
}

/// A ring that a host is in, or may join.
struct Stay {
    ring: RingAddress,
    /// Whether the host is leaving it.
    is_leaving: bool,
    /// Since when no client wants anything of it.
    unused: Option<Time>,
}

impl World {
    /// No daemon runs yet.
    pub fn new(config: WorldConfig) -> Self {
        let seats = config.rings + 1;
        let all = config.hosts * seats;
        let (own, ring) = (Arc::clone(&config.own), Arc::clone(&config.ring));
        let is_own = move |member: MemberId| (member.node.0 as usize - 1).is_multiple_of(seats);
        let mut cluster = Cluster::new(
            ClusterConfig {
                contract: groupcast_check::Contract::OrderedEarly,
                ..ClusterConfig::new(all, config.seed)
            },
            move |member, rng, now| match is_own(member) {
                true => Seat::new(own(member, rng, now)),
                false => Seat::new(ring(member, rng, now)),
            },
        );
        let orders = Rc::new(RefCell::new(vec![None; all]));
        let traffic = Rc::new(RefCell::new(vec![Traffic::default(); all]));
        let (of_seats, count) = (Rc::clone(&orders), Rc::clone(&traffic));
        cluster.drop_all(move |info| {
            let orders = of_seats.borrow();
            let is_foreign = orders[info.from] != orders[info.to];
            if !is_foreign {
                let to = &mut count.borrow_mut()[info.to];
                to.datagrams += 1;
                to.bytes += info.bytes.len() as u64;
            }
            is_foreign
        });
        let hosts = (0..config.hosts).map(|_| Host {
            daemon: None,
            ring_changes: 0,
            stays: BTreeMap::new(),
        });
        Self {
            hosts: hosts.collect(),
            rng: Rng::new(config.seed).fork("stays"),
            cluster,
            config,
            orders,
            traffic,
            look_at: Time::ZERO,
            begun: 0,
        }
    }

    /// The process of a host's seat.
    pub fn seat(&self, host: usize, number: usize) -> usize {
        host * (self.config.rings + 1) + number
    }

    /// All processes of a host.
    pub fn seats(&self, host: usize) -> Vec<usize> {
        let first = self.seat(host, 0);
        (first..=first + self.config.rings).collect()
    }

    /// Starts a daemon on a host.
    pub fn start(&mut self, host: usize) {
        let seat = self.seat(host, 0);
        let local = self.cluster.start(seat);
        let name = format!("h{}", host + 1);
        let engine = Engine::new(self.config.engine.clone(), local, &name);
        let mut engine = engine.expect("the limits are right");
        if self.config.planted.is_some() {
            engine.plant_in_names(self.config.planted);
        }
        let daemon = Daemon {
            local,
            engine,
            members: BTreeMap::new(),
            clients: BTreeMap::new(),
            dirty: BTreeSet::new(),
            born: self.cluster.now(),
        };
        let daemon = Rc::new(RefCell::new(daemon));
        self.hosts[host] = Host {
            daemon: Some(Rc::clone(&daemon)),
            ring_changes: 0,
            stays: BTreeMap::new(),
        };
        self.take(host, 0, label("the daemons' own order"));
    }

    /// Gives a process that has begun to the daemon of its host.
    fn take(&mut self, host: usize, number: usize, label: Label) {
        let seat = self.seat(host, number);
        self.orders.borrow_mut()[seat] = Some(label);
        let Some(daemon) = self.hosts[host].daemon.clone() else {
            return;
        };
        let born = self.cluster.now();
        self.cluster.act(seat, |process, _| {
            process.take(&daemon, number, label, born);
        });
    }

    /// Ends a daemon without a leave, and its clients with it.
    pub fn crash(&mut self, host: usize) {
        for seat in self.seats(host) {
            self.cluster.crash(seat);
            self.orders.borrow_mut()[seat] = None;
        }
        self.hosts[host].daemon = None;
        self.hosts[host].stays.clear();
    }

    /// Whether a daemon runs on a host.
    pub fn runs(&self, host: usize) -> bool {
        self.hosts[host].daemon.is_some()
    }

    /// Looks at a daemon.
    fn with<T>(&self, host: usize, look: impl FnOnce(&mut Daemon) -> T) -> Option<T> {
        let daemon = self.hosts[host].daemon.as_ref()?;
        Some(look(&mut daemon.borrow_mut()))
    }

    /// The engine of a host's daemon, if one runs.
    pub fn engine<T>(&self, host: usize, look: impl FnOnce(&Engine) -> T) -> Option<T> {
        self.with(host, |daemon| look(&daemon.engine))
    }

    /// A client connects.
    pub fn connect(&mut self, host: usize, name: &str) -> Option<ClientId> {
        let now = self.time_of(host);
        let id = self.with(host, |daemon| {
            let id = daemon.engine.connected(now, Transport::Unix)?;
            daemon.clients.insert(id, Client::new(name, daemon.local));
            Some(id)
        })??;
        self.settle(host);
        Some(id)
    }

    /// A client does something, if its daemon runs.
    pub fn act<T>(
        &mut self,
        host: usize,
        client: ClientId,
        act: impl FnOnce(&mut Client) -> T,
    ) -> Option<T> {
        let done = self.with(host, |daemon| daemon.clients.get_mut(&client).map(act))?;
        self.settle(host);
        done
    }

    /// A client closes its connection without a word.
    pub fn vanish(&mut self, host: usize, client: ClientId) {
        let now = self.time_of(host);
        self.with(host, |daemon| {
            daemon.engine.closed(now, client);
            daemon.clients.remove(&client);
        });
        self.settle(host);
    }

    /// The clients of a host.
    pub fn clients(&self, host: usize) -> Vec<ClientId> {
        let ids = self.with(host, |daemon| daemon.clients.keys().copied().collect());
        ids.unwrap_or_default()
    }

    fn time_of(&self, host: usize) -> Time {
        let born = self.with(host, |daemon| daemon.born);
        Time::ZERO + (self.cluster.now() - born.unwrap_or(Time::ZERO))
    }

    /// Carries out what follows from the last input of a daemon, and lets its processes send.
    fn settle(&mut self, host: usize) {
        let now = self.time_of(host);
        self.with(host, |daemon| {
            if daemon.engine.poll_timeout().is_some_and(|at| at <= now) {
                daemon.engine.handle_timeout(now);
            }
            daemon.settle(now);
        });
        self.drain(host);
    }

    /// Lets the processes send what their daemon has given them.
    fn drain(&mut self, host: usize) {
        while let Some(number) = self.with(host, |daemon| daemon.dirty.pop_first()).flatten() {
            let seat = self.seat(host, number);
            if self.cluster.status(seat) == Status::Up {
                self.cluster.act(seat, |_, _| ());
            }
        }
    }

    /// Lets time pass, while daemons join and leave rings.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.cluster.now() + duration;
        while self.cluster.now() < end {
            self.cluster.run_for(GLANCE);
            let looks = self.cluster.now() >= self.look_at;
            if looks {
                self.look_at = self.cluster.now() + LOOK;
            }
            for host in 0..self.hosts.len() {
                if self.runs(host) {
                    self.settle(host);
                    self.follow_rings(host);
                    self.look_at_rings(host, looks);
                }
            }
        }
    }

    /// Lets time pass until `done`, for `limit` at most. Returns whether `done` came about.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.cluster.now() + limit;
        while !done(self) {
            if self.cluster.now() >= end {
                return false;
            }
            self.run_for(GLANCE);
        }
        true
    }

    /// Adds the rings that the engine has made, and closes those that it has ended.
    fn follow_rings(&mut self, host: usize) {
        let changes = self.engine(host, Engine::ring_changes).unwrap_or(0);
        if std::mem::replace(&mut self.hosts[host].ring_changes, changes) == changes {
            return;
        }
        let places = self.engine(host, Engine::ring_places).unwrap_or(0);
        for place in 0..places.min(self.config.rings) {
            let made = self.engine(host, |engine| engine.ring_at(place).cloned());
            let made = made.flatten();
            let known = self.hosts[host].stays.get(&place).map(|stay| &stay.ring);
            let is_same = |ring: &RingAddress, known: &RingAddress| {
                ring.top == known.top && ring.multicast == known.multicast
            };
            match (&made, known) {
                (None, None) => continue,
                (Some(ring), Some(known)) if is_same(ring, known) => continue,
                _ => {}
            }
            if self.hosts[host].stays.remove(&place).is_some() {
                self.close(host, place);
            }
            if let Some(ring) = made {
                let stay = Stay {
                    ring,
                    is_leaving: false,
                    unused: None,
                };
                self.hosts[host].stays.insert(place, stay);
                self.begin(host, place, None);
            }
        }
    }

    /// Tells the engine which member the host's stay in a ring is, or will be.
    fn begin(&mut self, host: usize, place: usize, member: Option<MemberId>) {
        let member = member.unwrap_or_else(|| MemberId {
            node: NodeId(self.seat(host, place + 1) as u64 + 1),
            incarnation: Incarnation(self.rng.next_u64()),
        });
        let now = self.time_of(host);
        self.with(host, |daemon| daemon.engine.begin_ring(now, place, member));
        self.settle(host);
    }

    /// The process of a ring ends at once.
    fn close(&mut self, host: usize, place: usize) {
        let seat = self.seat(host, place + 1);
        self.cluster.crash(seat);
        self.orders.borrow_mut()[seat] = None;
        self.with(host, |daemon| daemon.members.remove(&(place + 1)));
    }

    /// Joins rings as the clients want; with `looks`, leaves those of which they want nothing.
    fn look_at_rings(&mut self, host: usize, looks: bool) {
        let places: Vec<usize> = self.hosts[host].stays.keys().copied().collect();
        for place in places {
            let seat = self.seat(host, place + 1);
            let asks = self.engine(host, |engine| engine.asks_for_ring(place));
            if !looks && asks != Some(true) {
                continue;
            }
            let uses = self.engine(host, |engine| engine.uses_ring(place));
            let (asks, uses) = (asks.unwrap_or(false), uses.unwrap_or(false));
            let now = self.cluster.now();
            let status = self.cluster.status(seat);
            let Some(stay) = self.hosts[host].stays.get_mut(&place) else {
                continue;
            };
            let is_there = status == Status::Up;
            if stay.is_leaving && !is_there {
                stay.is_leaving = false;
                self.orders.borrow_mut()[seat] = None;
                self.with(host, |daemon| daemon.members.remove(&(place + 1)));
            } else if is_there && !stay.is_leaving {
                let since = match uses {
                    true => None,
                    false => Some(stay.unused.unwrap_or(now)),
                };
                stay.unused = since;
                if since.is_some_and(|since| now >= since + LINGER) {
                    (stay.is_leaving, stay.unused) = (true, None);
                    self.with(host, |daemon| {
                        if let Some(member) = daemon.members.get_mut(&(place + 1)) {
                            member.for_engine = false;
                        }
                    });
                    self.cluster.leave(seat);
                    self.begin(host, place, None);
                }
            } else if is_there {
                // It is leaving.
            } else if asks {
                let name = format!("{}@{}", stay.ring.top, stay.ring.multicast);
                let member = self.cluster.start(seat);
                self.begun += 1;
                self.begin(host, place, Some(member));
                self.take(host, place + 1, label(&name));
            } else if !uses {
                self.with(host, |daemon| daemon.engine.done_with_ring(place));
                self.settle(host);
            }
        }
    }

    /// Hosts of different parts do not reach each other any more.
    pub fn divide(&mut self, parts: &[Vec<usize>]) {
        let seats: Vec<Vec<usize>> = parts
            .iter()
            .map(|part| part.iter().flat_map(|host| self.seats(*host)).collect())
            .collect();
        let seats: Vec<&[usize]> = seats.iter().map(Vec::as_slice).collect();
        self.cluster.partition(&seats);
    }

    /// All reach each other again.
    pub fn heal(&mut self) {
        self.cluster.heal();
    }

    /// Looks at a client; false if there is none.
    pub fn sees(&self, host: usize, client: ClientId, look: impl FnOnce(&Client) -> bool) -> bool {
        let seen = self.with(host, |daemon| daemon.clients.get(&client).map(look));
        seen.flatten().unwrap_or(false)
    }

    /// How many stays in rings there were.
    pub fn rings_begun(&self) -> usize {
        self.begun
    }

    /// Whether a host is in the ring at this place of its daemon.
    pub fn is_in_ring(&self, host: usize, place: usize) -> bool {
        self.cluster.status(self.seat(host, place + 1)) == Status::Up
    }

    /// How many rings a host is in.
    pub fn rings_of(&self, host: usize) -> usize {
        let seats = self.seats(host);
        let rings = seats[1..].iter();
        rings
            .filter(|seat| self.cluster.status(**seat) == Status::Up)
            .count()
    }

    /// What the network has brought to the processes of a host: of the daemons' own order, and of
    /// rings.
    pub fn traffic(&self, host: usize) -> [Traffic; 2] {
        let traffic = self.traffic.borrow();
        let mut of = [Traffic::default(); 2];
        for (number, seat) in self.seats(host).into_iter().enumerate() {
            let of = &mut of[usize::from(number > 0)];
            of.datagrams += traffic[seat].datagrams;
            of.bytes += traffic[seat].bytes;
        }
        of
    }
}
