//! What waits for one client: bytes that its socket may take now, and deliveries that it has no credit for yet.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};

use crate::frame::{credit_cost, has_credit};

/// Deliveries are turned into bytes for the socket up to here, so that answers do not wait behind more.
const READY_MAX: usize = 256 * 1024;
/// Size of the blocks in which small frames are gathered.
const BLOCK: usize = 16 * 1024;
/// Payloads up to this are copied into the block; longer ones are passed on by reference.
const COPY_MAX: usize = 2 * 1024;

/// Output of one client.
#[derive(Debug)]
pub(super) struct Output {
    /// Whole frames in the order of the wire, except that the first may have been sent in part.
    ready: VecDeque<Bytes>,
    /// The last of them, still growing.
    tail: BytesMut,
    ready_bytes: usize,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    window: u64,
    outstanding: u64,
}

#[derive(Debug)]
struct Waiting {
    head: Bytes,
    payload: Bytes,
}

impl Waiting {
    fn cost(&self) -> usize {
        credit_cost(self.head.len() + self.payload.len())
    }
}

impl Output {
    pub(super) fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            tail: BytesMut::new(),
            ready_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
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
        self.append(frame, &Bytes::new());
    }

    /// A message or a view: `head`, then `payload`.
    pub(super) fn deliver(&mut self, head: &[u8], payload: &Bytes) {
        let cost = credit_cost(head.len() + payload.len());
        if self.waiting.is_empty() && self.may_send() {
            self.outstanding += cost as u64;
            self.append(head, payload);
        } else {
            self.waiting_bytes += cost;
            self.waiting.push_back(Waiting {
                head: Bytes::copy_from_slice(head),
                payload: payload.clone(),
            });
        }
    }

    /// The client has consumed so much.
    pub(super) fn credit(&mut self, bytes: u64) {
        self.outstanding = self.outstanding.saturating_sub(bytes);
        self.refill();
    }

    /// Forgets what is not on its way yet: the connection ends.
    pub(super) fn drop_waiting(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    /// Fills `slices` with what the socket may take; how many.
    pub(super) fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.seal();
        let mut count = 0;
        for (slice, bytes) in slices.iter_mut().zip(&self.ready) {
            *slice = IoSlice::new(bytes);
            count += 1;
        }
        count
    }

    /// The socket took so many bytes of them.
    pub(super) fn consumed(&mut self, mut len: usize) {
        self.ready_bytes -= len.min(self.ready_bytes);
        while let Some(front) = self.ready.front_mut() {
            if len < front.len() {
                let _ = front.split_to(len);
                break;
            }
            len -= front.len();
            self.ready.pop_front();
        }
        self.refill();
    }

    /// Whether the socket may take nothing now.
    pub(super) fn is_empty(&self) -> bool {
        self.ready_bytes == 0
    }

    /// Bytes that wait for the client, whichever way.
    pub(super) fn backlog(&self) -> usize {
        self.ready_bytes + self.waiting_bytes
    }

    fn may_send(&self) -> bool {
        has_credit(self.outstanding, self.window) && self.ready_bytes < READY_MAX
    }

    fn refill(&mut self) {
        while self.may_send()
            && let Some(next) = self.waiting.pop_front()
        {
            let cost = next.cost();
            self.waiting_bytes -= cost;
            self.outstanding += cost as u64;
            self.append(&next.head, &next.payload);
        }
    }

    fn append(&mut self, head: &[u8], payload: &Bytes) {
        let copied = if payload.len() <= COPY_MAX {
            payload.len()
        } else {
            0
        };
        if self.tail.capacity() - self.tail.len() < head.len() + copied {
            self.seal();
            self.tail.reserve(BLOCK.max(head.len() + copied));
        }
        self.tail.extend_from_slice(head);
        self.ready_bytes += head.len() + payload.len();
        if copied == payload.len() {
            self.tail.extend_from_slice(payload);
        } else {
            self.seal();
            self.ready.push_back(payload.clone());
        }
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.ready.push_back(self.tail.split().freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        output.deliver(&[1; 100], &Bytes::new());
        output.deliver(&[2; 100], &Bytes::new());
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
        output.deliver(&[1], &Bytes::from(vec![1; 5000]));
        output.deliver(&[2], &Bytes::new());
        assert_eq!(offered(&mut output).len(), 5001);
        output.consumed(5001);
        assert!(output.is_empty());
        assert!(output.backlog() > 0);
        output.credit(credit_cost(5001) as u64);
        assert_eq!(offered(&mut output), [2]);
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
                output.deliver(&head, &payload);
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
            prop_assert_eq!(output.backlog(), 0);
            prop_assert_eq!(got, expected);
        }
    }
}
