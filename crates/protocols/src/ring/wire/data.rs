//! Data packets: as they are stored, and their header on the wire, which is short because it costs
//! throughput.

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader};

use super::{FLAGS_SHIFT, Kind, Message, RingTag, tag};
use crate::ring::config::BODY_MOST;
use crate::ring::numbers::{Index, Round, Seq};
use crate::ring::parts::{PART_HEADER, Part};

/// Bytes of a data packet before its body.
pub(in crate::ring) const DATA_HEADER: usize = 17;
/// Bytes that a recovered packet's header has more.
pub(in crate::ring) const RECOVERED_HEADER: usize = 7;

/// In the old origin: the packet is a part of the old one.
const FLAG_PART: u8 = 0x80;
const FLAG_POST_TOKEN: u8 = 1;
const FLAG_RECOVERED: u8 = 2;
/// Ignored by receivers; measurements tell repairs from data by it.
const FLAG_AGAIN: u8 = 4;
const FLAG_PADDED: u8 = 8;

/// The most padding of a packet.
pub(in crate::ring) const PADDING_MAX: usize = u16::MAX as usize;
/// The last byte of padding that says how much there is in the two bytes before.
const LONG_PADDING: u8 = u8::MAX;

/// A data packet (002 III-B), as it is stored and as it travels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::ring) struct Packet {
    /// Who initiated it.
    pub(in crate::ring) origin: Index,
    /// The token's rotation in which it was initiated, modulo 256.
    pub(in crate::ring) round: Round,
    /// What it was in an old ring, if it is recovered from one.
    pub(in crate::ring) recovered: Option<Recovered>,
    /// Packed records.
    pub(in crate::ring) body: Bytes,
}

/// The place of a recovered packet in its old ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ring) struct Recovered {
    pub(in crate::ring) seq: Seq,
    pub(in crate::ring) origin: Index,
    /// Which part of the old packet it has, if that is too long for the new ring.
    pub(in crate::ring) part: Option<Part>,
}

/// A data packet as it arrives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::ring) struct Data {
    pub(in crate::ring) ring: RingTag,
    pub(in crate::ring) seq: Seq,
    /// Sent after the token of its round (002 III-C, second method).
    pub(in crate::ring) post_token: bool,
    pub(in crate::ring) packet: Packet,
}

/// Header of a data packet, ready to be sent before the body.
#[derive(Clone, Copy, Debug)]
pub(in crate::ring) struct DataHeader {
    bytes: [u8; DATA_HEADER + RECOVERED_HEADER + PART_HEADER],
    len: u8,
}

impl DataHeader {
    pub(in crate::ring) fn new(ring: RingTag, seq: Seq, post_token: bool, packet: &Packet) -> Self {
        let mut bytes = [0; DATA_HEADER + RECOVERED_HEADER + PART_HEADER];
        let flag = if post_token { FLAG_POST_TOKEN } else { 0 };
        bytes[0] = Kind::Data as u8 | flag << FLAGS_SHIFT;
        bytes[1] = packet.origin.0 as u8;
        bytes[2..10].copy_from_slice(&ring.0.to_be_bytes());
        bytes[10..16].copy_from_slice(&seq.0.to_be_bytes()[2..]);
        bytes[16] = packet.round.0;
        let mut len = DATA_HEADER;
        if let Some(Recovered { seq, origin, part }) = packet.recovered {
            bytes[0] |= FLAG_RECOVERED << FLAGS_SHIFT;
            bytes[17..23].copy_from_slice(&seq.0.to_be_bytes()[2..]);
            bytes[23] = origin.0 as u8;
            len += RECOVERED_HEADER;
            if let Some(Part { at, of }) = part {
                bytes[23] |= FLAG_PART;
                bytes[24..26].copy_from_slice(&at.to_be_bytes());
                bytes[26..28].copy_from_slice(&of.to_be_bytes());
                len += PART_HEADER;
            }
        }
        Self {
            bytes,
            len: len as u8,
        }
    }

    /// The same packet, sent again because a member asked for it.
    pub(in crate::ring) fn again(mut self) -> Self {
        self.bytes[0] |= FLAG_AGAIN << FLAGS_SHIFT;
        self
    }

    /// The same packet with padding after its body.
    pub(in crate::ring) fn padded(mut self) -> Self {
        self.bytes[0] |= FLAG_PADDED << FLAGS_SHIFT;
        self
    }

    pub(in crate::ring) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The end of a packet's padding, which says how long all of it is.
#[derive(Clone, Copy, Debug)]
pub(in crate::ring) struct PaddingEnd {
    bytes: [u8; 3],
    len: usize,
}

impl PaddingEnd {
    /// The end of `padding` bytes, at least 1 and at most [`PADDING_MAX`].
    pub(in crate::ring) fn of(padding: usize) -> Self {
        let [high, low] = (padding as u16).to_be_bytes();
        let short = padding < usize::from(LONG_PADDING);
        Self {
            bytes: [high, low, if short { low } else { LONG_PADDING }],
            len: if short { 1 } else { 3 },
        }
    }

    pub(in crate::ring) fn as_bytes(&self) -> &[u8] {
        &self.bytes[3 - self.len..]
    }
}

/// `body` without its padding.
fn unpadded(reader: &Reader<'_>, body: Bytes) -> Result<Bytes, DecodeError> {
    let padding = match body[..] {
        [.., high, low, LONG_PADDING] => usize::from(u16::from_be_bytes([high, low])),
        [.., short] => usize::from(short),
        [] => 0,
    };
    if padding == 0 || padding > body.len() {
        return Err(reader.invalid("padding", padding as u64));
    }
    Ok(body.slice(..body.len() - padding))
}

/// Whether the encoded data packet `bytes` was marked by [`DataHeader::again`].
pub(in crate::ring) fn is_again(bytes: &[u8]) -> bool {
    bytes
        .first()
        .is_some_and(|kind| kind >> FLAGS_SHIFT & FLAG_AGAIN != 0)
}

pub(super) fn data(
    flags: u8,
    mut reader: Reader<'_>,
    bytes: &Bytes,
) -> Result<Message, DecodeError> {
    let origin = Index(reader.u8("origin")?.into());
    let ring = tag(&mut reader)?;
    let seq = seq(&mut reader, "seq")?;
    let round = Round(reader.u8("round")?);
    let recovered = if flags & FLAG_RECOVERED != 0 {
        Some(recovered(&mut reader)?)
    } else {
        None
    };
    let mut body = bytes.slice(reader.position()..);
    if flags & FLAG_PADDED != 0 {
        body = unpadded(&reader, body)?;
    }
    // One that is larger could not be sent on when it is recovered.
    if body.len() > BODY_MOST - DATA_HEADER - RECOVERED_HEADER {
        return Err(reader.invalid("body", body.len() as u64));
    }
    let part = recovered.and_then(|it| it.part);
    if part.is_some_and(|it| Part::checked(it.at, it.of, body.len()).is_none()) {
        return Err(reader.invalid("part", body.len() as u64));
    }
    let packet = Packet {
        origin,
        round,
        recovered,
        body,
    };
    Ok(Message::Data(Data {
        ring,
        seq,
        post_token: flags & FLAG_POST_TOKEN != 0,
        packet,
    }))
}

/// The place of a recovered packet.
fn recovered(reader: &mut Reader<'_>) -> Result<Recovered, DecodeError> {
    let seq = seq(reader, "old seq")?;
    let origin = reader.u8("old origin")?;
    let part = if origin & FLAG_PART != 0 {
        Some(Part {
            at: reader.u16("part")?,
            of: reader.u16("whole")?,
        })
    } else {
        None
    };
    Ok(Recovered {
        seq,
        origin: Index((origin & !FLAG_PART).into()),
        part,
    })
}

/// A sequence number of 48 bits: a place in the order has no more for it.
fn seq(reader: &mut Reader<'_>, field: &'static str) -> Result<Seq, DecodeError> {
    let mut bytes = [0; 8];
    bytes[2..].copy_from_slice(reader.take(field, 6)?);
    Ok(Seq(u64::from_be_bytes(bytes)))
}
