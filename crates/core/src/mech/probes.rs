//! Probes: whether the way to a member that was given up, and back, works again.
//!
//! A member that gave up another one asks it now and then while it is in quarantine, several times
//! at once, and wants its answers in the time in which a token must pass. Where they failed to
//! come, and then come again and again, something was repaired, and the quarantine is over. So a
//! quarantine can be long, as a fault that lasts needs it, and a group is whole soon after the
//! fault is gone. A few answers that are lost, as on any network, are no sign of a closed way:
//! taken for one, they would end the quarantine of a member that cannot be in the configuration.
//!
//! Who has come back with another life is asked no more: the former one does not answer.
//!
//! Probes of one time are a small burst, and answers to them tell how long the member takes for a
//! datagram: it is this, and not how soon the first one comes, that tells a host that is too slow
//! from one that was away. The first answers of a slow host are late for what it still has to do;
//! when that is done they come soon, and nothing was repaired. So answers count as far as they come
//! at the pace that the group needs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::delays::Told;
use crate::id::MemberId;
use crate::status::GivenUp;
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
    /// When its first answer to that came.
    first: Option<Time>,
    /// Whether it was heard before it was given up.
    was_heard: bool,
    /// When anything was last heard of it since.
    heard: Option<Time>,
    /// How many of the last probes it answered in time.
    answers: u32,
    /// How many it did not, since it last answered enough of them.
    missed: u32,
    /// Whether it once missed so many that the way was closed.
    failed: bool,
    /// How many times in a row it has answered enough of them.
    rounds: u32,
    /// How many times in a row it must.
    needed: u32,
    /// Why it was given up.
    why: Told<GivenUp>,
}

impl Probed {
    fn new(now: Time, why: GivenUp) -> Self {
        Self {
            asked: now,
            first: None,
            was_heard: false,
            heard: None,
            answers: 0,
            missed: 0,
            failed: false,
            rounds: 0,
            needed: Probes::ROUNDS,
            why: Told(why),
        }
    }

    /// The time for answers is over. Whether the way was repaired.
    fn judge(&mut self) -> bool {
        if self.answers < ENOUGH {
            self.missed += Probes::BURST.saturating_sub(self.answers);
            self.rounds = 0;
        } else {
            self.missed = 0;
            self.rounds += 1;
        }
        self.failed |= self.missed >= MISSED;
        self.failed && self.rounds >= self.needed
    }
}

/// At most this many are probed.
const PROBED_MAX: usize = 16;
/// This many answers to the probes of one time are enough; some may be lost.
const ENOUGH: u32 = 6;
/// A member that missed this many, without answering enough of them meanwhile, could not be
/// reached: all of one time, or three times in a row three. With 2 % loss one pair of members sees
/// that by chance once in a month, with 5 % once in half an hour.
const MISSED: u32 = Probes::BURST;

impl Probes {
    /// This many probes are sent at once: a slow host does not answer them all at once.
    pub const BURST: u32 = 8;
    /// This many times in a row, after they failed to come, answers show that something was
    /// repaired.
    pub const ROUNDS: u32 = 5;

    /// The number that probes which are sent now carry.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether nobody is probed.
    pub fn is_empty(&self) -> bool {
        self.given_up.is_empty()
    }

    /// Whether `member` is asked.
    pub fn asks(&self, member: MemberId) -> bool {
        self.given_up.contains_key(&member)
    }

    /// Why `member`, which is asked, was given up.
    pub fn why(&self, member: MemberId) -> Option<GivenUp> {
        self.given_up.get(&member).map(|probed| probed.why.0)
    }

    /// Whether `member` is asked, and has answered enough of the last probes.
    pub fn answers_now(&self, member: MemberId) -> bool {
        let probed = self.given_up.get(&member);
        probed.is_some_and(|probed| probed.rounds > 0)
    }

    /// `member` is given up: whether it is to be asked at once.
    pub fn begin(&mut self, now: Time, member: MemberId, why: GivenUp) -> bool {
        let begins = self.given_up.len() < PROBED_MAX && !self.given_up.contains_key(&member);
        if begins {
            self.given_up.insert(member, Probed::new(now, why));
        }
        begins
    }

    /// The same of a member that was heard before. Where there is no room, it takes the place of
    /// one that never was, which the second result names: others may invent members.
    pub fn begin_heard(
        &mut self,
        now: Time,
        member: MemberId,
        why: GivenUp,
    ) -> (bool, Option<MemberId>) {
        let is_full = self.given_up.len() >= PROBED_MAX && !self.given_up.contains_key(&member);
        let is_unheard = |it: &Probed| !it.was_heard && it.heard.is_none();
        let mut unheard = self.given_up.iter().filter(|(_, it)| is_unheard(it));
        let unheard = unheard.find(|_| is_full).map(|(member, _)| *member);
        if let Some(unheard) = unheard {
            self.given_up.remove(&unheard);
        }
        let begins = self.begin(now, member, why);
        if let Some(probed) = self.given_up.get_mut(&member) {
            probed.was_heard = true;
        }
        (begins, unheard)
    }

    /// `member`, which is given up now, was silent: that counts as if it had answered nothing.
    pub fn note_silent(&mut self, member: MemberId) {
        if let Some(probed) = self.given_up.get_mut(&member) {
            probed.failed = true;
        }
    }

    /// `member`, which is asked, must answer so many times in a row before that shows a repair:
    /// what was repaired did not last before.
    pub fn need(&mut self, member: MemberId, rounds: u32) {
        if let Some(probed) = self.given_up.get_mut(&member) {
            probed.needed = rounds;
        }
    }

    /// An answer of `from` to the probes of this number, which are answered within `patience`, and
    /// enough of them within `pace` of the first one. Whether they are with this one.
    pub fn answered(
        &mut self,
        now: Time,
        from: MemberId,
        number: u64,
        (patience, pace): (Duration, Duration),
    ) -> bool {
        let Some(probed) = self.given_up.get_mut(&from) else {
            return false;
        };
        if number != self.number || now.since(probed.asked) > patience {
            return false;
        }
        let first = *probed.first.get_or_insert(now);
        if now.since(first) > pace {
            return false;
        }
        probed.answers += 1;
        probed.answers == ENOUGH
    }

    /// Something was heard of `from`: whether it is one of those given up.
    pub fn note_heard(&mut self, now: Time, from: MemberId) -> bool {
        let probed = self.given_up.get_mut(&from);
        probed.is_some_and(|probed| {
            probed.heard = Some(now);
            true
        })
    }

    /// Whether anything was heard of `member` within the last `recent`.
    pub fn is_heard(&self, now: Time, member: MemberId, recent: Duration) -> bool {
        let heard = self.given_up.get(&member).and_then(|probed| probed.heard);
        heard.is_some_and(|at| now.since(at) <= recent)
    }

    /// Whether `member` is asked and answers: enough of the last probes, several times in a row.
    pub fn answers(&self, member: MemberId) -> bool {
        let probed = self.given_up.get(&member);
        probed.is_some_and(|probed| probed.rounds >= Self::ROUNDS)
    }

    /// Judges the answers that came within `patience`: the members that answer again, after they
    /// had not.
    pub fn judge(&mut self, now: Time, patience: Duration) -> Vec<MemberId> {
        let mut repaired = Vec::new();
        for (member, probed) in &mut self.given_up {
            // One that was given up just now had no time yet.
            if now.since(probed.asked) >= patience && probed.judge() {
                repaired.push(*member);
            }
        }
        repaired
    }

    /// Forgets all members but those that `keeps` says to keep, and former lives of `members`, who
    /// are in the configuration: the others are to be asked now, with the next number.
    pub fn next(
        &mut self,
        now: Time,
        members: &[MemberId],
        keeps: impl Fn(MemberId) -> bool,
    ) -> Vec<MemberId> {
        let is_replaced = |member: MemberId| {
            let is_another_life = |it: &MemberId| it.node == member.node && *it != member;
            members.iter().any(is_another_life)
        };
        self.given_up
            .retain(|member, _| keeps(*member) && !is_replaced(*member));
        self.number += 1;
        for probed in self.given_up.values_mut() {
            (probed.asked, probed.first, probed.answers) = (now, None, 0);
        }
        self.given_up.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Incarnation, NodeId};

    const SILENT: GivenUp = GivenUp::Silent;

    /// Whether a member that answers this many probes each time counts as repaired in the end.
    fn repaired(answers: &[u32]) -> bool {
        let mut probed = Probed::new(Time::ZERO, SILENT);
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
        let member = |node| MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        };
        let patience = Duration::from_millis(20);
        let mut probes = Probes::default();
        let begun = (0..40).filter(|node| probes.begin(Time::ZERO, member(*node), SILENT));
        assert_eq!(begun.count(), PROBED_MAX);
        assert!(
            !probes.begin(Time::ZERO, member(3), SILENT),
            "it is asked already"
        );
        let mut ends = Vec::new();
        for round in 1..=8 {
            let now = Time::from_millis(round * 200);
            ends.extend(
                probes
                    .judge(now, patience)
                    .into_iter()
                    .map(|it| (round, it)),
            );
            let asked = probes.next(now, &[], |it| it.node.0 < 3);
            assert_eq!(asked, [member(0), member(1), member(2)]);
            let number = probes.number();
            for _ in 0..Probes::BURST {
                let within = (patience, patience);
                probes.answered(now + patience, member(0), number, within);
                probes.answered(now + patience, member(1), number - 1, within);
                probes.answered(now + patience * 2, member(2), number, within);
            }
        }
        assert_eq!(ends, [(6, member(0)), (7, member(0)), (8, member(0))]);
    }

    #[test]
    fn who_was_heard_is_asked_instead_of_who_is_not_there() {
        let member = |node| MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        };
        let mut probes = Probes::default();
        for node in 0..PROBED_MAX as u64 {
            assert!(probes.begin(Time::ZERO, member(node), SILENT));
        }
        assert!(!probes.begin(Time::ZERO, member(20), SILENT));
        assert!(probes.note_heard(Time::ZERO, member(0)));
        let mut begin = |node| probes.begin_heard(Time::ZERO, member(node), SILENT);
        assert_eq!(begin(1), (false, None), "it is asked already");
        for node in 2..PROBED_MAX as u64 {
            assert_eq!(begin(20 + node), (true, Some(member(node))));
        }
        assert_eq!(begin(50), (false, None), "all were heard");
        assert!(probes.asks(member(0)) && probes.asks(member(1)));
    }

    #[test]
    fn a_member_answers_when_it_did_so_several_times_in_a_row() {
        let member = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        let patience = Duration::from_millis(20);
        let mut probes = Probes::default();
        assert!(!probes.answers(member), "it is not asked");
        probes.begin(Time::ZERO, member, SILENT);
        let mut says = Vec::new();
        for (round, answered) in [8, 8, 5, 6, 6, 8, 6, 7, 0].into_iter().enumerate() {
            let asked = Time::from_millis(round as u64 * 200);
            for _ in 0..answered {
                probes.answered(
                    asked + patience,
                    member,
                    probes.number(),
                    (patience, patience),
                );
            }
            let next = asked + Duration::from_millis(200);
            assert_eq!(
                probes.judge(next, patience),
                [],
                "it failed too seldom to be repaired"
            );
            probes.next(next, &[], |_| true);
            says.push(probes.answers(member));
        }
        let expected = [false, false, false, false, false, false, false, true, false];
        assert_eq!(says, expected);
    }

    #[test]
    fn a_host_that_takes_long_for_each_probe_does_not_answer_at_the_pace_that_is_needed() {
        let member = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        let within = (Duration::from_millis(30), Duration::from_millis(5));
        let answers_enough = |each: Duration| {
            let mut probes = Probes::default();
            probes.begin(Time::ZERO, member, SILENT);
            let answers = 1..=Probes::BURST;
            let mut answers = answers.map(|it| Time::ZERO + each * it);
            answers.any(|at| probes.answered(at, member, 0, within))
        };
        assert!(answers_enough(Duration::from_millis(1)));
        assert!(
            !answers_enough(Duration::from_millis(2)),
            "it would be 16 ms, within 30"
        );
    }
}
