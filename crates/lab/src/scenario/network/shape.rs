//! The kinds of networks: their keys, and how each is made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use groupcast_core::Rng;
use groupcast_core::settings::suggest::alternatives;
use groupcast_sim::link::{BusSpec, LinkSpec, TokenRingSpec};
use groupcast_sim::topology::{EdgeListError, ShapeError, Topology, TransitStub, edges, generate};

use crate::scenario::error::{ErrorSpan, ScenarioError, Source};
use crate::scenario::link::LinkKeys;
use crate::scenario::section::{Entry, Section};
use crate::scenario::tree::Value;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The most vertices that a number in a scenario may ask for.
pub(super) const COUNT_MAX: u64 = generate::VERTICES_MAX;

/// A kind of network and its numbers.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Switch {
        hosts: u32,
        buffer: u64,
        link: LinkSpec,
    },
    Bus {
        hosts: u32,
        bus: BusSpec,
    },
    TokenRing {
        hosts: u32,
        ring: TokenRingSpec,
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
pub(super) struct EdgeList {
    path: PathBuf,
    text: String,
}

/// The kinds, and the keys that only some of them have.
pub(super) const KINDS: &[(&str, &[&str])] = &[
    ("switch", &["hosts", "buffer", "link"]),
    ("bus", &["hosts", "bandwidth", "propagation"]),
    ("token-ring", &["hosts", "bandwidth", "hop", "holding"]),
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

/// Why there is no such network.
pub(super) enum Impossible {
    /// Its numbers.
    Shape(ShapeError),
    /// Its edge list.
    List(Box<ScenarioError>),
}

impl Shape {
    /// Whether all vertices but the first are hosts, and it is none.
    pub(super) fn has_stations(&self) -> bool {
        matches!(
            self,
            Self::Switch { .. } | Self::Bus { .. } | Self::TokenRing { .. }
        )
    }

    /// A network without hosts.
    pub(super) fn make(&self, rng: &mut Rng) -> std::result::Result<Topology, Impossible> {
        match self {
            Shape::Switch {
                hosts,
                buffer,
                link,
            } => generate::switch(*hosts, *buffer, *link),
            Shape::Bus { hosts, bus } => generate::bus(*hosts, *bus),
            Shape::TokenRing { hosts, ring } => generate::token_ring(*hosts, *ring),
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
                return edges::parse(&list.text, *link)
                    .map_err(|error| Impossible::List(Box::new(in_list(list, &error))));
            }
        }
        .map_err(Impossible::Shape)
    }
}

fn count(entry: &Entry<'_>) -> Result<u32> {
    Ok(entry.number_in(1, COUNT_MAX)? as u32)
}

fn count_or_none(entry: &Entry<'_>) -> Result<u32> {
    Ok(entry.number_in(0, COUNT_MAX)? as u32)
}

/// Reads the shape of a network of this kind. `base`: the directory to which paths are relative.
pub(super) fn read(section: &Section<'_>, kind: &str, base: &Path) -> Result<Shape> {
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
        "token-ring" => Shape::TokenRing {
            hosts: section.required("hosts", count)?,
            ring: token_ring(section)?,
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

fn token_ring(section: &Section<'_>) -> Result<TokenRingSpec> {
    let default = TokenRingSpec::default();
    let ring = TokenRingSpec {
        bandwidth: section.or("bandwidth", default.bandwidth, Entry::bandwidth)?,
        hop: section.or("hop", default.hop, Entry::duration)?,
        holding: section.or("holding", default.holding, Entry::duration)?,
        ..default
    };
    match (ring.check(), section.get("bandwidth")) {
        (Ok(()), _) => Ok(ring),
        (Err(error), Some(entry)) => {
            Err(entry.wrong(error.to_string(), "the standard's ring has \"4 Mb/s\""))
        }
        (Err(error), None) => Err(section.wrong(error.to_string(), "leave it out")),
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
        place: ErrorSpan {
            source: Arc::new(Source {
                name: list.path.display().to_string(),
                text: list.text.clone(),
            }),
            span: start..start + word.len(),
        },
    }
}

/// What to say of a key that another kind of network has.
pub(super) fn belongs_to(key: &str, kind: &str) -> Option<String> {
    let has = |(_, keys): &&(&str, &[&str])| keys.contains(&key);
    let (other, _) = KINDS.iter().find(has)?;
    let (_, own) = KINDS.iter().find(|(name, _)| *name == kind)?;
    Some(format!(
        "`{key}` goes with the kind `{other}`; a network of the kind `{kind}` takes {}",
        alternatives(own)
    ))
}
