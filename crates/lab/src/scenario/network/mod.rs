//! `[network]`: its kind, its links, who is on it; and the network that a seed makes of that.

mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use groupcast_core::Rng;
use groupcast_core::settings::suggest::did_you_mean;
use groupcast_sim::topology::{ShapeError, Topology, Vertex, draw::draw};

use self::shape::{COUNT_MAX, Impossible, KINDS, Shape, belongs_to};
use super::error::ScenarioError;
use super::link::LinkKeys;
use super::section::{Entry, Section};
use super::select::{Links, Spot, VertexName};
use super::tree::Value;

type Result<T> = std::result::Result<T, ScenarioError>;

/// `[network]`, read.
#[derive(Clone, Debug)]
pub(super) struct Network {
    shape: Shape,
    /// Where the kind is named, and each number that the shape came from.
    spot: Spot,
    spots: BTreeMap<&'static str, Spot>,
    members: Members,
    include: Vec<VertexName>,
    seed: Option<u64>,
    pub(super) multicast: MulticastKey,
    core: Option<VertexName>,
    pub(super) mtu: u32,
    pub(super) senders_wait: bool,
    overrides: Vec<(Links, LinkKeys)>,
}

/// `multicast = …`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MulticastKey {
    Source,
    Core,
    Copies,
}

/// A network that a seed made.
#[derive(Clone, Debug)]
pub(super) struct Built {
    pub(super) topology: Topology,
    /// Root of the shared tree, if there is one.
    pub(super) core: Vertex,
}

/// Which vertices have a host.
#[derive(Clone, Debug)]
enum Members {
    All,
    /// All but the switch or the cable.
    Stations,
    Random {
        spot: Spot,
        count: usize,
    },
    These(Vec<VertexName>),
}

impl Network {
    /// `base`: the directory to which paths are relative.
    pub(super) fn read(entry: &Entry<'_>, base: &Path) -> Result<Self> {
        let mut section = entry.section("[network]")?;
        let kind_entry = section.require("kind")?;
        let kind = kind_entry.string()?;
        let kinds: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        let Some((_, keys)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            return Err(kind_entry.wrong(
                format!("there is no kind of network called `{kind}`"),
                did_you_mean(kind, &kinds),
            ));
        };
        section.rename(format!("a network of the kind `{kind}`"));
        let shape = shape::read(&section, kind, base)?;
        let has_stations = shape.has_stations();
        let network = Self {
            spot: Spot::of(&kind_entry),
            spots: keys
                .iter()
                .filter_map(|key| Some((*key, Spot::of(&section.get(key)?))))
                .collect(),
            members: match has_stations {
                true => Members::Stations,
                false => section.or("members", Members::All, members)?,
            },
            include: match has_stations {
                true => Vec::new(),
                false => section.or("include", Vec::new(), VertexName::list)?,
            },
            seed: section.optional("seed", Entry::number)?,
            multicast: section.or("multicast", MulticastKey::Source, |entry| {
                entry.word(&[
                    ("source", MulticastKey::Source),
                    ("core", MulticastKey::Core),
                    ("copies", MulticastKey::Copies),
                ])
            })?,
            core: section.optional("core", VertexName::read)?,
            mtu: section.or("mtu", 1_500, |entry| entry.size_in(68, 65_535))? as u32,
            senders_wait: section.or("senders_wait", true, Entry::boolean)?,
            overrides: section
                .sections("override", "[[network.override]]")?
                .iter()
                .map(over)
                .collect::<Result<_>>()?,
            shape,
        };
        section.finish(|key| belongs_to(key, kind))?;
        match (&network.core, network.multicast) {
            (Some(core), MulticastKey::Source | MulticastKey::Copies) => Err(core.spot.wrong(
                "there is no shared tree",
                "leave it out, or say multicast = \"core\"",
            )),
            _ => Ok(network),
        }
    }

    /// The network of the run with `seed`.
    pub(super) fn build(&self, seed: u64) -> Result<Built> {
        let rng = Rng::new(self.seed.unwrap_or(seed)).fork("network");
        let made = self.shape.make(&mut rng.fork("shape"));
        let mut topology = made.map_err(|why| match why {
            Impossible::Shape(error) => self.impossible(&error),
            Impossible::List(error) => *error,
        })?;
        let hosts = self.host_vertices(&topology, &mut rng.fork("members"))?;
        topology.place_hosts(hosts);
        for (links, keys) in &self.overrides {
            for way in links.resolve(&topology)? {
                keys.apply(topology.spec_mut(way));
            }
        }
        self.check_in_one_piece(&topology)?;
        let core = match &self.core {
            Some(core) => core.resolve(&topology)?,
            None => Vertex(0),
        };
        Ok(Built { topology, core })
    }

    fn impossible(&self, error: &ShapeError) -> ScenarioError {
        let key = match error {
            ShapeError::Zero(name) | ShapeError::NotAShare { name, .. } => name,
            ShapeError::Edges { .. } => "edges",
            _ => "size",
        };
        let help = match error {
            ShapeError::Edges { least, most, .. } => format!("use {least} to {most}"),
            ShapeError::Vertices(_) | ShapeError::TooManyEdges(_) => "make it smaller".into(),
            _ => "docs/scenarios.md says what each number means".into(),
        };
        self.spots
            .get(key)
            .unwrap_or(&self.spot)
            .wrong(error.to_string(), help)
    }

    fn host_vertices(&self, topology: &Topology, rng: &mut Rng) -> Result<Vec<Vertex>> {
        let all: Vec<Vertex> = topology.vertices().collect();
        let include = self
            .include
            .iter()
            .map(|name| name.resolve(topology))
            .collect::<Result<BTreeSet<_>>>()?;
        match &self.members {
            Members::All => Ok(all),
            Members::Stations => Ok(all[1..].to_vec()),
            Members::These(names) => {
                let these = names.iter().map(|name| name.resolve(topology));
                let mut these = these.collect::<Result<BTreeSet<_>>>()?;
                these.extend(include);
                Ok(these.into_iter().collect())
            }
            Members::Random { spot, count } => {
                let include: Vec<Vertex> = include.into_iter().collect();
                draw(&all, &include, *count, rng).map_err(|error| {
                    spot.wrong(
                        error.to_string(),
                        format!(
                            "the network has {} vertices, and {} are in `include`",
                            all.len(),
                            include.len()
                        ),
                    )
                })
            }
        }
    }

    /// Hosts in different pieces could never hear of each other.
    fn check_in_one_piece(&self, topology: &Topology) -> Result<()> {
        let Some(first) = topology.hosts().first() else {
            return Err(self
                .spot
                .wrong("nobody is on the network", "name `members`"));
        };
        let reachable: BTreeSet<Vertex> = topology.reachable(*first).into_iter().collect();
        match topology
            .hosts()
            .iter()
            .find(|host| !reachable.contains(host))
        {
            None => Ok(()),
            Some(other) => {
                let (a, b) = (topology.name(*first), topology.name(*other));
                Err(self.spot.wrong(
                    format!("the network is in pieces: no way leads from {a} to {b}"),
                    "add a link between them, or leave one out of `members`; to part them for a while, use a `cut`",
                ))
            }
        }
    }
}

fn members(entry: &Entry<'_>) -> Result<Members> {
    match &entry.node.value {
        Value::String(text) if text == "all" => Ok(Members::All),
        Value::List(list) if !list.is_empty() => Ok(Members::These(VertexName::list(entry)?)),
        Value::Integer(_) => Ok(Members::Random {
            spot: Spot::of(entry),
            count: entry.number_in(1, COUNT_MAX)? as usize,
        }),
        other => Err(entry.wrong(
            format!("{} does not say who is a member", other.describe()),
            "write \"all\", a number (that many, drawn at random) or a list of vertices",
        )),
    }
}

fn over(section: &Section<'_>) -> Result<(Links, LinkKeys)> {
    let links = section.required("links", Links::read)?;
    let keys = LinkKeys::read(section)?;
    section.finish(|_| None)?;
    match keys.is_empty() {
        true => Err(section.wrong(
            "nothing changes",
            "name what these links have otherwise, for example loss = \"1 %\"",
        )),
        false => Ok((links, keys)),
    }
}
