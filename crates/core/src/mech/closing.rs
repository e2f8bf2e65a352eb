//! How an old configuration is finished by those of its members that move on together (EVS;
//! Totem's recovery).
//!
//! Before a new configuration is installed, each of its members declares what it holds of the one
//! that it installed last ([`Holding`]). From all declarations each computes a [`Closing`], and
//! those that come from the same configuration compute the same:
//! - what lies between its `low` and `high`, some hold and others do not: they exchange it;
//! - the regular configuration goes on up to its first gap, or up to the first message above the
//!   horizon of its service, which is the highest that one of them knows of;
//! - the rest is delivered in the transitional configuration, by
//!   [`Cursor::deliver_transitional`](crate::mech::delivery::Cursor::deliver_transitional): behind
//!   a gap only what the members in `bound` sent.
//!
//! A member that has said that it holds all that the others hold is relied on by them: they may
//! install the new configuration, and be cut off before this member does. From then on it declares
//! `bound` as its obligations (Totem's obligation set).

use alloc::vec::Vec;

use crate::id::{ConfigId, MemberId};
use crate::mech::indices::{Index, Indices};
use crate::mech::seq::Seq;

/// What a member holds of the configuration that it installed last.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Holding {
    /// That configuration; for a member that installed none, one of its own with counter 0.
    pub config: ConfigId,
    /// It holds all up to here.
    pub aru: Seq,
    /// It holds nothing above.
    pub high: Seq,
    /// It knows that all members of that configuration hold all up to here; at most `aru`.
    pub safe: Seq,
    /// Members of that configuration whose messages it must deliver behind a gap.
    pub obligations: Indices,
}

/// How one member finishes its old configuration.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Closing {
    /// The members of the transitional configuration: those that come from the same old one.
    pub members: Vec<MemberId>,
    /// For each declaration, in their order, whether it is of a member of the transitional
    /// configuration.
    pub same: Vec<bool>,
    /// All of them hold all up to here.
    pub low: Seq,
    /// None of them holds anything above.
    pub high: Seq,
    /// Safe messages up to here belong to the regular configuration.
    pub safe: Seq,
    /// Members of the old configuration whose messages are delivered behind a gap: the transitional
    /// ones, and all whom one of them is obliged to. They hold the same, so what is right for one
    /// is right for all.
    pub bound: Indices,
}

impl Closing {
    /// What `holdings`, the declarations of all members of the new configuration, mean for `local`,
    /// which is one of them and comes from a configuration of `old_members`.
    pub fn new(
        holdings: &[(MemberId, Holding)],
        local: MemberId,
        old_members: &[MemberId],
    ) -> Self {
        let mine = holdings.iter().find(|(member, _)| *member == local);
        let mine = mine.map(|(_, holding)| holding.config);
        let same: Vec<bool> = holdings
            .iter()
            .map(|(_, holding)| Some(holding.config) == mine)
            .collect();
        let along = || {
            let parts = holdings.iter().zip(&same);
            parts.filter(|(_, same)| **same).map(|(part, _)| part)
        };
        let held = || along().map(|(_, holding)| holding);
        let members: Vec<MemberId> = along().map(|(member, _)| *member).collect();
        let mut bound = held().fold(Indices::default(), |bound, holding| {
            bound.union(holding.obligations)
        });
        for (index, member) in old_members.iter().enumerate() {
            if members.contains(member) {
                bound.insert(Index(index as u16));
            }
        }
        Self {
            low: held().map(|it| it.aru).min().unwrap_or_default(),
            high: held().map(|it| it.high).max().unwrap_or_default(),
            safe: held().map(|it| it.safe).max().unwrap_or_default(),
            members,
            same,
            bound,
        }
    }
}

/// Above all that any of `holdings` has: where the numbers of the new configuration begin, so that
/// places only grow at every member.
pub fn start_above(holdings: &[(MemberId, Holding)]) -> Seq {
    let highest = holdings.iter().map(|(_, holding)| holding.high).max();
    highest.unwrap_or_default()
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

    fn holding(representative: u64, [aru, high, safe]: [u64; 3]) -> Holding {
        Holding {
            config: ConfigId {
                counter: 4,
                representative: member(representative),
            },
            aru: Seq(aru),
            high: Seq(high),
            safe: Seq(safe),
            obligations: Indices::default(),
        }
    }

    #[test]
    fn members_of_one_old_configuration_close_it_alike_and_those_of_another_apart() {
        let mut obliged = holding(1, [12, 12, 9]);
        obliged.obligations.insert(Index(1));
        let holdings = [
            (member(1), holding(1, [10, 14, 7])),
            (member(2), holding(2, [90, 95, 80])),
            (member(3), obliged),
        ];
        let old = [member(1), member(9), member(3), member(8)];
        let closing = Closing::new(&holdings, member(1), &old);
        assert_eq!(closing.members, [member(1), member(3)]);
        assert_eq!(closing.same, [true, false, true]);
        assert_eq!((closing.low, closing.high), (Seq(10), Seq(14)));
        assert_eq!(closing.safe, Seq(9));
        assert_eq!(closing.bound.bits(), 0b0111, "index 1 by obligation");
        assert_eq!(Closing::new(&holdings, member(3), &old), closing);
        let other = Closing::new(&holdings, member(2), &[member(2), member(7)]);
        assert_eq!((other.low, other.high), (Seq(90), Seq(95)));
        assert_eq!(other.bound.bits(), 0b01);
        assert_eq!(start_above(&holdings), Seq(95));
    }
}
