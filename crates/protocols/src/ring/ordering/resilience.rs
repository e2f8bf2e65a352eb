//! Messages that some members, or a majority, must hold: up to where each member holds all, as the
//! token tells while such messages are about.

use alloc::vec::Vec;

use groupcast_core::Service;
use groupcast_core::mech::marks::majority;

use super::Ordering;
use crate::ring::wire::{OldMarks, Resilience, Token};

impl Ordering {
    /// The token is about to be passed on, with what this member has claimed: reads and writes up to
    /// where each member holds all. `wanted`: messages that wait for that are among what was claimed.
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

    /// Adds what is known of this ring's marks to what other members of it have declared, if messages
    /// are about that are delivered by them, or a majority is missing since an older ring.
    pub(in crate::ring) fn declare_marks(&self, declared: &mut Vec<OldMarks>) {
        let waits = self.cursor.blocked().map(|record| record.service);
        let waits = waits.is_some_and(|service| service != Service::Safe);
        if !waits && !self.waits_for_marks() && !self.is_minority() {
            return;
        }
        let marks = self.marks.as_slice();
        match declared.iter_mut().find(|old| old.ring == self.id) {
            Some(old) if old.marks.len() == marks.len() => {
                for (known, mark) in old.marks.iter_mut().zip(marks) {
                    *known = (*known).max(*mark);
                }
            }
            Some(_) => {}
            None => declared.push(OldMarks {
                ring: self.id,
                max_n: self.max_n as u16,
                marks: marks.to_vec(),
            }),
        }
    }
}
