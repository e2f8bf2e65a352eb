//! XTP at a receiver (003 3.3.3): answers to requests, which wait for their slots and are dropped
//! when another receiver has said as much; and the end of what it can still get.

use alloc::collections::VecDeque;
use core::time::Duration;

use groupcast_core::Time;

use super::super::config::{Control, Damping, Policy};
use super::super::context::Context;
use super::super::numbers::{PacketNumber, PassNumber, Stamp};
use super::super::transfer::Notice;
use super::super::wire::{Message, Purpose, ReceiverReport, ReplyTag, Request};
use super::store::Store;
use super::{Receiver, State, Timer};

/// What a receiver has to answer.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: VecDeque<Answer>,
    /// Whether the sender has released what this receiver misses.
    is_outrun: bool,
}

/// An answer that waits for its slot.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// Of the request.
    stamp: Stamp,
    /// When the request came, and how many transmissions had come by then.
    came: Time,
    received: u64,
    due: Time,
}

impl Answers {
    /// Answers that wait at most; the oldest is dropped, as its bucket is the next to be acted on.
    const WAITING_MAX: usize = 16;

    /// Whether the sender has released what this receiver misses.
    pub(super) fn is_outrun(&self) -> bool {
        self.is_outrun
    }
}

impl Receiver {
    /// How it answers requests, while the sender does not know its receivers: later passes are for
    /// those that are known.
    pub(super) fn control(&self) -> Option<Control> {
        match self.policy() {
            Policy::Xtp(xtp) if self.pass <= PassNumber::FIRST => Some(xtp.control),
            _ => None,
        }
    }

    pub(super) fn handle_request(&mut self, context: &mut Context<'_>, request: Request) {
        let Some(store) = self.state.store_mut() else {
            return;
        };
        self.received += 1;
        if request.stamp > self.seen {
            self.seen = request.stamp;
            self.seen_at = context.now;
        }
        if let Some(length) = request.length {
            store.end_at(length);
        }
        let top = store
            .packets()
            .unwrap_or(PacketNumber::MAX)
            .min(request.top);
        self.top = self.top.max(top);
        self.look_for_outrun(context, request.kept);
        self.answer(context, request.stamp, Some(request.kept));
        self.hand_over(context);
    }

    /// The sender keeps packets from `kept` on only. Whoever misses an earlier one gets it in a
    /// later pass, or not at all.
    pub(super) fn look_for_outrun(&mut self, context: &mut Context<'_>, kept: PacketNumber) {
        let State::Receiving(store) = &self.state else {
            return;
        };
        if self.control().is_none() || self.answers.is_outrun || store.next() >= kept {
            return;
        }
        self.answers.is_outrun = true;
        self.answers.waiting.clear();
        self.timers.cancel(Timer::Answer);
        let id = self.id;
        context.counters.outrun += 1;
        context.notify(Notice::Outrun { id, receiver: None });
        self.report(context, Purpose::Nak, false);
    }

    /// Whether it was counted in by a sender that does not know its receivers, and misses what was
    /// sent. If such a sender drops it, that was released, though this receiver has not heard so.
    pub(super) fn misses_what_was_sent(&self) -> bool {
        let State::Receiving(store) = &self.state else {
            return false;
        };
        self.control().is_some() && store.next() < self.top
    }

    /// Answers the request with this stamp in its slot. The sender keeps packets from `kept` on, if
    /// that is known.
    pub(super) fn answer(
        &mut self,
        context: &mut Context<'_>,
        stamp: Stamp,
        kept: Option<PacketNumber>,
    ) {
        let Some(control) = self.control() else {
            return self.report_state(context, true);
        };
        let next = self.state.store().map(Store::next);
        if self.answers.is_outrun {
            // Until the sender has surely heard of it.
            return self.report(context, Purpose::Nak, false);
        }
        // It has come too late for this pass: its answer would hold back the others.
        let is_late = matches!(self.state, State::Registering(_)) && next < kept;
        if is_late {
            return;
        }
        let slot = control.slot.longest();
        let answer = Answer {
            stamp,
            came: context.now,
            received: self.received,
            due: context.now + context.rng.duration(Duration::ZERO, slot),
        };
        if slot.is_zero() {
            return self.send_answer(context, answer, control);
        }
        let waiting = &mut self.answers.waiting;
        if waiting.len() == Answers::WAITING_MAX {
            waiting.pop_front();
        }
        waiting.push_back(answer);
        self.set_answer_timer();
    }

    fn set_answer_timer(&mut self) {
        let due = self.answers.waiting.iter().map(|answer| answer.due).min();
        match due {
            Some(due) => self.timers.set(Timer::Answer, due),
            None => self.timers.cancel(Timer::Answer),
        }
    }

    /// Sends the answers whose slots have come.
    pub(super) fn send_answers(&mut self, context: &mut Context<'_>) {
        let Some(control) = self.control() else {
            self.answers.waiting.clear();
            return;
        };
        let now = context.now;
        let is_due = |answer: &Answer| answer.due <= now;
        while let Some(at) = self.answers.waiting.iter().position(is_due) {
            if let Some(answer) = self.answers.waiting.remove(at) {
                self.send_answer(context, answer, control);
            }
        }
        self.set_answer_timer();
    }

    fn send_answer(&mut self, context: &mut Context<'_>, answer: Answer, control: Control) {
        let misses = |store: &Store| store.next() < self.top;
        let purpose = match self.state.store().is_some_and(misses) {
            true => Purpose::Nak,
            false => Purpose::Acknowledge,
        };
        let Some(now) = self.report_of_now(context, purpose, true) else {
            return;
        };
        // The echo is the request's stamp: by it the answer finds its bucket.
        let report = ReceiverReport {
            seen: answer.stamp,
            received: answer.received,
            delay_us: (context.now - answer.came).as_micros() as u64,
            tag: Self::takes(context),
            ..now
        };
        let message = Message::Report(report);
        if control.multicast {
            context.outbox.multicast(self.id.number, &message);
        } else {
            let sender = self.id.sender;
            context.outbox.unicast(sender, self.id.number, &message);
        }
    }

    /// Another receiver has answered: what this one would say beside it may be superfluous.
    pub(super) fn damp(&mut self, context: &mut Context<'_>, heard: &ReceiverReport) {
        let (Some(control), Some(store)) = (self.control(), self.state.store()) else {
            return;
        };
        if !heard.answers {
            return;
        }
        let (next, limit) = (store.next(), self.limit(store));
        let takes = Self::takes(context).unwrap_or(ReplyTag::NO_LIMIT);
        let takes_as_much = takes.takes_as_much(heard.tag.unwrap_or(ReplyTag::NO_LIMIT));
        let is_superfluous = |answer: &Answer| match control.damping {
            Damping::Off => false,
            #[cfg(any(test, feature = "planted-bugs"))]
            Damping::Request if context.plants_stale_answers() => next >= heard.next,
            Damping::Request => {
                let says_no_less = next >= heard.next && limit >= heard.limit && takes_as_much;
                answer.stamp == heard.seen && says_no_less
            }
            Damping::Rseq => next >= heard.next,
        };
        let before = self.answers.waiting.len();
        self.answers.waiting.retain(|answer| {
            let is_damped = is_superfluous(answer);
            // What was true of another request is not of this one: its bucket may stay empty, or
            // hear only of those that have more.
            debug_assert!(
                !is_damped || control.damping == Damping::Rseq || answer.stamp == heard.seen,
                "the answer to a request is damped by one to another request"
            );
            !is_damped
        });
        context.counters.answers_damped += (before - self.answers.waiting.len()) as u64;
        self.set_answer_timer();
    }
}
