//! Deliver-to marks at a receiver (003 5.3.3): what lies beyond the mark is held, and reported if
//! it is never delivered.

use super::super::context::Context;
use super::super::transfer::{DeliverTo, Notice};
use super::super::wire::Purpose;
use super::Receiver;
use super::store::Store;

/// How far a receiver delivers.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Held {
    /// The highest mark that has come; `None`: it delivers nothing.
    mark: Option<u64>,
    /// Its user has what it kept aside in place.
    is_in_place: bool,
    /// Its user was told that it may.
    is_told: bool,
    /// Its user was told that everything is here.
    is_whole: bool,
    /// It was over with something that was held.
    is_let_go: bool,
}

impl Held {
    pub(super) fn of(deliver_to: DeliverTo) -> Self {
        let mark = match deliver_to {
            DeliverTo::UpTo { first, .. } => Some(first),
            DeliverTo::AtOnce | DeliverTo::Aside => None,
        };
        Self {
            mark,
            ..Self::default()
        }
    }
}

impl Receiver {
    /// When it delivers what it has.
    pub(in crate::bulk) fn deliver_to(&self) -> DeliverTo {
        self.announce.deliver_to
    }

    /// Bytes of the stream that may be handed over.
    pub(super) fn delivers_below(&self) -> u64 {
        match self.announce.deliver_to {
            DeliverTo::UpTo { .. } => self.held.mark.unwrap_or_default(),
            DeliverTo::AtOnce | DeliverTo::Aside => u64::MAX,
        }
    }

    /// Up to where it has delivered by the marks, for the sender to read; `None` if there are none,
    /// or nothing is delivered.
    pub(super) fn echo(&self) -> Option<u64> {
        match self.announce.deliver_to {
            DeliverTo::AtOnce => None,
            DeliverTo::UpTo { .. } => self.held.mark,
            DeliverTo::Aside => self.held.mark.filter(|_| self.held.is_in_place),
        }
    }

    /// Whether it has kept aside what may not be put in place yet.
    pub(super) fn is_kept_aside(&self) -> bool {
        self.announce.deliver_to == DeliverTo::Aside && !self.held.is_in_place
    }

    /// Tells the user that everything is here, before the sender learns it, if not all of it may be
    /// delivered yet.
    pub(super) fn tell_held(&mut self, context: &mut Context<'_>) {
        let is_bounded = matches!(self.announce.deliver_to, DeliverTo::UpTo { .. });
        let is_whole = self.state.store().is_some_and(Store::is_complete);
        if is_bounded && is_whole && !self.held.is_whole {
            self.held.is_whole = true;
            context.notify(Notice::Held { id: self.id });
        }
    }

    /// Whether nothing of what has come is held back.
    pub(super) fn has_delivered(&self) -> bool {
        let held = self.state.store().map_or(0, Store::held_back);
        !self.is_kept_aside() && held == 0
    }

    /// A mark has come.
    pub(super) fn handle_mark(&mut self, context: &mut Context<'_>, mark: u64) {
        if self.announce.deliver_to == DeliverTo::AtOnce || self.state.store().is_none() {
            return;
        }
        self.held.mark = self.held.mark.max(Some(mark));
        match self.announce.deliver_to {
            DeliverTo::Aside => self.release(context),
            _ => self.hand_over(context),
        }
        if self.echo().is_some() {
            self.report(context, Purpose::Acknowledge, false);
        }
    }

    /// Tells the user that all receivers hold everything.
    pub(super) fn release(&mut self, context: &mut Context<'_>) {
        let length = self.state.store().and_then(Store::length);
        let is_good = self.concluded == Some(Ok(()));
        if self.is_kept_aside()
            && length.is_some()
            && self.held.mark >= length
            && is_good
            && !self.held.is_told
        {
            self.held.is_told = true;
            context.notify(Notice::AllHold { id: self.id });
        }
    }

    /// The user has put in place what it kept aside.
    pub(in crate::bulk) fn put_in_place(&mut self, context: &mut Context<'_>) {
        if self.held.is_told && !self.held.is_in_place {
            self.held.is_in_place = true;
            self.report(context, Purpose::Acknowledge, false);
        }
    }

    /// What is held will not be delivered: its user is told.
    pub(super) fn tell_undelivered(&mut self, context: &mut Context<'_>) {
        let bytes = self.state.store().map_or(0, Store::held_back);
        if matches!(self.announce.deliver_to, DeliverTo::UpTo { .. }) && bytes > 0 {
            self.held.is_let_go = true;
            context.notify(Notice::Undelivered { id: self.id, bytes });
        }
    }

    /// Whether it was over with something that was held. The sender may know of that, and count on
    /// it.
    pub(in crate::bulk) fn has_let_go(&self) -> bool {
        self.held.is_let_go
    }

    /// What it holds from the start of the stream on without a gap, in bytes; `None`: its user has
    /// not accepted it.
    pub(in crate::bulk) fn held(&self) -> Option<u64> {
        let store = self.state.store()?;
        if self.first_message > 1 {
            return Some(0);
        }
        let held = store.next().offset(u64::from(self.announce.packet));
        Some(store.length().map_or(held, |length| held.min(length)))
    }

    /// What its user may use of that, or might when it was over or when he gave up: nothing that is
    /// held back.
    pub(in crate::bulk) fn usable(&self) -> Option<u64> {
        let (Some(held), Some(store), false) =
            (self.held(), self.state.store(), self.has_given_up())
        else {
            return self.usable_at_end;
        };
        // Of a packet with a mark in it nothing is handed over.
        let packet = u64::from(self.announce.packet);
        let whole = |mark: u64| match store.length().is_some_and(|length| mark >= length) {
            true => u64::MAX,
            false => mark / packet * packet,
        };
        Some(match self.announce.deliver_to {
            DeliverTo::AtOnce => held,
            DeliverTo::UpTo { .. } => held.min(self.held.mark.map_or(0, whole)),
            DeliverTo::Aside if self.held.is_in_place => held,
            DeliverTo::Aside => 0,
        })
    }
}
