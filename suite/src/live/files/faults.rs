//! Transfers that are interrupted at random, and resumed: in the end every file is complete and
//! identical at every receiver, and nothing else is left there.
//!
//! A round sends a new tree to three receivers that run as a service. What happens to it is a
//! schedule from a seed: receivers and the sender get SIGKILL and are started again, hosts are cut
//! off for up to half a minute, frames are lost. The sender is started with the same command until
//! it says that all is done.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process};
use groupcast_core::Rng;

use super::super::Outcome;
use super::{Site, await_event, last_line, leftovers, succeed, tree};

/// Receivers are hosts 2 to this one.
const LAST: usize = 4;
/// How long a round may take, with its longest cut.
const ROUND_MAX: Duration = Duration::from_secs(150);
/// The most transfers that one round may need; if it needs more, something is wrong.
const SENDS_MAX: usize = 12;
/// The pause between a transfer that broke off and the next one.
const AGAIN: Duration = Duration::from_millis(200);
/// How often the processes are looked at.
const LOOK: Duration = Duration::from_millis(2);

/// What happens to a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The receiver at a host gets SIGKILL, and is started again after this time.
    KillReceiver {
        /// The host that is concerned.
        host: usize,
        /// When it is started again.
        back_after: Duration,
    },
    /// The sender gets SIGKILL, and is started again after this time.
    KillSender {
        /// When it is started again.
        back_after: Duration,
    },
    /// A host is cut off for this time.
    Cut {
        /// Which host: 1 is the sender's.
        host: usize,
        /// For how long.
        lasts: Duration,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |duration: &Duration| duration.as_secs_f64();
        match self {
            Self::KillReceiver { host, back_after } => {
                write!(f, "kill {host}, back after {:.1} s", seconds(back_after))
            }
            Self::KillSender { back_after } => {
                write!(f, "kill sender, back after {:.1} s", seconds(back_after))
            }
            Self::Cut { host, lasts } => write!(f, "cut {host} for {:.1} s", seconds(lasts)),
        }
    }
}

/// What a round does, by its seed alone.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Bytes of the tree.
    pub bytes: usize,
    /// Megabits a second of the sender; `None`: it finds its rate.
    pub rate: Option<u64>,
    /// How many of 1,000 frames each receiver loses.
    pub loss: u16,
    /// Whether the tree of the round before is there still, and is replaced.
    pub replaces: bool,
    /// The faults, each with its time since the first start of the sender.
    pub faults: Vec<(Duration, Fault)>,
}

impl Plan {
    /// The plan of `seed`.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork("files under faults");
        let bytes = rng.range(1_500_000..6_000_000) as usize;
        let rate = (!rng.chance(0.2)).then(|| rng.range(20..80));
        let seconds = bytes as f64 * 8e-6 / rate.unwrap_or(200) as f64;
        // A little is added for the start of the sender, and for faults that come when all is done.
        let span = Duration::from_secs_f64(seconds + 0.4);
        let count = rng.range(1..4);
        let mut faults: Vec<(Duration, Fault)> = (0..count)
            .map(|_| (rng.duration(Duration::ZERO, span), Self::fault(&mut rng)))
            .collect();
        faults.sort_by_key(|(at, _)| *at);
        Self {
            bytes,
            rate,
            loss: if rng.chance(0.3) {
                rng.range(5..60) as u16
            } else {
                0
            },
            replaces: rng.chance(0.5),
            faults,
        }
    }

    fn fault(rng: &mut Rng) -> Fault {
        let millis = |rng: &mut Rng, range| Duration::from_millis(rng.range(range));
        match rng.below(3) {
            0 => Fault::KillReceiver {
                host: rng.range(2..LAST as u64 + 1) as usize,
                back_after: millis(rng, 0..2_000),
            },
            1 => Fault::KillSender {
                back_after: millis(rng, 0..1_000),
            },
            _ => {
                let range = match rng.below(100) {
                    0..75 => 100..2_000,
                    75..95 => 2_000..9_000,
                    // Longer than a sender waits for a receiver that is silent.
                    _ => 9_000..30_000,
                };
                Fault::Cut {
                    host: rng.range(1..LAST as u64 + 1) as usize,
                    lasts: millis(rng, range),
                }
            }
        }
    }
}

/// What a round has shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Round {
    /// Faults that came before all was done.
    pub hits: usize,
    /// How often the sender was started.
    pub sends: usize,
    /// From its first start until it said that all is done.
    pub took: Duration,
    /// Receivers on whose disk something of the transfer was left over, as it was completed by a
    /// process that was started later: one more transfer cleared it away.
    pub kept: usize,
}

/// One thing to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Action {
    Kill(usize),
    Start(usize),
    KillSender,
    StartSender,
    Cut(usize),
    Join(usize),
}

impl Action {
    /// Whether a fault begins with it.
    fn is_fault(self) -> bool {
        matches!(self, Self::Kill(_) | Self::KillSender | Self::Cut(_))
    }
}

/// What is to be done for `faults`, in the order of the times.
fn actions(faults: &[(Duration, Fault)]) -> Vec<(Duration, Action)> {
    let mut actions = Vec::new();
    for (at, fault) in faults {
        let at = *at;
        let (first, then, after) = match *fault {
            Fault::KillReceiver { host, back_after } => {
                (Action::Kill(host), Action::Start(host), back_after)
            }
            Fault::KillSender { back_after } => {
                (Action::KillSender, Action::StartSender, back_after)
            }
            Fault::Cut { host, lasts } => (Action::Cut(host), Action::Join(host), lasts),
        };
        actions.push((at, first));
        actions.push((at + after, then));
    }
    actions.sort();
    actions
}

/// A sender, its receivers, and what was done to them.
pub struct Soak {
    site: Site,
    receivers: Vec<Option<Process>>,
    sender: Option<Process>,
    cut: BTreeSet<usize>,
}

impl Soak {
    /// Three receivers that listen.
    pub fn new() -> Outcome<Self> {
        let mut site = Site::new(LAST, Link::Gbit1)?;
        let receivers = (2..=LAST)
            .map(|host| site.receiver(host).map(Some))
            .collect::<Outcome<_>>()?;
        Ok(Self {
            site,
            receivers,
            sender: None,
            cut: BTreeSet::new(),
        })
    }

    /// Runs a round.
    ///
    /// # Errors
    /// If in the end anything is missing, differs or is left over, or a process says what it should
    /// not.
    pub fn round(&mut self, plan: &Plan, seed: u64) -> Outcome<Round> {
        let source = self.source();
        tree::make(&source, plan.bytes, &mut Rng::new(seed))?;
        for host in 2..=LAST {
            self.site.cluster.bed.lose(host, plan.loss)?;
            let there = self.site.out(host).join("tree");
            if !plan.replaces && there.exists() {
                fs::remove_dir_all(there)?;
            }
        }
        let mut round = self.interrupt(plan)?;
        self.restore()?;
        for host in 2..=LAST {
            round.kept += usize::from(!leftovers(&self.site.out(host))?.is_empty());
        }
        if round.kept > 0 {
            let mut again = self.send(plan)?;
            succeed(&mut again, ROUND_MAX)?;
        }
        for host in 2..=LAST {
            let out = self.site.out(host);
            tree::assert_same(&source, &out.join("tree"))?;
            let left = leftovers(&out)?;
            if !left.is_empty() || fs::read_dir(&out)?.count() != 2 {
                return Err(format!("something is left over at host {host}: {left:?}").into());
            }
        }
        Ok(round)
    }

    /// Ends the receivers as their users do: nothing but the tree stays.
    pub fn end(mut self) -> Outcome {
        for (receiver, host) in self.receivers.iter_mut().zip(2..) {
            let receiver = receiver.as_mut().ok_or("a receiver is missing")?;
            receiver.terminate()?;
            succeed(receiver, Duration::from_secs(10))?;
            if fs::read_dir(self.site.out(host))?.count() != 1 {
                return Err(format!("host {host} has something left over").into());
            }
        }
        self.site.cluster.pass();
        Ok(())
    }

    fn source(&self) -> PathBuf {
        self.site.cluster.path("tree").into()
    }

    fn send(&mut self, plan: &Plan) -> Outcome<Process> {
        let source = self.source().display().to_string();
        let required: Vec<String> = (2..=LAST).map(Site::name).collect();
        let rate = plan.rate.map_or("auto".into(), |rate| rate.to_string());
        let required = required.join(",");
        let mut options = vec![source.as_str(), "--require", &required, "--wait", "15"];
        options.extend(["--rate", &rate]);
        self.site.launch(1, "send", &options)
    }

    /// Sends until all is done, while what is planned happens.
    fn interrupt(&mut self, plan: &Plan) -> Outcome<Round> {
        let mut actions = actions(&plan.faults).into_iter().peekable();
        let mut round = Round {
            hits: 0,
            sends: 0,
            took: Duration::ZERO,
            kept: 0,
        };
        let begun = Instant::now();
        // When the sender is to be started; `None` while it is to stay dead.
        let mut start = Some(Duration::ZERO);
        loop {
            let now = begun.elapsed();
            if now > ROUND_MAX {
                return Err(format!("not done after {ROUND_MAX:?}: {}", self.said()?).into());
            }
            while let Some((_, action)) = actions.next_if(|(at, _)| *at <= now) {
                round.hits += usize::from(action.is_fault());
                match action {
                    Action::KillSender => {
                        if let Some(mut sender) = self.sender.take() {
                            sender.kill()?;
                        }
                        start = None;
                    }
                    Action::StartSender => start = start.or(Some(now)),
                    other => self.act(other)?,
                }
            }
            if let Some(sender) = &mut self.sender {
                match sender.wait(Duration::ZERO)?.map(|status| status.code()) {
                    None => {}
                    Some(Some(0)) => break,
                    Some(Some(1 | 3)) => {
                        self.sender = None;
                        start = Some(now + AGAIN);
                    }
                    Some(code) => return Err(format!("send: {code:?}: {}", self.said()?).into()),
                }
            } else if start.is_some_and(|at| at <= now) {
                if round.sends == SENDS_MAX {
                    return Err(format!("not done after {SENDS_MAX} transfers").into());
                }
                round.sends += 1;
                self.sender = Some(self.send(plan)?);
            }
            sleep(LOOK);
        }
        round.took = begun.elapsed();
        let done = last_line(&self.said()?)?;
        // A receiver that had everything, was killed and was started again is counted twice.
        let complete = done["complete"].as_u64().unwrap_or_default();
        if complete < (LAST - 1) as u64 || done["failed"] != serde_json::json!([]) {
            return Err(format!("exit code 0, and yet: {done}").into());
        }
        self.sender = None;
        Ok(round)
    }

    fn act(&mut self, action: Action) -> Outcome {
        match action {
            Action::Kill(host) => {
                if let Some(mut receiver) = self.receivers[host - 2].take() {
                    receiver.kill()?;
                }
            }
            Action::Start(host) if self.receivers[host - 2].is_none() => {
                let out = self.site.out(host).display().to_string();
                self.receivers[host - 2] =
                    Some(self.site.launch(host, "recv", &["--out", &out])?);
            }
            Action::Cut(host) => {
                self.cut.insert(host);
                self.apply_cuts()?;
            }
            Action::Join(host) => {
                self.cut.remove(&host);
                self.apply_cuts()?;
            }
            Action::Start(_) | Action::KillSender | Action::StartSender => {}
        }
        Ok(())
    }

    fn apply_cuts(&self) -> Outcome {
        let alone: Vec<[usize; 1]> = self.cut.iter().map(|host| [*host]).collect();
        let parts: Vec<&[usize]> = alone.iter().map(<[usize; 1]>::as_slice).collect();
        Ok(self.site.cluster.bed.partition(&parts)?)
    }

    /// Everything is as at the beginning of a round.
    fn restore(&mut self) -> Outcome {
        self.cut.clear();
        self.site.cluster.bed.heal()?;
        for host in 2..=LAST {
            self.act(Action::Start(host))?;
            let receiver = self.receivers[host - 2]
                .as_mut()
                .ok_or("it was just started")?;
            if !receiver.is_running() {
                let said = receiver.stderr()?;
                return Err(format!("the receiver at host {host} has ended: {said}").into());
            }
            await_event(receiver, "listening")?;
        }
        Ok(())
    }

    /// What the sender printed.
    fn said(&self) -> Outcome<String> {
        match &self.sender {
            Some(sender) => Ok(format!("{}{}", sender.stderr()?, sender.stdout()?)),
            None => Ok("the sender is not running".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_come_from_their_seed_and_hold_every_kind_of_fault() {
        assert_eq!(Plan::of(7), Plan::of(7));
        let faults: Vec<Fault> = (0..200)
            .flat_map(|seed| Plan::of(seed).faults)
            .map(|(_, fault)| fault)
            .collect();
        let count = |is: fn(&Fault) -> bool| faults.iter().filter(|fault| is(fault)).count();
        assert!(count(|fault| matches!(fault, Fault::KillReceiver { .. })) > 80);
        assert!(count(|fault| matches!(fault, Fault::KillSender { .. })) > 80);
        assert!(count(|fault| matches!(fault, Fault::Cut { host: 1, .. })) > 10);
        let long = |fault: &Fault| matches!(fault, Fault::Cut { lasts, .. } if lasts.as_secs() > 8);
        assert!(count(long) > 1);
    }

    #[test]
    fn what_is_broken_is_mended_later() {
        let millis = Duration::from_millis;
        let cut = |host, lasts| Fault::Cut {
            host,
            lasts: millis(lasts),
        };
        let planned = actions(&[(millis(5), cut(2, 100)), (millis(7), cut(3, 10))]);
        assert_eq!(
            planned,
            [
                (millis(5), Action::Cut(2)),
                (millis(7), Action::Cut(3)),
                (millis(17), Action::Join(3)),
                (millis(105), Action::Join(2)),
            ]
        );
    }
}
