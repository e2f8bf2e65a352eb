//! Chaos: real daemons under load, to which everything happens that happens to hosts.
//!
//! A run is rounds. In each, publishers and subscribers run on every host while daemons are killed,
//! stopped and restarted, hosts are cut off, made deaf to some others and lossy, packets get
//! smaller, disks are full and clocks step (`plan`). At its end all is healed: the daemons must
//! be one group again, every subscriber must get a message of every host, and the subscribers must
//! agree. At the end of the run `groupcast check` judges all histories, and the memory of a daemon
//! that lived through all of it must have been flat.

mod load;
pub(in crate::live) mod plan;
mod preload;
pub(in crate::live) mod site;

use std::collections::BTreeMap;
use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::Link;

use self::load::Load;
use self::plan::{Planned, draw};
use self::preload::Preload;
use self::site::{Site, events, with_plan};
use super::cluster::{Cluster, MULTICAST};
use super::memory::Memory;
use super::{BrokenPromise, Outcome};

/// After a round all daemons are one group again within this.
const TOGETHER_WITHIN: Duration = Duration::from_secs(20);
/// How long judging the histories may take.
const JUDGE_WITHIN: Duration = Duration::from_secs(600);
/// How often daemons and publishers are looked at while faults come and go.
const LOOK: Duration = Duration::from_millis(100);

/// What a run is.
#[derive(Clone, Copy, Debug)]
pub struct Chaos {
    /// How many hosts.
    pub hosts: usize,
    /// How long, without the last judgement; the last round is not cut short.
    pub length: Duration,
    /// How long faults come and go in a round.
    pub round: Duration,
    /// The seed of the first round; each further one's is one more.
    pub seed: u64,
}

/// What a run showed.
pub struct ChaosReport {
    /// How many rounds.
    pub rounds: u64,
    /// How often each fault came.
    pub faults: BTreeMap<&'static str, u64>,
    /// Messages that subscribers got.
    pub messages: u64,
    /// How long the daemons took to be one group after each round.
    pub together: Vec<Duration>,
    /// Memory of the daemon that was never ended, in bytes: the most at the end of a round, in the
    /// first third of the rounds and in the last.
    pub memory: (u64, u64),
    /// What `groupcast check` said.
    pub verdict: String,
}

impl fmt::Display for ChaosReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self
            .faults
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        let (median, worst) = super::failover::median_and_max(&self.together);
        write!(
            f,
            "{} rounds: {}; {} messages at subscribers; one group again after {:.1} s in the median, {:.1} s at \
             worst; memory {:.1} MB, then {:.1} MB\n{}",
            self.rounds,
            faults.join(", "),
            self.messages,
            median.as_secs_f64(),
            worst.as_secs_f64(),
            self.memory.0 as f64 * 1e-6,
            self.memory.1 as f64 * 1e-6,
            self.verdict
        )
    }
}

/// Runs rounds until the time is up; `tell` gets a line a round.
pub fn run(chaos: Chaos, mut tell: impl FnMut(String)) -> Outcome<ChaosReport> {
    let mut cluster = Cluster::new(chaos.hosts, Link::Gbit1)?;
    let preloads = Preload::install(&mut cluster)?;
    let mut site = Site::new(cluster, preloads, &["--multicast", MULTICAST]);
    site.start_all()?;
    site.cluster.await_members(&site.hosts())?;
    let mut memory = Memory::default();
    let (mut faults, mut together) = (BTreeMap::new(), Vec::new());
    let (mut messages, mut rounds) = (0, 0);
    let begun = Instant::now();
    while begun.elapsed() < chaos.length {
        let seed = chaos.seed + rounds;
        let plan = draw(chaos.hosts, chaos.round, seed);
        let outcome = round(&mut site, &plan, rounds);
        let (took, count) = outcome.map_err(|error| with_plan(error, seed, &plan))?;
        memory.sample(site.cluster.daemon(1)?.usage()?.resident);
        rounds += 1;
        messages += count;
        together.push(took);
        for planned in &plan {
            *faults.entry(planned.fault.name()).or_default() += 1;
        }
        tell(format!(
            "seed {seed}: {} faults, {count} messages, one group after {:.2} s, {:.1} MB",
            plan.len(),
            took.as_secs_f64(),
            memory.last() as f64 * 1e-6
        ));
    }
    let memory = memory.judge()?;
    let verdict = site.cluster.judge_histories(JUDGE_WITHIN)?;
    // 3: some histories end early, for want of space on a disk that was full.
    if !matches!(verdict.code, Some(0 | 3)) {
        return Err(BrokenPromise(verdict.text).into());
    }
    site.cluster.pass();
    Ok(ChaosReport {
        rounds,
        faults,
        messages,
        together,
        memory,
        verdict: verdict.text,
    })
}

/// Carries out a plan. Returns how long the daemons took to be one group afterwards, and how many
/// messages subscribers got.
fn round(site: &mut Site, plan: &[Planned], round: u64) -> Outcome<(Duration, u64)> {
    let mut load = Load::begin(&mut site.cluster, round)?;
    let begun = Instant::now();
    for (at, begins, planned) in events(plan) {
        while begun.elapsed() < at {
            sleep(LOOK.min(at.saturating_sub(begun.elapsed())));
            look_after(site, &mut load)?;
        }
        match begins {
            true => site.inflict(planned)?,
            false => site.end(planned)?,
        }
    }
    let healed = Instant::now();
    let all = site.hosts();
    site.cluster.await_members_within(TOGETHER_WITHIN, &all)?;
    let took = healed.elapsed();
    look_after(site, &mut load)?;
    let messages = load.end(&mut site.cluster)?;
    Ok((took, messages))
}

/// Fails if a daemon that should run does not; starts publishers again that ended with their
/// daemon.
fn look_after(site: &mut Site, load: &mut Load) -> Outcome {
    for host in site.hosts() {
        site.look_after(host)?;
        if site.is_up(host) {
            load.look_after(&mut site.cluster, host)?;
        }
    }
    Ok(())
}
