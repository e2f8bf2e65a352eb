//! The list of all groups, in parts: there may be 100,000 memberships of one daemon's clients
//! alone, and to name them all takes longer than a turn may.

use std::sync::Arc;

use super::{Engine, GroupStatus};

/// How far a list of all groups is. By default it has none.
#[derive(Clone, Default, Debug)]
pub struct Listed {
    /// The number of the order whose groups are next.
    order: usize,
    /// The last group of that order that the list has.
    last: Option<Arc<str>>,
    is_whole: bool,
}

impl Listed {
    /// Whether the list has all groups.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }
}

impl Engine {
    /// All groups with members, as far as this daemon knows: first the agreed ones, then the
    /// bimodal ones.
    pub fn groups(&self) -> Vec<GroupStatus> {
        self.next_groups(&mut Listed::default(), usize::MAX)
    }

    /// The groups of that list behind those that it has already: so many that they have about
    /// `names` names with those of their members, and one at least. What changes between two calls
    /// is in the list or not.
    pub fn next_groups(&self, listed: &mut Listed, names: usize) -> Vec<GroupStatus> {
        let (mut groups, mut left) = (Vec::new(), names);
        while let Some(on) = self.orders.indices().nth(listed.order) {
            let ring = self.rings.top(on);
            let last = listed.last.take();
            for (name, members) in self.orders[on].table.memberships(last.as_deref()) {
                left = left.saturating_sub(1 + members.len());
                if !members.is_empty() {
                    groups.push(GroupStatus {
                        name: name.clone(),
                        ring: ring.cloned(),
                        approximate: false,
                        members,
                    });
                }
                if left == 0 {
                    listed.last = Some(name.clone());
                    return groups;
                }
            }
            listed.order += 1;
        }
        let bimodal = self.bimodal_groups();
        groups.extend(bimodal.filter(|group| !group.members.is_empty()));
        listed.is_whole = true;
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::spread::tests::crowd_of;

    #[test]
    fn a_list_in_parts_is_the_same_and_each_part_is_short() {
        let rings = vec!["r".to_owned(), "s".to_owned()];
        let engine = crowd_of(5, 40, rings);
        let at_once = engine.groups();
        assert_eq!(at_once.len(), 3 * 40);
        for names in [1, 7, 30, 10_000] {
            let (mut listed, mut groups, mut parts) = (Listed::default(), Vec::new(), 0);
            while !listed.is_whole() {
                let part = engine.next_groups(&mut listed, names);
                let named: usize = part.iter().map(|it| 1 + it.members.len()).sum();
                // The last group may have six more.
                assert!(named < names + 6, "{named} of {names}");
                groups.extend(part);
                parts += 1;
            }
            assert!(groups == at_once, "in parts of {names}");
            assert!(parts > 720 / (names + 6), "{parts}");
        }
    }
}
