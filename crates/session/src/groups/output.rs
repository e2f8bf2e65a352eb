//! What waits for one client: bytes that its socket may take now, and deliveries that it has no
//! credit for yet.
//!
//! A short message is copied into a block of its client's when it is delivered, while the cache
//! still holds it, whether there is credit for it or not: what waits then costs its bytes and four
//! more, holds no receive buffer back, and moves on in whole blocks. Only if several clients wait
//! for the same message do they share its bytes.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};

use super::blocking::{Runs, WaitingFrame};
use crate::frame::{CREDIT_PER_FRAME, credit_cost, has_credit};

/// Deliveries are turned into bytes for the socket up to here, so that answers do not wait behind
/// more.
const READY_MAX: usize = 256 * 1024;
/// Bytes that a socket is offered at once: a long message goes to it in parts, between which others
/// have their turns.
const OFFERED_MAX: usize = 256 * 1024;
/// Size of the blocks in which small frames are gathered.
const BLOCK: usize = 16 * 1024;
/// Payloads up to this are copied into the block; longer ones are passed on by reference.
const COPY_MAX: usize = 2 * 1024;
/// The same for a payload that several clients wait for: longer ones are in memory once.
const COPY_MAX_SHARED: usize = 256;

/// Output of one client.
#[derive(Debug)]
pub(super) struct Output {
    /// Whole frames in the order of the wire, except that the first may have been sent in part.
    ready: Chain,
    /// Which of it belongs to groups that block.
    runs: Runs,
    /// Deliveries without credit.
    waiting: Chain,
    /// Each of them.
    frames: VecDeque<WaitingFrame>,
    /// What those of groups that block count for.
    waiting_blocking: usize,
    window: u64,
    outstanding: u64,
}

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
    fn copy_max(self) -> usize {
        if self.recipients > 1 {
            COPY_MAX_SHARED
        } else {
            COPY_MAX
        }
    }
}

impl Output {
    pub(super) fn new() -> Self {
        Self {
            ready: Chain::default(),
            runs: Runs::default(),
            waiting: Chain::default(),
            frames: VecDeque::new(),
            waiting_blocking: 0,
            window: 0,
            outstanding: 0,
        }
    }

    /// How much the client takes before it gives credit back.
    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// A frame that needs no credit.
    pub(super) fn control(&mut self, frame: &[u8]) {
        let nothing = Bytes::new();
        self.runs.append(frame.len(), false);
        self.ready
            .append(frame, Payload::new(&nothing, 0, 1), COPY_MAX);
    }

    /// A message or a view: `head`, then `payload`; whether publishers may have to wait for it.
    pub(super) fn deliver(&mut self, head: &[u8], payload: Payload<'_>, blocks: bool) {
        let len = head.len() + payload.len();
        if self.frames.is_empty() && self.may_send(0) {
            self.outstanding += credit_cost(len) as u64;
            self.runs.append(len, blocks);
            self.ready.append(head, payload, COPY_MAX);
        } else {
            self.frames.push_back(WaitingFrame::new(len, blocks));
            if blocks {
                self.waiting_blocking += credit_cost(len);
            }
            self.waiting.append(head, payload, payload.copy_max());
        }
    }

    /// The client has consumed so much.
    pub(super) fn credit(&mut self, bytes: u64) {
        self.outstanding = self.outstanding.saturating_sub(bytes);
        self.refill();
    }

    /// Forgets what is not on its way yet: the connection ends.
    pub(super) fn drop_waiting(&mut self) {
        self.waiting = Chain::default();
        self.frames.clear();
        self.waiting_blocking = 0;
    }

    /// Fills `slices` with what the socket may take; how many.
    pub(super) fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.ready.slices(slices)
    }

    /// The socket took so many bytes of them.
    pub(super) fn consumed(&mut self, len: usize) {
        self.ready.take(len, |_| {});
        self.runs.take(len);
        self.refill();
    }

    /// Whether the socket may take nothing now.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.bytes == 0
    }

    /// Bytes that wait for the client, whichever way.
    pub(super) fn backlog(&self) -> usize {
        self.ready.bytes + self.waiting.bytes + self.frames.len() * CREDIT_PER_FRAME
    }

    /// Those of them that belong to groups that block. They become less whenever the client takes
    /// something and none are added: what else comes meanwhile stands behind them.
    pub(super) fn blocking(&self) -> usize {
        self.runs.blocking() + self.waiting_blocking
    }

    /// Memory that is taken by what waits. Bytes that several clients share count in parts.
    pub(super) fn memory(&self) -> usize {
        let frames = self.frames.len() * size_of::<WaitingFrame>();
        self.ready.memory + self.waiting.memory + self.runs.memory() + frames
    }

    /// Whether another delivery may follow when `more` bytes have joined those that are ready.
    fn may_send(&self, more: usize) -> bool {
        has_credit(self.outstanding, self.window) && self.ready.bytes + more < READY_MAX
    }

    fn refill(&mut self) {
        let mut moved = 0;
        while self.may_send(moved)
            && let Some(frame) = self.frames.pop_front()
        {
            let len = frame.len();
            self.outstanding += credit_cost(len) as u64;
            self.runs.append(len, frame.blocks());
            if frame.blocks() {
                self.waiting_blocking -= credit_cost(len);
            }
            moved += len;
        }
        let Self { ready, waiting, .. } = self;
        waiting.take(moved, |block| ready.push(block));
    }
}

/// Bytes in blocks, in their order.
#[derive(Debug, Default)]
struct Chain {
    blocks: VecDeque<Block>,
    /// The last of them, still growing.
    tail: BytesMut,
    bytes: usize,
    memory: usize,
}

/// Bytes that were copied, or those of a payload.
#[derive(Debug)]
struct Block {
    bytes: Bytes,
    /// What it counts as memory: less than its bytes if several clients share them.
    memory: usize,
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
    fn append(&mut self, head: &[u8], payload: Payload<'_>, copy_max: usize) {
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
    fn push(&mut self, block: Block) {
        self.seal();
        self.bytes += block.bytes.len();
        self.memory += block.memory;
        self.blocks.push_back(block);
    }

    fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
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
    fn take(&mut self, len: usize, mut each: impl FnMut(Block)) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn deliver(output: &mut Output, head: &[u8], payload: &[u8]) {
        let piece = Bytes::copy_from_slice(payload);
        output.deliver(head, Payload::new(&piece, 0, 1), true);
    }

    /// What the socket is offered, without taking it.
    fn offered(output: &mut Output) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 64];
        let count = output.slices(&mut slices);
        slices[..count]
            .iter()
            .flat_map(|slice| slice.to_vec())
            .collect()
    }

    #[test]
    fn deliveries_wait_for_credit_and_answers_do_not() {
        let mut output = Output::new();
        output.set_window(100);
        deliver(&mut output, &[1; 100], &[]);
        deliver(&mut output, &[2; 100], &[]);
        output.control(&[3; 10]);
        assert_eq!(offered(&mut output), [&[1u8; 100][..], &[3; 10]].concat());
        output.consumed(110);
        assert!(output.is_empty());
        output.credit(credit_cost(100) as u64);
        assert_eq!(offered(&mut output), [2; 100]);
    }

    #[test]
    fn more_than_the_window_passes_and_nothing_after_it() {
        let mut output = Output::new();
        output.set_window(10);
        deliver(&mut output, &[1], &[1; 5000]);
        deliver(&mut output, &[2], &[]);
        assert_eq!(offered(&mut output).len(), 5001);
        output.consumed(5001);
        assert!(output.is_empty());
        assert!(output.backlog() > 0);
        output.credit(credit_cost(5001) as u64);
        assert_eq!(offered(&mut output), [2]);
    }

    #[test]
    fn memory_counts_copies_whole_and_shared_payloads_in_parts() {
        let mut output = Output::new();
        output.set_window(1);
        deliver(&mut output, &[1; 10], &[1; 90]);
        let run = output.runs.memory();
        assert_eq!(output.memory(), 100 + run);
        let piece = Bytes::from(vec![2; 100_000]);
        for _ in 0..3 {
            output.deliver(&[2; 10], Payload::new(&piece, 0, 4), true);
        }
        assert_eq!(output.memory(), 100 + run + 3 * (10 + 25_000 + 4));
        assert!(output.backlog() > 300_000);
        output.drop_waiting();
        output.consumed(60);
        assert_eq!(output.memory(), 40 + run);
    }

    proptest! {
        #[test]
        fn bytes_come_out_in_order_however_they_are_taken(
            frames in prop::collection::vec((1usize..40, prop::sample::select(vec![0usize, 10, COPY_MAX, COPY_MAX + 1, 20_000])), 1..30),
            takes in prop::collection::vec(1usize..50_000, 1..20),
        ) {
            let mut output = Output::new();
            output.set_window(u64::MAX);
            let mut expected = Vec::new();
            for (index, (head, payload)) in frames.iter().enumerate() {
                let head = vec![index as u8; *head];
                let payload = Bytes::from(vec![!index as u8; *payload]);
                expected.extend_from_slice(&head);
                expected.extend_from_slice(&payload);
                output.deliver(&head, Payload::new(&payload, 0, 1 + index % 3), index % 3 > 0);
            }
            let mut got = Vec::new();
            for take in takes.iter().cycle() {
                let bytes = offered(&mut output);
                if bytes.is_empty() {
                    break;
                }
                let take = (*take).min(bytes.len());
                got.extend_from_slice(&bytes[..take]);
                output.consumed(take);
            }
            prop_assert_eq!((output.backlog(), output.blocking(), output.memory()), (0, 0, 0));
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn whole_frames_follow_credit_in_order_and_none_before_it(
            frames in prop::collection::vec((1usize..40, prop::sample::select(vec![0usize, 10, 1350, COPY_MAX + 1])), 1..60),
            window in 1u64..8000,
            share in 1u64..5000,
        ) {
            let mut output = Output::new();
            output.set_window(window);
            let mut expected = Vec::new();
            for (index, (head, payload)) in frames.iter().enumerate() {
                let head = vec![index as u8; *head];
                let piece = Bytes::from([&b"before"[..], &vec![!index as u8; *payload]].concat());
                expected.extend_from_slice(&head);
                expected.extend_from_slice(&piece[6..]);
                output.deliver(&head, Payload::new(&piece, 6, 1 + index % 3), index % 2 > 0);
            }
            let ends: Vec<usize> = frames
                .iter()
                .scan(0, |end, (head, payload)| {
                    *end += head + payload;
                    Some(*end)
                })
                .collect();
            let longest = credit_cost(40 + COPY_MAX + 1) as u64;
            let (mut got, mut granted) = (Vec::new(), 0);
            while got.len() < expected.len() {
                let bytes = offered(&mut output);
                output.consumed(bytes.len());
                got.extend(bytes);
                if offered(&mut output).is_empty() {
                    prop_assert!(ends.contains(&got.len()), "a frame was cut at {}", got.len());
                    let sent = ends.iter().filter(|end| **end <= got.len()).count();
                    let cost = (got.len() + sent * CREDIT_PER_FRAME) as u64;
                    prop_assert!(cost <= granted + window + longest, "{cost} went out on {granted} and {window}");
                    output.credit(share);
                    granted += share;
                }
            }
            prop_assert_eq!((output.backlog(), output.blocking(), output.memory()), (0, 0, 0));
            prop_assert_eq!(got, expected);
        }
    }
}
