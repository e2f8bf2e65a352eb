//! What sending costs where every crossing of a way has its price: the analysis of 000, chapter 10.
//!
//! The prices are the caller's. A shared cable costs once, however many hear it, if the ways into
//! it carry its price and those out of it nothing.

use super::{Routes, Topology, Vertex, Way};

impl Topology {
    /// The sum of `price` over `ways`: those of a [unicast path](Routes::path), of
    /// [copies](Routes::copies), of a [multicast](super::MulticastTree::flow). A way that comes
    /// twice is paid twice.
    pub fn cost(
        &self,
        ways: impl IntoIterator<Item = Way>,
        price: impl Fn(&Self, Way) -> u64,
    ) -> u64 {
        ways.into_iter().map(|way| price(self, way)).sum()
    }
}

impl Routes {
    /// The ways that packets cross when `sender` sends each of `members` a copy of its own; a way
    /// comes as often as copies cross it. The sender's own copy crosses none.
    pub fn copies(&mut self, topology: &Topology, sender: Vertex, members: &[Vertex]) -> Vec<Way> {
        members
            .iter()
            .flat_map(|member| self.path(topology, sender, *member))
            .collect()
    }
}
