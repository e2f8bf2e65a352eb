//! Data and parity on their way in: what is taken, what is restored, and what the user is given.

use bytes::Bytes;

use super::super::context::Context;
use super::super::numbers::PacketNumber;
use super::super::transfer::{Notice, Opening};
use super::super::wire::{Data, DataHeader, Purpose};
use super::Receiver;
use super::store::{Piece, Place, Store, Taken};

impl Receiver {
    pub(super) fn handle_data(&mut self, context: &mut Context<'_>, data: Data) {
        let given_up = self.has_given_up();
        let Some(store) = self.state.store_mut() else {
            return;
        };
        if given_up {
            if data.header.answer {
                self.report(context, Purpose::Acknowledge, true);
            }
            return;
        }
        let Data { header, body } = data;
        context.counters.packets_received += 1;
        self.received += 1;
        if header.stamp > self.seen {
            self.seen = header.stamp;
            self.from_arrival = header.from_arrival;
            self.seen_at = match header.from_arrival {
                // What it waited in this host is no delay of the network.
                true => context.arrived,
                false => context.now,
            };
        }
        if let Some(index) = header.parity {
            self.handle_parity(context, header, index, body);
            return;
        }
        let before = store.next();
        let kept = self.blocks.as_ref().map(|_| body.clone());
        let place = Place {
            number: header.number,
            last: header.last,
            ends: header.ends,
        };
        let taken = store.take(place, self.announce.go_back, body);
        let possible = store
            .packets()
            .is_none_or(|packets| header.number < packets);
        if possible {
            self.top = self.top.max(header.number + 1);
        }
        match taken {
            Taken::New => {}
            Taken::Duplicate => context.counters.duplicates += 1,
            Taken::Refused => context.counters.refused += 1,
        }
        if let (Taken::New, Some(blocks), Some(body)) = (taken, &mut self.blocks, kept) {
            blocks.keep(header.number, body);
        }
        if taken == Taken::New {
            self.restore(context, header.number);
        }
        if let Some(kept) = header.kept_from() {
            self.look_for_outrun(context, kept);
        }
        let answer = header.answer.then_some(header);
        self.acknowledge(context, taken == Taken::New, before, answer);
        self.hand_over(context);
        self.ask_for_missing(context);
    }

    pub(super) fn handle_parity(
        &mut self,
        context: &mut Context<'_>,
        header: DataHeader,
        index: u16,
        body: Bytes,
    ) {
        let (Some(store), Some(blocks)) = (self.state.store(), &mut self.blocks) else {
            return;
        };
        let before = store.next();
        let end = header.number + blocks.size();
        let end = store.packets().unwrap_or(PacketNumber::MAX).min(end);
        if !store.has_all(header.number..end) {
            blocks.keep_parity(header.number, index, body);
            // Parity comes when all of its block was sent.
            self.top = self.top.max(end);
        }
        let restored = self.restore(context, header.number);
        let answer = header.answer.then_some(header);
        self.acknowledge(context, restored, before, answer);
        self.hand_over(context);
        self.ask_for_missing(context);
    }

    /// Restores what is missing of the block that `number` is in, if that can be done now; whether
    /// it was.
    pub(super) fn restore(&mut self, context: &mut Context<'_>, number: PacketNumber) -> bool {
        let (Some(store), Some(blocks)) = (self.state.store_mut(), &mut self.blocks) else {
            return false;
        };
        let first = number.block_start(blocks.size());
        let packets = store.packets().unwrap_or(PacketNumber::MAX);
        let count = packets.distance_from(first).min(blocks.size());
        let mut any = false;
        for (number, mut body) in blocks.restore(first, count as usize).unwrap_or_default() {
            // Where the length is not known yet, blocks with parity are of full packets.
            body.truncate(
                store
                    .len_of(number)
                    .unwrap_or(self.announce.packet as usize),
            );
            let place = Place {
                number,
                last: packets == number + 1,
                ends: false,
            };
            if store.take(place, false, body) == Taken::New {
                context.counters.packets_restored += 1;
                any = true;
            }
        }
        let complete = store.has_all(first..first + count);
        blocks.forget(store.next(), complete.then_some(first));
        any
    }

    /// Gives the user what is there, and says when that was all.
    pub(super) fn hand_over(&mut self, context: &mut Context<'_>) {
        let is_complete = self.state.store().is_some_and(Store::is_complete);
        if self.awaits_place() && (!is_complete || self.announce.named) {
            return;
        }
        let id = self.id;
        let below = self.delivers_below();
        self.tell_held(context);
        let Some(store) = self.state.store_mut() else {
            return;
        };
        while let Some(Piece {
            offset,
            bytes,
            ends,
        }) = store.pop(below)
        {
            context.notify(Notice::Data { id, offset, bytes });
            if ends {
                self.messages += 1;
                let number = self.messages;
                context.notify(Notice::MessageEnded { id, number });
            }
        }
        if store.is_complete() && store.held_back() == 0 && !self.is_received {
            self.is_received = true;
            let length = store.length().unwrap_or(0);
            context.notify(Notice::Received { id, length });
        }
    }

    /// The user is done with `bytes`.
    pub(in crate::bulk) fn consumed(&mut self, context: &mut Context<'_>, bytes: u64) {
        let Some(store) = self.state.store_mut() else {
            return;
        };
        store.consumed(bytes);
        if self.announce.messages == Some(Opening::Unanswered) {
            return;
        }
        // The sender learns of the room without having to ask.
        let store = self.state.store();
        if store.is_some_and(|store| self.has_room_to_report(store)) {
            self.report_room(context);
        }
    }
}
