//! What a member declares of itself in a reformation, and how far it is believed: the rules of
//! [`core::mech::claims`](groupcast_core::mech::claims) for answers and proposals. Members of one
//! configuration know its MaxN: a higher one that a member of it declares is not believed.
//!
//! A configuration without a majority of MaxN is changed by reformations alone: a list does not ask
//! its members what they declare. So MaxN of a list is always the number of its members.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use groupcast_core::MemberId;
use groupcast_core::mech::claims::{Claims, max_n_owing};

use super::catching_up::comes_from;
use super::order::Order;
use super::recovering::Recovering;
use super::wire::Answer;

/// MaxN of a configuration of those that gave `answers` to a member that comes from `old`, of whose
/// members those of `left` have left. The second result says how many of them declared what cannot
/// be true.
pub(super) fn max_n_after(
    answers: &BTreeMap<MemberId, Answer>,
    old: Option<&Order>,
    left: &BTreeSet<MemberId>,
) -> (u16, u64) {
    let inventories = || answers.values().map(|answer| &answer.inventory);
    let mut false_claims = 0;
    let mut owed = Vec::with_capacity(answers.len());
    for (member, answer) in answers {
        let inventory = &answer.inventory;
        let declared = usize::from(inventory.max_n);
        let from = comes_from(*member, inventory, inventories());
        owed.push(match old.filter(|old| old.id == from) {
            Some(old) => {
                false_claims += u64::from(declared > old.max_n);
                old.without(declared.min(old.max_n), left.iter())
            }
            None => declared,
        });
    }
    let max_n = max_n_owing(answers.len(), owed.into_iter().max().unwrap_or(0));
    (max_n as u16, false_claims)
}

impl Order {
    /// What is left of `max_n` where those of `left` have left this configuration.
    pub(super) fn without<'a>(
        &self,
        max_n: usize,
        left: impl Iterator<Item = &'a MemberId>,
    ) -> usize {
        max_n.saturating_sub(left.filter(|it| self.members.contains(it)).count())
    }
}

impl Recovering {
    /// MaxN of the next configuration, and what of that `local` has itself, and will declare.
    pub(super) fn max_n(&self, claims: &Claims, local: MemberId) -> (usize, usize) {
        let proposal = &self.proposal;
        let members = proposal.members.len();
        let mut declared = usize::from(proposal.max_n);
        let mut own = 0;
        if let Some(old) = &self.old {
            own = old.without(old.own_max_n, proposal.left.iter());
            if self.along(local).len() == members {
                declared = declared.min(old.max_n);
            }
        }
        let others = self.members().filter(|it| *it != local);
        let of_two = usize::from(claims.max_n_of_two(others));
        let own = own.max(of_two.min(declared));
        let max_n = max_n_owing(members, declared.max(own));
        (max_n, max_n_owing(members, own))
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::mech::closing::Holding;
    use groupcast_core::mech::indices::Indices;
    use groupcast_core::mech::peers::Attempt;
    use groupcast_core::mech::seq::Seq;

    use super::*;
    use crate::rmp::RmpConfig;
    use crate::rmp::fixtures::{config, member};
    use crate::rmp::polling::Polling;
    use crate::rmp::state::State;
    use crate::rmp::wire::{Inventory, Proposal};

    /// A member of the configuration with this counter.
    fn inventory(counter: u64, max_n: u16, high: u64) -> Inventory {
        Inventory {
            holding: Holding {
                config: config(counter),
                aru: Seq::ZERO,
                high: Seq(high),
                safe: Seq::ZERO,
                obligations: Indices::default(),
            },
            max_n,
            members: Vec::new(),
            passed: None,
            size: None,
            held: Vec::new(),
        }
    }

    /// Members 0, 1, …, that declare this.
    fn answers(declared: &[(u64, u16, u64)]) -> BTreeMap<MemberId, Answer> {
        let answer = |(site, (counter, max_n, high)): (usize, &(u64, u16, u64))| {
            let answer = Answer {
                poller: member(0),
                attempt: Attempt(1),
                counter: 1,
                body_max: 1431,
                inventory: inventory(*counter, *max_n, *high),
            };
            (member(site as u64), answer)
        };
        declared.iter().enumerate().map(answer).collect()
    }

    /// The order of member 0 of five, that of the configuration with counter 1.
    fn order() -> Order {
        let members = (0..5).map(member).collect();
        let lan = RmpConfig::lan();
        Order::new(config(1), members, member(0), Seq(100), 1431, &lan)
    }

    #[test]
    fn max_n_follows_from_the_highest_that_can_be_true() {
        let order = order();
        let max_n = |declared: &[(u64, u16, u64)]| {
            max_n_after(&answers(declared), Some(&order), &BTreeSet::new())
        };
        assert_eq!(max_n(&[(1, 5, 0); 3]), (3, 0), "a majority");
        assert_eq!(max_n(&[(1, 5, 0); 2]), (5, 0), "a minority");
        assert_eq!(
            max_n(&[(1, 5, 0), (9, 1, 0), (8, 0, 0)]),
            (3, 0),
            "with others"
        );
        assert_eq!(
            max_n(&[(1, 5, 0), (1, 5, 0), (9, 7, 0)]),
            (7, 0),
            "of another group"
        );
        let left = [member(3), member(4)].into();
        let after = max_n_after(&answers(&[(1, 5, 0); 2]), Some(&order), &left);
        assert_eq!(after, (2, 0), "the others have left");
        let false_one = [(1, 5, 0), (1, 5, 0), (1, 128, 0)];
        assert_eq!(max_n(&false_one), (3, 1), "more than its configuration had");
    }

    /// What member 0 of five has of the MaxN that is proposed to the first `members` of them, all
    /// of which come from one configuration if they are `alike`, where others claim `claimed`.
    fn taken(members: u64, alike: bool, max_n: u16, claimed: &[u16]) -> (usize, usize) {
        let from = |site| match alike || site == 0 {
            true => config(1),
            false => config(7),
        };
        let proposal = Proposal {
            attempt: Attempt(1),
            config: config(9),
            start: Seq(100),
            sizes: alloc::vec![1431; members as usize],
            max_n,
            left: Vec::new(),
            members: (0..members)
                .map(|site| (member(site), from(site)))
                .collect(),
        };
        let before = State::Polling(Polling {
            old: Some(order()),
            ..Polling::default()
        });
        let own = [(member(0), inventory(1, 5, 100))].into();
        let recovering = Recovering::new(proposal, member(0), own, before);
        let mut claims = Claims::default();
        for (site, max_n) in (1..).zip(claimed) {
            claims.note(member(site), *max_n, Seq::ZERO);
        }
        recovering.max_n(&claims, member(0))
    }

    #[test]
    fn what_a_member_declares_next_follows_from_what_it_saw_or_two_others_say() {
        assert_eq!(taken(3, true, 3, &[]), (3, 3));
        assert_eq!(taken(2, true, 5, &[]), (5, 5));
        assert_eq!(taken(2, true, 2, &[]), (5, 5), "whatever is proposed");
        assert_eq!(taken(3, true, 128, &[]), (3, 3), "more than there were");
        assert_eq!(
            taken(4, false, 128, &[128]),
            (128, 4),
            "one of another group"
        );
        assert_eq!(taken(4, false, 9, &[9, 9]), (9, 9), "two of another group");
        assert_eq!(taken(4, false, 9, &[128, 9]), (9, 9));
        assert_eq!(taken(5, false, 9, &[9, 9]), (5, 5), "enough for it");
    }
}
