//! Which hosts, which vertices, which links: what a scenario names, and what that is in a network.
//!
//! Names are read when the file is, and looked up when the network of a seed is there; a name that
//! is not found is an error at the place where it stands.

use std::collections::BTreeSet;

use groupcast_core::Rng;
use groupcast_sim::topology::{Topology, Vertex, Way};

use super::error::{ErrorSpan, ScenarioError};
use super::section::Entry;
use super::tree::Value;

type Result<T> = std::result::Result<T, ScenarioError>;

/// Where something was named: for errors that are found later.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    key: String,
    place: ErrorSpan,
}

impl Spot {
    pub(super) fn of(entry: &Entry<'_>) -> Self {
        Self {
            key: entry.key.clone(),
            place: entry.node.place.clone(),
        }
    }

    pub(super) fn wrong(
        &self,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> ScenarioError {
        ScenarioError::Value {
            key: Some(self.key.clone()),
            message: message.into(),
            help: help.into(),
            place: self.place.clone(),
        }
    }
}

/// Some hosts.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    spot: Spot,
    which: WhichHosts,
}

#[derive(Clone, Debug)]
enum WhichHosts {
    All,
    /// In ascending order.
    These(BTreeSet<usize>),
    Random {
        count: usize,
        except: BTreeSet<usize>,
    },
}

impl Hosts {
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self> {
        let spot = Spot::of(entry);
        let which = match &entry.node.value {
            Value::Table(_) => {
                let section = entry.section("random hosts, `{ random = 5, except = [0] }`")?;
                let count = section.required("random", Entry::number)? as usize;
                let except = section
                    .optional("except", Self::listed)?
                    .unwrap_or_default();
                section.finish(|_| None)?;
                WhichHosts::Random { count, except }
            }
            Value::String(text) if text == "all" => WhichHosts::All,
            _ => WhichHosts::These(Self::listed(entry)?),
        };
        Ok(Self { spot, which })
    }

    /// Hosts by number.
    fn listed(entry: &Entry<'_>) -> Result<BTreeSet<usize>> {
        match &entry.node.value {
            Value::Integer(_) => Ok(BTreeSet::from([entry.number()? as usize])),
            Value::List(_) => entry
                .list()?
                .iter()
                .map(|item| Ok(item.number()? as usize))
                .collect(),
            Value::String(text) => {
                let bounds = text.split_once("..");
                let bounds = bounds.and_then(|(from, to)| {
                    Some((from.trim().parse::<usize>().ok()?, to.trim().parse::<usize>().ok()?))
                });
                match bounds {
                    Some((from, to)) if from < to && to - from <= super::HOSTS_MAX => Ok((from..to).collect()),
                    _ => Err(entry.wrong(
                        format!("`{text}` does not name hosts"),
                        "write a number, a list [0, 2], a range \"0..4\" (0 to 3), \"all\" or { random = 5 }",
                    )),
                }
            }
            other => Err(entry.wrong(
                format!("{} does not name hosts", other.describe()),
                "write a number, a list [0, 2], a range \"0..4\" (0 to 3), \"all\" or { random = 5 }",
            )),
        }
    }

    /// Which of the hosts 0 to `count` - 1 they are, in ascending order.
    pub(super) fn resolve(&self, count: usize, rng: &mut Rng) -> Result<Vec<usize>> {
        let exists = |host: &usize| *host < count;
        let missing = |host: usize| {
            self.spot.wrong(
                format!("there is no host {host}"),
                match count {
                    0 => "the network has none: see `members` in [network]".into(),
                    1 => "the only host is 0".to_owned(),
                    _ => format!("the hosts are 0 to {}", count - 1),
                },
            )
        };
        match &self.which {
            WhichHosts::All => Ok((0..count).collect()),
            WhichHosts::These(hosts) => match hosts.iter().find(|host| !exists(host)) {
                Some(host) => Err(missing(*host)),
                None => Ok(hosts.iter().copied().collect()),
            },
            WhichHosts::Random {
                count: wanted,
                except,
            } => {
                if let Some(host) = except.iter().find(|host| !exists(host)) {
                    return Err(missing(*host));
                }
                let mut left: Vec<usize> =
                    (0..count).filter(|host| !except.contains(host)).collect();
                if *wanted > left.len() {
                    return Err(self.spot.wrong(
                        format!("{wanted} of {} hosts cannot be drawn", left.len()),
                        format!("draw at most {}", left.len()),
                    ));
                }
                let draw = |_| left.swap_remove(rng.below(left.len() as u64) as usize);
                let mut drawn: Vec<usize> = (0..*wanted).map(draw).collect();
                drawn.sort_unstable();
                Ok(drawn)
            }
        }
    }

    pub(super) fn spot(&self) -> &Spot {
        &self.spot
    }
}

/// A vertex, by number or name.
#[derive(Clone, Debug)]
pub(super) struct VertexName {
    pub(super) spot: Spot,
    text: String,
}

impl VertexName {
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self> {
        let text = match &entry.node.value {
            Value::String(name) => name.clone(),
            _ => entry.number()?.to_string(),
        };
        Ok(Self {
            spot: Spot::of(entry),
            text,
        })
    }

    pub(super) fn list(entry: &Entry<'_>) -> Result<Vec<Self>> {
        entry.list()?.iter().map(Self::read).collect()
    }

    pub(super) fn resolve(&self, topology: &Topology) -> Result<Vertex> {
        vertex(topology, &self.text).ok_or_else(|| {
            self.spot.wrong(
                format!("there is no vertex {}", self.text),
                format!(
                    "the vertices are 0 to {}",
                    topology.vertices().len().saturating_sub(1)
                ),
            )
        })
    }
}

/// The vertex called `text`, or of that number.
fn vertex(topology: &Topology, text: &str) -> Option<Vertex> {
    let numbered = || {
        let number: u32 = text.parse().ok()?;
        ((number as usize) < topology.vertices().len()).then_some(Vertex(number))
    };
    topology.find(text).or_else(numbered)
}

/// Some links.
#[derive(Clone, Debug)]
pub(super) struct Links {
    spot: Spot,
    /// Each selects some; together they select all of those.
    parts: Vec<(Spot, String)>,
}

const LINKS_HELP: &str = "write \"3-7\" (the link between two vertices), \"3>7\" (one direction of it), \"at 3\" (all of a \
                          vertex), \"host 2\" (all of a host's vertex), \"all\", or a list of these";

impl Links {
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self> {
        let part = |entry: &Entry<'_>| match &entry.node.value {
            Value::String(text) => {
                let named = text == "all" || ["at ", "host "].iter().any(|it| text.starts_with(it));
                match named || text.contains(['-', '>']) {
                    true => Ok((Spot::of(entry), text.clone())),
                    false => Err(entry.wrong(format!("`{text}` does not name links"), LINKS_HELP)),
                }
            }
            other => Err(entry.wrong(
                format!("{} does not name links", other.describe()),
                LINKS_HELP,
            )),
        };
        let parts = match &entry.node.value {
            Value::List(_) => entry.list()?.iter().map(part).collect::<Result<_>>()?,
            _ => vec![part(entry)?],
        };
        Ok(Self {
            spot: Spot::of(entry),
            parts,
        })
    }

    /// The directions that they are in `topology`, in ascending order.
    pub(super) fn resolve(&self, topology: &Topology) -> Result<Vec<Way>> {
        let mut ways = BTreeSet::new();
        for (spot, text) in &self.parts {
            ways.extend(part(topology, spot, text)?);
        }
        match ways.is_empty() {
            true => Err(self.spot.wrong("these are no links", LINKS_HELP)),
            false => Ok(ways.into_iter().collect()),
        }
    }
}

fn part(topology: &Topology, spot: &Spot, text: &str) -> Result<Vec<Way>> {
    let at = |vertex: Vertex| {
        let ways = topology.ways_from(vertex);
        ways.flat_map(|(way, _)| [way, way.reversed()]).collect()
    };
    let vertices = || {
        format!(
            "the vertices are 0 to {}",
            topology.vertices().len().saturating_sub(1)
        )
    };
    if text == "all" {
        return Ok(topology.ways().collect());
    }
    if let Some(name) = text.strip_prefix("at ") {
        return match vertex(topology, name.trim()) {
            Some(vertex) => Ok(at(vertex)),
            None => Err(spot.wrong(format!("there is no vertex {name}"), vertices())),
        };
    }
    if let Some(number) = text.strip_prefix("host ") {
        let host = number.trim().parse().ok();
        return match host.and_then(|host: usize| topology.hosts().get(host)) {
            Some(vertex) => Ok(at(*vertex)),
            None => Err(spot.wrong(
                format!("there is no host {number}"),
                format!(
                    "the hosts are 0 to {}",
                    topology.hosts().len().saturating_sub(1)
                ),
            )),
        };
    }
    // A name may contain the sign that joins two.
    let mut both_exist = false;
    for (at, sign) in text.match_indices(['-', '>']) {
        let ends = (&text[..at], &text[at + 1..]);
        let ends = (
            vertex(topology, ends.0.trim()),
            vertex(topology, ends.1.trim()),
        );
        if let (Some(a), Some(b)) = ends {
            both_exist = true;
            let between: Vec<Way> = topology
                .ways_from(a)
                .filter(|(_, head)| *head == b)
                .flat_map(|(way, _)| match sign {
                    ">" => vec![way],
                    _ => vec![way, way.reversed()],
                })
                .collect();
            if !between.is_empty() {
                return Ok(between);
            }
        }
    }
    Err(match both_exist {
        true => spot.wrong(
            format!("there is no link {text}"),
            neighbours(topology, text),
        ),
        false => spot.wrong(format!("`{text}` does not name two vertices"), vertices()),
    })
}

/// Who the first vertex of `text` is linked to.
fn neighbours(topology: &Topology, text: &str) -> String {
    let first = text.split(['-', '>']).next().unwrap_or_default().trim();
    let Some(vertex) = vertex(topology, first) else {
        return LINKS_HELP.into();
    };
    let names: Vec<String> = topology
        .ways_from(vertex)
        .take(8)
        .map(|(_, head)| topology.name(head))
        .map(|name| name.to_string())
        .collect();
    format!("{first} is linked to {}", names.join(", "))
}
