//! Probes: whether the way to a member that was given up, and back, works again.
//!
//! A member that gave up another one asks it now and then while it is in quarantine, several times
//! at once, and wants its answers in the time in which a token must pass. Where they failed to
//! come, and then come again and again, something was repaired, and the quarantine is over. So a
//! quarantine can be long, as a fault that lasts needs it, and a group is whole soon after the
//! fault is gone. A few answers that are lost, as on any network, are no sign of a closed way:
//! taken for one, they would end the quarantine of a member that cannot be in the ring.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::{MemberId, Time};

use super::wire::Message;
use super::{Ring, State, Timer};

/// Members that this one has given up itself, for what it saw, or because others did and it had not
/// heard them either.
#[derive(Debug, Default)]
pub(super) struct Probes {
    given_up: BTreeMap<MemberId, Probed>,
    /// The number of the last probes.
    number: u64,
}

/// What is known of the way to a member that was given up.
#[derive(Clone, Copy, Debug)]
struct Probed {
    /// When it was last asked.
    asked: Time,
    /// How many of the last probes it answered in time.
    answers: u32,
    /// How many it did not, since it last answered enough of them.
    missed: u32,
    /// Whether it missed so many once that the way was closed.
    failed: bool,
    /// How many times in a row it has answered enough of them.
    rounds: u32,
}

impl Probed {
    fn new(now: Time) -> Self {
        Self {
            asked: now,
            answers: 0,
            missed: 0,
            failed: false,
            rounds: 0,
        }
    }

    /// The time for answers is over. Whether the way was repaired.
    fn judge(&mut self) -> bool {
        if self.answers < ENOUGH {
            self.missed += BURST.saturating_sub(self.answers);
            self.rounds = 0;
        } else {
            self.missed = 0;
            self.rounds += 1;
        }
        self.failed |= self.missed >= MISSED;
        self.failed && self.rounds >= ROUNDS
    }
}

/// At most so many are probed.
const PROBED_MAX: usize = 16;
/// So many probes are sent at once: a slow host does not answer them all at once.
const BURST: u32 = 8;
/// So many answers to them are enough; some may be lost.
const ENOUGH: u32 = 6;
/// A member that missed so many, without answering enough of them meanwhile, could not be reached:
/// all of one time, or three times in a row three. With 2 % loss one pair of members sees that by
/// chance once in a month, with 5 % once in half an hour.
const MISSED: u32 = BURST;
/// So many times in a row, after they failed to come, answers show that something was repaired.
const ROUNDS: u32 = 5;

impl Ring {
    /// This member gives up `member`, for what it saw itself, and asks it at once.
    pub(super) fn accuse(&mut self, now: Time, member: MemberId) {
        let probes = &mut self.probes;
        if probes.given_up.len() < PROBED_MAX && !probes.given_up.contains_key(&member) {
            probes.given_up.insert(member, Probed::new(now));
            self.ask(now, member);
        }
        if self.timers.due(Timer::Probe).is_none() {
            self.timers
                .set(Timer::Probe, now + self.config.announce_interval);
        }
    }

    /// Several probes of the last number at once.
    fn ask(&mut self, now: Time, member: MemberId) {
        if let Some(probed) = self.probes.given_up.get_mut(&member) {
            (probed.asked, probed.answers) = (now, 0);
        }
        let (answers, number) = (false, self.probes.number);
        let probe = Message::Probe { answers, number }.encode();
        for _ in 0..BURST {
            self.outbox.unicast_as_data(member, probe.clone());
        }
    }

    /// Asks those that were given up, and lets in those that answer again.
    pub(super) fn probe(&mut self, now: Time) {
        let patience = self.answered_within();
        let peers = &mut self.peers;
        // Its quarantine begins when the others agree.
        let failing = match &self.state {
            State::Gather(gather) => Some(&gather.fail),
            _ => None,
        };
        self.probes.given_up.retain(|member, probed| {
            // One that was given up just now had no time yet.
            let judged = now.since(probed.asked) >= patience;
            if judged && probed.judge() {
                peers.release(now, *member);
            }
            let begins = failing.is_some_and(|fail| fail.contains(member));
            begins || peers.is_quarantined(now, *member)
        });
        self.probes.number += 1;
        let given_up: Vec<MemberId> = self.probes.given_up.keys().copied().collect();
        for member in given_up {
            self.ask(now, member);
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
            return;
        }
        let patience = self.answered_within();
        if number == self.probes.number
            && let Some(probed) = self.probes.given_up.get_mut(&from)
            && now.since(probed.asked) <= patience
        {
            probed.answers += 1;
        }
    }

    /// The time in which a probe is answered.
    fn answered_within(&self) -> Duration {
        self.config.token_loss_min / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a member that answers so many probes each time counts as repaired in the end.
    fn repaired(answers: &[u32]) -> bool {
        let mut probed = Probed::new(Time::ZERO);
        let judge = |answers: &u32| {
            probed.answers = *answers;
            probed.judge()
        };
        answers.iter().map(judge).last() == Some(true)
    }

    #[test]
    fn a_way_is_repaired_when_answers_come_again_that_failed_to_come() {
        assert!(repaired(&[0, 6, 7, 8, 8, 6]));
        assert!(repaired(&[5, 5, 5, 8, 8, 8, 8, 8]));
        assert!(!repaired(&[0, 6, 7, 8, 8]), "too few times");
        assert!(!repaired(&[0, 8, 8, 8, 5, 8]), "not in a row");
        assert!(!repaired(&[8; 20]), "it never failed");
    }

    #[test]
    fn a_few_answers_that_are_lost_show_no_closed_way() {
        assert!(!repaired(&[5, 8, 8, 8, 8, 8]));
        assert!(!repaired(&[8, 4, 8, 5, 5, 8, 8, 8, 8, 8]));
    }
}
