//! The first phase (004 3.6.1), the message buffer, and delivery in each sender's order.

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Delivery, Destination, Event, Gap, MemberId, MessageId, Service};

use super::Gossip;
use super::senders::Met;
use super::stream::{Inserted, Next, SLOT_COST, Slot};
use super::wire::{Carries, DataHeader, NO_TREE};

impl Gossip {
    /// Spreads a new message of this member's own, and delivers it here.
    pub(super) fn disseminate(&mut self, id: MessageId, payload: Bytes) {
        let mut header = DataHeader {
            carries: Carries::Data,
            tree: NO_TREE,
            id,
        };
        match &mut self.trees {
            None => self
                .outbox
                .message(Destination::Group, header, payload.clone()),
            Some(trees) => {
                // 004 3.6.1: a randomly selected spanning tree; its identifier travels along.
                header.tree = self.rng.below(trees.len()) as u16;
                for neighbour in trees.neighbours(header.tree, self.local, &self.view) {
                    let to = Destination::Member(*neighbour);
                    self.outbox.message(to, header, payload.clone());
                }
            }
        }
        self.store(self.local, id, Carries::Data, payload);
        self.deliver(id.sender);
    }

    /// A message arrived, for the first time or again.
    pub(super) fn handle_data(&mut self, from: MemberId, header: DataHeader, payload: Bytes) {
        self.heard(from);
        let own = header.id.sender == self.local;
        if own && header.id.number <= self.outbox.submitted() {
            // Somebody multicast a repair of it.
            self.counters.duplicates += 1;
            return;
        }
        if own || payload.len() > self.config.message_max {
            self.counters.junk += 1;
            return;
        }
        match self.store(from, header.id, header.carries, payload.clone()) {
            Some(Inserted::New) => {
                if header.carries == Carries::Data && header.tree != NO_TREE {
                    self.forward(from, header, &payload);
                }
                self.deliver(header.id.sender);
            }
            Some(Inserted::Duplicate) => self.counters.duplicates += 1,
            Some(Inserted::Late) => self.counters.late += 1,
            Some(Inserted::Beyond) | None => self.counters.overflows += 1,
        }
    }

    /// Passes a message on along its tree.
    fn forward(&mut self, from: MemberId, header: DataHeader, payload: &Bytes) {
        let Some(trees) = &mut self.trees else {
            return;
        };
        for neighbour in trees.neighbours(header.tree, self.local, &self.view) {
            if *neighbour != from && *neighbour != header.id.sender {
                let to = Destination::Member(*neighbour);
                self.outbox.data(to, header, payload.clone());
            }
        }
    }

    /// Puts a message that came from `from` into the buffer; `None` if there is no room for it or
    /// for its sender.
    fn store(
        &mut self,
        from: MemberId,
        id: MessageId,
        carries: Carries,
        payload: Bytes,
    ) -> Option<Inserted> {
        let (round, doubted) = (self.round.number, self.doubted_for());
        if !self.streams.contains_key(&id.sender) {
            let number = id.number;
            let met = match carries {
                Carries::Data => Met::New { number },
                _ => Met::Hearsay {
                    lowest: number,
                    highest: number,
                },
            };
            self.follow(id.sender, met)?;
        }
        let stream = self.streams.get_mut(&id.sender)?;
        if from != id.sender {
            let is_taken = stream.takes(id.number, round, doubted);
            if stream.is_beyond(id.number) || !is_taken {
                // Its own word moves the stream at once; its next message may take long, and what
                // goes along a tree is not passed on until then.
                self.ask_if_known(id.sender);
                return Some(Inserted::Beyond);
            }
        } else if carries == Carries::Data {
            for mut slot in stream.came_from_sender(id.number, round) {
                self.held.discard(&mut slot);
            }
        }
        if let Some(slot) = stream.slot_mut(id.number) {
            if self.config.duplicate_resets {
                slot.born = round;
            }
            return Some(Inserted::Duplicate);
        }
        let len = payload.len();
        // What is delivered at once is taken in any case, and evicted by the next one: an own
        // message, and the one that others wait for.
        if stream.is_next(id.number) {
            while self.lacks_room(SLOT_COST + len) && self.evict_oldest() {}
        } else if !self.make_room(SLOT_COST + len) {
            return None;
        }
        let long_term = self
            .buffering
            .as_ref()
            .is_none_or(|rule| rule.is_bufferer(id, self.local, &self.view));
        let stream = self.streams.get_mut(&id.sender)?;
        let inserted = stream.insert(id.number, round, || Slot::new(payload, round, long_term));
        if inserted == Inserted::New {
            let held = &mut self.held;
            held.cost += SLOT_COST + len;
            held.bytes += len;
            held.messages += 1;
            held.long_term += usize::from(long_term);
            held.long_term_max = held.long_term_max.max(held.long_term);
        }
        Some(inserted)
    }

    /// Makes room for `cost` bytes in the buffer: the oldest delivered messages go. Where there are
    /// none, all that is held waits for others: the hole that was found first is given up. False if
    /// that does not help either.
    fn make_room(&mut self, cost: usize) -> bool {
        while self.lacks_room(cost) {
            if !self.evict_oldest() && !self.give_up_oldest_hole() {
                return false;
            }
        }
        true
    }

    fn lacks_room(&self, cost: usize) -> bool {
        self.held.cost + cost > self.config.buffer_max
    }

    fn evict_oldest(&mut self) -> bool {
        let oldest = self.streams.values_mut().filter_map(|stream| {
            let born = stream.evictable()?;
            Some((born, stream))
        });
        let Some((_, stream)) = oldest.min_by_key(|(born, _)| *born) else {
            return false;
        };
        let Some(mut slot) = stream.evict() else {
            return false;
        };
        self.held.discard(&mut slot);
        true
    }

    fn give_up_oldest_hole(&mut self) -> bool {
        let streams = self.streams.iter_mut();
        let blocked =
            streams.filter_map(|(sender, stream)| Some((stream.blocked()?, *sender, stream)));
        let Some((_, sender, stream)) = blocked.min_by_key(|(since, sender, _)| (*since, *sender))
        else {
            return false;
        };
        stream.give_up_first();
        self.deliver(sender);
        true
    }

    /// Tells the user what comes next of a sender: messages in order, gaps in their place.
    pub(super) fn deliver(&mut self, sender: MemberId) {
        let Some(stream) = self.streams.get_mut(&sender) else {
            return;
        };
        let mut delivered: Vec<u64> = Vec::new();
        let short_term = self.config.hash.as_ref().map(|hash| hash.short_term);
        while let Some(next) = stream.next() {
            match next {
                Next::Deliver(number, payload) => {
                    if short_term == Some(0) {
                        delivered.push(number);
                    }
                    self.events.push_back(Event::Deliver(Delivery {
                        id: MessageId { sender, number },
                        service: Service::Fifo,
                        place: None,
                        payload,
                    }));
                }
                Next::Gap(first, last) => {
                    self.counters.gaps += last - first + 1;
                    self.events.push_back(Event::Gap(Gap {
                        sender,
                        first,
                        last,
                    }));
                }
            }
        }
        // Without a short-term buffer only bufferers keep what was delivered (004 7.2).
        for number in delivered {
            if let Some(slot) = stream.slot_mut(number)
                && !slot.long_term
            {
                self.held.release(slot);
            }
        }
    }
}

impl super::Held {
    /// Lets go of a payload; who the message was stays known.
    pub(super) fn release(&mut self, slot: &mut Slot) {
        if let Some(payload) = slot.payload.take() {
            self.cost -= payload.len();
            self.bytes -= payload.len();
            self.messages -= 1;
            self.long_term -= usize::from(slot.long_term);
        }
    }

    /// An entry is forgotten.
    pub(super) fn discard(&mut self, slot: &mut Slot) {
        self.release(slot);
        self.cost -= SLOT_COST;
    }
}
