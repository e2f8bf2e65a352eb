//! Delivery: records out of packets, in the order and by the rules of
//! [`core::mech::delivery`](groupcast_core::mech::delivery).

use alloc::vec;
use alloc::vec::Vec;

use groupcast_core::mech::delivery::{Cursor, Held};
use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::marks::{Horizons, MarkTable, majority};
use groupcast_core::{ConfigId, Event, MemberId, OrderPlace, Service};

use super::numbers::{Index, Seq, Window};
use super::ordering::Ordering;
use super::wire::Packet;
use crate::packing::{Record, Unpacker, refused};

/// The senders' streams of records in one ring, as far as they are delivered.
#[derive(Debug)]
pub(super) struct Streams {
    /// One for each member.
    unpackers: Vec<Unpacker>,
    message_max: usize,
    /// Packets of members whose records did not decode: a peer's bug.
    pub(super) malformed: u64,
}

impl Streams {
    pub(super) fn new(members: usize, message_max: usize) -> Self {
        Self {
            unpackers: vec![Unpacker::default(); members],
            message_max,
            malformed: 0,
        }
    }

    /// The next record that ends in `packet` behind `at`.
    fn next(&mut self, packet: &Packet, at: &mut usize) -> Option<Record> {
        let unpacker = &mut self.unpackers[packet.origin.at()];
        let record = unpacker.next(&packet.body, at, self.message_max);
        record.unwrap_or_else(|_| {
            self.malformed += 1;
            None
        })
    }
}

/// The packets of a ring on their way to its user.
struct Packets<'a, E> {
    id: ConfigId,
    members: &'a [MemberId],
    window: &'a Window,
    streams: &'a mut Streams,
    /// Messages that a majority must hold are not delivered but reported as lost.
    minority: bool,
    emit: &'a mut E,
}

impl<E: FnMut(Event)> Held for Packets<'_, E> {
    type Message = Record;

    fn origin(&self, seq: Seq) -> Option<Index> {
        self.window.get(seq).map(|packet| packet.origin)
    }

    fn next(&mut self, seq: Seq, at: &mut usize) -> Option<Record> {
        // A recovered packet belongs to an old ring, where it is delivered.
        let packet = self.window.get(seq).filter(|it| it.recovered.is_none())?;
        self.streams.next(packet, at)
    }

    fn service(record: &Record) -> Service {
        record.service
    }

    // Called once, for every message: a call of its own would copy the record twice.
    #[inline(always)]
    fn deliver(&mut self, seq: Seq, index: u64, origin: Index, record: Record) {
        let sender = self.members[origin.at()];
        if self.minority && record.service == Service::Majority {
            return (self.emit)(refused(sender, record.number));
        }
        // A large unreliable message rides on the ring; its users are promised no place all the
        // same.
        let place =
            (record.service != Service::Unreliable).then(|| OrderPlace::new(self.id, seq.0, index));
        (self.emit)(record.delivered(sender, place));
    }
}

impl Ordering {
    /// Delivers what can be: in order, up to the first gap or the first safe message that is not
    /// safe yet.
    pub(super) fn deliver(&mut self, emit: &mut impl FnMut(Event)) {
        let mut safe = self.safe;
        self.plants.safe_horizon(&mut safe);
        self.deliver_to(safe, emit);
        while self.plants.skips_gap(self) {
            self.deliver_to(safe, emit);
        }
    }

    /// The same with safe messages up to `safe`.
    fn deliver_to(&mut self, safe: Seq, emit: &mut impl FnMut(Event)) {
        let minority = self.is_minority();
        let (max_n, plants) = (self.max_n, self.plants);
        let (cursor, marks, mut packets) = self.packets(minority, emit);
        let horizons = Horizons { safe, marks, max_n };
        cursor.deliver(&mut packets, |service| {
            horizons.of_delivery(plants.held_by(service))
        });
    }

    /// Passes packets that belong to an old ring, where they are delivered, and forgets what all
    /// hold: while a ring forms, nothing of its own is delivered.
    pub(super) fn skip_recovered(&mut self) {
        let recovered = |packet: &Packet| packet.recovered.is_some();
        while self.window.get(self.cursor.next()).is_some_and(recovered) {
            self.cursor.step();
        }
        self.discard();
    }

    /// The rest of the regular configuration, at its end: up to the first gap, or the first safe
    /// message that no member of the transitional configuration knows to be safe (`horizon`: the
    /// highest safe mark among them).
    pub(super) fn deliver_regular_end(&mut self, horizon: Seq, emit: &mut impl FnMut(Event)) {
        self.safe = self.safe.max(horizon);
        self.deliver_to(self.safe, emit);
    }

    /// The messages of the transitional configuration, which has `along` members: behind a gap only
    /// those of members in `bound`, and no majority message, unless those members are a majority of
    /// the most that there were without those that `left`.
    pub(super) fn deliver_transitional(
        &mut self,
        mut bound: Indices,
        along: usize,
        left: &[MemberId],
        emit: &mut impl FnMut(Event),
    ) {
        self.plants.bound_behind_gap(&mut bound);
        let high = self.window.high();
        let minority = along < majority(self.without(self.max_n, left));
        let (cursor, _, mut packets) = self.packets(minority, emit);
        cursor.deliver_transitional(&mut packets, bound, high);
    }

    /// The cursor, what it stops at, and what it goes along.
    fn packets<'a, E: FnMut(Event)>(
        &'a mut self,
        minority: bool,
        emit: &'a mut E,
    ) -> (&'a mut Cursor<Record>, &'a MarkTable, Packets<'a, E>) {
        let packets = Packets {
            id: self.id,
            members: &self.members,
            window: &self.window,
            streams: &mut self.streams,
            minority,
            emit,
        };
        (&mut self.cursor, &self.marks, packets)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ring::numbers::Round;
    use crate::ring::ordering::tests::order;
    use crate::ring::wire::Recovered;

    fn packet(body: &'static [u8], recovered: Option<Seq>) -> Packet {
        let origin = Index(0);
        Packet {
            origin,
            round: Round::default(),
            recovered: recovered.map(|seq| Recovered {
                seq,
                origin,
                part: None,
            }),
            body: Bytes::from_static(body),
        }
    }

    /// Service, number, length, payload.
    const RECORD: &[u8] = &[4, 1, 1, b'x'];

    fn numbers(ring: &mut Ordering) -> Vec<u64> {
        let mut places = Vec::new();
        ring.deliver(&mut |event| {
            if let Event::Deliver(delivery) = event {
                places.extend(delivery.place.map(|place| place.seq));
            }
        });
        places
    }

    #[test]
    fn a_packet_of_an_old_ring_is_passed_and_not_delivered() {
        let mut ring = order(3, 1);
        ring.window.insert(Seq(101), packet(RECORD, Some(Seq(7))));
        ring.window.insert(Seq(102), packet(RECORD, None));
        assert_eq!(numbers(&mut ring).len(), 1);
        assert_eq!(ring.cursor.delivered(), Seq(102));
    }

    #[test]
    fn while_a_ring_forms_its_cursor_passes_old_packets_only_and_lets_go_of_them() {
        let mut ring = order(3, 1);
        for seq in 101..=103 {
            ring.window.insert(Seq(seq), packet(RECORD, Some(Seq(7))));
        }
        ring.window.insert(Seq(104), packet(RECORD, None));
        ring.safe = Seq(102);
        ring.skip_recovered();
        assert_eq!(ring.cursor.delivered(), Seq(103));
        assert_eq!(ring.window.discarded(), Seq(102));
    }

    #[test]
    fn a_packet_that_is_no_row_of_records_is_counted_and_holds_nothing_up() {
        let mut ring = order(3, 1);
        ring.window.insert(Seq(101), packet(&RECORD[..1], None));
        ring.window.insert(Seq(102), packet(RECORD, None));
        assert_eq!(numbers(&mut ring).len(), 1);
        assert_eq!(ring.streams.malformed, 1);
    }
}
