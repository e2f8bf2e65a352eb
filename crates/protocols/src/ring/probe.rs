//! Probes to members that this one has given up; what their answers mean is
//! [`core::mech::probes`](groupcast_core::mech::probes).

use core::time::Duration;

use groupcast_core::mech::probes::Probes;
use groupcast_core::status::GivenUp;
use groupcast_core::{MemberId, Time};

use super::wire::Message;
use super::{Ring, State, Timer};

impl Ring {
    /// This member gives up `member`, for what it saw itself, or because others did and it had not
    /// heard it either, and asks it at once.
    pub(super) fn accuse(&mut self, now: Time, member: MemberId, why: GivenUp) {
        if self.probes.begin(now, member, why) {
            self.ask(member);
        }
        if self.timers.due(Timer::Probe).is_none() {
            self.timers
                .set(Timer::Probe, now + self.config.announce_interval);
        }
    }

    /// Several probes of the last number at once.
    fn ask(&mut self, member: MemberId) {
        let (answers, number) = (false, self.probes.number());
        let probe = Message::Probe { answers, number }.encode();
        for _ in 0..Probes::BURST {
            self.outbox.unicast_as_data(member, probe.clone());
        }
    }

    /// Asks those that were given up, and lets in those that answer again.
    pub(super) fn probe(&mut self, now: Time) {
        let patience = self.answered_within();
        // Its quarantine begins when the others agree.
        let failing = match &self.state {
            State::Gather(gather) => Some(&gather.fail),
            _ => None,
        };
        let begins = |member| failing.is_some_and(|fail| fail.contains(&member));
        for member in self.probes.judge(now, patience) {
            self.peers.release(now, member);
        }
        let peers = &self.peers;
        let ring = self.state.installed();
        let members = ring.map_or(&[][..], |ring| &ring.members);
        let keeps = |it| begins(it) || peers.is_quarantined(now, it);
        for member in self.probes.next(now, members, keeps) {
            self.ask(member);
        }
        if !self.probes.is_empty() {
            self.timers
                .set(Timer::Probe, now + self.config.announce_interval);
        }
    }

    /// A probe, which is answered, or the answer to one.
    pub(super) fn handle_probe(&mut self, now: Time, from: MemberId, answers: bool, number: u64) {
        if !answers {
            let answer = Message::Probe {
                answers: true,
                number,
            };
            self.outbox.unicast_as_data(from, answer.encode());
            return;
        }
        let patience = self.answered_within();
        // One that takes longer for a datagram keeps up with nothing but calm.
        let pace = patience / 3;
        self.probes.answered(now, from, number, (patience, pace));
    }

    /// The time in which a probe is answered.
    fn answered_within(&self) -> Duration {
        self.config.token_loss_min / 4
    }
}
