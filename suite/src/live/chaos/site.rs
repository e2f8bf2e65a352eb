//! The hosts of a run of faults, their daemons, and what is done to them.

use std::time::Duration;

use super::plan::{Fault, Planned};
use super::preload::Preload;
use crate::live::Outcome;
use crate::live::cluster::Cluster;

/// How long a daemon that is asked to stop may take.
const LEAVE_WITHIN: Duration = Duration::from_secs(8);
/// What an interface takes unless a fault says otherwise.
const MTU: u16 = 1_500;

/// The hosts and what is done to them.
pub(in crate::live) struct Site {
    pub(in crate::live) cluster: Cluster,
    /// What its daemons are started with, beside name and key.
    options: Vec<String>,
    /// That of host 1 first; empty where no plan has full disks or steps of a clock.
    preloads: Vec<Preload>,
    /// Whether the daemon of each host should be running.
    up: Vec<bool>,
    /// Whether it runs, and is not frozen.
    answers: Vec<bool>,
}

impl Site {
    /// No daemon runs yet. They will be started with `options`.
    pub(in crate::live) fn new(cluster: Cluster, preloads: Vec<Preload>, options: &[&str]) -> Self {
        let hosts = cluster.bed.hosts();
        Self {
            cluster,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            preloads,
            up: vec![false; hosts + 1],
            answers: vec![false; hosts + 1],
        }
    }

    /// The hosts.
    pub(in crate::live) fn hosts(&self) -> Vec<usize> {
        (1..=self.cluster.bed.hosts()).collect()
    }

    /// Whether the daemon of a host should be running.
    pub(in crate::live) fn is_up(&self, host: usize) -> bool {
        self.up[host]
    }

    /// Whether it should be, and is not frozen.
    pub(in crate::live) fn answers(&self, host: usize) -> bool {
        self.answers[host]
    }

    /// Starts the daemons of all hosts.
    pub(in crate::live) fn start_all(&mut self) -> Outcome {
        self.hosts()
            .into_iter()
            .try_for_each(|host| self.start(host))
    }

    fn start(&mut self, host: usize) -> Outcome {
        (self.up[host], self.answers[host]) = (true, true);
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        self.cluster.start_with(host, &options)
    }

    /// Fails if the daemon of a host should run, and has ended.
    pub(in crate::live) fn look_after(&mut self, host: usize) -> Outcome {
        if !self.up[host] {
            return Ok(());
        }
        let daemon = self.cluster.daemon(host)?;
        match daemon.is_running() {
            true => Ok(()),
            false => {
                let said = daemon.stderr()?;
                Err(format!("the daemon of host {host} ended by itself: {said}").into())
            }
        }
    }

    fn preload(&self, host: usize) -> Outcome<&Preload> {
        let preload = self.preloads.get(host - 1);
        preload.ok_or_else(|| format!("host {host} has no preloaded library").into())
    }

    /// Lets a fault begin.
    pub(in crate::live) fn inflict(&mut self, planned: &Planned) -> Outcome {
        let host = planned.host;
        let cluster = &mut self.cluster;
        match &planned.fault {
            Fault::Kill => {
                (self.up[host], self.answers[host]) = (false, false);
                cluster.daemon(host)?.kill()?;
            }
            Fault::Restart => {
                (self.up[host], self.answers[host]) = (false, false);
                cluster.daemon(host)?.terminate()?;
            }
            Fault::Stop => {
                self.answers[host] = false;
                cluster.daemon(host)?.stop()?;
            }
            Fault::Cut => cluster.bed.cut(host)?,
            Fault::Deaf(others) => cluster.bed.deafen(host, others)?,
            Fault::Loss(permille) => cluster.bed.lose(host, *permille)?,
            Fault::Mtu(bytes) => cluster.bed.set_mtu(host, *bytes)?,
            Fault::DiskFull => self.preload(host)?.fill_disk(true)?,
            Fault::Clock(seconds) => self.preload(host)?.step_clock(*seconds)?,
        }
        Ok(())
    }

    /// Lets a fault end.
    pub(in crate::live) fn end(&mut self, planned: &Planned) -> Outcome {
        let host = planned.host;
        let cluster = &mut self.cluster;
        match &planned.fault {
            Fault::Kill => self.start(host)?,
            Fault::Restart => {
                if cluster.daemon(host)?.wait(LEAVE_WITHIN)?.is_none() {
                    return Err(format!("the daemon of host {host} ignores SIGTERM").into());
                }
                self.start(host)?;
            }
            Fault::Stop => {
                cluster.daemon(host)?.resume()?;
                self.answers[host] = true;
            }
            Fault::Cut => cluster.bed.rejoin(host)?,
            Fault::Deaf(_) => cluster.bed.deafen(host, &[])?,
            Fault::Loss(_) => cluster.bed.lose(host, 0)?,
            Fault::Mtu(_) => cluster.bed.set_mtu(host, MTU)?,
            Fault::DiskFull => self.preload(host)?.fill_disk(false)?,
            Fault::Clock(_) => self.preload(host)?.step_clock(0)?,
        }
        Ok(())
    }
}

/// The beginnings (`true`) and ends of all faults of a plan, in the order of their times.
pub(in crate::live) fn events(plan: &[Planned]) -> Vec<(Duration, bool, &Planned)> {
    let both = plan.iter().flat_map(|planned| {
        let begins = (planned.begins, true, planned);
        [begins, (planned.ends, false, planned)]
    });
    let mut events: Vec<_> = both.collect();
    events.sort_by_key(|(at, ..)| *at);
    events
}

/// The error of a round, with its seed and its faults, which repeat the round.
pub(in crate::live) fn with_plan(
    error: Box<dyn std::error::Error + Send + Sync>,
    seed: u64,
    plan: &[Planned],
) -> Box<dyn std::error::Error + Send + Sync> {
    let faults: Vec<String> = plan
        .iter()
        .map(|planned| {
            format!(
                "{:.2} to {:.2} s {:?} at host {}",
                planned.begins.as_secs_f64(),
                planned.ends.as_secs_f64(),
                planned.fault,
                planned.host
            )
        })
        .collect();
    format!("seed {seed}: {error}\n{}", faults.join("\n")).into()
}
