//! A graceful leave: what was accepted is delivered first, then the others are told.
//!
//! Whether a member has left or crashed decides how many are a majority, so nobody takes another's
//! word for it: of those that were in a ring with this member, those have left whose good-bye it
//! has heard itself. Those of the next ring agree on it by the commit token: who has not heard one
//! strikes it out. A good-bye is said three times, so a member that learns of it from others first
//! waits for a moment before it agrees.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::mech::leave::{Leave, LeaveStep};
use groupcast_core::mech::peers::Peers;
use groupcast_core::{Event, MemberId, Time};

use super::config::RingConfig;
use super::gather::Gather;
use super::numbers::Seq;
use super::wire::{Commit, Join, LEFT_MAX, Message};
use super::{Cause, Ring, State, Timer};

impl RingConfig {
    /// A member that hears of a good-bye from another one has heard it itself after this long,
    /// unless all copies were lost.
    pub(super) fn goodbyes_within(&self) -> Duration {
        self.join_interval.max(Leave::GOODBYE_INTERVAL * 3)
    }
}

impl Ring {
    pub(super) fn begin_leave(&mut self, now: Time) {
        if self.leaving.is_some() {
            return;
        }
        if matches!(self.state, State::Left(_)) {
            // It has given way to another of its name: nothing is left to do.
            self.leaving = Some(Leave::default());
            self.events.push_back(Event::Left);
            return;
        }
        self.queue.close();
        self.leaving = Some(Leave::default());
        self.timers
            .set(Timer::Leave, now + self.config.leave_timeout);
        self.wake_token(now);
        self.leave_when_done(now);
    }

    /// Says good-bye once all that this member sent is held by all and delivered here.
    pub(super) fn leave_when_done(&mut self, now: Time) {
        let (Some(leaving), State::Operational(operational)) = (&self.leaving, &self.state) else {
            return;
        };
        let ring = &operational.ordering;
        let done = self.queue.is_empty()
            && ring.safe >= ring.own_high
            && ring.cursor.delivered() >= ring.own_high;
        if done && !leaving.said_goodbye() {
            self.say_goodbye(now);
        }
    }

    pub(super) fn leave_timeout(&mut self, now: Time) {
        match self.leaving.as_mut().map(Leave::next_step) {
            Some(LeaveStep::Left) => {
                self.events.push_back(Event::Left);
                self.timers.cancel_all();
                self.transition("leave", |before| State::Left(before.into_installed()));
            }
            Some(LeaveStep::Goodbye) => self.say_goodbye(now),
            Some(LeaveStep::Alone) => self.finish_alone(now),
            Some(LeaveStep::Wait) | None => {}
        }
    }

    /// The others cannot finish the leave with this member: it does so without them.
    fn finish_alone(&mut self, now: Time) {
        let mut gather = Gather::default();
        gather.fail.extend(self.candidates());
        self.gather(now, "leave alone", gather);
    }

    /// Whether this member no longer listens, because it is leaving.
    pub(super) fn ignores_others(&self) -> bool {
        let leaving = self.leaving.as_ref();
        leaving.is_some_and(Leave::ignores_others)
    }

    fn say_goodbye(&mut self, now: Time) {
        let Some(leaving) = &mut self.leaving else {
            return;
        };
        if !leaving.said_goodbye() {
            self.peers.attempt = self.peers.attempt.next();
        }
        leaving.note_goodbye();
        let (attempt, counter) = (self.peers.attempt, self.peers.counter());
        let none = Vec::new;
        let join = Join {
            attempt,
            counter,
            leaving: true,
            proc: none(),
            fail: none(),
            left: none(),
            heard: none(),
            high: Seq::ZERO,
            max_n: 0,
        };
        self.outbox.multicast(&Message::Join(join));
        self.timers.cancel_all();
        self.timers.set(Timer::Leave, now + Leave::GOODBYE_INTERVAL);
    }

    /// `from` says good-bye.
    pub(super) fn handle_goodbye(&mut self, now: Time, from: MemberId) {
        self.peers.note_left(from);
        let known = self.state.knows(from) || self.candidates().contains(&from);
        if known && self.goodbyes.len() < Peers::MAX {
            self.goodbyes.insert(from);
        }
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
            self.gather(now, Cause::of("member left", Some(from)), gather);
        }
    }

    /// Whether `member` was in the last ring with this one, which has not heard it say good-bye.
    pub(super) fn is_missed(&self, member: MemberId) -> bool {
        let installed = self.state.installed();
        let with_us = installed.is_some_and(|ring| ring.has(member));
        with_us && !self.goodbyes.contains(&member)
    }

    /// Another member says who has left.
    pub(super) fn note_told_left(&mut self, now: Time, left: &[MemberId]) {
        let until = now + self.config.goodbyes_within();
        if let State::Gather(gather) = &mut self.state {
            gather.note_left(left, &self.goodbyes, until);
        }
    }

    /// Until when this member, which gathers, waits for the good-byes of which others tell.
    pub(super) fn awaits_goodbyes(&self, now: Time) -> Option<Time> {
        let State::Gather(gather) = &self.state else {
            return None;
        };
        let until = gather.goodbyes_until.filter(|until| now < *until)?;
        let mut told = gather.told_left.iter();
        told.any(|it| self.is_missed(*it)).then_some(until)
    }

    /// The members that have left, for the commit token that this member begins: those that it has
    /// heard itself first; of other rings, those of which their members tell, unless they came
    /// back.
    pub(super) fn have_left(&self) -> Vec<MemberId> {
        let mut left: Vec<MemberId> = self.goodbyes.iter().copied().collect();
        if let State::Gather(gather) = &self.state {
            let members: BTreeSet<MemberId> = gather.members().collect();
            let told = gather.told_left.difference(&self.goodbyes);
            let out = told.filter(|it| !members.contains(*it) && !self.is_missed(**it));
            left.extend(out);
        }
        left.truncate(LEFT_MAX);
        left.sort_unstable();
        left
    }

    /// Those of this member's old ring that have left, as it has heard, and that others have struck
    /// out of `commit`, if its old ring was declared there without them before that: its members
    /// would count a majority in two ways.
    pub(super) fn struck_late(&self, commit: &Commit) -> Vec<MemberId> {
        let Some(ring) = self.state.installed() else {
            return Vec::new();
        };
        let mut declared = commit.marks.iter();
        let declared = declared.find(|it| it.ring == ring.id);
        let own = ring.without(ring.own_max_n, &commit.left);
        // Of an old ring that is not declared one member counts.
        if declared.map_or(1, |it| usize::from(it.max_n)) >= own {
            return Vec::new();
        }
        let heard = self.goodbyes.iter().copied();
        heard
            .filter(|it| ring.has(*it) && !commit.left.contains(it))
            .collect()
    }

    /// Strikes those out of the commit token that are said to have left, and are missed. Others of
    /// the same ring did not count them in MaxN.
    pub(super) fn strike_missed(&self, commit: &mut Commit) {
        let before = commit.left.len();
        commit.left.retain(|it| !self.is_missed(*it));
        let struck = before - commit.left.len();
        let installed = self.state.installed();
        let of_ring = commit.marks.iter_mut();
        for marks in of_ring.filter(|it| installed.is_some_and(|ring| ring.id == it.ring)) {
            marks.max_n = marks.max_n.saturating_add(struck as u16);
        }
    }
}
