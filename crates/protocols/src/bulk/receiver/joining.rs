//! How a receiver comes into a transfer: a Start lists it, or it joins a connection that runs, from
//! the message on that the sender names.
//!
//! Of a connection that may be joined nothing is handed over before: otherwise a user could be
//! given the first messages and then those from its place on, without the ones between them. A
//! receiver that has all messages to the end begins with the first, wherever it is told to begin:
//! it hands over what it says that it holds.

use super::super::context::Context;
use super::super::transfer::{Notice, Opening};
use super::super::wire::{Join, Message};
use super::{Receiver, State, Timer};

impl Receiver {
    /// Whether it does not know yet with which message it begins, or whether it is named.
    pub(super) fn awaits_place(&self) -> bool {
        let may_join = self.announce.messages == Some(Opening::AtAnyTime);
        let waits = may_join || self.announce.named;
        waits && matches!(self.state, State::Registering(_))
    }

    /// Whether it does not know yet whether it is named, where only those that are get anything.
    pub(super) fn may_be_unnamed(&self) -> bool {
        self.announce.named && self.awaits_place()
    }

    /// The sender counts it in.
    pub(super) fn enroll(&mut self, context: &mut Context<'_>, cause: &'static str) {
        self.begin_receiving(context, cause);
        context.notify(Notice::Enrolled { id: self.id });
    }

    fn begin_receiving(&mut self, context: &mut Context<'_>, cause: &'static str) {
        self.timers.cancel(Timer::Register);
        self.transition(context, cause, |before| match before {
            State::Registering(store) => State::Receiving(store),
            other => other,
        });
    }

    /// The sender says with which message it begins. What it begins with once stays.
    pub(super) fn handle_join(&mut self, context: &mut Context<'_>, join: Join) {
        if self.awaits_place() {
            self.begin_at(context, join);
        }
        if matches!(self.state, State::Receiving(_)) {
            let joined = Message::Joined(self.first_message);
            let sender = self.id.sender;
            context.outbox.unicast(sender, self.id.number, &joined);
        }
    }

    fn begin_at(&mut self, context: &mut Context<'_>, join: Join) {
        let Some(store) = self.state.store_mut() else {
            return;
        };
        // If it misses nothing before the place, it begins with the first message all the same.
        if store.next() < join.place {
            store.begin_at(join.place);
            self.first_message = join.number;
            self.messages = join.number - 1;
            self.top = self.top.max(join.place);
        }
        self.enroll(context, "joined");
        if self.first_message > 1 {
            context.notify(Notice::Joined {
                id: self.id,
                receiver: None,
                number: self.first_message,
            });
        }
        self.hand_over(context);
    }
}
