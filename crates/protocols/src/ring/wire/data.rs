//! Data packets: as they are stored, and their header on the wire.

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader};

use super::{Index, Kind, Message, RingKey, key};

/// Bytes of a data packet before its body.
pub(in crate::ring) const DATA_HEADER: usize = 32;
/// Bytes that a recovered packet's header has more.
pub(in crate::ring) const RECOVERED_HEADER: usize = 10;

const FLAG_POST_TOKEN: u8 = 1;
const FLAG_RECOVERED: u8 = 2;
/// Says nothing to a receiver; whoever measures tells repairs from data by it.
const FLAG_AGAIN: u8 = 4;

/// A data packet (002 III-B), as it is stored and as it travels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::ring) struct Packet {
    /// Who initiated it.
    pub(in crate::ring) origin: Index,
    /// The initiator's token visit in which it was.
    pub(in crate::ring) round: u32,
    /// What it was in an old ring, if it is recovered from one.
    pub(in crate::ring) recovered: Option<Recovered>,
    /// Packed records.
    pub(in crate::ring) body: Bytes,
}

/// The place of a recovered packet in its old ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ring) struct Recovered {
    pub(in crate::ring) seq: u64,
    pub(in crate::ring) origin: Index,
}

/// A data packet as it arrives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::ring) struct Data {
    pub(in crate::ring) ring: RingKey,
    pub(in crate::ring) seq: u64,
    /// Sent after the token of its round (002 III-C, second method).
    pub(in crate::ring) post_token: bool,
    pub(in crate::ring) packet: Packet,
}

/// Header of a data packet, ready to be sent before the body.
#[derive(Clone, Copy, Debug)]
pub(in crate::ring) struct DataHeader {
    bytes: [u8; DATA_HEADER + RECOVERED_HEADER],
    len: u8,
}

impl DataHeader {
    pub(in crate::ring) fn new(ring: RingKey, seq: u64, post_token: bool, packet: &Packet) -> Self {
        let mut bytes = [0; DATA_HEADER + RECOVERED_HEADER];
        bytes[0] = Kind::Data as u8;
        bytes[1] = if post_token { FLAG_POST_TOKEN } else { 0 };
        bytes[2..4].copy_from_slice(&packet.origin.to_be_bytes());
        bytes[4..12].copy_from_slice(&ring.counter.to_be_bytes());
        bytes[12..20].copy_from_slice(&ring.incarnation.0.to_be_bytes());
        bytes[20..28].copy_from_slice(&seq.to_be_bytes());
        bytes[28..32].copy_from_slice(&packet.round.to_be_bytes());
        let mut len = DATA_HEADER;
        if let Some(Recovered { seq, origin }) = packet.recovered {
            bytes[1] |= FLAG_RECOVERED;
            bytes[32..40].copy_from_slice(&seq.to_be_bytes());
            bytes[40..42].copy_from_slice(&origin.to_be_bytes());
            len += RECOVERED_HEADER;
        }
        Self {
            bytes,
            len: len as u8,
        }
    }

    /// The same packet, sent again because somebody asked for it.
    pub(in crate::ring) fn again(mut self) -> Self {
        self.bytes[1] |= FLAG_AGAIN;
        self
    }

    pub(in crate::ring) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Whether the encoded data packet `bytes` was marked by [`DataHeader::again`].
pub(in crate::ring) fn is_again(bytes: &[u8]) -> bool {
    bytes.get(1).is_some_and(|flags| flags & FLAG_AGAIN != 0)
}

pub(super) fn data(mut reader: Reader<'_>, bytes: &Bytes) -> Result<Message, DecodeError> {
    let flags = reader.u8("flags")?;
    let origin = reader.u16("origin")?;
    let ring = key(&mut reader)?;
    let seq = reader.u64("seq")?;
    let round = reader.u32("round")?;
    let recovered = if flags & FLAG_RECOVERED != 0 {
        Some(Recovered {
            seq: reader.u64("old seq")?,
            origin: reader.u16("old origin")?,
        })
    } else {
        None
    };
    let packet = Packet {
        origin,
        round,
        recovered,
        body: bytes.slice(reader.position()..),
    };
    Ok(Message::Data(Data {
        ring,
        seq,
        post_token: flags & FLAG_POST_TOKEN != 0,
        packet,
    }))
}
