//! Probes to members that were excluded (ours); what their answers mean is
//! [`core::mech::probes`](groupcast_core::mech::probes). They go where packets and ACKs go: it is
//! that way which a member of the group needs.
//!
//! A member that was excluded is in doubt until it has answered enough of the probes of one time,
//! at the pace that the group needs: until then it stays in quarantine for the longest time. A host
//! that paused, or whose way opens again, answers at that pace as soon as it is back. A host that
//! takes too long for each datagram does not: let in, it would be in the group for a second or two
//! each time. A member that is not heard any more is not asked, and costs nothing.

use core::time::Duration;

use groupcast_core::mech::probes::Probes;
use groupcast_core::status::GivenUp;
use groupcast_core::{MemberId, Time};

use super::wire::Message;
use super::{Rmp, Timer};

/// A member whose quarantine would be over is asked as long as it was heard within this time.
const HEARD_FOR: Duration = Duration::from_secs(1);

/// A witness that was not heard for so many intervals of announcements is gone.
const WITNESS_SILENCE: u32 = 10;

impl Rmp {
    /// `member` was excluded: this member asks it at once, and then as long as its quarantine
    /// lasts.
    pub(super) fn accuse(&mut self, now: Time, member: MemberId) {
        let (begins, unheard) = match self.peers.heard_excluded(member) {
            Some(_) => self.probes.begin_heard(now, member, GivenUp::Silent),
            None => (self.probes.begin(now, member, GivenUp::Silent), None),
        };
        if let Some(unheard) = unheard {
            // It is asked no more, and cannot end a doubt.
            self.peers.vouch(now, unheard);
        }
        if begins {
            self.ask_whether_heard(member);
        }
        if self.probes.asks(member) {
            let longest = self.config.quarantine_max;
            self.peers.doubt(now, member, longest);
        }
        if self.timers.due(Timer::Probe).is_none() {
            self.timers
                .set(Timer::Probe, now + self.config.announce_interval);
        }
    }

    /// Several probes of the last number at once.
    fn ask_whether_heard(&mut self, member: MemberId) {
        let probe = Message::Probe {
            answers: false,
            number: self.probes.number(),
        };
        for _ in 0..Probes::BURST {
            self.outbox.unicast_as_data(member, &probe);
        }
    }

    /// Asks those in quarantine, and lets in those that answer again.
    pub(super) fn probe(&mut self, now: Time) {
        let patience = self.answered_within();
        for member in self.probes.judge(now, patience) {
            self.peers.release(now, member);
        }
        let peers = &self.peers;
        let order = self.state.installed();
        let members = order.map_or(&[][..], |order| &order.members);
        let keeps = |member| peers.is_quarantined(now, member);
        let mut any = false;
        for member in self.probes.next(now, members, keeps) {
            let worth = self.peers.is_quarantined_anyway(now, member)
                || self.probes.is_heard(now, member, HEARD_FOR);
            if worth {
                self.ask_whether_heard(member);
                any = true;
            }
        }
        if any {
            self.timers
                .set(Timer::Probe, now + self.config.announce_interval);
        }
    }

    /// Something was heard of `from`: if it is in quarantine, it is asked.
    pub(super) fn heard_of(&mut self, now: Time, from: MemberId) {
        let patience = self.config.announce_interval * WITNESS_SILENCE;
        let installed = self.state.installed();
        let here = |it| installed.is_some_and(|old| old.members.contains(&it));
        self.peers.outlives_word(now, from, patience, here);
        let is_probed = self.probes.note_heard(now, from);
        if is_probed && self.timers.due(Timer::Probe).is_none() {
            self.probe(now);
        }
    }

    /// A probe, which is answered, or the answer to one.
    pub(super) fn handle_probe(&mut self, now: Time, from: MemberId, answers: bool, number: u64) {
        if answers {
            let within = (self.answered_within(), self.config.timer_min);
            if self.probes.answered(now, from, number, within) {
                self.peers.vouch(now, from);
            }
            return;
        }
        let answer = Message::Probe {
            answers: true,
            number,
        };
        self.outbox.unicast_as_data(from, &answer);
    }

    /// The time in which a member of the group must answer a probe.
    fn answered_within(&self) -> Duration {
        let within = self.config.silence_max / 8;
        within.min(self.config.announce_interval)
    }
}
