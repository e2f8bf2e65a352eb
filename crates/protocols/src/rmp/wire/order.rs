//! What orders messages: data, ACKs, NACKs.

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::mech::seq::Seq;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::membership::count_to;
use super::{Kind, Message, marks, put_marks, put_six, six, tag};
use crate::rmp::numbers::{Marks, Number, Packets, Positions, Stamp, Tag};

/// Bytes of a data packet before its records.
pub(in crate::rmp) const DATA_HEADER: usize = 29;
/// The most runs of one list of a NACK.
pub(in crate::rmp) const NACK_RUNS_MAX: usize = 64;
/// The most runs of packets of an ACK: as many as it orders packets. What they are compared with
/// takes time by their square.
const RUNS_MAX: usize = 128;

const FLAG_AGAIN: u8 = 1;
const FLAG_WHOLE: u8 = 1;
/// The upper six bits of a packet's flags are the version of the list.
const VERSION_SHIFT: u8 = 2;

/// A packet (000 ch. 8: stamped with host and sequence number).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::rmp) struct Data {
    /// Sent again; by its origin, or by another member that was asked.
    pub(in crate::rmp) again: bool,
    pub(in crate::rmp) origin: u8,
    pub(in crate::rmp) tag: Tag,
    pub(in crate::rmp) number: Number,
    /// The version of the list that its origin used when it was sent, below 64.
    pub(in crate::rmp) version: u8,
    /// Of its origin; zeros where another member sends it.
    pub(in crate::rmp) marks: Marks,
    /// Packed records.
    pub(in crate::rmp) body: Bytes,
}

/// Positions for packets, and the token for the member that it names (000 ch. 8).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::rmp) struct Ack {
    /// Sent again: because nobody took the token, or because a member asked.
    pub(in crate::rmp) again: bool,
    /// The token site that made it.
    pub(in crate::rmp) issuer: u8,
    /// The next one.
    pub(in crate::rmp) next: u8,
    pub(in crate::rmp) tag: Tag,
    pub(in crate::rmp) stamp: Stamp,
    /// The position of its first packet; of the next one if it has none.
    pub(in crate::rmp) first: Seq,
    /// Of its issuer; zeros where another member sends it.
    pub(in crate::rmp) marks: Marks,
    /// Runs of packets, none of them empty; without runs it is a null ACK.
    pub(in crate::rmp) packets: Vec<Packets>,
}

impl Ack {
    /// How many packets it orders.
    pub(in crate::rmp) fn count(&self) -> u64 {
        self.packets.iter().map(|run| u64::from(run.count)).sum()
    }

    /// The last position that is given out.
    pub(in crate::rmp) fn last(&self) -> Seq {
        Seq((self.first.0 + self.count()).saturating_sub(1))
    }
}

/// What its sender misses (000 ch. 8).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::rmp) struct Nack {
    /// The packets at the positions are missing, too.
    pub(in crate::rmp) whole: bool,
    pub(in crate::rmp) tag: Tag,
    /// The index of the member that is asked.
    pub(in crate::rmp) asked: u8,
    /// How many times it was asked before; from 1 on, the answer is multicast.
    pub(in crate::rmp) again: u8,
    /// Positions whose ACK is missing.
    pub(in crate::rmp) positions: Vec<Positions>,
    /// Packets that are missing.
    pub(in crate::rmp) packets: Vec<Packets>,
}

pub(super) fn data(mut reader: Reader<'_>, bytes: &Bytes) -> Result<Message, DecodeError> {
    let flags = reader.u8("flags")?;
    Ok(Message::Data(Data {
        again: flags & FLAG_AGAIN != 0,
        origin: reader.u8("origin")?,
        tag: tag(&mut reader)?,
        number: Number(six(&mut reader, "number")?),
        version: flags >> VERSION_SHIFT,
        marks: marks(&mut reader)?,
        body: bytes.slice(reader.position()..),
    }))
}

pub(super) fn put_data(writer: &mut Writer<'_>, data: &Data) {
    writer
        .u8(Kind::Data as u8)
        .u8(data.version << VERSION_SHIFT | if data.again { FLAG_AGAIN } else { 0 })
        .u8(data.origin)
        .u64(data.tag.0);
    put_six(writer, data.number.0);
    put_marks(writer, data.marks);
    writer.put(&data.body);
}

pub(super) fn ack(reader: &mut Reader<'_>) -> Result<Ack, DecodeError> {
    let flags = reader.u8("flags")?;
    Ok(Ack {
        again: flags & FLAG_AGAIN != 0,
        issuer: reader.u8("issuer")?,
        next: reader.u8("next")?,
        tag: tag(reader)?,
        stamp: Stamp(six(reader, "stamp")?),
        first: Seq(six(reader, "position")?),
        marks: marks(reader)?,
        packets: packets(reader)?,
    })
}

pub(super) fn put_ack(writer: &mut Writer<'_>, ack: &Ack) {
    writer.u8(Kind::Ack as u8);
    put_ack_body(writer, ack);
}

/// What follows the kind.
pub(super) fn put_ack_body(writer: &mut Writer<'_>, ack: &Ack) {
    writer
        .u8(if ack.again { FLAG_AGAIN } else { 0 })
        .u8(ack.issuer)
        .u8(ack.next)
        .u64(ack.tag.0);
    put_six(writer, ack.stamp.0);
    put_six(writer, ack.first.0);
    put_marks(writer, ack.marks);
    put_packets(writer, &ack.packets);
}

pub(super) fn nack(reader: &mut Reader<'_>) -> Result<Nack, DecodeError> {
    let flags = reader.u8("flags")?;
    let tag = tag(reader)?;
    let asked = reader.u8("asked")?;
    let again = reader.u8("try")?;
    let count = reader.count("positions", 7)?;
    let positions: Result<Vec<Positions>, DecodeError> = (0..count)
        .map(|_| {
            Ok(Positions {
                first: Seq(six(reader, "position")?),
                count: count_of(reader)?,
            })
        })
        .collect();
    Ok(Nack {
        whole: flags & FLAG_WHOLE != 0,
        tag,
        asked,
        again,
        positions: positions?,
        packets: packets(reader)?,
    })
}

pub(super) fn put_nack(writer: &mut Writer<'_>, nack: &Nack) {
    writer
        .u8(Kind::Nack as u8)
        .u8(if nack.whole { FLAG_WHOLE } else { 0 })
        .u64(nack.tag.0)
        .u8(nack.asked)
        .u8(nack.again)
        .count(nack.positions.len());
    for run in &nack.positions {
        put_six(writer, run.first.0);
        writer.u8(run.count);
    }
    put_packets(writer, &nack.packets);
}

fn packets(reader: &mut Reader<'_>) -> Result<Vec<Packets>, DecodeError> {
    let count = count_to(reader, "packets", 8, RUNS_MAX)?;
    (0..count)
        .map(|_| {
            Ok(Packets {
                origin: reader.u8("origin")?,
                first: Number(six(reader, "number")?),
                count: count_of(reader)?,
            })
        })
        .collect()
}

fn put_packets(writer: &mut Writer<'_>, packets: &[Packets]) {
    writer.count(packets.len());
    for run in packets {
        writer.u8(run.origin);
        put_six(writer, run.first.0);
        writer.u8(run.count);
    }
}

fn count_of(reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
    match reader.u8("count")? {
        0 => Err(reader.invalid("count", 0)),
        count => Ok(count),
    }
}
