//! What waits: drop-tail queues before links, and the memory that the ports of a switch share.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use groupcast_core::Time;

/// How much may wait before a link; a packet that finds too much is dropped (drop-tail).
///
/// As in ns-2, what is being sent does not wait any more: a packet that finds the link idle always
/// passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLimit {
    /// Bytes on the wire, framing included, the new packet's too. `None`: no limit.
    pub bytes: Option<u64>,
    /// Packets, the new one too. `None`: no limit.
    pub packets: Option<u32>,
}

impl QueueLimit {
    /// No limit at all.
    pub const NONE: Self = Self {
        bytes: None,
        packets: None,
    };

    /// At most `limit` bytes wait.
    pub const fn bytes(limit: u64) -> Self {
        Self {
            bytes: Some(limit),
            packets: None,
        }
    }

    /// At most `limit` packets wait.
    pub const fn packets(limit: u32) -> Self {
        Self {
            bytes: None,
            packets: Some(limit),
        }
    }

    /// Whether this much may wait.
    pub(super) fn allows(&self, bytes: u64, packets: usize) -> bool {
        self.bytes.is_none_or(|limit| bytes <= limit)
            && self
                .packets
                .is_none_or(|limit| packets as u64 <= u64::from(limit))
    }
}

/// The packets that wait before a link, known by when each begins to leave: no event is needed to
/// keep it true.
#[derive(Clone, Default, Debug)]
pub(super) struct Backlog {
    waiting: VecDeque<Waiting>,
    bytes: u64,
    bytes_high: u64,
    packets_high: u32,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    begins: Time,
    bytes: u32,
}

impl Backlog {
    /// Forgets what has begun to leave by `now`.
    pub(super) fn settle(&mut self, now: Time) {
        while let Some(first) = self.waiting.front()
            && first.begins <= now
        {
            self.bytes -= u64::from(first.bytes);
            self.waiting.pop_front();
        }
    }

    /// Whether one more packet of `bytes` may wait.
    pub(super) fn has_room(&self, bytes: u64, limit: &QueueLimit) -> bool {
        limit.allows(self.bytes + bytes, self.waiting.len() + 1)
    }

    /// One more packet waits, until it `begins` to leave.
    pub(super) fn push(&mut self, begins: Time, bytes: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.waiting.push_back(Waiting { begins, bytes });
        self.bytes += u64::from(bytes);
        self.bytes_high = self.bytes_high.max(self.bytes);
        self.packets_high = self.packets_high.max(self.waiting.len() as u32);
    }

    /// From when on no more waits than `limit` allows, if nothing is added.
    pub(super) fn room_at(&self, now: Time, limit: &QueueLimit) -> Time {
        let (mut bytes, mut packets, mut at) = (self.bytes, self.waiting.len(), now);
        for waiting in &self.waiting {
            if limit.allows(bytes, packets) {
                break;
            }
            bytes -= u64::from(waiting.bytes);
            packets -= 1;
            at = waiting.begins;
        }
        at
    }

    /// Bytes and packets that wait; call [`settle`](Self::settle) first.
    pub(super) fn len(&self) -> (u64, u32) {
        (self.bytes, self.waiting.len() as u32)
    }

    /// The most bytes and the most packets that ever waited.
    pub(super) fn high_water(&self) -> (u64, u32) {
        (self.bytes_high, self.packets_high)
    }
}

/// The memory of a store-and-forward switch, shared by all its ports.
///
/// A packet holds its bytes from when it has come in until its last bit has left.
#[derive(Clone, Debug)]
pub struct SwitchBuffer {
    capacity: u64,
    in_use: u64,
    high_water: u64,
    refused: u64,
    /// What will be free again, and when.
    held: BinaryHeap<Reverse<(Time, u64)>>,
}

impl SwitchBuffer {
    /// A buffer of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            in_use: 0,
            high_water: 0,
            refused: 0,
            held: BinaryHeap::new(),
        }
    }

    /// Holds `bytes` from `now` until they have left, if there is room.
    pub fn admit(&mut self, now: Time, bytes: u64, leaves_at: Time) -> bool {
        while let Some(Reverse((at, freed))) = self.held.peek().copied()
            && at <= now
        {
            self.in_use -= freed;
            self.held.pop();
        }
        if self.in_use.saturating_add(bytes) > self.capacity {
            self.refused += 1;
            return false;
        }
        self.in_use += bytes;
        self.high_water = self.high_water.max(self.in_use);
        self.held.push(Reverse((leaves_at, bytes)));
        true
    }

    /// Bytes held, as of the last [`admit`](Self::admit).
    pub fn in_use(&self) -> u64 {
        self.in_use
    }

    /// The most bytes that it ever held.
    pub fn high_water(&self) -> u64 {
        self.high_water
    }

    /// Packets that it had no room for.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}
