//! Bytes on their way through a relay: they have come from above, in order, and wait for room
//! below.
//!
//! They are copied together, because a slice would keep all of the memory that it was received
//! with; what is here is bounded by the credit that the relay gives above.

use alloc::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// The bytes, as runs without gaps.
#[derive(Debug, Default)]
pub(super) struct Queue {
    runs: VecDeque<(u64, BytesMut)>,
}

impl Queue {
    /// The bytes from `offset` on, which come after all before.
    pub(super) fn push(&mut self, offset: u64, bytes: &[u8]) {
        if let Some((start, run)) = self.runs.back_mut()
            && *start + run.len() as u64 == offset
        {
            run.extend_from_slice(bytes);
            return;
        }
        self.runs.push_back((offset, BytesMut::from(bytes)));
    }

    /// Where the first byte lies in the stream.
    pub(super) fn start(&self) -> Option<u64> {
        self.runs.front().map(|(start, _)| *start)
    }

    /// Drops what lies before `at`; how many bytes that were.
    pub(super) fn drop_before(&mut self, at: u64) -> u64 {
        let mut dropped = 0;
        while let Some(start) = self.start().filter(|start| *start < at) {
            dropped += self.take(at - start).len() as u64;
        }
        dropped
    }

    /// The first bytes, at most so many and up to the first gap.
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
