//! Probes: whether the way to a member that was given up, and back, works again.
//!
//! A member that gave up another one asks it now and then while it is in quarantine, several times
//! at once, and wants its answers in the time in which a token must pass. Where they failed to
//! come, and then come again and again, something was repaired, and the quarantine is over. So a
//! quarantine can be long, as a fault that lasts needs it, and a group is whole soon after the
//! fault is gone.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use groupcast_core::{MemberId, Time};

use super::wire::Message;
use super::{Ring, State, Timer};

/// Members that this one has given up itself, for what it saw; those that it gave up because others
/// did are none of them.
#[derive(Debug, Default)]
pub(super) struct Probes {
    given_up: BTreeMap<MemberId, Probed>,
    /// The number of the last probes.
    number: u64,
    /// When they were sent.
    sent: Time,
}

/// What is known of the way to a member that was given up.
#[derive(Clone, Copy, Default, Debug)]
struct Probed {
    /// How many of the last probes it answered in time.
    answers: u32,
    /// The last number whose probes it did not answer in time; 0 if there is none.
    unanswered: u64,
}

/// At most so many are probed.
const PROBED_MAX: usize = 16;
/// So many probes are sent at once: a slow host does not answer them all at once.
const BURST: u32 = 8;
/// So many answers to them are enough; some may be lost.
const ENOUGH: u32 = 6;
/// So many times in a row, after one at which they failed to come, answers show that something was
/// repaired.
const ROUNDS: u64 = 5;

impl Ring {
    /// This member gives up `member`, for what it saw itself, and asks it at once.
    pub(super) fn accuse(&mut self, now: Time, member: MemberId) {
        let probes = &mut self.probes;
        if probes.given_up.len() < PROBED_MAX && !probes.given_up.contains_key(&member) {
            probes.given_up.insert(member, Probed::default());
            probes.number = probes.number.max(1);
            probes.sent = now;
            self.ask(member);
        }
        if self.timers.due(Timer::Probe).is_none() {
            self.timers
                .set(Timer::Probe, now + self.config.announce_interval);
        }
    }

    /// Several probes of the last number at once.
    fn ask(&mut self, member: MemberId) {
        let (answers, number) = (false, self.probes.number);
        let probe = Message::Probe { answers, number }.encode();
        for _ in 0..BURST {
            self.outbox.unicast_as_data(member, probe.clone());
        }
    }

    /// Asks those that were given up, and lets in those that answer again.
    pub(super) fn probe(&mut self, now: Time) {
        let last = self.probes.number;
        let peers = &mut self.peers;
        // Its quarantine begins when the others agree.
        let failing = match &self.state {
            State::Gather(gather) => Some(&gather.fail),
            _ => None,
        };
        self.probes.given_up.retain(|member, probed| {
            if probed.answers < ENOUGH {
                probed.unanswered = last;
            }
            probed.answers = 0;
            let repaired = probed.unanswered > 0 && last - probed.unanswered >= ROUNDS;
            if repaired {
                peers.release(now, *member);
            }
            let begins = failing.is_some_and(|fail| fail.contains(member));
            begins || peers.is_quarantined(now, *member)
        });
        self.probes.number += 1;
        self.probes.sent = now;
        let given_up: Vec<MemberId> = self.probes.given_up.keys().copied().collect();
        for member in given_up {
            self.ask(member);
        }
        if !self.probes.given_up.is_empty() {
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
        } else if number == self.probes.number
            && now.since(self.probes.sent) <= self.config.token_loss_min / 4
            && let Some(probed) = self.probes.given_up.get_mut(&from)
        {
            probed.answers += 1;
        }
    }
}
