//! Datagram bodies of the ring.
//!
//! The first byte is the kind, with flags in its upper half where there are any. Integers are
//! big-endian; a *key* is a ring's identity on the wire, (counter 8, representative's incarnation
//! 8), enough because incarnations are never reused, and its *tag* (8) is both in one number; a
//! *list* is a count (2) and items.
//!
//! | kind | layout after the kind byte |
//! |---|---|
//! | 1 data | origin 1, tag 8, seq 6, round 1, [old seq 6, old origin 1, [at 2, of 2 if the origin's highest bit is set] if recovered], body, [padding] |
//! | 2 token | flags 1, key 16, hop 8, seq 8, aru 8, aru-by 2, fcc 4, retransmissions 4, backlog 4, install 8, list of (first 8, count 2), extensions |
//! | 6 acknowledgement | key 16, hop 8 |
//! | 7 hurry | key 16 |
//! | 8 unordered | flags 1 (0), origin 2, key 16, one record |
//! | 9 name in use | uptime in ms 8 |
//! | 9 with flag 1: name question | nonce 8 |
//! | 9 with flag 2: name proof | nonce 8, uptime in ms 8 |
//! | 10 join | flags 1, attempt 8, counter 8, lists of members: proc, fail, left, heard |
//! | 11 commit token | hop 8, ring 24, list of left members, list of (member 16, attempt 8, filled 1, body max 2, old ring 24, aru 8, high 8, safe 8, obligations 16) |
//! | 12 announcement | ring 24, lists of members: members, heard |
//! | 13 probe | flags 1 (1: it answers one), number 8 |
//! | 14 part | number 4, at 2, of 2, bytes of a message |
//!
//! Data that is padded says so by a flag, and says at its end how much of it is padding: in the
//! last byte, or, for 255 bytes and more, in the two bytes before it (it is 255 then). So no byte
//! of padding can be taken for payload, wherever in a record the body ends.
//!
//! A recovered packet that is too long for the ring is sent in parts: each says where in the old
//! packet it begins, and how long that is.
//!
//! Tokens, joins and announcements that are too long for a way are sent in parts as well: of the
//! sender's message of this number, each with its place and the length of the whole.
//!
//! In the first format joins, commit tokens and announcements had the kinds 3, 4 and 5, and padding
//! stood in the body. Members of the two formats form no ring with each other.
//!
//! Extensions of the token: (type 1, length 2, bytes) until the end; unknown ones are skipped and
//! not passed on. Type 1, while `k-resilient` or `majority` messages are about: the last packet
//! that has a part of one (8), and for each member how far the mark up to which it holds all is
//! below seq (4; all ones if nothing is known). The commit token then ends with a list of old
//! rings: ring 24, MaxN 2, list of marks (8 each) of its members. It names at most 512 members that
//! have left, 128 members, and 128 old rings with 4096 marks together, so that it stays a datagram
//! whatever its members add to it.

mod data;
mod membership;
#[cfg(test)]
mod tests;
mod token;

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::mech::namesakes::NameMessage;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{ConfigId, Incarnation};

pub(super) use self::data::{
    DATA_HEADER, Data, DataHeader, PADDING_MAX, Packet, PaddingEnd, RECOVERED_HEADER, Recovered,
    is_again,
};
pub(super) use self::membership::{Announcement, Commit, CommitMember, Join, LEFT_MAX, OldMarks};
pub(super) use self::token::{RTR_RUNS_MAX, Resilience, Token};
use super::config::BODY_LEAST;
use super::numbers::{Hop, Index};
use super::parts::{PART_HEADER, Part};

/// Bytes of a part of a message before what it is a part of.
pub(super) const PART_AROUND: usize = 1 + 4 + PART_HEADER;

/// A ring's identity on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RingKey {
    pub(super) counter: u64,
    pub(super) incarnation: Incarnation,
}

impl From<ConfigId> for RingKey {
    fn from(id: ConfigId) -> Self {
        Self {
            counter: id.counter,
            incarnation: id.representative.incarnation,
        }
    }
}

impl RingKey {
    /// Stands for it in data packets: different for all rings of one representative, and for those
    /// of two in all but one of 2^64 cases, since incarnations are random.
    pub(super) fn tag(self) -> RingTag {
        /// Odd, so that no two counters give the same product: 2^64 by the golden ratio.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        RingTag(self.incarnation.0 ^ self.counter.wrapping_mul(SPREAD))
    }
}

/// A ring's identity in as few bytes as do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RingTag(pub(super) u64);

/// Any datagram body of the ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Data(Data),
    Token(Token),
    Join(Join),
    Commit(Commit),
    Announcement(Announcement),
    Ack {
        ring: RingKey,
        hop: Hop,
    },
    Hurry {
        ring: RingKey,
    },
    Unordered {
        ring: RingKey,
        origin: Index,
        record: Bytes,
    },
    /// To another process with this member's name.
    Name(NameMessage),
    Probe {
        /// It answers the probe of this number.
        answers: bool,
        number: u64,
    },
    /// Of a message that spans several datagrams.
    Part {
        /// Of the message, among those of its sender.
        number: u32,
        part: Part,
        bytes: Bytes,
    },
}

/// Where in the first byte the flags begin.
const FLAGS_SHIFT: u32 = 4;
/// The part of the first byte that is the kind.
const KIND_MASK: u8 = 0x0f;

#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Data = 1,
    Token = 2,
    Ack = 6,
    Hurry = 7,
    Unordered = 8,
    NameInUse = 9,
    /// The same kind with a flag: what is said about names.
    NameQuestion = 9 | 1 << FLAGS_SHIFT,
    NameProof = 9 | 2 << FLAGS_SHIFT,
    Join = 10,
    Commit = 11,
    Announcement = 12,
    Probe = 13,
    Part = 14,
}

impl Message {
    /// Reads a body. The bodies of data and unordered packets are slices of it, not copies.
    pub(super) fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("kind")?;
        if kind & KIND_MASK == Kind::Data as u8 {
            return data::data(kind >> FLAGS_SHIFT, reader, bytes);
        }
        let message = match kind {
            2 => Self::Token(token::token(&mut reader)?),
            6 => Self::Ack {
                ring: key(&mut reader)?,
                hop: Hop(reader.u64("hop")?),
            },
            7 => Self::Hurry {
                ring: key(&mut reader)?,
            },
            8 => {
                reader.u8("flags")?;
                let origin = Index(reader.u16("origin")?);
                let ring = key(&mut reader)?;
                return Ok(Self::Unordered {
                    ring,
                    origin,
                    record: bytes.slice(reader.position()..),
                });
            }
            9 => Self::Name(NameMessage::InUse {
                uptime_ms: reader.u64("uptime")?,
            }),
            25 => Self::Name(NameMessage::Question {
                nonce: reader.u64("nonce")?,
            }),
            41 => Self::Name(NameMessage::Proof {
                nonce: reader.u64("nonce")?,
                uptime_ms: reader.u64("uptime")?,
            }),
            10 => Self::Join(membership::join(&mut reader)?),
            11 => Self::Commit(membership::commit(&mut reader)?),
            12 => Self::Announcement(membership::announcement(&mut reader)?),
            13 => Self::Probe {
                answers: reader.u8("flags")? & 1 != 0,
                number: reader.u64("number")?,
            },
            14 => return part(reader, bytes),
            other => return Err(reader.invalid("kind", u64::from(other))),
        };
        reader.finish()?;
        Ok(message)
    }

    /// Encodes it as it is on the wire.
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(128);
        let mut writer = Writer::new(&mut bytes);
        match self {
            Self::Data(Data {
                ring,
                seq,
                post_token,
                packet,
            }) => {
                writer
                    .put(DataHeader::new(*ring, *seq, *post_token, packet).as_bytes())
                    .put(&packet.body);
            }
            Self::Token(token) => token::put_token(&mut writer, token),
            Self::Join(join) => membership::put_join(&mut writer, join),
            Self::Commit(commit) => membership::put_commit(&mut writer, commit),
            Self::Announcement(announcement) => {
                membership::put_announcement(&mut writer, announcement);
            }
            Self::Ack { ring, hop } => {
                writer.u8(Kind::Ack as u8);
                put_key(&mut writer, *ring);
                writer.u64(hop.0);
            }
            Self::Hurry { ring } => {
                writer.u8(Kind::Hurry as u8);
                put_key(&mut writer, *ring);
            }
            Self::Unordered {
                ring,
                origin,
                record,
            } => {
                writer.u8(Kind::Unordered as u8).u8(0).u16(origin.0);
                put_key(&mut writer, *ring);
                writer.put(record);
            }
            Self::Probe { answers, number } => {
                writer
                    .u8(Kind::Probe as u8)
                    .u8(u8::from(*answers))
                    .u64(*number);
            }
            Self::Part {
                number,
                part,
                bytes,
            } => {
                writer
                    .u8(Kind::Part as u8)
                    .u32(*number)
                    .u16(part.at)
                    .u16(part.of)
                    .put(bytes);
            }
            Self::Name(NameMessage::InUse { uptime_ms }) => {
                writer.u8(Kind::NameInUse as u8).u64(*uptime_ms);
            }
            Self::Name(NameMessage::Question { nonce }) => {
                writer.u8(Kind::NameQuestion as u8).u64(*nonce);
            }
            Self::Name(NameMessage::Proof { nonce, uptime_ms }) => {
                writer.u8(Kind::NameProof as u8).u64(*nonce).u64(*uptime_ms);
            }
        }
        bytes.into()
    }
}

fn part(mut reader: Reader<'_>, bytes: &Bytes) -> Result<Message, DecodeError> {
    let number = reader.u32("number")?;
    let (at, of) = (reader.u16("part")?, reader.u16("whole")?);
    let bytes = bytes.slice(reader.position()..);
    // All but the last are as long as the narrowest way carries: what is kept of them costs
    // little more than their bytes.
    let last = usize::from(at) + bytes.len() == usize::from(of);
    let long = last || bytes.len() >= BODY_LEAST - PART_AROUND;
    let part = Part::checked(at, of, bytes.len()).filter(|_| long);
    let Some(part) = part else {
        return Err(reader.invalid("part", at.into()));
    };
    Ok(Message::Part {
        number,
        part,
        bytes,
    })
}

fn key(reader: &mut Reader<'_>) -> Result<RingKey, DecodeError> {
    Ok(RingKey {
        counter: reader.u64("ring counter")?,
        incarnation: Incarnation(reader.u64("ring incarnation")?),
    })
}

fn tag(reader: &mut Reader<'_>) -> Result<RingTag, DecodeError> {
    Ok(RingTag(reader.u64("ring tag")?))
}

fn put_key(writer: &mut Writer<'_>, key: RingKey) {
    writer.u64(key.counter).u64(key.incarnation.0);
}
