//! Lives of one node. A receiver that registers in the place of another incarnation of its node was
//! restarted, as a rule; or there are two receivers of one name. The former one is asked: it
//! answers if it lives. Until it has been silent for long enough, nothing is concluded of the node:
//! the first pass does not begin, the one in its place is not complete, and the transfer does not
//! end.
//!
//! What the former one had said before it died may come late. So its word counts only if it has
//! seen a stamp that had not been given when the other one registered: it has heard this sender
//! since, and both lived then. A receiver that did not answer may still be found to live so, by
//! whatever it reports.

use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::MemberId;

use super::super::config::BulkConfig;
use super::super::context::Context;
use super::super::numbers::{PacketNumber, Stamp};
use super::super::transfer::Outcome;
use super::super::wire::{Finish, Message, Poll};
use super::{Sender, Timer};

/// A former receiver is asked this often, and then taken for dead.
const ASKED_MAX: u32 = 4;

/// How long one question waits for an answer.
fn answers_within(config: &BulkConfig) -> Duration {
    config.rto_initial / 2
}

/// A receiver in whose place another incarnation of its node has registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Former {
    /// The stamp that was the next when the other one registered.
    next: Stamp,
    /// How often it was asked; once more than it may be when it has not answered.
    asked: u32,
}

impl Former {
    fn may_answer(&self) -> bool {
        self.asked <= ASKED_MAX
    }

    /// Whether this message of it was made after the other one had registered.
    fn lives_by(&self, message: &Message) -> bool {
        matches!(message, Message::Report(report) if report.seen >= self.next)
    }
}

impl Sender {
    /// `receiver` registers: other incarnations of its node are gone, unless they answer.
    pub(super) fn replace_former(&mut self, context: &mut Context<'_>, receiver: MemberId) {
        let is_former = |other: &MemberId| {
            other.node == receiver.node && other.incarnation != receiver.incarnation
        };
        let unsettled = self.peers.keys();
        // One that has everything and waits for the end has its name, too.
        let complete = self.settled.iter().filter(|(_, complete)| **complete);
        let former = unsettled.chain(complete.map(|(member, _)| member));
        let former: Vec<MemberId> = former
            .filter(|member| is_former(member) && !self.former.contains_key(member))
            .copied()
            .collect();
        if former.is_empty() {
            return;
        }
        let next = self.stream.last_stamp().next();
        for member in &former {
            if self.peers.remove(member).is_some() {
                self.behind.remove(member);
                self.leave_chains(context, &[*member]);
            }
            // A node that has so many lives is none that was restarted: the others are forgotten.
            while self.former.len() >= context.config.receivers_max {
                self.former.pop_first();
            }
            self.former.insert(*member, Former { next, asked: 1 });
            self.ask_former(context, *member, next);
        }
        if self.timers.due(Timer::Former).is_none() {
            let again = context.now + answers_within(context.config);
            self.timers.set(Timer::Former, again);
        }
    }

    /// Asks a former receiver for a report. The stamp is the next one, and not used up: nobody else
    /// sees this question, and those would take it for lost.
    fn ask_former(&self, context: &mut Context<'_>, receiver: MemberId, stamp: Stamp) {
        let poll = Message::Poll(Poll {
            pass: self.pass_number(),
            stamp,
            top: PacketNumber::ZERO,
            length: None,
        });
        context.outbox.unicast(receiver, self.id.number, &poll);
    }

    /// Those that have not answered are asked again, or are dead.
    pub(super) fn ask_former_again(&mut self, context: &mut Context<'_>) {
        let stamp = self.stream.last_stamp().next();
        let mut asked = Vec::new();
        for (member, former) in &mut self.former {
            if former.may_answer() {
                former.asked += 1;
            }
            if former.may_answer() {
                asked.push(*member);
            }
        }
        for member in &asked {
            self.ask_former(context, *member, stamp);
        }
        if !asked.is_empty() {
            let again = context.now + answers_within(context.config);
            self.timers.set(Timer::Former, again);
        }
        self.advance(context);
    }

    /// The first pass does not begin before former receivers have answered, or are dead.
    pub(super) fn begin_after_former(&mut self, context: &mut Context<'_>) {
        let again = context.now + answers_within(context.config);
        self.timers.set(Timer::Begin, again);
    }

    /// Whether a former receiver may still answer: of the node of one receiver, or of any.
    pub(super) fn may_former_answer(&self, receiver: Option<MemberId>) -> bool {
        let of_node = |member: &MemberId| receiver.is_none_or(|it| it.node == member.node);
        let mut former = self.former.iter();
        former.any(|(member, former)| of_node(member) && former.may_answer())
    }

    /// Whether a message is of a former receiver, and was dealt with: it says that it lives, or
    /// nothing that counts.
    pub(super) fn is_of_former(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        message: &Message,
    ) -> bool {
        let Some(former) = self.former.get(&from) else {
            return false;
        };
        if former.lives_by(message) {
            self.give_up_same_name(context, from);
            self.advance(context);
            return true;
        }
        !self.settled.contains_key(&from)
    }

    /// Another incarnation of its node has registered in the place of `receiver`, which is there
    /// all the same: two receivers have one name. Neither can be told from the other by it, so
    /// neither is served.
    fn give_up_same_name(&mut self, context: &mut Context<'_>, receiver: MemberId) {
        self.former.remove(&receiver);
        let others = self.peers.keys().filter(|peer| peer.node == receiver.node);
        let others: Vec<MemberId> = others.copied().collect();
        let receiver = Some(receiver).filter(|it| !self.settled.contains_key(it));
        for member in others.into_iter().chain(receiver) {
            // Twice, as the end is told: one that loses both is told when it speaks.
            for _ in 0..2 {
                let same = Message::Finish(Finish::SameName);
                context.outbox.unicast(member, self.id.number, &same);
            }
            self.same_name.insert(member);
            self.settle(context, member, Outcome::SameName);
        }
    }

    /// The transfer is over: former receivers that were not heard again had been restarted.
    pub(super) fn settle_former(&mut self, context: &mut Context<'_>) {
        for receiver in core::mem::take(&mut self.former).into_keys() {
            if !self.settled.contains_key(&receiver) {
                self.settle(context, receiver, Outcome::Vanished);
            }
        }
    }
}
