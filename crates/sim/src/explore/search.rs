//! The search: depth first, each state once, with sleep sets (P. Godefroid, *Partial-Order Methods
//! for the Verification of Concurrent Systems*, LNCS 1032, 1996, ch. 5).

use std::collections::BTreeMap;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};

use groupcast_core::{Ordered, Time, TransmitBuf};

use super::act::{Act, Acts, Label};
use super::judge::Judge;
use super::world::World;
use super::{ExploreConfig, ExploreReport, Found};

/// Every this many steps the caller is asked whether to go on.
const ASKED: u64 = 4_096;

/// A search under way.
pub(super) struct Search<'a, P> {
    config: &'a ExploreConfig,
    began: Time,
    /// What a member says of itself when it is calm.
    calm: &'static str,
    judge: Judge,
    seen: BTreeMap<u64, Seen>,
    stack: Vec<Frame<P>>,
    report: ExploreReport,
    buf: TransmitBuf,
}

/// A state that was reached.
struct Seen {
    /// The steps that were not taken from here, because they were taken before another one with
    /// which they commute.
    asleep: Box<[u64]>,
    /// It is on the path that is followed now.
    open: bool,
}

/// A state on the path that is followed.
struct Frame<P> {
    world: World<P>,
    fingerprint: u64,
    acts: Vec<Act>,
    /// How many of them were taken.
    taken: usize,
    asleep: Vec<Label>,
}

impl<'a, P: Ordered + Clone + Hash> Search<'a, P> {
    pub(super) fn new(config: &'a ExploreConfig, root: &World<P>) -> Self {
        Self {
            config,
            began: root.now,
            calm: root.sites[0].engine.status().state,
            judge: Judge::new(config.contract),
            seen: BTreeMap::new(),
            stack: Vec::new(),
            report: ExploreReport::default(),
            buf: TransmitBuf::new(1, 0, 0),
        }
    }

    pub(super) fn run(
        mut self,
        root: World<P>,
        goes_on: &mut dyn FnMut(&ExploreReport) -> bool,
    ) -> ExploreReport {
        let mut found = self.arrive(root, Vec::new()).err();
        let mut stopped = false;
        while found.is_none() && !stopped && !self.stack.is_empty() {
            found = self.step().err();
            if self.report.steps.is_multiple_of(ASKED) {
                self.count();
                stopped = !goes_on(&self.report);
            }
        }
        self.count();
        self.report.complete = found.is_none() && !stopped;
        self.report.found = found.map(|violations| Found {
            violations,
            steps: self.steps(),
        });
        self.report
    }

    fn count(&mut self) {
        self.report.states = self.seen.len() as u64;
        self.report.histories = self.judge.judged();
    }

    /// The steps of the path that is followed.
    fn steps(&self) -> Vec<String> {
        let taken = self.stack.iter().filter_map(|frame| {
            let act = &frame.acts[frame.taken.checked_sub(1)?];
            Some(act.describe(&frame.world, self.config))
        });
        taken.collect()
    }

    /// Takes the next step from the last state of the path, or goes back.
    fn step(&mut self) -> Result<(), Vec<String>> {
        let Some(frame) = self.stack.last_mut() else {
            return Ok(());
        };
        let Some(act) = frame.acts.get(frame.taken).cloned() else {
            if let Some(seen) = self.seen.get_mut(&frame.fingerprint) {
                seen.open = false;
            }
            self.stack.pop();
            return Ok(());
        };
        frame.taken += 1;
        self.report.steps += 1;
        let label = act.label(&frame.world, self.config);
        let asleep = frame.asleep.iter().copied();
        let asleep = asleep.filter(|other| label.is_some_and(|label| label.commutes(*other)));
        let asleep = asleep.collect();
        frame.asleep.extend(label.filter(|_| self.config.reduce));
        let (world, buf) = (&frame.world, &mut self.buf);
        let next = catch_unwind(AssertUnwindSafe(|| world.after(&act, self.config, buf)));
        match next {
            Ok(next) => self.arrive(next, asleep),
            Err(_) => Err(vec!["an engine panics".to_owned()]),
        }
    }

    /// Judges `world` and follows the path on from it, if that was not done before.
    fn arrive(&mut self, world: World<P>, mut asleep: Vec<Label>) -> Result<(), Vec<String>> {
        self.judge.is_done(&world)?;
        let time = world.now.since(self.began);
        if time > self.config.within {
            let missing = self.judge.missing(&world);
            let late = format!("the path has no end after {time:?}");
            return Err([late].into_iter().chain(missing).collect());
        }
        let fingerprint = world.fingerprint();
        let mut acts = world.acts(self.config);
        let key_of = |act: &Act| act.label(&world, self.config).map(|label| label.key);
        match self.seen.get_mut(&fingerprint) {
            Some(seen) if seen.open => return Err(vec!["a state comes again on its path".into()]),
            Some(seen) => {
                let is_asleep = |key: u64| asleep.iter().any(|label| label.key == key);
                let before = seen.asleep.iter().copied();
                let (both, wake): (Vec<u64>, Vec<u64>) = before.partition(|key| is_asleep(*key));
                if wake.is_empty() {
                    return Ok(());
                }
                acts.retain(|act| key_of(act).is_some_and(|key| wake.contains(&key)));
                asleep.retain(|label| both.contains(&label.key));
                *seen = Seen {
                    asleep: both.into(),
                    open: true,
                };
            }
            None => {
                acts.retain(|act| !asleep.iter().any(|label| Some(label.key) == key_of(act)));
                let passages = self.passages(&world)?;
                let stuck = acts.is_empty() && passages.acts.is_empty() && !passages.end;
                if stuck && asleep.is_empty() && world.copies.is_empty() {
                    return Err(vec!["nothing happens any more".into()]);
                }
                self.report.ends += u64::from(passages.end);
                acts.extend(passages.acts);
                let seen = Seen {
                    asleep: asleep.iter().map(|label| label.key).collect(),
                    open: true,
                };
                self.seen.insert(fingerprint, seen);
            }
        }
        self.report.depth = self.report.depth.max(self.stack.len() as u64);
        self.report.time = self.report.time.max(time);
        self.stack.push(Frame {
            world,
            fingerprint,
            acts,
            taken: 0,
            asleep,
        });
        Ok(())
    }

    /// The steps in which time passes. Before an end, those who live are calm.
    fn passages(&mut self, world: &World<P>) -> Result<Acts, Vec<String>> {
        let (judge, calm) = (&mut self.judge, self.calm);
        world.passages(self.config, |world| {
            let is_calm = |site: usize| world.sites[site].engine.status().state == calm;
            Ok(judge.is_done(world)? && world.alive().all(is_calm))
        })
    }
}
