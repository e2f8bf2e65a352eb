//! A station of a shared Ethernet: its queue, what it is doing, and its counters.

use std::collections::VecDeque;
use std::time::Duration;

use groupcast_core::Time;

use crate::link::QueueLimit;

/// What a station did so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StationCounters {
    /// Frames that it sent.
    pub frames: u64,
    /// Bytes of them, header and padding included.
    pub bytes: u64,
    /// Attempts that ended in a collision.
    pub collisions: u64,
    /// Attempts that found the cable taken.
    pub deferrals: u64,
    /// Frames given up after too many collisions.
    pub dropped_collisions: u64,
    /// Frames that found too much waiting.
    pub dropped_queue: u64,
    /// The time that all frames sent spent here, from when they came until their last bit left.
    pub stayed: Duration,
    /// The longest that one of them did.
    pub stayed_longest: Duration,
    /// The most frames that waited, the one that it tried to send included.
    pub queue_packets_high: u32,
    /// The most bytes that waited.
    pub queue_bytes_high: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Doing {
    /// It has no frame.
    Nothing,
    /// It has one, and waits for the cable or for its back-off to end.
    Waiting {
        /// Whether it is for the cable.
        deferred: bool,
    },
    /// Its signal is on the cable.
    Sending {
        begins: Time,
        /// Whether it will hear another's.
        hears: bool,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Station<F> {
    pub(super) doing: Doing,
    /// Grows with every change of what it does, so that steps planned before are void.
    pub(super) generation: u64,
    /// Of the frame at the head of the queue.
    pub(super) collisions: u32,
    pub(super) counters: StationCounters,
    queue: VecDeque<Queued<F>>,
    queue_bytes: u64,
}

#[derive(Clone, Debug)]
struct Queued<F> {
    frame: F,
    bytes: u32,
    came: Time,
}

impl<F> Station<F> {
    pub(super) fn new() -> Self {
        Self {
            doing: Doing::Nothing,
            generation: 0,
            collisions: 0,
            counters: StationCounters::default(),
            queue: VecDeque::new(),
            queue_bytes: 0,
        }
    }

    /// Does something else from now on: what was planned before is void.
    pub(super) fn change(&mut self, doing: Doing) {
        self.doing = doing;
        self.generation += 1;
    }

    /// Whether there was room for one more frame.
    pub(super) fn enqueue(&mut self, now: Time, bytes: u32, frame: F, limit: &QueueLimit) -> bool {
        let queue_bytes = self.queue_bytes + u64::from(bytes);
        if !self.is_empty() && !limit.allows(queue_bytes, self.queue.len() + 1) {
            self.counters.dropped_queue += 1;
            return false;
        }
        self.queue.push_back(Queued {
            frame,
            bytes,
            came: now,
        });
        self.queue_bytes = queue_bytes;
        let counters = &mut self.counters;
        counters.queue_bytes_high = counters.queue_bytes_high.max(queue_bytes);
        counters.queue_packets_high = counters.queue_packets_high.max(self.queue.len() as u32);
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[cfg(test)]
    pub(super) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of the frame that it tries to send.
    pub(super) fn head_bytes(&self) -> u32 {
        self.queue.front().map_or(0, |head| head.bytes)
    }

    /// The frame at the head has been sent.
    pub(super) fn sent(&mut self, now: Time) -> Option<(u32, F)> {
        let Queued { frame, bytes, came } = self.advance()?;
        let stayed = now - came;
        self.counters.frames += 1;
        self.counters.bytes += u64::from(bytes);
        self.counters.stayed += stayed;
        self.counters.stayed_longest = self.counters.stayed_longest.max(stayed);
        Some((bytes, frame))
    }

    /// The frame at the head collided too often.
    pub(super) fn give_up(&mut self) {
        self.counters.dropped_collisions += u64::from(self.advance().is_some());
    }

    fn advance(&mut self) -> Option<Queued<F>> {
        self.collisions = 0;
        let head = self.queue.pop_front()?;
        self.queue_bytes -= u64::from(head.bytes);
        Some(head)
    }
}
