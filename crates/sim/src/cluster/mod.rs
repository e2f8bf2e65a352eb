//! A group of hosts for tests: make it, disturb it, look at it, judge it.
//!
//! ```text
//! let mut cluster = Cluster::started(ClusterConfig::new(5, 42), |member, rng, now| MyProtocol::new(member, rng, now));
//! assert!(cluster.run_until(Cluster::all_in_one_configuration, Duration::from_secs(5)));
//! cluster.submit(0, Service::Agreed, "hello")?;
//! cluster.partition(&[&[0, 1], &[2, 3, 4]]);
//! cluster.run_for(Duration::from_secs(2));
//! cluster.heal();
//! cluster.must("one configuration", Cluster::all_in_one_configuration, Duration::from_secs(5));
//! cluster.check();
//! ```

mod look;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use groupcast_check::Contract;
use groupcast_core::trace::{Observation, digest};
use groupcast_core::{Instrumented, MemberId, MessageId, Node, Rng, Service, SubmitError, Time};

use crate::adversary::AdversaryConfig;
use crate::clock::ClockRate;
use crate::host::Status;
use crate::host::config::HostConfig;
use crate::network::{Block, DatagramInfo, Network, NetworkConfig};
use crate::trace::Trace;
use crate::world::{CHANNEL, Factory, Medium, World};

/// The settings of a cluster. All of its randomness follows from the seed.
#[derive(Clone, PartialEq, Debug)]
pub struct ClusterConfig {
    /// How many hosts there are.
    pub hosts: usize,
    /// The seed of everything random.
    pub seed: u64,
    /// The network. Default: a quiet gigabit LAN.
    pub network: NetworkConfig,
    /// What every host is like.
    pub host: HostConfig,
    /// Whether the network has multicast; without, the group is a mesh of unicast. Default true.
    pub multicast: bool,
    /// Hosts that multicast does not reach although the network has it: they send and get unicast
    /// copies, and know the addresses of all others. Default none.
    pub without_multicast: BTreeSet<usize>,
    /// Whether payloads of deliveries are kept for [`Cluster::deliveries`]. Default true.
    pub keep_payloads: bool,
    /// Events after which the world is taken for one that spins, and ends with a panic. Default:
    /// none.
    pub events_max: u64,
    /// What the checker holds the histories against. Default: one order for all.
    pub contract: Contract,
    /// The command line that repeats a failure; it is part of every panic message. Default: the
    /// seed.
    pub replay: String,
}

impl ClusterConfig {
    /// `hosts` hosts on a quiet gigabit LAN.
    pub fn new(hosts: usize, seed: u64) -> Self {
        Self {
            hosts,
            seed,
            network: NetworkConfig::default(),
            host: HostConfig::default(),
            multicast: true,
            without_multicast: BTreeSet::new(),
            keep_payloads: true,
            events_max: u64::MAX,
            contract: Contract::Ordered,
            replay: format!("run this test again: its seed is {seed}"),
        }
    }
}

/// Hosts 0..n on one network, each with one process of the protocol `P` at a time.
///
/// Hosts are named by their index. "The process" of a host is the one that runs there, or the last
/// one that ran there.
pub struct Cluster<P> {
    world: World<P>,
    events_max: u64,
    replay: String,
    seed: u64,
}

impl<P: Instrumented> Cluster<P> {
    /// A cluster whose processes run what `factory` makes. None runs yet.
    pub fn new(
        config: ClusterConfig,
        factory: impl Fn(MemberId, Rng, Time) -> P + Send + Sync + 'static,
    ) -> Self {
        Self::with_factory(config, Arc::new(factory))
    }

    /// The same, with a factory that several clusters share.
    pub fn with_factory(config: ClusterConfig, factory: Factory<P>) -> Self {
        let rng = Rng::new(config.seed);
        let network = Network::new(config.network, config.hosts, rng.fork("network"));
        let mut world = World::new(
            config.hosts,
            Medium::Switch(Box::new(network)),
            config.host,
            config.multicast,
            config.keep_payloads,
            factory,
            rng.fork("world"),
        );
        world.judge_by(config.contract);
        for host in config.without_multicast {
            world.without_multicast(host);
        }
        Self {
            world,
            events_max: config.events_max,
            replay: config.replay,
            seed: config.seed,
        }
    }

    /// A cluster in which every host runs.
    pub fn started(
        config: ClusterConfig,
        factory: impl Fn(MemberId, Rng, Time) -> P + Send + Sync + 'static,
    ) -> Self {
        let mut cluster = Self::new(config, factory);
        cluster.start_all();
        cluster
    }

    // Time.

    /// The world's time.
    pub fn now(&self) -> Time {
        self.world.now()
    }

    /// Lets `duration` pass.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_to(self.now() + duration);
    }

    /// Lets the time until `limit` pass.
    pub fn run_to(&mut self, limit: Time) {
        while self.step(limit) {}
    }

    /// Lets time pass until `done`, at most `limit`; whether it came about. Looked at after every
    /// event.
    pub fn run_until(&mut self, mut done: impl FnMut(&Self) -> bool, limit: Duration) -> bool {
        let limit = self.now() + limit;
        loop {
            if done(self) {
                return true;
            }
            if !self.step(limit) {
                return done(self);
            }
        }
    }

    /// The same, but tests the condition only after events that an observer saw: for conditions on
    /// what users see.
    pub(crate) fn run_until_observed(
        &mut self,
        mut done: impl FnMut(&Self) -> bool,
        limit: Duration,
    ) -> bool {
        let limit = self.now() + limit;
        while !done(self) {
            let seen = self.observed();
            while self.observed() == seen {
                if !self.step(limit) {
                    return done(self);
                }
            }
        }
        true
    }

    fn observed(&self) -> usize {
        self.world.record.borrow().log().len()
    }

    fn step(&mut self, limit: Time) -> bool {
        if self.world.events() > self.events_max {
            self.fail(&format!("more than {} events: it spins", self.events_max));
        }
        self.world.step(limit)
    }

    /// Lets time pass until `done`, at most `limit`.
    ///
    /// # Panics
    /// If it did not come about; `what` is part of the message.
    #[track_caller]
    pub fn must(&mut self, what: &str, done: impl FnMut(&Self) -> bool, limit: Duration) {
        if !self.run_until(done, limit) {
            self.fail(&format!("after {limit:?} still not: {what}"));
        }
    }

    // Hosts.

    /// A process begins on every host that has none.
    pub fn start_all(&mut self) {
        for host in 0..self.hosts() {
            if !self.is_alive(host) {
                self.world.start(host);
            }
        }
    }

    /// A process begins on `host`: the first, or a new incarnation after a crash or a leave.
    ///
    /// # Panics
    /// If one is alive there.
    pub fn start(&mut self, host: usize) -> MemberId {
        self.world.start(host)
    }

    /// Crashes the process of `host`, if one is alive, and starts a new incarnation at once.
    pub fn restart(&mut self, host: usize) -> MemberId {
        self.world.crash(host);
        self.world.start(host)
    }

    /// The process of `host` ends without telling the others.
    pub fn crash(&mut self, host: usize) {
        self.world.crash(host);
    }

    /// The process of `host` is stopped, as by SIGSTOP.
    pub fn pause(&mut self, host: usize) {
        self.world.pause(host);
    }

    /// The process of `host` goes on after a [`pause`](Self::pause).
    pub fn resume(&mut self, host: usize) {
        self.world.resume(host);
    }

    /// The process of `host` begins a graceful leave. It is [`Status::Left`] when that is done.
    pub fn leave(&mut self, host: usize) {
        self.command(host, |node, now| {
            if let Some(instance) = node.instance_mut(CHANNEL) {
                instance.leave(now);
            }
        });
        self.world.tell(host, format_args!("is told to leave"));
    }

    /// Submits a message at `host`.
    ///
    /// # Panics
    /// If no process runs there.
    pub fn submit(
        &mut self,
        host: usize,
        service: Service,
        payload: impl Into<Bytes>,
    ) -> Result<MessageId, SubmitError> {
        let payload = payload.into();
        let result = self.command(host, |node, now| {
            let digest = digest(&payload);
            let instance = node.instance_mut(CHANNEL);
            let instance = instance.expect("every process has opened its one channel");
            let id = instance.submit(now, service, payload)?;
            node.observe(&Observation::Submit {
                id,
                service,
                digest,
            });
            Ok(id)
        });
        if let Ok(id) = &result {
            self.world.submitted.insert(id.sender, id.number);
        }
        self.world
            .tell(host, format_args!("submits {service}: {result:?}"));
        result
    }

    /// Tells the judge that all living members have heard of each other by now. Of all messages
    /// sent from here on, each member must deliver or report every one, from the first, if sender
    /// and member are both alive when the run is judged.
    pub fn expect_accounts(&mut self) {
        self.world.expect_accounts();
    }

    /// Lets `act` do something to the protocol instance of `host`, at the time that its clock
    /// shows.
    ///
    /// # Panics
    /// If no process runs there.
    pub fn act<T>(&mut self, host: usize, act: impl FnOnce(&mut P, Time) -> T) -> T {
        self.command(host, |node, now| {
            let instance = node.instance_mut(CHANNEL);
            act(
                instance.expect("every process has opened its one channel"),
                now,
            )
        })
    }

    /// A command to the running process of `host`, after which it is drained.
    fn command<T>(&mut self, host: usize, command: impl FnOnce(&mut Node<P>, Time) -> T) -> T {
        let now = self.now();
        self.world.record.borrow_mut().now = now;
        let result = match &mut self.world.hosts[host] {
            running if running.status == Status::Up => {
                let local = running.clock.local(now);
                running.node.as_mut().map(|node| command(node, local))
            }
            _ => None,
        };
        let Some(result) = result else {
            self.fail(&format!("a command to host {host}, where no process runs"));
        };
        self.world.drain(host);
        result
    }

    /// `host` is like this from now on; its process goes on.
    pub fn set_host(&mut self, host: usize, config: HostConfig) {
        self.world.set_host(host, config);
    }

    /// The clock of `host` runs at `rate` from now on.
    pub fn set_clock_rate(&mut self, host: usize, rate: ClockRate) {
        self.world.set_clock_rate(host, rate);
    }

    // Network.

    /// Hosts of different components no longer reach each other. Hosts that are in none of them
    /// form one more component.
    pub fn partition(&mut self, components: &[&[usize]]) {
        for block in Block::partition(self.hosts(), components) {
            self.world.medium.switch().block(block);
        }
    }

    /// Nothing from `from` reaches `to` any more; the other way stays open.
    pub fn block(&mut self, from: usize, to: usize) {
        for block in Block::one_way(from, to) {
            self.world.medium.switch().block(block);
        }
    }

    /// Takes away all partitions, blocks, filters and extra losses of hosts, and the network's
    /// loss, duplication, reordering and corruption. Stopped processes stay stopped.
    pub fn heal(&mut self) {
        self.world.medium.switch().heal();
        let network = self.world.medium.switch().config_mut();
        network.loss = 0.0;
        network.duplication = 0.0;
        network.reordering = 0.0;
        network.corruption = 0.0;
    }

    /// Loses copies with this probability.
    pub fn set_loss(&mut self, loss: f64) {
        self.world.medium.switch().config_mut().loss = loss;
    }

    /// Drops the first copy that `filter` chooses. It sees each copy on its way to one receiver.
    pub fn drop_next(&mut self, filter: impl FnMut(&DatagramInfo<'_>) -> bool + 'static) {
        self.world.medium.switch().drop_once(filter);
    }

    /// Drops every copy that `filter` chooses, until [`heal`](Self::heal).
    pub fn drop_all(&mut self, filter: impl FnMut(&DatagramInfo<'_>) -> bool + 'static) {
        self.world.medium.switch().drop_all(filter);
    }

    /// The network, for all else that it can do.
    pub fn network(&mut self) -> &mut Network {
        self.world.medium.switch()
    }

    /// An adversary records datagrams from now on.
    pub fn listen(&mut self, config: AdversaryConfig) {
        self.world.listen(config);
    }

    /// Whether the adversary sends what it recorded since [`listen`](Self::listen), whole or
    /// damaged.
    pub fn set_attacking(&mut self, attacking: bool) {
        self.world.set_attacking(attacking);
    }

    /// Tells `trace` all that happens from now on.
    pub fn trace(&mut self, trace: Trace) {
        self.world.trace = Some(trace);
    }

    /// A line of the trace that concerns no host.
    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.world.note(what);
    }

    /// Ends the test, saying how to see it again.
    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        panic!(
            "{what}\n  at {:?}, seed {}\n  {}\n{}",
            self.now(),
            self.seed,
            self.replay,
            self.summary()
        )
    }

    /// A line a host.
    fn summary(&self) -> String {
        let line = |host| {
            let configuration = self.current_configuration(host);
            format!(
                "  host {host} {:?} {:?}: {} delivered, in {:?} of {:?}\n",
                self.status(host),
                self.member(host),
                self.deliveries(host).len(),
                configuration.map(|it| (it.kind, it.id)),
                configuration.map(|it| &it.members),
            )
        };
        (0..self.hosts()).map(line).collect()
    }
}

impl<P: Instrumented> fmt::Debug for Cluster<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster at {:?}\n{}", self.now(), self.summary())
    }
}
