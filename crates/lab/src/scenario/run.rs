//! A scenario over its seeds: this many at a time, the results in the order of the seeds.
//!
//! A run is one thread and knows nothing of the others, so how many there are changes nothing but
//! how long it takes. A thread that is far ahead waits, so that results do not pile up behind a
//! slow seed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use groupcast_bench::measure::clock;
use rustix::time::{ClockId, clock_gettime};

use super::files::{Files, WriteError};
use super::record::{Record, Sheet};
use super::world::{self, Outcome};
use super::{Scenario, ScenarioError, Summary};

/// How to run a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunOptions {
    /// One run each.
    pub seeds: Range<u64>,
    /// Runs at the same time, at least one; no more than there are seeds.
    pub jobs: usize,
    /// Where the results go; nowhere if there is none.
    pub out: Option<PathBuf>,
}

/// What a run tells while it runs. Calls come from several threads.
pub trait Watch: Sync {
    /// The run of `seed` has come so far: 1 to 100, each once and in order.
    fn progress(&self, seed: u64, percent: u16);
}

/// What came out of all runs.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// All that does not depend on the machine.
    pub summary: Summary,
    /// How long it took.
    pub wall: Duration,
    /// Processor time of all runs.
    pub busy: Duration,
    /// Events of all runs.
    pub events: u64,
    /// Packets that crossed a link, of all runs.
    pub hops: u64,
    /// Runs that broke a promise: seed, how many times, and the first of them.
    pub broken: Vec<(u64, usize, String)>,
}

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The scenario makes no sense with one of the seeds.
    #[error("with seed {seed}: {error}")]
    Scenario {
        /// Which seed.
        seed: u64,
        /// What is wrong.
        error: ScenarioError,
    },
    /// The results cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Runs `scenario` with every seed.
///
/// # Errors
/// That of the lowest seed that has one. What was written until then stays as `*.partial`; earlier
/// results stay.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    watch: &dyn Watch,
) -> Result<RunReport, RunError> {
    let begun = clock::now();
    let files = options.out.as_deref().map(Files::new).transpose()?;
    // More threads than runs would have nothing to do.
    let runs = options.seeds.end.saturating_sub(options.seeds.start);
    let jobs = (options.jobs as u64).min(runs).max(1);
    let line = Line {
        state: Mutex::new(State {
            next: options.seeds.start,
            writes: options.seeds.start,
            waiting: BTreeMap::new(),
            files,
            total: Total::default(),
            error: None,
        }),
        moved: Condvar::new(),
        ahead_max: jobs.saturating_mul(2),
        end: options.seeds.end,
    };
    let work = || {
        while let Some(seed) = line.take() {
            let is_first = seed == options.seeds.start;
            let captures = options.out.as_deref().filter(|_| is_first);
            let began = processor_time();
            let outcome = world::run(scenario, seed, captures, watch);
            line.give(seed, outcome, processor_time().saturating_sub(began));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let state = line.state.into_inner().expect("no holder panics");
    if let Some(error) = state.error {
        return Err(error);
    }
    let total = state.total;
    let summary = Summary::new(scenario, options.seeds.clone(), total.runs, total.captures);
    if let Some(files) = state.files {
        let mut text = serde_json::to_string_pretty(&summary).expect("numbers and names are JSON");
        text.push('\n');
        files.finish(&text)?;
    }
    Ok(RunReport {
        summary,
        wall: Duration::from_nanos(clock::now() - begun),
        busy: total.busy,
        events: total.events,
        hops: total.hops,
        broken: total.broken,
    })
}

/// Processor time of this thread: other work on the machine does not count.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The seeds in line: who is next, and whose results are written next.
struct Line {
    state: Mutex<State>,
    /// A seed was written, or nothing more will be.
    moved: Condvar,
    ahead_max: u64,
    end: u64,
}

struct State {
    /// The next seed to run.
    next: u64,
    /// The next seed to write.
    writes: u64,
    /// Results of later seeds.
    waiting: BTreeMap<u64, Result<Outcome, RunError>>,
    files: Option<Files>,
    total: Total,
    error: Option<RunError>,
}

#[derive(Default)]
struct Total {
    runs: Vec<Record>,
    captures: Vec<String>,
    events: u64,
    hops: u64,
    busy: Duration,
    broken: Vec<(u64, usize, String)>,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// The next seed to run, once it is not too far ahead.
    fn take(&self) -> Option<u64> {
        let mut state = self.lock();
        while state.error.is_none()
            && state.next < self.end
            && state.next - state.writes >= self.ahead_max
        {
            state = self.moved.wait(state).expect("no holder panics");
        }
        if state.error.is_some() || state.next >= self.end {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    /// Takes the outcome of a seed and writes those whose turn it is.
    fn give(&self, seed: u64, outcome: Result<Outcome, RunError>, busy: Duration) {
        let mut state = self.lock();
        state.total.busy += busy;
        state.waiting.insert(seed, outcome);
        while state.error.is_none() {
            let turn = state.writes;
            let Some(outcome) = state.waiting.remove(&turn) else {
                break;
            };
            let State { files, total, .. } = &mut *state;
            let written = outcome.and_then(|outcome| {
                total
                    .add(turn, outcome, files.as_mut())
                    .map_err(RunError::from)
            });
            state.error = written.err();
            state.writes += 1;
        }
        self.moved.notify_all();
    }
}

impl Total {
    fn add(
        &mut self,
        seed: u64,
        outcome: Outcome,
        files: Option<&mut Files>,
    ) -> Result<(), WriteError> {
        self.events += outcome.events;
        self.hops += outcome.hops;
        if let Some(first) = outcome.violations.first() {
            self.broken
                .push((seed, outcome.violations.len(), first.clone()));
        }
        if let Some(files) = files {
            let mut runs = Sheet::default();
            runs.push(&outcome.run);
            files.append("runs.csv", &runs)?;
            for (name, sheet) in &outcome.sheets {
                files.append(name, sheet)?;
            }
            for name in outcome.captures {
                files.captured(name.clone());
                self.captures.push(name);
            }
        }
        self.runs.push(outcome.run);
        Ok(())
    }
}
