//! `[network]`: its kind, its links, who is on it; and the network that a seed makes of that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use groupcast_core::Rng;
use groupcast_sim::link::{BusSpec, LinkSpec};
use groupcast_sim::topology::{
    EdgeListError, ShapeError, Topology, TransitStub, Vertex, draw::draw, edges, generate,
};

use super::error::{Place, ScenarioError, Source};
use super::link::LinkKeys;
use super::section::{Entry, Section};
use super::select::{Links, Spot, VertexName};
use super::suggest::did_you_mean;
use super::tree::Value;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The most vertices that a number in a scenario may ask for.
const COUNT_MAX: u64 = generate::VERTICES_MAX;

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

#[derive(Clone, Debug)]
enum Shape {
    Switch {
        hosts: u32,
        buffer: u64,
        link: LinkSpec,
    },
    Bus {
        hosts: u32,
        bus: BusSpec,
    },
    Star {
        size: u32,
        link: LinkSpec,
    },
    Chain {
        size: u32,
        link: LinkSpec,
    },
    Mesh {
        size: u32,
        link: LinkSpec,
    },
    Tree {
        branching: u32,
        depth: u32,
        link: LinkSpec,
    },
    FilledTree {
        branching: u32,
        size: u32,
        link: LinkSpec,
    },
    Clusters {
        clusters: u32,
        size: u32,
        link: LinkSpec,
        between: LinkSpec,
    },
    Dumbbell {
        left: u32,
        right: u32,
        link: LinkSpec,
        bottleneck: LinkSpec,
    },
    TransitStub(TransitStub),
    Random {
        size: u32,
        edges: u64,
        link: LinkSpec,
    },
    Edges {
        list: Arc<EdgeList>,
        link: LinkSpec,
    },
}

/// An edge list, as it was read.
#[derive(Debug)]
struct EdgeList {
    path: PathBuf,
    text: String,
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

/// The kinds, and the keys that only some of them have.
const KINDS: &[(&str, &[&str])] = &[
    ("switch", &["hosts", "buffer", "link"]),
    ("bus", &["hosts", "bandwidth", "propagation"]),
    ("star", &["size", "link"]),
    ("chain", &["size", "link"]),
    ("mesh", &["size", "link"]),
    ("tree", &["branching", "depth", "size", "link"]),
    ("clusters", &["clusters", "size", "link", "between"]),
    ("dumbbell", &["left", "right", "link", "bottleneck"]),
    (
        "transit-stub",
        &[
            "transits",
            "transit_size",
            "stubs",
            "stub_size",
            "transit_edges",
            "stub_edges",
            "link",
            "transit",
            "access",
        ],
    ),
    ("random", &["size", "edges", "link"]),
    ("edges", &["file", "link"]),
];

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
        let shape = shape(&section, kind, base)?;
        let network = Self {
            spot: Spot::of(&kind_entry),
            spots: keys
                .iter()
                .filter_map(|key| Some((*key, Spot::of(&section.get(key)?))))
                .collect(),
            members: match shape {
                Shape::Switch { .. } | Shape::Bus { .. } => Members::Stations,
                _ => section.or("members", Members::All, members)?,
            },
            include: match shape {
                Shape::Switch { .. } | Shape::Bus { .. } => Vec::new(),
                _ => section.or("include", Vec::new(), VertexName::list)?,
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
        let mut topology = self.topology(&mut rng.fork("shape"))?;
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

    fn topology(&self, rng: &mut Rng) -> Result<Topology> {
        match &self.shape {
            Shape::Switch {
                hosts,
                buffer,
                link,
            } => generate::switch(*hosts, *buffer, *link),
            Shape::Bus { hosts, bus } => generate::bus(*hosts, *bus),
            Shape::Star { size, link } => generate::star(*size, *link),
            Shape::Chain { size, link } => generate::chain(*size, *link),
            Shape::Mesh { size, link } => generate::mesh(*size, *link),
            Shape::Tree {
                branching,
                depth,
                link,
            } => generate::tree(*branching, *depth, *link),
            Shape::FilledTree {
                branching,
                size,
                link,
            } => generate::filled_tree(*branching, *size, *link),
            Shape::Clusters {
                clusters,
                size,
                link,
                between,
            } => generate::clusters(*clusters, *size, *link, *between),
            Shape::Dumbbell {
                left,
                right,
                link,
                bottleneck,
            } => generate::dumbbell(*left, *right, *link, *bottleneck),
            Shape::TransitStub(shape) => generate::transit_stub(shape, rng),
            Shape::Random { size, edges, link } => generate::random(*size, *edges, *link, rng),
            Shape::Edges { list, link } => {
                return edges::parse(&list.text, *link).map_err(|error| in_list(list, &error));
            }
        }
        .map_err(|error| self.impossible(&error))
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

fn count(entry: &Entry<'_>) -> Result<u32> {
    Ok(entry.number_in(1, COUNT_MAX)? as u32)
}

fn count_or_none(entry: &Entry<'_>) -> Result<u32> {
    Ok(entry.number_in(0, COUNT_MAX)? as u32)
}

fn shape(section: &Section<'_>, kind: &str, base: &Path) -> Result<Shape> {
    let size = || section.required("size", count);
    let link = || section.required("link", LinkKeys::spec);
    Ok(match kind {
        "switch" => Shape::Switch {
            hosts: section.required("hosts", count)?,
            buffer: section.or("buffer", u64::MAX, |entry| match &entry.node.value {
                Value::String(text) if text == "unlimited" => Ok(u64::MAX),
                _ => entry.size(),
            })?,
            link: link()?,
        },
        "bus" => Shape::Bus {
            hosts: section.required("hosts", count)?,
            bus: bus(section)?,
        },
        "star" => Shape::Star {
            size: size()?,
            link: link()?,
        },
        "chain" => Shape::Chain {
            size: size()?,
            link: link()?,
        },
        "mesh" => Shape::Mesh {
            size: size()?,
            link: link()?,
        },
        "tree" => tree(section, link()?)?,
        "clusters" => Shape::Clusters {
            clusters: section.required("clusters", count)?,
            size: size()?,
            link: link()?,
            between: section.required("between", LinkKeys::spec)?,
        },
        "dumbbell" => Shape::Dumbbell {
            left: section.required("left", count)?,
            right: section.required("right", count)?,
            link: link()?,
            bottleneck: section.required("bottleneck", LinkKeys::spec)?,
        },
        "transit-stub" => Shape::TransitStub(TransitStub {
            transits: section.required("transits", count)?,
            transit_size: section.required("transit_size", count)?,
            stubs: section.required("stubs", count_or_none)?,
            stub_size: section.required("stub_size", count_or_none)?,
            transit_edges: section.required("transit_edges", Entry::share)?,
            stub_edges: section.required("stub_edges", Entry::share)?,
            transit: section.required("transit", LinkKeys::spec)?,
            access: section.required("access", LinkKeys::spec)?,
            stub: link()?,
        }),
        "random" => Shape::Random {
            size: size()?,
            edges: section.required("edges", Entry::number)?,
            link: link()?,
        },
        _ => Shape::Edges {
            list: Arc::new(edge_list(&section.require("file")?, base)?),
            link: link()?,
        },
    })
}

fn tree(section: &Section<'_>, link: LinkSpec) -> Result<Shape> {
    let branching = section.required("branching", count)?;
    let depth = section.optional("depth", |entry| Ok(entry.number_in(0, 64)? as u32))?;
    match (depth, section.get("size")) {
        (Some(_), Some(size)) => Err(size.wrong(
            "contradicts depth",
            "give the depth of a full tree or the size of one filled breadth first",
        )),
        (Some(depth), None) => Ok(Shape::Tree {
            branching,
            depth,
            link,
        }),
        (None, _) => Ok(Shape::FilledTree {
            branching,
            size: section.required("size", count)?,
            link,
        }),
    }
}

fn bus(section: &Section<'_>) -> Result<BusSpec> {
    let default = BusSpec::default();
    let bus = BusSpec {
        bandwidth: section.or("bandwidth", default.bandwidth, Entry::bandwidth)?,
        propagation: section.or("propagation", default.propagation, Entry::duration)?,
        ..default
    };
    match bus.check() {
        Ok(()) => Ok(bus),
        Err(error) => {
            let entry = section
                .get("propagation")
                .or_else(|| section.get("bandwidth"));
            let help = "the standard's Ethernet has \"10 Mb/s\" and at most \"25 us\"";
            Err(match entry {
                Some(entry) => entry.wrong(error.to_string(), help),
                None => section.wrong(error.to_string(), help),
            })
        }
    }
}

fn edge_list(entry: &Entry<'_>, base: &Path) -> Result<EdgeList> {
    let path = base.join(entry.string()?);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(EdgeList { path, text }),
        Err(error) => Err(ScenarioError::Unreadable {
            path,
            error,
            place: Some(entry.node.place.clone()),
        }),
    }
}

/// An error in an edge list points into the list.
fn in_list(list: &EdgeList, error: &EdgeListError) -> ScenarioError {
    let line_at: usize = list
        .text
        .split_inclusive('\n')
        .take(error.line - 1)
        .map(str::len)
        .sum();
    let line = list.text[line_at..].lines().next().unwrap_or_default();
    let word_at = line
        .char_indices()
        .nth(error.column - 1)
        .map_or(line.len(), |(at, _)| at);
    let word = line[word_at..]
        .split_whitespace()
        .next()
        .unwrap_or_default();
    let start = line_at + word_at;
    ScenarioError::Value {
        key: None,
        message: error.fault.to_string(),
        help: "a line is `A B [BANDWIDTH] [DELAY]`: docs/scenarios.md".into(),
        place: Place {
            source: Arc::new(Source {
                name: list.path.display().to_string(),
                text: list.text.clone(),
            }),
            span: start..start + word.len(),
        },
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

/// What to say of a key that another kind of network has.
fn belongs_to(key: &str, kind: &str) -> Option<String> {
    let has = |(_, keys): &&(&str, &[&str])| keys.contains(&key);
    let (other, _) = KINDS.iter().find(has)?;
    let (_, own) = KINDS.iter().find(|(name, _)| *name == kind)?;
    Some(format!(
        "`{key}` goes with the kind `{other}`; a network of the kind `{kind}` takes {}",
        super::suggest::alternatives(own)
    ))
}
