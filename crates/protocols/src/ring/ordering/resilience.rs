//! Messages that some members, or a majority, must hold: up to where each member holds all, as the
//! token tells while such messages are about.

use alloc::vec::Vec;

use groupcast_core::MemberId;
use groupcast_core::mech::marks::majority;

use super::Ordering;
use crate::ring::wire::{OldMarks, Resilience, Token};

impl Ordering {
    /// The token is about to be passed on, with what this member has claimed: reads and writes up
    /// to where each member holds all. `wanted`: messages that wait for that are among what was
    /// claimed.
    ///
    /// It is no order statistic of aru, so lowering and raising one number cannot give it.
    pub(in crate::ring) fn exchange_marks(&mut self, token: &mut Token, wanted: bool) {
        if let Some(known) = &token.resilience {
            self.marks.merge(&known.marks);
            self.resilient_until = self.resilient_until.max(known.until);
        }
        // With two members, what both hold all hold.
        if wanted && self.members.len() > 2 {
            self.resilient_until = token.seq;
        }
        token.resilience = None;
        if self.waits_for_marks() {
            let held = self.window.aru().min(token.seq);
            self.marks.raise(self.safe, self.me.at(), held);
            token.resilience = Some(Resilience {
                until: self.resilient_until,
                marks: self.marks.as_slice().to_vec(),
            });
        }
    }

    /// Whether resilient messages are about that not all members are known to hold.
    pub(in crate::ring) fn waits_for_marks(&self) -> bool {
        self.resilient_until > self.safe
    }

    /// Whether there are too few members for messages that a majority must hold.
    pub(in crate::ring) fn is_minority(&self) -> bool {
        self.members.len() < majority(self.max_n)
    }

    /// Adds what is known of this ring's marks, and MaxN without those that have `left`, to what
    /// other members of it have declared.
    pub(in crate::ring) fn declare_marks<'a>(
        &self,
        left: impl Iterator<Item = &'a MemberId> + Clone,
        declared: &mut Vec<OldMarks>,
    ) {
        let most = self.without(self.max_n, left.clone());
        let own = self.without(self.own_max_n, left);
        if own <= 1 {
            return;
        }
        let marks = self.marks.as_slice();
        let room = OldMarks::room(declared);
        match declared.iter_mut().find(|old| old.ring == self.id) {
            Some(old) if old.marks.len() == marks.len() => {
                for (known, mark) in old.marks.iter_mut().zip(marks) {
                    *known = (*known).max(*mark);
                }
                old.max_n = old.max_n.max(own as u16).min(most as u16);
            }
            Some(_) => {}
            // What others wrote leaves no room: they do without, all alike.
            None if room < marks.len() => {}
            None => declared.push(OldMarks {
                ring: self.id,
                max_n: own as u16,
                marks: marks.to_vec(),
            }),
        }
    }

    /// What is left of `max_n` where those of `left` have left this ring.
    pub(in crate::ring) fn without<'a>(
        &self,
        max_n: usize,
        left: impl IntoIterator<Item = &'a MemberId>,
    ) -> usize {
        let gone = left.into_iter().filter(|it| self.members.contains(it));
        max_n.saturating_sub(gone.count())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::ring::numbers::Seq;
    use crate::ring::ordering::tests::{hold, order, token};

    fn marks(token: &Token) -> Option<(u64, Vec<u64>)> {
        let known = token.resilience.as_ref()?;
        Some((
            known.until.0,
            known.marks.iter().map(|mark| mark.0).collect(),
        ))
    }

    #[test]
    fn the_token_tells_marks_from_a_message_that_wants_them_until_all_hold_it() {
        let mut ring = order(3, 1);
        hold(&mut ring, 101..=103);
        let mut passing = token(&ring, 104);
        ring.exchange_marks(&mut passing, false);
        assert_eq!(marks(&passing), None);
        ring.exchange_marks(&mut passing, true);
        assert_eq!(marks(&passing), Some((104, vec![100, 103, 100])));
        passing.resilience = Some(Resilience {
            until: Seq(102),
            marks: [104, 101, 100].map(Seq).to_vec(),
        });
        ring.exchange_marks(&mut passing, false);
        assert_eq!(marks(&passing), Some((104, vec![104, 103, 100])));
        ring.safe = Seq(103);
        ring.exchange_marks(&mut passing, false);
        assert_eq!(marks(&passing), Some((104, vec![104, 103, 103])));
        assert!(ring.waits_for_marks());
        ring.safe = Seq(104);
        ring.exchange_marks(&mut passing, false);
        assert_eq!(marks(&passing), None);
        assert!(!ring.waits_for_marks());
    }

    #[test]
    fn a_mark_is_never_above_what_the_token_knows() {
        let mut ring = order(3, 0);
        hold(&mut ring, 101..=106);
        let mut passing = token(&ring, 104);
        ring.exchange_marks(&mut passing, true);
        assert_eq!(marks(&passing), Some((104, vec![104, 100, 100])));
    }

    #[test]
    fn marks_wanted_elsewhere_are_told_here_too() {
        let mut ring = order(3, 2);
        hold(&mut ring, [101]);
        let mut passing = token(&ring, 103);
        passing.resilience = Some(Resilience {
            until: Seq(103),
            marks: [103, 102, 100].map(Seq).to_vec(),
        });
        ring.exchange_marks(&mut passing, false);
        assert_eq!(marks(&passing), Some((103, vec![103, 102, 101])));
    }

    #[test]
    fn two_members_need_no_marks() {
        let mut ring = order(2, 0);
        let mut passing = token(&ring, 101);
        ring.exchange_marks(&mut passing, true);
        assert_eq!(marks(&passing), None);
    }

    fn declared(ring: &Ordering) -> Vec<OldMarks> {
        let mut declared = Vec::new();
        ring.declare_marks([].iter(), &mut declared);
        declared
    }

    #[test]
    fn each_member_adds_what_it_knows_to_the_marks_that_are_declared() {
        let mut ring = order(3, 0);
        ring.exchange_marks(&mut token(&order(3, 0), 104), true);
        hold(&mut ring, 101..=102);
        ring.exchange_marks(&mut token(&order(3, 0), 104), false);
        let own = OldMarks {
            ring: ring.id,
            max_n: 3,
            marks: [102, 100, 100].map(Seq).to_vec(),
        };
        assert_eq!(declared(&ring), core::slice::from_ref(&own));
        let other = OldMarks {
            marks: [101, 103, 100].map(Seq).to_vec(),
            ..own.clone()
        };
        let foreign = OldMarks {
            ring: groupcast_core::ConfigId {
                counter: 9,
                ..ring.id
            },
            ..own.clone()
        };
        let mut all = vec![foreign.clone(), other];
        ring.declare_marks([].iter(), &mut all);
        assert_eq!(all[0], foreign);
        assert_eq!(all[1].marks, [102, 103, 100].map(Seq));
        assert_eq!(all.len(), 2);
        // A peer that names another number of members is not believed, nor copied.
        let wrong = OldMarks {
            marks: vec![Seq(101); 2],
            ..own
        };
        let mut all = vec![wrong.clone()];
        ring.declare_marks([].iter(), &mut all);
        assert_eq!(all, [wrong]);
    }

    #[test]
    fn max_n_is_declared_without_those_that_have_left() {
        let mut ring = order(3, 0);
        (ring.max_n, ring.own_max_n) = (5, 5);
        let stranger = MemberId {
            node: groupcast_core::NodeId(99),
            ..ring.members[0]
        };
        let mut declared = Vec::new();
        let left = [ring.members[2], stranger];
        ring.declare_marks(left.iter(), &mut declared);
        assert_eq!(declared[0].max_n, 4);
        let alone = order(1, 0);
        declared.clear();
        alone.declare_marks([].iter(), &mut declared);
        assert_eq!(declared, []);
    }
}
