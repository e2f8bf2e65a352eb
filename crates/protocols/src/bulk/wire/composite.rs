//! What collectors hand on (003 section 3.3.3): a row for each receiver, as that one has said it.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | incarnation of the sender that it is for |
//! | 2 | pass |
//! | 2 | count of rows |
//! | | of each row: |
//! | varint | the receiver's place in the roster |
//! | 1 | flags: 1 answers a request, 2 a NAK, 4 has everything, 8 its user has concluded, 16 has delivered up to a mark |
//! | varint | next: the lowest packet that it misses |
//! | varint | limit: it takes packets below this one |
//! | varint | seen: the highest stamp that it has seen |
//! | varint | received: transmissions that it has received |
//! | varint | delay: microseconds since it saw that stamp |
//! | varint | listed: the gaps are all that it misses below this packet |
//! | 2, varints | gaps, as in a report |
//! | varint | with flag 16 the mark, in bytes |
//!
//! A receiver tells its collector with the same message, of one row.

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::Incarnation;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::super::config::BulkConfig;
use super::super::numbers::{PassNumber, Stamp};
use super::report::{gaps, put_gaps};
use super::{Purpose, ReceiverReport, Status, short_packet, small};

/// What several receivers of a pass have said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::bulk) struct Composite {
    pub(in crate::bulk) sender: Incarnation,
    pub(in crate::bulk) pass: PassNumber,
    pub(in crate::bulk) rows: Vec<Row>,
}

/// What one of them has said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::bulk) struct Row {
    /// Its place in the roster of the pass.
    pub(in crate::bulk) index: u16,
    /// It neither registers nor fails, and has neither a tag nor a part of a return stream.
    pub(in crate::bulk) report: ReceiverReport,
}

/// The least that a row takes.
const ROW_MIN: usize = 10;
/// The most gaps of a row; a receiver's report has room for fewer. A row is handed on with another
/// delay, and must not be longer than a datagram then.
const GAPS_MAX: usize = BulkConfig::CONTROL_MAX;

impl Composite {
    /// Bytes before the rows, with the kind and the transfer.
    const HEADER: usize = 5 + 8 + 2 + 2;

    /// Packs rows into as few composites as take them, each of a frame.
    pub(in crate::bulk) fn pack(
        sender: Incarnation,
        pass: PassNumber,
        rows: impl Iterator<Item = Row>,
    ) -> Vec<Self> {
        let mut packed: Vec<Self> = Vec::new();
        let (mut used, mut encoded) = (0, Vec::new());
        for row in rows {
            encoded.clear();
            put_row(&mut Writer::new(&mut encoded), &row);
            match packed.last_mut() {
                Some(last) if used + encoded.len() <= BulkConfig::CONTROL_MAX => {
                    last.rows.push(row);
                    used += encoded.len();
                }
                _ => {
                    let rows = Vec::from([row]);
                    packed.push(Self { sender, pass, rows });
                    used = Self::HEADER + encoded.len();
                }
            }
        }
        packed
    }
}

pub(super) fn composite(reader: &mut Reader<'_>) -> Result<Composite, DecodeError> {
    let sender = Incarnation(reader.u64("sender")?);
    let pass = PassNumber(reader.u16("pass")?);
    let count = reader.count("rows", ROW_MIN)?;
    let rows = (0..count).map(|_| row(reader, sender, pass));
    Ok(Composite {
        sender,
        pass,
        rows: rows.collect::<Result<_, _>>()?,
    })
}

fn row(reader: &mut Reader<'_>, sender: Incarnation, pass: PassNumber) -> Result<Row, DecodeError> {
    let index = small(reader, "place")?;
    let index = u16::try_from(index).map_err(|_| reader.invalid("place", index))?;
    let flags = reader.u8("flags")?;
    let row = Row {
        index,
        report: ReceiverReport {
            sender,
            purpose: match flags & 2 != 0 {
                true => Purpose::Nak,
                false => Purpose::Acknowledge,
            },
            answers: flags & 1 != 0,
            aggregate: false,
            outrun: false,
            pass,
            status: match (flags & 4 != 0, flags & 8 != 0) {
                (_, true) => Status::Concluded,
                (true, false) => Status::Holding,
                (false, false) => Status::Receiving,
            },
            next: short_packet(reader, "next")?,
            limit: short_packet(reader, "limit")?,
            seen: Stamp(reader.varint("seen")?),
            received: reader.varint("received")?,
            delay_us: small(reader, "delay")?,
            listed_below: short_packet(reader, "listed")?,
            missing: gaps(reader)?,
            tag: None,
            delivers_to: match flags & 16 != 0 {
                true => Some(small(reader, "mark")?),
                false => None,
            },
            part: None,
            subgroups: None,
            attends: None,
            restores_below: None,
            name: Bytes::new(),
        },
    };
    match row.report.missing.len() {
        0..=GAPS_MAX => Ok(row),
        many => Err(reader.invalid("gaps", many as u64)),
    }
}

pub(super) fn put_composite(writer: &mut Writer<'_>, composite: &Composite) {
    writer.u64(composite.sender.0).u16(composite.pass.0);
    writer.count(composite.rows.len());
    for row in &composite.rows {
        put_row(writer, row);
    }
}

fn put_row(writer: &mut Writer<'_>, Row { index, report }: &Row) {
    writer.varint(u64::from(*index));
    writer.u8(u8::from(report.answers)
        | u8::from(report.purpose == Purpose::Nak) << 1
        | u8::from(report.status == Status::Holding) << 2
        | u8::from(report.status == Status::Concluded) << 3
        | u8::from(report.delivers_to.is_some()) << 4);
    writer.varint(report.next.0).varint(report.limit.0);
    writer.varint(report.seen.0).varint(report.received);
    writer.varint(report.delay_us).varint(report.listed_below.0);
    put_gaps(writer, &report.missing);
    if let Some(mark) = report.delivers_to {
        writer.varint(mark);
    }
}
