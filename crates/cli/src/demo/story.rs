//! The steps of the demo: each does something, waits for what must follow, and prints what
//! happened.

use std::time::{Duration, Instant};

use groupcast_check::{CheckReport, Violation};
use groupcast_core::Rng;

use super::diary::{Diary, Tally};
use super::member::Command;
use super::report::{DemoReport, Event, Load, millis};
use super::stage::{DemoStage, kind_word};
use crate::failure::Failure;

/// The story of one run.
pub(crate) struct Story<'a> {
    stage: DemoStage,
    report: &'a DemoReport,
    rng: Rng,
    messages: u64,
    /// All members, by index.
    all: Vec<usize>,
    /// The member that is killed and started again.
    victim: usize,
    began: Instant,
    steps: usize,
    /// The violations found while the group was alive and quiet.
    violations: Vec<Violation>,
}

impl<'a> Story<'a> {
    /// How many messages must be delivered in a configuration before the story goes on.
    const ENOUGH: u64 = 100;
    /// While the story unfolds, the group submits a message this often.
    const FLOW: Duration = Duration::from_millis(1);
    /// How often the load is tried at most, if the machine pauses members during it.
    const LOADS_MAX: usize = 3;

    /// A story with `members` members on `stage` and `messages` messages of load.
    pub(crate) fn new(
        stage: DemoStage,
        report: &'a DemoReport,
        rng: &Rng,
        members: u8,
        messages: u64,
    ) -> Self {
        let mut rng = rng.fork("story");
        let all: Vec<usize> = (0..usize::from(members)).collect();
        Self {
            stage,
            report,
            messages,
            victim: rng.below(members.into()) as usize,
            rng,
            all,
            began: Instant::now(),
            steps: 0,
            violations: Vec::new(),
        }
    }

    /// Tells the story; returns whether the judge found no violation.
    pub(crate) fn run(mut self) -> Result<bool, Failure> {
        self.start()?;
        self.load()?;
        self.kill()?;
        self.restart()?;
        self.partition()?;
        self.merge()?;
        self.leave()?;
        Ok(self.verdict())
    }

    fn step(&mut self, name: &'static str, title: String, note: &'static str) {
        self.steps += 1;
        self.report.tell(&Event::Step {
            number: self.steps,
            name,
            title,
            note,
        });
    }

    fn start(&mut self) -> Result<(), Failure> {
        let count = self.all.len();
        self.step("start", format!("{count} members start, in any order"), "");
        let mut order = self.all.clone();
        shuffle(&mut self.rng, &mut order);
        let cause = Instant::now();
        for index in &order {
            self.stage.start(*index)?;
        }
        let started = order.iter().map(|index| self.stage.names(&[*index]));
        self.report.tell(&Event::Started {
            members: started.flatten().collect(),
        });
        let all = &self.all;
        self.stage
            .wait("all members to form one configuration", |stage| {
                stage.is_together(all)
            })?;
        self.tell_last_configuration(cause);
        Ok(())
    }

    fn load(&mut self) -> Result<(), Failure> {
        let messages = self.messages;
        self.step(
            "load",
            format!("Everybody talks at once: {messages} messages, agreed, safe, causal, fifo"),
            "",
        );
        for _ in 0..Self::LOADS_MAX {
            self.stage.mark();
            let cause = Instant::now();
            self.deliver_load()?;
            let disturbances = self.stage.installed(&self.all).len();
            self.settle(vec![self.all.clone()])?;
            if disturbances == 0 {
                return self.tell_load(cause);
            }
            self.report.tell(&Event::Disturbed {
                configurations: disturbances,
            });
        }
        Err(
            Failure::failed("the members were excluded by turns in every attempt at the load")
                .help("this machine is too busy for so many members: try fewer"),
        )
    }

    /// Submits the load, and waits until all members have delivered it or the configuration
    /// changes.
    fn deliver_load(&mut self) -> Result<(), Failure> {
        let (messages, members) = (self.messages, self.all.len() as u64);
        self.stage.tell(&self.all, |index| {
            let share = messages / members + u64::from((index as u64) < messages % members);
            Command::Burst(share)
        });
        let bar = self.report.progress(messages);
        let (mut slowest, mut deadline) = (0, Instant::now() + DemoStage::PATIENCE);
        while slowest < messages && self.stage.installed(&self.all).is_empty() {
            self.stage
                .take_some(deadline, "the load to be delivered everywhere")?;
            let delivered = |index: &usize| self.stage.diary(*index).tally().messages;
            let now = self.all.iter().map(delivered).min().unwrap_or(0);
            if now > slowest {
                slowest = now;
                deadline = Instant::now() + DemoStage::PATIENCE;
                bar.set_position(now);
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn tell_load(&self, cause: Instant) -> Result<(), Failure> {
        let diaries = || self.all.iter().map(|index| self.stage.diary(*index));
        let last = diaries().filter_map(Diary::last_delivery).max();
        let took = last.map_or(Duration::ZERO, |last| last - cause);
        let bytes = diaries().map(Diary::bytes).max().unwrap_or(0);
        self.tell_order(
            self.stage.tallies(&self.all, |diary| Some(diary.tally())),
            Some(Load::new(self.messages, bytes, took)),
        )
    }

    fn kill(&mut self) -> Result<(), Failure> {
        let victim = self.victim;
        let name = self.stage.names(&[victim]).concat();
        self.step(
            "kill",
            format!("{name} is killed without a word, while messages flow"),
            "The others miss it, finish what was sent before together (the transitional configuration), and go on \
             (the regular one).",
        );
        self.flow();
        let all = &self.all;
        self.stage.wait("messages to flow", |stage| {
            stage.have_delivered(all, Self::ENOUGH)
        })?;
        self.stage.mark();
        self.stage.tell(&[victim], |_| Command::Kill);
        self.stage
            .wait("the victim to end", |stage| stage.ended(victim).is_some())?;
        self.report.tell(&Event::Killed { member: name });
        let cause = self.stage.ended(victim).unwrap_or_else(Instant::now);
        self.go_on("the others to go on without it", vec![self.others()])?;
        self.tell_configurations(&self.others(), cause);
        self.tell_resumed(&self.others(), cause);
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Failure> {
        let name = self.stage.names(&[self.victim]).concat();
        self.step(
            "restart",
            format!("{name} starts again: to the others a new member"),
            "",
        );
        self.stage.mark();
        let cause = Instant::now();
        self.stage.start(self.victim)?;
        self.report.tell(&Event::Started {
            members: self.stage.names(&[self.victim]),
        });
        self.flow();
        self.go_on("the new incarnation to be let in", vec![self.all.clone()])?;
        self.tell_last_configuration(cause);
        self.tell_resumed(&self.all, cause);
        Ok(())
    }

    fn partition(&mut self) -> Result<(), Failure> {
        self.step(
            "partition",
            "The network is cut in two: both sides go on".to_owned(),
            "A filter in front of each member drops what the other side sends. Each side has an order of its own now.",
        );
        let sides = self.choose_sides();
        self.stage.mark();
        let cause = Instant::now();
        self.stage.cut(&sides);
        self.report.tell(&Event::Cut {
            sides: sides.iter().map(|side| self.stage.names(side)).collect(),
        });
        self.go_on("both sides to go on by themselves", sides.to_vec())?;
        for side in &sides {
            self.tell_configurations(side, cause);
            self.tell_resumed(side, cause);
        }
        self.settle(sides.to_vec())?;
        sides.iter().try_for_each(|side| self.tell_delivered(side))
    }

    fn merge(&mut self) -> Result<(), Failure> {
        self.step(
            "merge",
            "The cut heals: the two groups become one".to_owned(),
            "Each side finishes its own messages in a transitional configuration; then there is one order again.",
        );
        self.stage.mark();
        let cause = Instant::now();
        self.stage.tell(&self.all, |_| Command::Hear(None));
        self.report.tell(&Event::Healed);
        self.flow();
        self.go_on("the two sides to merge", vec![self.all.clone()])?;
        self.tell_configurations(&self.all, cause);
        self.tell_resumed(&self.all, cause);
        self.settle(vec![self.all.clone()])?;
        self.tell_delivered(&self.all)?;
        self.violations = self.stage.judge_quiet().violations;
        Ok(())
    }

    fn leave(&mut self) -> Result<(), Failure> {
        self.step(
            "leave",
            "All leave gracefully, one of them first".to_owned(),
            "Who says good-bye is not missed: the others go on at once, without a time-out.",
        );
        self.flow();
        let first = self.rng.below(self.all.len() as u64) as usize;
        let rest: Vec<usize> = self.all.iter().copied().filter(|i| *i != first).collect();
        self.stage.mark();
        let cause = Instant::now();
        self.leave_together(&[first])?;
        self.go_on("the others to go on", vec![rest.clone()])?;
        self.tell_configurations(&rest, cause);
        self.tell_resumed(&rest, cause);
        self.settle(vec![rest.clone()])?;
        self.leave_together(&rest)
    }

    fn leave_together(&mut self, leavers: &[usize]) -> Result<(), Failure> {
        let cause = Instant::now();
        self.stage.tell(leavers, |_| Command::Leave);
        self.stage.wait("a graceful leave to be done", |stage| {
            leavers.iter().all(|index| stage.ended(*index).is_some())
        })?;
        let left = leavers.iter().map(|index| self.stage.diary(*index).left());
        let last = left.max().flatten();
        self.report.tell(&Event::Left {
            members: self.stage.names(leavers),
            after_ms: last.map_or(0.0, |last| millis(last - cause)),
        });
        Ok(())
    }

    fn verdict(&mut self) -> bool {
        self.step(
            "verdict",
            "The verdict of the checker, which has read along at every member".to_owned(),
            "",
        );
        let CheckReport {
            observers,
            messages,
            deliveries,
            configurations,
            violations,
            ..
        } = self.stage.judge();
        for violation in violations {
            if !self.violations.contains(&violation) {
                self.violations.push(violation);
            }
        }
        let clean = self.violations.is_empty();
        self.report.tell(&Event::Verdict {
            clean,
            observers,
            configurations,
            messages,
            deliveries,
            violations: std::mem::take(&mut self.violations),
            took_ms: millis(self.began.elapsed()),
        });
        clean
    }

    /// Has every living member submit a message now and then, from now on.
    fn flow(&mut self) {
        let alive = self.stage.alive();
        let every = Self::FLOW * alive.len() as u32;
        self.stage.tell(&alive, |_| Command::Flow(every));
    }

    /// Has all members stop submitting, and waits until each side has delivered all of its
    /// messages.
    fn settle(&mut self, sides: Vec<Vec<usize>>) -> Result<(), Failure> {
        self.stage.tell(&sides.concat(), |_| Command::Rest);
        self.stage
            .wait("everything to be delivered everywhere", |stage| {
                stage.is_quiet(&sides)
            })
    }

    /// Waits until each side is a separate configuration and delivers messages.
    fn go_on(&mut self, what: &str, sides: Vec<Vec<usize>>) -> Result<(), Failure> {
        self.stage.wait(what, |stage| {
            sides
                .iter()
                .all(|side| stage.is_together(side) && stage.have_delivered(side, Self::ENOUGH))
        })
    }

    fn others(&self) -> Vec<usize> {
        let others = self.all.iter().copied();
        others.filter(|index| *index != self.victim).collect()
    }

    /// Chooses the sides of the cut: up to half of the members are cut off.
    fn choose_sides(&mut self) -> [Vec<usize>; 2] {
        let mut order = self.all.clone();
        shuffle(&mut self.rng, &mut order);
        let smaller = 1 + self.rng.below(order.len() as u64 / 2) as usize;
        let mut rest = order.split_off(smaller);
        order.sort_unstable();
        rest.sort_unstable();
        [rest, order]
    }

    /// Prints the configurations that `indices` installed since the mark.
    fn tell_configurations(&self, indices: &[usize], cause: Instant) {
        for (installed, at) in self.stage.installed(indices) {
            self.report.tell(&Event::Configuration {
                kind: kind_word(&installed),
                config: installed.id.to_string(),
                short: self.stage.call(installed.id),
                members: self.stage.names_of(&installed.members),
                at: self.stage.names(&at),
                after_ms: millis(installed.at.saturating_duration_since(cause)),
            });
        }
    }

    /// Prints the configuration that all are in, and not those before it.
    fn tell_last_configuration(&self, cause: Instant) {
        let regular = |index: &usize| self.stage.diary(*index).regular().cloned();
        let last = self
            .all
            .iter()
            .filter_map(regular)
            .max_by_key(|last| last.at);
        let Some(last) = last else { return };
        self.report.tell(&Event::Configuration {
            kind: kind_word(&last),
            config: last.id.to_string(),
            short: self.stage.call(last.id),
            members: self.stage.names_of(&last.members),
            at: self.stage.names(&self.all),
            after_ms: millis(last.at.saturating_duration_since(cause)),
        });
    }

    /// Prints when the last of `indices` delivered its first message in its configuration.
    fn tell_resumed(&self, indices: &[usize], cause: Instant) {
        let first = |index: &usize| self.stage.diary(*index).regular()?.first_delivery;
        let Some(last) = indices.iter().filter_map(first).max() else {
            return;
        };
        self.report.tell(&Event::Resumed {
            at: self.stage.names(indices),
            after_ms: millis(last.saturating_duration_since(cause)),
        });
    }

    /// Prints what the members of `side`, which is quiet, have delivered in their configuration.
    fn tell_delivered(&self, side: &[usize]) -> Result<(), Failure> {
        let tallies = self
            .stage
            .tallies(side, |diary| Some(diary.regular()?.tally));
        self.tell_order(tallies, None)
    }

    /// Prints which members delivered what. If members of one configuration disagree, the story
    /// ends.
    fn tell_order(
        &self,
        tallies: Vec<(Tally, Vec<usize>)>,
        load: Option<Load>,
    ) -> Result<(), Failure> {
        for (tally, at) in &tallies {
            self.report.tell(&Event::Delivered {
                at: self.stage.names(at),
                messages: tally.messages,
                early: tally.early,
                order: format!("{:016x}", tally.digest()),
                load,
            });
        }
        match tallies.len() {
            1 => Ok(()),
            orders => Err(Failure::failed(format!(
                "the members of one configuration delivered in {orders} different orders"
            ))),
        }
    }
}

/// Shuffles `items`; every order is equally likely.
fn shuffle(rng: &mut Rng, items: &mut [usize]) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last as u64 + 1) as usize);
    }
}
