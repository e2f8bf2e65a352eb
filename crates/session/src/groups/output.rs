//! The output that waits for one client: bytes that its socket may take now, and deliveries for
//! which it has no credit yet.
//!
//! A short message is copied into a block of the client when it is delivered, while the cache still
//! holds it, whether there is credit for it or not. So a waiting message costs its bytes and four
//! more, keeps no receive buffer alive, and moves on in whole blocks. Only a longer message for
//! which several clients wait is shared by them.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;

use super::blocking::{Runs, WaitingFrame};
use super::chain::{COPY_MAX, Chain, Payload};
use super::spill::{Spill, SpillDone, SpillPlace, Step};
use crate::frame::{CREDIT_PER_FRAME, credit_cost, has_credit};

/// This many bytes of deliveries are made ready for the socket, so that answers do not wait behind
/// more.
const READY_MAX: usize = 256 * 1024;

/// Output of one client.
#[derive(Debug)]
pub(super) struct Output {
    /// Frames for the socket, in their order; of the first one a part may have been sent.
    ready: Chain,
    /// Which bytes of `ready` belong to groups that block.
    runs: Runs,
    /// Deliveries for which there is no credit yet.
    waiting: Chain,
    /// The lengths of the deliveries in `waiting`.
    frames: VecDeque<WaitingFrame>,
    /// What those of groups that block count for.
    waiting_blocking: usize,
    /// What is behind them on a disk, and behind that.
    spill: Option<Spill>,
    window: u64,
    outstanding: u64,
}

/// What to do with a delivery where much waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ForSlow {
    /// Publishers wait for it.
    Block,
    /// Nobody does.
    Keep,
    /// Nobody does: with `at` bytes in memory it goes to a file of `size` bytes.
    Spill { at: usize, size: u64 },
}

/// What a client's disk is to do.
#[derive(Debug)]
pub(super) enum SpillStep {
    Write(SpillPlace, Vec<Bytes>),
    Read(SpillPlace, usize),
    /// Nothing any more: the file is of no use.
    End,
}

impl Output {
    pub(super) fn new() -> Self {
        Self {
            ready: Chain::default(),
            runs: Runs::default(),
            waiting: Chain::default(),
            frames: VecDeque::new(),
            waiting_blocking: 0,
            spill: None,
            window: 0,
            outstanding: 0,
        }
    }

    /// Sets how much the client takes before it gives credit back.
    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// Appends a frame that needs no credit.
    pub(super) fn control(&mut self, frame: &[u8]) {
        self.answer(frame, &Bytes::new());
    }

    /// The same for a frame that begins with `head`. The rest of it may be long: it is not copied
    /// then.
    pub(super) fn answer(&mut self, head: &[u8], rest: &Bytes) {
        self.runs.append(head.len() + rest.len(), false);
        self.ready.append(head, Payload::new(rest, 0, 1), COPY_MAX);
    }

    /// A message or a view: `head`, then `payload`, by the rule `for_slow`. What is behind messages
    /// on a disk goes there, too, and nobody waits for it.
    pub(super) fn deliver(&mut self, head: &[u8], payload: Payload<'_>, for_slow: ForSlow) {
        let len = head.len() + payload.len();
        if let ForSlow::Spill { at, size } = for_slow
            && self.spill.is_none()
            && self.in_memory() >= at
        {
            self.spill = Some(Spill::new(size, at / 2));
        }
        if let Some(spill) = &mut self.spill {
            return spill.push(head, payload);
        }
        let blocks = for_slow == ForSlow::Block;
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

    /// What a disk is to do next for it.
    pub(super) fn next_spill_step(&mut self) -> Option<SpillStep> {
        let spill = self.spill.as_mut()?;
        Some(
            match spill.next_step(self.ready.bytes + self.waiting.bytes, self.frames.len())? {
                Step::Write(place, bytes) => SpillStep::Write(place, bytes),
                Step::Read(place, len) => SpillStep::Read(place, len),
                Step::End(mut fresh, frames) => {
                    self.spill = None;
                    let len = fresh.bytes;
                    fresh.take(len, |block| self.waiting.push(block));
                    self.frames.extend(frames);
                    self.refill();
                    SpillStep::End
                }
            },
        )
    }

    /// The disk has done it; false if what it read is not what was written.
    pub(super) fn spill_done(&mut self, done: SpillDone) -> bool {
        let Some(spill) = &mut self.spill else {
            return true;
        };
        match done {
            SpillDone::Written => spill.written(),
            SpillDone::Read(bytes) => {
                if !spill.returned(bytes, &mut self.waiting, &mut self.frames) {
                    return false;
                }
                self.refill();
            }
            SpillDone::Failed(_) => return false,
        }
        true
    }

    /// Bytes on a disk, or on their way there.
    pub(super) fn on_disk(&self) -> u64 {
        self.spill.as_ref().map_or(0, Spill::on_disk)
    }

    /// How much may wait in all while what comes goes to a disk; `None` while it does not.
    pub(super) fn spill_size(&self) -> Option<u64> {
        self.spill.as_ref().map(Spill::size)
    }

    /// The client has consumed this much.
    pub(super) fn credit(&mut self, bytes: u64) {
        self.outstanding = self.outstanding.saturating_sub(bytes);
        self.refill();
    }

    /// Drops the deliveries without credit: the connection is closing.
    pub(super) fn drop_waiting(&mut self) {
        self.waiting = Chain::default();
        self.frames.clear();
        self.waiting_blocking = 0;
        self.spill = None;
    }

    /// Fills `slices` with bytes for the socket; returns how many slices it filled.
    pub(super) fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.ready.slices(slices)
    }

    /// The socket took the first `len` bytes.
    pub(super) fn consumed(&mut self, len: usize) {
        self.ready.take(len, |_| {});
        self.runs.take(len);
        self.refill();
    }

    /// Whether there is nothing for the socket now.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.bytes == 0
    }

    /// Bytes that wait for the client, whichever way.
    pub(super) fn backlog(&self) -> usize {
        self.in_front() + self.spill.as_ref().map_or(0, Spill::bytes)
    }

    /// Those of them that wait in memory.
    pub(super) fn in_memory(&self) -> usize {
        self.in_front() + self.spill.as_ref().map_or(0, Spill::fresh)
    }

    fn in_front(&self) -> usize {
        self.ready.bytes + self.waiting.bytes + self.frames.len() * CREDIT_PER_FRAME
    }

    /// Those of them that belong to groups that block. Their number falls whenever the client takes
    /// bytes and none are added, since other output stands behind them.
    pub(super) fn blocking(&self) -> usize {
        self.runs.blocking() + self.waiting_blocking
    }

    /// The memory that the output takes. Bytes that several clients share count for each in part.
    pub(super) fn memory(&self) -> usize {
        let frames = self.frames.len() * size_of::<WaitingFrame>();
        let spill = self.spill.as_ref().map_or(0, Spill::memory);
        self.ready.memory + self.waiting.memory + self.runs.memory() + frames + spill
    }

    /// Whether there is credit and room for another delivery, if `more` bytes are added to `ready`
    /// before it.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn deliver(output: &mut Output, head: &[u8], payload: &[u8]) {
        let piece = Bytes::copy_from_slice(payload);
        output.deliver(head, Payload::new(&piece, 0, 1), ForSlow::Block);
    }

    fn of(blocks: bool) -> ForSlow {
        if blocks {
            ForSlow::Block
        } else {
            ForSlow::Keep
        }
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
            output.deliver(&[2; 10], Payload::new(&piece, 0, 4), ForSlow::Block);
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
                output.deliver(&head, Payload::new(&payload, 0, 1 + index % 3), of(index % 3 > 0));
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
                output.deliver(&head, Payload::new(&piece, 6, 1 + index % 3), of(index % 2 > 0));
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

        #[test]
        fn bytes_that_were_on_a_disk_come_out_in_order(
            frames in prop::collection::vec(prop::sample::select(vec![5usize, 9, 100, 1350, 30_000, 400_000, 900_000]), 1..60),
            acts in prop::collection::vec((0usize..4, 1usize..600_000), 1..60),
            at in 100usize..200_000,
        ) {
            const SIZE: usize = 1 << 20;
            let mut output = Output::new();
            output.set_window(u64::MAX);
            let (mut disk, mut file) = (None, vec![0; SIZE]);
            let (mut expected, mut got) = (Vec::new(), Vec::new());
            let mut frames = frames.iter().enumerate();
            for (act, amount) in acts.iter().copied().chain((0..).flat_map(|_| [(0, 0), (1, 600_000), (2, 0), (3, 0)])) {
                match act {
                    0 => if let Some((index, len)) = frames.next() {
                        let mut frame = vec![index as u8; *len];
                        frame[..4].copy_from_slice(&(*len as u32 - 4).to_be_bytes());
                        expected.extend_from_slice(&frame);
                        let payload = Bytes::copy_from_slice(&frame[5..]);
                        let spill = ForSlow::Spill { at, size: SIZE as u64 };
                        output.deliver(&frame[..5], Payload::new(&payload, 0, 1), spill);
                    },
                    1 => {
                        let bytes = offered(&mut output);
                        let take = amount.min(bytes.len());
                        got.extend_from_slice(&bytes[..take]);
                        output.consumed(take);
                    }
                    2 => if disk.is_none() {
                        disk = output.next_spill_step();
                    },
                    _ => match disk.take() {
                        Some(SpillStep::Write(place, bytes)) => {
                            let bytes = bytes.concat();
                            let mut rest = &bytes[..];
                            for (offset, len) in place.parts(bytes.len()) {
                                file[offset as usize..][..len].copy_from_slice(&rest[..len]);
                                rest = &rest[len..];
                            }
                            prop_assert!(output.spill_done(SpillDone::Written));
                        }
                        Some(SpillStep::Read(place, len)) => {
                            let parts = place.parts(len).map(|(offset, len)| &file[offset as usize..][..len]);
                            let bytes = Bytes::from(parts.concat());
                            prop_assert!(output.spill_done(SpillDone::Read(bytes)));
                        }
                        Some(SpillStep::End) | None => {}
                    },
                }
                prop_assert!(output.on_disk() <= SIZE as u64);
                if frames.len() == 0 && got.len() == expected.len() {
                    break;
                }
            }
            prop_assert!(output.next_spill_step().is_none_or(|step| matches!(step, SpillStep::End)));
            prop_assert_eq!((output.backlog(), output.blocking(), output.memory()), (0, 0, 0));
            prop_assert!(got == expected);
        }
    }
}
