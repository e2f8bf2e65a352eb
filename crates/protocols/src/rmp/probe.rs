//! Probes to members that were excluded (ours); what their answers mean is
//! [`core::mech::probes`](groupcast_core::mech::probes). They go where packets and ACKs go: it is
//! that way which a member of the group needs.

use core::time::Duration;

use groupcast_core::mech::probes::Probes;
use groupcast_core::{MemberId, Time};

use super::wire::Message;
use super::{Rmp, Timer};

impl Rmp {
    /// `member` was excluded: this member asks it at once, and then as long as its quarantine
    /// lasts.
    pub(super) fn accuse(&mut self, now: Time, member: MemberId) {
        if self.probes.begin(now, member) {
            self.ask_whether_heard(member);
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
        let keeps = |member| peers.is_quarantined(now, member);
        for member in self.probes.next(now, keeps) {
            self.ask_whether_heard(member);
        }
        if !self.probes.is_empty() {
            self.timers
                .set(Timer::Probe, now + self.config.announce_interval);
        }
    }

    /// A probe, which is answered, or the answer to one.
    pub(super) fn handle_probe(&mut self, now: Time, from: MemberId, answers: bool, number: u64) {
        if answers {
            let patience = self.answered_within();
            self.probes.answered(now, from, number, patience);
            return;
        }
        let answers = true;
        let answer = Message::Probe { answers, number };
        self.outbox.unicast_as_data(from, &answer);
    }

    /// The time in which a probe is answered.
    fn answered_within(&self) -> Duration {
        let within = self.config.silence_max / 8;
        within.min(self.config.announce_interval)
    }
}
