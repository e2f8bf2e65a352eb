//! Tells which bytes of a client's output belong to groups that block.
//!
//! Publishers wait for the bytes of these groups, and for nothing else. Other output (of a group
//! that drops, of a bimodal group, or in answer to the client) goes on coming while publishers are
//! held back, so the sum of all output might never fall.

use std::collections::VecDeque;

/// The lengths of runs of output bytes, in their order: a run belongs to groups that block, or to
/// none.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: VecDeque<Run>,
    /// Bytes of the runs that block.
    blocking: usize,
}

#[derive(Debug)]
struct Run {
    len: usize,
    blocks: bool,
}

impl Runs {
    /// `len` bytes follow.
    pub(super) fn append(&mut self, len: usize, blocks: bool) {
        if blocks {
            self.blocking += len;
        }
        match self.runs.back_mut() {
            Some(last) if last.blocks == blocks => last.len += len,
            _ => self.runs.push_back(Run { len, blocks }),
        }
    }

    /// The first `len` bytes were taken.
    pub(super) fn take(&mut self, mut len: usize) {
        while let Some(first) = self.runs.front_mut()
            && len > 0
        {
            let taken = len.min(first.len);
            first.len -= taken;
            len -= taken;
            if first.blocks {
                self.blocking -= taken;
            }
            if first.len == 0 {
                self.runs.pop_front();
            }
        }
    }

    /// Bytes of groups that block.
    pub(super) fn blocking(&self) -> usize {
        self.blocking
    }

    pub(super) fn memory(&self) -> usize {
        self.runs.len() * size_of::<Run>()
    }
}

/// A delivery that waits for credit: its length, and, in the top bit, whether its group blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingFrame(u32);

impl WaitingFrame {
    const BLOCKS: u32 = 1 << 31;

    pub(super) fn new(len: usize, blocks: bool) -> Self {
        let len = u32::try_from(len).expect("callers bound a frame by FRAME_MAX");
        Self(if blocks { len | Self::BLOCKS } else { len })
    }

    pub(super) fn len(self) -> usize {
        (self.0 & !Self::BLOCKS) as usize
    }

    pub(super) fn blocks(self) -> bool {
        self.0 & Self::BLOCKS != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FRAME_MAX;

    #[test]
    fn what_is_taken_counts_in_its_order() {
        let mut runs = Runs::default();
        for (len, blocks) in [(10, false), (20, true), (5, true), (30, false), (7, true)] {
            runs.append(len, blocks);
        }
        assert_eq!((runs.blocking(), runs.runs.len()), (32, 4));
        for (taken, left) in [(10, 32), (24, 8), (2, 7), (29, 7), (3, 4), (4, 0)] {
            runs.take(taken);
            assert_eq!(runs.blocking(), left, "after {taken}");
        }
        assert_eq!(runs.memory(), 0);
    }

    #[test]
    fn the_longest_frame_leaves_room_for_the_mark() {
        for blocks in [false, true] {
            let frame = WaitingFrame::new(FRAME_MAX, blocks);
            assert_eq!((frame.len(), frame.blocks()), (FRAME_MAX, blocks));
        }
    }
}
