//! Probes: whether the way to a member that was given up, and back, works again.
//!
//! A member that gave up another one asks it now and then while it is in quarantine, several times
//! at once, and wants its answers in the time in which a token must pass. Where they failed to
//! come, and then come again and again, something was repaired, and the quarantine is over. So a
//! quarantine can be long, as a fault that lasts needs it, and a group is whole soon after the
//! fault is gone. A few answers that are lost, as on any network, are no sign of a closed way:
//! taken for one, they would end the quarantine of a member that cannot be in the configuration.
//!
//! Probes that are sent at once also show how long the member takes for a datagram: by the time
//! between its answers, whatever the way takes. A member that is slow answers all, and it falls
//! behind again as soon as it is let in. So its quarantine is to be long, until its answers come
//! quicker. Members should not all ask at the same time: they would measure each other.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use crate::id::MemberId;
use crate::time::Time;

/// Members that this one has given up itself, and what is known of the ways to them.
#[derive(Clone, Hash, Debug, Default)]
pub struct Probes {
    given_up: BTreeMap<MemberId, Probed>,
    /// The number of the last probes.
    number: u64,
}

/// What is known of the way to a member that was given up.
#[derive(Clone, Copy, Hash, Debug)]
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
    /// The answers that came last, in time or not, to probes of one number.
    last: Answered,
    /// How many times in a row its answers came slowly after each other.
    slow: u32,
    /// How many times its answers were judged.
    judged: u32,
}

/// Answers to probes of one number.
#[derive(Clone, Copy, Hash, Debug)]
struct Answered {
    number: u64,
    first: Time,
    count: u32,
}

/// What the answers of a member show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The way was closed, or the member slow, and something was repaired.
    Repaired(MemberId),
    /// The member takes too long for a datagram.
    Slow(MemberId),
}

impl Probed {
    fn new(now: Time) -> Self {
        Self {
            asked: now,
            answers: 0,
            missed: 0,
            failed: false,
            rounds: 0,
            last: Answered {
                number: 0,
                first: now,
                count: 0,
            },
            slow: 0,
            judged: 0,
        }
    }

    /// An answer to probes of this number, which came in time or not.
    fn note_pace(&mut self, now: Time, number: u64, patience: Duration) {
        if self.last.number != number || self.last.count == 0 {
            self.last = Answered {
                number,
                first: now,
                count: 0,
            };
        }
        self.last.count += 1;
        if self.last.count == PACED {
            let slow = now.since(self.last.first) > patience / QUICK_PART;
            self.slow = if slow { self.slow + 1 } else { 0 };
        }
    }

    /// The time for answers is over. Whether the way was repaired.
    fn judge(&mut self) -> bool {
        self.judged += 1;
        if self.answers < ENOUGH || self.slow > 0 {
            self.missed += Probes::BURST.saturating_sub(self.answers);
            self.rounds = 0;
        } else {
            self.missed = 0;
            self.rounds += 1;
        }
        self.failed |= self.missed >= MISSED || self.is_slow();
        self.failed && self.rounds >= ROUNDS
    }

    fn is_slow(&self) -> bool {
        self.slow >= SLOW
    }
}

/// At most so many are probed.
const PROBED_MAX: usize = 16;
/// So many answers to the probes of one time are enough; some may be lost.
const ENOUGH: u32 = 6;
/// A member that missed so many, without answering enough of them meanwhile, could not be reached:
/// all of one time, or three times in a row three. With 2 % loss one pair of members sees that by
/// chance once in a month, with 5 % once in half an hour.
const MISSED: u32 = Probes::BURST;
/// So many times in a row, after they failed to come, answers show that something was repaired.
const ROUNDS: u32 = 5;
/// Between the first and this one of the answers to probes of one time a member shows how long it
/// takes for a datagram. Not the last: some may be lost.
const PACED: u32 = 5;
/// That may be this part of the time in which probes are answered: of which four datagrams then
/// take an eighth, and what a burst of a group brings takes no more than all.
const QUICK_PART: u32 = 8;
/// A member whose answers were slow so many times in a row is slow, and not interrupted once.
const SLOW: u32 = 2;

impl Probes {
    /// So many probes are sent at once: a slow host does not answer them all at once.
    pub const BURST: u32 = 8;
    /// The quarantine of a slow member lasts so many times the longest that others get: it changes
    /// the configuration two or three times in each attempt.
    pub const SLOW_QUARANTINES: u32 = 3;

    /// The number that probes which are sent now carry.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether nobody is probed.
    pub fn is_empty(&self) -> bool {
        self.given_up.is_empty()
    }

    /// `member` is given up: whether it is to be asked at once.
    pub fn begin(&mut self, now: Time, member: MemberId) -> bool {
        let begins = self.given_up.len() < PROBED_MAX && !self.given_up.contains_key(&member);
        if begins {
            self.given_up.insert(member, Probed::new(now));
        }
        begins
    }

    /// An answer of `from` to the probes of this number, which are answered within `patience`.
    pub fn answered(&mut self, now: Time, from: MemberId, number: u64, patience: Duration) {
        let Some(probed) = self.given_up.get_mut(&from) else {
            return;
        };
        if number == self.number && now.since(probed.asked) <= patience {
            probed.answers += 1;
        }
        // One that is far behind answers the probes of before.
        if number <= self.number {
            probed.note_pace(now, number, patience);
        }
    }

    /// Judges the answers that came within `patience`: the members that answer again, after they
    /// had not, and those that are slow.
    pub fn judge(&mut self, now: Time, patience: Duration) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for (member, probed) in &mut self.given_up {
            // One that was given up just now had no time yet.
            if now.since(probed.asked) < patience {
                continue;
            }
            if probed.judge() {
                verdicts.push(Verdict::Repaired(*member));
            } else if probed.is_slow() {
                verdicts.push(Verdict::Slow(*member));
            }
        }
        verdicts
    }

    /// Forgets all members but those that `keeps` says to keep; they are to be asked now, with the
    /// next number. `keeps` is told whether a member is new, which is not judged in full: as long
    /// as it is no member of the configuration it should be kept, although its quarantine is over.
    pub fn next(&mut self, now: Time, keeps: impl Fn(MemberId, bool) -> bool) -> Vec<MemberId> {
        let new = |probed: &Probed| probed.judged < ROUNDS;
        self.given_up
            .retain(|member, probed| keeps(*member, new(probed)));
        self.number += 1;
        for probed in self.given_up.values_mut() {
            (probed.asked, probed.answers) = (now, 0);
        }
        self.given_up.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Incarnation, NodeId};

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

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

    #[test]
    fn answers_count_for_the_last_probes_in_time_and_the_table_is_bounded() {
        let patience = Duration::from_millis(20);
        let mut probes = Probes::default();
        let begun = (0..40).filter(|node| probes.begin(Time::ZERO, member(*node)));
        assert_eq!(begun.count(), PROBED_MAX);
        assert!(!probes.begin(Time::ZERO, member(3)), "it is asked already");
        let mut ends = Vec::new();
        for round in 1..=8 {
            let now = Time::from_millis(round * 200);
            ends.extend(
                probes
                    .judge(now, patience)
                    .into_iter()
                    .map(|it| (round, it)),
            );
            let asked = probes.next(now, |it, _| it.node.0 < 3);
            assert_eq!(asked, [member(0), member(1), member(2)]);
            let number = probes.number();
            for _ in 0..Probes::BURST {
                probes.answered(now + patience, member(0), number, patience);
                probes.answered(now + patience, member(1), number - 1, patience);
                probes.answered(now + patience * 2, member(2), number, patience);
            }
        }
        let repaired = Verdict::Repaired(member(0));
        assert_eq!(ends, [(6, repaired), (7, repaired), (8, repaired)]);
    }

    /// A member that takes so long for each probe, all of which it answers, `latency` after each
    /// burst: what its answers show, every 200 ms.
    fn shown(latency: Duration, takes: &[Duration]) -> Vec<Option<Verdict>> {
        let (member, patience) = (member(1), Duration::from_millis(31));
        let mut probes = Probes::default();
        probes.begin(Time::ZERO, member);
        let mut shown = Vec::new();
        for (round, takes) in takes.iter().enumerate() {
            let asked = Time::from_millis(round as u64 * 200);
            let number = probes.number();
            for index in 1..=Probes::BURST {
                let now = asked + latency + *takes * index;
                probes.answered(now, member, number, patience);
            }
            let now = asked + Duration::from_millis(200);
            shown.push(probes.judge(now, patience).pop());
            probes.next(now, |_, _| true);
        }
        shown
    }

    #[test]
    fn a_member_that_takes_long_for_a_datagram_is_slow_until_its_answers_come_quicker() {
        let (slow, quick) = (Duration::from_micros(2_300), Duration::from_micros(100));
        let takes = [slow, slow, slow, quick, quick, quick, quick, quick];
        for latency in [Duration::ZERO, Duration::from_millis(60)] {
            let shown = shown(latency, &takes);
            let is_slow = Some(Verdict::Slow(member(1)));
            assert_eq!(shown[..4], [None, is_slow, is_slow, None], "{latency:?}");
            // Where all come late, nothing shows that the way is as it should be.
            let repaired = latency.is_zero().then_some(Verdict::Repaired(member(1)));
            assert_eq!(shown[7], repaired, "{latency:?}");
        }
        assert!(
            shown(Duration::ZERO, &[slow, quick, slow, quick, slow, quick])
                .iter()
                .all(Option::is_none)
        );
    }

    #[test]
    fn a_member_that_was_stopped_and_answers_all_at_once_is_not_slow() {
        let (member, patience) = (member(1), Duration::from_millis(31));
        let mut probes = Probes::default();
        probes.begin(Time::ZERO, member);
        for round in 1..10 {
            let now = Time::from_millis(round * 200);
            assert!(probes.judge(now, patience).is_empty());
            probes.next(now, |_, _| true);
        }
        let goes_on = Time::from_millis(1_900);
        for number in 0..=probes.number() {
            for _ in 0..Probes::BURST {
                probes.answered(goes_on, member, number, patience);
            }
        }
        let now = Time::from_millis(2_000);
        assert!(probes.judge(now, patience).is_empty());
    }
}
