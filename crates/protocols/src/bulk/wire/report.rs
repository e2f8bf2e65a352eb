//! What receivers say of themselves: acknowledgements, requests, room.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::Incarnation;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::super::numbers::{PacketNumber, Packets, PassNumber, Stamp};
use super::{checked, cut, reason, short_packet, small};

/// The most bytes of a receiver's name.
pub(in crate::bulk) const NAME_MAX: usize = 255;

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
/// | 1 | purpose: 1 register, 2 ready, 3 acknowledge, 4 NAK |
/// | 1 | flags: 1 answers a poll or a request, 2 speaks for its chain, 4 what it misses was released |
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
    pub(in crate::bulk) name: Bytes,
}

pub(super) fn report(
    reader: &mut Reader<'_>,
    bytes: &Bytes,
) -> Result<ReceiverReport, DecodeError> {
    let sender = Incarnation(reader.u64("sender")?);
    let purpose = match reader.u8("purpose")? {
        1 => Purpose::Register,
        2 => Purpose::Ready,
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
        name,
    })
}

pub(super) fn put_report(writer: &mut Writer<'_>, report: &ReceiverReport) {
    writer.u64(report.sender.0).u8(match report.purpose {
        Purpose::Register => 1,
        Purpose::Ready => 2,
        Purpose::Acknowledge => 3,
        Purpose::Nak => 4,
    });
    writer.u8(u8::from(report.answers)
        | u8::from(report.aggregate) << 1
        | u8::from(report.outrun) << 2);
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
    writer.count(report.missing.len());
    let mut at = PacketNumber::ZERO;
    for gap in &report.missing {
        writer.varint(gap.start - at).varint(gap.end - gap.start);
        at = gap.end;
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
