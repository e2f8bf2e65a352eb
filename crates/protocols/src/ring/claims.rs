//! What members declare while a ring forms, and how far it is believed: the rules of
//! [`core::mech::claims`](groupcast_core::mech::claims).
//!
//! The commit token passes all members, so each of them could write what others declare. What lasts
//! longer than the ring is compared with what they say in their own joins.
//!
//! - **Positions.** A member whose holding is far above those of all others is left out of the
//!   ring. A ring that would begin far above what the joins say is not formed.
//! - **Who has left** counts no longer in MaxN. This member struck out whom it has not heard say
//!   good-bye; a commit token that names such a one again forms no ring. If it was struck out
//!   only after this member's old ring was declared without it, this member counts it, too.
//! - **MaxN** of the ring is as the commit token tells; whoever comes from an old ring knows what
//!   it is there at most. What a member will declare when the next ring forms, it was in itself, or
//!   two others told it in their joins.

use alloc::vec::Vec;

use groupcast_core::mech::claims::{Claims, max_n_owing, too_high};
use groupcast_core::mech::closing::{Holding, start_above};
use groupcast_core::mech::marks::{majority, next_max_n};
use groupcast_core::status::GivenUp;
use groupcast_core::{MemberId, Time};

use super::gather::Gather;
use super::ordering::Ordering;
use super::wire::Commit;
use super::{Cause, Ring};

impl Commit {
    /// What the members hold that have declared it.
    pub(super) fn holdings(&self) -> Vec<(MemberId, Holding)> {
        let parts = self.members.iter();
        parts
            .filter_map(|part| Some((part.member, part.holding?)))
            .collect()
    }

    /// MaxN of the ring that forms of members with these `holdings`, and what of that `local`,
    /// which comes from `old`, knows itself. Of each old ring as many members come as have declared
    /// to be of it.
    pub(super) fn max_n(
        &self,
        claims: &Claims,
        holdings: &[(MemberId, Holding)],
        local: MemberId,
        old: Option<&Ordering>,
    ) -> (usize, usize) {
        let members = holdings.len();
        let along = |ring| holdings.iter().filter(|(_, it)| it.config == ring).count();
        let declared = self.marks.iter().map(|it| {
            let of_own = old.filter(|old| old.id == it.ring);
            let most = of_own.map(|old| old.without(old.max_n, &self.left));
            let declared = usize::from(it.max_n);
            let declared = most.map_or(declared, |most| declared.min(most));
            (declared, along(it.ring))
        });
        let declared = next_max_n(members, declared);
        let own = old.map_or(0, |old| old.without(old.own_max_n, &self.left));
        let majority_comes = old.is_some_and(|old| along(old.id) >= majority(own));
        let own = if majority_comes { 0 } else { own };
        let others = holdings.iter().map(|(member, _)| *member);
        let of_two = claims.max_n_of_two(others.filter(|it| *it != local));
        let own = max_n_owing(members, own.max(declared.min(of_two.into())));
        (declared.max(own), own)
    }
}

impl Ring {
    /// Whether the ring of `commit`, in which all have declared what they hold, may form. If not,
    /// this member gathers again.
    pub(super) fn believes(&mut self, now: Time, commit: &Commit) -> bool {
        let holdings = commit.holdings();
        let highs = holdings.iter().map(|(member, it)| (*member, it.high));
        let false_one = too_high(highs, self.local).first().copied();
        let own = self.state.installed().map(|old| old.window.high());
        let start = start_above(&holdings);
        let starts = self.claims.may_start(start, own.unwrap_or_default());
        let misses = commit.left.iter().any(|it| self.is_missed(*it));
        if false_one.is_none() && starts && !misses {
            let struck = self.struck_late(commit);
            if struck.is_empty() {
                return true;
            }
            // Now it strikes them itself, before it declares.
            for member in struck {
                self.goodbyes.remove(&member);
            }
            self.gather(now, "who has left is struck out late", Gather::default());
            return false;
        }
        self.counters.malformed += 1;
        let mut gather = Gather::default();
        if let Some(member) = false_one {
            self.accuse(now, member, GivenUp::Unbelievable);
            gather.fail.insert(member);
        }
        let cause = match misses {
            true => "who has left is not believed",
            false => "positions are not believed",
        };
        self.gather(now, Cause::of(cause, false_one), gather);
        false
    }
}
