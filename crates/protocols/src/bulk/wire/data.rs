//! Packets of the stream, and of parity: the hot path of the format.

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader};

use super::super::numbers::{PacketNumber, Stamp};
use super::{packet, subgroups};
use crate::xgm::Subgroups;

/// Bytes of a data packet before its part of the stream.
pub(in crate::bulk) const DATA_HEADER: usize = 24;

/// Bytes of a subgroup vector, which follows the header if there is one.
pub(in crate::bulk) const VECTOR: usize = 8;

/// A packet of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::bulk) struct Data {
    pub(in crate::bulk) header: DataHeader,
    pub(in crate::bulk) body: Bytes,
}

/// What a data packet says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bulk) struct DataHeader {
    pub(in crate::bulk) transfer: u32,
    /// Every receiver is to report (001: the flagged packets of polling).
    pub(in crate::bulk) answer: bool,
    /// The stream ends with it.
    pub(in crate::bulk) last: bool,
    /// It was sent before. For measurements.
    pub(in crate::bulk) again: bool,
    /// A message ends with it: it may be short. Of transfers that carry messages; not of parity.
    pub(in crate::bulk) ends: bool,
    /// Every receiver is to report the rate that it takes, too (003 5.3.3). Not of parity.
    pub(in crate::bulk) rate: bool,
    /// The sender's count of transmissions.
    pub(in crate::bulk) stamp: Stamp,
    pub(in crate::bulk) number: PacketNumber,
    /// It is this parity packet of the block that begins with the number.
    pub(in crate::bulk) parity: Option<u16>,
    /// How many packets before this one the sender keeps, or [`KEPT_UNKNOWN`](Self::KEPT_UNKNOWN):
    /// under the policy `xtp`. Under `multidriver` of a packet that asks, for how many receivers
    /// replies back off. Else 0. Not of parity.
    pub(in crate::bulk) kept: u16,
    /// The delay that a report of it names begins when the receiver's host had it, not when its
    /// process read it.
    pub(in crate::bulk) from_arrival: bool,
    /// It is for receivers in these (policy `list`). Not of parity.
    pub(in crate::bulk) subgroups: Option<Subgroups>,
}

impl DataHeader {
    /// This many packets or more are kept.
    pub(in crate::bulk) const KEPT_UNKNOWN: u16 = u16::MAX;

    /// The first packet that the sender keeps (policy `xtp`), if it says so.
    pub(in crate::bulk) fn kept_from(self) -> Option<PacketNumber> {
        let is_known = self.kept != Self::KEPT_UNKNOWN && u64::from(self.kept) <= self.number.0;
        is_known.then(|| PacketNumber(self.number.0 - u64::from(self.kept)))
    }

    /// The bytes of its subgroup vector, and how many there are.
    pub(in crate::bulk) fn vector(self) -> ([u8; VECTOR], usize) {
        match self.subgroups {
            Some(subgroups) => (subgroups.0.to_be_bytes(), VECTOR),
            None => ([0; VECTOR], 0),
        }
    }

    /// Its bytes without the vector.
    pub(in crate::bulk) fn encode(self) -> [u8; DATA_HEADER] {
        let mut bytes = [0; DATA_HEADER];
        let flags = u8::from(self.answer)
            | u8::from(self.last) << 1
            | u8::from(self.again) << 2
            | u8::from(self.rate) << 3
            | u8::from(self.subgroups.is_some()) << 4
            | u8::from(self.from_arrival) << 5
            | u8::from(self.ends) << 6;
        bytes[0] = if self.parity.is_some() { 8 } else { 1 };
        bytes[1..5].copy_from_slice(&self.transfer.to_be_bytes());
        bytes[5] = flags;
        bytes[6..8].copy_from_slice(&self.parity.unwrap_or(self.kept).to_be_bytes());
        bytes[8..16].copy_from_slice(&self.stamp.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.number.0.to_be_bytes());
        bytes
    }
}

pub(super) fn data(
    reader: &mut Reader<'_>,
    transfer: u32,
    bytes: &Bytes,
    parity: bool,
) -> Result<Data, DecodeError> {
    let flags = reader.u8("flags")?;
    let index = reader.u16("index")?;
    let mut header = DataHeader {
        transfer,
        answer: flags & 1 != 0,
        last: flags & 2 != 0,
        again: flags & 4 != 0,
        ends: flags & 64 != 0 && !parity,
        rate: flags & 8 != 0,
        stamp: Stamp(reader.u64("stamp")?),
        number: packet(reader, "number")?,
        parity: parity.then_some(index),
        kept: if parity { 0 } else { index },
        from_arrival: flags & 32 != 0,
        subgroups: None,
    };
    if flags & 16 != 0 && !parity {
        header.subgroups = Some(subgroups(reader)?);
    }
    let body = bytes.slice(reader.position()..);
    reader.rest();
    Ok(Data { header, body })
}
