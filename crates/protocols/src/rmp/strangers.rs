//! How groups that can reach each other find each other, how a member leaves, and what two
//! processes of one name do.

use alloc::vec::Vec;

use groupcast_core::mech::leave::{Leave, LeaveStep};
use groupcast_core::mech::namesakes::Reaction;
use groupcast_core::mech::peers::Stranger;
use groupcast_core::mech::room::fit;
use groupcast_core::mech::turns;
use groupcast_core::{Event, MemberId, Time};

use super::polling::Polling;
use super::wire::{Announcement, Message};
use super::{Rmp, State, Timer};

/// In a configuration of so many members each polls for a stranger that it hears.
const POLLERS_SMALL: usize = 8;
/// In a larger one so many do on average.
const POLLERS_MEAN: u64 = 4;

impl Rmp {
    /// Sets the first turn of this member to announce its configuration.
    pub(super) fn plan_first_announcement(&mut self, now: Time) {
        let interval = self.config.announce_interval;
        let members = &self.state.expect_operational().order.members;
        let delay = turns::first(&mut self.rng, interval, members, self.local);
        self.timers.set(Timer::Announce, now + delay);
    }

    pub(super) fn announce_by_turn(&mut self, now: Time) {
        self.announce(now);
        let interval = self.config.announce_interval;
        let members = self.state.expect_operational().order.members.len();
        let delay = turns::next(&mut self.rng, interval, members);
        self.timers.set(Timer::Announce, now + delay);
    }

    fn announce(&mut self, now: Time) {
        let heard = self.peers.heard(now);
        let order = &self.state.expect_operational().order;
        let announcement = Announcement {
            config: order.id,
            members: order.members.clone(),
            heard,
        };
        self.outbox.multicast(&Message::Announcement(announcement));
    }

    /// Announces the group to a stranger, which learns from it that it is heard.
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
        self.peers.note_counter(announcement.config.counter);
        if announcement.heard.contains(&self.local) {
            let min = self.config.quarantine_min;
            self.peers.hears_us(now, from, min);
            if announcement.members.len() > 1 {
                self.note_invitation(now, from);
            }
        }
        self.note_parted(from, &announcement);
        if self.peers.is_quarantined(now, from) {
            return;
        }
        self.peers.note_heard(now, from);
        let room = self.has_room(announcement.members.iter().copied().chain([from]));
        match &mut self.state {
            State::Operational(operational) => {
                let members = &operational.order.members;
                if members.contains(&from) {
                    return;
                }
                let evidence = announcement.heard.iter().any(|it| members.contains(it));
                match self.peers.stranger(now, from, evidence, members) {
                    Stranger::LetIn if !room => self.refuse(now, from),
                    Stranger::LetIn if self.join_by_list(now, &announcement) => {}
                    // It may ask to be let in.
                    Stranger::LetIn if announcement.members.len() == 1 && self.has_company() => {
                        self.answer_stranger(now);
                    }
                    Stranger::LetIn if !self.takes_turn() => {}
                    Stranger::LetIn => {
                        let mut seed = Polling::default();
                        seed.wanted.insert(from);
                        seed.wanted.extend(announcement.members);
                        self.poll(now, "another group", seed);
                    }
                    Stranger::Answer => self.answer_stranger(now),
                    Stranger::Ignore => {}
                }
            }
            State::Polling(polling) => {
                let namesake = polling.wanted.iter().any(|it| it.node == from.node);
                let mut heard = announcement.heard.iter();
                let hears_us = heard.any(|it| *it == self.local || polling.wanted.contains(it));
                if room && !namesake && hears_us && !self.join_by_list(now, &announcement) {
                    let mut seed = Polling::default();
                    seed.wanted.insert(from);
                    seed.wanted.extend(announcement.members);
                    self.poll(now, "another group", seed);
                }
            }
            State::Joining(_) => self.note_group(&announcement),
            State::Standby(_) | State::Recovering(_) | State::Left(_) => {}
        }
    }

    /// There is no room for `from`, and those with it.
    pub(super) fn refuse(&mut self, now: Time, from: MemberId) {
        self.counters.strangers_refused += 1;
        self.refused.note(now, from);
    }

    /// Whether this member polls for a stranger that all of its configuration hear. In a large one
    /// some do, by chance: the polls of all would meet, and each be answered by all. If nobody does
    /// the stranger says again that it is there.
    fn takes_turn(&mut self) -> bool {
        let installed = self.state.installed();
        let members = installed.map_or(1, |order| order.members.len());
        members <= POLLERS_SMALL || self.rng.below(members as u64) < POLLERS_MEAN
    }

    /// The member `from`, which is not alone, hears this one: one that is alone goes along with it,
    /// whatever it thinks of it. The others decide how soon they try it again with this member: a
    /// second quarantine, here, would only end at another time than theirs.
    pub(super) fn note_invitation(&mut self, now: Time, from: MemberId) {
        if !self.has_company() {
            self.peers.release(now, from);
        }
    }

    /// The member `from` was together with this one, and is in a later configuration now without
    /// it: if this member excludes it, that only answers what the other did.
    fn note_parted(&mut self, from: MemberId, announcement: &Announcement) {
        let Some(old) = self.state.installed() else {
            return;
        };
        let is_later = announcement.config.counter > old.id.counter;
        if !is_later || !old.members.contains(&from) || announcement.members.contains(&self.local) {
            return;
        }
        match &mut self.state {
            State::Polling(polling) => polling.parted.insert(from),
            State::Standby(standby) => standby.parted.insert(from),
            _ => false,
        };
    }

    /// Whether this member is in a configuration with others.
    fn has_company(&self) -> bool {
        let installed = self.state.installed();
        installed.is_some_and(|order| order.members.len() > 1)
    }

    /// A datagram of another process with this member's name.
    pub(super) fn handle_namesake(&mut self, now: Time, from: MemberId, message: &Message) {
        let said = match message {
            Message::Name(said) => Some(*said),
            _ => None,
        };
        let installed = self.state.installed();
        let alone = installed.is_none_or(|order| order.members.len() <= 1);
        let incarnation = self.local.incarnation;
        let reaction = self
            .namesakes
            .handle(now, incarnation, alone, (from, said), &mut self.rng);
        match reaction {
            Reaction::Nothing => {}
            Reaction::Say(said) => self.outbox.unicast(from, &Message::Name(said)),
            Reaction::Contested => self.events.push_back(Event::NameContested { other: from }),
            Reaction::GiveWay => {
                self.events.push_back(Event::NameInUse { holder: from });
                self.timers.cancel_all();
                self.transition("name in use", |before| State::Left(before.into_installed()));
                self.queue.close();
                if self.leaving.is_some() {
                    self.events.push_back(Event::Left);
                }
            }
        }
    }

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
        let timeout = self.config.leave_timeout;
        self.timers.set(Timer::Leave, now + timeout);
        self.leave_when_done(now);
    }

    /// Says good-bye once all that this member sent is held by all and delivered here.
    pub(super) fn leave_when_done(&mut self, now: Time) {
        let (Some(leaving), State::Operational(operational)) = (&self.leaving, &self.state) else {
            return;
        };
        let order = &operational.order;
        let last = order.own_last();
        let done = self.queue.is_empty()
            && self.queue.is_settled()
            && order.safe() >= last
            && order.cursor.delivered() >= last;
        if done && !leaving.said_goodbye() && operational.wishes.leave_asked == 0 {
            self.ask_to_leave(now);
        }
    }

    pub(super) fn say_goodbye(&mut self, now: Time) {
        self.outbox.multicast(&Message::Goodbye);
        if let Some(leaving) = &mut self.leaving {
            leaving.note_goodbye();
        }
        self.timers.cancel_all();
        self.timers.set(Timer::Leave, now + Leave::GOODBYE_INTERVAL);
    }

    pub(super) fn leave_timeout(&mut self, now: Time) {
        match self.leaving.as_mut().map(Leave::next_step) {
            Some(LeaveStep::Left) => {
                self.events.push_back(Event::Left);
                self.timers.cancel_all();
                self.transition("leave", |before| State::Left(before.into_installed()));
            }
            Some(LeaveStep::Goodbye) => self.say_goodbye(now),
            Some(LeaveStep::Alone) => {
                let mut seed = Polling::default();
                seed.failed.extend(self.together());
                self.poll(now, "leave alone", seed);
            }
            Some(LeaveStep::Wait) | None => {}
        }
    }

    /// The members that this one was together with, or is about to be.
    pub(super) fn together(&self) -> Vec<MemberId> {
        let mut members = Vec::new();
        if let Some(old) = self.state.installed() {
            members.extend(&old.members);
        }
        match &self.state {
            State::Joining(joining) => members.extend(&joining.members),
            State::Polling(polling) => members.extend(&polling.wanted),
            State::Standby(standby) => members.extend(&standby.wanted),
            State::Recovering(recovering) => members.extend(recovering.members()),
            State::Operational(_) | State::Left(_) => {}
        }
        members
    }

    /// Whether `others` may be in a configuration with those that this member was together with, or
    /// is about to be. Lives of one node count once: the old one goes.
    pub(super) fn has_room(&self, others: impl Iterator<Item = MemberId>) -> bool {
        let together = self.together().into_iter().chain([self.local]);
        fit(together.chain(others), self.config.members_max)
    }

    /// Whether this member no longer listens, because it is leaving.
    pub(super) fn ignores_others(&self) -> bool {
        let leaving = self.leaving.as_ref();
        leaving.is_some_and(Leave::ignores_others)
    }

    /// Another member is gone. The one after it polls at once; the others if that does not.
    pub(super) fn handle_goodbye(&mut self, now: Time, from: MemberId) {
        match &mut self.state {
            State::Operational(operational) => {
                let order = &operational.order;
                let Some(index) = order.index_of(from) else {
                    return;
                };
                let first = usize::from(order.after(index)) == order.me.at();
                if !operational.left.insert(from) {
                    return;
                }
                if first {
                    self.poll(now, "member left", Polling::default());
                } else {
                    let longest = self.config.abort_delay_max;
                    let delay = self.rng.duration(longest / 2, longest * 2);
                    self.timers.set(Timer::Gone, now + delay);
                }
            }
            State::Polling(polling) => {
                if polling.wanted.remove(&from) {
                    polling.failed.insert(from);
                    polling.left.insert(from);
                    self.propose_if_all_answered(now);
                }
            }
            State::Standby(standby) => {
                if standby.wanted.remove(&from) {
                    standby.left.insert(from);
                }
            }
            State::Recovering(recovering) => {
                if recovering.has(from) {
                    recovering.gone.insert(from);
                }
            }
            State::Joining(joining) => {
                joining.members.remove(&from);
            }
            State::Left(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use core::time::Duration;

    use bytes::Bytes;
    use groupcast_core::{ConfigurationKind, Ordered, Protocol, Rng, Service, TransmitBuf};

    use super::*;
    use crate::rmp::RmpConfig;
    use crate::rmp::fixtures::{config, member};

    /// A member on its own, with the time up to which it has run.
    struct Alone {
        rmp: Rmp,
        now: Time,
        configurations: usize,
        delivered: Vec<u64>,
    }

    impl Alone {
        fn run_for(&mut self, duration: Duration) {
            let end = self.now + duration;
            loop {
                let mut buf = TransmitBuf::new(16, 0, 0);
                while self.rmp.poll_transmit(self.now, &mut buf).is_some() {
                    buf.clear();
                }
                while let Some(event) = self.rmp.poll_event() {
                    match event {
                        Event::Configuration(it) if it.kind == ConfigurationKind::Regular => {
                            self.configurations += 1;
                        }
                        Event::Deliver(it) => self.delivered.push(it.id.number),
                        _ => {}
                    }
                }
                match self.rmp.poll_timeout().filter(|due| *due <= end) {
                    Some(due) => self.now = due.max(self.now),
                    None => break,
                }
                self.rmp.handle_timeout(self.now);
            }
            self.now = end;
        }
    }

    /// A group says that it hears this member, which asks to be let in, and polls; nobody answers.
    /// It stays in its configuration, and goes on to deliver there what it says, numbered on.
    #[test]
    fn whose_poll_nobody_answers_stays_alone_in_the_configuration_that_it_has() {
        let local = member(9);
        let rmp = Rmp::new(RmpConfig::lan(), local, Rng::new(9), Time::ZERO);
        let mut alone = Alone {
            rmp: rmp.expect("the settings are valid"),
            now: Time::ZERO,
            configurations: 0,
            delivered: Vec::new(),
        };
        alone.run_for(Duration::from_secs(1));
        let first = alone.rmp.configuration();
        assert_eq!(alone.configurations, 1);
        let mut polls = 0;
        for _ in 0..8 {
            let said = Bytes::from_static(b"a few words");
            let said = alone.rmp.submit(alone.now, Service::Safe, said);
            said.expect("there is room");
            let group = Message::Announcement(Announcement {
                config: config(3),
                members: vec![member(1), member(2)],
                heard: vec![local],
            });
            let body = group.encode();
            alone.rmp.handle_datagram(alone.now, member(1), body);
            polls += usize::from(!matches!(alone.rmp.state, State::Operational(_)));
            alone.run_for(Duration::from_secs(2));
        }
        assert_eq!(polls, 8, "it tried to be let in each time");
        assert_eq!(alone.delivered, (1..=8).collect::<Vec<_>>());
        assert_eq!(alone.rmp.configuration(), first);
        assert_eq!(alone.configurations, 1);
    }
}
