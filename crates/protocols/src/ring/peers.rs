//! What a member remembers of others from ring to ring: which ones it hears, whose joins are stale,
//! which ones are in quarantine. Also how rings find each other, and how a member leaves.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::{Event, MemberId, Time};

use super::config::RingConfig;
use super::gather::Gather;
use super::numbers::Attempt;
use super::operational::Operational;
use super::wire::{Announcement, Join, Message};
use super::{Ring, State, Timer};

/// What a member remembers of others. It outlives rings; every table is bounded by [`Peers::MAX`].
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// Own changes of mind so far.
    pub(super) attempt: Attempt,
    /// The highest ring counter seen anywhere since the last ring was installed.
    pub(super) counter: u64,
    /// The counter of the last ring that this member began to form.
    formed: u64,
    /// The highest attempt of each member's joins, and when the last one came.
    attempts: BTreeMap<MemberId, (Attempt, Time)>,
    /// When a join or an announcement of a member was last heard.
    heard: BTreeMap<MemberId, Time>,
    quarantine: BTreeMap<MemberId, Delay>,
    /// Members that a called token did not reach: the token goes to them by rotation.
    uncalled: BTreeMap<MemberId, Delay>,
    /// Members that did not acknowledge the token of a forming ring, how many times in a row.
    unacknowledged: BTreeMap<MemberId, u32>,
    /// When a stranger was last answered with an announcement.
    answered: Option<Time>,
    /// When a process with this member's name was last answered.
    namesake_answered: Option<Time>,
    pub(super) leaving: Option<Leaving>,
}

/// A time in which something is not done, longer each time that it is needed again soon.
#[derive(Debug)]
struct Delay {
    until: Time,
    length: Duration,
}

impl Delay {
    /// The next one, at `now`, after `before`.
    fn next(now: Time, before: Option<&Self>, min: Duration, max: Duration) -> Self {
        let before = before.filter(|before| now.since(before.until) < before.length * 8);
        let length = before.map_or(min, |before| (before.length * 2).min(max));
        Self {
            until: now + length,
            length,
        }
    }
}

/// A graceful leave that is under way.
#[derive(Debug)]
pub(super) struct Leaving {
    /// The time for it has passed: what was accepted is delivered in a ring of one, and the others
    /// are ignored.
    alone: bool,
    /// Good-byes sent; from the first on, this member is gone for the others.
    pub(super) goodbyes: u32,
}

/// How long a member counts as heard. Short, so that a member that hears nothing any more is not
/// taken for one that does.
const HEARD_FOR: Duration = Duration::from_millis(300);
/// Another member's word raises the counter of this member's next ring by no more. No group forms
/// so many rings; and so many times as many are below what others refuse.
const COUNTER_JUMP_MAX: u64 = 1 << 32;
/// A member that a called token did not reach is served by rotation for this long at first.
const UNCALLED_MIN: Duration = Duration::from_secs(60);
/// The longest that it is, however often that happens.
const UNCALLED_MAX: Duration = Duration::from_secs(3_600);
/// Strangers, and processes with this member's name, are answered at most this often.
const ANSWER_INTERVAL: Duration = Duration::from_millis(10);
/// Good-byes of a leaving member: one may be lost, three hardly.
const GOODBYES: u32 = 3;
/// Time between them.
const GOODBYE_INTERVAL: Duration = Duration::from_millis(5);
/// A member that did not acknowledge a forming ring's token this many times in a row is left out.
const UNACKNOWLEDGED_MAX: u32 = 2;

impl Peers {
    /// The most entries of each table.
    pub(super) const MAX: usize = 512;

    /// A ring with this counter exists somewhere, as another member says.
    pub(super) fn note_counter(&mut self, counter: u64) {
        self.counter = self.counter.max(counter);
    }

    /// The ring with this counter was installed: higher ones that were heard of before came to
    /// nothing.
    pub(super) fn note_installed(&mut self, counter: u64) {
        self.counter = counter;
    }

    /// The counter of the next ring that this member forms: higher than any that was seen, and than
    /// any that it gave before, which makes rings distinct. Another member's word raises it by no
    /// more than [`COUNTER_JUMP_MAX`] a ring, so that it never reaches what others refuse. The
    /// second result says whether it would have been raised further.
    pub(super) fn next_counter(&mut self) -> (u64, bool) {
        let most = self.formed + COUNTER_JUMP_MAX;
        let capped = self.counter > most;
        self.formed = self.counter.clamp(self.formed, most) + 1;
        self.counter = self.formed;
        (self.formed, capped)
    }

    /// Notes a join's attempt: `None` if it is stale, else whether it is a new one. Where too many
    /// members have sent joins, the one that has been silent for longest is forgotten, but none
    /// that `keeps` says to keep.
    pub(super) fn note_attempt(
        &mut self,
        now: Time,
        from: MemberId,
        attempt: Attempt,
        keeps: impl Fn(MemberId) -> bool,
    ) -> Option<bool> {
        if self.attempts.len() >= Self::MAX && !self.attempts.contains_key(&from) {
            let strangers = self.attempts.iter().filter(|(member, _)| !keeps(**member));
            let silent = strangers.min_by_key(|(_, (_, at))| *at);
            let silent = silent.map(|(member, _)| *member)?;
            self.attempts.remove(&silent);
        }
        let first = (Attempt::default(), now);
        let (seen, at) = self.attempts.entry(from).or_insert(first);
        if attempt < *seen {
            return None;
        }
        let fresh = attempt > *seen;
        (*seen, *at) = (attempt, now);
        Some(fresh)
    }

    /// A join or an announcement was heard.
    pub(super) fn note_heard(&mut self, now: Time, from: MemberId) {
        if self.heard.len() >= Self::MAX {
            self.heard.retain(|_, at| now.since(*at) < HEARD_FOR);
        }
        if self.heard.len() < Self::MAX {
            self.heard.insert(from, now);
        }
    }

    /// The members that were heard lately: evidence for them that the way to us works.
    pub(super) fn heard(&self, now: Time) -> Vec<MemberId> {
        let recent = self
            .heard
            .iter()
            .filter(|(_, at)| now.since(**at) < HEARD_FOR);
        recent.map(|(member, _)| *member).take(64).collect()
    }

    /// `member` was excluded: it is not let in for a while, for longer if that happens again soon.
    pub(super) fn quarantine(&mut self, now: Time, member: MemberId, config: &RingConfig) {
        if self.is_quarantined(now, member) {
            return;
        }
        if self.quarantine.len() >= Self::MAX {
            self.quarantine.retain(|_, delay| now < delay.until);
            if self.quarantine.len() >= Self::MAX {
                return;
            }
        }
        let (min, max) = (config.quarantine_min, config.quarantine_max);
        let delay = Delay::next(now, self.quarantine.get(&member), min, max);
        self.quarantine.insert(member, delay);
        self.heard.remove(&member);
    }

    pub(super) fn is_quarantined(&self, now: Time, member: MemberId) -> bool {
        self.quarantine
            .get(&member)
            .is_some_and(|delay| now < delay.until)
    }

    /// A called token did not reach `member`, and the ring broke of it.
    pub(super) fn note_unanswered_call(&mut self, now: Time, member: MemberId) {
        if self.uncalled.len() >= Self::MAX {
            self.uncalled.retain(|_, delay| now < delay.until);
        }
        let before = self.uncalled.get(&member);
        if self.uncalled.len() < Self::MAX || before.is_some() {
            let delay = Delay::next(now, before, UNCALLED_MIN, UNCALLED_MAX);
            self.uncalled.insert(member, delay);
        }
    }

    /// Whether the token may be sent straight to `member` when it calls.
    pub(super) fn may_call(&self, now: Time, member: MemberId) -> bool {
        let delay = self.uncalled.get(&member);
        delay.is_none_or(|delay| now >= delay.until)
    }

    /// `member` did not acknowledge a forming ring's token: whether it did so too often.
    pub(super) fn note_unacknowledged(&mut self, member: MemberId) -> bool {
        if self.unacknowledged.len() >= Self::MAX {
            self.unacknowledged.clear();
        }
        let unacknowledged = self.unacknowledged.entry(member).or_insert(0);
        *unacknowledged += 1;
        *unacknowledged >= UNACKNOWLEDGED_MAX
    }

    /// A ring was installed.
    pub(super) fn forget_unacknowledged(&mut self) {
        self.unacknowledged.clear();
    }

    fn may_answer(&mut self, now: Time) -> bool {
        let may = self
            .answered
            .is_none_or(|at| now.since(at) >= ANSWER_INTERVAL);
        if may {
            self.answered = Some(now);
        }
        may
    }
}

impl Ring {
    /// Sets the next turn of this member to announce the ring.
    pub(super) fn plan_announcement(&mut self, now: Time) {
        let members = self.state.expect_operational().ordering.members.len();
        let turn = self.config.announce_interval * members as u32;
        let delay = self.rng.duration(turn * 3 / 4, turn * 5 / 4);
        self.timers.set(Timer::Announce, now + delay);
    }

    pub(super) fn announce_by_turn(&mut self, now: Time) {
        self.announce(now);
        self.plan_announcement(now);
    }

    fn announce(&mut self, now: Time) {
        let heard = self.peers.heard(now);
        let ring = &self.state.expect_operational().ordering;
        let announcement = Announcement {
            ring: ring.id,
            members: ring.members.clone(),
            heard,
        };
        self.outbox.multicast(&Message::Announcement(announcement));
    }

    /// Announces the ring to a stranger, which learns from it that it is heard.
    pub(super) fn answer_stranger(&mut self, now: Time) {
        if self.peers.may_answer(now) {
            self.announce(now);
        }
    }

    pub(super) fn handle_announcement(
        &mut self,
        now: Time,
        from: MemberId,
        announcement: Announcement,
    ) {
        self.peers.note_counter(announcement.ring.counter);
        if self.peers.is_quarantined(now, from) {
            return;
        }
        self.peers.note_heard(now, from);
        match &self.state {
            State::Operational(Operational { ordering: ring, .. }) => {
                if ring.members.iter().any(|member| member.node == from.node) {
                    return;
                }
                let hears_us = announcement
                    .heard
                    .iter()
                    .any(|member| ring.members.contains(member));
                if hears_us {
                    let mut gather = Gather::default();
                    gather.proc.insert(from);
                    gather.proc.extend(announcement.members);
                    self.gather(now, "another ring", gather);
                } else {
                    self.answer_stranger(now);
                }
            }
            State::Gather(gather) if !gather.proc.contains(&from) => {
                let hears_us = announcement
                    .heard
                    .iter()
                    .any(|member| gather.proc.contains(member));
                if hears_us {
                    self.gather_strangers(now, from, &announcement.members);
                } else {
                    self.join_soon(now);
                }
            }
            _ => {}
        }
    }

    /// A datagram of another process with this member's name.
    pub(super) fn handle_namesake(&mut self, now: Time, from: MemberId, message: &Message) {
        let uptime_ms = u64::try_from(now.since(self.started).as_millis()).unwrap_or(u64::MAX);
        if let Message::NameInUse { uptime_ms: theirs } = message {
            if (*theirs, self.local.incarnation) > (uptime_ms, from.incarnation) {
                self.events.push_back(Event::NameInUse { holder: from });
                self.timers.cancel_all();
                self.transition("name in use", |before| State::Left(before.into_installed()));
                self.queue.close();
            }
            return;
        }
        if self
            .peers
            .namesake_answered
            .is_none_or(|at| now.since(at) >= ANSWER_INTERVAL)
        {
            self.peers.namesake_answered = Some(now);
            self.outbox
                .unicast(from, Message::NameInUse { uptime_ms }.encode());
        }
    }

    pub(super) fn begin_leave(&mut self, now: Time) {
        if self.peers.leaving.is_some() || matches!(self.state, State::Left(_)) {
            return;
        }
        self.queue.close();
        self.peers.leaving = Some(Leaving {
            alone: false,
            goodbyes: 0,
        });
        self.timers
            .set(Timer::Leave, now + self.config.leave_timeout);
        self.wake_token(now);
        self.leave_when_done(now);
    }

    /// Says good-bye once all that this member sent is held by all and delivered here.
    pub(super) fn leave_when_done(&mut self, now: Time) {
        let (Some(leaving), State::Operational(operational)) = (&self.peers.leaving, &self.state)
        else {
            return;
        };
        let ring = &operational.ordering;
        let done = self.queue.is_empty()
            && ring.safe >= ring.own_high
            && ring.cursor.delivered() >= ring.own_high;
        if done && leaving.goodbyes == 0 {
            self.say_goodbye(now);
        }
    }

    pub(super) fn leave_timeout(&mut self, now: Time) {
        let Some(leaving) = &self.peers.leaving else {
            return;
        };
        if leaving.goodbyes >= GOODBYES {
            self.events.push_back(Event::Left);
            self.timers.cancel_all();
            self.transition("leave", |before| State::Left(before.into_installed()));
        } else if leaving.goodbyes > 0 {
            self.say_goodbye(now);
        } else if !leaving.alone {
            self.finish_alone(now);
        }
    }

    /// The others cannot finish the leave with this member: it does so without them.
    fn finish_alone(&mut self, now: Time) {
        if let Some(leaving) = &mut self.peers.leaving {
            leaving.alone = true;
        }
        let mut gather = Gather::default();
        gather.fail.extend(self.candidates());
        self.gather(now, "leave alone", gather);
    }

    /// Whether this member no longer listens, because it is leaving.
    pub(super) fn ignores_others(&self) -> bool {
        let leaving = self.peers.leaving.as_ref();
        leaving.is_some_and(|leaving| leaving.alone || leaving.goodbyes > 0)
    }

    fn say_goodbye(&mut self, now: Time) {
        let Some(leaving) = &mut self.peers.leaving else {
            return;
        };
        if leaving.goodbyes == 0 {
            self.peers.attempt = self.peers.attempt.next();
        }
        leaving.goodbyes += 1;
        let (attempt, counter) = (self.peers.attempt, self.peers.counter);
        let none = Vec::new;
        let join = Join {
            attempt,
            counter,
            leaving: true,
            proc: none(),
            fail: none(),
            left: none(),
            heard: none(),
        };
        self.outbox.multicast(&Message::Join(join));
        self.timers.cancel_all();
        self.timers.set(Timer::Leave, now + GOODBYE_INTERVAL);
    }

    /// `from` says good-bye.
    pub(super) fn handle_goodbye(&mut self, now: Time, from: MemberId) {
        let of_ring = match &self.state {
            State::Operational(operational) => operational.ordering.members.contains(&from),
            State::Commit(commit) => commit.has(from),
            State::Recovery(recovery) => recovery.ordering.members.contains(&from),
            State::Gather(_) => {
                self.gather_goodbye(now, from);
                false
            }
            State::Left(_) => false,
        };
        if of_ring {
            let mut gather = Gather::default();
            gather.fail.insert(from);
            gather.left.insert(from);
            self.gather(now, "member left", gather);
        }
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    #[test]
    fn many_lives_of_others_do_not_make_a_member_of_the_ring_forgotten() {
        let mut peers = Peers::default();
        let in_ring = |member: MemberId| member.node.0 < 3;
        for node in 0..2_000 {
            let now = Time::from_millis(node);
            peers.note_attempt(now, member(node), Attempt(7), in_ring);
        }
        assert_eq!(peers.attempts.len(), Peers::MAX);
        let now = Time::from_millis(3_000);
        for node in 0..3 {
            let seen = peers.note_attempt(now, member(node), Attempt(6), in_ring);
            assert_eq!(seen, None, "a stale join of {node}");
        }
        assert!(peers.attempts.contains_key(&member(1_999)));
        assert!(!peers.attempts.contains_key(&member(3)));
    }

    #[test]
    fn a_counter_out_of_all_proportion_moves_ours_by_a_bounded_jump() {
        let mut peers = Peers::default();
        peers.note_counter(41);
        assert_eq!(peers.next_counter(), (42, false));
        peers.note_counter(u64::MAX);
        let jumped = 42 + COUNTER_JUMP_MAX + 1;
        assert_eq!(peers.next_counter(), (jumped, true));
        peers.note_installed(jumped);
        assert_eq!(peers.next_counter(), (jumped + 1, false));
    }
}
