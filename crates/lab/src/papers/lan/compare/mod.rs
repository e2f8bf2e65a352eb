//! What 001 compares its protocols with: raw UDP multicast, and TCP to one receiver after the
//! other. For the simulator only: they know no losses to speak of, no strangers and no restarts.
//!
//! A message is delivered to its sender once the sender knows that all receivers have it, as with
//! the protocols that they are compared with. Layout of a datagram, all numbers big-endian:
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | [`Kind`] |
//! | 1..9 | number of the message |
//! | 9..13 | place of the first byte in the message; of an acknowledgement, that of the next byte that is expected |
//! | 13..17 | length of the message |
//! | 17.. | bytes |

mod tcp;
mod udp;

use bytes::{Buf as _, Bytes};
use groupcast_core::SocketClass;
use groupcast_core::trace::{Inspected, Role};

pub(super) use self::tcp::Tcp;
pub(super) use self::udp::Udp;

/// Bytes before those of the message.
const HEADER: usize = 17;

/// What a datagram is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    /// Somebody is there.
    Hello = 0,
    /// A part of a message.
    Data = 1,
    /// This much of it is here.
    Ack = 2,
    /// A connection for it is asked for.
    Open = 3,
    /// And granted.
    Opened = 4,
}

impl Kind {
    const ALL: [(Self, &'static str, Role); 5] = [
        (Self::Hello, "hello", Role::Control),
        (Self::Data, "data", Role::Data),
        (Self::Ack, "report", Role::Control),
        (Self::Open, "open", Role::Control),
        (Self::Opened, "opened", Role::Control),
    ];
}

/// A datagram.
struct Packet {
    kind: Kind,
    number: u64,
    place: u32,
    length: u32,
    bytes: Bytes,
}

impl Packet {
    fn decode(mut body: Bytes) -> Option<Self> {
        if body.len() < HEADER {
            return None;
        }
        let code = body.get_u8();
        let (kind, ..) = Kind::ALL
            .into_iter()
            .find(|(kind, ..)| *kind as u8 == code)?;
        Some(Self {
            kind,
            number: body.get_u64(),
            place: body.get_u32(),
            length: body.get_u32(),
            bytes: body,
        })
    }

    fn header(kind: Kind, number: u64, place: u32, length: u32) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[0] = kind as u8;
        header[1..9].copy_from_slice(&number.to_be_bytes());
        header[9..13].copy_from_slice(&place.to_be_bytes());
        header[13..].copy_from_slice(&length.to_be_bytes());
        header
    }

    /// Where its bytes end in the message.
    fn end(&self) -> u32 {
        self.place.saturating_add(self.bytes.len() as u32)
    }

    /// Whether they are the last of the message.
    fn is_last(&self) -> bool {
        self.end() >= self.length
    }
}

/// An [`Inspect`](groupcast_core::trace::Inspect) for both.
pub(super) fn inspect(
    _class: SocketClass,
    body: &[u8],
    _payload: &mut dyn FnMut(&[u8]),
) -> Inspected {
    let found = body.first().and_then(|code| {
        Kind::ALL
            .into_iter()
            .find(|(kind, ..)| *kind as u8 == *code)
    });
    let (kind, role) = found.map_or(("junk", Role::Control), |(_, kind, role)| (kind, role));
    Inspected { kind, role }
}

/// The longest message.
const MESSAGE_MAX: usize = 64 << 20;
