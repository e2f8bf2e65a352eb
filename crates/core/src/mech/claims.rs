//! What a member declares while a configuration forms, and no other can check: how high positions
//! were given out, and MaxN. One member's word does no harm that lasts (ours).
//!
//! - **Positions** begin above all that were declared. One member's word moves them up to
//!   [`BELIEVED`], and from there on at most [`JUMP_MAX`] beyond what another one declares.
//! - **MaxN** of a configuration follows from what all its members declare. What a member declares
//!   the next time follows from the configurations that it was in itself, and from what
//!   [two others](second) declare. So a false MaxN is over when its teller is gone, and a true one
//!   outlives restarts of all members one after the other, where three were there.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::marks::next_max_n;
use super::peers::Peers;
use super::seq::Seq;
use crate::id::MemberId;

/// One member's word moves the positions of others up to here: five years of 100,000 packets a
/// second, and an eighth of what positions can be.
pub const BELIEVED: Seq = Seq(1 << 44);
/// Beyond that, by no more than this each time: as far as one part of a group comes ahead of
/// another in 45 minutes of 100,000 packets a second. It takes 450,000 false reformations to reach
/// the end of the positions.
pub const JUMP_MAX: u64 = 1 << 28;

/// What other members declared last, since the last configuration was installed: each in datagrams
/// of its own.
#[derive(Clone, Hash, Default, Debug)]
pub struct Claims {
    of: BTreeMap<MemberId, Claim>,
}

#[derive(Clone, Copy, Hash, Debug)]
struct Claim {
    max_n: u16,
    high: Seq,
}

impl Claims {
    /// Another member says that it knows of `max_n`, and holds positions up to `high`.
    pub fn note(&mut self, from: MemberId, max_n: u16, high: Seq) {
        if self.of.len() < Peers::MAX || self.of.contains_key(&from) {
            self.of.insert(from, Claim { max_n, high });
        }
    }

    /// A configuration was installed.
    pub fn clear(&mut self) {
        self.of.clear();
    }

    /// The highest MaxN that at least two of `members` declare.
    pub fn max_n_of_two(&self, members: impl Iterator<Item = MemberId>) -> u16 {
        let declared = members.filter_map(|it| self.of.get(&it));
        second(declared.map(|claim| claim.max_n))
    }

    /// Whether positions may begin above `start`, for a member whose own are not above `own`.
    pub fn may_start(&self, start: Seq, own: Seq) -> bool {
        let of_two = second(self.of.values().map(|claim| claim.high));
        start >= own && (is_near(start, own) || is_near(start, of_two))
    }
}

/// The second of `values`, from the highest on: at least two declare it, or more.
pub fn second<T: Ord + Copy + Default>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.iter().rev().nth(1).copied().unwrap_or_default()
}

/// Whether a member's word may move positions from `other` up to `high`.
pub fn is_near(high: Seq, other: Seq) -> bool {
    high <= BELIEVED || high <= other.plus(JUMP_MAX)
}

/// The members whose positions `local` does not believe: far above those of all others in `highs`.
pub fn too_high(
    highs: impl Iterator<Item = (MemberId, Seq)> + Clone,
    local: MemberId,
) -> Vec<MemberId> {
    let all = || highs.clone().map(|(_, high)| high);
    let highest = all().max().unwrap_or_default();
    let next = second(all());
    let far = |(member, high): &(MemberId, Seq)| {
        *member != local && *high == highest && !is_near(highest, next)
    };
    let far = highs.clone().filter(far);
    far.map(|(member, _)| member).collect()
}

/// MaxN of `members` members that owe a majority of `owed`.
pub fn max_n_owing(members: usize, owed: usize) -> usize {
    next_max_n(members, [(owed, 0)].into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Incarnation, NodeId};

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    /// Whom member 0 does not believe, where members declare these positions.
    fn refused(highs: &[u64]) -> Vec<MemberId> {
        let highs = (0..)
            .zip(highs)
            .map(|(node, high)| (member(node), Seq(*high)));
        too_high(highs, member(0))
    }

    const LAST: u64 = (1 << 47) - 1;

    #[test]
    fn one_member_alone_does_not_move_positions_to_their_end() {
        assert!(refused(&[0, 1 << 44, 0]).is_empty());
        assert_eq!(refused(&[0, 0, LAST]), [member(2)]);
        assert!(refused(&[LAST, 0, 0]).is_empty(), "what it knows itself");
        assert!(refused(&[LAST]).is_empty());
        let two_say_so = [0, LAST, LAST - JUMP_MAX];
        assert!(refused(&two_say_so).is_empty());
        assert_eq!(refused(&[1 << 45, (1 << 45) + JUMP_MAX + 1]), [member(1)]);
        assert!(refused(&[1 << 45, (1 << 45) + JUMP_MAX]).is_empty());
    }

    #[test]
    fn a_configuration_begins_above_what_is_held_and_near_what_was_declared() {
        let mut claims = Claims::default();
        assert!(claims.may_start(Seq(1 << 44), Seq(100)));
        assert!(!claims.may_start(Seq(99), Seq(100)));
        assert!(!claims.may_start(Seq(LAST), Seq(100)));
        claims.note(member(1), 5, Seq(LAST));
        assert!(!claims.may_start(Seq(LAST), Seq(100)));
        claims.note(member(2), 5, Seq(LAST - 5));
        assert!(claims.may_start(Seq(LAST), Seq(100)));
        claims.clear();
        assert!(!claims.may_start(Seq(LAST), Seq(100)));
        let own = Seq(LAST - 7);
        assert!(claims.may_start(Seq(LAST), own), "its own are there");
    }
}
