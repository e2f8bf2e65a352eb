//! A group that breaks again and again, and has the same members each time (ours).
//!
//! Where several ways are closed and datagrams are lost, too, third members help: they send tokens
//! on, and tell marks and what is missing. Now and then that takes longer than a group may be
//! silent, though nobody is gone, and the next group is the same. So after two such breaks a group
//! has more patience, until it has lasted for a while. It notices a crash later, which is why a
//! group has no such patience otherwise. Nor has it where a member was [away](super::absences) and
//! came back: such breaks have another cause, and count for nothing, and for as long as that is
//! remembered there is no such patience. Else the others would wait, each time it is away, until it
//! is back, and never notice it.

use core::time::Duration;

use groupcast_core::{MemberId, Time};

use super::absences::REMEMBERED;

/// A configuration that is over sooner was a short one.
const SHORT: Duration = Duration::from_secs(60);
/// This many short ones in a row, each with the members of the one before, make a group brittle.
const SHORT_MAX: u32 = 2;
/// Then a group may be silent, and its datagrams unanswered, this many times longer.
const PATIENCE: u32 = 4;

/// How long the last configurations lasted.
#[derive(Clone, Copy, Hash, Default, Debug)]
pub(super) struct Brittle {
    /// When the last one was installed.
    installed: Option<Time>,
    /// How many before it were short, and followed by one with the same members.
    broken: u32,
    /// When the last one was installed to which a member came late.
    late: Option<Time>,
}

impl Brittle {
    /// A configuration of `members` is installed, after one of `before`.
    pub(super) fn note_installed(&mut self, now: Time, before: &[MemberId], members: &[MemberId]) {
        let short = self.is_young(now);
        self.installed = Some(now);
        let same = before.len() == members.len() && before.iter().all(|it| members.contains(it));
        if !short {
            self.broken = 0;
        } else if same && members.len() > 1 {
            self.broken = self.broken.saturating_add(1);
        }
    }

    /// A member had been away when the last configuration ended: no help would have come sooner.
    pub(super) fn note_absence(&mut self, now: Time) {
        self.broken = 0;
        self.late = Some(now);
    }

    fn is_young(&self, now: Time) -> bool {
        self.installed.is_some_and(|at| now.since(at) < SHORT)
    }

    /// How many times longer than it is set a group waits before it takes itself for broken.
    pub(super) fn patience(&self, now: Time) -> u32 {
        let is_unsteady = self.late.is_some_and(|at| now.since(at) < REMEMBERED);
        match self.is_young(now) && self.broken >= SHORT_MAX && !is_unsteady {
            true => PATIENCE,
            false => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::rmp::fixtures::member;

    #[test]
    fn a_group_that_broke_twice_without_losing_a_member_is_patient_until_it_has_lasted() {
        let at = |seconds: u64| Time::from_millis(seconds * 1_000);
        let members = |count| (0..count).map(member).collect::<Vec<_>>();
        let (two, three) = (members(2), members(3));
        let mut brittle = Brittle::default();
        brittle.note_installed(at(0), &two, &three);
        brittle.note_installed(at(5), &three, &three);
        brittle.note_installed(at(6), &three, &two);
        brittle.note_installed(at(7), &two, &three);
        assert_eq!(
            brittle.patience(at(7)),
            1,
            "it broke once, and changed twice"
        );
        brittle.note_installed(at(8), &three, &three);
        assert_eq!(brittle.patience(at(67)), PATIENCE);
        assert_eq!(brittle.patience(at(68)), 1, "it has lasted");
        brittle.note_installed(at(69), &three, &three);
        assert_eq!(brittle.patience(at(69)), 1);
    }

    #[test]
    fn it_is_not_patient_while_it_is_remembered_that_a_member_came_late() {
        let at = |seconds: u64| Time::from_millis(seconds * 1_000);
        let members = [member(1), member(2)];
        let mut brittle = Brittle::default();
        brittle.note_installed(at(0), &members, &members);
        brittle.note_absence(at(0));
        for seconds in [10, 20, 30] {
            brittle.note_installed(at(seconds), &members, &members);
        }
        assert_eq!(brittle.patience(at(59)), 1);
        assert_eq!(brittle.patience(at(60)), PATIENCE);
    }
}
