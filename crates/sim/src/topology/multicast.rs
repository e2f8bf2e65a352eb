//! Multicast trees: rooted at a source, or shared by all around a core.
//!
//! Both are grafted the way routers do it: each member asks towards the root, along its unicast
//! route, until the request meets the tree. What has no member behind it is never part of it.

use super::{Routes, Topology, Vertex, Way};

/// Where the packets of a group go on, at each vertex.
///
/// - [`source`](Self::source): one tree a sender, packets run from the root down (as with DVMRP and
///   PIM-SM's source trees). The tree of reverse paths: where the delays of the two directions of
///   links differ, it is the members' routes to the source that count.
/// - [`core`](Self::core): one tree a group, packets run in all directions from where they enter it
///   (core-based trees, RFC 2189). A sender that is not on it sends by unicast towards
///   [`root`](Self::root); the packet spreads from the vertex of the tree that it comes to first,
///   and is at home at all of them.
///
/// Cost: five bytes for each vertex of the topology and four or eight for each link of the tree;
/// built in the time of one table of [`Routes`] and of walking the tree once.
#[derive(Clone, Debug)]
pub struct MulticastTree {
    root: Vertex,
    /// By vertex, and one more: where its ways begin in `ways`.
    starts: Box<[u32]>,
    ways: Box<[Way]>,
    standing: Box<[Standing]>,
}

/// Whether a vertex belongs to the tree, and as what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// The vertex is not part of the tree.
    Off,
    /// The root, or packets pass through it.
    On,
    /// The vertex is a member of the group.
    Member,
}

impl MulticastTree {
    /// The tree of what `source` sends to `members`. Members out of reach are left out.
    pub fn source(
        topology: &Topology,
        routes: &mut Routes,
        source: Vertex,
        members: &[Vertex],
    ) -> Self {
        Self::graft(topology, routes, source, members, false)
    }

    /// The tree that all senders to `members` share. Members that do not reach the core are left
    /// out; the core stays, be it a member or not.
    pub fn core(
        topology: &Topology,
        routes: &mut Routes,
        core: Vertex,
        members: &[Vertex],
    ) -> Self {
        Self::graft(topology, routes, core, members, true)
    }

    /// Packets run down the branches, and up too if the tree is `shared`.
    fn graft(
        topology: &Topology,
        routes: &mut Routes,
        root: Vertex,
        members: &[Vertex],
        shared: bool,
    ) -> Self {
        let mut standing = vec![Standing::Off; topology.vertices().len()].into_boxed_slice();
        standing[root.index()] = Standing::On;
        let mut ways = Vec::new();
        for member in members {
            let mut at = *member;
            while standing[at.index()] == Standing::Off {
                // Only a member itself can be out of reach: what its route passes is not.
                let Some(up) = routes.next(topology, at, root) else {
                    break;
                };
                standing[at.index()] = Standing::On;
                ways.push(up.reversed());
                if shared {
                    ways.push(up);
                }
                at = topology.head(up);
            }
            if standing[member.index()] == Standing::On {
                standing[member.index()] = Standing::Member;
            }
        }
        ways.sort_unstable_by_key(|way| (topology.tail(*way), *way));
        Self {
            root,
            starts: starts(topology, &ways),
            ways: ways.into_boxed_slice(),
            standing,
        }
    }

    /// The source, or the core.
    pub fn root(&self) -> Vertex {
        self.root
    }

    /// Whether a vertex is part of the tree, as a member, as the root, or because packets pass
    /// through it.
    pub fn contains(&self, vertex: Vertex) -> bool {
        self.standing[vertex.index()] != Standing::Off
    }

    /// Whether a vertex is a member that the tree reaches.
    pub fn is_member(&self, vertex: Vertex) -> bool {
        self.standing[vertex.index()] == Standing::Member
    }

    /// All ways of the tree, by the vertex that they leave.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// Where a packet goes on that is at `at` and arrived by the way named: never back where it
    /// came from. Nowhere at a vertex off the tree.
    pub fn outs(&self, at: Vertex, arrived_by: Option<Way>) -> impl Iterator<Item = Way> + '_ {
        let back = arrived_by.map(Way::reversed);
        self.branches(at)
            .iter()
            .copied()
            .filter(move |way| Some(*way) != back)
    }

    fn branches(&self, at: Vertex) -> &[Way] {
        let [start, end] = [0, 1].map(|offset| self.starts[at.index() + offset] as usize);
        &self.ways[start..end]
    }

    /// The ways that one packet of `sender` crosses, each once, parents before children: first
    /// those towards the shared tree if the sender is off it, then the tree. Nothing if the sender
    /// has no route there.
    pub fn flow(&self, topology: &Topology, routes: &mut Routes, sender: Vertex) -> Vec<Way> {
        let (mut at, mut arrived_by) = (sender, None);
        let mut flow = Vec::new();
        while !self.contains(at) {
            let Some(way) = routes.next(topology, at, self.root) else {
                return Vec::new();
            };
            flow.push(way);
            (at, arrived_by) = (topology.head(way), Some(way));
        }
        let spreading = flow.len();
        flow.extend(self.outs(at, arrived_by));
        let mut index = spreading;
        while let Some(way) = flow.get(index).copied() {
            flow.extend(self.outs(topology.head(way), Some(way)));
            index += 1;
        }
        flow
    }
}

/// Where the ways of each vertex begin, and one more; `ways` are in the order of their tails.
fn starts(topology: &Topology, ways: &[Way]) -> Box<[u32]> {
    let mut starts = vec![0; topology.vertices().len() + 1].into_boxed_slice();
    for way in ways {
        starts[topology.tail(*way).index() + 1] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    starts
}
