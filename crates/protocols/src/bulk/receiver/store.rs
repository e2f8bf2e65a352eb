//! What a receiver holds of a stream: which packets, those that wait for their place, and the room
//! for more.

use alloc::collections::{BTreeMap, VecDeque};
use core::ops::Range;

use bytes::Bytes;

use super::super::numbers::{PacketNumber, Packets};
use super::super::ranges::RangeSet;
use super::super::transfer::{Acceptance, Order};

/// A packet in memory counts as at least this many bytes: many small ones cost more than their
/// bytes.
pub(super) const PACKET_COST: usize = 256;

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// It is new.
    New,
    /// It was here before.
    Duplicate,
    /// There is no room for it, it is out of order where order is asked for, or it is no packet of
    /// this stream.
    Refused,
}

/// Which packet of the stream it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) number: PacketNumber,
    /// The stream ends with it.
    pub(super) last: bool,
    /// A message ends with it.
    pub(super) ends: bool,
}

/// Bytes for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) bytes: Bytes,
    /// A message ends with them.
    pub(super) ends: bool,
}

/// The packets of one stream at one receiver.
#[derive(Debug)]
pub(super) struct Store {
    packet: u64,
    /// Of a stream of messages, the lengths of the pieces that were handed over and are not
    /// consumed. Each counts as a whole packet, however short it is.
    messages: Option<VecDeque<u64>>,
    /// Of that stream: bytes that are consumed of the first of them.
    consumed: u64,
    /// Bytes of the stream, once they are known.
    length: Option<u64>,
    order: Order,
    buffer_max: u64,
    held: RangeSet<PacketNumber>,
    /// What was held before the transfer, and is not handed over.
    before: RangeSet<PacketNumber>,
    /// In order: packets that wait for those before them.
    early: BTreeMap<PacketNumber, Piece>,
    early_bytes: u64,
    /// In order: all packets below were handed over.
    handed: PacketNumber,
    /// Bytes that were handed over and are not consumed.
    unconsumed: u64,
    ready: VecDeque<Piece>,
    /// The lowest packet that is missing.
    next: PacketNumber,
}

impl Store {
    /// Gaps that are looked at to find what has a place; more are unusual, and cost speed only.
    const GAPS_MAX: usize = 4096;
    /// Ranges of packets that are held, with gaps between them. A packet that would be one more is
    /// refused, and sent again when there are fewer gaps.
    const RANGES_MAX: usize = 1 << 16;
    /// This many packets have room however small they are.
    const PACKETS_MIN: u64 = 64;

    pub(super) fn new(
        packet: u32,
        length: Option<u64>,
        buffer_max: usize,
        acceptance: &Acceptance,
    ) -> Self {
        let packet = u64::from(packet);
        // Ranges that touch share a packet: they are joined as bytes first.
        let mut bytes = RangeSet::default();
        for range in &acceptance.held {
            bytes.insert(range.clone());
        }
        let mut before = RangeSet::default();
        for Range { start, end } in bytes.iter() {
            // Whole packets only; the end of the stream ends a packet too.
            let ends = length.is_some_and(|length| end >= length);
            let end = if ends {
                PacketNumber::end_of(end, packet)
            } else {
                PacketNumber(end / packet)
            };
            before.insert(PacketNumber(start.div_ceil(packet))..end);
        }
        if let Some(length) = length {
            before.remove(PacketNumber::end_of(length, packet)..PacketNumber::MAX);
        }
        Self {
            packet,
            messages: None,
            consumed: 0,
            length,
            order: acceptance.order,
            buffer_max: (buffer_max as u64)
                .min(packet * (buffer_max / PACKET_COST) as u64)
                .max(packet * Self::PACKETS_MIN.min(buffer_max as u64 / packet)),
            next: before.first_missing(PacketNumber::ZERO),
            held: before.clone(),
            before,
            early: BTreeMap::new(),
            early_bytes: 0,
            handed: PacketNumber::ZERO,
            unconsumed: 0,
            ready: VecDeque::new(),
        }
    }

    /// The same for a stream of messages, which are handed over in their order, and of which
    /// nothing is here before.
    pub(super) fn of_messages(packet: u32, buffer_max: usize) -> Self {
        let acceptance = Acceptance::in_order(Bytes::new());
        Self {
            messages: Some(VecDeque::new()),
            ..Self::new(packet, None, buffer_max, &acceptance)
        }
    }

    /// Of messages of which none was handed over: begins with packet `place`, which is above the
    /// lowest that is missing, and forgets what comes before it.
    pub(super) fn begin_at(&mut self, place: PacketNumber) {
        debug_assert!(place > self.next, "it misses what lies before the place");
        self.ready.clear();
        self.messages = Some(VecDeque::new());
        self.unconsumed = 0;
        self.early = self.early.split_off(&place);
        self.early_bytes = self.early.values().map(|piece| self.cost(piece)).sum();
        self.held.insert(PacketNumber::ZERO..place);
        self.next = self.held.first_missing(place);
        self.handed = place;
        self.hand_over_in_order();
    }

    /// Takes a packet. With `in_order`, only the next one.
    pub(super) fn take(&mut self, place: Place, in_order: bool, body: Bytes) -> Taken {
        let Place { number, last, ends } = place;
        let len = body.len() as u64;
        if self.held.contains(number) {
            return Taken::Duplicate;
        }
        if !self.fits(place, len) || in_order && number != self.next {
            return Taken::Refused;
        }
        let room = match self.order {
            Order::InOrder => number < self.limit(PacketNumber::ZERO),
            // Beyond the buffer, what the user cannot be done with before the missing packets have
            // come still leaves each of those its place: memory is bounded by twice the buffer.
            Order::AsTheyCome => self.unconsumed + len <= self.buffer_max || self.has_place(number),
        };
        let is_lone = number != self.next && !self.held.touches(number);
        if !room || is_lone && self.held.ranges() >= Self::RANGES_MAX {
            return Taken::Refused;
        }
        if last {
            let end = match self.messages {
                Some(_) => (number + 1).offset(self.packet),
                None => number.offset(self.packet) + len,
            };
            self.end_at(end);
        }
        let offset = number.offset(self.packet);
        self.held.insert(number..number + 1);
        if number == self.next {
            self.next = self.held.first_missing(number);
        }
        match self.order {
            Order::AsTheyCome => self.hand_over(Piece {
                offset,
                bytes: body,
                ends,
            }),
            Order::InOrder => {
                // What waits is copied: a slice would keep all of the memory that was received with
                // it.
                let bytes = match number == self.handed {
                    true => body,
                    false => Bytes::copy_from_slice(&body),
                };
                let piece = Piece {
                    offset,
                    bytes,
                    ends,
                };
                self.early_bytes += self.cost(&piece);
                self.early.insert(number, piece);
                self.hand_over_in_order();
            }
        }
        Taken::New
    }

    /// Bytes of packet `number`, if that is known.
    pub(super) fn len_of(&self, number: PacketNumber) -> Option<usize> {
        let start = number.0.checked_mul(self.packet)?;
        let left = self.length?.checked_sub(start)?;
        Some(left.min(self.packet) as usize)
    }

    /// Whether a packet of `len` bytes can have this place in the stream.
    fn fits(&self, place: Place, len: u64) -> bool {
        let Place { number, last, ends } = place;
        if !number.is_countable(self.packet) {
            return false;
        }
        let start = number.offset(self.packet);
        if self.messages.is_some() {
            let is_whole = len == self.packet || ends && len < self.packet;
            let is_in_time = self.length.is_none_or(|length| start < length);
            return is_whole && is_in_time && (!last || self.held.end() <= number + 1);
        }
        match self.length {
            Some(length) => start < length && len == self.packet.min(length - start),
            None if last => len > 0 && len <= self.packet && self.held.end() <= number + 1,
            None => len == self.packet,
        }
    }

    /// The stream has `length` bytes, as its sender has learnt. Nothing changes if that cannot be.
    pub(super) fn end_at(&mut self, length: u64) {
        if self.length.is_none() && self.held.end() <= PacketNumber::end_of(length, self.packet) {
            self.length = Some(length);
        }
    }

    /// What a piece counts for in memory.
    fn cost(&self, piece: &Piece) -> u64 {
        match self.messages {
            Some(_) => self.packet,
            None => piece.bytes.len() as u64,
        }
    }

    /// Whether this many packets more have room, in whatever order.
    pub(super) fn room_for(&self, packets: u64) -> bool {
        self.buffered() + packets * self.packet <= self.buffer_max
    }

    /// Hands over a message, whatever is missing before it.
    pub(super) fn give(&mut self, message: impl IntoIterator<Item = Piece>) {
        for piece in message {
            self.hand_over(piece);
        }
    }

    fn hand_over(&mut self, piece: Piece) {
        self.unconsumed += self.cost(&piece);
        if let Some(messages) = &mut self.messages {
            messages.push_back(piece.bytes.len() as u64);
        }
        self.ready.push_back(piece);
    }

    fn hand_over_in_order(&mut self) {
        loop {
            if let Some(piece) = self.early.remove(&self.handed) {
                self.early_bytes -= self.cost(&piece);
                self.hand_over(piece);
                self.handed = self.handed + 1;
            } else if let Some(range) = self.before.range_with(self.handed) {
                self.handed = range.end;
            } else {
                return;
            }
        }
    }

    /// The next bytes for the user that end no later than byte `below`. Costs as much as is held
    /// back.
    pub(super) fn pop(&mut self, below: u64) -> Option<Piece> {
        let fits = |piece: &Piece| piece.offset + piece.bytes.len() as u64 <= below;
        let at = self.ready.iter().position(fits)?;
        self.ready.remove(at)
    }

    /// Bytes that wait for the user, or for those before them.
    pub(super) fn held_back(&self) -> u64 {
        let ready = self.ready.iter().map(|piece| piece.bytes.len() as u64);
        ready.sum::<u64>() + self.early_bytes
    }

    /// The user is done with `bytes` that were handed over; of messages, with a piece when it is
    /// done with all of its bytes, and with an empty one when it says anything after it.
    pub(super) fn consumed(&mut self, bytes: u64) {
        let Some(messages) = &mut self.messages else {
            self.unconsumed = self.unconsumed.saturating_sub(bytes);
            return;
        };
        self.consumed += bytes;
        while let Some(len) = messages.pop_front_if(|len| *len <= self.consumed) {
            self.consumed -= len;
            self.unconsumed -= self.packet;
        }
        if messages.is_empty() {
            self.consumed = 0;
        }
    }

    /// Whether a packet is held.
    pub(super) fn has(&self, number: PacketNumber) -> bool {
        self.held.contains(number)
    }

    /// Whether all packets of a range are held.
    pub(super) fn has_all(&self, range: Packets) -> bool {
        let held = self.held.range_with(range.start);
        range.is_empty() || held.is_some_and(|held| held.end >= range.end)
    }

    /// The lowest packet that is missing.
    pub(super) fn next(&self) -> PacketNumber {
        self.next
    }

    /// There is room for packets below this one; `top` is one past the highest that was seen.
    pub(super) fn limit(&self, top: PacketNumber) -> PacketNumber {
        match self.order {
            Order::AsTheyCome => top.max(self.next) + self.room(),
            // Every missing packet below the limit has its place reserved: what comes early never
            // fills the place of what it waits for.
            Order::InOrder => self.limit_of_missing(self.room()),
        }
    }

    /// The same where only what is missing is sent: those below this packet have a place.
    pub(super) fn limit_of_places(&self) -> PacketNumber {
        match self.order {
            Order::AsTheyCome => self.limit_of_missing(self.places()),
            Order::InOrder => self.limit_of_missing(self.room()),
        }
    }

    /// Packets for which the buffer has room.
    fn room(&self) -> u64 {
        self.buffer_max.saturating_sub(self.buffered()) / self.packet
    }

    /// Missing packets, lowest first, that have a place whatever else comes. A user may be done
    /// with none of what it has before it has these (a chunk of a file with a gap), so their places
    /// are as many again as the buffer has.
    fn places(&self) -> u64 {
        (2 * self.buffer_max).saturating_sub(self.buffered()) / self.packet
    }

    /// The lowest `room` missing packets are below this one.
    fn limit_of_missing(&self, mut room: u64) -> PacketNumber {
        let mut limit = self.next;
        for gap in self.held.gaps(PacketNumber::MAX).take(Self::GAPS_MAX) {
            let missing = gap.end - gap.start;
            if missing >= room {
                return gap.start + room;
            }
            room -= missing;
            limit = gap.end;
        }
        limit
    }

    /// Whether a packet that is missing is one of those that have a place.
    fn has_place(&self, number: PacketNumber) -> bool {
        let gaps = self.held.gaps(number + 1).take(Self::GAPS_MAX + 1);
        let (count, missing) = gaps.fold((0, 0), |(count, missing), gap| {
            (count + 1, missing + (gap.end - gap.start))
        });
        count <= Self::GAPS_MAX && missing <= self.places()
    }

    /// Packets that fit into an empty buffer.
    pub(super) fn buffer(&self) -> u64 {
        self.buffer_max / self.packet
    }

    /// The packets below `below` that are missing, lowest first.
    pub(super) fn missing(&self, below: PacketNumber) -> impl Iterator<Item = Packets> + '_ {
        self.held.gaps(below)
    }

    /// Whether all that is missing below `below` lies in `gaps`, which are in their order. They may
    /// come from others: it costs as much as there are of them, however many are missing here.
    pub(super) fn misses_only<'a>(
        &self,
        gaps: impl IntoIterator<Item = &'a Packets>,
        below: PacketNumber,
    ) -> bool {
        let mut at = PacketNumber::ZERO;
        for gap in gaps {
            if !self.has_all(at..gap.start.min(below)) {
                return false;
            }
            at = gap.end;
        }
        self.has_all(at..below)
    }

    /// One past the highest packet that is held.
    pub(super) fn end(&self) -> PacketNumber {
        self.held.end()
    }

    /// Packets of the stream, once its length is known.
    pub(super) fn packets(&self) -> Option<PacketNumber> {
        let length = self.length?;
        Some(PacketNumber::end_of(length, self.packet))
    }

    /// Bytes of the stream, once they are known.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Whether nothing is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.packets().is_some_and(|packets| self.next >= packets)
    }

    /// Bytes that are in memory for the user.
    pub(super) fn buffered(&self) -> u64 {
        self.unconsumed + self.early_bytes
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn store(length: Option<u64>, buffer: usize, order: Order, held: Vec<Range<u64>>) -> Store {
        Store::new(
            10,
            length,
            buffer,
            &Acceptance {
                held,
                order,
                name: Bytes::new(),
            },
        )
    }

    fn at(number: u64) -> Place {
        Place {
            number: PacketNumber(number),
            last: false,
            ends: false,
        }
    }

    fn last(number: u64) -> Place {
        Place {
            last: true,
            ..at(number)
        }
    }

    fn packet(number: u64, length: u64) -> Bytes {
        let len = 10.min(length - number * 10);
        Bytes::from(vec![number as u8; len as usize])
    }

    proptest! {
        /// Any order of arrival with repeats: in order every byte once, in order; as they come
        /// every byte once.
        #[test]
        fn every_byte_is_handed_over_once(arrivals in prop::collection::vec(0u64..12, 0..60), in_order: bool) {
            let length = 115;
            let order = if in_order { Order::InOrder } else { Order::AsTheyCome };
            let mut store = store(Some(length), 1000, order, vec![20..33, 33..47]);
            let mut handed = vec![0u32; length as usize];
            let mut reached = 0;
            for number in arrivals.into_iter().chain(0..12) {
                store.take(at(number), false, packet(number, length));
                while let Some(Piece { offset, bytes, .. }) = store.pop(u64::MAX) {
                    prop_assert!(!in_order || offset >= reached);
                    reached = offset + bytes.len() as u64;
                    for index in offset..reached {
                        handed[index as usize] += 1;
                    }
                }
            }
            prop_assert!(store.is_complete());
            let held = 20..40;
            prop_assert!((0..length).all(|at| handed[at as usize] == u32::from(!held.contains(&at))));
        }
    }

    #[test]
    fn what_comes_early_leaves_room_for_what_it_waits_for() {
        let mut store = store(Some(1000), 40, Order::InOrder, Vec::new());
        assert_eq!(store.limit(PacketNumber::ZERO), PacketNumber(4));
        for number in [1, 2, 3] {
            assert_eq!(
                store.take(at(number), false, packet(number, 1000)),
                Taken::New
            );
        }
        assert_eq!(store.take(at(4), false, packet(4, 1000)), Taken::Refused);
        assert_eq!(store.take(at(0), false, packet(0, 1000)), Taken::New);
        assert_eq!(
            (store.limit(PacketNumber::ZERO), store.buffered()),
            (PacketNumber(4), 40)
        );
        store.consumed(20);
        assert_eq!(store.limit(PacketNumber::ZERO), PacketNumber(6));
    }

    #[test]
    fn packets_far_apart_and_very_small_ones_take_bounded_memory() {
        let mut far = store(None, 1 << 30, Order::AsTheyCome, Vec::new());
        let mut held = 0;
        for number in 1..200_000 {
            let taken = far.take(at(number * 1000), false, packet(0, 1000));
            held += usize::from(taken == Taken::New);
            far.pop(u64::MAX);
            far.consumed(10);
        }
        assert_eq!(held, Store::RANGES_MAX);
        assert_eq!(far.take(at(0), false, packet(0, 1000)), Taken::New);
        assert_eq!(far.take(at(1), false, packet(0, 1000)), Taken::New);

        let mut small = store(None, 1 << 20, Order::AsTheyCome, Vec::new());
        let taken = (0..1 << 20)
            .filter(|number| small.take(at(*number), false, packet(0, 1000)) == Taken::New);
        assert_eq!(taken.count(), 2 * (1 << 20) / PACKET_COST);
    }

    #[test]
    fn packets_that_cannot_be_of_this_stream_are_refused() {
        let mut store = store(Some(25), 1000, Order::InOrder, Vec::new());
        assert_eq!(
            store.take(at(3), false, Bytes::from_static(b"x")),
            Taken::Refused
        );
        assert_eq!(
            store.take(at(2), false, Bytes::from_static(b"1234567890")),
            Taken::Refused
        );
        assert_eq!(
            store.take(last(2), false, Bytes::from_static(b"12345")),
            Taken::New
        );
        assert_eq!(
            store.take(at(PacketNumber::END.0), false, Bytes::from_static(b"x")),
            Taken::Refused
        );
    }

    #[test]
    fn an_open_stream_ends_with_its_last_packet() {
        let mut store = store(None, 1000, Order::InOrder, Vec::new());
        store.take(at(0), false, packet(0, 1000));
        assert!(!store.is_complete());
        store.take(last(1), false, Bytes::from_static(b"end"));
        assert_eq!((store.is_complete(), store.length()), (true, Some(13)));
    }

    proptest! {
        /// Against the naive model, packet by packet. Gaps of others may touch each other.
        #[test]
        fn what_another_misses_is_compared_with_what_is_missing_here(
            held in prop::collection::btree_set(0u64..40, 0..40),
            lengths in prop::collection::vec((0u64..4, 1u64..6), 0..12),
            below in 0u64..45,
        ) {
            let mut store = store(Some(400), 1000, Order::AsTheyCome, Vec::new());
            for number in &held {
                store.take(at(*number), false, packet(*number, 400));
            }
            let mut end = PacketNumber::ZERO;
            let gaps: Vec<Packets> = lengths
                .into_iter()
                .map(|(distance, length)| {
                    let start = end + distance;
                    end = start + length;
                    start..end
                })
                .collect();
            let lies_in = |number: &u64| gaps.iter().any(|gap| gap.contains(&PacketNumber(*number)));
            let expected = (0..below).filter(|number| !held.contains(number)).all(|it| lies_in(&it));
            prop_assert_eq!(store.misses_only(&gaps, PacketNumber(below)), expected);
        }
    }

    #[test]
    fn of_the_gaps_of_another_each_is_looked_at_once_until_one_is_not_enough() {
        let length = 40_000;
        let mut store = store(Some(length), 1 << 20, Order::AsTheyCome, Vec::new());
        for number in (1..length / 10).step_by(2) {
            store.take(at(number), false, packet(number, length));
        }
        let end = PacketNumber(length / 10);
        let gaps: Vec<Packets> = store.missing(end).collect();
        assert_eq!(gaps.len(), 2_000);
        let mut looked = 0;
        assert!(store.misses_only(gaps.iter().inspect(|_| looked += 1), end));
        assert_eq!(looked, 2_000);
        // The second is not in the list.
        let others = gaps[..1].iter().chain(&gaps[2..]);
        let mut looked = 0;
        assert!(!store.misses_only(others.inspect(|_| looked += 1), end));
        assert_eq!(looked, 2);
    }

    #[test]
    fn messages_end_with_short_packets_and_come_in_their_order() {
        let mut store = Store::of_messages(10, 1000);
        let ends = |number| Place {
            ends: true,
            ..at(number)
        };
        let arrivals = [
            (ends(3), ""),
            (ends(1), "abc"),
            (at(0), "0123456789"),
            (ends(2), "one message"),
            (at(2), "short"),
            (ends(2), "short"),
        ];
        let taken = arrivals.map(|(place, bytes)| store.take(place, false, bytes.into()));
        // One is longer than a packet, and a short one ends no message.
        let expected = [
            Taken::New,
            Taken::New,
            Taken::New,
            Taken::Refused,
            Taken::Refused,
            Taken::New,
        ];
        assert_eq!(taken, expected);
        let pieces = core::iter::from_fn(|| store.pop(u64::MAX));
        let pieces: Vec<_> = pieces.map(|it| (it.offset, it.bytes, it.ends)).collect();
        let expected = [
            (0, Bytes::from("0123456789"), false),
            (10, "abc".into(), true),
            (20, "short".into(), true),
            (30, "".into(), true),
        ];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn empty_messages_take_bounded_memory() {
        let mut store = Store::of_messages(10, 4 << 10);
        let ends = |number| Place {
            ends: true,
            ..at(number)
        };
        let room = store.limit(PacketNumber::ZERO).0;
        assert_eq!(room, Store::PACKETS_MIN);
        for number in 0..room {
            assert_eq!(store.take(ends(number), false, Bytes::new()), Taken::New);
        }
        assert_eq!(store.take(ends(room), false, Bytes::new()), Taken::Refused);
        store.consumed(0);
        assert_eq!(store.limit(PacketNumber::ZERO), PacketNumber(2 * room));
    }
}
