//! Members that come and go (ours).
//!
//! A member whose link fails again and again for a moment stops the group each time: the others
//! take the group for silent and poll, it is back before they have given it up, and all go on as
//! before. Nobody would ever be left out, and nobody held responsible. So each member notes who was
//! away when a reformation began and came back while it lasted. Who does so for the third time,
//! each within a minute of the one before, is left out, and so it is each time after that: its
//! quarantine grows, and the more often it was away, the longer must it answer probes before it is
//! let in early.
//!
//! A member that was away itself finds all others late. It holds that against nobody: only where
//! another one was there at once is one that was not away.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use groupcast_core::mech::peers::Peers;
use groupcast_core::{MemberId, Time};

use super::config::RmpConfig;
use super::{Rmp, State};

/// After so many absences a member is left out.
const ABSENCES_MAX: u32 = 3;
/// An absence that no other one follows for this long is forgotten.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Who is there answers a poll within this many intervals of polls, and a round trip.
const PROMPT: u32 = 2;
/// A member must answer probes for longer with each so many absences, up to so many times.
const LONGER: u32 = 2;
const LONGER_MAX: u32 = 3;

/// How often members were away lately.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct Absences {
    of: BTreeMap<MemberId, Absence>,
    /// The reformation under way.
    roll: Option<Roll>,
}

/// That of one member.
#[derive(Clone, Copy, Hash, Debug)]
struct Absence {
    times: u32,
    last: Time,
}

/// Who was heard since a reformation began.
#[derive(Clone, Hash, Debug)]
struct Roll {
    begun: Time,
    present: BTreeSet<MemberId>,
    /// Some were there at once.
    prompt: bool,
    /// Some were not.
    late: bool,
    /// Those of them that are left out.
    out: BTreeSet<MemberId>,
}

impl Absences {
    /// This member polls, or stands by for another: its configuration is over.
    pub(super) fn begin(&mut self, now: Time) {
        self.roll.get_or_insert(Roll {
            begun: now,
            present: BTreeSet::new(),
            prompt: false,
            late: false,
            out: BTreeSet::new(),
        });
    }

    /// A member of that configuration polls or answers a poll, as one that is there does `within`
    /// this time. Whether it is to be left out.
    fn is_out(&mut self, now: Time, member: MemberId, within: Duration) -> bool {
        let Some(roll) = &mut self.roll else {
            return false;
        };
        if roll.present.insert(member) {
            if now.since(roll.begun) <= within {
                roll.prompt = true;
            } else if roll.prompt {
                roll.late = true;
                if self.count(now, member) >= ABSENCES_MAX
                    && let Some(roll) = &mut self.roll
                {
                    roll.out.insert(member);
                }
            }
        }
        let roll = self.roll.as_ref();
        roll.is_some_and(|roll| roll.out.contains(&member))
    }

    /// `member` was away once more: how many times by now.
    fn count(&mut self, now: Time, member: MemberId) -> u32 {
        let is_old = |it: &Absence| now.since(it.last) >= REMEMBERED;
        if self.of.len() >= Peers::MAX {
            self.of.retain(|_, it| !is_old(it));
        }
        if self.of.len() >= Peers::MAX && !self.of.contains_key(&member) {
            return 0;
        }
        let first = Absence {
            times: 0,
            last: now,
        };
        let absence = self.of.entry(member).or_insert(first);
        if is_old(absence) {
            *absence = first;
        }
        absence.times = absence.times.saturating_add(1);
        absence.last = now;
        absence.times
    }

    /// `member` is excluded, which was with this one in the configuration before, or not. Whether
    /// it was away, as far as that is known here.
    pub(super) fn note_excluded(&mut self, now: Time, member: MemberId, was_with: bool) -> bool {
        let Some(roll) = &self.roll else {
            return false;
        };
        let is_silent = !roll.present.contains(&member);
        let was_away = is_silent || roll.out.contains(&member);
        if is_silent && was_with && roll.prompt {
            self.count(now, member);
        }
        was_away
    }

    /// How many times as long as others `member` must answer probes before it is let in early.
    pub(super) fn patience(&self, member: MemberId) -> u32 {
        let times = self.of.get(&member).map_or(0, |it| it.times);
        (times.saturating_sub(1) / LONGER + 1).min(LONGER_MAX)
    }

    /// The next configuration begins: whether a member came late to it.
    pub(super) fn end(&mut self) -> bool {
        self.roll.take().is_some_and(|roll| roll.late)
    }
}

impl Rmp {
    /// `from` polls or answers a poll, while this member does or stands by: whether it is to be
    /// left out, since it was away too often.
    pub(super) fn comes_and_goes(&mut self, now: Time, from: MemberId) -> bool {
        if !matches!(self.state, State::Polling(_) | State::Standby(_)) {
            return false;
        }
        let old = self.state.installed();
        if old.is_none_or(|old| !old.members.contains(&from)) {
            return false;
        }
        let within = prompt(&self.config, self.timing.trip());
        self.absences.is_out(now, from, within)
    }

    /// `from`, which came late, is left out of the configuration that this member polls for.
    pub(super) fn leave_out(&mut self, now: Time, from: MemberId) {
        if let State::Polling(polling) = &mut self.state {
            polling.answers.remove(&from);
            self.given_up(now, from);
        }
    }
}

/// Within this time a member that is there is heard to poll or to answer, where a round trip takes
/// `trip`.
fn prompt(config: &RmpConfig, trip: Duration) -> Duration {
    config.poll_interval * PROMPT + trip
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rmp::fixtures::member;

    const WITHIN: Duration = Duration::from_millis(30);

    /// A reformation that begins at this second: member 1 is there at once if `prompt`, member 2
    /// after 40 ms. Whether that one is left out.
    fn reform(absences: &mut Absences, seconds: u64, prompt: bool) -> bool {
        let at = |millis| Time::from_millis(seconds * 1_000 + millis);
        absences.begin(at(0));
        let first = if prompt { 5 } else { 35 };
        assert!(!absences.is_out(at(first), member(1), WITHIN));
        let out = absences.is_out(at(40), member(2), WITHIN);
        assert_eq!(absences.is_out(at(50), member(2), WITHIN), out);
        assert_eq!(absences.end(), prompt);
        out
    }

    #[test]
    fn who_was_away_three_times_is_left_out_from_then_on_until_a_minute_has_passed() {
        let mut absences = Absences::default();
        let outs = [0, 50, 100, 150, 209, 269, 270, 271];
        let outs = outs.map(|seconds| reform(&mut absences, seconds, true));
        assert_eq!(outs, [false, false, true, true, true, false, false, true]);
        assert_eq!(absences.patience(member(1)), 1, "it was there");
    }

    #[test]
    fn who_was_away_itself_holds_it_against_nobody() {
        let mut absences = Absences::default();
        for seconds in 0..10 {
            assert!(!reform(&mut absences, seconds, false));
        }
        assert_eq!(absences.patience(member(2)), 1);
    }

    #[test]
    fn the_more_often_a_member_was_away_the_longer_it_must_answer() {
        let mut absences = Absences::default();
        let longer = (0..8).map(|seconds| {
            reform(&mut absences, seconds, true);
            absences.patience(member(2))
        });
        assert_eq!(
            longer.collect::<alloc::vec::Vec<_>>(),
            [1, 1, 2, 2, 3, 3, 3, 3]
        );
    }

    #[test]
    fn the_table_is_bounded() {
        let mut absences = Absences::default();
        for node in 0..2_000 {
            absences.count(Time::from_millis(node), member(node));
        }
        assert_eq!(absences.of.len(), Peers::MAX);
    }
}
