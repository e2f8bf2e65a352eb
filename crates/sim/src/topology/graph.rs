//! The graph: vertices, links, hosts, which vertices are neighbours, and which links are up.
//!
//! Adjacency is a list threaded through arrays, so a network grows link by link and still takes
//! eight bytes a vertex and four a way; the ways of a vertex come in the order in which they were
//! connected.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use thiserror::Error;

use super::specs::Specs;
use super::{EdgeId, Kind, Vertex, Way};
use crate::link::LinkSpec;

/// No way, no host.
const NONE: u32 = u32::MAX;

/// Vertices, links, hosts. Made by the functions of [`generate`](super::generate), from an
/// [edge list](super::edges), or step by step.
///
/// All answers take constant time but where it says otherwise. Numbers of vertices, edges and ways
/// come from the topology itself; any other is a bug of the caller and panics.
#[derive(Clone, Default, Debug)]
pub struct Topology {
    vertices: Vec<Node>,
    ends: Vec<[Vertex; 2]>,
    up: Vec<bool>,
    /// The way after each among those that leave the same vertex.
    next: Vec<u32>,
    specs: Specs,
    hosts: Vec<Vertex>,
    names: BTreeMap<Vertex, Box<str>>,
    named: BTreeMap<Box<str>, Vertex>,
}

/// What is kept of a vertex.
#[derive(Clone, Copy, Debug)]
struct Node {
    kind: Kind,
    /// The first way that leaves it.
    first: u32,
    /// The last way that leaves it.
    last: u32,
    /// The number of its host.
    host: u32,
}

impl Topology {
    /// A topology without any vertex.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a vertex; its number is the count of those before it.
    pub fn add(&mut self, kind: Kind) -> Vertex {
        let vertex = Vertex(self.vertices.len() as u32);
        self.vertices.push(Node {
            kind,
            first: NONE,
            last: NONE,
            host: NONE,
        });
        vertex
    }

    /// Adds `count` vertices of one kind.
    pub(super) fn add_many(&mut self, kind: Kind, count: u32) -> Vec<Vertex> {
        (0..count).map(|_| self.add(kind)).collect()
    }

    /// Links two vertices, alike in both directions. Two links may join the same vertices.
    ///
    /// # Panics
    /// If `a` is `b`.
    pub fn connect(&mut self, a: Vertex, b: Vertex, spec: LinkSpec) -> EdgeId {
        self.connect_ways(a, b, [spec; 2])
    }

    /// Links two vertices: the first specification is that of the way from `a` to `b`.
    ///
    /// # Panics
    /// If `a` is `b`.
    pub fn connect_ways(&mut self, a: Vertex, b: Vertex, specs: [LinkSpec; 2]) -> EdgeId {
        assert!(a != b, "a link from {a:?} to itself");
        let edge = EdgeId(self.ends.len() as u32);
        self.ends.push([a, b]);
        self.up.push(true);
        for (way, spec) in edge.ways().into_iter().zip(specs) {
            self.specs.push(spec);
            self.next.push(NONE);
            let tail = &mut self.vertices[self.ends[edge.index()][way.side()].index()];
            match tail.last {
                NONE => tail.first = way.0,
                last => self.next[last as usize] = way.0,
            }
            tail.last = way.0;
        }
        edge
    }

    /// Puts a host on a vertex; its number is the count of those before it. A vertex has one at
    /// most: asked again, the number is that of the host which it has.
    pub fn place_host(&mut self, vertex: Vertex) -> usize {
        let node = &mut self.vertices[vertex.index()];
        if node.host == NONE {
            node.host = self.hosts.len() as u32;
            self.hosts.push(vertex);
        }
        node.host as usize
    }

    /// Puts hosts on vertices, in this order.
    pub fn place_hosts(&mut self, vertices: impl IntoIterator<Item = Vertex>) {
        for vertex in vertices {
            self.place_host(vertex);
        }
    }

    /// Where the hosts are, by their numbers.
    pub fn hosts(&self) -> &[Vertex] {
        &self.hosts
    }

    /// The number of the host on a vertex, if there is one.
    pub fn host_at(&self, vertex: Vertex) -> Option<usize> {
        let host = self.vertices[vertex.index()].host;
        (host != NONE).then_some(host as usize)
    }

    /// All vertices, in the order of their numbers.
    pub fn vertices(&self) -> impl ExactSizeIterator<Item = Vertex> + use<> {
        (0..self.vertices.len() as u32).map(Vertex)
    }

    /// All links, in the order of their numbers.
    pub fn edges(&self) -> impl ExactSizeIterator<Item = EdgeId> + use<> {
        (0..self.ends.len() as u32).map(EdgeId)
    }

    /// All directions of links, in the order of their numbers; twice as many as there are
    /// [`edges`](Self::edges).
    pub fn ways(&self) -> impl ExactSizeIterator<Item = Way> + use<> {
        (0..self.next.len() as u32).map(Way)
    }

    /// What a vertex is.
    pub fn kind(&self, vertex: Vertex) -> Kind {
        self.vertices[vertex.index()].kind
    }

    /// Makes a vertex something else.
    pub fn set_kind(&mut self, vertex: Vertex, kind: Kind) {
        self.vertices[vertex.index()].kind = kind;
    }

    /// What a link joins, in the order in which it was connected.
    pub fn ends(&self, edge: EdgeId) -> [Vertex; 2] {
        self.ends[edge.index()]
    }

    /// The vertex at which a way begins.
    pub fn tail(&self, way: Way) -> Vertex {
        self.ends[way.edge().index()][way.side()]
    }

    /// The vertex to which a way leads.
    pub fn head(&self, way: Way) -> Vertex {
        self.ends[way.edge().index()][1 - way.side()]
    }

    /// What a way is like.
    pub fn spec(&self, way: Way) -> &LinkSpec {
        self.specs.get(way.index())
    }

    /// What a way is like, to be changed; the other direction stays. Routes do not notice a new
    /// delay before they are [told](super::Routes::invalidate).
    pub fn spec_mut(&mut self, way: Way) -> &mut LinkSpec {
        self.specs.get_mut(way.index())
    }

    /// How long a small packet takes along a way that is free: the delay of the link, and the
    /// propagation of the cable if it leads into a shared Ethernet, or a hop of a token ring.
    pub fn delay(&self, way: Way) -> Duration {
        let link = self.spec(way).delay;
        match &self.vertices[self.head(way).index()].kind {
            Kind::Bus(bus) => link + bus.propagation,
            Kind::TokenRing(ring) => link + ring.hop,
            Kind::Plain | Kind::Switch { .. } => link,
        }
    }

    /// The ways that leave a vertex and where each leads, in the order in which they were
    /// connected, whether they are up or not.
    pub fn ways_from(&self, vertex: Vertex) -> impl Iterator<Item = (Way, Vertex)> + '_ {
        let existing = |way: u32| (way != NONE).then_some(Way(way));
        let first = existing(self.vertices[vertex.index()].first);
        std::iter::successors(first, move |way| existing(self.next[way.index()]))
            .map(|way| (way, self.head(way)))
    }

    /// The way from one vertex to another that was connected first, if they are neighbours. Takes
    /// as long as the first has links.
    pub fn way(&self, from: Vertex, to: Vertex) -> Option<Way> {
        let mut ways = self.ways_from(from);
        ways.find_map(|(way, head)| (head == to).then_some(way))
    }

    /// Takes a link away or brings it back, in both directions. Routes do not notice before they
    /// are [told](super::Routes::invalidate).
    pub fn set_up(&mut self, edge: EdgeId, up: bool) {
        self.up[edge.index()] = up;
    }

    /// Whether a link is up; all are at first.
    pub fn is_up(&self, edge: EdgeId) -> bool {
        self.up[edge.index()]
    }

    /// What can be reached from a vertex along links that are up, itself first, nearer (in hops)
    /// before farther. Takes as long as what it reaches has links.
    pub fn reachable(&self, from: Vertex) -> Vec<Vertex> {
        let mut seen = vec![false; self.vertices.len()];
        seen[from.index()] = true;
        let (mut reached, mut waiting) = (vec![from], VecDeque::from([from]));
        while let Some(vertex) = waiting.pop_front() {
            for (way, head) in self.ways_from(vertex) {
                if self.is_up(way.edge()) && !seen[head.index()] {
                    seen[head.index()] = true;
                    reached.push(head);
                    waiting.push_back(head);
                }
            }
        }
        reached
    }

    /// Whether every vertex reaches every other along links that are up. Takes as long as there are
    /// links.
    pub fn is_connected(&self) -> bool {
        self.vertices.is_empty() || self.reachable(Vertex(0)).len() == self.vertices.len()
    }

    /// What a vertex is called: the name that it was given, or else its number.
    pub fn name(&self, vertex: Vertex) -> Cow<'_, str> {
        match self.names.get(&vertex) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(vertex.0.to_string()),
        }
    }

    /// Gives a vertex a name, or another.
    ///
    /// # Errors
    /// Another vertex has this name already, be it given or its number. Nothing changes then.
    pub fn set_name(&mut self, vertex: Vertex, name: &str) -> Result<(), NameTaken> {
        match self.find(name) {
            Some(by) if by != vertex => Err(NameTaken {
                name: name.to_owned(),
                by,
            }),
            _ => {
                self.rename(vertex, name);
                Ok(())
            }
        }
    }

    /// Gives the vertices names in their order: all of them, and all different.
    pub(super) fn name_all<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        for (vertex, name) in self.vertices().zip(names) {
            self.rename(vertex, name);
        }
        debug_assert!(
            self.named.len() == self.vertices.len() && self.names.len() == self.named.len()
        );
    }

    fn rename(&mut self, vertex: Vertex, name: &str) {
        if let Some(old) = self.names.insert(vertex, name.into()) {
            self.named.remove(&old);
        }
        self.named.insert(name.into(), vertex);
    }

    /// The vertex that is [called](Self::name) so. Takes a search in the names that were given.
    pub fn find(&self, name: &str) -> Option<Vertex> {
        let numbered = || {
            let vertex = Vertex(name.parse().ok()?);
            let exists = vertex.index() < self.vertices.len();
            (exists && self.name(vertex) == name).then_some(vertex)
        };
        self.named.get(name).copied().or_else(numbered)
    }
}

/// A name that another vertex has.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("vertex {} is called \"{name}\" already; every vertex needs a name of its own", by.0)]
pub struct NameTaken {
    /// The name that was asked for.
    pub name: String,
    /// The vertex that has it.
    pub by: Vertex,
}
