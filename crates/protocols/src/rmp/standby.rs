//! Standby: this member has answered another's poll and waits for its proposal; or two polls have
//! met, and it waits before it polls again.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use groupcast_core::mech::peers::{Attempt, Peers};
use groupcast_core::mech::seq::Seq;
use groupcast_core::{MemberId, Time};

use super::hearsay::ProposalTold;
use super::order::Order;
use super::recovering::Recovering;
use super::wire::{Answer, Inventory, Message, Poll, Proposal};
use super::{Rmp, State, Timer};

/// Waiting for a poller.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct Standby {
    /// The order that was, frozen.
    pub(super) old: Option<Order>,
    /// The poller whose poll was answered, and which poll; `None` if none was.
    following: Option<(MemberId, Attempt)>,
    /// When that poll was last heard; `None` if its poller follows another by now.
    heard: Option<Time>,
    /// The members that should be in the next configuration, as far as is known here.
    pub(super) wanted: BTreeSet<MemberId>,
    /// The members that are given up.
    pub(super) failed: BTreeSet<MemberId>,
    /// The members that said good-bye.
    pub(super) left: BTreeSet<MemberId>,
    /// Those that this member was together with, as far as they are heard to be in a later
    /// configuration without it.
    pub(super) parted: BTreeSet<MemberId>,
    /// How many times in a row a member went along with another proposal than this member's.
    pub(super) turned_away: BTreeMap<MemberId, u32>,
    /// What others answered to the same poll.
    answers: BTreeMap<MemberId, Answer>,
    /// What others told of the proposal that follows from it.
    told: ProposalTold,
}

/// The polls that this member has answered: the last of each poller.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct Answered {
    /// Answered with what this member holds now.
    polls: BTreeMap<MemberId, Attempt>,
    /// Answered before it recovered. Others may still rely on what it declared then; it holds more
    /// now, and has promised more.
    spent: BTreeMap<MemberId, Attempt>,
    /// Those of either kind before the present configuration was installed.
    past: BTreeMap<MemberId, Attempt>,
}

impl Answered {
    fn note(&mut self, poller: MemberId, attempt: Attempt) {
        insert(&mut self.polls, poller, attempt);
    }

    /// Whether this member has declared what it holds now in answer to this poll.
    fn has(&self, poller: MemberId, attempt: Attempt) -> bool {
        self.polls.get(&poller) == Some(&attempt)
    }

    /// Whether it answers this poll no more.
    pub(super) fn is_spent(&self, poller: MemberId, attempt: Attempt) -> bool {
        let mut over = [&self.spent, &self.past].into_iter();
        over.any(|polls| polls.get(&poller) == Some(&attempt))
    }

    /// It recovers: what it holds changes.
    pub(super) fn spend(&mut self) {
        for (poller, attempt) in core::mem::take(&mut self.polls) {
            insert(&mut self.spent, poller, attempt);
        }
    }

    /// This member works in a configuration. A poll of before may still be open.
    pub(super) fn installed(&mut self) {
        self.spend();
        self.past = core::mem::take(&mut self.spent);
    }
}

fn insert(polls: &mut BTreeMap<MemberId, Attempt>, poller: MemberId, attempt: Attempt) {
    if polls.len() < Peers::MAX || polls.contains_key(&poller) {
        polls.insert(poller, attempt);
    }
}

/// A poll that is not heard again for this many of its intervals is over.
pub(super) const POLLS_MISSED: u32 = 3;

impl Standby {
    pub(super) fn follows(&self, poller: MemberId) -> bool {
        self.following.is_some_and(|(member, _)| member == poller)
    }

    /// Another member polls: it, and those whom it wants, should be in the next configuration.
    fn note_wanted(&mut self, from: MemberId, poll: &Poll) {
        let room = Peers::MAX.saturating_sub(self.wanted.len());
        let members = core::iter::once(&from).chain(&poll.wanted);
        self.wanted.extend(members.take(room));
    }

    /// Whether a poll of `from` may take this member away from the one that it follows: a lower
    /// member may, so that all choose alike where two polls have met; anyone may if the poll that
    /// is followed was not heard for `missed`, or its poller follows another.
    fn may_follow(&self, now: Time, from: MemberId, missed: Duration) -> bool {
        let Some((poller, _)) = self.following else {
            return true;
        };
        let goes_on = self.heard.is_some_and(|at| now.since(at) < missed);
        from <= poller || !goes_on
    }

    /// The poll of `poller` that is followed.
    pub(super) fn attempt_of(&self, poller: MemberId) -> Option<Attempt> {
        let (followed, attempt) = self.following?;
        (followed == poller).then_some(attempt)
    }

    /// Whether `member` was in the configuration that was.
    pub(super) fn was_with(&self, member: MemberId) -> bool {
        let old = self.old.as_ref();
        old.is_some_and(|old| old.members.contains(&member))
    }

    /// Another member answered a poll.
    pub(super) fn note_answer(&mut self, from: MemberId, answer: Answer) {
        if self.follows(from) && answer.poller != from {
            self.heard = None;
        }
        if self.following == Some((answer.poller, answer.attempt))
            && self.answers.len() < Peers::MAX
        {
            self.answers.insert(from, answer);
        }
    }

    /// `teller` has told this proposal: whether it counts. Those that were heard to answer the same
    /// poll could tell it.
    pub(super) fn note_told(&mut self, teller: MemberId, proposal: &Proposal) -> bool {
        let proposer = proposal.config.representative;
        let others = self.answers.keys().filter(|it| **it != proposer).count();
        let heard = teller != proposer && self.answers.contains_key(&teller);
        heard && self.told.note(teller, proposal, others)
    }

    /// What `member` answered to the poll that is followed, if it is this one.
    pub(super) fn answer_of(
        &self,
        member: MemberId,
        poller: MemberId,
        attempt: Attempt,
    ) -> Option<&Answer> {
        let follows = self.following == Some((poller, attempt));
        self.answers.get(&member).filter(|_| follows)
    }
}

impl Rmp {
    /// Stops whatever was under way and answers the poll of `from`.
    pub(super) fn stand_by(&mut self, now: Time, cause: &'static str, from: MemberId, poll: &Poll) {
        let wait = self.config.poll_wait;
        self.wait(now, cause, wait, Some((from, poll)));
        self.follow(now, from, poll);
    }

    /// Answers a poll, again if it is the one that is followed.
    pub(super) fn follow(&mut self, now: Time, from: MemberId, poll: &Poll) {
        let missed = self.config.poll_interval * POLLS_MISSED / 2;
        let State::Standby(standby) = &mut self.state else {
            return;
        };
        let poll_of = Some((from, poll.attempt));
        if standby.following != poll_of {
            if !standby.may_follow(now, from, missed) {
                self.counters.polls_stale += 1;
                return;
            }
            standby.following = poll_of;
            standby.answers.clear();
            standby.note_wanted(from, poll);
        }
        self.answered.note(from, poll.attempt);
        self.pollers.follow(now, from, &self.config);
        if self.pollers.may_answer(now, from, &self.config) {
            let answer = self.answer(from, poll.attempt);
            self.outbox.multicast(&Message::Answer(answer));
        }
        self.go_on_following(now);
    }

    /// The poll that is followed goes on. If it does not, it was aborted, or its poller is gone.
    /// Others notice that at the same time: at random, so that one of them is first.
    pub(super) fn go_on_following(&mut self, now: Time) {
        let State::Standby(standby) = &mut self.state else {
            return;
        };
        // Others may say on and on that it does.
        if let Some((poller, _)) = standby.following
            && self.pollers.refuses(now, poller, &self.config)
        {
            return;
        }
        standby.heard = Some(now);
        let repeated = self.config.poll_interval * POLLS_MISSED;
        let delay = self
            .rng
            .duration(repeated, repeated + self.config.abort_delay_max);
        self.timers.set(Timer::Deadline, now + delay);
    }

    /// Sends an answer again that somebody needs.
    pub(super) fn handle_ask(&mut self, now: Time, from: MemberId, poller: MemberId, attempt: u64) {
        let attempt = Attempt(attempt);
        let asked = match &self.state {
            State::Standby(_) => self.answered.has(poller, attempt),
            State::Recovering(recovering) => recovering.is_of(poller, attempt),
            State::Polling(_) | State::Joining(_) | State::Operational(_) | State::Left(_) => false,
        };
        if !asked || !self.may_tell(now, from) {
            return;
        }
        let answer = match &self.state {
            // What was declared, not what recovery has brought since.
            State::Recovering(recovering) => {
                let Some(inventory) = recovering.declared(self.local).cloned() else {
                    return;
                };
                Answer {
                    inventory,
                    ..self.answer(poller, attempt)
                }
            }
            _ => self.answer(poller, attempt),
        };
        self.outbox.unicast(from, &Message::Answer(answer));
    }

    pub(super) fn handle_proposal(&mut self, now: Time, from: MemberId, proposal: Proposal) {
        if let State::Recovering(recovering) = &self.state {
            if recovering.id() == proposal.config {
                self.accept_again();
            }
            return;
        }
        let State::Standby(standby) = &mut self.state else {
            return;
        };
        let local = self.local;
        let mine = proposal.members.iter().find(|(member, _)| *member == local);
        let own = standby.old.as_ref().map(|old| old.id);
        let from_here = mine.is_some_and(|(_, config)| match own {
            // Or the one behind a list that another has passed.
            Some(own) => *config == own || config.counter > own.counter,
            None => config.counter == 0 && config.representative == local,
        });
        // This member said in its answer what its way carries.
        let own_size = proposal.size_of(local).map(usize::from);
        let room = proposal.members.len() <= self.config.members_max
            && own_size == Some(self.config.body_max);
        let mut high = standby.old.as_ref().map_or(Seq::ZERO, Order::high);
        self.config.plants().positions_start(&mut high);
        let may_start = self.claims.may_start(proposal.start, high);
        if !self.answered.has(from, proposal.attempt)
            || proposal.config.representative != from
            || !from_here
            || !room
            || !may_start
        {
            self.counters.malformed += 1;
            return;
        }
        self.peers.note_counter(proposal.config.counter);
        let followed = standby.following == Some((from, proposal.attempt));
        let answers = match followed {
            true => core::mem::take(&mut standby.answers),
            // What the others answered to that poll is asked for.
            false => BTreeMap::new(),
        };
        let answers = answers.into_iter();
        let mut inventories: BTreeMap<MemberId, Inventory> =
            answers.map(|(member, it)| (member, it.inventory)).collect();
        inventories.insert(local, self.answer(from, proposal.attempt).inventory);
        self.timers.cancel_all_but(Timer::KEPT);
        self.transition("proposal", |before| {
            State::Recovering(Recovering::new(proposal, local, inventories, before).into())
        });
        self.begin_recovery(now);
    }

    /// Leaves this state, or another, for Standby: `delay` from now this member polls, unless it
    /// follows another by then.
    pub(super) fn wait(
        &mut self,
        now: Time,
        cause: &'static str,
        delay: Duration,
        other: Option<(MemberId, &Poll)>,
    ) {
        let mut standby = Standby::default();
        match &mut self.state {
            State::Polling(polling) => {
                standby.wanted.append(&mut polling.wanted);
                standby.failed.append(&mut polling.failed);
                standby.left.append(&mut polling.left);
                standby.parted.append(&mut polling.parted);
            }
            State::Standby(before) => {
                standby.turned_away.append(&mut before.turned_away);
                standby.wanted.append(&mut before.wanted);
                standby.failed.append(&mut before.failed);
                standby.left.append(&mut before.left);
                standby.parted.append(&mut before.parted);
            }
            State::Recovering(recovering) => {
                standby.wanted.extend(recovering.members());
                standby.left.append(&mut recovering.gone);
                standby.turned_away.append(&mut recovering.turned_away);
            }
            State::Joining(joining) => standby.wanted.append(&mut joining.members),
            State::Operational(operational) => standby.left.append(&mut operational.left),
            State::Left(_) => return,
        }
        if let Some((from, poll)) = other {
            standby.note_wanted(from, poll);
            let room = Peers::MAX.saturating_sub(standby.left.len());
            standby.left.extend(poll.left.iter().take(room));
            standby.failed.remove(&from);
        }
        self.absences.begin(now);
        self.timers.cancel_all_but(Timer::KEPT);
        self.timers.set(Timer::Deadline, now + delay);
        self.transition(cause, |before| {
            let old = before.into_installed();
            State::Standby(Standby { old, ..standby })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rmp::fixtures::member;

    #[test]
    fn polls_that_were_answered_are_remembered_of_as_many_members_as_there_may_be() {
        let mut answered = Answered::default();
        let most = Peers::MAX as u64;
        for poller in 0..most + 1 {
            answered.note(member(poller), Attempt(1));
        }
        assert!(answered.has(member(most - 1), Attempt(1)));
        assert!(!answered.has(member(most), Attempt(1)));
        answered.note(member(0), Attempt(2));
        assert!(
            answered.has(member(0), Attempt(2)),
            "a newer one of the same"
        );
        answered.spend();
        assert!(answered.is_spent(member(0), Attempt(2)));
        assert!(!answered.has(member(0), Attempt(2)));
    }
}
