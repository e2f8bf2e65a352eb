//! Which members come and go is noted by
//! [`core::mech::absences`](groupcast_core::mech::absences); who does so too often is left out.

use core::time::Duration;

use groupcast_core::mech::absences::Absences;
use groupcast_core::mech::probes::Probes;
use groupcast_core::{MemberId, Time};

use super::{Rmp, State};

/// After so many absences a member is left out.
const ABSENCES_MAX: u32 = 3;
/// An absence that no other one follows for this long is forgotten.
const REMEMBERED: Duration = Duration::from_secs(60);
/// A member must answer probes for longer with each so many absences, up to so many times.
const LONGER: u32 = 2;
const LONGER_MAX: u32 = 3;
/// Who is there answers a poll within this many intervals of polls, and a round trip.
const PROMPT: u32 = 2;

/// Nobody was away yet.
pub(super) fn none() -> Absences {
    Absences::new(ABSENCES_MAX, REMEMBERED)
}

/// How often in a row a member that was away so often must answer before it is let in early.
fn rounds(absences: u32) -> u32 {
    Probes::ROUNDS * (absences.saturating_sub(1) / LONGER + 1).min(LONGER_MAX)
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
        let within = self.config.poll_interval * PROMPT + self.timing.trip();
        self.absences.is_out(now, from, within)
    }

    /// `from`, which came late, is left out of the configuration that this member polls for.
    pub(super) fn leave_out(&mut self, now: Time, from: MemberId) {
        if let State::Polling(polling) = &mut self.state {
            polling.answers.remove(&from);
            self.given_up(now, from);
        }
    }

    /// The more often `member`, which is given up, was away, the longer must it answer.
    pub(super) fn need_answers(&mut self, member: MemberId) {
        let rounds = rounds(self.absences.times(member));
        self.probes.need(member, rounds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_often_a_member_was_away_the_longer_it_must_answer() {
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 6, 60].map(rounds),
            [5, 5, 5, 10, 10, 15, 15, 15]
        );
    }
}
