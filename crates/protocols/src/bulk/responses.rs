//! Response contexts (003 5.4): under the policy `list` a receiver's reply is a datagram of its
//! own, and finds a context that acknowledges it; then the context is free for the next. There are
//! as many as the settings say, however many receivers there are.
//!
//! A reply that finds none is not read: its receiver repeats it.

use alloc::collections::VecDeque;

use groupcast_core::{Destination, MemberId, SocketClass, Transmit, TransmitBuf};

use super::numbers::Stamp;
use super::wire::Message;

/// The replies that are being acknowledged.
#[derive(Debug)]
pub(super) struct Responses {
    open: VecDeque<Response>,
    /// How many there may be, and the most that there were.
    max: usize,
    open_max: usize,
}

/// A reply that was read and is to be acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Response {
    to: MemberId,
    transfer: u32,
    stamp: Stamp,
}

impl Responses {
    pub(super) fn new(max: usize) -> Self {
        Self {
            open: VecDeque::new(),
            max,
            open_max: 0,
        }
    }

    /// Whether a reply finds a context.
    pub(super) fn has_room(&self) -> bool {
        self.open.len() < self.max
    }

    /// A reply to the request with this stamp takes a context.
    pub(super) fn open(&mut self, to: MemberId, transfer: u32, stamp: Stamp) {
        let response = Response {
            to,
            transfer,
            stamp,
        };
        self.open.push_back(response);
        self.open_max = self.open_max.max(self.open.len());
    }

    /// The next acknowledgement leaves, and its context is free.
    pub(super) fn poll_transmit(&mut self, buf: &mut TransmitBuf) -> Option<Transmit> {
        let Response {
            to,
            transfer,
            stamp,
        } = self.open.pop_front()?;
        buf.push(&[&Message::Acknowledgement(stamp).encode(transfer)]);
        Some(Transmit {
            destination: Destination::Member(to),
            class: SocketClass::Control,
        })
    }

    /// The most bytes that were kept for replies.
    pub(super) fn bytes_max(&self) -> u64 {
        (self.open_max * size_of::<Response>()) as u64
    }
}
