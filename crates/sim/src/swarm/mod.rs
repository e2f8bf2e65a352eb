//! The swarm: seeds by the thousand, each a group with a random network, random load and random
//! faults.
//!
//! A seed decides everything, so the seed of a failure is its replay. Each runs in phases:
//!
//! 1. at least a minute of trouble, judged for safety;
//! 2. everything heals, and within a stated time all who live must be in one configuration and
//!    deliver a message of each, which is judged for liveness;
//! 3. in some, one fault lasts for more than a minute: after the first ten seconds configurations
//!    are few, and those whom the fault does not touch go on delivering to each other. It heals,
//!    and the second phase comes again;
//! 4. all are watched in calm, with a little loss at most: the configuration must not change.
//!
//! Of protocols that report what they miss, configurations are not asked for, and a message that is
//! reported counts as one that is delivered.

mod application;
mod coverage;
mod disturb;
mod fault;
mod lasting;
mod long;
mod minimise;
mod progress;
mod resilience;
mod run;
mod scenario;
mod watch;

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use groupcast_check::Contract;
use groupcast_core::family::{Family, Moment, Situation};
use groupcast_core::{Instrumented, Service};

pub use self::application::{Application, Group};
pub use self::coverage::Coverage;
pub use self::fault::{Effect, Fault, FaultKind};
pub use self::lasting::Lasting;
pub use self::resilience::{Crashes, ResilienceReport, crash_at_delivery};
pub use self::run::SeedReport;
pub use self::scenario::{ClosedLoop, Scenario, Submission};
use crate::trace::Trace;
use crate::world::Factory;

/// The bounds within which scenarios are drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct SwarmConfig {
    /// The fewest hosts. Default 2.
    pub hosts_min: usize,
    /// The most hosts. Default 9.
    pub hosts_max: usize,
    /// How long the first phase is. Default 60 s.
    pub duration: Duration,
    /// How many messages are submitted in it. Default 500.
    pub messages: usize,
    /// The longest of them in bytes. Default 100,000.
    pub len_max: usize,
    /// The fewest faults. Default 3.
    pub faults_min: usize,
    /// The most faults; in a storm twice as many. Default 6.
    pub faults_max: usize,
    /// The most jitter of a network. Default 1 ms.
    pub jitter_max: Duration,
    /// The share of scenarios that are five times as long, with hosts that live life upon life and
    /// long pauses. Default 0.
    pub long: f64,
    /// Within which time there must be progress after everything healed. Default 30 s.
    pub progress_within: Duration,
    /// The most loss that is left after everything healed. Default 2 %.
    pub healed_loss_max: f64,
    /// How long the group then has to come to rest. Default 1 s.
    pub rest: Duration,
    /// What the histories are held against, and what progress means: one configuration that
    /// delivers a message of each; without configurations, a message of each delivered everywhere;
    /// with gaps, a message of each delivered or reported everywhere; nothing where nothing is
    /// promised. Default: one order for all.
    pub contract: Contract,
    /// Whether members that live together for a while know of each other: then they owe an account
    /// of the first message, too. Not so where a member knows few of the others. Only with gaps.
    /// Default false.
    pub acquainted: bool,
    /// What messages are promised, each as often as the others. Default: all services, in a mix for
    /// rings.
    pub services: Option<Vec<Service>>,
    /// In which share of the scenarios a fault lasts, after all have recovered from the others.
    /// Default
    /// 0.
    pub lasting: f64,
    /// In which share of the scenarios some hosts have no multicast, though the others have it.
    /// Default 0.
    pub without_multicast: f64,
    /// In which share of the scenarios there are no faults. Default 0.
    pub calm: f64,
    /// Moments of the protocol that faults may wait for. Default none.
    pub moments: &'static [Moment],
    /// Measures that stay zero at every member. Default none.
    pub zeros: &'static [&'static str],
    /// Events after which a world is taken for one that spins. Default 50 million.
    pub events_max: u64,
    /// What the line that runs a seed again says beside the seed, such as `--protocol bulk`.
    /// Default nothing.
    pub options: String,
}

impl Default for SwarmConfig {
    fn default() -> Self {
        Self {
            hosts_min: 2,
            hosts_max: 9,
            duration: Duration::from_secs(60),
            messages: 500,
            len_max: 100_000,
            faults_min: 3,
            faults_max: 6,
            jitter_max: Duration::from_millis(1),
            long: 0.0,
            progress_within: Duration::from_secs(30),
            healed_loss_max: 0.02,
            rest: Duration::from_secs(1),
            contract: Contract::Ordered,
            acquainted: false,
            services: None,
            lasting: 0.0,
            without_multicast: 0.0,
            calm: 0.0,
            moments: &[],
            zeros: &[],
            events_max: 50_000_000,
            options: String::new(),
        }
    }
}

impl SwarmConfig {
    /// The settings that `family` asks for.
    pub fn of(family: &Family) -> Self {
        Self {
            messages: family.trial.messages,
            faults_max: family.trial.faults_max,
            jitter_max: family.trial.jitter_max,
            long: family.trial.long,
            len_max: family.trial.len_max,
            progress_within: family.trial.progress_within,
            rest: family.trial.rest,
            contract: family.contract,
            services: family.trial.services.map(<[Service]>::to_vec),
            lasting: family.trial.lasting,
            without_multicast: family.trial.without_multicast,
            calm: family.trial.calm,
            moments: family.trial.moments,
            zeros: family.trial.zeros,
            ..Self::default()
        }
    }
}

/// Makes the group of a scenario, so that settings of the protocol can differ from seed to seed.
type Maker<P> = Arc<dyn Fn(&Scenario) -> Group<P> + Send + Sync>;
/// Within which time a scenario's group makes progress after healing.
type Patience = Arc<dyn Fn(&Scenario) -> Duration + Send + Sync>;

/// A swarm over one protocol.
pub struct Swarm<P> {
    config: SwarmConfig,
    maker: Maker<P>,
    patience: Option<Patience>,
}

impl Swarm<Box<dyn Instrumented>> {
    /// The swarm of `family`, each seed with the settings that the family draws for it; one of its
    /// bugs is planted in all if `plant` names one. `config` is [`SwarmConfig::of`] the family, or
    /// a variation of it.
    pub fn of(family: &'static Family, plant: Option<&'static str>, config: SwarmConfig) -> Self {
        let situation = move |scenario: &Scenario| Situation {
            seed: scenario.seed,
            hosts: scenario.hosts,
            calm: scenario.calm,
            plant,
        };
        Self::new(config, move |scenario| family.vary(&situation(scenario)))
            .patient(move |scenario| family.progress_within(&situation(scenario)))
    }
}

impl<P: Instrumented + 'static> Swarm<P> {
    /// A swarm of scenarios after `config`, whose processes come from the factories of `maker`.
    pub fn new(
        config: SwarmConfig,
        maker: impl Fn(&Scenario) -> Factory<P> + Send + Sync + 'static,
    ) -> Self {
        Self::of_groups(config, move |scenario| Group::plain(maker(scenario)))
    }

    /// A swarm of scenarios after `config` in the groups of `maker`, whose applications say what
    /// submissions mean.
    pub fn of_groups(
        config: SwarmConfig,
        maker: impl Fn(&Scenario) -> Group<P> + Send + Sync + 'static,
    ) -> Self {
        Self {
            config,
            maker: Arc::new(maker),
            patience: None,
        }
    }

    /// The same, in which the settings of a scenario say within which time there is progress, where
    /// that is sooner than the configuration says.
    #[must_use]
    pub fn patient(
        mut self,
        patience: impl Fn(&Scenario) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.patience = Some(Arc::new(patience));
        self
    }

    /// Runs one seed.
    pub fn run_seed(&self, seed: u64) -> SeedReport {
        self.run_scenario(&self.scenario(seed), None)
    }

    /// What `seed` decides.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let mut scenario = Scenario::new(&self.config, seed);
        if let Some(patience) = &self.patience {
            let least = patience(&scenario);
            scenario.progress_within = scenario.progress_within.min(least);
        }
        scenario
    }

    /// Runs one scenario, which tells `trace` what happens.
    pub fn run_scenario(&self, scenario: &Scenario, trace: Option<Trace>) -> SeedReport {
        run::run(&self.config, scenario, (self.maker)(scenario), trace)
    }

    /// A smaller scenario that fails too, found by at most `trials` runs, from one that fails.
    pub fn minimise(&self, scenario: &Scenario, trials: usize) -> Scenario {
        minimise::minimise(scenario, trials, |candidate| {
            !self.run_scenario(candidate, None).violations.is_empty()
        })
    }

    /// Runs `seeds` on `jobs` threads and calls `done` with each report, in the order in which they
    /// finish. If `stop_early`, no more seeds are begun after one that failed.
    pub fn run_range(
        &self,
        seeds: Range<u64>,
        jobs: usize,
        stop_early: bool,
        done: &(dyn Fn(&SeedReport) + Sync),
    ) -> RangeReport {
        let next = AtomicU64::new(seeds.start);
        let stopped = AtomicBool::new(false);
        let total = Mutex::new(RangeReport::default());
        let work = || {
            while !stopped.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    break;
                }
                let report = self.run_seed(seed);
                if stop_early && !report.violations.is_empty() {
                    stopped.store(true, Ordering::Relaxed);
                }
                done(&report);
                total.lock().expect("no holder panics").add(report);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(work);
            }
        });
        let mut total = total.into_inner().expect("no holder panics");
        total.failures.sort_by_key(|report| report.seed);
        total
    }
}

impl<P> fmt::Debug for Swarm<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swarm")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// The results of a range of seeds.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RangeReport {
    /// How many ran.
    pub seeds: u64,
    /// How many failed.
    pub failed: u64,
    /// The reports of those that failed, by seed; at most [`RangeReport::FAILURES_MAX`].
    pub failures: Vec<SeedReport>,
    /// Sum of virtual time.
    pub virtual_time: Duration,
    /// The longest time from healing to progress.
    pub recovery_max: Duration,
    /// Sum of it.
    pub recovery_sum: Duration,
    /// Sum of events.
    pub events: u64,
    /// Sum of accepted messages.
    pub accepted: u64,
    /// Sum of refused messages.
    pub refused: u64,
    /// Sum of faults.
    pub faults: u64,
    /// Transitions against faults.
    pub coverage: Coverage,
    /// The trace hashes of all seeds, combined so that the order does not matter.
    pub trace_hash: u64,
}

impl RangeReport {
    /// How many failures are kept whole.
    pub const FAILURES_MAX: usize = 20;

    fn add(&mut self, report: SeedReport) {
        self.seeds += 1;
        self.virtual_time += report.virtual_time;
        self.recovery_max = self.recovery_max.max(report.recovery);
        self.recovery_sum += report.recovery;
        self.events += report.events;
        self.accepted += report.accepted;
        self.refused += report.refused;
        self.faults += report.faults as u64;
        self.coverage.merge(&report.coverage);
        self.trace_hash = self.trace_hash.wrapping_add(report.trace_hash);
        if !report.violations.is_empty() {
            self.failed += 1;
            if self.failures.len() < Self::FAILURES_MAX {
                self.failures.push(report);
            }
        }
    }
}

/// The line that runs a seed again with these options.
pub fn replay(seed: u64, options: &str) -> String {
    let space = if options.is_empty() { "" } else { " " };
    format!(
        "cargo xtask swarm --seeds {seed}..{}{space}{options} --trace",
        seed + 1
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use groupcast_core::SubmitError;

    use super::*;
    use crate::cluster::Cluster;
    use crate::sequencer::Sequencer;

    /// Short, calm scenarios for a protocol that survives no fault.
    fn calm() -> SwarmConfig {
        SwarmConfig {
            duration: Duration::from_secs(25),
            messages: 60,
            len_max: 5_000,
            faults_min: 0,
            faults_max: 0,
            progress_within: Duration::from_secs(3),
            ..SwarmConfig::default()
        }
    }

    fn swarm(config: SwarmConfig) -> Swarm<Sequencer> {
        Swarm::new(config, |scenario| {
            let size = scenario.hosts;
            Arc::new(move |member, rng, now| Sequencer::new(size, member, rng, now))
        })
    }

    /// Notes whether it was asked for its verdict at peace.
    struct Asked(Arc<Mutex<Vec<bool>>>);

    impl<P: Instrumented> Application<P> for Asked {
        fn submit(
            &mut self,
            _: &mut Cluster<P>,
            _: usize,
            _: &Submission,
            _: Bytes,
        ) -> Result<(), SubmitError> {
            Ok(())
        }

        fn violations(&mut self, _: &mut Cluster<P>, at_peace: bool) -> Vec<String> {
            self.0.lock().unwrap().push(at_peace);
            Vec::new()
        }
    }

    #[test]
    fn an_application_knows_whether_all_came_together_before_its_verdict() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let verdicts = Arc::clone(&asked);
        let config = SwarmConfig {
            messages: 0,
            ..calm()
        };
        let swarm = Swarm::<Sequencer>::of_groups(config, move |scenario| {
            let size = scenario.hosts;
            Group {
                factory: Arc::new(move |member, rng, now| Sequencer::new(size, member, rng, now)),
                application: Box::new(Asked(Arc::clone(&verdicts))),
            }
        });
        // A message takes some time.
        let hurried = |seed| {
            if seed == 0 {
                Duration::from_secs(3)
            } else {
                Duration::ZERO
            }
        };
        let swarm = swarm.patient(move |scenario| hurried(scenario.seed));
        let violations = [0, 1].map(|seed| swarm.run_seed(seed).violations);
        assert!(
            violations[0].is_empty() && !violations[1].is_empty(),
            "{violations:?}"
        );
        assert_eq!(*asked.lock().unwrap(), [true, false]);
    }

    #[test]
    fn without_faults_even_a_fixed_sequencer_survives() {
        let report = swarm(calm()).run_range(0..20, 2, false, &|_| ());
        let failed = report.failures.first().map(|it| &it.violations);
        assert_eq!(failed, None);
        assert_eq!(report.seeds, 20);
        assert!(report.accepted > 600, "{} accepted", report.accepted);
        let submitted = |seed| {
            let scenario = Scenario::new(&calm(), seed);
            let looped = scenario.loops.iter().map(|it| u64::from(it.messages));
            scenario.load.len() as u64 + looped.sum::<u64>()
        };
        let submitted: u64 = (0..20).map(submitted).sum();
        assert_eq!(report.accepted + report.refused, submitted);
        let operational = report.coverage.transitions().next().expect("all came up");
        let (total, met) = report.coverage.of(&operational, FaultKind::Crash);
        assert!(total >= 40 && met == 0);
    }

    #[test]
    fn a_seed_decides_everything() {
        let faulty = SwarmConfig {
            faults_min: 2,
            faults_max: 3,
            ..calm()
        };
        let swarm = swarm(faulty);
        for seed in 0..5 {
            assert_eq!(swarm.run_seed(seed), swarm.run_seed(seed));
        }
        let hash = |jobs| swarm.run_range(0..8, jobs, false, &|_| ()).trace_hash;
        assert_eq!(hash(1), hash(2));
    }

    #[test]
    fn a_crash_is_too_much_for_it_and_the_swarm_says_so() {
        let faulty = SwarmConfig {
            faults_min: 3,
            faults_max: 4,
            ..calm()
        };
        let swarm = swarm(faulty);
        let report = swarm.run_range(0..30, 2, true, &|_| ());
        let failure = report.failures.first().expect("crashes are frequent");
        assert!(failure.violations[0].contains("no common configuration"));
        let smallest = swarm.minimise(&swarm.scenario(failure.seed), 60);
        assert_eq!(smallest.faults.len(), 1, "{smallest}");
    }

    #[test]
    fn a_panic_is_a_violation_of_its_seed() {
        let swarm: Swarm<Sequencer> = Swarm::new(calm(), |_| {
            Arc::new(|_, _, _| panic!("on purpose: this is what the test is about"))
        });
        let report = swarm.run_seed(1);
        assert!(report.violations[0].contains("on purpose"));
    }

    #[test]
    fn scenarios_differ_and_have_what_was_asked_for() {
        let config = SwarmConfig::default();
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let scenario = Scenario::new(&config, seed);
            assert!((2..=9).contains(&scenario.hosts));
            // A storm has twice as many, and a series comes on top.
            let series = scenario.hosts.max(fault::FLAPS.end as usize - 1);
            let faults = config.faults_min..=2 * config.faults_max + series;
            assert!(faults.contains(&scenario.faults.len()));
            assert_eq!(scenario.load.len(), 500);
            kinds.extend(scenario.faults.iter().map(|fault| fault.kind));
            assert_ne!(scenario, Scenario::new(&config, seed + 1));
        }
        assert_eq!(
            kinds.len(),
            FaultKind::ALL.len() - 1,
            "all but restarts begin by themselves"
        );
    }
}
