//! Networks of known shapes, from few numbers.
//!
//! Vertices are numbered in the order in which each function names them, all are [`Kind::Plain`]
//! unless it says otherwise, and none has a host yet. Links are alike in both directions.

mod random;

use std::time::Duration;

use thiserror::Error;

pub use self::random::{TransitStub, random, transit_stub};
use super::{Kind, Topology, Vertex};
use crate::link::{BusSpec, LinkSpec, TokenRingSpec};

/// The most vertices of a generated or imported network: about a million.
pub const VERTICES_MAX: u64 = 1 << 20;

/// The most links of a generated or imported network: about four million.
pub const EDGES_MAX: u64 = 1 << 22;

/// A tree in which every vertex above the last level has `branching` children, the root 0 at level
/// 0, the last level `depth`. Numbered breadth first: the children of `v` are `branching * v + 1`
/// and on.
///
/// # Errors
/// `branching` is 0 and `depth` is not, or the tree is too large.
pub fn tree(branching: u32, depth: u32, link: LinkSpec) -> Result<Topology, ShapeError> {
    if branching == 0 && depth > 0 {
        return Err(ShapeError::Zero("branching"));
    }
    let mut level: u64 = 1;
    let mut size: u64 = 1;
    for _ in 0..depth {
        level = level.saturating_mul(u64::from(branching));
        size = size.saturating_add(level);
        if size > VERTICES_MAX {
            break;
        }
    }
    filled(branching, size, link)
}

/// A tree of `size` vertices filled breadth first, each with `branching` children as long as there
/// are enough: the parent of `v` is `(v - 1) / branching`.
///
/// # Errors
/// `size` is 0, `branching` is 0 and `size` above 1, or the tree is too large.
pub fn filled_tree(branching: u32, size: u32, link: LinkSpec) -> Result<Topology, ShapeError> {
    filled(branching, size.into(), link)
}

fn filled(branching: u32, size: u64, link: LinkSpec) -> Result<Topology, ShapeError> {
    let (mut topology, vertices) = plain(size)?;
    if branching == 0 && size > 1 {
        return Err(ShapeError::Zero("branching"));
    }
    for (index, vertex) in vertices.iter().enumerate().skip(1) {
        let parent = vertices[(index - 1) / branching as usize];
        topology.connect(parent, *vertex, link);
    }
    Ok(topology)
}

/// Vertex 0 in the middle and `size` − 1 around it.
///
/// # Errors
/// `size` is 0 or too large.
pub fn star(size: u32, link: LinkSpec) -> Result<Topology, ShapeError> {
    filled(size.max(1), size.into(), link)
}

/// `size` vertices one after the other.
///
/// # Errors
/// `size` is 0 or too large.
pub fn chain(size: u32, link: LinkSpec) -> Result<Topology, ShapeError> {
    filled(1, size.into(), link)
}

/// Vertex 0 is a store-and-forward switch with `buffer` bytes for all its ports together,
/// `stations` around it.
///
/// # Errors
/// `stations` is 0 or too large.
pub fn switch(stations: u32, buffer: u64, link: LinkSpec) -> Result<Topology, ShapeError> {
    around(stations, Kind::Switch { buffer }, link)
}

/// Vertex 0 is the cable of a shared Ethernet, `stations` tap it. The taps themselves take no time
/// and lose nothing.
///
/// # Errors
/// `stations` is 0 or too large.
pub fn bus(stations: u32, bus: BusSpec) -> Result<Topology, ShapeError> {
    around(stations, Kind::Bus(bus), LinkSpec::ideal(0, Duration::ZERO))
}

/// Vertex 0 is a token ring of `stations`. The taps themselves take no time and lose nothing.
///
/// # Errors
/// `stations` is 0 or too large.
pub fn token_ring(stations: u32, ring: TokenRingSpec) -> Result<Topology, ShapeError> {
    let tap = LinkSpec::ideal(0, Duration::ZERO);
    around(stations, Kind::TokenRing(ring), tap)
}

fn around(stations: u32, middle: Kind, link: LinkSpec) -> Result<Topology, ShapeError> {
    positive("hosts", stations)?;
    let mut topology = filled(stations, u64::from(stations) + 1, link)?;
    topology.set_kind(Vertex(0), middle);
    Ok(topology)
}

/// `size` vertices, each linked to each.
///
/// # Errors
/// `size` is 0, or there are too many links.
pub fn mesh(size: u32, link: LinkSpec) -> Result<Topology, ShapeError> {
    let (mut topology, vertices) = plain(size.into())?;
    limit_edges(pairs(size))?;
    connect_all(&mut topology, &vertices, link);
    Ok(topology)
}

/// `clusters` full meshes of `size` vertices, one mesh after the other, with `inner` inside; the
/// first vertices of successive meshes are joined by `between`.
///
/// # Errors
/// `clusters` or `size` is 0, or there are too many vertices or links.
pub fn clusters(
    clusters: u32,
    size: u32,
    inner: LinkSpec,
    between: LinkSpec,
) -> Result<Topology, ShapeError> {
    positive("clusters", clusters)?;
    positive("size", size)?;
    let (mut topology, vertices) = plain(u64::from(clusters) * u64::from(size))?;
    limit_edges(u64::from(clusters).saturating_mul(pairs(size) + 1))?;
    for cluster in vertices.chunks(size as usize) {
        connect_all(&mut topology, cluster, inner);
    }
    for gateway in (size as usize..vertices.len()).step_by(size as usize) {
        let before = vertices[gateway - size as usize];
        topology.connect(before, vertices[gateway], between);
    }
    Ok(topology)
}

/// Routers 0 and 1 joined by `bottleneck`; then `left` vertices around 0, then `right` around 1, by
/// `link`.
///
/// # Errors
/// There are too many vertices.
pub fn dumbbell(
    left: u32,
    right: u32,
    link: LinkSpec,
    bottleneck: LinkSpec,
) -> Result<Topology, ShapeError> {
    let (mut topology, vertices) = plain(2 + u64::from(left) + u64::from(right))?;
    topology.connect(vertices[0], vertices[1], bottleneck);
    for (index, vertex) in vertices[2..].iter().enumerate() {
        let router = vertices[usize::from(index >= left as usize)];
        topology.connect(router, *vertex, link);
    }
    Ok(topology)
}

/// Why there is no network of this shape.
#[derive(Clone, Copy, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A number must be at least 1.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// A share is not a probability.
    #[error("{name} is {value}, but must be between 0 and 1")]
    NotAShare {
        /// The name of the setting.
        name: &'static str,
        /// What it was.
        value: f64,
    },
    /// Too many vertices.
    #[error("this network would have {0} vertices or more; the most are {VERTICES_MAX}")]
    Vertices(u64),
    /// Too many links.
    #[error("this network could have {0} links; the most are {EDGES_MAX}")]
    TooManyEdges(u64),
    /// A random network cannot have this many links.
    #[error("a network of {size} vertices has from {least} to {most} links, not {edges}")]
    Edges {
        /// How many are wanted.
        edges: u64,
        /// How many vertices there are.
        size: u32,
        /// What keeps it in one piece.
        least: u64,
        /// What a full mesh has.
        most: u64,
    },
}

/// Vertices and nothing else.
fn plain(size: u64) -> Result<(Topology, Vec<Vertex>), ShapeError> {
    if size == 0 {
        return Err(ShapeError::Zero("size"));
    }
    if size > VERTICES_MAX {
        return Err(ShapeError::Vertices(size));
    }
    let mut topology = Topology::new();
    let vertices = topology.add_many(Kind::Plain, size as u32);
    Ok((topology, vertices))
}

fn positive(name: &'static str, value: u32) -> Result<(), ShapeError> {
    if value == 0 {
        return Err(ShapeError::Zero(name));
    }
    Ok(())
}

fn probability(name: &'static str, value: f64) -> Result<(), ShapeError> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(ShapeError::NotAShare { name, value })
    }
}

fn limit_edges(edges: u64) -> Result<(), ShapeError> {
    if edges > EDGES_MAX {
        return Err(ShapeError::TooManyEdges(edges));
    }
    Ok(())
}

/// How many pairs `size` vertices make.
fn pairs(size: u32) -> u64 {
    u64::from(size) * u64::from(size.saturating_sub(1)) / 2
}

fn connect_all(topology: &mut Topology, vertices: &[Vertex], link: LinkSpec) {
    for (index, a) in vertices.iter().enumerate() {
        for b in &vertices[index + 1..] {
            topology.connect(*a, *b, link);
        }
    }
}
