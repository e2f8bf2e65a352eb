//! Networks of known shapes, from few numbers.
//!
//! Vertices are numbered in the order in which each function names them, all are [`Kind::Plain`] unless it says
//! otherwise, and none has a host yet. Links are alike in both directions.

use std::collections::BTreeSet;
use std::time::Duration;

use groupcast_core::Rng;
use thiserror::Error;

use super::{Kind, Topology, Vertex};
use crate::link::{BusSpec, LinkSpec};

/// The most vertices of a generated or imported network: about a million.
pub const VERTICES_MAX: u64 = 1 << 20;

/// The most links of a generated or imported network: about four million.
pub const EDGES_MAX: u64 = 1 << 22;

/// A tree in which every vertex above the last level has `branching` children, the root 0 at level 0, the last level
/// `depth`. Numbered breadth first: the children of `v` are `branching * v + 1` and on.
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

/// A tree of `size` vertices filled breadth first, each with `branching` children as long as there are enough: the
/// parent of `v` is `(v - 1) / branching`.
///
/// # Errors
/// `size` is 0, `branching` is 0 and `size` above 1, or the tree is too large.
pub fn filled_tree(branching: u32, size: u32, link: LinkSpec) -> Result<Topology, ShapeError> {
    filled(branching, size.into(), link)
}

fn filled(branching: u32, size: u64, link: LinkSpec) -> Result<Topology, ShapeError> {
    let (mut topology, vertices) = plain("size", size)?;
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

/// Vertex 0 is a store-and-forward switch with `buffer` bytes for all its ports together, `stations` around it.
///
/// # Errors
/// `stations` is 0 or too large.
pub fn switch(stations: u32, buffer: u64, link: LinkSpec) -> Result<Topology, ShapeError> {
    around(stations, Kind::Switch { buffer }, link)
}

/// Vertex 0 is the cable of a shared Ethernet, `stations` tap it. The taps themselves take no time and lose nothing.
///
/// # Errors
/// `stations` is 0 or too large.
pub fn bus(stations: u32, bus: BusSpec) -> Result<Topology, ShapeError> {
    around(stations, Kind::Bus(bus), LinkSpec::ideal(0, Duration::ZERO))
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
    let (mut topology, vertices) = plain("size", size)?;
    limit_edges(pairs(size))?;
    connect_all(&mut topology, &vertices, link);
    Ok(topology)
}

/// `clusters` full meshes of `size` vertices, one mesh after the other, with `inner` inside; the first vertices of
/// successive meshes are joined by `between`.
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
    let (mut topology, vertices) = plain("size", u64::from(clusters) * u64::from(size))?;
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

/// Routers 0 and 1 joined by `bottleneck`; then `left` vertices around 0, then `right` around 1, by `link`.
///
/// # Errors
/// There are too many vertices.
pub fn dumbbell(
    left: u32,
    right: u32,
    link: LinkSpec,
    bottleneck: LinkSpec,
) -> Result<Topology, ShapeError> {
    let (mut topology, vertices) = plain("size", 2 + u64::from(left) + u64::from(right))?;
    topology.connect(vertices[0], vertices[1], bottleneck);
    for (index, vertex) in vertices[2..].iter().enumerate() {
        let router = vertices[usize::from(index >= left as usize)];
        topology.connect(router, *vertex, link);
    }
    Ok(topology)
}

/// A random tree of `size` vertices and further random links, `edges` in all, no two between the same vertices.
///
/// Each vertex is linked to one of those before it, all equally likely (a random recursive tree, logarithmically
/// deep); the further links are any set of the other pairs, all sets equally likely.
///
/// # Errors
/// `size` is 0, `edges` is less than the tree needs or more than there are pairs, or there are too many.
pub fn random(
    size: u32,
    edges: u64,
    link: LinkSpec,
    rng: &mut Rng,
) -> Result<Topology, ShapeError> {
    let (mut topology, vertices) = plain("size", size)?;
    let (least, most) = (u64::from(size) - 1, pairs(size));
    if !(least..=most).contains(&edges) {
        return Err(ShapeError::Edges {
            edges,
            size,
            least,
            most,
        });
    }
    limit_edges(edges)?;
    let linked = connect_tree(&mut topology, &vertices, link, rng);
    for (a, b) in further_pairs(size, &linked, edges - least, rng) {
        topology.connect(vertices[a as usize], vertices[b as usize], link);
    }
    Ok(topology)
}

/// What a transit-stub network is made of, after Calvert, Doar and Zegura, "Modeling Internet Topology" (IEEE
/// Communications Magazine, 1997), whose generator (GT-ITM) 004 used in chapter 7.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TransitStub {
    /// Transit domains (backbones). Each two are joined by one link between routers drawn at random.
    pub transits: u32,
    /// Routers of each transit domain.
    pub transit_size: u32,
    /// Stub domains that hang on each transit router, each by one link to a vertex of it drawn at random.
    pub stubs: u32,
    /// Vertices of each stub domain.
    pub stub_size: u32,
    /// Probability of a link between two routers of a domain, beyond those of a random tree of all.
    pub transit_edges: f64,
    /// Probability of a link between two vertices of a stub domain, beyond those of a random tree of all.
    pub stub_edges: f64,
    /// Links between transit routers.
    pub transit: LinkSpec,
    /// Links between a transit router and a stub domain.
    pub access: LinkSpec,
    /// Links within stub domains.
    pub stub: LinkSpec,
}

impl TransitStub {
    /// How many vertices there are: `transits * transit_size * (1 + stubs * stub_size)`.
    pub fn size(&self) -> u64 {
        let routers = u64::from(self.transits) * u64::from(self.transit_size);
        let behind = u64::from(self.stubs) * u64::from(self.stub_size);
        routers.saturating_mul(behind.saturating_add(1))
    }

    fn check(&self) -> Result<(), ShapeError> {
        positive("transits", self.transits)?;
        positive("transit_size", self.transit_size)?;
        if self.stubs > 0 {
            positive("stub_size", self.stub_size)?;
        }
        probability("transit_edges", self.transit_edges)?;
        probability("stub_edges", self.stub_edges)?;
        // As if all domains were full meshes, which bounds the time as well.
        let transits = u64::from(self.transits);
        let routers = transits.saturating_mul(u64::from(self.transit_size));
        let backbone = transits
            .saturating_mul(pairs(self.transit_size))
            .saturating_add(pairs(self.transits));
        let stubs = routers.saturating_mul(u64::from(self.stubs));
        limit_edges(backbone.saturating_add(stubs.saturating_mul(pairs(self.stub_size) + 1)))
    }
}

/// A transit-stub network: first the transit routers, domain by domain, then for each of them in turn its stub
/// domains, vertex by vertex.
///
/// # Errors
/// There are no transit routers, stub domains are empty, a share is not between 0 and 1, or there are too many
/// vertices or links (counted as if every domain were a full mesh).
pub fn transit_stub(shape: &TransitStub, rng: &mut Rng) -> Result<Topology, ShapeError> {
    shape.check()?;
    let (mut topology, vertices) = plain("size", shape.size())?;
    let routers = (shape.transits * shape.transit_size) as usize;
    let (routers, behind) = vertices.split_at(routers);
    let domains: Vec<_> = routers.chunks(shape.transit_size as usize).collect();
    for domain in &domains {
        connect_domain(
            &mut topology,
            domain,
            shape.transit,
            shape.transit_edges,
            rng,
        );
    }
    for (index, domain) in domains.iter().enumerate() {
        for other in &domains[index + 1..] {
            let (a, b) = (one_of(domain, rng), one_of(other, rng));
            topology.connect(a, b, shape.transit);
        }
    }
    let stubs = behind.chunks(shape.stub_size.max(1) as usize);
    for (index, stub) in stubs.enumerate() {
        let router = routers[index / shape.stubs as usize];
        topology.connect(router, one_of(stub, rng), shape.access);
        connect_domain(&mut topology, stub, shape.stub, shape.stub_edges, rng);
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
        /// Which.
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
    /// A random network cannot have so many links.
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
fn plain(name: &'static str, size: impl Into<u64>) -> Result<(Topology, Vec<Vertex>), ShapeError> {
    let size = size.into();
    if size == 0 {
        return Err(ShapeError::Zero(name));
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

fn one_of(domain: &[Vertex], rng: &mut Rng) -> Vertex {
    domain[rng.below(domain.len() as u64) as usize]
}

fn connect_all(topology: &mut Topology, vertices: &[Vertex], link: LinkSpec) {
    for (index, a) in vertices.iter().enumerate() {
        for b in &vertices[index + 1..] {
            topology.connect(*a, *b, link);
        }
    }
}

/// Links each vertex but the first to one of those before it; answers which, by index.
fn connect_tree(
    topology: &mut Topology,
    vertices: &[Vertex],
    link: LinkSpec,
    rng: &mut Rng,
) -> Vec<u32> {
    let mut linked = vec![0];
    for (index, vertex) in vertices.iter().enumerate().skip(1) {
        let before = rng.below(index as u64) as u32;
        topology.connect(vertices[before as usize], *vertex, link);
        linked.push(before);
    }
    linked
}

/// A random tree and every further pair with probability `share`.
fn connect_domain(
    topology: &mut Topology,
    vertices: &[Vertex],
    link: LinkSpec,
    share: f64,
    rng: &mut Rng,
) {
    let linked = connect_tree(topology, vertices, link, rng);
    for b in 1..vertices.len() {
        for a in 0..b {
            if linked[b] != a as u32 && rng.chance(share) {
                topology.connect(vertices[a], vertices[b], link);
            }
        }
    }
}

/// `wanted` pairs `(a, b)`, `a < b < size`, other than `(linked[b], b)`, in ascending order of `b`, then `a`.
///
/// Draws the smaller of the set and its complement and draws again what it has already, so that either takes two trials
/// a pair at most on average.
fn further_pairs(size: u32, linked: &[u32], wanted: u64, rng: &mut Rng) -> Vec<(u32, u32)> {
    let free = pairs(size) + 1 - u64::from(size);
    let complement = wanted > free / 2;
    let count = if complement { free - wanted } else { wanted };
    let mut drawn = BTreeSet::new();
    while (drawn.len() as u64) < count {
        let [x, y] = [0; 2].map(|_: u32| rng.below(u64::from(size)) as u32);
        let (a, b) = (x.min(y), x.max(y));
        if a != b && linked[b as usize] != a {
            drawn.insert((b, a));
        }
    }
    if !complement {
        return drawn.into_iter().map(|(b, a)| (a, b)).collect();
    }
    (1..size)
        .flat_map(|b| (0..b).map(move |a| (a, b)))
        .filter(|(a, b)| linked[*b as usize] != *a && !drawn.contains(&(*b, *a)))
        .collect()
}
