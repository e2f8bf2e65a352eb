//! One scenario, from the first start to the verdict: first safety under faults, then progress
//! after healing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use bytes::Bytes;
use groupcast_check::Contract;
use groupcast_core::{ConfigId, Instrumented, MessageId, Rng, Service, SubmitError, Time};

use super::coverage::Coverage;
use super::scenario::{Scenario, Submission};
use super::{SwarmConfig, replay};
use crate::adversary::AdversaryConfig;
use crate::clock::ClockRate;
use crate::cluster::{Cluster, ClusterConfig};
use crate::host::Status;
use crate::trace::Trace;
use crate::world::Factory;

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
    factory: Factory<P>,
    trace: Option<Trace>,
) -> SeedReport {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        Run::new(config, scenario, factory, trace).finish()
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

/// What happens to the cluster from outside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Start(usize),
    Begin(usize),
    End(usize),
    Submit(usize),
    /// No fault has begun so far, and all members have had the time to hear of each other.
    Acquaint,
}

struct Run<'a, P> {
    config: &'a SwarmConfig,
    scenario: &'a Scenario,
    cluster: Cluster<P>,
    rng: Rng,
    /// All payloads are slices of it.
    material: Bytes,
    accepted: u64,
    refused: u64,
}

impl<'a, P: Instrumented> Run<'a, P> {
    /// How long the group is watched without faults: its configuration must not change then.
    const CALM: Duration = Duration::from_secs(4);
    /// Within which time a message is delivered everywhere while there are no faults.
    const CALM_LATENCY_MAX: Duration = Duration::from_secs(2);

    /// How long after the healing members that report what they miss have to meet.
    const MEETING: Duration = Duration::from_secs(5);

    fn new(
        config: &'a SwarmConfig,
        scenario: &'a Scenario,
        factory: Factory<P>,
        trace: Option<Trace>,
    ) -> Self {
        let cluster_config = ClusterConfig {
            network: scenario.network.clone(),
            host: scenario.host.clone(),
            multicast: scenario.multicast,
            keep_payloads: false,
            events_max: config.events_max,
            contract: config.contract,
            replay: replay(scenario.seed, &config.options),
            ..ClusterConfig::new(scenario.hosts, scenario.seed)
        };
        let mut cluster = Cluster::with_factory(cluster_config, factory);
        if let Some(trace) = trace {
            cluster.trace(trace);
        }
        for (host, ppm) in scenario.clocks.iter().enumerate() {
            cluster.set_clock_rate(host, ClockRate::off_by_ppm(*ppm));
        }
        let replays = |fault: &super::Fault| fault.kind == super::FaultKind::Replay;
        if scenario.faults.iter().any(replays) {
            cluster.listen(AdversaryConfig::default());
        }
        let mut rng = Rng::new(scenario.seed).fork("run");
        let longest = scenario.load.iter().map(|it| it.len).max().unwrap_or(0);
        let material: Vec<u8> = (0..longest + 256).map(|_| rng.next_u64() as u8).collect();
        Self {
            config,
            scenario,
            cluster,
            rng,
            material: material.into(),
            accepted: 0,
            refused: 0,
        }
    }

    fn finish(mut self) -> SeedReport {
        self.disturb();
        let healed = self.cluster.now();
        self.heal();
        let limit = healed + self.config.progress_within;
        let progress = match self.config.contract {
            Contract::Ordered | Contract::OrderedEarly | Contract::Accounted => {
                self.await_progress(limit)
            }
            Contract::Gapped => self.await_accounts(limit),
            Contract::Unreliable => Ok(Vec::new()),
        };
        let recovery = self.cluster.now() - healed;
        let violations = self.verdict(progress);
        let mut coverage = Coverage::default();
        coverage.count(self.cluster.transitions(), &self.scenario.faults);
        SeedReport {
            seed: self.scenario.seed,
            hosts: self.scenario.hosts,
            faults: self.scenario.faults.len(),
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

    /// First phase: load and faults, as planned.
    fn disturb(&mut self) {
        let end = Time::ZERO + self.scenario.duration;
        for (at, action) in self.plan() {
            if at >= end {
                break;
            }
            self.cluster.run_to(at);
            self.act(action);
        }
        self.cluster.run_to(end);
    }

    fn plan(&self) -> Vec<(Time, Action)> {
        let scenario = self.scenario;
        let starts = scenario.starts.iter().enumerate();
        let mut plan: Vec<(Time, Action)> = starts
            .map(|(host, at)| (*at, Action::Start(host)))
            .collect();
        for (index, fault) in scenario.faults.iter().enumerate() {
            plan.push((fault.at, Action::Begin(index)));
            plan.extend(fault.until.map(|until| (until, Action::End(index))));
        }
        let load = scenario.load.iter().enumerate();
        plan.extend(load.map(|(index, it)| (it.at, Action::Submit(index))));
        let started = scenario.starts.iter().max().copied().unwrap_or(Time::ZERO);
        let met = started + Self::MEETING;
        let calm = scenario.faults.iter().all(|fault| fault.at >= met);
        if self.config.acquainted && calm {
            plan.push((met, Action::Acquaint));
        }
        plan.sort_by_key(|(at, _)| *at);
        plan
    }

    fn act(&mut self, action: Action) {
        let faults = &self.scenario.faults;
        match action {
            Action::Start(host) => {
                if !self.cluster.is_alive(host) {
                    self.cluster.start(host);
                }
            }
            Action::Begin(index) => {
                self.cluster.note(format_args!("begins: {}", faults[index]));
                faults[index].begin(&mut self.cluster);
            }
            Action::End(index) => {
                self.cluster.note(format_args!("ends: {}", faults[index]));
                faults[index].end(&mut self.cluster);
            }
            Action::Submit(index) => self.submit(self.scenario.load[index]),
            Action::Acquaint => self.cluster.expect_accounts(),
        }
    }

    fn submit(&mut self, submission: Submission) {
        let hosts = self.scenario.hosts;
        let running = (0..hosts)
            .map(|step| (submission.host + step) % hosts)
            .find(|host| self.cluster.status(*host) == Status::Up);
        let from = self.rng.below(256) as usize;
        let payload = self.material.slice(from..from + submission.len);
        let result = running.map(|host| self.cluster.submit(host, submission.service, payload));
        match result {
            Some(Ok(_)) => self.accepted += 1,
            None
            | Some(Err(
                SubmitError::Full { .. } | SubmitError::Leaving | SubmitError::Minority { .. },
            )) => self.refused += 1,
            Some(Err(error)) => panic!("a message of {} bytes: {error}", submission.len),
        }
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
            self.cluster.resume(host);
            if !self.cluster.is_alive(host) && self.rng.chance(0.7) {
                self.cluster.start(host);
            }
        }
        if self.cluster.alive().next().is_none() {
            self.cluster.start(0);
        }
    }

    /// Second phase: all living members come together in one configuration, and a message of each
    /// reaches all. Returns the messages.
    fn await_progress(&mut self, limit: Time) -> Result<Vec<MessageId>, String> {
        loop {
            let left = limit - self.cluster.now();
            let together = |cluster: &Cluster<P>| cluster.all_in_one_configuration();
            if self.config.contract.has_configurations()
                && !self.cluster.run_until_observed(together, left)
            {
                return Err(format!(
                    "no common configuration {:?} after healing: {:?}",
                    self.config.progress_within, self.cluster
                ));
            }
            if let Some(probes) = self.probe(limit)? {
                return Ok(probes);
            }
        }
    }

    /// `None` if the configuration changed meanwhile, so that nothing is owed.
    fn probe(&mut self, limit: Time) -> Result<Option<Vec<MessageId>>, String> {
        let config = self
            .cluster
            .current_configuration(self.first())
            .map(|it| it.id);
        let alive: Vec<usize> = self.cluster.alive().collect();
        let mut probes = Vec::new();
        for host in &alive {
            let services = self.config.services.as_deref();
            let services = services.unwrap_or(&[Service::Agreed, Service::Safe]);
            let service = self.rng.pick(services).copied();
            let service = service.unwrap_or(Service::Agreed);
            match self.cluster.submit(*host, service, "probe") {
                Ok(id) => probes.push(id),
                Err(SubmitError::Full { .. }) => {
                    // Its queue is full of the load: it must drain first.
                    let wait = Duration::from_millis(50).min(limit - self.cluster.now());
                    self.cluster.run_for(wait);
                    if wait.is_zero() {
                        return Err(format!("the queue of host {host} never drains"));
                    }
                    return Ok(None);
                }
                // A leave that began before the healing is not over yet. The others' probes until
                // then are to be delivered too: they must not fill queues.
                Err(SubmitError::Leaving) => {
                    self.cluster.run_for(Duration::from_millis(500));
                    return Ok(None);
                }
                Err(error) => return Err(format!("host {host} refuses a probe: {error}")),
            }
        }
        let left = limit - self.cluster.now();
        let mut missing: Vec<(usize, MessageId)> = alive
            .iter()
            .flat_map(|host| probes.iter().map(|id| (*host, *id)))
            .collect();
        let first = self.first();
        let ended = self.cluster.run_until_observed(
            |cluster| {
                // A member that was still leaving when everything healed must not be waited for.
                missing.retain(|(host, id)| {
                    cluster.is_alive(*host) && !cluster.has_delivered(*host, *id)
                });
                let same = cluster.current_configuration(first).map(|it| it.id) == config;
                missing.is_empty() || !same
            },
            left,
        );
        match (ended, missing.is_empty()) {
            (_, true) => Ok(Some(probes)),
            (true, false) => Ok(None),
            (false, false) => Err(format!(
                "{} messages of after the healing are not delivered within {:?}, {:?} at host {}: {:?}",
                missing.len(),
                self.config.progress_within,
                missing[0].1,
                missing[0].0,
                self.cluster
            )),
        }
    }

    /// Third phase: nothing goes wrong any more but a little loss, and members send now and then,
    /// each as soon as it has seen its last message. The configuration stays as it is, and each
    /// message arrives soon.
    fn watch_calm(&mut self, probes: &mut Vec<MessageId>) -> Result<(), String> {
        let alive: Vec<usize> = self.cluster.alive().collect();
        let before = self.configurations(&alive);
        let end = self.cluster.now() + Self::CALM;
        while self.cluster.now() < end {
            let pause = Duration::from_millis(self.rng.below(400));
            self.cluster.run_for(pause);
            let host = self.rng.pick(&alive).copied().unwrap_or(alive[0]);
            for _ in 0..1 + self.rng.below(40) {
                probes.push(self.say_in_calm(host)?);
            }
        }
        let arrived = |cluster: &Cluster<P>| {
            let mut ids = probes.iter();
            ids.all(|id| alive.iter().all(|host| cluster.has_delivered(*host, *id)))
        };
        let limit = Self::CALM_LATENCY_MAX;
        if !self.cluster.run_until_observed(arrived, limit) {
            return Err("a message of the calm is not delivered everywhere".to_owned());
        }
        if self.configurations(&alive) != before {
            let cluster = &self.cluster;
            return Err(format!("the configuration changed in calm: {cluster:?}"));
        }
        Ok(())
    }

    fn configurations(&self, hosts: &[usize]) -> Vec<Option<ConfigId>> {
        let of = |host: &usize| self.cluster.current_configuration(*host).map(|it| it.id);
        hosts.iter().map(of).collect()
    }

    /// Submits a message at `host` and waits until `host` has delivered it, and a moment longer.
    fn say_in_calm(&mut self, host: usize) -> Result<MessageId, String> {
        let id = self.cluster.submit(host, Service::Agreed, "calm");
        let id = id.map_err(|error| format!("host {host} refuses in calm: {error}"))?;
        let seen = |cluster: &Cluster<P>| cluster.has_delivered(host, id);
        let limit = Self::CALM_LATENCY_MAX;
        if !self.cluster.run_until_observed(seen, limit) {
            return Err(format!("{id:?} is not delivered at its sender in calm"));
        }
        let pause = Duration::from_micros(self.rng.below(2_000));
        self.cluster.run_for(pause);
        Ok(id)
    }

    /// The same without configurations: every living member delivers or reports a message of every
    /// living member.
    fn await_accounts(&mut self, limit: Time) -> Result<Vec<MessageId>, String> {
        // A member that begins only now need not report messages of senders that it has not heard
        // of.
        self.cluster
            .run_for(Self::MEETING.min(limit - self.cluster.now()));
        if self.config.acquainted {
            self.cluster.expect_accounts();
        }
        let mut probes = Vec::new();
        for host in self.cluster.alive().collect::<Vec<usize>>() {
            probes.extend(self.probe_from(host, limit)?.map(|id| (host, id)));
        }
        let hosts = 0..self.scenario.hosts;
        let mut missing: Vec<(usize, usize, MessageId)> = hosts
            .flat_map(|host| probes.iter().map(move |(from, id)| (host, *from, *id)))
            .collect();
        loop {
            let step = Self::MEETING.min(limit - self.cluster.now());
            let ended = self.cluster.run_until_observed(
                |cluster| {
                    missing.retain(|(host, _, id)| {
                        cluster.is_alive(*host) && !cluster.has_accounted_for(*host, *id)
                    });
                    missing.is_empty()
                },
                step,
            );
            let Some((host, from, id)) = missing.first().filter(|_| !ended).copied() else {
                return Ok(probes.into_iter().map(|(_, id)| id).collect());
            };
            if self.cluster.now() >= limit {
                return Err(format!(
                    "{} messages of after the healing are neither delivered nor reported within {:?}, {id:?} at host {host}: {:?}",
                    missing.len(),
                    self.config.progress_within,
                    self.cluster
                ));
            }
            // A member that has not heard of a sender's last message learns of it by the next.
            self.probe_from(from, limit)?;
        }
    }

    /// A message of `host`, unless its process ends meanwhile.
    fn probe_from(&mut self, host: usize, limit: Time) -> Result<Option<MessageId>, String> {
        let services = self.config.services.as_deref().unwrap_or(&[Service::Fifo]);
        let service = self.rng.pick(services).copied().unwrap_or(Service::Fifo);
        // A leave that began before the healing may end, and a queue may have to drain.
        while self.cluster.status(host) == Status::Up {
            match self.cluster.submit(host, service, "probe") {
                Ok(id) => return Ok(Some(id)),
                Err(_) if self.cluster.now() < limit => {
                    self.cluster.run_for(Duration::from_millis(50));
                }
                Err(error) => return Err(format!("host {host} refuses a probe: {error}")),
            }
        }
        Ok(None)
    }

    fn first(&self) -> usize {
        self.cluster.alive().next().unwrap_or(0)
    }

    fn verdict(&mut self, progress: Result<Vec<MessageId>, String>) -> Vec<String> {
        let mut violations = Vec::new();
        let at_rest = match progress {
            Ok(mut probes) => {
                if self.config.contract.has_configurations() {
                    violations.extend(self.watch_calm(&mut probes).err());
                }
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
        violations
    }
}
