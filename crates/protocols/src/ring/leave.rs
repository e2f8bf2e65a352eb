//! A graceful leave: what was accepted is delivered first, then the others are told.

use alloc::vec::Vec;

use groupcast_core::mech::leave::{Leave, LeaveStep};
use groupcast_core::{Event, MemberId, Time};

use super::gather::Gather;
use super::numbers::Seq;
use super::wire::{Join, Message};
use super::{Ring, State, Timer};

impl Ring {
    pub(super) fn begin_leave(&mut self, now: Time) {
        if self.leaving.is_some() || matches!(self.state, State::Left(_)) {
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
