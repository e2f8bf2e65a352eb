//! Which members come and go is noted by
//! [`core::mech::absences`](groupcast_core::mech::absences); who does so too often is left out.

use groupcast_core::mech::absences::{Absences, Says};
use groupcast_core::mech::probes::Probes;
use groupcast_core::status::GivenUp;
use groupcast_core::{MemberId, Time};

use super::config::RingConfig;
use super::{Ring, State};

/// After this many absences a member is left out.
const ABSENCES_MAX: u32 = 3;
/// An absence that no other one follows for this many intervals of announcements is forgotten. Too
/// many: hosts that stop now and then, each by itself, are left out for it.
const REMEMBERED: u32 = 10;
/// Who is there sends a join within this many intervals of joins: a round trip is shorter.
const PROMPT: u32 = 3;
/// Who was away that often must answer this many times more before it is let in early.
const MORE: u32 = 3;

/// Nobody was away yet.
pub(super) fn none(config: &RingConfig) -> Absences {
    Absences::new(ABSENCES_MAX, config.announce_interval * REMEMBERED)
}

impl Ring {
    /// The ring of this member is over: it notes who is there from now on.
    pub(super) fn call_the_roll(&mut self, now: Time) {
        if let State::Operational(operational) = &self.state
            && operational.ordering.members.len() > 1
        {
            self.absences.begin(now);
        } else if matches!(self.state, State::Commit(_) | State::Recovery(_)) {
            self.absences.begin_again(now);
        }
    }

    /// A join of `from` came, which `heard` these members: whether it is to be left out of the ring
    /// that forms, since it was away too often.
    pub(super) fn comes_and_goes(&mut self, now: Time, from: MemberId, heard: &[MemberId]) -> bool {
        if matches!(self.state, State::Operational(_) | State::Left(_)) {
            return false;
        }
        let Some(old) = self.state.installed().filter(|old| old.has(from)) else {
            return false;
        };
        let says = Says::of(from, heard, &old.members);
        let within = self.config.join_interval * PROMPT;
        self.absences.is_out(now, from, says, within)
    }

    /// `from`, which came late, is left out. It is let in again as soon as it answers for long
    /// enough, however often this happens: that it came shows that what it sends arrives.
    pub(super) fn leave_out(&mut self, now: Time, from: MemberId) {
        let State::Gather(gather) = &mut self.state else {
            return;
        };
        if gather.proc.contains(&from) && gather.fail.insert(from) {
            self.accuse(now, from, GivenUp::Silent);
            self.probes.note_silent(from);
            self.need_answers(from);
            self.change_mind(now);
        }
    }

    /// `member` was not heard in time: it is let in again as soon as it answers, if it was well
    /// before, and for longer if it was away often.
    pub(super) fn give_up_absent(&mut self, now: Time, member: MemberId) {
        self.accuse(now, member, GivenUp::Silent);
        if self.peers.forgive(now, member, self.config.quarantine_min) {
            self.probes.note_silent(member);
        }
        self.need_answers(member);
    }

    fn need_answers(&mut self, member: MemberId) {
        if self.absences.is_often_away(member) {
            self.probes.need(member, Probes::ROUNDS + MORE);
        }
    }
}
