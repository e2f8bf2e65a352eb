//! What receivers say of themselves: acknowledgements, requests, room.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::Incarnation;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::super::numbers::{PacketNumber, Packets, PassNumber, Stamp};
use super::{checked, cut, reason, short_packet, small, subgroups};
use crate::xgm::Subgroups;

/// The most bytes of a receiver's name.
pub(in crate::bulk) const NAME_MAX: usize = 255;

/// The purpose of a receiver that is ready, and says where parity restores what it misses.
const READY_AND_RESTORES: u8 = 5;

/// What a report is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bulk) enum Purpose {
    /// It takes part (the first report).
    Register,
    /// It has room, and says what it needs in this pass.
    Ready,
    /// It acknowledges.
    Acknowledge,
    /// It misses something.
    Nak,
}

/// How far a receiver is with the whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::bulk) enum Status {
    /// It misses something, or does not know yet.
    Receiving,
    /// It has everything; its user has not concluded.
    Holding,
    /// Its user has concluded that all is well.
    Concluded,
    /// Its user has given up.
    Failed(String),
}

/// What a receiver says of itself (and, in a chain, of all behind it).
///
/// | bytes | field |
/// |---|---|
/// | 8 | incarnation of the sender that it is for |
/// | 1 | purpose: 1 register, 2 ready, 3 acknowledge, 4 NAK, 5 ready and says where it restores |
/// | 1 | flags: 1 answers a poll or a request, 2 speaks for its chain, 4 what it misses was released, 8 has a reply's tag, 16 has delivered up to a mark, 32 carries a part of the return stream, 64 says its subgroups, 128 has been told whether to attend |
/// | 2 | pass |
/// | 1 | status: 1 receiving, 2 holding, 3 concluded, 4 failed |
/// | varint | next: the lowest packet that it misses |
/// | varint | limit: it takes packets below this one |
/// | varint | seen: the highest stamp that it has seen |
/// | varint | received: transmissions that it has received |
/// | varint | delay: microseconds since it saw that stamp |
/// | varint | listed: the gaps are all that it misses below this packet |
/// | 2 | count of gaps |
/// | varints | of each gap its distance from the end of the one before, and its length |
/// | varints | of a reply's tag: the rate that it takes in bytes a second, 0 without limit, and the burst in bytes |
/// | varint | with flag 16 the mark, in bytes |
/// | | with flag 32 a [`Part`] |
/// | 8 | with flag 64 the subgroups that it is in |
/// | 4 | with flag 128 the version of the last word on that |
/// | varint | with purpose 5: it restores blocks that begin below this packet |
/// | rest | name, if it registers; else reason, if failed |
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::bulk) struct ReceiverReport {
    /// The sender that it is for: what all hear must say so, as all senders count from 1.
    pub(in crate::bulk) sender: Incarnation,
    pub(in crate::bulk) purpose: Purpose,
    pub(in crate::bulk) answers: bool,
    pub(in crate::bulk) aggregate: bool,
    /// It misses what the sender does not keep any more.
    pub(in crate::bulk) outrun: bool,
    pub(in crate::bulk) pass: PassNumber,
    pub(in crate::bulk) status: Status,
    pub(in crate::bulk) next: PacketNumber,
    pub(in crate::bulk) limit: PacketNumber,
    pub(in crate::bulk) seen: Stamp,
    pub(in crate::bulk) received: u64,
    pub(in crate::bulk) delay_us: u64,
    pub(in crate::bulk) listed_below: PacketNumber,
    pub(in crate::bulk) missing: Vec<Packets>,
    /// What it takes. Under `multidriver` and `list` each reply says it, and is repeated until it
    /// is acknowledged; under `xtp` an answer does where there is a limit.
    pub(in crate::bulk) tag: Option<ReplyTag>,
    /// It has delivered up to this mark, in bytes.
    pub(in crate::bulk) delivers_to: Option<u64>,
    /// What its user says to the sender's.
    pub(in crate::bulk) part: Option<Part>,
    /// The subgroups that it is in, if the transfer is for some.
    pub(in crate::bulk) subgroups: Option<Subgroups>,
    /// The version of what it was last told of its attendance, if it was.
    pub(in crate::bulk) attends: Option<u32>,
    /// Parity restores what it misses of any block that begins below this packet, if it was asked
    /// when it said that it is ready.
    pub(in crate::bulk) restores_below: Option<PacketNumber>,
    pub(in crate::bulk) name: Bytes,
}

/// A part of a return stream: what a receiver's user says to the sender's (003 5.3.2, X_MRreply),
/// in the packets with which the receiver reports.
///
/// | bytes | field |
/// |---|---|
/// | varint | count: parts that the receiver has sent, this one and repeated ones included |
/// | varint | offset: its place in the return stream |
/// | varint | waiting: one past the last byte that the receiver has to send |
/// | 1 | flags: 1 the stream ends with this part |
/// | varint | with flag 1 the code: what the receiver's user says of its end |
/// | 2 | count of bytes |
/// | so many | the bytes |
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::bulk) struct Part {
    pub(in crate::bulk) count: u64,
    pub(in crate::bulk) offset: u64,
    pub(in crate::bulk) waiting: u64,
    /// The stream ends with it, and with this code.
    pub(in crate::bulk) end: Option<u32>,
    pub(in crate::bulk) bytes: Bytes,
}

impl Part {
    /// Bytes of a part beside those of the stream, at most.
    pub(in crate::bulk) const HEADER_MAX: usize = 3 * 9 + 1 + 5 + 2;

    /// One past its last byte.
    pub(in crate::bulk) fn reach(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// What a reply to a request says beside what every report says (003 5.3.3), and an answer of XTP's
/// (003 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bulk) struct ReplyTag {
    /// Bytes a second that it takes; 0 without limit, or if it was not asked.
    pub(in crate::bulk) rate: u64,
    /// Bytes that it takes at once.
    pub(in crate::bulk) burst: u64,
}

impl ReplyTag {
    /// It takes whatever comes, or was not asked.
    pub(in crate::bulk) const NO_LIMIT: Self = Self { rate: 0, burst: 0 };

    /// Whether nothing that it says is smaller than what the other says.
    pub(in crate::bulk) fn takes_as_much(self, other: Self) -> bool {
        let is_limited = self.rate > 0;
        !is_limited || other.rate > 0 && self.rate >= other.rate && self.burst >= other.burst
    }
}

pub(super) fn report(
    reader: &mut Reader<'_>,
    bytes: &Bytes,
) -> Result<ReceiverReport, DecodeError> {
    let sender = Incarnation(reader.u64("sender")?);
    let code = reader.u8("purpose")?;
    let purpose = match code {
        1 => Purpose::Register,
        2 | READY_AND_RESTORES => Purpose::Ready,
        3 => Purpose::Acknowledge,
        4 => Purpose::Nak,
        other => return Err(reader.invalid("purpose", u64::from(other))),
    };
    let flags = reader.u8("flags")?;
    let pass = PassNumber(reader.u16("pass")?);
    let status = reader.u8("status")?;
    let next = short_packet(reader, "next")?;
    let limit = short_packet(reader, "limit")?;
    let seen = Stamp(reader.varint("seen")?);
    let received = reader.varint("received")?;
    let delay_us = small(reader, "delay")?;
    let listed_below = short_packet(reader, "listed")?;
    let missing = gaps(reader)?;
    let tag = match flags & 8 != 0 {
        true => Some(ReplyTag {
            rate: small(reader, "rate")?,
            burst: small(reader, "burst")?,
        }),
        false => None,
    };
    let delivers_to = match flags & 16 != 0 {
        true => Some(small(reader, "mark")?),
        false => None,
    };
    let part = match flags & 32 != 0 {
        true => Some(part(reader, bytes)?),
        false => None,
    };
    let subgroups = match flags & 64 != 0 {
        true => Some(subgroups(reader)?),
        false => None,
    };
    let attends = match flags & 128 != 0 {
        true => Some(reader.u32("version")?),
        false => None,
    };
    let restores_below = match code {
        READY_AND_RESTORES => Some(short_packet(reader, "restored")?),
        _ => None,
    };
    let name = if purpose == Purpose::Register {
        let name = bytes.slice(reader.position()..);
        reader.rest();
        if name.len() > NAME_MAX {
            return Err(reader.invalid("name's length", name.len() as u64));
        }
        name
    } else {
        Bytes::new()
    };
    let status = match status {
        1 => Status::Receiving,
        2 => Status::Holding,
        3 => Status::Concluded,
        4 => Status::Failed(reason(reader)?),
        other => return Err(reader.invalid("status", u64::from(other))),
    };
    Ok(ReceiverReport {
        sender,
        purpose,
        answers: flags & 1 != 0,
        aggregate: flags & 2 != 0,
        outrun: flags & 4 != 0,
        pass,
        status,
        next,
        limit,
        seen,
        received,
        delay_us,
        listed_below,
        missing,
        tag,
        delivers_to,
        part,
        subgroups,
        attends,
        restores_below,
        name,
    })
}

/// What a receiver misses: of each gap its distance from the end of the one before, and its length.
pub(super) fn gaps(reader: &mut Reader<'_>) -> Result<Vec<Packets>, DecodeError> {
    let count = reader.count("gaps", 2)?;
    let mut missing = Vec::with_capacity(count);
    let mut at = PacketNumber::ZERO;
    for _ in 0..count {
        let start = at + small(reader, "gap's distance")?;
        at = start + small(reader, "gap's length")?;
        if checked(reader, "gap", at.0)? == start.0 {
            return Err(reader.invalid("gap's length", 0));
        }
        missing.push(start..at);
    }
    Ok(missing)
}

pub(super) fn put_gaps(writer: &mut Writer<'_>, missing: &[Packets]) {
    writer.count(missing.len());
    let mut at = PacketNumber::ZERO;
    for gap in missing {
        writer.varint(gap.start - at).varint(gap.end - gap.start);
        at = gap.end;
    }
}

fn part(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Part, DecodeError> {
    let count = small(reader, "part's count")?;
    let offset = small(reader, "part's offset")?;
    let waiting = small(reader, "part's waiting")?;
    let end = match reader.u8("part's flags")? & 1 != 0 {
        true => {
            let code = reader.varint("part's code")?;
            let code = u32::try_from(code).map_err(|_| reader.invalid("part's code", code))?;
            Some(code)
        }
        false => None,
    };
    let len = usize::from(reader.u16("part's length")?);
    let start = reader.position();
    reader.take("part", len)?;
    Ok(Part {
        count,
        offset,
        waiting,
        end,
        bytes: bytes.slice(start..start + len),
    })
}

fn put_part(writer: &mut Writer<'_>, part: &Part) {
    writer.varint(part.count).varint(part.offset);
    writer.varint(part.waiting).u8(part.end.is_some().into());
    if let Some(code) = part.end {
        writer.varint(code.into());
    }
    writer.u16(part.bytes.len() as u16).put(&part.bytes);
}

pub(super) fn put_report(writer: &mut Writer<'_>, report: &ReceiverReport) {
    writer.u64(report.sender.0).u8(match report.purpose {
        Purpose::Register => 1,
        Purpose::Ready if report.restores_below.is_some() => READY_AND_RESTORES,
        Purpose::Ready => 2,
        Purpose::Acknowledge => 3,
        Purpose::Nak => 4,
    });
    writer.u8(u8::from(report.answers)
        | u8::from(report.aggregate) << 1
        | u8::from(report.outrun) << 2
        | u8::from(report.tag.is_some()) << 3
        | u8::from(report.delivers_to.is_some()) << 4
        | u8::from(report.part.is_some()) << 5
        | u8::from(report.subgroups.is_some()) << 6
        | u8::from(report.attends.is_some()) << 7);
    writer.u16(report.pass.0);
    writer.u8(match report.status {
        Status::Receiving => 1,
        Status::Holding => 2,
        Status::Concluded => 3,
        Status::Failed(_) => 4,
    });
    writer.varint(report.next.0).varint(report.limit.0);
    writer.varint(report.seen.0).varint(report.received);
    writer.varint(report.delay_us).varint(report.listed_below.0);
    put_gaps(writer, &report.missing);
    if let Some(tag) = &report.tag {
        writer.varint(tag.rate).varint(tag.burst);
    }
    if let Some(mark) = report.delivers_to {
        writer.varint(mark);
    }
    if let Some(part) = &report.part {
        put_part(writer, part);
    }
    if let Some(subgroups) = report.subgroups {
        writer.u64(subgroups.0);
    }
    if let Some(version) = report.attends {
        writer.u32(version);
    }
    if report.purpose == Purpose::Ready
        && let Some(below) = report.restores_below
    {
        writer.varint(below.0);
    }
    match &report.status {
        _ if report.purpose == Purpose::Register => {
            writer.put(&report.name[..report.name.len().min(NAME_MAX)]);
        }
        Status::Failed(reason) => {
            writer.put(cut(reason).as_bytes());
        }
        _ => {}
    }
}
