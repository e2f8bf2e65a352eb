//! Scenarios: worlds described in TOML, run over seeds, and what came out in files.
//!
//! [`Scenario::read`] takes a file and checks all that can be checked without a run: unknown keys,
//! units, impossible networks, hosts and links that are not there. Whatever is wrong is a
//! [`ScenarioError`] that points at its place and says what to do. `docs/scenarios.md` describes
//! the keys and the files that come out.
//!
//! - `tree`, `section`, `units`, `suggest`: TOML with places, typed keys, numbers with units, "did
//!   you mean".
//! - `network`, `link`, `hosts`, `protocol` (`bulk`), `source`, `flow`, `change`, `measure`: one
//!   file a table.
//! - `select`: names of hosts, vertices and links.
//! - `plan`: what a seed makes of a scenario. `world`: a plan as an experiment. `run`: all seeds,
//!   some at a time.
//! - `measured`, `record`, `summary`, `files`: what comes out.

mod change;
mod error;
mod files;
mod flow;
mod hosts;
mod link;
mod measure;
mod measured;
mod network;
#[cfg(test)]
mod parsed;
mod plan;
mod protocol;
mod record;
#[cfg(test)]
mod reference;
mod run;
mod section;
mod select;
mod settings;
mod source;
mod summary;
mod tree;
mod world;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use groupcast_core::Time;

use self::change::ChangeKeys;
pub use self::error::{ErrorSpan, ScenarioError, Source};
pub use self::files::WriteError;
use self::flow::FlowKeys;
use self::hosts::HostTable;
use self::measure::{CaptureKeys, MeasureKeys};
use self::network::Network;
use self::protocol::ProtocolTable;
pub use self::record::{Cell, Record};
pub use self::run::{RunError, RunOptions, RunReport, Watch, run};
use self::section::{Entry, Section};
use self::source::SourceKeys;
pub use self::summary::{Measures, Summary};
use self::tree::Value;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The most hosts that a range may name: more than a network has vertices.
const HOSTS_MAX: usize = 1 << 20;

/// A scenario that was read and is known to make sense with the first of its seeds.
#[derive(Clone, Debug)]
pub struct Scenario {
    name: String,
    duration: Time,
    warm_up: Time,
    seeds: Range<u64>,
    judged: bool,
    network: Network,
    hosts: HostTable,
    protocol: ProtocolTable,
    sources: Vec<SourceKeys>,
    flows: Vec<FlowKeys>,
    changes: Vec<ChangeKeys>,
    measure: MeasureKeys,
    capture: Option<CaptureKeys>,
    /// What was laid over the file.
    settings: Vec<String>,
}

/// What a run would be.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Outline {
    /// The scenario's name.
    pub scenario: String,
    /// The protocol's.
    pub protocol: &'static str,
    /// All of a run.
    pub duration_s: f64,
    /// With which the network was made.
    pub seed: u64,
    /// Of the network.
    pub vertices: usize,
    /// Of the network.
    pub links: usize,
    /// Of the network.
    pub hosts: usize,
    /// On all hosts together.
    pub sources: usize,
    /// As the file has them.
    pub changes: usize,
}

impl Scenario {
    /// Reads the scenario at `path`, with each of `settings` (`KEY=VALUE`) laid over it in turn.
    ///
    /// # Errors
    /// What is wrong first, and where.
    pub fn read(path: &Path, settings: &[String]) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| ScenarioError::Unreadable {
            path: path.to_owned(),
            error,
            place: None,
        })?;
        Self::parse(path, &text, settings)
    }

    /// The same with `text` as the contents of the file at `path`.
    ///
    /// # Errors
    /// What is wrong first, and where.
    pub fn parse(path: &Path, text: &str, settings: &[String]) -> Result<Self> {
        let source = Arc::new(Source {
            name: path.display().to_string(),
            text: text.to_owned(),
        });
        let mut document = tree::parse(&source)?;
        for setting in settings {
            tree::overlay(&mut document, setting)?;
        }
        let stem = path.file_stem().map(|stem| stem.to_string_lossy());
        let base = path.parent().unwrap_or(Path::new(""));
        let scenario = Self {
            settings: settings.to_vec(),
            ..Self::from_section(&Section::top(&document)?, &stem.unwrap_or_default(), base)?
        };
        scenario.plan(scenario.seeds.start)?;
        Ok(scenario)
    }

    fn from_section(top: &Section<'_>, stem: &str, base: &Path) -> Result<Self> {
        let duration = top.required("duration", time_above_zero)?;
        let warm_up = warm_up(top, duration)?;
        let seeds = top.or("seeds", 1..2, seeds)?;
        let name = top
            .optional("name", Entry::string)?
            .unwrap_or(stem)
            .to_owned();
        let judged = top.optional("judged", Entry::boolean)?;
        let network = Network::read(&top.require("network")?, base)?;
        let hosts = match top.get("hosts") {
            Some(entry) => HostTable::read(&entry)?,
            None => HostTable::default(),
        };
        let protocol = ProtocolTable::read(&top.require("protocol")?)?;
        let sources: Vec<SourceKeys> = top
            .sections("source", "a source")?
            .iter_mut()
            .map(|section| SourceKeys::read(section, base, &protocol, duration))
            .collect::<Result<_>>()?;
        let flows = top
            .sections("flow", "a flow")?
            .iter()
            .map(|section| FlowKeys::read(section, duration))
            .collect::<Result<_>>()?;
        let changes = top
            .sections("change", "a change")?
            .iter_mut()
            .map(|section| ChangeKeys::read(section, duration, sources.len()))
            .collect::<Result<_>>()?;
        let measure = match top.get("measure") {
            Some(entry) => MeasureKeys::read(&entry)?,
            None => MeasureKeys::default(),
        };
        measure.check_windows(top, duration - warm_up)?;
        let capture = top
            .get("capture")
            .map(|entry| CaptureKeys::read(&entry))
            .transpose()?;
        top.finish(|_| None)?;
        Ok(Self {
            name,
            duration,
            warm_up,
            seeds,
            judged: judged.unwrap_or(protocol.is_judged()),
            network,
            hosts,
            protocol,
            sources,
            flows,
            changes,
            measure,
            capture,
            settings: Vec::new(),
        })
    }

    /// What the results are called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The seeds that it names itself.
    pub fn seeds(&self) -> Range<u64> {
        self.seeds.clone()
    }

    /// What the run with `seed` would be.
    ///
    /// # Errors
    /// The scenario makes no sense with this seed.
    pub fn outline(&self, seed: u64) -> Result<Outline> {
        let plan = self.plan(seed)?;
        Ok(Outline {
            scenario: self.name.clone(),
            protocol: self.protocol.family.name,
            duration_s: summary::seconds(self.duration.as_nanos()),
            seed,
            vertices: plan.topology.vertices().len(),
            links: plan.topology.edges().len(),
            hosts: plan.hosts.len(),
            sources: plan.sources.len(),
            changes: self.changes.len(),
        })
    }

    /// Whether the histories of its runs are judged.
    pub fn is_judged(&self) -> bool {
        self.judged
    }
}

/// `A..B`: seeds A to B - 1; what is wrong with it otherwise.
///
/// # Errors
/// It is no range, or an empty one.
pub fn parse_seeds(text: &str) -> std::result::Result<Range<u64>, String> {
    let bounds = text.split_once("..").and_then(|(from, to)| {
        Some((
            from.trim().parse::<u64>().ok()?,
            to.trim().parse::<u64>().ok()?,
        ))
    });
    match bounds {
        Some((from, to)) if from < to => Ok(from..to),
        Some((from, to)) => Err(format!("there is no seed from {from} to below {to}")),
        None => Err(format!("`{text}` is not a range of seeds A..B")),
    }
}

fn seeds(entry: &Entry<'_>) -> Result<Range<u64>> {
    let Value::String(text) = &entry.node.value else {
        return entry.mistyped("a range of seeds", "\"1..6\" for seeds 1 to 5");
    };
    parse_seeds(text).map_err(|message| entry.wrong(message, "write \"1..6\" for seeds 1 to 5"))
}

fn time_above_zero(entry: &Entry<'_>) -> Result<Time> {
    match Time::ZERO + entry.duration()? {
        Time::ZERO => Err(entry.wrong(
            "nothing happens in no time",
            "use more than 0, for example \"10 s\"",
        )),
        time => Ok(time),
    }
}

fn warm_up(top: &Section<'_>, duration: Time) -> Result<Time> {
    let Some(entry) = top.get("warm_up") else {
        return Ok(Time::ZERO);
    };
    let warm_up = Time::ZERO + entry.duration()?;
    match warm_up < duration {
        true => Ok(warm_up),
        false => Err(entry.wrong(
            "nothing is left to measure",
            "the warm-up is part of `duration`: make that longer, or this shorter",
        )),
    }
}
