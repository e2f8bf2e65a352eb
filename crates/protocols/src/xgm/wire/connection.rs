//! Datagrams about connections: asks, answers to them, and reports.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::Incarnation;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::super::{Key, Standing, Subgroups};
use super::{micros, name, put_name};

/// The most checkpoints in an ask.
pub(in super::super) const PLACES_MAX: usize = 16;

/// Asks the members of a connection how they stand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Ask {
    pub(in super::super) number: u32,
    /// The source's count of asks.
    pub(in super::super) round: u32,
    /// The member that is asked; 0: all members.
    pub(in super::super) only: Incarnation,
    /// A member answers at a random time within this.
    pub(in super::super) spread: Duration,
    /// The open checkpoints: a member that reaches one says so.
    pub(in super::super) places: Vec<u64>,
}

/// How a member stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Told {
    pub(in super::super) number: u32,
    /// The ask that is answered; 0: none.
    pub(in super::super) round: u32,
    pub(in super::super) standing: Standing,
    /// Empty if the member is not in the connection.
    pub(in super::super) subgroups: Subgroups,
    pub(in super::super) progress: u64,
}

/// A member has joined, is complete, has left or was closed (003 4.5.2: report).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Report {
    pub(in super::super) number: u32,
    pub(in super::super) key: Key,
    pub(in super::super) standing: Standing,
    pub(in super::super) subgroups: Subgroups,
    pub(in super::super) progress: u64,
    pub(in super::super) name: Bytes,
}

impl Standing {
    fn code(self) -> u8 {
        match self {
            Self::Within => 1,
            Self::Complete => 2,
            Self::Left => 3,
            Self::Closed => 4,
            Self::Stranger => 5,
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8("standing")? {
            1 => Self::Within,
            2 => Self::Complete,
            3 => Self::Left,
            4 => Self::Closed,
            5 => Self::Stranger,
            code => return Err(reader.invalid("standing", u64::from(code))),
        })
    }
}

impl Ask {
    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.number).u32(self.round).u64(self.only.0);
        writer.u32(micros(self.spread));
        let places = &self.places[..self.places.len().min(PLACES_MAX)];
        writer.count(places.len());
        for place in places {
            writer.u64(*place);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.u32("connection")?;
        let round = reader.u32("ask")?;
        if round == 0 {
            return Err(reader.invalid("ask", 0));
        }
        let only = Incarnation(reader.u64("who is asked")?);
        let spread = Duration::from_micros(u64::from(reader.u32("spread")?));
        let count = reader.count("places", 8)?;
        if count > PLACES_MAX {
            return Err(reader.invalid("places", count as u64));
        }
        let places = (0..count).map(|_| reader.u64("place"));
        Ok(Self {
            number,
            round,
            only,
            spread,
            places: places.collect::<Result<_, DecodeError>>()?,
        })
    }
}

impl Told {
    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.number).u32(self.round);
        writer.u8(self.standing.code()).u64(self.subgroups.0);
        writer.u64(self.progress);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            number: reader.u32("connection")?,
            round: reader.u32("ask")?,
            standing: Standing::decode(reader)?,
            subgroups: Subgroups(reader.u64("subgroups")?),
            progress: reader.u64("progress")?,
        })
    }
}

impl Report {
    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.number).u64(self.key.0);
        writer.u8(self.standing.code()).u64(self.subgroups.0);
        writer.u64(self.progress);
        put_name(writer, &self.name);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.u32("connection")?;
        let key = Key(reader.u64("key")?);
        let standing = Standing::decode(reader)?;
        if standing == Standing::Stranger {
            return Err(reader.invalid("standing", 5));
        }
        Ok(Self {
            number,
            key,
            standing,
            subgroups: Subgroups(reader.u64("subgroups")?),
            progress: reader.u64("progress")?,
            name: name(reader)?,
        })
    }
}
