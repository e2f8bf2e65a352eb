//! Which members come and go is noted by
//! [`core::mech::absences`](groupcast_core::mech::absences); who does so too often is left out.

use core::time::Duration;

use groupcast_core::mech::absences::{Absences, Says};
use groupcast_core::mech::probes::Probes;
use groupcast_core::{MemberId, Time};

use super::polling::Polling;
use super::{Rmp, State};

/// After so many absences a member is left out.
const ABSENCES_MAX: u32 = 3;
/// An absence that no other one follows for this long is forgotten.
pub(super) const REMEMBERED: Duration = Duration::from_secs(60);
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
    /// `from` answers a poll of a member other than itself, while this member polls or stands by:
    /// whether it is to be left out, since it was away too often.
    pub(super) fn answers_late(&mut self, now: Time, from: MemberId) -> bool {
        self.comes_and_goes(now, from, |_| Says::Hears)
    }

    /// The same where `from` polls, and `heard` these members.
    pub(super) fn polls_late(&mut self, now: Time, from: MemberId, heard: &[MemberId]) -> bool {
        self.comes_and_goes(now, from, |together| Says::of(from, heard, together))
    }

    /// `says`: what the word of `from` means, of these members of the last configuration.
    fn comes_and_goes(
        &mut self,
        now: Time,
        from: MemberId,
        says: impl FnOnce(&[MemberId]) -> Says,
    ) -> bool {
        if !matches!(self.state, State::Polling(_) | State::Standby(_)) {
            return false;
        }
        let old = self.state.installed();
        let Some(old) = old.filter(|old| old.members.contains(&from)) else {
            return false;
        };
        let says = says(&old.members);
        let within = self.config.poll_interval * PROMPT + self.timing.trip();
        self.absences.is_out(now, from, says, within)
    }

    /// `from`, which comes late, is left out of the configuration that this member polls for. If it
    /// polls itself, and this member follows it, that is over.
    pub(super) fn leave_out(&mut self, now: Time, from: MemberId) {
        match &mut self.state {
            State::Polling(polling) => {
                polling.answers.remove(&from);
                self.given_up(now, from);
            }
            State::Standby(standby) if standby.follows(from) => {
                let mut seed = Polling::default();
                seed.failed.insert(from);
                self.poll(now, "the poller comes and goes", seed);
            }
            _ => {}
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
