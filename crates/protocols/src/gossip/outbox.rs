//! What waits to be sent: new messages, repairs, and all that is said about them.

use alloc::collections::VecDeque;

use bytes::Bytes;
use groupcast_core::mech::send_queue::Backlog;
use groupcast_core::{Destination, MemberId, SocketClass, Transmit, TransmitBuf};

use super::wire::{DATA_HEADER, DataHeader, Message};

/// A datagram's body: a header and a payload that is shared with the buffer, or a control message.
#[derive(Debug)]
enum Body {
    Data([u8; DATA_HEADER], Bytes),
    Control(Bytes),
}

impl Body {
    fn len(&self) -> usize {
        match self {
            Self::Data(_, payload) => DATA_HEADER + payload.len(),
            Self::Control(bytes) => bytes.len(),
        }
    }
}

/// A queue of datagrams, bounded in bytes.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: VecDeque<(Transmit, Body)>,
    bytes: usize,
    max: usize,
    /// Datagrams that did not fit.
    pub(super) dropped: u64,
}

impl Outbox {
    /// Bytes that a datagram is taken to cost besides its own.
    const COST: usize = 64;

    pub(super) fn new(max: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            bytes: 0,
            max,
            dropped: 0,
        }
    }

    /// Sends a message's bytes.
    pub(super) fn data(&mut self, destination: Destination, header: DataHeader, payload: Bytes) {
        self.push(
            destination,
            SocketClass::Data,
            Body::Data(header.encode(), payload),
        );
    }

    /// Says something to one member.
    pub(super) fn tell(&mut self, to: MemberId, message: &Message) {
        self.control(Destination::Member(to), message.encode());
    }

    /// Says something to everybody.
    pub(super) fn tell_all(&mut self, message: &Message) {
        self.control(Destination::Group, message.encode());
    }

    /// Sends an encoded control message.
    pub(super) fn control(&mut self, destination: Destination, bytes: Bytes) {
        self.push(destination, SocketClass::Token, Body::Control(bytes));
    }

    fn push(&mut self, destination: Destination, class: SocketClass, body: Body) {
        if self.bytes + body.len() > self.max {
            self.dropped += 1;
            return;
        }
        self.bytes += body.len() + Self::COST;
        self.queue
            .push_back((Transmit { destination, class }, body));
    }

    /// Writes the next datagrams that go to one destination and are of one size.
    pub(super) fn poll(&mut self, buf: &mut TransmitBuf) -> Option<Transmit> {
        let mut begun = None;
        while let Some((transmit, body)) = self.queue.front() {
            let fits = begun.is_none_or(|first| first == *transmit) && buf.accepts(body.len());
            if !fits {
                break;
            }
            match body {
                Body::Data(header, payload) => buf.push(&[header, payload]),
                Body::Control(bytes) => buf.push(&[bytes]),
            }
            self.bytes -= body.len() + Self::COST;
            begun = Some(*transmit);
            self.queue.pop_front();
        }
        begun
    }
}

impl Backlog for Outbox {
    /// With what each datagram costs besides.
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
