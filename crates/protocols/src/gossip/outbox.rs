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

/// For whom a datagram waits: each kind has its own bound in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A new message of this member's own.
    New,
    /// Repairs, others' messages along trees, and control.
    Other,
}

/// How much of a kind waits.
#[derive(Debug)]
struct Account {
    datagrams: usize,
    bytes: usize,
    bytes_max: usize,
}

impl Account {
    fn new(bytes_max: usize) -> Self {
        Self {
            datagrams: 0,
            bytes: 0,
            bytes_max,
        }
    }
}

/// Datagrams in the order in which they were said: what a member says of itself is never older than
/// the new messages before it, nor newer than those after it.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: VecDeque<(Kind, Transmit, Body)>,
    new: Account,
    other: Account,
    /// Datagrams that did not fit.
    pub(super) dropped: u64,
}

impl Outbox {
    /// Bytes that a datagram is taken to cost besides its own.
    const COST: usize = 64;

    /// At most this many bytes of new messages wait, and of all else.
    pub(super) fn new(new_max: usize, other_max: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            new: Account::new(new_max),
            other: Account::new(other_max),
            dropped: 0,
        }
    }

    /// Sends a new message.
    pub(super) fn message(&mut self, destination: Destination, header: DataHeader, payload: Bytes) {
        let body = Body::Data(header.encode(), payload);
        self.push(Kind::New, destination, SocketClass::Data, body);
    }

    /// Sends a message's bytes again, or passes them on.
    pub(super) fn data(&mut self, destination: Destination, header: DataHeader, payload: Bytes) {
        let body = Body::Data(header.encode(), payload);
        self.push(Kind::Other, destination, SocketClass::Data, body);
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
        let body = Body::Control(bytes);
        self.push(Kind::Other, destination, SocketClass::Control, body);
    }

    fn push(&mut self, kind: Kind, destination: Destination, class: SocketClass, body: Body) {
        let account = self.account(kind);
        if account.bytes + body.len() > account.bytes_max {
            self.dropped += 1;
            return;
        }
        account.datagrams += 1;
        account.bytes += body.len() + Self::COST;
        let transmit = Transmit { destination, class };
        self.queue.push_back((kind, transmit, body));
    }

    fn account(&mut self, kind: Kind) -> &mut Account {
        match kind {
            Kind::New => &mut self.new,
            Kind::Other => &mut self.other,
        }
    }

    /// Writes the next datagrams that go to one destination and are of one size.
    pub(super) fn poll(&mut self, buf: &mut TransmitBuf) -> Option<Transmit> {
        let mut begun = None;
        while let Some((kind, transmit, body)) = self.queue.front() {
            let fits = begun.is_none_or(|first| first == *transmit) && buf.accepts(body.len());
            if !fits {
                break;
            }
            match body {
                Body::Data(header, payload) => buf.push(&[header, payload]),
                Body::Control(bytes) => buf.push(&[bytes]),
            }
            begun = Some(*transmit);
            let (kind, cost) = (*kind, body.len() + Self::COST);
            self.queue.pop_front();
            let account = self.account(kind);
            account.datagrams -= 1;
            account.bytes -= cost;
        }
        begun
    }

    /// Bytes that wait, of both kinds, with what each datagram costs besides.
    pub(super) fn queued(&self) -> usize {
        self.new.bytes + self.other.bytes
    }
}

/// New messages alone: the others' traffic holds no user back.
impl Backlog for Outbox {
    fn bytes(&self) -> usize {
        self.new.bytes
    }

    fn is_empty(&self) -> bool {
        self.new.datagrams == 0
    }
}
