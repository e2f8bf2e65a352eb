//! Unicast routes: along the shortest path, by delay, then by hops.
//!
//! A table a destination says for every vertex which way is next; it is made when the destination
//! is first asked for, and those that were not asked lately go when the tables pass a limit. A
//! vertex with one link needs none: its routes are those of its neighbour. Tables are never
//! refreshed by themselves: when a link changes, packets are routed as before until the caller says
//! with [`Routes::invalidate`] that the routing has noticed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use super::{Topology, Vertex, Way};

/// No way leads there.
const NONE: u32 = u32::MAX;

/// Shortest paths of a [`Topology`], made as they are asked for.
///
/// The path from one vertex to another has the least sum of [delays](Topology::delay); among those,
/// the fewest hops; among those, at each vertex the neighbour with the lowest number, by the link
/// with the lowest number. Only links that are up count. The answers are wrong if the topology is
/// exchanged for another without a call of [`invalidate`](Self::invalidate).
///
/// Cost: [`next`](Self::next) takes a few loads. A table takes Dijkstra's algorithm once (about a
/// millisecond for 10,000 vertices) and four bytes a vertex.
#[derive(Debug)]
pub struct Routes {
    /// Vertices and edges of the topology when the tables were begun: when it grows, they begin
    /// anew.
    size: (usize, usize),
    /// By vertex: the only way that leaves it, or [`NONE`] if there is none or a choice.
    only: Vec<u32>,
    /// The tables, by the number of the destination.
    tables: Vec<Option<Table>>,
    /// The destinations that have a table, in the order in which the hand passes them.
    clock: VecDeque<Vertex>,
    bytes_max: usize,
    search: Search,
}

/// The way to take next, by vertex.
#[derive(Debug)]
struct Table {
    next: Box<[u32]>,
    /// Whether it was asked since the hand passed it last.
    used: bool,
}

impl Routes {
    /// The limit on the memory of tables unless another is named: all of a network of 8,000
    /// vertices, more where vertices with one link abound.
    pub const BYTES_MAX: usize = 256 << 20;

    /// No tables yet, and at most [`BYTES_MAX`](Self::BYTES_MAX) of them.
    pub fn new() -> Self {
        Self::with_limit(Self::BYTES_MAX)
    }

    /// No tables yet, and at most `bytes_max` of them (but always room for one).
    pub fn with_limit(bytes_max: usize) -> Self {
        Self {
            size: (0, 0),
            only: Vec::new(),
            tables: Vec::new(),
            clock: VecDeque::new(),
            bytes_max,
            search: Search::default(),
        }
    }

    /// Forgets everything: what is asked from now on follows the topology as it is from now on.
    pub fn invalidate(&mut self) {
        self.size = (0, 0);
        self.only.clear();
        self.tables.clear();
        self.clock.clear();
    }

    /// The way to take at `from` for `to`; none if it is the same vertex or out of reach.
    pub fn next(&mut self, topology: &Topology, from: Vertex, to: Vertex) -> Option<Way> {
        self.keep_up(topology);
        if from == to {
            return None;
        }
        let last = self.only[to.index()];
        if last == NONE {
            return self.toward(topology, from, to);
        }
        // Whatever reaches it comes through its only neighbour.
        let last = Way(last).reversed();
        let neighbour = topology.tail(last);
        if from == neighbour {
            Some(last)
        } else {
            self.toward(topology, from, neighbour)
        }
    }

    /// How far it is from one vertex to another: the sum of delays, and hops. None if it is out of
    /// reach; takes as long as the path has hops.
    pub fn distance(
        &mut self,
        topology: &Topology,
        from: Vertex,
        to: Vertex,
    ) -> Option<(Duration, u32)> {
        let (mut at, mut delay, mut hops) = (from, Duration::ZERO, 0);
        while at != to {
            let way = self.next(topology, at, to)?;
            at = topology.head(way);
            delay += topology.delay(way);
            hops += 1;
        }
        Some((delay, hops))
    }

    /// The ways from one vertex to another, in the order in which they are taken; none at all if it
    /// is the same vertex or out of reach.
    pub fn path(&mut self, topology: &Topology, from: Vertex, to: Vertex) -> Vec<Way> {
        let mut at = from;
        std::iter::from_fn(|| {
            let way = self.next(topology, at, to)?;
            at = topology.head(way);
            Some(way)
        })
        .collect()
    }

    /// Memory that the tables take, in bytes.
    pub fn bytes(&self) -> usize {
        self.clock.len() * self.table_bytes()
    }

    fn table_bytes(&self) -> usize {
        self.only.len() * size_of::<u32>()
    }

    /// Begins anew if the topology has grown or this has just begun.
    fn keep_up(&mut self, topology: &Topology) {
        let size = (topology.vertices().len(), topology.edges().len());
        if self.size == size {
            return;
        }
        self.invalidate();
        self.size = size;
        self.only
            .extend(topology.vertices().map(|it| only_way(topology, it)));
        self.tables.resize_with(size.0, || None);
    }

    /// The way to take at `from` by the table of `to`.
    fn toward(&mut self, topology: &Topology, from: Vertex, to: Vertex) -> Option<Way> {
        let table = match &mut self.tables[to.index()] {
            Some(table) => table,
            None => self.make_table(topology, to),
        };
        table.used = true;
        let way = table.next[from.index()];
        (way != NONE).then_some(Way(way))
    }

    #[cold]
    fn make_table(&mut self, topology: &Topology, to: Vertex) -> &mut Table {
        self.make_room();
        self.clock.push_back(to);
        let next = self.search.run(topology, to);
        self.tables[to.index()].insert(Table { next, used: false })
    }

    /// Lets tables go until one more fits: in turn, but those that were used since their last turn
    /// get another.
    fn make_room(&mut self) {
        while self.bytes() + self.table_bytes() > self.bytes_max {
            let Some(vertex) = self.clock.pop_front() else {
                return;
            };
            match &mut self.tables[vertex.index()] {
                Some(table) if table.used => {
                    table.used = false;
                    self.clock.push_back(vertex);
                }
                table => *table = None,
            }
        }
    }
}

impl Default for Routes {
    fn default() -> Self {
        Self::new()
    }
}

/// The only way that is up and leaves a vertex, or [`NONE`].
fn only_way(topology: &Topology, vertex: Vertex) -> u32 {
    let mut up = topology
        .ways_from(vertex)
        .map(|(way, _)| way)
        .filter(|way| topology.is_up(way.edge()));
    match (up.next(), up.next()) {
        (Some(way), None) => way.0,
        _ => NONE,
    }
}

/// Dijkstra's algorithm from a destination against the direction of travel, and the memory that it
/// works in.
#[derive(Default, Debug)]
struct Search {
    /// By vertex: delay in nanoseconds and hops to the destination.
    distance: Vec<(u64, u32)>,
    waiting: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl Search {
    const FAR: (u64, u32) = (u64::MAX, u32::MAX);

    /// By vertex: the next way on the best path to `to`, or [`NONE`].
    fn run(&mut self, topology: &Topology, to: Vertex) -> Box<[u32]> {
        let mut next = vec![NONE; topology.vertices().len()].into_boxed_slice();
        self.distance.clear();
        self.distance.resize(next.len(), Self::FAR);
        self.distance[to.index()] = (0, 0);
        self.waiting.push(Reverse((0, 0, to.0)));
        while let Some(Reverse((delay, hops, vertex))) = self.waiting.pop() {
            if self.distance[vertex as usize] != (delay, hops) {
                continue;
            }
            for (away, before) in topology.ways_from(Vertex(vertex)) {
                if !topology.is_up(away.edge()) {
                    continue;
                }
                let way = away.reversed();
                let through = (delay.saturating_add(nanos(topology.delay(way))), hops + 1);
                let best = &mut self.distance[before.index()];
                // A hop more is farther even without delay, so all that tie are taken before
                // `before` itself is.
                if through < *best {
                    *best = through;
                    next[before.index()] = way.0;
                    self.waiting.push(Reverse((through.0, through.1, before.0)));
                } else if through == *best
                    && Vertex(vertex) < topology.head(Way(next[before.index()]))
                {
                    next[before.index()] = way.0;
                }
            }
        }
        next
    }
}

fn nanos(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkSpec;
    use crate::topology::generate;

    #[test]
    fn tables_in_use_outlast_those_that_are_not() {
        let mesh = generate::mesh(10, LinkSpec::ideal(0, Duration::ZERO)).unwrap();
        let mut routes = Routes::with_limit(3 * 10 * size_of::<u32>());
        for to in [0, 1, 2, 3, 0, 4, 0, 5, 0, 6] {
            assert!(routes.next(&mesh, Vertex(9), Vertex(to)).is_some());
        }
        let kept: Vec<_> = (0..10).filter(|it| routes.tables[*it].is_some()).collect();
        assert_eq!(kept, [0, 5, 6]);
    }
}
