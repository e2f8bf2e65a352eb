//! An experiment: a topology, hosts on it, sources that send, changes on the way, and what was
//! measured.
//!
//! ```text
//! let mut experiment = Experiment::new(ExperimentConfig::new(topology, inspect, 42), factory);
//! experiment.start_all();
//! experiment.add_source(0, SourceConfig::new(Arrivals::Constant { rate: 100.0 }, 210, Service::Agreed))?;
//! experiment.schedule(Time::ZERO + Duration::from_secs(5), Change::Process(3, ProcessChange::Crash));
//! experiment.run_to(Time::ZERO + Duration::from_secs(10));
//! let measures = experiment.finish()?;
//! ```
//!
//! It is what scenario files and the laboratory are made of; tests of protocols use a
//! [`Cluster`](crate::Cluster). Hosts are named by their index in [`Topology::hosts`]. All of it
//! follows from the seed.

mod change;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write};
use std::sync::Arc;

use groupcast_check::{Contract, Violation};
use groupcast_core::trace::Inspect;
use groupcast_core::{ConfigurationKind, Instrumented, MemberId, Node, Rng, Time};

pub use self::change::{Change, ProcessChange};
use self::sources::Sources;
use crate::clock::ClockRate;
use crate::engine::Agenda;
use crate::fabric::{Fabric, FabricConfig, Multicast};
use crate::flow::{FlowConfig, FlowUse};
use crate::host::config::HostConfig;
use crate::host::{HostLoad, Status};
use crate::link::pcap::Pcap;
use crate::measure::{HostUse, LinkUse, Measures, Meter, MeterConfig};
use crate::topology::{Topology, Way};
use crate::world::{CHANNEL, Factory, Measuring, Medium, World, WorldNotice};

/// The settings of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentConfig {
    /// The seed of everything random.
    pub seed: u64,
    /// The network, and where the hosts are.
    pub topology: Topology,
    /// How a datagram to the group finds its way; `None`: there is no multicast, the group is a
    /// mesh of unicast.
    pub multicast: Option<Multicast>,
    /// Hosts that multicast does not reach although the network has it: they send and get unicast
    /// copies, and know the addresses of all others. Default none.
    pub without_multicast: BTreeSet<usize>,
    /// Whether the other hosts know the addresses of those, too, and invite them. Default false:
    /// those without multicast have to be heard first.
    pub invites: bool,
    /// The multicast addresses of hosts that have another than 0, by index: a multicast reaches the
    /// hosts with the sender's address and no others. Only with [`Multicast::SourceTrees`].
    /// Default: all have 0.
    pub addresses: BTreeMap<usize, u32>,
    /// The largest IP packet, in bytes. Default 1,500.
    pub mtu: u32,
    /// Whether a process waits while its host's own link is full (a socket's send buffer). Default
    /// true; ns-2 drops.
    pub senders_wait: bool,
    /// What the hosts are like.
    pub hosts: HostConfig,
    /// The hosts that differ from `hosts`, by index.
    pub overrides: BTreeMap<usize, HostConfig>,
    /// How many other processes each process knows when all start together, drawn at random; all of
    /// them if there are fewer. Both have admitted each other. This costs neither time nor traffic.
    /// Default 0: processes find each other by themselves.
    pub acquainted: usize,
    /// What is measured, and how finely.
    pub measure: MeterConfig,
    /// Reads the protocol's datagrams.
    pub inspect: Inspect,
    /// Whether the checker judges the run as it goes. It keeps the whole history: memory grows with
    /// every message.
    pub judged: bool,
    /// What the checker holds the histories against. Default: one order for all.
    pub contract: Contract,
}

impl ExperimentConfig {
    /// Hosts on `topology` whose work costs no time, multicast along source trees; the run is not
    /// judged.
    pub fn new(topology: Topology, inspect: Inspect, seed: u64) -> Self {
        Self {
            seed,
            topology,
            multicast: Some(Multicast::SourceTrees),
            without_multicast: BTreeSet::new(),
            invites: false,
            addresses: BTreeMap::new(),
            mtu: 1500,
            senders_wait: true,
            hosts: HostConfig::free(),
            overrides: BTreeMap::new(),
            acquainted: 0,
            measure: MeterConfig::default(),
            inspect,
            judged: false,
            contract: Contract::Ordered,
        }
    }
}

/// Something that the experiment itself does at a time.
#[derive(Debug)]
enum Plan {
    Change(Change),
    /// A source is asked for a message.
    Emit(usize),
    /// The warm-up is over: what links and hosts did until now is left out of the measures.
    Warm,
}

/// A world that is measured.
pub struct Experiment<P> {
    world: World<P>,
    plans: Agenda<Plan>,
    sources: Sources,
    acquainted: usize,
    /// What links, hosts and flows did during the warm-up.
    before: (Vec<LinkUse>, Vec<HostUse>, Vec<FlowUse>),
}

impl<P: Instrumented> Experiment<P> {
    /// An experiment whose processes run what `factory` makes. None runs yet.
    pub fn new(
        config: ExperimentConfig,
        factory: impl Fn(MemberId, Rng, Time) -> P + Send + Sync + 'static,
    ) -> Self {
        Self::with_factory(config, Arc::new(factory))
    }

    /// The same, with a factory that several experiments share.
    pub fn with_factory(config: ExperimentConfig, factory: Factory<P>) -> Self {
        let rng = Rng::new(config.seed);
        let warm_up = config.measure.warm_up;
        let hosts = config.topology.hosts().len();
        let fabric = FabricConfig {
            topology: config.topology,
            multicast: config.multicast.unwrap_or(Multicast::SourceTrees),
            mtu: config.mtu,
            senders_wait: config.senders_wait,
        };
        let mut fabric = Fabric::new(fabric, &rng.fork("network"));
        for (host, address) in config.addresses {
            fabric.set_address(host, address);
        }
        let mut world = World::new(
            hosts,
            Medium::Fabric(Box::new(fabric)),
            config.hosts,
            config.multicast.is_some(),
            false,
            factory,
            rng.fork("world"),
        );
        world.judged = config.judged;
        world.judge_by(config.contract);
        world.told = Some(VecDeque::new());
        world.measuring = Some(Measuring {
            inspect: config.inspect,
            meter: Meter::new(hosts, config.measure),
        });
        world.invites = config.invites;
        for host in config.without_multicast {
            world.without_multicast(host);
        }
        for (host, config) in config.overrides {
            world.set_host(host, config);
        }
        let mut plans = Agenda::new();
        if !warm_up.is_zero() {
            plans.push(Time::ZERO + warm_up, Plan::Warm);
        }
        Self {
            world,
            plans,
            sources: Sources::new(rng.fork("sources")),
            acquainted: config.acquainted,
            before: (Vec::new(), Vec::new(), Vec::new()),
        }
    }

    // Time.

    /// The world's time.
    pub fn now(&self) -> Time {
        self.plans.now()
    }

    /// Lets the time until `limit` pass.
    pub fn run_to(&mut self, limit: Time) {
        loop {
            // Every event of the world may have made a plan.
            let next = self.plans.next_at().map_or(limit, |at| at.min(limit));
            if !self.world.step(next) {
                match self.plans.pop_until(next) {
                    Some(plan) => self.perform(plan),
                    None => return self.plans.advance(limit),
                }
            }
            self.hear();
        }
    }

    fn perform(&mut self, plan: Plan) {
        match plan {
            Plan::Change(change) => self.change(change),
            Plan::Emit(source) => self.emit(source),
            Plan::Warm => self.before = self.uses(),
        }
    }

    /// Takes in what the world has reported since the last call.
    fn hear(&mut self) {
        while let Some(told) = self.world.told.as_mut().and_then(VecDeque::pop_front) {
            let now = self.world.now();
            let meter = self.meter();
            match told {
                WorldNotice::Accepted { host, id, payload } => {
                    meter.submitted(now, host, id, &payload);
                }
                WorldNotice::Refused { host, .. } => meter.rejected(now, host),
                WorldNotice::Delivered { host, delivery } => {
                    let from = meter.origin(delivery.id, &delivery.payload);
                    meter.delivered(now, host, delivery.id, &delivery.payload);
                    if let Some(from) = from {
                        self.reply(host, from);
                    }
                }
                WorldNotice::Configured {
                    host,
                    configuration,
                } if configuration.kind == ConfigurationKind::Regular => {
                    meter.configured(now, host, configuration.members.len());
                }
                WorldNotice::Configured { .. } => {}
                WorldNotice::Room { host } => self.room(host),
            }
        }
    }

    // Hosts.

    /// A process begins on every host that has none.
    pub fn start_all(&mut self) {
        self.start_together(0..self.hosts());
    }

    /// A process begins on each of `hosts` that has none; all that run then know each other, as far
    /// as the [configuration](ExperimentConfig::acquainted) says.
    pub fn start_together(&mut self, hosts: impl IntoIterator<Item = usize>) {
        for host in hosts {
            self.start(host);
        }
        self.world.acquaint(self.acquainted);
    }

    /// A process begins on `host`, unless one is alive there.
    pub fn start(&mut self, host: usize) {
        if !self.world.hosts[host].is_alive() {
            let now = self.world.now();
            self.meter().started(now, host);
            self.world.start(host);
            self.room(host);
        }
    }

    fn meter(&mut self) -> &mut Meter {
        let measuring = self.world.measuring.as_mut();
        &mut measuring
            .expect("an experiment is measured until it ends")
            .meter
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.world.hosts.len()
    }

    /// What a host is doing.
    pub fn status(&self, host: usize) -> Status {
        self.world.hosts[host].status
    }

    /// The process of a host, or the last one there was.
    pub fn node(&self, host: usize) -> Option<&Node<P>> {
        self.world.hosts[host].node.as_ref()
    }

    /// How much of its processor and buffers a host has used.
    pub fn load(&self, host: usize) -> HostLoad {
        self.world.hosts[host].load()
    }

    /// The clock of `host` runs at `rate` from now on, also that of its next processes.
    pub fn set_clock_rate(&mut self, host: usize, rate: ClockRate) {
        self.world.set_clock_rate(host, rate);
    }

    // What happens.

    /// A TCP-like flow between two hosts; its number. Processes need not run there, and multicast
    /// need not reach them.
    pub fn add_flow(&mut self, config: FlowConfig) -> usize {
        self.world.add_flow(config)
    }

    /// What each flow did so far.
    pub fn flow_uses(&self) -> Vec<FlowUse> {
        self.world.flow_uses()
    }

    /// `change` happens at `at`, after all else of that moment.
    pub fn schedule(&mut self, at: Time, change: Change) {
        self.plans.push(at, Plan::Change(change));
    }

    /// The packets that leave over `way` go to `pcap`, at most `packets_max`.
    pub fn capture(&mut self, way: Way, pcap: Pcap<Box<dyn Write>>, packets_max: u64) {
        self.world.medium.fabric().tap(way, pcap, packets_max);
    }

    // Results.

    /// How many events have happened.
    pub fn events(&self) -> u64 {
        self.world.events()
    }

    /// How many packets have crossed a link.
    pub fn hops(&mut self) -> u64 {
        self.world.medium.fabric().hops()
    }

    /// The network as it is.
    pub fn fabric(&mut self) -> &Fabric {
        self.world.medium.fabric()
    }

    /// A hash of all that happened: the same configuration and seed give the same.
    pub fn trace_hash(&self) -> u64 {
        self.world.hash()
    }

    /// What the checker has found so far; nothing if the run is not judged.
    pub fn violations(&self) -> Vec<Violation> {
        self.world.violations(false, None)
    }

    /// Ends the experiment: what was measured.
    ///
    /// # Errors
    /// A capture could not be written.
    pub fn finish(mut self) -> io::Result<Measures> {
        self.world.medium.fabric().finish_taps()?;
        let now = self.now();
        let (links, hosts, flows) = self.uses();
        let (links_before, hosts_before, flows_before) = std::mem::take(&mut self.before);
        let links = since(links, &links_before, LinkUse::since);
        let hosts = since(hosts, &hosts_before, HostUse::since);
        let flows = since(flows, &flows_before, FlowUse::since);
        let measuring = self.world.measuring.take();
        let Measuring { meter, .. } = measuring.expect("an experiment is measured until it ends");
        Ok(Measures {
            flows,
            ..meter.finish(now, links, hosts)
        })
    }

    /// What links, hosts and flows did so far.
    fn uses(&mut self) -> (Vec<LinkUse>, Vec<HostUse>, Vec<FlowUse>) {
        let links = self.world.medium.fabric().uses().collect();
        let hosts = (0..self.hosts()).map(|host| self.host_use(host)).collect();
        (links, hosts, self.world.flow_uses())
    }

    fn host_use(&self, host: usize) -> HostUse {
        let HostLoad {
            processor,
            data,
            token,
            ..
        } = self.load(host);
        let mut counters = Vec::new();
        let instance = self.node(host).and_then(|node| node.instance(CHANNEL));
        if let Some(instance) = instance {
            instance.measure(&mut |name, value| counters.push((name, value)));
        }
        HostUse {
            cpu_busy: processor,
            data_buffer_max_bytes: data.bytes_max as u64,
            data_buffer_max_datagrams: data.datagrams_max as u64,
            token_buffer_max_bytes: token.bytes_max as u64,
            token_buffer_max_datagrams: token.datagrams_max as u64,
            overflowed: data.dropped + token.dropped,
            counters,
        }
    }
}

fn since<T>(now: Vec<T>, before: &[T], since: impl Fn(T, &T) -> T) -> Vec<T> {
    let mut before = before.iter();
    now.into_iter()
        .map(|now| match before.next() {
            Some(before) => since(now, before),
            None => now,
        })
        .collect()
}
