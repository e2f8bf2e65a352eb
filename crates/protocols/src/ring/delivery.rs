//! Delivery in order: records out of packets, safe messages held back, the end of a configuration.

use alloc::vec;
use alloc::vec::Vec;

use groupcast_core::{Delivery, Event, MemberId, MessageId, OrderPlace, Service};

use super::indices::Indices;
use super::numbers::Seq;
use super::ordering::Ordering;
use super::packing::{Record, Unpacker};
use super::wire::Packet;

/// How far delivery has come in one ring.
#[derive(Debug)]
pub(super) struct Cursor {
    /// The packet that is being delivered.
    seq: Seq,
    /// How far into its body.
    at: usize,
    /// Messages that ended in it so far.
    index: u64,
    /// A safe message that must wait; it blocks all behind it (002 III-B).
    blocked: Option<Record>,
    /// One for each member.
    unpackers: Vec<Unpacker>,
    message_max: usize,
    /// Packets of members whose records did not decode: a peer's bug.
    pub(super) malformed: u64,
}

impl Cursor {
    pub(super) fn new(start: Seq, members: usize, message_max: usize) -> Self {
        Self {
            seq: start.next(),
            at: 0,
            index: 0,
            blocked: None,
            unpackers: vec![Unpacker::default(); members],
            message_max,
            malformed: 0,
        }
    }

    /// All packets up to here are delivered.
    pub(super) fn delivered(&self) -> Seq {
        self.seq.before()
    }

    pub(super) fn step(&mut self) {
        self.seq = self.seq.next();
        self.at = 0;
        self.index = 0;
    }
}

impl Ordering {
    /// Delivers what can be: in order, up to the first gap or the first safe message that is not
    /// safe yet.
    pub(super) fn deliver(&mut self, emit: &mut impl FnMut(Event)) {
        let mut horizon = self.safe;
        self.plants.safe_horizon(&mut horizon);
        self.deliver_to(horizon, emit);
        while self.plants.skips_gap(self) {
            self.deliver_to(horizon, emit);
        }
    }

    /// The same with safe messages up to `horizon`.
    fn deliver_to(&mut self, horizon: Seq, emit: &mut impl FnMut(Event)) {
        while self.window.get(self.cursor.seq).is_some() && self.deliver_packet(horizon, emit) {}
    }

    /// Passes packets that belong to an old ring, where they are delivered, and forgets what all
    /// hold: while a ring forms, nothing of its own is delivered.
    pub(super) fn skip_recovered(&mut self) {
        let recovered = |packet: &Packet| packet.recovered.is_some();
        while self.window.get(self.cursor.seq).is_some_and(recovered) {
            self.cursor.step();
        }
        self.discard();
    }

    /// Delivers the packet under the cursor and moves on; false if a safe message must wait.
    fn deliver_packet(&mut self, horizon: Seq, emit: &mut impl FnMut(Event)) -> bool {
        let cursor = &mut self.cursor;
        let Some(packet) = self.window.get(cursor.seq) else {
            return false;
        };
        if packet.recovered.is_some() {
            // It belongs to an old ring, where it is delivered.
            cursor.step();
            return true;
        }
        let sender = self.members[packet.origin.at()];
        let unpacker = &mut cursor.unpackers[packet.origin.at()];
        loop {
            let record = match cursor.blocked.take() {
                Some(record) => record,
                None => match unpacker.next(&packet.body, &mut cursor.at, cursor.message_max) {
                    Ok(Some(record)) => record,
                    Ok(None) => break,
                    Err(_) => {
                        cursor.malformed += 1;
                        break;
                    }
                },
            };
            if record.service == Service::Safe && cursor.seq > horizon {
                cursor.blocked = Some(record);
                return false;
            }
            let place = OrderPlace {
                config: self.id,
                seq: (cursor.seq.0 << 16) | cursor.index.min(0xffff),
            };
            cursor.index += 1;
            // A large unreliable message rides on the ring; its users are promised no place all the
            // same.
            let place = (record.service != Service::Unreliable).then_some(place);
            emit(delivery(sender, record, place));
        }
        cursor.step();
        true
    }

    /// The rest of the regular configuration, at its end: up to the first gap, or the first safe
    /// message that no member of the transitional configuration knows to be safe (`horizon`: the
    /// highest safe mark among them).
    pub(super) fn deliver_regular_end(&mut self, horizon: Seq, emit: &mut impl FnMut(Event)) {
        self.safe = self.safe.max(horizon);
        self.deliver_to(self.safe, emit);
    }

    /// The messages of the transitional configuration: all that are held, in order; behind the
    /// first gap only those of members in `bound`, which cannot depend on what is missing (EVS;
    /// Totem's deliver-to-originators rule).
    pub(super) fn deliver_transitional(
        &mut self,
        mut bound: Indices,
        emit: &mut impl FnMut(Event),
    ) {
        self.plants.bound_behind_gap(&mut bound);
        let mut behind_gap = false;
        while self.cursor.seq <= self.window.high() {
            let origin = self.window.get(self.cursor.seq).map(|packet| packet.origin);
            let deliver = match origin {
                None => {
                    behind_gap = true;
                    false
                }
                Some(origin) => !behind_gap || bound.contains(origin),
            };
            if deliver {
                self.deliver_packet(Seq::MAX, emit);
            } else {
                self.cursor.blocked = None;
                self.cursor.step();
            }
        }
    }
}

/// The event of a delivered record.
pub(super) fn delivery(sender: MemberId, record: Record, place: Option<OrderPlace>) -> Event {
    let Record {
        service,
        number,
        payload,
    } = record;
    Event::Deliver(Delivery {
        id: MessageId { sender, number },
        service,
        place,
        payload,
    })
}
