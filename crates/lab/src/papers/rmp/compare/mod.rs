//! What 000 compares RMP with, as small models: remote procedure calls to one receiver after the
//! other ([`Rpc`]), and a server that gets everything over TCP and sends it on over TCP ([`Tcp`]:
//! MBus I). For the simulator only: they know no strangers and no restarts. What MBus I itself does
//! with a message is unknown, and costs nothing here.
//!
//! Layout of a datagram, all numbers big-endian; the roster's hello has a layout of its own, and
//! the same kind:
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | [`Kind`] |
//! | 1..9 | place of the segment in its stream; in an ACK, the next one; number of a call |
//! | 9 | the host whose message it is |
//! | 10..18 | number of the message |
//! | 18..22 | length of the message |
//! | 22.. | bytes |

mod rpc;
mod tcp;

use bytes::{Buf as _, Bytes};
use groupcast_core::trace::{Inspected, Role};
use groupcast_core::{MemberId, SocketClass};

pub(super) use self::rpc::Rpc;
pub(super) use self::tcp::{PACKET, Routes, Tcp};

/// Bytes before those of the message.
const HEADER: usize = 22;

/// What a datagram is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    /// Somebody is there.
    Hello = 0,
    /// A segment, or a call.
    Data = 1,
    /// What has come, or a reply.
    Ack = 2,
}

impl Kind {
    const ALL: [(Self, &'static str, Role); 3] = [
        (Self::Hello, "hello", Role::Control),
        (Self::Data, "data", Role::Data),
        (Self::Ack, "ack", Role::Control),
    ];

    fn of(code: u8) -> Option<(Self, &'static str, Role)> {
        Self::ALL.into_iter().find(|(kind, ..)| *kind as u8 == code)
    }
}

/// A datagram.
#[derive(Clone, Debug)]
struct Packet {
    kind: Kind,
    seq: u64,
    origin: u8,
    number: u64,
    length: u32,
    bytes: Bytes,
}

impl Packet {
    /// Reads one; of a hello only the kind is read.
    fn decode(mut body: Bytes) -> Option<Self> {
        let (kind, ..) = Kind::of(*body.first()?)?;
        if kind == Kind::Hello {
            return Some(Self::control(kind, 0));
        }
        if body.len() < HEADER {
            return None;
        }
        body.advance(1);
        Some(Self {
            kind,
            seq: body.get_u64(),
            origin: body.get_u8(),
            number: body.get_u64(),
            length: body.get_u32(),
            bytes: body,
        })
    }

    /// One without bytes of a message.
    fn control(kind: Kind, seq: u64) -> Self {
        Self {
            kind,
            seq,
            origin: 0,
            number: 0,
            length: 0,
            bytes: Bytes::new(),
        }
    }

    fn header(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[0] = self.kind as u8;
        header[1..9].copy_from_slice(&self.seq.to_be_bytes());
        header[9] = self.origin;
        header[10..18].copy_from_slice(&self.number.to_be_bytes());
        header[18..].copy_from_slice(&self.length.to_be_bytes());
        header
    }
}

/// The index of a member's host: the simulator numbers nodes from 1 on.
fn host(member: MemberId) -> usize {
    (member.node.0 as usize).saturating_sub(1)
}

/// An [`Inspect`](groupcast_core::trace::Inspect) for both.
pub(super) fn inspect(
    _class: SocketClass,
    body: &[u8],
    _payload: &mut dyn FnMut(&[u8]),
) -> Inspected {
    let found = body.first().and_then(|code| Kind::of(*code));
    let (kind, role) = found.map_or(("junk", Role::Control), |(_, kind, role)| (kind, role));
    Inspected { kind, role }
}
