//! Whether members fit into one configuration.

use alloc::collections::BTreeSet;

use crate::id::{MemberId, NodeId};

/// Whether all of `members` fit into one configuration of at most `most`. Lives of one node count
/// once: of two, one is over.
pub fn fit(members: impl Iterator<Item = MemberId>, most: usize) -> bool {
    let nodes: BTreeSet<NodeId> = members.map(|member| member.node).collect();
    nodes.len() <= most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Incarnation;

    #[test]
    fn lives_of_one_node_count_once() {
        let lives = [(1, 1), (2, 1), (2, 2), (3, 1)].map(|(node, life)| MemberId {
            node: NodeId(node),
            incarnation: Incarnation(life),
        });
        assert!(fit(lives.into_iter(), 3));
        assert!(!fit(lives.into_iter(), 2));
    }
}
