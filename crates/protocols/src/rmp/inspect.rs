//! Reading RMP's datagrams from outside, for measurements and traces.

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::SocketClass;
use groupcast_core::trace::{Inspected, Role};

use super::wire::Message;
use crate::packing::Unpacker;

/// An [`Inspect`](groupcast_core::trace::Inspect) for RMP. Messages that span several packets are
/// not seen.
pub fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let body = Bytes::copy_from_slice(body);
    let of = |kind, role| Inspected { kind, role };
    match Message::decode(&body) {
        Ok(Message::Data(data)) => {
            payloads(&data.body, payload);
            match data.again {
                true => of("repair", Role::Repair),
                false => of("data", Role::Data),
            }
        }
        Ok(Message::Unordered { record, .. }) => {
            payloads(&record, payload);
            of("unordered", Role::Data)
        }
        Ok(Message::Ack(ack)) if ack.packets.is_empty() => of("null ack", Role::Control),
        Ok(Message::Ack(_)) => of("ack", Role::Control),
        Ok(Message::Confirm { .. }) => of("confirm", Role::Control),
        Ok(Message::Settle { .. }) => of("settle", Role::Control),
        Ok(Message::Nack(_)) => of("nack", Role::Request),
        Ok(Message::Wanted(_)) => of("marks wanted", Role::Request),
        Ok(Message::Relayed(_)) => of("marks relayed", Role::Control),
        Ok(Message::Poll(_)) => of("poll", Role::Control),
        Ok(Message::Answer(_)) => of("answer", Role::Control),
        Ok(Message::Proposal(_)) => of("proposal", Role::Control),
        Ok(Message::Accept { .. }) => of("accept", Role::Control),
        Ok(Message::Install { .. }) => of("install", Role::Control),
        Ok(Message::Ask { .. }) => of("ask", Role::Control),
        Ok(Message::Missing(_)) => of("missing", Role::Control),
        Ok(Message::Told(_)) => of("told", Role::Control),
        Ok(Message::Announcement(_)) => of("announcement", Role::Control),
        Ok(Message::Goodbye) => of("good-bye", Role::Control),
        Ok(Message::Join(_)) => of("join", Role::Control),
        Ok(Message::List(_)) => of("list", Role::Control),
        Ok(Message::Listed(_)) => of("listed", Role::Control),
        Ok(Message::Leave { .. }) => of("leave", Role::Control),
        Ok(Message::Probe { .. }) => of("probe", Role::Control),
        Ok(Message::Name(_)) => of("name in use", Role::Control),
        Err(_) => of("junk", Role::Control),
    }
}

/// Calls `payload` for every message that is whole in `body`.
fn payloads(body: &Bytes, payload: &mut dyn FnMut(&[u8])) {
    let (mut unpacker, mut at) = (Unpacker::default(), 0);
    while let Ok(Some(record)) = unpacker.next(body, &mut at, body.len()) {
        payload(&record.payload);
    }
}

/// What a datagram of one configuration says about the order, for transcripts (000 Fig. 6). Members
/// are named by their places in the configuration's list, from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Said {
    /// The packet `number` of the member `origin`.
    Data {
        /// Whose packet it is.
        origin: usize,
        /// Its number there, from 1.
        number: u64,
    },
    /// Positions for packets, and the token; no packets: a null ACK.
    Ack {
        /// The first packet of each run that it orders: whose, and its number.
        packets: Vec<(usize, u64)>,
        /// Its timestamp.
        stamp: u64,
        /// The next token site.
        next: usize,
    },
    /// The ACKs of positions from this one on are missing.
    Nack {
        /// The first missing position; `None` if only packets are missing.
        position: Option<u64>,
    },
    /// The token was taken.
    Confirm {
        /// Of the ACK that passed it.
        stamp: u64,
    },
}

impl Said {
    /// Reads a body; `None` if it says nothing about the order, or is no datagram of RMP.
    pub fn read(body: &[u8]) -> Option<Self> {
        Some(match Message::decode(&Bytes::copy_from_slice(body)).ok()? {
            Message::Data(data) => Self::Data {
                origin: data.origin.into(),
                number: data.number.0,
            },
            Message::Ack(ack) => Self::Ack {
                packets: (ack.packets.iter())
                    .map(|run| (run.origin.into(), run.first.0))
                    .collect(),
                stamp: ack.stamp.0,
                next: ack.next.into(),
            },
            Message::Nack(nack) => Self::Nack {
                position: nack.positions.first().map(|run| run.first.0),
            },
            Message::Confirm { stamp, .. } => Self::Confirm { stamp: stamp.0 },
            _ => return None,
        })
    }
}
