//! Spanning trees for the first phase where there is no multicast (004 3.6.1).
//!
//! A tree is the members in an order drawn from the group's seed and the tree's number, read as a
//! heap: member i's parent is (i - 1) / arity. A message goes to all neighbours, and on from each
//! to all but the one it came from. Views that differ make trees that differ: then some get a
//! message twice or not at all, and gossip repairs it.

use alloc::vec::Vec;

use groupcast_core::{MemberId, Rng};

use super::members::View;

/// This member's neighbours in each tree.
#[derive(Debug)]
pub(super) struct Trees {
    seed: u64,
    arity: usize,
    /// By tree: the view that it was drawn for, and the neighbours.
    neighbours: Vec<Option<(u64, Vec<MemberId>)>>,
}

impl Trees {
    pub(super) fn new(trees: u16, arity: u16, seed: u64) -> Self {
        Self {
            seed,
            arity: usize::from(arity),
            neighbours: (0..trees).map(|_| None).collect(),
        }
    }

    /// How many trees there are.
    pub(super) fn len(&self) -> u64 {
        self.neighbours.len() as u64
    }

    /// `local`'s neighbours in `tree`; none if there is no such tree.
    pub(super) fn neighbours(&mut self, tree: u16, local: MemberId, view: &View) -> &[MemberId] {
        let (seed, arity) = (self.seed, self.arity);
        let Some(slot) = self.neighbours.get_mut(usize::from(tree)) else {
            return &[];
        };
        let generation = view.generation();
        if slot.as_ref().is_none_or(|(drawn, _)| *drawn != generation) {
            *slot = Some((generation, draw(seed, tree, arity, local, view)));
        }
        slot.as_ref().map_or(&[], |(_, neighbours)| neighbours)
    }
}

fn draw(seed: u64, tree: u16, arity: usize, local: MemberId, view: &View) -> Vec<MemberId> {
    let mut order: Vec<MemberId> = view.members().collect();
    let at = order.partition_point(|member| *member < local);
    order.insert(at, local);
    let mut rng = Rng::new(seed).fork("trees").fork_index(u64::from(tree));
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    let place = order.iter().position(|member| *member == local);
    let place = place.expect("it was put in just now");
    let children = place * arity + 1..(place * arity + 1 + arity).min(order.len());
    let parent = (place > 0).then(|| order[(place - 1) / arity]);
    let children = order.get(children).unwrap_or(&[]);
    parent.into_iter().chain(children.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

    use groupcast_core::{Incarnation, NodeId};

    use super::super::round::RoundNumber;
    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    #[test]
    fn every_tree_spans_the_group_and_no_two_are_alike() {
        let mut trees: BTreeMap<u64, (View, Trees)> = (1..=50)
            .map(|local| {
                let mut view = View::new(member(local), 64, Rng::new(local));
                (1..=50).for_each(|other| {
                    view.heard(member(other), RoundNumber(0));
                });
                (local, (view, Trees::new(4, 2, 9)))
            })
            .collect();
        let mut shapes = BTreeSet::new();
        for tree in 0..4 {
            let mut edges = BTreeSet::new();
            let (mut reached, mut queue) = (BTreeSet::from([1]), VecDeque::from([1]));
            while let Some(at) = queue.pop_front() {
                let (view, own) = trees.get_mut(&at).expect("one of the fifty");
                for next in own.neighbours(tree, member(at), view) {
                    let next = next.node.0;
                    edges.insert((at.min(next), at.max(next)));
                    if reached.insert(next) {
                        queue.push_back(next);
                    }
                }
            }
            assert_eq!((reached.len(), edges.len()), (50, 49));
            shapes.insert(edges);
        }
        assert_eq!(shapes.len(), 4);
    }
}
