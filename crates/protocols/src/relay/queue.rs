//! The bytes on their way through a relay: they have come from above, in order, and wait for room
//! below.
//!
//! They are copied, because a slice would keep all of the memory that it was received with. The
//! credit that the relay gives above bounds the queue.

use alloc::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// The queue: runs of bytes without gaps, each with its offset in the stream.
#[derive(Debug, Default)]
pub(super) struct Queue {
    runs: VecDeque<(u64, BytesMut)>,
}

impl Queue {
    /// Appends bytes at `offset`, which lies behind all that the queue holds.
    pub(super) fn push(&mut self, offset: u64, bytes: &[u8]) {
        if let Some((start, run)) = self.runs.back_mut()
            && *start + run.len() as u64 == offset
        {
            run.extend_from_slice(bytes);
            return;
        }
        self.runs.push_back((offset, BytesMut::from(bytes)));
    }

    /// The offset of the first byte in the stream.
    pub(super) fn start(&self) -> Option<u64> {
        self.runs.front().map(|(start, _)| *start)
    }

    /// Drops the bytes before `at`, and returns how many they were.
    pub(super) fn drop_before(&mut self, at: u64) -> u64 {
        let mut dropped = 0;
        while let Some(start) = self.start().filter(|start| *start < at) {
            dropped += self.take(at - start).len() as u64;
        }
        dropped
    }

    /// Takes the first bytes, at most `most` and up to the first gap.
    pub(super) fn take(&mut self, most: u64) -> Bytes {
        let Some((start, run)) = self.runs.front_mut() else {
            return Bytes::new();
        };
        let len = usize::try_from(most).unwrap_or(usize::MAX).min(run.len());
        let bytes = run.split_to(len).freeze();
        *start += len as u64;
        if run.is_empty() {
            self.runs.pop_front();
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_and_gaps_stay() {
        let mut queue = Queue::default();
        queue.push(10, b"abc");
        queue.push(13, b"def");
        queue.push(20, b"xyz");
        assert_eq!(queue.start(), Some(10));
        assert_eq!(queue.drop_before(11), 1);
        assert_eq!(queue.take(3), &b"bcd"[..]);
        assert_eq!(queue.take(99), &b"ef"[..]);
        assert_eq!(queue.start(), Some(20));
        assert_eq!(queue.drop_before(22), 2);
        assert_eq!(queue.take(9), &b"z"[..]);
        assert_eq!(queue.start(), None);
        assert_eq!(queue.drop_before(99), 0);
    }
}
