//! The members of one host: the subgroups that each is in, and which manager may change them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use groupcast_core::{MemberId, Rng};

use super::{Change, ChangeVerb, Key, MEMBERS_MAX, MemberError, Subgroups};

/// A member's vector, and the source of the connection that it is in.
#[derive(Clone, Copy, Debug)]
struct Member {
    subgroups: Subgroups,
    source: Option<MemberId>,
}

/// The members of this host.
#[derive(Default, Debug)]
pub(super) struct Members {
    members: BTreeMap<Key, Member>,
}

/// What a change did here.
#[derive(Default, Debug)]
pub(super) struct Changed {
    /// The members that were moved, with their new vectors.
    pub(super) moved: Vec<(Key, Subgroups)>,
    /// Members that the change names, but that are in a connection of another source.
    pub(super) refused: usize,
}

impl Members {
    pub(super) fn add(&mut self, key: Key, subgroups: Subgroups) -> Result<(), MemberError> {
        if subgroups.is_empty() {
            return Err(MemberError::NoSubgroup);
        }
        if self.members.contains_key(&key) {
            return Err(MemberError::Taken);
        }
        if self.members.len() >= MEMBERS_MAX {
            return Err(MemberError::TooMany);
        }
        let member = Member {
            subgroups,
            source: None,
        };
        self.members.insert(key, member);
        Ok(())
    }

    pub(super) fn remove(&mut self, key: Key) {
        self.members.remove(&key);
    }

    pub(super) fn subgroups(&self, key: Key) -> Option<Subgroups> {
        self.members.get(&key).map(|member| member.subgroups)
    }

    pub(super) fn set(&mut self, key: Key, subgroups: Subgroups) -> Result<(), MemberError> {
        if subgroups.is_empty() {
            return Err(MemberError::NoSubgroup);
        }
        let member = self.members.get_mut(&key).ok_or(MemberError::Unknown)?;
        member.subgroups = subgroups;
        Ok(())
    }

    pub(super) fn connect(
        &mut self,
        key: Key,
        source: Option<MemberId>,
    ) -> Result<(), MemberError> {
        let member = self.members.get_mut(&key).ok_or(MemberError::Unknown)?;
        member.source = source;
        Ok(())
    }

    /// The union of all vectors: the filter for polls (003 4.5.1).
    pub(super) fn union(&self) -> Subgroups {
        let vectors = self.members.values().map(|member| member.subgroups);
        vectors.fold(Subgroups::NONE, Subgroups::union)
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn list(&self) -> Vec<(Key, Subgroups)> {
        let members = self.members.iter();
        members.map(|(key, it)| (*key, it.subgroups)).collect()
    }

    /// Carries out a change that `by` asked for. A member in a connection obeys the manager at the
    /// connection's source only (003 4.5.1).
    pub(super) fn change(&mut self, by: MemberId, change: &Change, rng: &mut Rng) -> Changed {
        let mut changed = Changed::default();
        for (key, member) in &mut self.members {
            if !member.subgroups.matches(change.from) {
                continue;
            }
            if member.source.is_some_and(|source| source != by) {
                changed.refused += 1;
                continue;
            }
            let target = match change.verb {
                ChangeVerb::Partition => change.to.draw(rng),
                ChangeVerb::Merge => change.to,
            };
            member.subgroups = member.subgroups.without(change.from).union(target);
            changed.moved.push((*key, member.subgroups));
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    fn manager(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    #[test]
    fn a_member_always_has_a_subgroup() {
        let mut members = Members::default();
        assert_eq!(
            members.add(Key(1), Subgroups::NONE),
            Err(MemberError::NoSubgroup)
        );
        members.add(Key(1), Subgroups(1)).expect("the key is free");
        assert_eq!(
            members.set(Key(1), Subgroups::NONE),
            Err(MemberError::NoSubgroup)
        );
        let mut rng = Rng::new(3);
        for _ in 0..1_000 {
            let from = Subgroups(rng.next_u64() | 1);
            let to = Subgroups(rng.next_u64() | 2);
            let verb = ChangeVerb::Partition;
            let change = Change { verb, from, to };
            members.change(manager(1), &change, &mut rng.fork("draw"));
            assert!(!members.union().is_empty());
        }
    }

    #[test]
    fn a_connected_member_obeys_the_source_of_its_connection_only() {
        let mut members = Members::default();
        members.add(Key(1), Subgroups(0b11)).expect("free");
        members
            .connect(Key(1), Some(manager(7)))
            .expect("it exists");
        let change = Change {
            verb: ChangeVerb::Merge,
            from: Subgroups(0b10),
            to: Subgroups(0b100),
        };
        let mut rng = Rng::new(1);
        let changed = members.change(manager(8), &change, &mut rng);
        assert_eq!((changed.refused, changed.moved.len()), (1, 0));
        let changed = members.change(manager(7), &change, &mut rng);
        assert_eq!(changed.moved, [(Key(1), Subgroups(0b101))]);
        members.connect(Key(1), None).expect("it exists");
        let back = Change {
            from: Subgroups(0b100),
            to: Subgroups(0b10),
            ..change
        };
        let changed = members.change(manager(8), &back, &mut rng);
        assert_eq!(changed.moved, [(Key(1), Subgroups(0b11))]);
    }
}
