//! What a seed makes of a scenario: a network with hosts on it, sources with numbers, changes in the order of time.

use std::collections::BTreeMap;

use groupcast_core::{Rng, Time};
use groupcast_sim::HostConfig;
use groupcast_sim::link::LinkSpec;
use groupcast_sim::topology::{EdgeId, Topology, Vertex, Way};

use super::change::{ChangeKeys, Life, What, life_after};
use super::select::{Hosts, Spot};
use super::source::{SourceKeys, When};
use super::{Result, Scenario};

/// All that a run needs to know, with every name looked up.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) topology: Topology,
    /// Root of the shared tree, if there is one.
    pub(crate) core: Vertex,
    /// By host.
    pub(crate) hosts: Vec<HostConfig>,
    /// Hosts that run from the beginning.
    pub(crate) started: Vec<usize>,
    /// Hosts that multicast does not reach at the beginning.
    pub(crate) parted: Vec<usize>,
    /// One for each host of each `[[source]]`.
    pub(crate) sources: Vec<PlannedSource>,
    /// In the order of time, then of the file.
    pub(crate) changes: Vec<(Time, Step)>,
    pub(crate) captures: Vec<Way>,
}

/// A source on one host.
#[derive(Clone, Debug)]
pub(crate) struct PlannedSource {
    /// Which `[[source]]`.
    pub(crate) table: usize,
    pub(crate) host: usize,
    /// Whose messages it answers, if it does.
    pub(crate) answers: Vec<usize>,
}

/// One thing that changes.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Start(usize),
    Crash(usize),
    Pause(usize),
    Resume(usize),
    Leave(usize),
    Join(usize),
    Part(usize),
    Edge {
        edge: EdgeId,
        up: bool,
    },
    /// The hosts of each part.
    Cut(Vec<Vec<usize>>),
    Heal,
    Spec(Way, LinkSpec),
    Host(usize, Box<HostConfig>),
    /// A `[[source]]`, by number.
    Source {
        table: usize,
        on: bool,
    },
}

impl Scenario {
    /// What the run with `seed` is made of.
    pub(crate) fn plan(&self, seed: u64) -> Result<Plan> {
        let built = self.network.build(seed)?;
        let count = built.topology.hosts().len();
        self.protocol.check_hosts(count)?;
        let rng = Rng::new(seed).fork("scenario");
        let hosts = self.host_configs(count, &rng)?;
        let sources = self.planned_sources(count, &rng)?;
        let captures = match &self.capture {
            Some(capture) => capture.links.resolve(&built.topology)?,
            None => Vec::new(),
        };
        let mut planner = Planner {
            topology: built.topology.clone(),
            configs: hosts.clone(),
            rng: rng.fork("changes"),
            lives: BTreeMap::new(),
            reached: BTreeMap::new(),
            steps: Vec::new(),
        };
        let mut changes: Vec<&ChangeKeys> = self.changes.iter().collect();
        changes.sort_by_key(|change| change.at);
        for change in changes {
            planner.add(change)?;
        }
        let not = |first: &BTreeMap<usize, bool>| {
            first
                .iter()
                .filter(|(_, at_first)| !**at_first)
                .map(|(host, _)| *host)
                .collect::<Vec<usize>>()
        };
        let late: Vec<usize> = planner
            .lives
            .iter()
            .filter(|(_, (at_first, _))| *at_first == Life::Gone)
            .map(|(host, _)| *host)
            .collect();
        Ok(Plan {
            started: (0..count).filter(|host| !late.contains(host)).collect(),
            parted: not(&planner.reached),
            changes: planner.steps,
            topology: built.topology,
            core: built.core,
            hosts,
            sources,
            captures,
        })
    }

    fn host_configs(&self, count: usize, rng: &Rng) -> Result<Vec<HostConfig>> {
        let mut configs = vec![self.hosts.base(self.network.mtu)?; count];
        for (index, (hosts, keys)) in self.hosts.overrides.iter().enumerate() {
            let mut rng = rng.fork("hosts").fork_index(index as u64);
            for host in hosts.resolve(count, &mut rng)? {
                configs[host] = keys.apply(&configs[host])?;
            }
        }
        Ok(configs)
    }

    fn planned_sources(&self, count: usize, rng: &Rng) -> Result<Vec<PlannedSource>> {
        let mut planned = Vec::new();
        for (table, source) in self.sources.iter().enumerate() {
            let rng = rng.fork("sources").fork_index(table as u64);
            let answers = match &source.when {
                When::Reply { to, .. } => to.resolve(count, &mut rng.fork("to"))?,
                _ => Vec::new(),
            };
            for host in source.hosts.resolve(count, &mut rng.fork("hosts"))? {
                check_reply(source, host, &answers)?;
                planned.push(PlannedSource {
                    table,
                    host,
                    answers: answers.clone(),
                });
            }
        }
        Ok(planned)
    }
}

/// Who waits for its own first message waits for ever.
fn check_reply(source: &SourceKeys, host: usize, answers: &[usize]) -> Result<()> {
    match &source.when {
        When::Reply { to, advance: 0 } if answers == [host] => Err(to.spot().wrong(
            format!("host {host} would answer nobody but itself, and never begin"),
            "name others, or send some in `advance`",
        )),
        _ => Ok(()),
    }
}

/// Goes through the changes in the order of time and knows what each meets.
struct Planner {
    /// As the changes so far have made it.
    topology: Topology,
    configs: Vec<HostConfig>,
    rng: Rng,
    /// Of the hosts that changes have named: at first, and now.
    lives: BTreeMap<usize, (Life, Life)>,
    /// Of the hosts that joined or parted: whether multicast reached them at first.
    reached: BTreeMap<usize, bool>,
    steps: Vec<(Time, Step)>,
}

impl Planner {
    fn add(&mut self, change: &ChangeKeys) -> Result<()> {
        let count = self.configs.len();
        match &change.what {
            What::Start(hosts)
            | What::Crash(hosts)
            | What::Pause(hosts)
            | What::Resume(hosts)
            | What::Leave(hosts) => self.live(change, hosts),
            What::Join(hosts) | What::Part(hosts) => {
                let joins = matches!(change.what, What::Join(_));
                for host in hosts.resolve(count, &mut self.rng)? {
                    self.reached.entry(host).or_insert(!joins);
                    let step = if joins {
                        Step::Join(host)
                    } else {
                        Step::Part(host)
                    };
                    self.steps.push((change.at, step));
                }
                Ok(())
            }
            What::Down(links) | What::Up(links) => {
                let up = matches!(change.what, What::Up(_));
                let mut edges: Vec<EdgeId> = links
                    .resolve(&self.topology)?
                    .iter()
                    .map(|way| way.edge())
                    .collect();
                edges.dedup();
                self.steps.extend(
                    edges
                        .into_iter()
                        .map(|edge| (change.at, Step::Edge { edge, up })),
                );
                Ok(())
            }
            What::Cut(parts) => {
                let cut = components(parts, count, &change.spot, &mut self.rng)?;
                self.steps.push((change.at, Step::Cut(cut)));
                Ok(())
            }
            What::Heal => {
                self.steps.push((change.at, Step::Heal));
                Ok(())
            }
            What::Link(links, keys) => {
                for way in links.resolve(&self.topology)? {
                    let spec = self.topology.spec_mut(way);
                    keys.apply(spec);
                    self.steps.push((change.at, Step::Spec(way, *spec)));
                }
                Ok(())
            }
            What::Host(hosts, keys) => {
                for host in hosts.resolve(count, &mut self.rng)? {
                    let config = keys.apply(&self.configs[host])?;
                    self.configs[host] = config.clone();
                    self.steps
                        .push((change.at, Step::Host(host, Box::new(config))));
                }
                Ok(())
            }
            What::Silence(table) => self.source(change.at, *table, false),
            What::Sound(table) => self.source(change.at, *table, true),
        }
    }

    fn source(&mut self, at: Time, table: usize, on: bool) -> Result<()> {
        self.steps.push((at, Step::Source { table, on }));
        Ok(())
    }

    /// A change of the life of hosts: refused where it makes no sense.
    fn live(&mut self, change: &ChangeKeys, hosts: &Hosts) -> Result<()> {
        for host in hosts.resolve(self.configs.len(), &mut self.rng)? {
            // Whose first change is a start does not run before.
            let at_first = match change.what {
                What::Start(_) => Life::Gone,
                _ => Life::Running,
            };
            let (_, now) = self.lives.entry(host).or_insert((at_first, at_first));
            *now = life_after(&change.what, *now).map_err(|(message, help)| {
                change.spot.wrong(format!("host {host} {message}"), help)
            })?;
            let step = match change.what {
                What::Start(_) => Step::Start(host),
                What::Crash(_) => Step::Crash(host),
                What::Pause(_) => Step::Pause(host),
                What::Resume(_) => Step::Resume(host),
                _ => Step::Leave(host),
            };
            self.steps.push((change.at, step));
        }
        Ok(())
    }
}

/// The hosts of each part of a cut: every host is in one.
fn components(
    parts: &[Hosts],
    count: usize,
    spot: &Spot,
    rng: &mut Rng,
) -> Result<Vec<Vec<usize>>> {
    let mut seen = vec![false; count];
    let mut components = Vec::new();
    for part in parts {
        let hosts = part.resolve(count, rng)?;
        for host in &hosts {
            if std::mem::replace(&mut seen[*host], true) {
                return Err(part.spot().wrong(
                    format!("host {host} is in two parts"),
                    "each host is in exactly one list",
                ));
            }
        }
        components.push(hosts);
    }
    match seen.iter().position(|seen| !seen) {
        None => Ok(components),
        Some(host) => Err(spot.wrong(
            format!("host {host} is in no part"),
            "each host is in exactly one list",
        )),
    }
}
