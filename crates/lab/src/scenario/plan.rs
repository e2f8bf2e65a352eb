//! What a seed makes of a scenario: a network with hosts on it, sources with numbers, changes in
//! the order of time.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::{Rng, Time};
use groupcast_sim::HostConfig;
use groupcast_sim::experiment::{Change, ProcessChange};
use groupcast_sim::flow::FlowConfig;
use groupcast_sim::topology::{EdgeId, Topology, Vertex, Way};

use super::change::{ChangeKeys, NamedChange, ProcessState, state_after};
use super::select::{Hosts, Links, Spot};
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
    /// One for each host of each `[[source]]`; the experiment numbers them in this order.
    pub(crate) sources: Vec<PlannedSource>,
    /// In the order of the file, then of the hosts.
    pub(crate) flows: Vec<FlowConfig>,
    /// In the order of time, then of the file.
    pub(crate) changes: Vec<(Time, Change)>,
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

impl Scenario {
    /// What the run with `seed` is made of.
    pub(crate) fn plan(&self, seed: u64) -> Result<Plan> {
        let built = self.network.build(seed)?;
        let count = built.topology.hosts().len();
        self.protocol.check_hosts(count)?;
        let rng = Rng::new(seed).fork("scenario");
        let hosts = self.host_configs(count, &rng)?;
        let sources = self.planned_sources(count, &rng)?;
        let flows = self.planned_flows(count, &rng)?;
        let idle = match &self.hosts.without_process {
            Some(hosts) => hosts.resolve(count, &mut rng.fork("without process"))?,
            None => Vec::new(),
        };
        let captures = match &self.capture {
            Some(capture) => capture.links.resolve(&built.topology)?,
            None => Vec::new(),
        };
        let mut planner = Planner {
            topology: built.topology.clone(),
            configs: hosts.clone(),
            sources: &sources,
            rng: rng.fork("changes"),
            processes: idle
                .iter()
                .map(|host| (*host, (ProcessState::Absent, ProcessState::Absent)))
                .collect(),
            reached: idle.iter().map(|host| (*host, false)).collect(),
            down: BTreeSet::new(),
            is_cut: false,
            silent: BTreeSet::new(),
            changes: Vec::new(),
        };
        let mut in_order: Vec<&ChangeKeys> = self.changes.iter().collect();
        in_order.sort_by_key(|change| change.at);
        for change in in_order {
            planner.add(change)?;
        }
        let Planner {
            processes,
            reached,
            changes,
            ..
        } = planner;
        let not = |first: &BTreeMap<usize, bool>| {
            first
                .iter()
                .filter(|(_, at_first)| !**at_first)
                .map(|(host, _)| *host)
                .collect::<Vec<usize>>()
        };
        let late: Vec<usize> = processes
            .iter()
            .filter(|(_, (at_first, _))| *at_first == ProcessState::Absent)
            .map(|(host, _)| *host)
            .collect();
        Ok(Plan {
            started: (0..count).filter(|host| !late.contains(host)).collect(),
            parted: not(&reached),
            changes,
            topology: built.topology,
            core: built.core,
            hosts,
            sources,
            flows,
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

    fn planned_flows(&self, count: usize, rng: &Rng) -> Result<Vec<FlowConfig>> {
        let mut planned = Vec::new();
        for (table, flow) in self.flows.iter().enumerate() {
            let rng = rng.fork("flows").fork_index(table as u64);
            planned.extend(flow.plan(count, &rng)?);
        }
        Ok(planned)
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

/// Refuses a source that answers its own host alone: it would wait for its own first message for
/// ever.
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
struct Planner<'a> {
    /// As the changes so far have made it.
    topology: Topology,
    configs: Vec<HostConfig>,
    sources: &'a [PlannedSource],
    rng: Rng,
    /// Of the hosts whose process changes: its state at first, and now.
    processes: BTreeMap<usize, (ProcessState, ProcessState)>,
    /// Of the hosts that joined or parted: whether multicast reached them at first.
    reached: BTreeMap<usize, bool>,
    /// Links that are broken.
    down: BTreeSet<EdgeId>,
    /// Whether hosts are cut off from each other.
    is_cut: bool,
    /// The `[[source]]`s that were silenced.
    silent: BTreeSet<usize>,
    changes: Vec<(Time, Change)>,
}

impl Planner<'_> {
    fn add(&mut self, keys: &ChangeKeys) -> Result<()> {
        match &keys.change {
            NamedChange::Process(hosts, change) => self.process(keys, hosts, *change)?,
            NamedChange::Join(hosts) => self.reach(keys.at, hosts, true)?,
            NamedChange::Part(hosts) => self.reach(keys.at, hosts, false)?,
            NamedChange::Down(links) => self.edges(keys, links, true)?,
            NamedChange::Up(links) => self.edges(keys, links, false)?,
            NamedChange::Cut(parts) => {
                let cut = components(parts, self.configs.len(), &keys.spot, &mut self.rng)?;
                self.is_cut = true;
                self.changes.push((keys.at, Change::Cut(cut)));
            }
            NamedChange::Heal => {
                if !std::mem::take(&mut self.is_cut) {
                    let help = "let a `cut` come before, or leave this change out";
                    return Err(keys.spot.wrong("nothing is cut then", help));
                }
                self.changes.push((keys.at, Change::Heal));
            }
            NamedChange::Link(links, link) => {
                for way in links.resolve(&self.topology)? {
                    let spec = self.topology.spec_mut(way);
                    link.apply(spec);
                    let change = Change::Link { way, spec: *spec };
                    self.changes.push((keys.at, change));
                }
            }
            NamedChange::Host(hosts, host_keys) => {
                for host in hosts.resolve(self.configs.len(), &mut self.rng)? {
                    let config = Box::new(host_keys.apply(&self.configs[host])?);
                    self.configs[host].clone_from(&config);
                    self.changes.push((keys.at, Change::Host { host, config }));
                }
            }
            NamedChange::Silence(table) => {
                if !self.silent.insert(*table) {
                    let help = "let a `sound` come before, or leave this change out";
                    let message = format!("source {table} is silent already");
                    return Err(keys.spot.wrong(message, help));
                }
                self.of_source(keys.at, *table, Change::Silence);
            }
            NamedChange::Sound(table) => {
                if !self.silent.remove(table) {
                    let help = "let a `silence` come before; a source that begins late has `start`";
                    let message = format!("source {table} is not silent then");
                    return Err(keys.spot.wrong(message, help));
                }
                self.of_source(keys.at, *table, Change::Sound);
            }
        }
        Ok(())
    }

    /// A change of the process of hosts: refused where it makes no sense.
    fn process(&mut self, keys: &ChangeKeys, hosts: &Hosts, change: ProcessChange) -> Result<()> {
        for host in hosts.resolve(self.configs.len(), &mut self.rng)? {
            // A process whose first change is its start does not run before.
            let at_first = match change {
                ProcessChange::Start => ProcessState::Absent,
                _ => ProcessState::Running,
            };
            let (_, now) = self.processes.entry(host).or_insert((at_first, at_first));
            *now = state_after(change, *now).map_err(|(message, help)| {
                keys.spot.wrong(format!("host {host} {message}"), help)
            })?;
            self.changes.push((keys.at, Change::Process(host, change)));
        }
        Ok(())
    }

    /// Multicast reaches hosts from now on, or no longer.
    fn reach(&mut self, at: Time, hosts: &Hosts, joins: bool) -> Result<()> {
        for host in hosts.resolve(self.configs.len(), &mut self.rng)? {
            self.reached.entry(host).or_insert(!joins);
            let change = if joins {
                Change::Join(host)
            } else {
                Change::Part(host)
            };
            self.changes.push((at, change));
        }
        Ok(())
    }

    /// Links break, or work again: refused where none of them changes.
    fn edges(&mut self, keys: &ChangeKeys, links: &Links, breaks: bool) -> Result<()> {
        let edges: BTreeSet<EdgeId> = links
            .resolve(&self.topology)?
            .iter()
            .map(|way| way.edge())
            .collect();
        if edges.iter().all(|edge| self.down.contains(edge) == breaks) {
            let (message, help) = match breaks {
                true => (
                    "these links are down already",
                    "let an `up` come before, or leave this change out",
                ),
                false => (
                    "these links are not down then",
                    "let a `down` come before, or leave this change out",
                ),
            };
            return Err(keys.spot.wrong(message, help));
        }
        for edge in edges {
            let change = if breaks {
                self.down.insert(edge);
                Change::Down(edge)
            } else {
                self.down.remove(&edge);
                Change::Up(edge)
            };
            self.changes.push((keys.at, change));
        }
        Ok(())
    }

    /// A change of all that `[[source]]` number `table` stands for.
    fn of_source(&mut self, at: Time, table: usize, change: fn(usize) -> Change) {
        let numbers = (0..self.sources.len()).filter(|it| self.sources[*it].table == table);
        self.changes
            .extend(numbers.map(|number| (at, change(number))));
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
