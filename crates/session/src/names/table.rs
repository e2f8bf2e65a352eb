//! The table of rings and of the groups on them.

use std::collections::BTreeMap;

use groupcast_core::OrderPlace;

use super::DomainName;

/// The most rings that a table lets be made; a merge keeps those of both that carry a group.
pub const RINGS_MAX: usize = 1_024;

/// What made a ring, or took a group into use: of two claims to one name the earlier one stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Where in the order of the ring above it was made.
    pub since: OrderPlace,
    /// 64 random bits: in two parts of a network places may be equal.
    pub draw: u64,
}

impl Claim {
    fn is_before(&self, other: &Self) -> bool {
        let rank = |it: &Self| (it.since.seq, it.since.config, it.draw);
        rank(self) < rank(other)
    }
}

/// Why a ring is not made. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is a ring of this name.
    #[error("there is a ring {0} already: join it")]
    Exists(DomainName),
    /// Members of a group would have to move from their ring to the new one.
    #[error(
        "a ring {top} would take the group {group} from the ring {ring}: \
         use a name without groups in use at or below it"
    )]
    Fragments {
        /// The name of the ring that was asked for.
        top: DomainName,
        /// The group that is in use below it.
        group: DomainName,
        /// The ring that carries the group.
        ring: DomainName,
    },
    /// There are as many rings as there may be.
    #[error("there are {RINGS_MAX} rings, as many as there may be: leave one first")]
    Full,
}

/// What came of a join.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Created {
    /// The top of the ring that carries the group.
    pub ring: DomainName,
    /// The ring was made for it.
    pub is_new: bool,
}

/// A group in use.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Group {
    ring: DomainName,
    claim: Claim,
}

/// The groups in use, and the rings that they are on.
///
/// A ring carries the groups at and below its top, except those that another ring with a lower top
/// carries. It is there as long as it carries a group. All that changes a table comes in one order;
/// equal tables in one order stay equal.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Table {
    groups: BTreeMap<DomainName, Group>,
    /// How many of them each ring carries: one at least.
    rings: BTreeMap<DomainName, usize>,
}

impl Table {
    /// The ring that carries `name`: where the group is in use, that ring, else the one with the
    /// lowest top that covers it. `None`: no ring covers the name.
    pub fn ring_of(&self, name: &DomainName) -> Option<&DomainName> {
        if let Some(group) = self.groups.get(name) {
            return Some(&group.ring);
        }
        let mut at = Some(name.clone());
        while let Some(top) = at {
            if let Some((top, _)) = self.rings.get_key_value(&top) {
                return Some(top);
            }
            at = top.parent();
        }
        None
    }

    /// Somebody joins `group`, which is in use from here on. With `wants_ring`, and where no ring
    /// covers the name, a ring of the group's name is made for it.
    ///
    /// # Errors
    /// Why a ring cannot be made.
    pub fn join(
        &mut self,
        group: &DomainName,
        wants_ring: bool,
        claim: Claim,
    ) -> Result<Created, Refusal> {
        let covering = self.ring_of(group).cloned();
        let (ring, is_new) = match covering {
            Some(ring) if !wants_ring || ring == *group => (ring, false),
            _ => {
                self.check_new(group)?;
                (group.clone(), true)
            }
        };
        if !self.groups.contains_key(group) {
            let used = Group {
                ring: ring.clone(),
                claim,
            };
            self.insert(group, used);
        }
        Ok(Created { ring, is_new })
    }

    /// Whether a ring of the name `top` can be made (000 ch. 8: unless that fragments another).
    ///
    /// # Errors
    /// Why not.
    fn check_new(&self, top: &DomainName) -> Result<(), Refusal> {
        if self.rings.contains_key(top) {
            return Err(Refusal::Exists(top.clone()));
        }
        // Names below a name follow it.
        let below = self.groups.range(top..);
        let mut below = below.take_while(|(group, _)| top.covers(group));
        // A ring with a top below the new one keeps what it has.
        if let Some((group, used)) = below.find(|(_, used)| !top.covers(&used.ring)) {
            return Err(Refusal::Fragments {
                top: top.clone(),
                group: group.clone(),
                ring: used.ring.clone(),
            });
        }
        match self.rings.len() < RINGS_MAX {
            true => Ok(()),
            false => Err(Refusal::Full),
        }
    }

    /// The last member of `group` has left; whether its ring has ended with it, because no other
    /// group is in use there.
    pub fn leave(&mut self, group: &DomainName) -> bool {
        let Some(used) = self.groups.remove(group) else {
            return false;
        };
        self.release(&used.ring)
    }

    /// What two parts of a network made of their tables, together: of a group that both have, the
    /// earlier claim stands, with its ring, and a ring that has lost all its groups so is no more.
    /// The names of which the later claim was `self`'s: what uses them here has to be told, and is
    /// on another ring where the two had it on different ones.
    pub fn merge(&mut self, other: &Self) -> Vec<DomainName> {
        let mut lost = Vec::new();
        for (name, group) in &other.groups {
            let known = self.groups.get(name);
            let is_later = known.map(|known| group.claim.is_before(&known.claim));
            if is_later == Some(false) {
                continue;
            }
            if is_later == Some(true) {
                lost.push(name.clone());
            }
            if let Some(known) = self.insert(name, group.clone()) {
                self.release(&known.ring);
            }
        }
        lost
    }

    /// The rings, by their tops, in the order of names, and how many groups each carries.
    pub fn rings(&self) -> impl ExactSizeIterator<Item = (&DomainName, usize)> {
        self.rings.iter().map(|(top, groups)| (top, *groups))
    }

    /// The group is on its ring from here on; what there was of it before.
    fn insert(&mut self, name: &DomainName, group: Group) -> Option<Group> {
        *self.rings.entry(group.ring.clone()).or_default() += 1;
        self.groups.insert(name.clone(), group)
    }

    /// The ring carries one group less; whether it has ended.
    fn release(&mut self, ring: &DomainName) -> bool {
        let Some(groups) = self.rings.get_mut(ring) else {
            return false;
        };
        *groups -= 1;
        let has_ended = *groups == 0;
        if has_ended {
            self.rings.remove(ring);
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId};
    use proptest::prelude::*;

    use super::*;

    fn name(name: &str) -> DomainName {
        name.parse().unwrap()
    }

    fn claim(seq: u64, draw: u64) -> Claim {
        let representative = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        let config = ConfigId {
            counter: 1,
            representative,
        };
        Claim {
            since: OrderPlace { config, seq },
            draw,
        }
    }

    #[test]
    fn a_ring_is_made_where_it_fragments_none() {
        let mut table = Table::default();
        for group in ["uiuc.edu", "wb.cb.uiuc.edu"] {
            table.join(&name(group), false, claim(1, 1)).unwrap();
        }
        // The first made a ring, because none covered it, and the second is below that.
        assert_eq!(
            table.ring_of(&name("wb.cb.uiuc.edu")),
            Some(&name("uiuc.edu"))
        );
        let refusal = table.join(&name("cb.uiuc.edu"), true, claim(2, 1));
        let fragments = Refusal::Fragments {
            top: name("cb.uiuc.edu"),
            group: name("wb.cb.uiuc.edu"),
            ring: name("uiuc.edu"),
        };
        assert_eq!(refusal, Err(fragments));
        for group in ["database.uiuc.edu", "editor.cb.uiuc.edu"] {
            let created = table.join(&name(group), true, claim(3, 1)).unwrap();
            assert!(created.is_new && created.ring == name(group));
        }
        let below = table.join(&name("a.editor.cb.uiuc.edu"), false, claim(4, 1));
        assert_eq!(below.unwrap().ring, name("editor.cb.uiuc.edu"));
        assert!(!table.leave(&name("editor.cb.uiuc.edu")), "one is below it");
        assert!(table.leave(&name("a.editor.cb.uiuc.edu")));
        assert_eq!(
            table.ring_of(&name("editor.cb.uiuc.edu")),
            Some(&name("uiuc.edu"))
        );
    }

    #[test]
    fn a_name_that_two_parts_claimed_has_one_outcome() {
        let (mut one, mut two) = (Table::default(), Table::default());
        one.join(&name("g"), true, claim(5, 1)).unwrap();
        two.join(&name("g"), true, claim(4, 9)).unwrap();
        two.join(&name("h"), true, claim(6, 9)).unwrap();
        let (first, second) = (one.clone(), two.clone());
        assert_eq!(one.merge(&second), [name("g")]);
        assert_eq!(two.merge(&first), []);
        assert_eq!(one, two);
        assert_eq!(one.rings().count(), 2);
    }

    #[test]
    fn so_many_rings_and_no_more() {
        let mut table = Table::default();
        for index in 0..RINGS_MAX {
            let group = name(&format!("r{index}"));
            table.join(&group, true, claim(1, 1)).unwrap();
        }
        let more = table.join(&name("more"), true, claim(1, 1));
        assert_eq!(more, Err(Refusal::Full));
        assert!(table.leave(&name("r7")));
        table.join(&name("more"), true, claim(1, 1)).unwrap();
    }

    #[test]
    fn a_ring_that_loses_its_groups_in_a_merge_is_no_more() {
        let (mut one, mut two) = (Table::default(), Table::default());
        one.join(&name("a"), true, claim(1, 1)).unwrap();
        one.join(&name("g.a"), false, claim(2, 1)).unwrap();
        two.join(&name("g.a"), true, claim(3, 1)).unwrap();
        let (first, second) = (one.clone(), two.clone());
        assert_eq!(two.merge(&first), [name("g.a")]);
        assert_eq!(one.merge(&second), []);
        assert_eq!(one, two);
        let rings: Vec<_> = one.rings().collect();
        assert_eq!(rings, [(&name("a"), 2)]);
        assert!(!one.leave(&name("g.a")) && one.leave(&name("a")));
        assert_eq!(one.rings().count(), 0);
    }

    const NAMES: [&str; 7] = ["a", "b.a", "c.b.a", "d.b.a", "e.c.b.a", "x", "y.x"];

    fn acts() -> impl Strategy<Value = Vec<(usize, u8, u64)>> {
        prop::collection::vec((0..NAMES.len(), 0..3u8, any::<u64>()), 0..24)
    }

    /// The table after some joins and leaves. No group in use ever changes its ring.
    fn after(acts: &[(usize, u8, u64)]) -> Table {
        let mut table = Table::default();
        for (index, (which, what, draw)) in acts.iter().enumerate() {
            let before = table.clone();
            let group = name(NAMES[*which]);
            match what {
                0 => drop(table.join(&group, false, claim(index as u64, *draw))),
                1 => drop(table.join(&group, true, claim(index as u64, *draw))),
                _ => drop(table.leave(&group)),
            }
            for (known, used) in &before.groups {
                let still = table.groups.get(known);
                assert!(
                    still.is_none_or(|it| it.ring == used.ring),
                    "{known} has moved"
                );
                assert!(still.is_some() || *known == group, "{known} is gone");
            }
            let carried = table
                .groups
                .values()
                .all(|it| table.rings.contains_key(&it.ring));
            assert!(carried, "a group is on a ring that is none");
            let count: usize = table.rings.values().sum();
            let is_idle = table.rings.values().any(|groups| *groups == 0);
            assert!(
                count == table.groups.len() && !is_idle,
                "a ring is left over"
            );
        }
        table
    }

    proptest! {
        #[test]
        fn no_group_in_use_moves_and_merges_come_to_the_same(
            one in acts(),
            two in acts(),
            three in acts(),
        ) {
            let tables = [after(&one), after(&two), after(&three)];
            let merged = |order: [usize; 3]| {
                let mut merged = tables[order[0]].clone();
                merged.merge(&tables[order[1]]);
                merged.merge(&tables[order[2]]);
                merged
            };
            let first = merged([0, 1, 2]);
            for order in [[0, 2, 1], [1, 0, 2], [2, 1, 0]] {
                prop_assert_eq!(&merged(order), &first);
            }
        }
    }
}
