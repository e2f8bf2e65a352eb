//! Probes to members that were excluded (ours); what their answers mean is
//! [`core::mech::probes`](groupcast_core::mech::probes). They go where packets and ACKs go: it is
//! that way which a member of the group needs.

use core::time::Duration;

use groupcast_core::mech::probes::{Probes, Verdict};
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
            self.plan_probe(now);
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

    /// Asks those in quarantine, and lets in those that answer again. Those that are slow wait
    /// longer.
    pub(super) fn probe(&mut self, now: Time) {
        let patience = self.answered_within();
        let longest = self.config.quarantine_max * Probes::SLOW_QUARANTINES;
        for verdict in self.probes.judge(now, patience) {
            match verdict {
                Verdict::Repaired(member) => self.peers.release(now, member),
                Verdict::Slow(member) if self.state.is_together_with(member) => {}
                Verdict::Slow(member) => self.peers.note_slow(member, longest),
            }
        }
        let (peers, state) = (&self.peers, &self.state);
        let keeps = |member, new| {
            peers.is_quarantined(now, member) || new && !state.is_together_with(member)
        };
        for member in self.probes.next(now, keeps) {
            self.ask_whether_heard(member);
        }
        if !self.probes.is_empty() {
            self.plan_probe(now);
        }
    }

    /// Members ask at random times, so that their probes do not wait for each other at the one that
    /// is asked.
    fn plan_probe(&mut self, now: Time) {
        let interval = self.config.announce_interval;
        let delay = self.rng.duration(interval / 2, interval * 3 / 2);
        self.timers.set(Timer::Probe, now + delay);
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
