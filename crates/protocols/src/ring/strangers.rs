//! How rings find each other, and what a member does about a process with its own name. What it
//! remembers of others is [`core::mech::peers`](groupcast_core::mech::peers).

use groupcast_core::mech::namesakes::Reaction;
use groupcast_core::mech::peers::Stranger;
use groupcast_core::mech::room::fit;
use groupcast_core::mech::turns;
use groupcast_core::{Event, MemberId, Time};

use super::config::BODY_LEAST;
use super::gather::Gather;
use super::operational::Operational;
use super::wire::{Announcement, Message};
use super::{Cause, Ring, State, Timer};

/// A member of another ring of which nothing was heard for this many intervals of announcements is
/// gone. In large quiet rings a living one may have no turn to announce its ring meanwhile: that
/// costs one change of configuration at most. Too many: whom it wanted out comes back late.
const WITNESS_SILENCE: u32 = 10;

impl Ring {
    /// Sets the first turn of this member to announce the ring.
    pub(super) fn plan_first_announcement(&mut self, now: Time) {
        let interval = self.config.announce_interval;
        let members = &self.state.expect_operational().ordering.members;
        let delay = turns::first(&mut self.rng, interval, members, self.local);
        self.timers.set(Timer::Announce, now + delay);
    }

    pub(super) fn announce_by_turn(&mut self, now: Time) {
        self.announce(now, self.config.body_max);
        let interval = self.config.announce_interval;
        let members = self.state.expect_operational().ordering.members.len();
        let delay = turns::next(&mut self.rng, interval, members);
        self.timers.set(Timer::Announce, now + delay);
    }

    /// Announces the ring, in datagrams with bodies of at most `most` bytes.
    fn announce(&mut self, now: Time, most: usize) {
        let heard = self.peers.heard(now);
        let ring = &self.state.expect_operational().ordering;
        let announcement = Announcement {
            ring: ring.id,
            members: ring.members.clone(),
            heard,
        };
        let announcement = Message::Announcement(announcement);
        self.outbox.multicast_in_parts(&announcement, most);
    }

    /// Announces the ring to a stranger, which learns from it that it is heard, whatever the way to
    /// it carries.
    pub(super) fn answer_stranger(&mut self, now: Time) {
        if self.peers.may_answer(now) {
            self.announce(now, BODY_LEAST);
        }
    }

    pub(super) fn handle_announcement(
        &mut self,
        now: Time,
        from: MemberId,
        announcement: Announcement,
    ) {
        self.peers.note_counter(announcement.ring.counter);
        if announcement.heard.contains(&self.local) {
            self.note_heard_by(now, from, &announcement);
        }
        self.peers.note_together(now, from, &announcement.members);
        self.weigh_word(now, from);
        if self.peers.is_quarantined(now, from) {
            return;
        }
        self.peers.note_heard(now, from);
        if let State::Gather(gather) = &mut self.state {
            gather.note_ring(announcement.members.iter().copied().chain([from]));
        }
        match &self.state {
            State::Operational(Operational { ordering: ring, .. }) => {
                let heard = &announcement.heard;
                let (peers, members) = (&mut self.peers, &ring.members);
                let evidence = peers.evidence(now, from, heard, self.local, members);
                let both = members.iter().chain(&announcement.members).copied();
                let most = self.config.members_max;
                let room = fit(both.chain([from]), most);
                match self.peers.stranger(now, from, evidence, &ring.members) {
                    Stranger::Answer => self.answer_stranger(now),
                    Stranger::LetIn if room => {
                        let mut gather = Gather::default();
                        gather.proc.extend(members.iter().copied());
                        gather.admit([from], most);
                        gather.admit(announcement.members, most);
                        self.gather(now, Cause::of("another ring", Some(from)), gather);
                    }
                    Stranger::LetIn => self.refuse(now, from),
                    Stranger::Ignore => {}
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

    /// There is no room for `from`, and those with it.
    pub(super) fn refuse(&mut self, now: Time, from: MemberId) {
        self.counters.strangers_refused += 1;
        self.refused.note(now, from);
    }

    /// The ring of `from` hears this member, and does not have it in quarantine. Of two that are
    /// alone this one keeps its quarantine unless the other one answers its probes: a pair that
    /// cannot go on would try it at each announcement.
    fn note_heard_by(&mut self, now: Time, from: MemberId, announcement: &Announcement) {
        let has_company = announcement.members.len() > 1;
        if self.is_alone() && (has_company || self.probes.answers(from)) {
            self.peers.release(now, from);
        } else {
            self.peers.hears_us(now, from, self.config.quarantine_min);
        }
    }

    /// `from` is heard: whether it is in quarantine on the word of a member that is gone.
    pub(super) fn weigh_word(&mut self, now: Time, from: MemberId) {
        let patience = self.config.announce_interval * WITNESS_SILENCE;
        let installed = self.state.installed();
        let here = |it| installed.is_some_and(|ring| ring.members.contains(&it));
        self.peers.outlives_word(now, from, patience, here);
    }

    /// Whether this member is in a ring of its own, or in none yet.
    pub(super) fn is_alone(&self) -> bool {
        let installed = self.state.installed();
        installed.is_none_or(|ring| ring.members.len() <= 1)
    }

    /// A datagram of another process with this member's name.
    pub(super) fn handle_namesake(&mut self, now: Time, from: MemberId, message: &Message) {
        let said = match message {
            Message::Name(said) => Some(*said),
            _ => None,
        };
        let alone = self.is_alone();
        let incarnation = self.local.incarnation;
        let reaction = self
            .namesakes
            .handle(now, incarnation, alone, (from, said), &mut self.rng);
        match reaction {
            Reaction::Nothing => {}
            Reaction::Say(said) => self.outbox.unicast(from, Message::Name(said).encode()),
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
}
