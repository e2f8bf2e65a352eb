//! One scenario, from the first start to the verdict: safety under faults, progress after healing,
//! a fault that lasts, calm.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use bytes::Bytes;
use groupcast_check::Contract;
use groupcast_core::{Instrumented, MessageId, Rng, Service, Time};

use super::application::{Application, Group};
use super::coverage::Coverage;
use super::disturb::{Client, Moments, Plan};
use super::fault::{Fault, FaultKind};
use super::scenario::Scenario;
use super::{SwarmConfig, replay};
use crate::adversary::AdversaryConfig;
use crate::clock::ClockRate;
use crate::cluster::{Cluster, ClusterConfig};
use crate::trace::Trace;

/// What became of a seed.
#[derive(Clone, PartialEq, Debug)]
pub struct SeedReport {
    /// The seed that was run.
    pub seed: u64,
    /// How many hosts there were.
    pub hosts: usize,
    /// How many faults there were.
    pub faults: usize,
    /// What went wrong: broken promises, no progress, a panic. Empty if all is well.
    pub violations: Vec<String>,
    /// A hash of all that happened; 0 after a panic.
    pub trace_hash: u64,
    /// Time that passed in the world.
    pub virtual_time: Duration,
    /// Time that the group took after healing until all had delivered a message of each.
    pub recovery: Duration,
    /// Events in the world.
    pub events: u64,
    /// Messages that were accepted.
    pub accepted: u64,
    /// Messages that were not, because a queue was full or no process ran.
    pub refused: u64,
    /// Transitions against faults.
    pub coverage: Coverage,
}

/// Runs `scenario`. A panic inside is a violation.
pub(crate) fn run<P: Instrumented>(
    config: &SwarmConfig,
    scenario: &Scenario,
    group: Group<P>,
    trace: Option<Trace>,
) -> SeedReport {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        Run::new(config, scenario, group, trace).finish()
    }));
    caught.unwrap_or_else(|panic| SeedReport {
        seed: scenario.seed,
        hosts: scenario.hosts,
        faults: scenario.faults.len(),
        violations: vec![format!("a panic: {}", message(panic.as_ref()))],
        trace_hash: 0,
        virtual_time: Duration::ZERO,
        recovery: Duration::ZERO,
        events: 0,
        accepted: 0,
        refused: 0,
        coverage: Coverage::default(),
    })
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

pub(super) struct Run<'a, P> {
    pub(super) config: &'a SwarmConfig,
    pub(super) scenario: &'a Scenario,
    pub(super) cluster: Cluster<P>,
    pub(super) application: Box<dyn Application<P>>,
    pub(super) rng: Rng,
    pub(super) plan: Plan,
    /// The scenario's; one that waited for a moment says when it came.
    pub(super) faults: Vec<Fault>,
    pub(super) moments: Moments,
    pub(super) clients: Vec<Client>,
    /// All payloads are slices of it.
    material: Bytes,
    pub(super) accepted: u64,
    pub(super) refused: u64,
}

impl<'a, P: Instrumented> Run<'a, P> {
    fn new(
        config: &'a SwarmConfig,
        scenario: &'a Scenario,
        group: Group<P>,
        trace: Option<Trace>,
    ) -> Self {
        let cluster_config = ClusterConfig {
            network: scenario.network.clone(),
            host: scenario.host.clone(),
            multicast: scenario.multicast,
            without_multicast: scenario.without_multicast.clone(),
            keep_payloads: false,
            events_max: config.events_max,
            contract: config.contract,
            replay: replay(scenario.seed, &config.options),
            ..ClusterConfig::new(scenario.hosts, scenario.seed)
        };
        let mut cluster = Cluster::with_factory(cluster_config, group.factory);
        if let Some(trace) = trace {
            cluster.trace(trace);
        }
        for (host, ppm) in scenario.clocks.iter().enumerate() {
            cluster.set_clock_rate(host, ClockRate::off_by_ppm(*ppm));
        }
        let replays = |fault: &Fault| fault.kind == FaultKind::Replay;
        if scenario.faults.iter().any(replays) {
            cluster.listen(AdversaryConfig::default());
        }
        let mut rng = Rng::new(scenario.seed).fork("run");
        let lens = scenario.load.iter().map(|it| it.len);
        let loops = scenario.loops.iter().map(|it| it.len);
        let longest = lens.chain(loops).max().unwrap_or(0);
        let material: Vec<u8> = (0..longest + 256).map(|_| rng.next_u64() as u8).collect();
        Self {
            config,
            scenario,
            cluster,
            application: group.application,
            rng,
            plan: Plan::default(),
            faults: scenario.faults.clone(),
            moments: Moments::default(),
            clients: Vec::new(),
            material: material.into(),
            accepted: 0,
            refused: 0,
        }
    }

    fn finish(mut self) -> SeedReport {
        self.disturb();
        self.heal();
        let mut recovery = Duration::ZERO;
        let mut progress = self.recover(&mut recovery);
        if let (Ok(_), Some(lasting)) = (&progress, &self.scenario.lasting) {
            progress = match self.endure(lasting) {
                Ok(()) => self.recover(&mut recovery),
                Err(broken) => Err(broken),
            };
        }
        let violations = self.verdict(progress);
        let mut coverage = Coverage::default();
        coverage.count(self.cluster.transitions(), &self.faults);
        SeedReport {
            seed: self.scenario.seed,
            hosts: self.scenario.hosts,
            faults: self.faults.len(),
            violations,
            trace_hash: self.cluster.trace_hash(),
            virtual_time: self.cluster.now() - Time::ZERO,
            recovery,
            events: self.cluster.events(),
            accepted: self.accepted,
            refused: self.refused,
            coverage,
        }
    }

    /// Everything is well from now on: all who live come together. `longest` becomes the time that
    /// it took, if that is longer.
    fn recover(&mut self, longest: &mut Duration) -> Result<Vec<MessageId>, String> {
        let healed = self.cluster.now();
        let limit = healed + self.scenario.progress_within;
        let progress = match self.config.contract {
            Contract::Ordered
            | Contract::OrderedEarly
            | Contract::OrderedTogether
            | Contract::Accounted => self.await_progress(limit),
            Contract::Gapped => self.await_accounts(limit),
            Contract::Unreliable => Ok(Vec::new()),
        };
        *longest = (*longest).max(self.cluster.now() - healed);
        progress
    }

    /// `len` bytes.
    pub(super) fn payload(&mut self, len: usize) -> Bytes {
        let from = self.rng.below(256) as usize;
        self.material.slice(from..from + len)
    }

    /// One of the services that are asked for; of `usual`, where all are.
    pub(super) fn service(&mut self, usual: &[Service]) -> Service {
        let services = self.config.services.as_deref().unwrap_or(usual);
        self.rng.pick(services).copied().unwrap_or(usual[0])
    }

    /// Everything is well again, but for the clocks and a little loss, and most of the hosts come
    /// back.
    fn heal(&mut self) {
        self.cluster.note(format_args!("everything heals"));
        let network = &self.scenario.network;
        self.cluster.heal();
        self.cluster.set_attacking(false);
        self.cluster.network().config_mut().duplication = network.duplication;
        self.cluster
            .set_loss(network.loss.min(self.config.healed_loss_max));
        for host in 0..self.scenario.hosts {
            self.cluster.set_host(host, self.scenario.host.clone());
            self.cluster.resume(host);
            if !self.cluster.is_alive(host) && self.rng.chance(0.7) {
                self.cluster.start(host);
            }
        }
        if self.cluster.alive().next().is_none() {
            self.cluster.start(0);
        }
    }

    pub(super) fn first(&self) -> usize {
        self.cluster.alive().next().unwrap_or(0)
    }

    fn verdict(&mut self, progress: Result<Vec<MessageId>, String>) -> Vec<String> {
        let mut violations = Vec::new();
        let at_rest = match progress {
            Ok(mut probes) => {
                if self.config.contract.has_configurations() {
                    violations.extend(self.watch_calm(&mut probes).err());
                }
                let limit = self.cluster.now() + self.scenario.progress_within;
                let done = self.application.finish(&mut self.cluster, limit);
                violations.extend(done.err());
                self.cluster.run_for(self.config.rest);
                Some(probes)
            }
            Err(stuck) => {
                violations.push(stuck);
                None
            }
        };
        let judged = self
            .cluster
            .violations(at_rest.is_some(), at_rest.as_deref());
        violations.extend(judged.iter().map(ToString::to_string));
        let told = (0..self.scenario.hosts).filter(|host| self.cluster.name_in_use(*host));
        violations.extend(told.map(|host| {
            format!("h{host} was told that its name is in use, though nobody else ever has it")
        }));
        violations.extend(self.counted_faults());
        let at_peace = at_rest.is_some();
        violations.extend(self.application.violations(&mut self.cluster, at_peace));
        violations
    }

    /// The measures that are to stay zero, and did not.
    fn counted_faults(&self) -> Vec<String> {
        let zeros = self.config.zeros;
        let mut faults = Vec::new();
        for host in 0..self.scenario.hosts {
            let Some(member) = self.cluster.protocol(host).filter(|_| !zeros.is_empty()) else {
                continue;
            };
            member.measure(&mut |name, value| {
                if value > 0 && zeros.contains(&name) {
                    faults.push(format!(
                        "h{host} counts a fault of another member: {name} {value}"
                    ));
                }
            });
        }
        faults
    }
}
