//! The shape of a network: vertices, the links between them, hosts at some of them, and the ways
//! packets take.
//!
//! A [`Topology`] only says what there is; what a link does to a packet is [`link`](crate::link),
//! and the fabric that moves packets along the ways is elsewhere. All of it is deterministic: the
//! same calls give the same numbers, ties go to the lowest of them, and what is random follows from
//! the [`Rng`](groupcast_core::Rng) that is handed in.
//!
//! - [`generate`]: trees, stars, chains, meshes, clusters, transit-stub and random graphs.
//! - [`edges`]: import from an edge list.
//! - [`routes`]: unicast, along shortest paths.
//! - [`multicast`]: trees rooted at a source, trees shared around a core.
//! - [`mod@draw`]: random members.
//! - [`cost`]: what a packet costs where every crossing has its price.
//!
//! ```
//! use std::time::Duration;
//! use groupcast_sim::link::LinkSpec;
//! use groupcast_sim::topology::{MulticastTree, Routes, Vertex, generate};
//!
//! let link = LinkSpec::ideal(1_500_000, Duration::from_millis(5)); let mut tree =
//! generate::filled_tree(3, 1_000, link)?; tree.place_hosts([Vertex(0), Vertex(500), Vertex(999)]);
//! let mut routes = Routes::new(); let (delay, hops) = routes.distance(&tree, Vertex(500),
//! Vertex(999)).expect("a tree is connected"); assert_eq!(delay, Duration::from_millis(5) * hops);
//! let shared = MulticastTree::core(&tree, &mut routes, Vertex(0), tree.hosts());
//! assert!(shared.contains(Vertex(500)) && !shared.contains(Vertex(501)));
//! # Ok::<(), groupcast_sim::topology::ShapeError>(())
//! ```

pub mod cost;
pub mod draw;
pub mod edges;
pub mod generate;
mod graph;
pub mod multicast;
pub mod routes;
mod specs;
#[cfg(test)]
mod tests;

pub use draw::{DrawError, draw};
pub use edges::EdgeListError;
pub use generate::{ShapeError, TransitStub};
pub use graph::{NameTaken, Topology};
pub use multicast::MulticastTree;
pub use routes::Routes;

use crate::link::{BusSpec, TokenRingSpec};

/// A place where links meet, by its number: 0 for the first that was added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Vertex(pub u32);

impl Vertex {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A link between two vertices, both ways, by its number: 0 for the first that was connected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EdgeId(pub u32);

impl EdgeId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its two directions: from the first of its [`ends`](Topology::ends), and back.
    pub const fn ways(self) -> [Way; 2] {
        [Way(self.0 * 2), Way(self.0 * 2 + 1)]
    }
}

/// One direction of a link: the number of the edge times two, plus one if it leads from its second
/// end to its first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Way(pub u32);

impl Way {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Of which link it is a direction.
    pub const fn edge(self) -> EdgeId {
        EdgeId(self.0 / 2)
    }

    /// The other direction of the same link.
    pub const fn reversed(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// From which of the [`ends`](Topology::ends) of its edge it leads, 0 or 1.
    const fn side(self) -> usize {
        (self.0 % 2) as usize
    }
}

/// What a vertex is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// A host or a router: the links that leave it share nothing.
    Plain,
    /// A store-and-forward switch.
    Switch {
        /// Bytes of the buffer that its ports share.
        buffer: u64,
    },
    /// The cable of a shared Ethernet. Its edges are taps, one a station: what is sent into it is
    /// heard at all others.
    Bus(BusSpec),
    /// A token ring. Its edges are taps, one a station, in the order in which the token goes; what
    /// is sent into it is heard at all others.
    TokenRing(TokenRingSpec),
}
