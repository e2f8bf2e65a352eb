//! The numbers of a transfer, each a type of its own, so that none is taken for another or for a
//! count of bytes.

use alloc::collections::BTreeMap;
use core::ops::{Add, Range, Sub};

/// Which packet of the stream, from 0: packet `n` begins at byte `n` times the length of a packet.
/// Also where packets end: one past the last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub(super) struct PacketNumber(pub(super) u64);

impl PacketNumber {
    /// The first packet.
    pub(super) const ZERO: Self = Self(0);

    /// Above every packet of a stream, with room for sums.
    pub(super) const END: Self = Self(u64::MAX >> 4);

    /// Above every number.
    pub(super) const MAX: Self = Self(u64::MAX);

    /// The first packet of the block of `size` packets that this one is in.
    pub(super) fn block_start(self, size: u64) -> Self {
        Self(self.0 - self.0 % size)
    }

    /// How many packets of its block come before this one.
    pub(super) fn index_in_block(self, size: u64) -> u64 {
        self.0 % size
    }

    /// Whether a block of `size` packets begins with it.
    pub(super) fn starts_block(self, size: u64) -> bool {
        self.0.is_multiple_of(size)
    }

    /// Where it begins in the stream, with packets of `packet` bytes.
    pub(super) fn offset(self, packet: u64) -> u64 {
        self.0.saturating_mul(packet)
    }

    /// Whether the bytes up to its end can be counted, with packets of `packet` bytes: no sender of
    /// ours comes that far.
    pub(super) fn is_countable(self, packet: u64) -> bool {
        let packets = self.0.checked_add(1);
        packets
            .and_then(|packets| packets.checked_mul(packet))
            .is_some()
    }

    /// One past the last packet of a stream of `length` bytes, with packets of `packet` bytes.
    pub(super) fn end_of(length: u64, packet: u64) -> Self {
        Self(length.div_ceil(packet))
    }

    /// How many packets lie from `first` to this one; 0 if this one comes before it.
    pub(super) fn distance_from(self, first: Self) -> u64 {
        self.0.saturating_sub(first.0)
    }
}

impl Add<u64> for PacketNumber {
    type Output = Self;

    fn add(self, packets: u64) -> Self {
        Self(self.0 + packets)
    }
}

impl Sub for PacketNumber {
    type Output = u64;

    /// How many packets lie between two; `earlier` is not the later one.
    fn sub(self, earlier: Self) -> u64 {
        self.0 - earlier.0
    }
}

/// Packets in a row.
pub(super) type Packets = Range<PacketNumber>;

/// Each of `packets`, lowest first.
pub(super) fn each(packets: Packets) -> impl Iterator<Item = PacketNumber> {
    (packets.start.0..packets.end.0).map(PacketNumber)
}

/// How many packets of a block of `size` lie in `gaps`, of each block in which a gap begins or
/// ends; a block in the middle of a gap lies in it wholly.
pub(super) fn count_at_ends(
    gaps: impl Iterator<Item = Packets>,
    size: u64,
) -> BTreeMap<PacketNumber, u64> {
    let mut counts = BTreeMap::new();
    for gap in gaps.filter(|gap| gap.start < gap.end) {
        let (first, last) = (gap.start, PacketNumber(gap.end.0 - 1));
        let (head, tail) = (first.block_start(size), last.block_start(size));
        let in_head = gap.end.min(head + size) - gap.start;
        *counts.entry(head).or_default() += in_head;
        if tail > head {
            *counts.entry(tail).or_default() += gap.end - tail;
        }
    }
    counts
}

/// A sender's count of its transmissions: data, parity and polls alike. Each carries its own; 0
/// before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Stamp(pub(super) u64);

impl Stamp {
    /// The stamp of the next transmission.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The stamp `count` transmissions later.
    pub(super) fn after(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// Transmissions since `earlier`; `None` if that is later than this one.
    pub(super) fn since(self, earlier: Self) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

/// Which pass over the stream, from 1; 0 before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct PassNumber(pub(super) u16);

impl PassNumber {
    /// The pass that serves the receivers that registered in time.
    pub(super) const FIRST: Self = Self(1);

    /// The pass after this one. The last possible number is used again: it stands for all that
    /// follow.
    pub(super) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// How many epochs of the rate control have ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Epoch(pub(super) u32);

impl Epoch {
    /// The epoch after this one.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
