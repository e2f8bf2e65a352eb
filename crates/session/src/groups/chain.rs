//! Bytes that wait for a client, in blocks: short frames are gathered, and the payloads of long
//! ones are passed on without a copy.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};

/// Bytes that a socket is offered at once: a long message goes to it in parts, between which others
/// have their turns.
const OFFERED_MAX: usize = 256 * 1024;
/// Size of the blocks in which small frames are gathered.
const BLOCK: usize = 16 * 1024;
/// Payloads up to this are copied into the block; longer ones are passed on by reference.
pub(super) const COPY_MAX: usize = 2 * 1024;
/// The same for a payload that several clients wait for: longer ones are in memory once.
const COPY_MAX_SHARED: usize = 256;

/// The payload of a delivery: the end of a larger piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload<'a> {
    piece: &'a Bytes,
    at: usize,
    recipients: usize,
}

impl<'a> Payload<'a> {
    /// What stands in `piece` from `at` on, and to how many clients it goes.
    pub(super) fn new(piece: &'a Bytes, at: usize, recipients: usize) -> Self {
        Self {
            piece,
            at,
            recipients,
        }
    }

    pub(super) fn len(self) -> usize {
        self.piece.len() - self.at
    }

    fn as_bytes(self) -> &'a [u8] {
        &self.piece[self.at..]
    }

    /// Up to which length it is copied if it has to wait for credit.
    pub(super) fn copy_max(self) -> usize {
        if self.recipients > 1 {
            COPY_MAX_SHARED
        } else {
            COPY_MAX
        }
    }
}

/// Bytes in blocks, in their order.
#[derive(Debug, Default)]
pub(super) struct Chain {
    blocks: VecDeque<Block>,
    /// The last of them, still growing.
    tail: BytesMut,
    pub(super) bytes: usize,
    pub(super) memory: usize,
}

/// Bytes that were copied, or those of a payload.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) bytes: Bytes,
    /// What it counts as memory: less than its bytes if several clients share them.
    pub(super) memory: usize,
}

impl Block {
    fn split_to(&mut self, len: usize) -> Self {
        // In 64 bits: lengths and shares are below 2^32.
        let share = self.memory as u64 * len as u64 / self.bytes.len() as u64;
        self.memory -= share as usize;
        Self {
            bytes: self.bytes.split_to(len),
            memory: share as usize,
        }
    }
}

impl Chain {
    /// Appends `head` and `payload`, which is copied if it has at most `copy_max` bytes.
    pub(super) fn append(&mut self, head: &[u8], payload: Payload<'_>, copy_max: usize) {
        let by_reference = payload.len() > copy_max;
        let copied = if by_reference { 0 } else { payload.len() };
        if self.tail.capacity() - self.tail.len() < head.len() + copied {
            self.seal();
            self.tail.reserve(BLOCK.max(head.len() + copied));
        }
        self.tail.extend_from_slice(head);
        self.bytes += head.len() + payload.len();
        self.memory += head.len();
        if by_reference {
            self.seal();
            let memory = payload.len() / payload.recipients.max(1);
            self.memory += memory;
            self.blocks.push_back(Block {
                bytes: payload.piece.slice(payload.at..),
                memory,
            });
        } else {
            self.memory += copied;
            self.tail.extend_from_slice(payload.as_bytes());
        }
    }

    /// Appends a block of another chain.
    pub(super) fn push(&mut self, block: Block) {
        self.seal();
        self.bytes += block.bytes.len();
        self.memory += block.memory;
        self.blocks.push_back(block);
    }

    pub(super) fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.seal();
        let (mut count, mut room) = (0, OFFERED_MAX);
        for (slice, block) in slices.iter_mut().zip(&self.blocks) {
            let len = block.bytes.len().min(room);
            *slice = IoSlice::new(&block.bytes[..len]);
            count += 1;
            room -= len;
            if room == 0 {
                break;
            }
        }
        count
    }

    /// Takes `len` bytes off the front, or all if there are fewer; `each` gets them block by block.
    pub(super) fn take(&mut self, len: usize, mut each: impl FnMut(Block)) {
        let mut left = len.min(self.bytes);
        self.bytes -= left;
        while left > 0 {
            if self.blocks.is_empty() {
                self.seal();
            }
            let Some(front) = self.blocks.front_mut() else {
                return;
            };
            if left < front.bytes.len() {
                let part = front.split_to(left);
                self.memory -= part.memory;
                return each(part);
            }
            left -= front.bytes.len();
            if let Some(block) = self.blocks.pop_front() {
                self.memory -= block.memory;
                each(block);
            }
        }
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            let bytes = self.tail.split().freeze();
            let memory = bytes.len();
            self.blocks.push_back(Block { bytes, memory });
        }
    }
}
