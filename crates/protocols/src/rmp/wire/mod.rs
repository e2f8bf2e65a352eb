//! Datagram bodies of RMP; the layouts stand in `docs/rmp.md`.
//!
//! The first byte is the kind. Integers are big-endian; positions, numbers and timestamps have six
//! bytes, because a place in the order has no more for them; a list is a count (2) and items.

mod hearsay;
mod lists;
mod marks;
mod membership;
mod order;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::mech::namesakes::NameMessage;
use groupcast_core::mech::seq::Seq;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{ConfigId, MemberId};

pub(super) use self::hearsay::{Missing, Told};
pub(super) use self::lists::{Join, List, ListAck, Listed, Passed, Start};
pub(super) use self::marks::{RELAYED_MAX, Relayed, Wanted};
pub(super) use self::membership::{Announcement, Answer, Declared, Inventory, Poll, Proposal};
pub(super) use self::order::{Ack, DATA_HEADER, Data, NACK_RUNS_MAX, Nack};
use super::numbers::{Marks, Number, Stamp, Tag};

/// Any datagram body of RMP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// A packet of messages.
    Data(Data),
    /// Positions for packets, and the token.
    Ack(Ack),
    /// The token was taken.
    Confirm {
        tag: Tag,
        /// Of the ACK that passed it.
        stamp: Stamp,
        marks: Marks,
    },
    /// The marks of a member that has nothing else to send.
    Settle { tag: Tag, marks: Marks },
    /// What its sender misses.
    Nack(Nack),
    /// A message without an ACK.
    Unordered { tag: Tag, record: Bytes },
    /// The question which members are there.
    Poll(Poll),
    /// What a member holds.
    Answer(Answer),
    /// The next configuration.
    Proposal(Proposal),
    /// Its sender holds all that it must.
    Accept { config: ConfigId },
    /// All members hold all that they must: the configuration begins.
    Install { config: ConfigId },
    /// The request to send an answer to a poll again.
    Ask { poller: MemberId, attempt: u64 },
    /// What another member said in a reformation is missing.
    Missing(Missing),
    /// What another member said in a reformation.
    Told(Told),
    /// What a group tells strangers from time to time.
    Announcement(Announcement),
    /// Its sender leaves.
    Goodbye,
    /// To another process with this member's name.
    Name(NameMessage),
    /// Its sender wants to be let in.
    Join(Join),
    /// A new list, and the token.
    List(ListAck),
    /// A list was heard.
    Listed(Listed),
    /// Its sender wants to leave.
    Leave { tag: Tag },
    /// The question for marks of members that are not heard.
    Wanted(Wanted),
    /// The answer: marks of others.
    Relayed(Relayed),
    /// The question whether a member that was excluded can be reached, or the answer.
    Probe {
        /// It answers the probe of this number.
        answers: bool,
        number: u64,
    },
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Data = 33,
    Ack = 34,
    Confirm = 35,
    Settle = 36,
    Nack = 37,
    Unordered = 38,
    Poll = 39,
    Answer = 40,
    Proposal = 41,
    Accept = 42,
    Install = 43,
    Ask = 44,
    Announcement = 45,
    Goodbye = 46,
    NameInUse = 47,
    NameQuestion = 48,
    NameProof = 49,
    Join = 50,
    List = 51,
    Listed = 52,
    Leave = 53,
    AnswerListed = 54,
    Wanted = 55,
    Relayed = 56,
    Probe = 57,
    Missing = 58,
    Told = 59,
}

impl Message {
    /// Reads a body. Packets are slices of it, not copies.
    pub(super) fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("kind")?;
        let message = match kind {
            33 => return order::data(reader, bytes),
            34 => Self::Ack(order::ack(&mut reader)?),
            35 => Self::Confirm {
                tag: tag(&mut reader)?,
                stamp: Stamp(six(&mut reader, "stamp")?),
                marks: marks(&mut reader)?,
            },
            36 => Self::Settle {
                tag: tag(&mut reader)?,
                marks: marks(&mut reader)?,
            },
            37 => Self::Nack(order::nack(&mut reader)?),
            38 => {
                let tag = tag(&mut reader)?;
                let record = bytes.slice(reader.position()..);
                return Ok(Self::Unordered { tag, record });
            }
            39 => Self::Poll(membership::poll(&mut reader)?),
            40 => Self::Answer(membership::answer(&mut reader, false)?),
            41 => Self::Proposal(membership::proposal(&mut reader)?),
            42 => Self::Accept {
                config: membership::config(&mut reader)?,
            },
            43 => Self::Install {
                config: membership::config(&mut reader)?,
            },
            44 => Self::Ask {
                poller: reader.member("poller")?,
                attempt: reader.u64("attempt")?,
            },
            45 => Self::Announcement(membership::announcement(&mut reader)?),
            46 => Self::Goodbye,
            47 => Self::Name(NameMessage::InUse {
                uptime_ms: reader.u64("uptime")?,
            }),
            48 => Self::Name(NameMessage::Question {
                nonce: reader.u64("nonce")?,
            }),
            49 => Self::Name(NameMessage::Proof {
                nonce: reader.u64("nonce")?,
                uptime_ms: reader.u64("uptime")?,
            }),
            50 => Self::Join(lists::join(&mut reader)?),
            51 => Self::List(lists::list(&mut reader)?),
            52 => Self::Listed(lists::listed(&mut reader)?),
            53 => Self::Leave {
                tag: tag(&mut reader)?,
            },
            54 => Self::Answer(membership::answer(&mut reader, true)?),
            55 => Self::Wanted(marks::wanted(&mut reader)?),
            56 => Self::Relayed(marks::relayed(&mut reader)?),
            57 => Self::Probe {
                answers: reader.u8("flags")? & 1 != 0,
                number: reader.u64("number")?,
            },
            58 => Self::Missing(hearsay::missing(&mut reader)?),
            59 => return hearsay::told(reader, bytes),
            other => return Err(reader.invalid("kind", u64::from(other))),
        };
        reader.finish()?;
        Ok(message)
    }

    /// The configuration that it belongs to, if it is sent in one.
    pub(super) fn tag(&self) -> Option<Tag> {
        match self {
            Self::Data(Data { tag, .. })
            | Self::Ack(Ack { tag, .. })
            | Self::Nack(Nack { tag, .. })
            | Self::Confirm { tag, .. }
            | Self::Settle { tag, .. }
            | Self::Listed(Listed { tag, .. })
            | Self::Wanted(Wanted { tag, .. })
            | Self::Relayed(Relayed { tag, .. })
            | Self::Leave { tag }
            | Self::Unordered { tag, .. } => Some(*tag),
            Self::List(list) => Some(list.ack.tag),
            _ => None,
        }
    }

    /// Its bytes.
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(128);
        let mut writer = Writer::new(&mut bytes);
        match self {
            Self::Data(data) => order::put_data(&mut writer, data),
            Self::Ack(ack) => order::put_ack(&mut writer, ack),
            Self::Confirm { tag, stamp, marks } => {
                writer.u8(Kind::Confirm as u8).u64(tag.0);
                put_six(&mut writer, stamp.0);
                put_marks(&mut writer, *marks);
            }
            Self::Settle { tag, marks } => {
                writer.u8(Kind::Settle as u8).u64(tag.0);
                put_marks(&mut writer, *marks);
            }
            Self::Nack(nack) => order::put_nack(&mut writer, nack),
            Self::Wanted(it) => marks::put_wanted(&mut writer, it),
            Self::Relayed(it) => marks::put_relayed(&mut writer, it),
            Self::Unordered { tag, record } => {
                writer.u8(Kind::Unordered as u8).u64(tag.0).put(record);
            }
            Self::Poll(poll) => membership::put_poll(&mut writer, poll),
            Self::Answer(answer) => membership::put_answer(&mut writer, answer),
            Self::Proposal(proposal) => membership::put_proposal(&mut writer, proposal),
            Self::Accept { config } => {
                writer.u8(Kind::Accept as u8).config(*config);
            }
            Self::Install { config } => {
                writer.u8(Kind::Install as u8).config(*config);
            }
            Self::Ask { poller, attempt } => {
                writer.u8(Kind::Ask as u8).member(*poller).u64(*attempt);
            }
            Self::Missing(it) => hearsay::put_missing(&mut writer, it),
            Self::Told(it) => hearsay::put_told(&mut writer, it),
            Self::Announcement(it) => membership::put_announcement(&mut writer, it),
            Self::Goodbye => {
                writer.u8(Kind::Goodbye as u8);
            }
            Self::Join(it) => lists::put_join(&mut writer, it),
            Self::List(it) => lists::put_list(&mut writer, it),
            Self::Listed(it) => lists::put_listed(&mut writer, it),
            Self::Leave { tag } => {
                writer.u8(Kind::Leave as u8).u64(tag.0);
            }
            Self::Probe { answers, number } => {
                let writer = writer.u8(Kind::Probe as u8).u8(u8::from(*answers));
                writer.u64(*number);
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

fn six(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, DecodeError> {
    let mut bytes = [0; 8];
    bytes[2..].copy_from_slice(reader.take(field, 6)?);
    Ok(u64::from_be_bytes(bytes))
}

fn put_six(writer: &mut Writer<'_>, value: u64) {
    writer.put(&value.to_be_bytes()[2..]);
}

fn tag(reader: &mut Reader<'_>) -> Result<Tag, DecodeError> {
    Ok(Tag(reader.u64("tag")?))
}

fn marks(reader: &mut Reader<'_>) -> Result<Marks, DecodeError> {
    Ok(Marks {
        known: Number(six(reader, "known")?),
        ready: Seq(six(reader, "ready")?),
    })
}

fn put_marks(writer: &mut Writer<'_>, marks: Marks) {
    put_six(writer, marks.known.0);
    put_six(writer, marks.ready.0);
}
