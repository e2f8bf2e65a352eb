//! `[[source]]`: who sends, how often, how much.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use groupcast_core::service::UnknownService;
use groupcast_core::{Family, Service, Time};

use super::error::{ErrorSpan, ScenarioError, Source as Text};
use super::protocol::ProtocolTable;
use super::section::{Entry, Section};
use super::select::Hosts;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The longest message that a source may make, in bytes.
const SIZE_MAX: u64 = 64 << 20;
/// The most lines of a trace.
const TRACE_MAX: usize = 10_000_000;

/// A `[[source]]`, read: a source of its own on each of its hosts.
#[derive(Clone, Debug)]
pub(super) struct SourceKeys {
    pub(super) hosts: Hosts,
    pub(super) when: When,
    /// 0 where a trace says it.
    pub(super) size: u32,
    pub(super) service: Service,
    pub(super) start: Time,
    pub(super) stagger: Duration,
    /// None: at the end.
    pub(super) stop: Option<Time>,
    pub(super) count: Option<u64>,
}

/// When messages come.
#[derive(Clone, Debug)]
pub(super) enum When {
    Constant { rate: f64 },
    Poisson { rate: f64 },
    Bursts { rate: f64, burst: u32 },
    Trace(Arc<[(Duration, u32)]>),
    Saturate,
    Reply { to: Hosts, advance: u32 },
}

#[derive(Clone, Copy)]
enum Word {
    Constant,
    Poisson,
    Bursts,
    Trace,
    Saturate,
    Reply,
}

const WORDS: &[(&str, Word)] = &[
    ("constant", Word::Constant),
    ("poisson", Word::Poisson),
    ("bursts", Word::Bursts),
    ("trace", Word::Trace),
    ("saturate", Word::Saturate),
    ("reply", Word::Reply),
];

/// Keys that only some arrivals have, and which.
const ONLY: &[(&str, &str)] = &[
    ("rate", "constant, poisson or bursts"),
    ("burst", "bursts"),
    ("file", "trace"),
    ("to", "reply"),
    ("advance", "reply"),
    ("size", "all but trace"),
];

impl SourceKeys {
    /// `base`: the directory to which paths are relative. `end`: of the world.
    pub(super) fn read(
        section: &mut Section<'_>,
        base: &Path,
        protocol: &ProtocolTable,
        end: Time,
    ) -> Result<Self> {
        let hosts = section.required("hosts", Hosts::read)?;
        let word = section.or("arrivals", Word::Constant, |entry| entry.word(WORDS))?;
        let name = section.or("arrivals", "constant", Entry::string)?;
        section.rename(format!("a source with the arrivals `{name}`"));
        let rate = || section.required("rate", Entry::rate);
        let when =
            match word {
                Word::Constant => When::Constant { rate: rate()? },
                Word::Poisson => When::Poisson { rate: rate()? },
                Word::Bursts => When::Bursts {
                    rate: rate()?,
                    burst: section
                        .required("burst", |entry| Ok(entry.number_in(1, 1_000_000)? as u32))?,
                },
                Word::Trace => When::Trace(trace(&section.require("file")?, base)?.into()),
                Word::Saturate => When::Saturate,
                Word::Reply => When::Reply {
                    to: section.required("to", Hosts::read)?,
                    advance: section
                        .or("advance", 0, |entry| Ok(entry.number_in(0, 65_536)? as u32))?,
                },
            };
        let size = match when {
            When::Trace(_) => 0,
            _ => section.required("size", |entry| entry.size_in(0, SIZE_MAX))? as u32,
        };
        let source = Self {
            hosts,
            when,
            size,
            service: service(section, protocol)?,
            start: section.or("start", Time::ZERO, |entry| {
                Ok(Time::ZERO + entry.duration()?)
            })?,
            stagger: section.or("stagger", Duration::ZERO, Entry::duration)?,
            stop: section.optional("stop", |entry| Ok(Time::ZERO + entry.duration()?))?,
            count: section.optional("count", |entry| entry.number_in(1, u64::MAX))?,
        };
        source.check_times(section, end)?;
        section.finish(|key| {
            let (_, which) = ONLY.iter().find(|(only, _)| *only == key)?;
            Some(format!("`{key}` goes with the arrivals {which}"))
        })?;
        Ok(source)
    }

    fn check_times(&self, section: &Section<'_>, end: Time) -> Result<()> {
        match (section.get("start"), section.get("stop")) {
            (Some(start), _) if self.start >= end => Err(start.wrong(
                "after the end of the world",
                "start before `duration`, or make that longer",
            )),
            (_, Some(stop)) if self.stop.is_some_and(|stop| stop <= self.start) => Err(stop.wrong(
                "not after `start`",
                "nothing would be sent: leave the source out",
            )),
            _ => Ok(()),
        }
    }
}

fn service(section: &Section<'_>, protocol: &ProtocolTable) -> Result<Service> {
    let Some(entry) = section.get("service") else {
        return Ok(protocol.family.service);
    };
    let text = entry.string()?;
    let service = text.parse::<Service>().map_err(|error| {
        let help = match error {
            UnknownService::Resilience => format!(
                "the number of failures that a message outlives is 0 to {}, as in `k-resilient:2`",
                Service::RESILIENCE_MAX
            ),
            _ => format!("use one of {}", carried(protocol.family)),
        };
        entry.wrong(format!("not a service: `{text}`"), help)
    })?;
    match protocol.family.carries(service) {
        true => Ok(service),
        false => Err(entry.wrong(
            format!(
                "the protocol `{}` does not carry {service}",
                protocol.family.name
            ),
            format!("use `{}`, or another protocol", protocol.family.service),
        )),
    }
}

/// The services that a source may ask for, as they are written.
fn carried(family: &Family) -> String {
    let words = family.services.iter().map(|service| match service {
        Service::KResilient(_) => "`k-resilient:K`".to_owned(),
        other => format!("`{other}`"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Reads lines `SECONDS BYTES`.
fn trace(entry: &Entry<'_>, base: &Path) -> Result<Vec<(Duration, u32)>> {
    let path = base.join(entry.string()?);
    let text = std::fs::read_to_string(&path).map_err(|error| ScenarioError::Unreadable {
        path: path.clone(),
        error,
        place: Some(entry.node.place.clone()),
    })?;
    let wrong = |at: usize, line: &str, message: &str| {
        ScenarioError::Value {
        key: None,
        message: message.to_owned(),
        help: "a line is SECONDS BYTES, for example `0.25 1350`, in the order of time; # begins a comment".into(),
        place: ErrorSpan {
            source: Arc::new(Text {
                name: path.display().to_string(),
                text: text.clone(),
            }),
            span: at..at + line.trim_end().len(),
        },
    }
    };
    let mut trace: Vec<(Duration, u32)> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let content = line.split('#').next().unwrap_or_default();
        if !content.trim().is_empty() {
            let Some((time, size)) = message(content) else {
                return Err(wrong(at, line, "not a time and a size"));
            };
            if trace.last().is_some_and(|(last, _)| *last > time) {
                return Err(wrong(at, line, "before the line above"));
            }
            if trace.len() == TRACE_MAX {
                return Err(wrong(at, line, "more than 10 million messages"));
            }
            trace.push((time, size));
        }
        at += line.len();
    }
    match trace.is_empty() {
        true => Err(wrong(0, "", "there is no message in it")),
        false => Ok(trace),
    }
}

/// A line of a trace.
fn message(line: &str) -> Option<(Duration, u32)> {
    let mut words = line
        .split([' ', '\t', ','])
        .map(str::trim)
        .filter(|word| !word.is_empty());
    let (time, size) = (words.next()?, words.next()?);
    let time = groupcast_core::settings::units::duration(&format!("{time} s")).ok()?;
    let size = size
        .parse()
        .ok()
        .filter(|size| u64::from(*size) <= SIZE_MAX)?;
    words.next().is_none().then_some((time, size))
}
