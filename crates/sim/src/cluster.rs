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

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use groupcast_check::{Ending, Outcome, Together, Violation};
use groupcast_core::node::NodeCounters;
use groupcast_core::trace::{Observation, digest};
use groupcast_core::{
    Configuration, ConfigurationKind, Delivery, MemberId, MessageId, Node, Ordered, Rng, Service,
    SubmitError, Time,
};

use crate::adversary::AdversaryConfig;
use crate::clock::ClockRate;
use crate::host::{HostConfig, Status};
use crate::network::{Block, DatagramInfo, Network, NetworkConfig};
use crate::trace::Trace;
use crate::world::{CHANNEL, Factory, Transited, World};

/// What a cluster is like. All of its randomness follows from the seed.
#[derive(Clone, PartialEq, Debug)]
pub struct ClusterConfig {
    /// How many hosts there are.
    pub hosts: usize,
    /// Of everything random.
    pub seed: u64,
    /// The network. Default: a quiet gigabit LAN.
    pub network: NetworkConfig,
    /// The hosts.
    pub host: HostConfig,
    /// Whether the network has multicast; without, the group is a mesh of unicast. Default true.
    pub multicast: bool,
    /// Whether payloads of deliveries are kept for [`Cluster::deliveries`]. Default true.
    pub keep_payloads: bool,
    /// Events after which the world is taken for one that spins, and ends with a panic. Default: none.
    pub events_max: u64,
    /// What to type to see a failure again; it is part of every panic message. Default: the seed.
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
            keep_payloads: true,
            events_max: u64::MAX,
            replay: format!("run this test again: its seed is {seed}"),
        }
    }
}

/// Hosts 0..n on one network, each with one process of the protocol `P` at a time.
///
/// Hosts are named by their index. Whatever concerns "the" process of a host means the one that runs there, or the
/// last one that did.
pub struct Cluster<P> {
    world: World<P>,
    events_max: u64,
    replay: String,
    seed: u64,
}

impl<P: Ordered> Cluster<P> {
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
        let world = World::new(
            config.hosts,
            network,
            config.host,
            config.multicast,
            config.keep_payloads,
            factory,
            rng.fork("world"),
        );
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

    /// Lets time pass until `done`, at most `limit`; whether it came about. Looked at after every event.
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

    /// The same, but looks only after events that somebody observed: for conditions on what users see.
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

    /// The process of `host` ends without a word.
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
        self.world
            .tell(host, format_args!("submits {service}: {result:?}"));
        result
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

    /// The clock of `host` runs at `rate` from now on.
    pub fn set_clock_rate(&mut self, host: usize, rate: ClockRate) {
        self.world.set_clock_rate(host, rate);
    }

    // Network.

    /// Hosts of different components no longer reach each other; those in none are together in one more.
    pub fn partition(&mut self, components: &[&[usize]]) {
        for block in Block::partition(self.hosts(), components) {
            self.world.network.block(block);
        }
    }

    /// Nothing from `from` reaches `to` any more; the other way stays open.
    pub fn block(&mut self, from: usize, to: usize) {
        for block in Block::one_way(from, to) {
            self.world.network.block(block);
        }
    }

    /// Takes away all partitions, blocks, filters and extra losses of hosts, and the network's loss, duplication,
    /// reordering and corruption. Stopped processes stay stopped.
    pub fn heal(&mut self) {
        self.world.network.heal();
        let network = self.world.network.config_mut();
        network.loss = 0.0;
        network.duplication = 0.0;
        network.reordering = 0.0;
        network.corruption = 0.0;
    }

    /// Loses copies with this probability.
    pub fn set_loss(&mut self, loss: f64) {
        self.world.network.config_mut().loss = loss;
    }

    /// Drops the first copy that `filter` chooses. It sees each copy on its way to one receiver.
    pub fn drop_next(&mut self, filter: impl FnMut(&DatagramInfo<'_>) -> bool + 'static) {
        self.world.network.drop_once(filter);
    }

    /// Drops every copy that `filter` chooses, until [`heal`](Self::heal).
    pub fn drop_all(&mut self, filter: impl FnMut(&DatagramInfo<'_>) -> bool + 'static) {
        self.world.network.drop_all(filter);
    }

    /// The network, for all else that it can do.
    pub fn network(&mut self) -> &mut Network {
        &mut self.world.network
    }

    /// An adversary records datagrams from now on.
    pub fn listen(&mut self, config: AdversaryConfig) {
        self.world.listen(config);
    }

    /// Whether the adversary sends what it recorded since [`listen`](Self::listen), whole or damaged.
    pub fn set_attacking(&mut self, attacking: bool) {
        self.world.set_attacking(attacking);
    }

    // Looking.

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.world.hosts.len()
    }

    /// What `host` is doing.
    pub fn status(&self, host: usize) -> Status {
        self.world.hosts[host].status
    }

    /// Whether a process exists on `host`, stopped or not.
    pub fn is_alive(&self, host: usize) -> bool {
        self.world.hosts[host].is_alive()
    }

    /// The hosts with a process, stopped or not.
    pub fn alive(&self) -> impl Iterator<Item = usize> {
        (0..self.hosts()).filter(|host| self.is_alive(*host))
    }

    /// The process of `host`, if there ever was one.
    pub fn member(&self, host: usize) -> Option<MemberId> {
        self.world.hosts[host].member()
    }

    /// What the process of `host` delivered.
    pub fn deliveries(&self, host: usize) -> &[Delivery] {
        &self.world.hosts[host].seen.deliveries
    }

    /// Whether the process of `host` delivered the message.
    pub fn has_delivered(&self, host: usize, id: MessageId) -> bool {
        self.deliveries(host)
            .iter()
            .any(|delivery| delivery.id == id)
    }

    /// The configurations that the process of `host` installed, transitional ones too.
    pub fn configurations(&self, host: usize) -> &[Configuration] {
        &self.world.hosts[host].seen.configurations
    }

    /// The configuration that the process of `host` is in.
    pub fn current_configuration(&self, host: usize) -> Option<&Configuration> {
        self.configurations(host).last()
    }

    /// Whether all living processes are in one regular configuration that has exactly them as members.
    pub fn all_in_one_configuration(&self) -> bool {
        let mut alive = self.alive();
        let Some(first) = alive
            .next()
            .and_then(|host| self.current_configuration(host))
        else {
            return false;
        };
        let expected = self.alive().filter_map(|host| self.member(host));
        first.kind == ConfigurationKind::Regular
            && first.members.iter().copied().eq(expected)
            && alive.all(|host| {
                self.current_configuration(host)
                    .is_some_and(|other| other.kind == first.kind && other.id == first.id)
            })
    }

    /// Whether the process of `host` was told that its name is in use.
    pub fn name_in_use(&self, host: usize) -> bool {
        self.world.hosts[host].seen.name_in_use
    }

    /// The protocol instance of the process of `host`, if there ever was one.
    pub fn protocol(&self, host: usize) -> Option<&P> {
        self.node(host).and_then(|node| node.instance(CHANNEL))
    }

    /// The node of the process of `host`, if there ever was one.
    pub fn node(&self, host: usize) -> Option<&Node<P>> {
        self.world.hosts[host].node.as_ref()
    }

    /// What the node of `host` counted; zeros if there never was one.
    pub fn counters(&self, host: usize) -> NodeCounters {
        self.node(host).map(Node::counters).unwrap_or_default()
    }

    /// Datagrams that `host` dropped at a full receive queue.
    pub fn overflowed(&self, host: usize) -> u64 {
        self.world.hosts[host].overflowed
    }

    /// All transitions of all protocol instances, in the order in which they happened.
    pub fn transitions(&self) -> &[Transited] {
        &self.world.transitions
    }

    /// All observations of all members, in the order in which they were made.
    pub fn observations(&self) -> Vec<(MemberId, Observation)> {
        self.world.record.borrow().log().to_vec()
    }

    /// How many events have happened in the world: the measure of its cost.
    pub fn events(&self) -> u64 {
        self.world.events()
    }

    // Judging.

    /// What the judge has against the histories so far. `complete`: nothing is in flight and nobody has work left, so
    /// whoever lives must have delivered all that it should. `together`: messages that all who live must have
    /// delivered, in one configuration that has exactly them as members; `None` asks for neither.
    pub fn violations(&self, complete: bool, together: Option<&[MessageId]>) -> Vec<Violation> {
        let alive: BTreeSet<MemberId> = self.alive().filter_map(|it| self.member(it)).collect();
        let endings = alive.iter().map(|member| (*member, Ending::Alive));
        let outcome = Outcome {
            endings: endings.collect(),
            complete,
            together: together
                .map(|messages| Together {
                    members: alive.clone(),
                    messages: messages.to_vec(),
                })
                .into_iter()
                .collect(),
        };
        self.world.record.borrow().checker.finish(&outcome)
    }

    /// Judges what happened so far: safety alone, so at any moment.
    ///
    /// # Panics
    /// If a promise was broken.
    #[track_caller]
    pub fn check(&self) {
        self.judge(&self.violations(false, None));
    }

    /// Judges a run that came to rest: all who live are in one configuration and have nothing left to deliver.
    ///
    /// # Panics
    /// If a promise was broken.
    #[track_caller]
    pub fn check_at_rest(&self) {
        self.judge(&self.violations(true, Some(&[])));
    }

    #[track_caller]
    fn judge(&self, violations: &[Violation]) {
        if !violations.is_empty() {
            let list: String = violations.iter().map(|it| format!("\n  {it}")).collect();
            self.fail(&format!("{} promises broken:{list}", violations.len()));
        }
    }

    /// A hash of every datagram, every handling and every observation so far, with their times.
    pub fn trace_hash(&self) -> u64 {
        self.world.hash()
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

impl<P: Ordered> fmt::Debug for Cluster<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster at {:?}\n{}", self.now(), self.summary())
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::SocketClass;

    use super::*;
    use crate::sequencer::Sequencer;

    const SECOND: Duration = Duration::from_secs(1);

    fn cluster(config: ClusterConfig) -> Cluster<Sequencer> {
        let size = config.hosts;
        Cluster::started(config, move |member, rng, now| {
            Sequencer::new(size, member, rng, now)
        })
    }

    fn everywhere(id: MessageId) -> impl FnMut(&Cluster<Sequencer>) -> bool {
        move |cluster| cluster.alive().all(|host| cluster.has_delivered(host, id))
    }

    /// A run with everything that can go wrong on a network.
    fn rough(seed: u64) -> Cluster<Sequencer> {
        let mut config = ClusterConfig::new(4, seed);
        config.network = NetworkConfig {
            bandwidth: 100_000_000,
            jitter: Duration::from_micros(300),
            loss: 0.1,
            duplication: 0.05,
            reordering: 0.05,
            corruption: 0.02,
            ..NetworkConfig::default()
        };
        let mut cluster = cluster(config);
        cluster.listen(AdversaryConfig::default());
        cluster.set_attacking(true);
        cluster.must(
            "one configuration",
            Cluster::all_in_one_configuration,
            SECOND,
        );
        for number in 0..50 {
            let payload = vec![number; usize::from(number) * 20];
            cluster
                .submit(usize::from(number) % 4, Service::Agreed, payload)
                .expect("the queue has room");
            cluster.run_for(Duration::from_millis(5));
        }
        cluster.run_for(2 * SECOND);
        cluster
    }

    #[test]
    fn messages_of_all_come_in_one_order_at_all() {
        let cluster = rough(1);
        let order =
            |host| -> Vec<MessageId> { cluster.deliveries(host).iter().map(|it| it.id).collect() };
        assert_eq!(order(0).len(), 50);
        assert!((1..4).all(|host| order(host) == order(0)));
        cluster.check_at_rest();
        let third = &cluster.deliveries(2)[10];
        assert!(
            third
                .payload
                .iter()
                .all(|byte| usize::from(*byte) * 20 == third.payload.len())
        );
    }

    #[test]
    fn what_the_network_and_the_adversary_do_changes_counters_only() {
        let mut cluster = rough(2);
        let network = cluster.network().counters();
        assert!(network.lost > 0 && network.duplicated > 0 && network.reordered > 0);
        let total = |count: fn(&NodeCounters) -> u64| -> u64 {
            (0..4).map(|host| count(&cluster.counters(host))).sum()
        };
        assert!(total(|it| it.forged) > network.corrupted / 2);
        assert!(total(|it| it.replayed) > network.duplicated / 2);
        assert!(total(|it| it.malformed) > 0, "cut and scribbled prefixes");
    }

    #[test]
    fn the_same_seed_twice_is_the_same_world() {
        let (one, two, other) = (rough(3), rough(3), rough(4));
        assert_eq!(one.trace_hash(), two.trace_hash());
        assert_eq!(one.events(), two.events());
        assert_ne!(one.trace_hash(), other.trace_hash());
    }

    #[test]
    fn the_hash_tells_worlds_apart_that_differ_in_one_datagram() {
        let run = |drop: bool| {
            let mut cluster = cluster(ClusterConfig::new(3, 5));
            if drop {
                cluster.drop_next(|info| info.class == SocketClass::Token && info.index == 9);
            }
            cluster.run_for(SECOND);
            cluster.trace_hash()
        };
        assert_ne!(run(false), run(true));
    }

    #[test]
    fn a_mesh_works_as_multicast_does() {
        let mut config = ClusterConfig::new(3, 6);
        config.multicast = false;
        let mut cluster = cluster(config);
        cluster.must(
            "one configuration",
            Cluster::all_in_one_configuration,
            SECOND,
        );
        let id = cluster.submit(2, Service::Agreed, "x").expect("room");
        cluster.must("delivery", everywhere(id), SECOND);
    }

    #[test]
    fn a_stopped_process_handles_nothing_and_catches_up() {
        let mut cluster = cluster(ClusterConfig::new(3, 7));
        cluster.must(
            "one configuration",
            Cluster::all_in_one_configuration,
            SECOND,
        );
        cluster.pause(2);
        let id = cluster.submit(0, Service::Agreed, "x").expect("room");
        cluster.run_for(SECOND);
        assert!(cluster.has_delivered(1, id) && !cluster.has_delivered(2, id));
        assert!(!cluster.world.hosts[2].queues_are_empty());
        cluster.resume(2);
        cluster.must("delivery", everywhere(id), Duration::from_millis(1));
    }

    #[test]
    fn a_full_receive_queue_drops() {
        let mut config = ClusterConfig::new(2, 8);
        config.host.token_queue = 3;
        let mut cluster = cluster(config);
        cluster.must(
            "one configuration",
            Cluster::all_in_one_configuration,
            SECOND,
        );
        cluster.pause(1);
        cluster.run_for(SECOND);
        assert_eq!(cluster.world.hosts[1].token.len(), 3);
        assert!(cluster.overflowed(1) > 20);
    }

    #[test]
    fn a_partition_holds_until_it_is_healed() {
        let mut cluster = cluster(ClusterConfig::new(4, 9));
        cluster.must(
            "one configuration",
            Cluster::all_in_one_configuration,
            SECOND,
        );
        cluster.partition(&[&[0, 1]]);
        let id = cluster.submit(1, Service::Agreed, "x").expect("room");
        cluster.run_for(SECOND);
        let have: Vec<bool> = (0..4).map(|host| cluster.has_delivered(host, id)).collect();
        assert_eq!(have, [true, true, false, false]);
        cluster.heal();
        cluster.must("delivery", everywhere(id), SECOND);
    }

    #[test]
    fn a_crash_ends_a_history_and_a_restart_begins_another() {
        let mut cluster = cluster(ClusterConfig::new(2, 10));
        let old = cluster.member(1).expect("started");
        cluster.run_for(SECOND);
        let new = cluster.restart(1);
        assert_eq!(old.node, new.node);
        assert_ne!(old.incarnation, new.incarnation);
        let log = cluster.observations();
        let history = |member| -> Vec<&Observation> {
            let mine = log.iter().filter(|(whose, _)| *whose == member);
            mine.map(|(_, observation)| observation).collect()
        };
        assert_eq!(history(old).last(), Some(&&Observation::Crash));
        assert_eq!(history(new), [&Observation::Start]);
        assert!(cluster.deliveries(1).is_empty());
    }

    #[test]
    fn a_host_that_left_is_silent() {
        let mut cluster = cluster(ClusterConfig::new(2, 11));
        cluster.run_for(SECOND);
        cluster.leave(1);
        assert_eq!(cluster.status(1), Status::Left);
        let sealed = cluster.counters(1).sealed;
        cluster.run_for(SECOND);
        assert_eq!(cluster.counters(1).sealed, sealed);
        assert_eq!(cluster.alive().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn a_fast_clock_ticks_more_often() {
        let mut cluster = cluster(ClusterConfig::new(2, 12));
        cluster.set_clock_rate(1, ClockRate::off_by_ppm(500_000));
        cluster.run_for(10 * SECOND);
        // A hello every 20 ms of local time, and member 1 adds its announcements.
        assert!((745..755).contains(&cluster.counters(1).sealed));
    }

    #[test]
    #[should_panic(expected = "promises broken")]
    fn the_judge_is_told_of_everything() {
        let mut cluster = cluster(ClusterConfig::new(3, 14));
        cluster.must(
            "one configuration",
            Cluster::all_in_one_configuration,
            SECOND,
        );
        cluster.partition(&[&[2]]);
        cluster.submit(0, Service::Safe, "x").expect("room");
        cluster.run_for(SECOND);
        // The sequencer does not know what safe means: host 2 has nothing.
        cluster.check_at_rest();
    }

    #[test]
    #[should_panic(expected = "its seed is 13")]
    fn a_failure_says_how_to_see_it_again() {
        let mut cluster = cluster(ClusterConfig::new(2, 13));
        cluster.must("what never comes", |_| false, SECOND);
    }
}
