//! The sender's part of the stream: bytes that were offered, cut into packets, kept until all
//! receivers have them.
//!
//! ```text
//!   base            cursor                fill
//!    │  sent, kept for │  staged, not yet  │  wanted next
//!    │  repairs        │  sent             │
//! ```

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use groupcast_core::Time;

use super::super::numbers::{PacketNumber, Packets, Stamp};
use super::super::ranges::RangeSet;

/// A packet that is kept.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) body: Bytes,
    /// Of its last transmission; none if it was not sent yet.
    pub(super) stamp: Stamp,
    pub(super) sent: Time,
}

impl Slot {
    fn is_sent(&self) -> bool {
        self.stamp > Stamp::default()
    }
}

/// The packets of a stream that are offered and not released, and one pass over what is needed of
/// it.
#[derive(Debug)]
pub(super) struct Stream {
    packet: u64,
    /// Bytes of the stream, once they are known.
    pub(super) length: Option<u64>,
    window: usize,
    /// Packets of a block: kept until nothing of the block is missing. 1 without parity.
    block: u64,
    base: PacketNumber,
    /// Packets that this pass sends.
    needed: RangeSet<PacketNumber>,
    /// The first packets of blocks that it sends as parity.
    as_parity: BTreeSet<PacketNumber>,
    kept: BTreeMap<PacketNumber, Slot>,
    /// The next packet to be offered, and its bytes so far.
    fill: PacketNumber,
    part: BytesMut,
    /// The next packet to be sent in its turn.
    cursor: PacketNumber,
    /// Packets kept below the cursor.
    ahead: usize,
    /// Packets to be sent again out of turn.
    repairs: BTreeSet<PacketNumber>,
    /// One past the highest packet sent in this pass.
    top: PacketNumber,
    stamp: Stamp,
    /// When the last stamps were given, for round trips.
    times: VecDeque<Time>,
    /// If it is of messages: those that not all receivers have.
    messages: Option<Messages>,
}

/// The messages of a stream. Each begins with a packet of its own, so that its last may be short.
#[derive(Debug, Default)]
struct Messages {
    /// This many were offered, and this many of them all receivers have.
    offered: u64,
    held: u64,
    /// Where the first of the others begins, and one past the last packet of each.
    begin: PacketNumber,
    ends: VecDeque<PacketNumber>,
}

impl Stream {
    /// Stamps whose times are kept.
    const TIMES_MAX: usize = 8192;
    /// What is sent so soon after another packet may wait for it on any link.
    const JUST: Duration = Duration::from_micros(30);
    const JUST_MAX: usize = 64;

    pub(super) fn new(packet: usize, window: u32, block: u16, length: Option<u64>) -> Self {
        Self {
            packet: packet as u64,
            length,
            window: window as usize,
            block: u64::from(block.max(1)),
            base: PacketNumber::ZERO,
            needed: RangeSet::default(),
            as_parity: BTreeSet::new(),
            kept: BTreeMap::new(),
            fill: PacketNumber::ZERO,
            part: BytesMut::new(),
            cursor: PacketNumber::ZERO,
            ahead: 0,
            repairs: BTreeSet::new(),
            top: PacketNumber::ZERO,
            stamp: Stamp::default(),
            times: VecDeque::new(),
            messages: None,
        }
    }

    /// The same, of messages: without parity, and of a length that is open until it ends.
    pub(super) fn of_messages(packet: usize, window: u32) -> Self {
        Self {
            messages: Some(Messages::default()),
            ..Self::new(packet, window, 1, None)
        }
    }

    /// Whether it is of messages.
    pub(super) fn has_messages(&self) -> bool {
        self.messages.is_some()
    }

    /// The most bytes of a message: it has room when nothing else is kept.
    pub(super) fn message_max(&self) -> u64 {
        2 * self.window as u64 * self.packet
    }

    /// Takes a message for which there is room; its number, from 1.
    pub(super) fn offer_message(&mut self, mut bytes: Bytes) -> u64 {
        loop {
            let len = bytes.len().min(self.packet as usize);
            self.stage(self.fill, bytes.split_to(len));
            if bytes.is_empty() {
                break;
            }
        }
        let end = self.fill;
        let messages = self.messages.get_or_insert_default();
        messages.ends.push_back(end);
        messages.offered += 1;
        messages.offered
    }

    /// Whether a message ends with this packet, which is kept.
    pub(super) fn ends_message(&self, number: PacketNumber) -> bool {
        let messages = self.messages.as_ref();
        messages.is_some_and(|messages| messages.ends.binary_search(&(number + 1)).is_ok())
    }

    /// The next message that all receivers have, by what is released.
    pub(super) fn next_held(&mut self) -> Option<u64> {
        let messages = self.messages.as_mut()?;
        messages.begin = messages.ends.pop_front_if(|end| *end <= self.base)?;
        messages.held += 1;
        Some(messages.held)
    }

    /// The messages that were offered so far.
    pub(super) fn offered(&self) -> u64 {
        self.messages.as_ref().map_or(0, |it| it.offered)
    }

    /// The number of the message that a packet is of which not all have, and how many packets of it
    /// go before.
    pub(super) fn message_of(&self, number: PacketNumber) -> (u64, u64) {
        let Some(messages) = &self.messages else {
            return (0, 0);
        };
        let before = messages.ends.partition_point(|end| *end <= number);
        let begin = match before.checked_sub(1) {
            Some(last) => messages.ends[last],
            None => messages.begin,
        };
        let message = messages.held + before as u64 + 1;
        (message, number.distance_from(begin))
    }

    /// Where the next message begins of which nothing was sent in this pass, and its number.
    pub(super) fn next_message(&self) -> (PacketNumber, u64) {
        let mut open = self
            .messages
            .iter()
            .flat_map(|it| (it.held + 1..).zip(&it.ends));
        let before = open.find(|(_, end)| **end >= self.top);
        match before {
            Some((number, end)) => (*end, number + 1),
            None => (self.fill, self.offered() + 1),
        }
    }

    /// All receivers that are waited for have the packets below.
    pub(super) fn base(&self) -> PacketNumber {
        self.base
    }

    /// Packets of the stream, or more than there will be if its length is not known.
    pub(super) fn packets(&self) -> PacketNumber {
        self.length.map_or(PacketNumber::END, |length| {
            PacketNumber::end_of(length, self.packet)
        })
    }

    /// Begins a pass over `needed`.
    pub(super) fn begin(&mut self, needed: RangeSet<PacketNumber>) {
        self.fill = needed
            .next_from(PacketNumber::ZERO)
            .map_or(PacketNumber::ZERO, |range| range.start);
        self.cursor = self.fill;
        self.base = self.fill;
        self.needed = needed;
        self.as_parity.clear();
        self.kept.clear();
        self.part.clear();
        self.repairs.clear();
        self.ahead = 0;
        self.top = PacketNumber::ZERO;
    }

    /// The blocks that begin with these are not sent in their turn in this pass: parity is.
    pub(super) fn replace(&mut self, blocks: impl IntoIterator<Item = PacketNumber>) {
        self.as_parity.extend(blocks);
    }

    /// One past the last packet of the pass.
    pub(super) fn pass_end(&self) -> PacketNumber {
        self.needed.end().min(self.packets())
    }

    /// Whether this pass goes on behind this packet, which is not released, and does not send it.
    pub(super) fn passes_over(&self, number: PacketNumber) -> bool {
        let is_within = self.base <= number && number < self.pass_end();
        is_within && !self.needed.contains(number)
    }

    /// The bytes that should be offered next. Reading goes one window ahead of sending.
    pub(super) fn wanted(&self) -> Option<Range<u64>> {
        let room = (2 * self.window + self.block as usize).saturating_sub(self.kept.len());
        if room == 0 || room < self.window / 4 && !self.kept.is_empty() {
            return None;
        }
        let range = self.needed.next_from(self.fill)?;
        let packets = range.end.min(range.start + room as u64).min(self.packets());
        let start = range.start.offset(self.packet) + self.part.len() as u64;
        let end = self
            .length
            .unwrap_or(u64::MAX)
            .min(packets.offset(self.packet));
        (start < end).then_some(start..end)
    }

    /// Takes bytes at the start of what is [wanted](Self::wanted), at most as many.
    pub(super) fn offer(&mut self, mut bytes: Bytes) {
        while !bytes.is_empty() {
            let number = self
                .needed
                .next_from(self.fill)
                .map_or(self.fill, |range| range.start);
            let whole = self.length_of(number);
            let missing = whole - self.part.len();
            if bytes.len() < missing {
                self.part.extend_from_slice(&bytes);
                return;
            }
            let rest = bytes.split_to(missing);
            let body = if self.part.is_empty() {
                rest
            } else {
                self.part.extend_from_slice(&rest);
                self.part.split().freeze()
            };
            self.stage(number, body);
        }
    }

    fn length_of(&self, number: PacketNumber) -> usize {
        let left = self.length.unwrap_or(u64::MAX) - number.offset(self.packet);
        left.min(self.packet) as usize
    }

    /// Keeps a packet, unless all that are waited for have it and the rest of its block: who needed
    /// it has gone since it was wanted. It would never be released again.
    fn stage(&mut self, number: PacketNumber, body: Bytes) {
        self.fill = number + 1;
        if number < self.base.block_start(self.block) {
            return;
        }
        let slot = Slot {
            body,
            stamp: Stamp::default(),
            sent: Time::ZERO,
        };
        self.kept.insert(number, slot);
    }

    /// An open stream ends where the last offer ended.
    pub(super) fn finish(&mut self) {
        if self.length.is_some() {
            return;
        }
        let length = self.fill.offset(self.packet) + self.part.len() as u64;
        self.length = Some(length);
        if !self.part.is_empty() {
            let body = self.part.split().freeze();
            self.stage(self.fill, body);
        }
    }

    /// Bytes of the stream that are staged or skipped so far in this pass.
    pub(super) fn position(&self) -> u64 {
        let at = self
            .needed
            .next_from(self.fill)
            .map_or(self.fill, |range| range.start);
        let position = at.offset(self.packet) + self.part.len() as u64;
        self.length.map_or(position, |length| position.min(length))
    }

    /// All receivers that are waited for have all below `base`.
    pub(super) fn release(&mut self, base: PacketNumber) {
        if base <= self.base {
            return;
        }
        // A packet that was never sent cannot have been acknowledged, unless it was held before.
        let sent = base.min(self.cursor).max(self.base);
        self.ahead -= self.kept.range(self.base..sent).count();
        self.base = base;
        let whole_blocks = base.block_start(self.block);
        while let Some(entry) = self.kept.first_entry() {
            if *entry.key() >= whole_blocks {
                break;
            }
            entry.remove();
        }
        self.repairs = self.repairs.split_off(&base);
        self.cursor = self.cursor.max(base);
    }

    /// Goes back to the first packet that is kept (go-back-N).
    pub(super) fn go_back(&mut self) {
        if let Some((first, _)) = self.kept.range(self.base..).next() {
            self.cursor = *first;
            self.ahead = 0;
        }
    }

    /// Goes back to `number`, or to the first packet that is kept after it, if that was last sent
    /// no later than `stamp`.
    pub(super) fn go_back_to(&mut self, number: PacketNumber, stamp: Stamp) {
        let first = self.kept.range(number.max(self.base)..).next();
        let Some((first, slot)) = first else { return };
        if slot.is_sent() && slot.stamp <= stamp && *first < self.cursor {
            self.cursor = *first;
            self.ahead = self.kept.range(self.base..*first).count();
        }
    }

    /// The first packet that is kept and was sent.
    pub(super) fn first_sent(&self) -> Option<(PacketNumber, &Slot)> {
        let (number, slot) = self.kept.range(self.base..).next()?;
        slot.is_sent().then_some((*number, slot))
    }

    /// Has the packets of `missing` repaired that `wants` says yes to; none if it ends before it
    /// begins.
    pub(super) fn repair(&mut self, missing: Packets, wants: impl Fn(&Slot) -> bool) {
        let start = missing.start.max(self.base);
        for (number, slot) in self.kept.range(start..missing.end.max(start)) {
            if slot.is_sent() && wants(slot) {
                self.repairs.insert(*number);
            }
        }
    }

    /// The next packet to be sent again.
    pub(super) fn next_repair(&self) -> Option<PacketNumber> {
        self.repairs.first().copied()
    }

    /// The next packet to send: a repair, or one in its turn below `limit` if the window is open.
    pub(super) fn next(&self, limit: PacketNumber) -> Option<PacketNumber> {
        if let Some(repair) = self.repairs.first() {
            return Some(*repair);
        }
        let number = self.next_in_turn(self.cursor, self.ahead, limit)?;
        (!self.goes_as_parity(number)).then_some(number)
    }

    /// The first packet from `cursor` on that may be sent in its turn, or in its block's, after
    /// `ahead` others.
    fn next_in_turn(
        &self,
        cursor: PacketNumber,
        ahead: usize,
        limit: PacketNumber,
    ) -> Option<PacketNumber> {
        if ahead >= self.window {
            return None;
        }
        let (number, _) = self.kept.range(cursor..).next()?;
        (*number < limit).then_some(*number)
    }

    /// Whether a packet, or a block as parity, can be sent after packet `number`, which is the
    /// next.
    pub(super) fn follows(&self, number: PacketNumber, limit: PacketNumber) -> bool {
        let (repairs, cursor, ahead) = match self.repairs.contains(&number) {
            true => (self.repairs.len() - 1, self.cursor, self.ahead),
            false => (self.repairs.len(), number + 1, self.ahead + 1),
        };
        let next = self.next_in_turn(cursor, ahead, limit);
        let is_here = |number: PacketNumber| {
            !self.goes_as_parity(number) || self.has_block(number.block_start(self.block))
        };
        repairs > 0 || next.is_some_and(is_here)
    }

    /// The block whose turn it is to be sent as parity: its first packet. All of it is here.
    pub(super) fn next_as_parity(&self, limit: PacketNumber) -> Option<PacketNumber> {
        if self.as_parity.is_empty() {
            return None;
        }
        let number = self.next_in_turn(self.cursor, self.ahead, limit)?;
        let first = number.block_start(self.block);
        (self.goes_as_parity(number) && self.has_block(first)).then_some(first)
    }

    /// Parity is sent for the block that begins with `first`: its packets count as sent with the
    /// next transmission.
    pub(super) fn pass_over(&mut self, now: Time, first: PacketNumber) {
        let (end, stamp) = (self.block_end(first), self.stamp.next());
        for (_, slot) in self.kept.range_mut(first..end) {
            (slot.stamp, slot.sent) = (stamp, now);
        }
        self.ahead += self.kept.range(self.cursor..end).count();
        self.cursor = end;
        self.top = self.top.max(end);
    }

    fn goes_as_parity(&self, number: PacketNumber) -> bool {
        let first = number.block_start(self.block);
        !self.as_parity.is_empty() && self.as_parity.contains(&first)
    }

    fn has_block(&self, first: PacketNumber) -> bool {
        let end = self.block_end(first);
        self.kept.range(first..end).count() as u64 == end - first
    }

    /// A kept packet.
    pub(super) fn get(&self, number: PacketNumber) -> Option<&Slot> {
        self.kept.get(&number)
    }

    /// Packet `number` is sent now; whether it was before, and its stamp.
    pub(super) fn sent(&mut self, now: Time, number: PacketNumber) -> (bool, Stamp) {
        let stamp = self.stamp(now);
        let again = self.kept.get_mut(&number).is_some_and(|slot| {
            let again = slot.is_sent();
            slot.stamp = stamp;
            slot.sent = now;
            again
        });
        if !self.repairs.remove(&number) {
            self.cursor = number + 1;
            self.ahead += 1;
        }
        self.top = self.top.max(number + 1);
        (again, stamp)
    }

    /// Counts a transmission.
    pub(super) fn stamp(&mut self, now: Time) -> Stamp {
        self.stamp = self.stamp.next();
        if self.times.len() == Self::TIMES_MAX {
            self.times.pop_front();
        }
        self.times.push_back(now);
        self.stamp
    }

    /// The last stamp given.
    pub(super) fn last_stamp(&self) -> Stamp {
        self.stamp
    }

    /// When `stamp` was given, if that is not too long ago.
    pub(super) fn time_of(&self, stamp: Stamp) -> Option<Time> {
        self.times.get(self.index_of(stamp)?).copied()
    }

    /// Where the time of `stamp` is kept.
    fn index_of(&self, stamp: Stamp) -> Option<usize> {
        let back = usize::try_from(self.stamp.since(stamp)?).ok()?;
        self.times.len().checked_sub(back + 1)
    }

    /// How many packets were sent just before that with this stamp, so that it may have waited for
    /// them on any link: no more than `JUST_MAX` are looked at.
    pub(super) fn sent_just_before(&self, stamp: Stamp) -> u32 {
        let index = self.index_of(stamp).unwrap_or(0);
        let is_just_before = |at: &usize| self.times[*at] - self.times[at - 1] < Self::JUST;
        let before = (1..=index).rev().take(Self::JUST_MAX);
        before.take_while(is_just_before).count() as u32
    }

    /// One past the highest packet that was sent in this pass.
    pub(super) fn top(&self) -> PacketNumber {
        self.top
    }

    /// Whether the window, or the room of a receiver, holds back a packet that is staged.
    pub(super) fn is_held_back(&self, limit: PacketNumber) -> bool {
        let staged = self.kept.range(self.cursor..).next();
        // A block that goes as parity waits for the rest of it.
        let is_staged = staged.is_some_and(|(number, _)| {
            !self.goes_as_parity(*number) || self.has_block(number.block_start(self.block))
        });
        is_staged && self.next(limit).is_none() && self.next_as_parity(limit).is_none()
    }

    /// Whether the room of a receiver, and not the window, holds back a packet that is staged.
    pub(super) fn lacks_room(&self, limit: PacketNumber) -> bool {
        let staged = self.kept.range(self.cursor..).next();
        let is_beyond = staged.is_some_and(|(number, _)| *number >= limit);
        is_beyond && self.ahead < self.window && self.is_held_back(limit)
    }

    /// Whether a packet is the last of the stream.
    pub(super) fn is_last(&self, number: PacketNumber) -> bool {
        self.length.is_some() && number + 1 == self.packets()
    }

    /// The packets of the block that begins with `first`, if all of them are here.
    pub(super) fn block(&self, first: PacketNumber) -> Option<Vec<&[u8]>> {
        let end = self.block_end(first);
        let kept = self.kept.range(first..end);
        let bodies: Vec<&[u8]> = kept.map(|(_, slot)| &slot.body[..]).collect();
        (bodies.len() as u64 == end - first).then_some(bodies)
    }

    /// The last packet that is here of the block that begins with `first`.
    pub(super) fn last_of_block(&self, first: PacketNumber) -> Option<&Slot> {
        let mut kept = self.kept.range(first..self.block_end(first));
        kept.next_back().map(|(_, slot)| slot)
    }

    /// Where the block that begins with `first` ends.
    pub(super) fn block_end(&self, first: PacketNumber) -> PacketNumber {
        (first + self.block).min(self.packets())
    }

    /// Packets that were sent in their turn and not released.
    pub(super) fn ahead(&self) -> usize {
        self.ahead
    }

    /// The most packets that are sent and not acknowledged.
    pub(super) fn window(&self) -> usize {
        self.window
    }

    /// Packets that are kept.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn stream(length: Option<u64>) -> Stream {
        let mut stream = Stream::new(10, 4, 1, length);
        let mut all = RangeSet::default();
        all.insert(PacketNumber::ZERO..stream.packets());
        stream.begin(all);
        stream
    }

    fn offer_all(stream: &mut Stream, piece: usize) -> u64 {
        let mut offered = 0;
        while let Some(range) = stream.wanted() {
            let len = (range.end - range.start).min(piece as u64);
            stream.offer(Bytes::from(vec![7; len as usize]));
            offered += len;
        }
        offered
    }

    #[test]
    fn a_packet_may_wait_for_those_that_were_sent_just_before_it() {
        let mut stream = stream(None);
        let bursts = [0, 0, 10, 500, 510, 600];
        let sent = bursts.map(|micros| stream.stamp(Time::ZERO + Duration::from_micros(micros)));
        let before = sent.map(|stamp| stream.sent_just_before(stamp));
        assert_eq!(before, [0, 1, 2, 0, 1, 0]);
        for _ in 0..100 {
            stream.stamp(Time::from_millis(1));
        }
        let last = stream.last_stamp();
        assert_eq!(stream.sent_just_before(last), Stream::JUST_MAX as u32);
        assert_eq!(stream.sent_just_before(last.next()), 0, "it was not sent");
    }

    #[test]
    fn bytes_are_cut_into_packets_however_they_are_offered() {
        for piece in [1, 3, 10, 1000] {
            let mut stream = stream(Some(35));
            assert_eq!(offer_all(&mut stream, piece), 35);
            assert_eq!(stream.kept(), 4);
            assert_eq!(
                stream.get(PacketNumber(3)).map(|slot| slot.body.len()),
                Some(5)
            );
            assert!(stream.is_last(PacketNumber(3)) && !stream.is_last(PacketNumber(2)));
        }
    }

    #[test]
    fn the_window_closes_and_opens_by_what_is_released() {
        let mut stream = stream(Some(1000));
        offer_all(&mut stream, 1000);
        assert_eq!(stream.kept(), 9, "two windows, and a block");
        for number in 0..4 {
            assert_eq!(stream.next(PacketNumber::MAX), Some(PacketNumber(number)));
            stream.sent(Time::ZERO, PacketNumber(number));
        }
        assert_eq!((stream.next(PacketNumber::MAX), stream.ahead()), (None, 4));
        stream.release(PacketNumber(1));
        assert_eq!(stream.next(PacketNumber::MAX), Some(PacketNumber(4)));
        assert_eq!(stream.next(PacketNumber(4)), None, "a receiver has no room");
        stream.go_back();
        assert_eq!(stream.next(PacketNumber::MAX), Some(PacketNumber(1)));
    }

    #[test]
    fn what_is_released_before_it_is_offered_takes_no_room() {
        for block in [1, 4] {
            let mut stream = Stream::new(10, 4, block, Some(1000));
            let mut all = RangeSet::default();
            all.insert(PacketNumber::ZERO..stream.packets());
            stream.begin(all);
            stream.offer(Bytes::from(vec![0; 15]));
            stream.release(PacketNumber(50));
            offer_all(&mut stream, 70);
            assert_eq!(stream.next(PacketNumber::MAX), Some(PacketNumber(50)));
            assert_eq!(stream.get(PacketNumber(47)).map(|_| ()), None);
            assert_eq!(stream.get(PacketNumber(49)).is_some(), block > 1);
        }
    }

    #[test]
    fn a_pass_goes_over_what_is_needed_only() {
        let mut stream = Stream::new(10, 4, 1, Some(100));
        let mut needed = RangeSet::default();
        needed.insert(PacketNumber(2)..PacketNumber(4));
        needed.insert(PacketNumber(8)..PacketNumber(10));
        stream.begin(needed);
        assert_eq!(stream.wanted(), Some(20..40));
        stream.offer(Bytes::from(vec![0; 20]));
        assert_eq!(stream.wanted(), Some(80..100));
        stream.offer(Bytes::from(vec![0; 20]));
        assert_eq!((stream.wanted(), stream.kept()), (None, 4));
        assert_eq!(stream.next(PacketNumber::MAX), Some(PacketNumber(2)));
    }

    #[test]
    fn an_open_stream_ends_where_its_offers_end() {
        let mut stream = stream(None);
        stream.offer(Bytes::from(vec![0; 13]));
        stream.finish();
        assert_eq!(
            (stream.length, stream.kept(), stream.wanted()),
            (Some(13), 2, None)
        );
    }

    #[test]
    fn what_follows_a_packet_is_known_before_it_is_sent() {
        let mut stream = stream(Some(60));
        offer_all(&mut stream, 60);
        for number in 0..6 {
            let number = PacketNumber(number);
            let may_follow = |limit: u64| stream.follows(number, PacketNumber(limit));
            // The window is of four packets, and no receiver has room for the fourth.
            assert_eq!(may_follow(99), ![3, 5].contains(&number.0), "{number:?}");
            assert_eq!(may_follow(3), number.0 < 2);
            let (before, limit) = (stream.follows(number, PacketNumber::MAX), PacketNumber::MAX);
            stream.sent(Time::ZERO, number);
            assert_eq!(before, stream.next(limit).is_some());
            if number == PacketNumber(3) {
                stream.release(PacketNumber(4));
            }
        }
        stream.repair(PacketNumber(4)..PacketNumber(6), |_| true);
        for follows in [true, false] {
            let repair = stream.next_repair().expect("it is due");
            assert_eq!(stream.follows(repair, PacketNumber::MAX), follows);
            stream.sent(Time::ZERO, repair);
        }
    }

    #[test]
    fn repairs_come_first_and_each_once() {
        let mut stream = stream(Some(100));
        offer_all(&mut stream, 100);
        for number in 0..3 {
            stream.sent(Time::ZERO, PacketNumber(number));
        }
        stream.repair(PacketNumber(0)..PacketNumber(9), |slot| {
            slot.stamp <= Stamp(2)
        });
        assert_eq!(stream.next(PacketNumber::MAX), Some(PacketNumber(0)));
        assert_eq!(stream.sent(Time::ZERO, PacketNumber(0)), (true, Stamp(4)));
        assert_eq!(stream.next(PacketNumber::MAX), Some(PacketNumber(1)));
        stream.sent(Time::ZERO, PacketNumber(1));
        assert_eq!(stream.next(PacketNumber::MAX), Some(PacketNumber(3)));
    }
}
