//! Polling: this member asks which members are there, and proposes the next configuration to those
//! that answer (000 ch. 8).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use groupcast_core::mech::claims::too_high;
use groupcast_core::mech::closing::Holding;
use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::peers::{Attempt, Peers, Stranger};
use groupcast_core::mech::seq::Seq;
use groupcast_core::{ConfigId, MemberId, Time};

use super::catching_up::comes_from;
use super::claims::max_n_after;
use super::hearsay::Hearsay;
use super::order::Order;
use super::recovering::{Recovering, TURNED_AWAY_MAX};
use super::wire::{Answer, Inventory, Message, Poll, Proposal};
use super::{Rmp, State, Timer};

/// A poll under way.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct Polling {
    /// The order that was, frozen.
    pub(super) old: Option<Order>,
    /// The members that should be in the next configuration, this one included.
    pub(super) wanted: BTreeSet<MemberId>,
    /// The members that are given up.
    pub(super) failed: BTreeSet<MemberId>,
    /// Those among them that said good-bye.
    pub(super) left: BTreeSet<MemberId>,
    /// Those that this member was together with, as far as they are heard to be in a later
    /// configuration without it.
    pub(super) parted: BTreeSet<MemberId>,
    /// How many times in a row a member did not accept a proposal.
    pub(super) unaccepted: BTreeMap<MemberId, u32>,
    /// How many times in a row a member went along with another proposal than this member's.
    pub(super) turned_away: BTreeMap<MemberId, u32>,
    /// The answers to this poll, this member's own included.
    pub(super) answers: BTreeMap<MemberId, Answer>,
    /// How many times this poll was sent.
    pub(super) repeats: u32,
    /// What others told of members that have not answered.
    pub(super) hearsay: Hearsay,
    /// The members that answered another's poll instead, or accepted another's proposal, and when
    /// they were last heard to.
    pub(super) busy: BTreeMap<MemberId, Time>,
    /// Until when those are waited for at most.
    pub(super) patience: Time,
}

impl Rmp {
    /// Begins to poll: for those of `seed`, and for whomever this member was together with, or
    /// about to be. Those given up stay given up while reformation goes on.
    pub(super) fn poll(&mut self, now: Time, cause: &'static str, seed: Polling) {
        let mut next = seed;
        if let Some(old) = self.state.installed() {
            next.wanted.extend(&old.members);
            if let Some(change) = &old.lists.change {
                next.wanted.extend(change.list.list.members());
            }
        }
        match &mut self.state {
            State::Polling(polling) => {
                next.wanted.append(&mut polling.wanted);
                next.failed.append(&mut polling.failed);
                next.left.append(&mut polling.left);
                next.parted.append(&mut polling.parted);
                next.unaccepted.append(&mut polling.unaccepted);
                next.turned_away.append(&mut polling.turned_away);
            }
            State::Standby(standby) => {
                next.turned_away.append(&mut standby.turned_away);
                next.wanted.append(&mut standby.wanted);
                next.failed.append(&mut standby.failed);
                next.left.append(&mut standby.left);
                next.parted.append(&mut standby.parted);
            }
            State::Recovering(recovering) => {
                next.wanted.extend(recovering.members());
                next.left.append(&mut recovering.gone);
                next.unaccepted.append(&mut recovering.unaccepted);
                next.turned_away.append(&mut recovering.turned_away);
            }
            State::Joining(joining) => next.wanted.append(&mut joining.members),
            State::Operational(operational) => next.left.append(&mut operational.left),
            State::Left(_) => return,
        }
        let turns_away = next.turned_away.iter();
        let turns_away = turns_away.filter(|(_, times)| **times >= TURNED_AWAY_MAX);
        next.failed.extend(turns_away.map(|(member, _)| *member));
        next.failed.extend(&next.left);
        next.failed.remove(&self.local);
        let Polling { wanted, failed, .. } = &mut next;
        wanted.retain(|member| !failed.contains(member));
        wanted.insert(self.local);
        self.leave_room(wanted);
        self.absences.begin(now);
        self.timers.cancel_all_but(Timer::KEPT);
        self.pollers.rest(now);
        self.peers.attempt = self.peers.attempt.next();
        self.transition(cause, |before| {
            let old = before.into_installed();
            State::Polling(Polling { old, ..next })
        });
        let own = self.answer(self.local, self.peers.attempt);
        let local = self.local;
        let polling = self.state.expect_polling();
        polling.answers.insert(local, own);
        polling.repeats = 0;
        polling.hearsay = Hearsay::default();
        polling.busy.clear();
        polling.patience = now + self.config.poll_wait + self.config.recover_wait;
        let alone = polling.wanted.len() == 1;
        let wait = if alone {
            self.config.alone_after
        } else {
            self.config.poll_wait
        };
        self.timers.set(Timer::Deadline, now + wait);
        self.repeat_poll(now);
    }

    /// Leaves of `wanted` as many as may be in one configuration. Others may have named whom they
    /// like: first those go with whom this member was not together.
    fn leave_room(&self, wanted: &mut BTreeSet<MemberId>) {
        let room = self.config.members_max.min(Peers::MAX);
        let old = self.state.installed();
        let together =
            |it: &MemberId| *it == self.local || old.is_some_and(|old| old.index_of(*it).is_some());
        while wanted.len() > room {
            let stranger = wanted.iter().rfind(|it| !together(it)).copied();
            match stranger {
                Some(stranger) => wanted.remove(&stranger),
                None => wanted.pop_last().is_some(),
            };
        }
    }

    /// What this member holds, in answer to `poller`.
    pub(super) fn answer(&self, poller: MemberId, attempt: Attempt) -> Answer {
        let inventory = match self.state.installed() {
            Some(order) => order.inventory(),
            None => Inventory {
                holding: Holding {
                    config: ConfigId {
                        counter: 0,
                        representative: self.local,
                    },
                    aru: Seq::ZERO,
                    high: Seq::ZERO,
                    safe: Seq::ZERO,
                    obligations: Indices::default(),
                },
                max_n: 0,
                members: Vec::new(),
                passed: None,
                size: None,
                held: Vec::new(),
            },
        };
        Answer {
            poller,
            attempt,
            counter: self.peers.counter(),
            body_max: self.config.body_max as u16,
            inventory,
        }
    }

    pub(super) fn repeat_poll(&mut self, now: Time) {
        let heard = self.peers.heard(now);
        let (attempt, counter) = (self.peers.attempt, self.peers.counter());
        let polling = self.state.expect_polling();
        polling.repeats += 1;
        let poll = Poll {
            attempt,
            counter,
            wanted: polling.wanted.iter().copied().collect(),
            failed: polling.failed.iter().copied().collect(),
            left: polling.left.iter().copied().collect(),
            heard,
        };
        self.outbox.multicast(&Message::Poll(poll));
        self.ask_others();
        self.plan_repeat(now);
    }

    pub(super) fn handle_poll(&mut self, now: Time, from: MemberId, poll: Poll) {
        let knows = |member| self.state.knows(member);
        let Some(fresh) = self.peers.note_attempt(now, from, poll.attempt, knows) else {
            self.counters.polls_stale += 1;
            return;
        };
        self.peers.note_counter(poll.counter);
        if poll.wanted.len() > 2 && poll.wanted.contains(&self.local) {
            self.note_invitation(now, from);
        }
        if !self.peers.is_quarantined(now, from) {
            self.peers.note_heard(now, from);
        }
        if poll.failed.contains(&self.local) {
            self.given_up(now, from);
            return;
        }
        if !self.heeds_poll(now, from, &poll) {
            self.counters.polls_stale += 1;
            return;
        }
        match &self.state {
            State::Operational(_) => self.polled_at_work(now, from, fresh, &poll),
            State::Polling(_) if self.is_trusted(now, from, &poll) => {
                self.polled_by_another(now, from, fresh, &poll);
            }
            State::Standby(standby) => {
                let following = standby.follows(from);
                if following || self.is_trusted(now, from, &poll) {
                    self.follow(now, from, &poll);
                }
            }
            State::Recovering(recovering) if fresh && recovering.has(from) => {
                let proposes = recovering.is_proposer(self.local);
                if self.ends_stranded(now) {
                    self.counters.polls_stale += 1;
                } else if proposes {
                    self.abort(now, from, &poll);
                } else {
                    self.stand_by(now, "newer poll", from, &poll);
                }
            }
            State::Joining(_) if fresh && self.state.knows(from) => {
                self.stand_by(now, "the group polls", from, &poll);
            }
            State::Polling(_) | State::Recovering(_) | State::Joining(_) | State::Left(_) => {
                self.counters.polls_stale += 1;
            }
        }
    }

    /// Whether anything is done about a poll of `from`. Not if the poller was away too often, or
    /// polls on and on: the others go on without it.
    fn heeds_poll(&mut self, now: Time, from: MemberId, poll: &Poll) -> bool {
        if self.polls_late(now, from, &poll.heard) {
            self.leave_out(now, from);
            return false;
        }
        // What this member declared stays declared. It follows this poll already, or follows it no
        // more.
        if self.answered.is_spent(from, poll.attempt) {
            return false;
        }
        let refuses = self.pollers.refuses(now, from, &self.config);
        if refuses {
            self.refuse_poller(now, from);
        }
        !refuses
    }

    /// `from` polls while this member is in a configuration, perhaps with it.
    fn polled_at_work(&mut self, now: Time, from: MemberId, fresh: bool, poll: &Poll) {
        let State::Operational(operational) = &self.state else {
            return;
        };
        let members = &operational.order.members;
        if members.contains(&from) {
            if fresh {
                self.stand_by(now, "another polls", from, poll);
            } else {
                self.counters.polls_stale += 1;
            }
            return;
        }
        let evidence = poll.heard.iter().any(|it| members.contains(it));
        match self.peers.stranger(now, from, evidence, members) {
            Stranger::LetIn if !self.has_room(poll.wanted.iter().copied()) => {
                self.refuse(now, from);
            }
            // It may ask to be let in, when it hears that it is heard.
            Stranger::LetIn if !poll.wanted.iter().any(|it| members.contains(it)) => {
                self.answer_stranger(now);
            }
            Stranger::LetIn => self.stand_by(now, "stranger polls", from, poll),
            Stranger::Answer => self.answer_stranger(now),
            Stranger::Ignore => {}
        }
    }

    /// Two polls meet: the higher member gives way, or the one that the other does not hear.
    fn polled_by_another(&mut self, now: Time, from: MemberId, fresh: bool, poll: &Poll) {
        let State::Polling(polling) = &self.state else {
            return;
        };
        if polling.is_unheard(self.local, from, poll) {
            self.counters.polls_aborted += 1;
            self.stand_by(now, "who does not hear this member polls", from, poll);
        } else if from < self.local {
            self.counters.polls_aborted += 1;
            self.stand_by(now, "a lower member polls", from, poll);
        } else if fresh && self.pollers.may_answer(now, from, &self.config) {
            // It gives way when it hears this one.
            self.repeat_poll(now);
        }
    }

    /// Whether a poll of `from` concerns this member, which is in no configuration now: it was with
    /// it, or there is evidence that it hears one of us, and room for it.
    fn is_trusted(&self, now: Time, from: MemberId, poll: &Poll) -> bool {
        let known = self.state.knows(from);
        let evidence = || {
            let mut heard = poll.heard.iter();
            heard.any(|member| *member == self.local || self.state.knows(*member))
        };
        let room = || self.has_room(poll.wanted.iter().copied());
        known || !self.peers.is_quarantined(now, from) && evidence() && room()
    }

    /// `from` polls on and on: the others go on without it.
    fn refuse_poller(&mut self, now: Time, from: MemberId) {
        let goes_on = match &mut self.state {
            State::Polling(polling) => {
                polling.answers.remove(&from);
                return self.given_up(now, from);
            }
            State::Operational(operational) => !operational.order.members.contains(&from),
            State::Standby(standby) => !standby.follows(from),
            State::Recovering(_) | State::Joining(_) | State::Left(_) => true,
        };
        if !goes_on {
            let mut seed = Polling::default();
            seed.failed.insert(from);
            self.poll(now, "a member polls on and on", seed);
        }
    }

    /// Another member has given this one up: so does this one.
    pub(super) fn given_up(&mut self, now: Time, from: MemberId) {
        let State::Polling(polling) = &mut self.state else {
            return;
        };
        if polling.wanted.remove(&from) {
            polling.failed.insert(from);
            self.propose_if_all_answered(now);
        }
    }

    /// A member of the list that this one proposed polls: the proposal ends (000 ch. 8). This
    /// member polls after a random delay, unless the other goes on.
    fn abort(&mut self, now: Time, from: MemberId, poll: &Poll) {
        self.counters.polls_aborted += 1;
        let longest = self.config.abort_delay_max;
        let delay = self.rng.duration(longest / 40, longest);
        self.wait(now, "poll of a proposed member", delay, Some((from, poll)));
    }

    pub(super) fn handle_answer(&mut self, now: Time, from: MemberId, answer: Answer) {
        self.peers.note_counter(answer.counter);
        if !self.peers.is_quarantined(now, from) {
            self.peers.note_heard(now, from);
        }
        let inventory = &answer.inventory;
        self.claims
            .note(from, inventory.max_n, inventory.holding.high);
        if self.answers_late(now, from) {
            self.leave_out(now, from);
        }
        self.heed_answer(now, from, &answer);
        self.take_answer(now, from, answer);
    }

    /// `from` has answered a poll, as it says itself, or another that has heard it.
    pub(super) fn take_answer(&mut self, now: Time, from: MemberId, answer: Answer) {
        let quarantined = self.peers.is_quarantined(now, from);
        match &mut self.state {
            State::Polling(polling) => {
                let mine = answer.poller == self.local && answer.attempt == self.peers.attempt;
                let stranger = !polling.wanted.contains(&from);
                if answer.poller != self.local {
                    polling.note_busy(now, from);
                }
                if !mine || polling.failed.contains(&from) {
                    return;
                }
                if stranger && quarantined && !polling.goes_along(self.local, from, &answer) {
                    return;
                }
                // A new life of a member that does not answer takes its place.
                let namesake = polling.wanted.iter().copied();
                let namesake = namesake
                    .filter(|member| *member != from)
                    .find(|member| member.node == from.node);
                if let Some(old) = namesake {
                    if polling.answers.contains_key(&old) {
                        return;
                    }
                    polling.wanted.remove(&old);
                    polling.failed.insert(old);
                }
                if stranger && polling.wanted.len() >= self.config.members_max {
                    return;
                }
                polling.wanted.insert(from);
                if stranger {
                    self.peers.release(now, from);
                }
                let from_config = polling.config_of(from, &answer.inventory);
                let first = stranger && polling.answers_of(from_config) == 0;
                polling.answers.insert(from, answer);
                if first {
                    self.wait_for_others(now);
                }
                self.propose_if_all_answered(now);
            }
            State::Standby(standby) => standby.note_answer(from, answer),
            State::Recovering(recovering) => {
                if recovering.note_answer(self.local, from, answer) {
                    self.recover(now);
                }
            }
            State::Operational(operational) => {
                // The others go along with one that is in quarantine here: so does this member,
                // when it hears that poll again.
                if operational.order.index_of(from).is_some() {
                    self.peers.release(now, answer.poller);
                }
            }
            State::Joining(_) | State::Left(_) => {}
        }
    }

    /// The time to answer is over: this member goes on with those that have answered.
    pub(super) fn conclude(&mut self, now: Time) {
        let polling = self.state.expect_polling();
        let nobody = polling.answers.keys().all(|member| *member == self.local);
        let done = polling.old.as_ref().is_some_and(Order::is_done_alone);
        if nobody && done && self.leaving.is_none() {
            self.stay_alone(now);
        } else {
            self.propose(now);
        }
    }

    /// The first phase: proposes a configuration of those that have answered.
    pub(super) fn propose(&mut self, now: Time) {
        let (counter, capped) = self.peers.next_counter();
        let config = ConfigId {
            counter,
            representative: self.local,
        };
        let (local, plants) = (self.local, self.config.plants());
        let polling = self.state.expect_polling();
        let mut answers = core::mem::take(&mut polling.answers);
        let highs = answers.iter();
        let highs = highs.map(|(member, it)| (*member, it.inventory.holding.high));
        let refused = too_high(highs, local);
        answers.retain(|member, _| !refused.contains(member));
        let (max_n, false_claims) = max_n_after(&answers, polling.old.as_ref(), &polling.left);
        let unaccepted = core::mem::take(&mut polling.unaccepted);
        let turned_away = core::mem::take(&mut polling.turned_away);
        let highest = answers.values().map(|it| it.inventory.holding.high).max();
        let mut start = highest.unwrap_or_default();
        plants.positions_start(&mut start);
        let proposal = Proposal {
            attempt: self.peers.attempt,
            config,
            start,
            max_n,
            left: polling.left.iter().take(Peers::MAX).copied().collect(),
            members: answers
                .iter()
                .map(|(member, it)| {
                    let all = answers.values().map(|it| &it.inventory);
                    (*member, comes_from(*member, &it.inventory, all))
                })
                .collect(),
            sizes: answers.values().map(|it| it.body_max).collect(),
        };
        let inventories = answers
            .into_iter()
            .map(|(member, it)| (member, it.inventory));
        let inventories = inventories.collect();
        let cause = match capped {
            true => "answers; the counter of another member is too high",
            false => "answers",
        };
        self.counters.malformed += false_claims + refused.len() as u64;
        let lengths = self.config.quarantines();
        for member in refused {
            self.peers.quarantine(now, member, lengths);
        }
        self.timers.cancel_all_but(Timer::KEPT);
        self.transition(cause, |before| {
            let mut recovering = Recovering::new(proposal, local, inventories, before);
            recovering.unaccepted = unaccepted;
            recovering.turned_away = turned_away;
            State::Recovering(recovering.into())
        });
        self.begin_recovery(now);
    }
}
