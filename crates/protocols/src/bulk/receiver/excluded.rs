//! A transfer that is for others (003 5.4): every packet and request of the list-based policy says
//! which subgroups it is for. A receiver that is in none of them leaves at once.

use super::super::context::Context;
use super::super::transfer::{Failure, Notice};
use super::super::wire::{Finish, Message, Refusal};
use super::returning::Returning;
use super::store::Store;
use super::{Receiver, State};
use crate::xgm::Subgroups;

/// The subgroups that a message says it is for.
fn vector(message: &Message) -> Option<Subgroups> {
    match message {
        Message::Announce(announce) => announce.subgroups,
        Message::Data(data) => data.header.subgroups,
        Message::Tag(tag) => tag.subgroups,
        Message::Finish(Finish::Done(subgroups)) => *subgroups,
        _ => None,
    }
}

impl Receiver {
    /// Leaves, if the message says that the transfer is for others; whether it did.
    pub(super) fn leaves(&mut self, context: &mut Context<'_>, message: &Message) -> bool {
        let Some(vector) = vector(message).filter(|_| self.is_listed()) else {
            return false;
        };
        let before = self.announce.subgroups.replace(vector);
        if vector.matches(context.subgroups) {
            return false;
        }
        let id = self.id;
        let is_registered = self.state.store().is_some();
        if before == Some(vector) && is_registered {
            // The sender knows it by the subgroups that it was in.
            let reason = "it is in other subgroups now".into();
            let name = self.name.clone();
            let refusal = Message::Refuse(Refusal { reason, name });
            context.outbox.unicast(id.sender, id.number, &refusal);
        }
        self.tell_undelivered(context);
        let notice = match self.has_ended_well() {
            true => Notice::Ended { id },
            false => Notice::Failed {
                id,
                failure: Failure::Excluded,
            },
        };
        context.notify(notice);
        self.transition(context, "it is for others", |_| State::Over);
        true
    }

    /// Whether it has everything and its user has no more to say: the sender may have settled it as
    /// complete.
    fn has_ended_well(&self) -> bool {
        let has_all = self.state.store().is_some_and(Store::is_complete) && self.has_delivered();
        let has_replied = self.returning.as_ref().is_none_or(Returning::has_ended);
        let is_good = match &self.concluded {
            Some(result) => result.is_ok(),
            None => !self.announce.confirm,
        };
        has_all && has_replied && is_good
    }
}
