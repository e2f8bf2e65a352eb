//! Whether members fit into one configuration, and which strangers were refused because they do
//! not.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use crate::id::{MemberId, NodeId};
use crate::time::Time;

/// A stranger that was not refused for this long is gone, or was let in. In a configuration of 128
/// members each has its turn to announce it within half of that.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Whether all of `members` fit into one configuration of at most `most`. Lives of one node count
/// once: of two, one is over.
pub fn fit(members: impl Iterator<Item = MemberId>, most: usize) -> bool {
    let nodes: BTreeSet<NodeId> = members.map(|member| member.node).collect();
    nodes.len() <= most
}

/// The strangers that were refused lately for want of room.
#[derive(Clone, Hash, Debug, Default)]
pub struct Refused {
    /// When each of them was refused last.
    of: BTreeMap<MemberId, Time>,
}

impl Refused {
    /// The most that are remembered.
    pub const MAX: usize = 128;

    /// `stranger` is refused. Where too many are, those that were refused first are not forgotten
    /// for one more.
    pub fn note(&mut self, now: Time, stranger: MemberId) {
        if self.of.len() >= Self::MAX && !self.of.contains_key(&stranger) {
            self.of.retain(|_, at| now.since(*at) < REMEMBERED);
            if self.of.len() >= Self::MAX {
                return;
            }
        }
        self.of.insert(stranger, now);
    }

    /// Those that were refused in the last minute, and of which no life is among the `members` now.
    pub fn lately(&self, now: Time, members: &[MemberId]) -> Vec<MemberId> {
        let is_in = |it: &MemberId| members.iter().any(|member| member.node == it.node);
        let lately = self.of.iter();
        let lately = lately.filter(|(it, at)| now.since(**at) < REMEMBERED && !is_in(it));
        lately.map(|(it, _)| *it).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Incarnation;

    fn member(node: u64, life: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(life),
        }
    }

    #[test]
    fn who_was_refused_is_told_for_a_minute_unless_it_is_in() {
        let at = |seconds: u64| Time::from_millis(seconds * 1_000);
        let mut refused = Refused::default();
        for (seconds, node) in [(0, 1), (10, 2), (20, 3), (30, 1)] {
            refused.note(at(seconds), member(node, 1));
        }
        let lately = |seconds, members: &[MemberId]| -> Vec<u64> {
            let lately = refused.lately(at(seconds), members);
            lately.iter().map(|it| it.node.0).collect()
        };
        assert_eq!(lately(69, &[]), [1, 2, 3]);
        assert_eq!(lately(69, &[member(2, 1)]), [1, 3]);
        assert_eq!(lately(69, &[member(3, 2)]), [1, 2], "its next life");
        assert_eq!(lately(70, &[]), [1, 3]);
        assert_eq!(lately(90, &[]), []);
    }

    #[test]
    fn as_many_are_remembered_as_there_may_be_members() {
        let mut refused = Refused::default();
        for node in 0..1_000 {
            refused.note(Time::from_millis(node), member(node, 1));
        }
        assert_eq!(refused.of.len(), Refused::MAX);
        let later = Time::from_millis(61_000);
        refused.note(later, member(5_000, 1));
        assert_eq!(refused.lately(later, &[]), [member(5_000, 1)]);
    }

    #[test]
    fn lives_of_one_node_count_once() {
        let lives = [(1, 1), (2, 1), (2, 2), (3, 1)].map(|(node, life)| member(node, life));
        assert!(fit(lives.into_iter(), 3));
        assert!(!fit(lives.into_iter(), 2));
    }
}
