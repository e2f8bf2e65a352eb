//! What changes the list of members by one message: a newcomer's request, the list in its ACK, what
//! members say when they have heard it, and a leaver's request (000 ch. 8, Figs. 9 and 10).

use alloc::vec;
use alloc::vec::Vec;

use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::seq::Seq;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{ConfigId, MemberId};

use super::membership::{
    body_max, config, count_to, counter, max_n, members, position, put_members,
};
use super::{Ack, Kind, order, put_six, six, tag};
use crate::rmp::numbers::{Number, Tag};

/// A process wants to be let in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::rmp) struct Join {
    /// The highest counter of a configuration that it has seen.
    pub(in crate::rmp) counter: u64,
    /// It has given out or delivered no position above.
    pub(in crate::rmp) high: Seq,
    /// The most bytes of a datagram body that its way carries.
    pub(in crate::rmp) body_max: u16,
    /// The configuration that it wants to join, the newest that it has heard of.
    pub(in crate::rmp) config: ConfigId,
    /// The members that it hears.
    pub(in crate::rmp) heard: Vec<MemberId>,
}

/// A token site's ACK that orders nothing but a new list, which stands at the ACK's first position.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::rmp) struct ListAck {
    /// Without packets.
    pub(in crate::rmp) ack: Ack,
    pub(in crate::rmp) list: List,
}

/// The members from a position of the order on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::rmp) struct List {
    /// How many lists there were before it under this tag.
    pub(in crate::rmp) version: u8,
    /// The configuration that begins with it.
    pub(in crate::rmp) config: ConfigId,
    /// MaxN of that configuration.
    pub(in crate::rmp) max_n: u16,
    /// The last packet that its issuer sent before it.
    pub(in crate::rmp) cut: Number,
    /// The member that leaves, by its index; 255 if there is none.
    pub(in crate::rmp) gone: u8,
    /// The order in which the token goes.
    pub(in crate::rmp) ring: Vec<u8>,
    /// The member that each index names, under this tag: members of the past, too. A newcomer is
    /// the last.
    pub(in crate::rmp) roster: Vec<MemberId>,
    /// Of each of these, the most bytes of a datagram body that its way carries.
    pub(in crate::rmp) sizes: Vec<u16>,
    /// For a newcomer: where it begins to hold what was before the list. It gets the last packets.
    pub(in crate::rmp) floor: Seq,
    /// For a newcomer: of each index but its own.
    pub(in crate::rmp) starts: Vec<Start>,
}

/// Where a newcomer begins with the packets of one member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(in crate::rmp) struct Start {
    /// The last packet with a position up to the floor.
    pub(in crate::rmp) held: Number,
    /// The packet, and the byte of its records, where the first message begins that ends behind the
    /// list.
    pub(in crate::rmp) first: Number,
    pub(in crate::rmp) offset: u16,
}

impl List {
    /// [`gone`](Self::gone) of a list to which a member comes.
    pub(in crate::rmp) const NOBODY: u8 = u8::MAX;
}

impl ListAck {
    /// The position of the list.
    pub(in crate::rmp) fn at(&self) -> Seq {
        self.ack.first
    }
}

/// That a member has heard a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::rmp) struct Listed {
    pub(in crate::rmp) tag: Tag,
    pub(in crate::rmp) version: u8,
    /// The last packet that it sent before.
    pub(in crate::rmp) cut: Number,
    /// It misses what another says of this list.
    pub(in crate::rmp) asks: bool,
}

/// The last list that a member has passed: part of its answer to a poll.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::rmp) struct Passed {
    /// The configuration before it. Members in that one go along behind the list.
    pub(in crate::rmp) from: ConfigId,
    /// The list's position.
    pub(in crate::rmp) at: Seq,
    /// The member that left with it.
    pub(in crate::rmp) gone: Option<MemberId>,
    /// Of each index, the last packet whose early messages belong to the configuration before.
    pub(in crate::rmp) cuts: Vec<Number>,
}

pub(super) fn join(reader: &mut Reader<'_>) -> Result<Join, DecodeError> {
    Ok(Join {
        counter: counter(reader)?,
        high: position(reader, "high")?,
        body_max: body_max(reader)?,
        config: config(reader)?,
        heard: members(reader, "heard")?,
    })
}

pub(super) fn put_join(writer: &mut Writer<'_>, join: &Join) {
    writer.u8(Kind::Join as u8).u64(join.counter);
    put_six(writer, join.high.0);
    writer.u16(join.body_max).config(join.config);
    put_members(writer, &join.heard);
}

pub(super) fn list(reader: &mut Reader<'_>) -> Result<ListAck, DecodeError> {
    let ack = order::ack(reader)?;
    if let Some(run) = ack.packets.first() {
        return Err(reader.invalid("packets", u64::from(run.count)));
    }
    let version = reader.u8("version")?;
    let config = config(reader)?;
    let most = body_max(reader)?;
    let max_n = max_n(reader)?;
    let cut = Number(six(reader, "cut")?);
    let gone = reader.u8("gone")?;
    let count = reader.count("ring", 1)?;
    let ring = reader.take("ring", count)?.to_vec();
    let roster = members(reader, "roster")?;
    if roster.len() > Indices::MAX {
        return Err(reader.invalid("roster", roster.len() as u64));
    }
    let sizes = sizes(reader, most, roster.len())?;
    let floor = position(reader, "floor")?;
    let count = reader.count("starts", 14)?;
    let starts: Result<Vec<Start>, DecodeError> = (0..count).map(|_| start(reader)).collect();
    Ok(ListAck {
        ack,
        list: List {
            version,
            config,
            max_n,
            cut,
            gone,
            ring,
            roster,
            sizes,
            floor,
            starts: starts?,
        },
    })
}

/// What the ways of so many `members` carry: `most`, but for those of which less is said.
fn sizes(reader: &mut Reader<'_>, most: u16, members: usize) -> Result<Vec<u16>, DecodeError> {
    let mut sizes = vec![most; members];
    for _ in 0..count_to(reader, "sizes", 3, members)? {
        let index = reader.u8("size of")?;
        let size = body_max(reader)?;
        let known = sizes.get_mut(usize::from(index)).filter(|_| size < most);
        *known.ok_or_else(|| reader.invalid("size", u64::from(size)))? = size;
    }
    Ok(sizes)
}

fn put_sizes(writer: &mut Writer<'_>, most: u16, sizes: &[u16]) {
    let less = || sizes.iter().enumerate().filter(|(_, size)| **size < most);
    writer.count(less().count());
    for (index, size) in less() {
        writer.u8(index as u8).u16(*size);
    }
}

fn start(reader: &mut Reader<'_>) -> Result<Start, DecodeError> {
    Ok(Start {
        held: Number(six(reader, "held")?),
        first: Number(six(reader, "first")?),
        offset: reader.u16("offset")?,
    })
}

pub(super) fn put_list(writer: &mut Writer<'_>, ListAck { ack, list }: &ListAck) {
    writer.u8(Kind::List as u8);
    order::put_ack_body(writer, ack);
    writer.u8(list.version).config(list.config);
    let most = list.sizes.iter().max().copied().unwrap_or_default();
    writer.u16(most).u16(list.max_n);
    put_six(writer, list.cut.0);
    writer.u8(list.gone).count(list.ring.len()).put(&list.ring);
    put_members(writer, &list.roster);
    put_sizes(writer, most, &list.sizes);
    put_six(writer, list.floor.0);
    writer.count(list.starts.len());
    for start in &list.starts {
        put_six(writer, start.held.0);
        put_six(writer, start.first.0);
        writer.u16(start.offset);
    }
}

const FLAG_ASKS: u8 = 1;

pub(super) fn listed(reader: &mut Reader<'_>) -> Result<Listed, DecodeError> {
    let flags = reader.u8("flags")?;
    Ok(Listed {
        asks: flags & FLAG_ASKS != 0,
        tag: tag(reader)?,
        version: reader.u8("version")?,
        cut: Number(six(reader, "cut")?),
    })
}

pub(super) fn put_listed(writer: &mut Writer<'_>, listed: &Listed) {
    writer
        .u8(Kind::Listed as u8)
        .u8(if listed.asks { FLAG_ASKS } else { 0 })
        .u64(listed.tag.0)
        .u8(listed.version);
    put_six(writer, listed.cut.0);
}

pub(super) fn passed(reader: &mut Reader<'_>) -> Result<Passed, DecodeError> {
    let from = config(reader)?;
    let at = position(reader, "list")?;
    let gone = members(reader, "gone")?;
    if gone.len() > 1 {
        return Err(reader.invalid("gone", gone.len() as u64));
    }
    let count = count_to(reader, "cuts", 6, Indices::MAX)?;
    let cuts: Result<Vec<Number>, DecodeError> = (0..count)
        .map(|_| Ok(Number(six(reader, "cut")?)))
        .collect();
    Ok(Passed {
        from,
        at,
        gone: gone.first().copied(),
        cuts: cuts?,
    })
}

pub(super) fn put_passed(writer: &mut Writer<'_>, passed: &Passed) {
    writer.config(passed.from);
    put_six(writer, passed.at.0);
    put_members(writer, passed.gone.as_slice());
    writer.count(passed.cuts.len());
    for cut in &passed.cuts {
        put_six(writer, cut.0);
    }
}
