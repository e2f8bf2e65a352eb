//! A receiver of a connection on which nobody answers (003 5.3.2: `X_Mopen` for unreliable
//! transmission): it takes the messages that come whole, and says nothing.

use alloc::vec::Vec;

use bytes::Bytes;

use super::super::context::Context;
use super::super::numbers::PacketNumber;
use super::super::transfer::{Failure, Notice, Opening};
use super::super::wire::{Data, Finish, Message};
use super::store::Piece;
use super::{Receiver, State};

/// The message that is being put together.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// Packets below this one are past.
    next: PacketNumber,
    /// Its packets so far, from the first on without a gap; `None`: one of them was lost.
    pieces: Option<Vec<Piece>>,
}

impl Assembly {
    /// Takes the next packet, the `index`th of its message, if nothing of that was lost before.
    fn take(&mut self, number: PacketNumber, index: u16, piece: Piece) {
        let follows = number == self.next;
        self.next = number + 1;
        if index == 0 {
            self.pieces = Some(Vec::new());
        } else if !follows {
            self.pieces = None;
        }
        if let Some(pieces) = &mut self.pieces {
            pieces.push(piece);
        }
    }

    /// How many packets it has of the message.
    fn packets(&self) -> u64 {
        self.pieces.as_ref().map_or(0, |pieces| pieces.len() as u64)
    }
}

impl Receiver {
    /// Whether it answers nothing.
    pub(super) fn is_unanswered(&self) -> bool {
        self.announce.messages == Some(Opening::Unanswered)
    }

    /// Bytes that it counts for what it puts together.
    pub(super) fn assembled(&self) -> u64 {
        self.assembly.packets() * u64::from(self.announce.packet)
    }

    /// It takes part without a word.
    pub(super) fn begin_unanswered(&mut self, context: &mut Context<'_>) {
        self.transition(context, "nobody is asked", |before| match before {
            State::Registering(store) => State::Receiving(store),
            other => other,
        });
    }

    pub(super) fn handle_unanswered(&mut self, context: &mut Context<'_>, message: Message) {
        match message {
            Message::Data(data) => self.take_unanswered(context, data),
            Message::Finish(finish) => self.finish_unanswered(context, finish),
            _ => {}
        }
    }

    fn take_unanswered(&mut self, context: &mut Context<'_>, Data { header, body }: Data) {
        let State::Receiving(store) = &mut self.state else {
            return;
        };
        if self.concluded.is_some() {
            return;
        }
        context.counters.packets_received += 1;
        if header.number < self.assembly.next {
            context.counters.duplicates += 1;
            return;
        }
        let packet = self.announce.packet as usize;
        let is_whole = body.len() == packet || header.ends && body.len() < packet;
        let is_countable = header.number.is_countable(packet as u64);
        let room = store.room_for(self.assembly.packets() + 1);
        if !is_whole || !is_countable || !room {
            // The message is lost, as if the network had lost a packet of it.
            context.counters.refused += 1;
            self.assembly.pieces = None;
            return;
        }
        let piece = Piece {
            offset: header.number.offset(packet as u64),
            // A slice would keep all of the memory that was received with it.
            bytes: Bytes::copy_from_slice(&body),
            ends: header.ends,
        };
        self.assembly.take(header.number, header.kept, piece);
        if header.ends
            && let Some(pieces) = self.assembly.pieces.take()
        {
            store.give(pieces);
            // The stamp of such a connection is the message's number.
            self.messages = header.stamp.0.saturating_sub(1);
            self.hand_over(context);
        }
    }

    fn finish_unanswered(&mut self, context: &mut Context<'_>, finish: Finish) {
        let id = self.id;
        let failure = match finish {
            _ if self.concluded.is_some() => Some(Failure::GivenUp),
            Finish::Cancelled(reason) => Some(Failure::Cancelled(reason)),
            // It has no more to say; nobody says what has come of it.
            _ => None,
        };
        context.notify(match failure {
            Some(failure) => Notice::Failed { id, failure },
            None => Notice::Ended { id },
        });
        self.transition(context, "finished by the sender", |_| State::Over);
    }
}
