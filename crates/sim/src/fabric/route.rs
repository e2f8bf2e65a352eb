//! Which ways a packet takes from where it is: along shortest paths, or over multicast trees.
//!
//! Trees are made when they are first used and kept until the group or the links change, as far as
//! memory allows.

use std::time::Duration;

use super::{Packet, Target};
use crate::topology::{MulticastTree, Routes, Topology, Vertex, Way};

/// How a datagram to the group finds its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Multicast {
    /// Down the tree of shortest paths from its sender.
    SourceTrees,
    /// Over one tree shared by all senders, the shortest paths from this core; a sender that is not
    /// on it reaches it by unicast towards the core (Ballardie's core-based trees).
    CoreTree(Vertex),
}

/// Routes and trees of a topology.
pub(super) struct Router {
    multicast: Multicast,
    routes: Routes,
    /// By the vertex of the sender; with a shared tree, one by the core.
    trees: Vec<Option<MulticastTree>>,
    /// How many there are, and may be.
    kept: usize,
    kept_max: usize,
    joined: Vec<bool>,
    /// By host: which multicast address it listens to and sends to.
    addresses: Vec<u32>,
    /// Taken while it is filled.
    pub(super) ways: Vec<Way>,
}

impl Router {
    /// Bytes that all trees together may take; then they are made anew when they are used.
    const BYTES_MAX: usize = 256 << 20;
    /// About what a tree takes for each vertex of the topology (see [`MulticastTree`]).
    const BYTES_A_VERTEX: usize = 13;

    pub(super) fn new(multicast: Multicast, topology: &Topology) -> Self {
        let (hosts, vertices) = (topology.hosts().len(), topology.vertices().len());
        Self {
            multicast,
            routes: Routes::new(),
            trees: vec![None; vertices],
            kept: 0,
            kept_max: (Self::BYTES_MAX / (vertices * Self::BYTES_A_VERTEX).max(1)).max(1),
            joined: vec![true; hosts],
            addresses: vec![0; hosts],
            ways: Vec::new(),
        }
    }

    /// The links have changed.
    pub(super) fn forget(&mut self) {
        self.routes.invalidate();
        self.forget_trees();
    }

    fn forget_trees(&mut self) {
        self.trees.fill(None);
        self.kept = 0;
    }

    pub(super) fn set_joined(&mut self, host: usize, joined: bool) {
        if std::mem::replace(&mut self.joined[host], joined) != joined {
            self.forget_trees();
        }
    }

    /// From now on the host listens and sends to this multicast address; all begin with 0. Only for
    /// source trees: a shared tree has one.
    pub(super) fn set_address(&mut self, host: usize, address: u32) {
        self.addresses[host] = address;
        self.forget_trees();
    }

    /// Whether what one host sends to its multicast address is for the other.
    pub(super) fn is_reached(&self, from: usize, host: usize) -> bool {
        self.joined[host] && self.addresses[from] == self.addresses[host]
    }

    /// Whether a packet for the group that is at `at` has yet to find the shared tree.
    pub(super) fn is_off_tree(&mut self, topology: &Topology, at: Vertex, target: Target) -> bool {
        match (target, self.multicast) {
            (Target::All, Multicast::CoreTree(core)) => !self.tree(topology, core).contains(at),
            _ => false,
        }
    }

    /// Fills `ways` with the ways that `packet` takes from `at`, where it came by `came_by`.
    pub(super) fn onward(
        &mut self,
        topology: &Topology,
        at: Vertex,
        came_by: Option<Way>,
        packet: &Packet,
        ways: &mut Vec<Way>,
    ) {
        ways.clear();
        match (packet.target, self.multicast) {
            (Target::Host(to), _) => {
                let to = topology.hosts()[to];
                ways.extend(self.routes.next(topology, at, to));
            }
            (Target::All, Multicast::CoreTree(core)) if packet.off_tree => {
                ways.extend(self.routes.next(topology, at, core));
            }
            (Target::All, multicast) => {
                let root = match multicast {
                    Multicast::CoreTree(core) => core,
                    Multicast::SourceTrees => topology.hosts()[packet.datagram.from],
                };
                ways.extend(self.tree(topology, root).outs(at, came_by));
            }
        }
    }

    /// How long a small packet to the group takes from a host to each, where nothing waits; `None`
    /// for those that it does not reach.
    pub(super) fn delays_from(
        &mut self,
        topology: &Topology,
        host: usize,
    ) -> Vec<Option<Duration>> {
        let mut at = topology.hosts()[host];
        let mut spent = Duration::ZERO;
        let root = match self.multicast {
            Multicast::SourceTrees => at,
            Multicast::CoreTree(core) => core,
        };
        let mut delays = vec![None; topology.hosts().len()];
        while self.is_off_tree(topology, at, Target::All) {
            let Some(way) = self.routes.next(topology, at, root) else {
                return delays;
            };
            spent += topology.delay(way);
            at = topology.head(way);
        }
        let tree = self.tree(topology, root);
        let mut ahead = vec![(at, None, spent)];
        while let Some((at, came_by, spent)) = ahead.pop() {
            if let Some(host) = topology.host_at(at) {
                delays[host] = Some(spent);
            }
            for way in tree.outs(at, came_by) {
                ahead.push((topology.head(way), Some(way), spent + topology.delay(way)));
            }
        }
        delays
    }

    fn tree(&mut self, topology: &Topology, root: Vertex) -> &MulticastTree {
        if self.trees[root.index()].is_none() {
            if self.kept == self.kept_max {
                self.forget_trees();
            }
            self.kept += 1;
        }
        let (routes, joined, addresses) = (&mut self.routes, &self.joined, &self.addresses);
        self.trees[root.index()].get_or_insert_with(|| {
            let sender = match self.multicast {
                Multicast::SourceTrees => topology.host_at(root),
                Multicast::CoreTree(_) => None,
            };
            let is_member = |host: &usize| {
                let same = |sender: usize| addresses[sender] == addresses[*host];
                joined[*host] && sender.is_none_or(same)
            };
            let members = (0..topology.hosts().len()).filter(is_member);
            let members: Vec<Vertex> = members.map(|host| topology.hosts()[host]).collect();
            match self.multicast {
                Multicast::SourceTrees => MulticastTree::source(topology, routes, root, &members),
                Multicast::CoreTree(core) => MulticastTree::core(topology, routes, core, &members),
            }
        })
    }
}
