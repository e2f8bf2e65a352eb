//! Up to where each member of a configuration holds the order, and what may be delivered for it.
//!
//! A mark is a fact: its member holds all up to there. So marks of several sources are merged by
//! taking the higher one of each member, and the `n`-th highest says what `n` members hold. A
//! `k-resilient` message up to the (K + 1)-th highest mark is held by K + 1 members, and so are all
//! before it: whichever K of them fail, those that are left recover it without a gap (000 ch. 2 and
//! 8).

use alloc::vec;
use alloc::vec::Vec;

use crate::mech::seq::Seq;
use crate::service::Service;

/// The marks of the members of one configuration, by their index in it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MarkTable {
    marks: Vec<Seq>,
    /// The same, highest first.
    ranked: Vec<Seq>,
}

impl MarkTable {
    /// Marks of `members` members, all of which hold all up to `start`.
    pub fn new(members: usize, start: Seq) -> Self {
        Self {
            marks: vec![start; members],
            ranked: vec![start; members],
        }
    }

    /// The marks, by index.
    pub fn as_slice(&self) -> &[Seq] {
        &self.marks
    }

    /// Takes note of marks of all members, which are ignored if there are not as many as members.
    pub fn merge(&mut self, others: &[Seq]) {
        if others.len() != self.marks.len() {
            return;
        }
        for (mark, other) in self.marks.iter_mut().zip(others) {
            *mark = (*mark).max(*other);
        }
        self.rank();
    }

    /// All members hold all up to `floor`, and the one at `index` up to `mark`.
    pub fn raise(&mut self, floor: Seq, index: usize, mark: Seq) {
        for known in &mut self.marks {
            *known = (*known).max(floor);
        }
        if let Some(known) = self.marks.get_mut(index) {
            *known = (*known).max(mark);
        }
        self.rank();
    }

    /// Up to where at least `members` members hold all; `None` if there are not as many.
    pub fn held_by(&self, members: usize) -> Option<Seq> {
        let rank = members.checked_sub(1)?;
        self.ranked.get(rank).copied()
    }

    fn rank(&mut self) {
        self.ranked.clone_from(&self.marks);
        self.ranked.sort_unstable_by(|one, other| other.cmp(one));
    }
}

/// How many members hold something before it is delivered as `majority`: more than half of `of`.
pub const fn majority(of: usize) -> usize {
    of / 2 + 1
}

/// MaxN of a new configuration of `members` (000 ch. 2). `old` has, for each configuration that
/// they come from, its MaxN less those that have left since, and how many of its members are in the
/// new one. It outlives a change to which no majority of it came.
pub fn next_max_n(members: usize, old: impl Iterator<Item = (usize, usize)>) -> usize {
    let owed = old.filter(|(max_n, along)| *along < majority(*max_n));
    let owed = owed.map(|(max_n, _)| max_n).max().unwrap_or(0);
    if members >= majority(owed) {
        members
    } else {
        owed
    }
}

/// Up to where messages of each service may be delivered in a regular configuration.
#[derive(Clone, Copy, Debug)]
pub struct Horizons<'a> {
    /// All members are known to hold all up to here.
    pub safe: Seq,
    /// What is known of each member.
    pub marks: &'a MarkTable,
    /// MaxN: the majority of this many members holds what is delivered as `majority` (000 ch. 2).
    pub max_n: usize,
}

impl Horizons<'_> {
    /// The last place whose messages of `service` may be delivered. Where there are fewer members
    /// than a majority of MaxN there is none for `majority`.
    pub fn of(self, service: Service) -> Seq {
        match service {
            Service::Safe => self.safe,
            Service::KResilient(k) => self.held_by(usize::from(k) + 1).unwrap_or(self.safe),
            Service::Majority => self.held_by(majority(self.max_n)).unwrap_or(Seq::ZERO),
            _ => Seq::MAX,
        }
    }

    /// The same where messages that a minority may not deliver are reported as lost, in their
    /// order: they hold nothing back.
    pub fn of_delivery(self, service: Service) -> Seq {
        let minority = self.marks.as_slice().len() < majority(self.max_n);
        match service {
            Service::Majority if minority => Seq::MAX,
            service => self.of(service),
        }
    }

    /// Up to where at least `members` members hold all. A single holder is the sender itself.
    fn held_by(self, members: usize) -> Option<Seq> {
        match members {
            1 => Some(Seq::MAX),
            _ => self.marks.held_by(members).map(|mark| mark.max(self.safe)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the definition: count the members that hold it.
        #[test]
        fn the_horizon_is_the_last_place_that_enough_members_hold(
            known in prop::collection::vec(0u64..20, 3..8), safe in 0u64..4, k in 0u8..9
        ) {
            let mut marks = MarkTable::new(known.len(), Seq::ZERO);
            for (index, mark) in known.iter().enumerate() {
                marks.raise(Seq(safe), index, Seq(*mark));
            }
            let max_n = known.len();
            let horizons = Horizons { safe: Seq(safe), marks: &marks, max_n };
            let holders = |at: u64| known.iter().filter(|mark| at <= **mark || at <= safe).count();
            for at in 1..21 {
                let allowed = Seq(at) <= horizons.of(Service::KResilient(k));
                let expected = match usize::from(k) {
                    0 => true,
                    k if k < max_n => holders(at) > k,
                    _ => at <= safe,
                };
                prop_assert_eq!(allowed, expected);
                let allowed = Seq(at) <= horizons.of(Service::Majority);
                prop_assert_eq!(allowed, 2 * holders(at) > max_n);
            }
        }
    }

    #[test]
    fn fewer_members_than_a_majority_of_max_n_deliver_nothing_as_majority() {
        let mut marks = MarkTable::new(2, Seq(5));
        marks.raise(Seq(9), 0, Seq(9));
        let horizons = |max_n| Horizons {
            safe: Seq(9),
            marks: &marks,
            max_n,
        };
        assert_eq!(horizons(2).of(Service::Majority), Seq(9));
        assert_eq!(horizons(3).of(Service::Majority), Seq(9));
        assert_eq!(horizons(4).of(Service::Majority), Seq::ZERO);
        assert_eq!(horizons(5).of(Service::Majority), Seq::ZERO);
        assert_eq!(horizons(5).of(Service::Safe), Seq(9));
        assert_eq!(horizons(5).of_delivery(Service::Majority), Seq::MAX);
        assert_eq!(horizons(3).of_delivery(Service::Majority), Seq(9));
    }

    #[test]
    fn what_all_hold_each_holds_whatever_its_mark_says() {
        let marks = MarkTable::new(3, Seq(5));
        let horizons = Horizons {
            safe: Seq(9),
            marks: &marks,
            max_n: 3,
        };
        assert_eq!(horizons.of(Service::KResilient(1)), Seq(9));
        assert_eq!(horizons.of(Service::Majority), Seq(9));
    }

    #[test]
    fn max_n_outlives_a_change_to_which_no_majority_of_it_came() {
        let next =
            |members, unstable: &[(usize, usize)]| next_max_n(members, unstable.iter().copied());
        assert_eq!(next(3, &[]), 3);
        assert_eq!(next(3, &[(5, 3)]), 3, "a majority came");
        assert_eq!(next(2, &[(5, 2)]), 5, "a minority came");
        assert_eq!(next(2, &[(4, 2)]), 4, "half is no majority");
        assert_eq!(next(3, &[(5, 2)]), 3, "with another they are a majority");
        assert_eq!(next(3, &[(7, 2), (3, 1)]), 7);
    }

    #[test]
    fn marks_of_another_number_of_members_are_not_taken() {
        let mut marks = MarkTable::new(3, Seq(2));
        marks.merge(&[Seq(9), Seq(9)]);
        assert_eq!(marks.as_slice(), [Seq(2); 3]);
        marks.merge(&[Seq(1), Seq(7), Seq(3)]);
        assert_eq!(marks.as_slice(), [Seq(2), Seq(7), Seq(3)]);
        assert_eq!(marks.held_by(1), Some(Seq(7)));
        assert_eq!(marks.held_by(3), Some(Seq(2)));
        assert_eq!(marks.held_by(4), None);
        assert_eq!(marks.held_by(0), None);
    }
}
