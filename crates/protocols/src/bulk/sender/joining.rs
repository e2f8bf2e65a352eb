//! Receivers that come to a connection while it runs (003 4.3: a group drops in to a conversation
//! that is in progress). Each joins from a message of which nothing has been sent yet, and is told
//! its place; the sender's user learns the place that the receiver has confirmed.
//!
//! ```text
//!  receiver                               sender
//!     │ registers                ──────▶    it runs: a place for this one
//!     │ ◀────── join: packet, message       again for each word of a receiver that has not
//!     │ joined: message          ──────▶    confirmed it
//! ```
//!
//! A place is offered anew when what follows it has been released before the receiver has heard of
//! it. The receiver keeps the first that it hears, and only its confirmation counts. A receiver
//! that misses nothing that is released joins from the first message on, like those that came in
//! time.

use groupcast_core::MemberId;

use super::super::context::Context;
use super::super::numbers::{PacketNumber, PassNumber};
use super::super::transfer::{Notice, Opening, Outcome};
use super::super::wire::{Join, Message, ReceiverReport};
use super::{Peer, Sender, State};

/// Where a receiver begins that came late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Joining {
    /// It was told this, and has not confirmed it.
    Offered(Join),
    /// Its first message is the one with this number.
    Confirmed(u64),
}

impl Peer {
    /// Whether it is not known where it begins.
    pub(super) fn is_joining(&self) -> bool {
        matches!(self.joining, Some(Joining::Offered(_)))
    }

    /// What became of it, if it has everything that it was to have.
    pub(super) fn completion(&self) -> Outcome {
        match self.joining {
            Some(Joining::Confirmed(number @ 2..)) => Outcome::Joined { number },
            _ => Outcome::Complete,
        }
    }
}

impl Sender {
    /// Whether receivers may still come.
    pub(super) fn is_open(&self) -> bool {
        let is_under_way = matches!(self.state, State::Starting(_) | State::Sending(_));
        self.opening != Opening::AtStart
            && is_under_way
            && self.pass_number() == PassNumber::FIRST
            && self.stream.length.is_none()
    }

    /// A receiver that has registered late takes part from now on.
    pub(super) fn let_join(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        let packets = self.stream.packets();
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.begin_pass(context.now, PassNumber::FIRST);
            peer.ready = true;
            peer.read_needs(report, packets, false);
        }
        self.offer_place(context, from, report.next);
    }

    /// Tells a receiver where it begins, which has all below `next` and does not know yet.
    pub(super) fn offer_place(
        &mut self,
        context: &mut Context<'_>,
        receiver: MemberId,
        next: PacketNumber,
    ) {
        let base = self.stream.base();
        let next_message = self.stream.next_message();
        let Some(peer) = self.peers.get_mut(&receiver) else {
            return;
        };
        let join = match peer.joining {
            Some(Joining::Confirmed(_)) => return,
            _ if next >= base => Join::AT_START,
            Some(Joining::Offered(join)) if join.place >= base => join,
            _ => {
                let (place, number) = next_message;
                Join { place, number }
            }
        };
        peer.joining = Some(Joining::Offered(join));
        let message = Message::Join(join);
        context.outbox.unicast(receiver, self.id.number, &message);
    }

    /// A receiver says something that has not confirmed its place: it is told again.
    pub(super) fn remind_of_place(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        if self.peers.get(&from).is_some_and(Peer::is_joining) {
            self.offer_place(context, from, report.next);
        }
    }

    /// A receiver confirms its place: the number of its first message.
    pub(super) fn handle_joined(&mut self, context: &mut Context<'_>, from: MemberId, number: u64) {
        let is_possible = (1..=self.stream.offered() + 1).contains(&number);
        let peer = self.peers.get_mut(&from).filter(|peer| peer.is_joining());
        let Some(peer) = peer.filter(|_| is_possible) else {
            return;
        };
        peer.heard = context.now;
        peer.joining = Some(Joining::Confirmed(number));
        if number > 1 {
            context.notify(Notice::Joined {
                id: self.id,
                receiver: Some(from),
                number,
            });
        }
    }
}
