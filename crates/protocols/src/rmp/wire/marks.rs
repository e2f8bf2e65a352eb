//! Marks of a member that another one tells, and the question for them.

use alloc::vec::Vec;

use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::{Kind, marks, put_marks, tag};
use crate::rmp::numbers::{Marks, Tag};

/// The most members that a question or an answer names.
pub(in crate::rmp) const RELAYED_MAX: usize = 16;
/// Bytes of one member's marks in an answer: its index, and two numbers.
const RELAYED_ITEM: usize = 1 + 6 + 6;

/// The marks of these members are not heard at the sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::rmp) struct Wanted {
    pub(in crate::rmp) tag: Tag,
    /// The index of the member that is asked.
    pub(in crate::rmp) asked: u8,
    /// How many times it was asked before; from 1 on, the answer is multicast.
    pub(in crate::rmp) again: u8,
    /// The indices of the members whose marks are missing; of more than [`RELAYED_MAX`] the first
    /// are answered.
    pub(in crate::rmp) members: Vec<u8>,
}

/// What the sender has heard of the marks of members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::rmp) struct Relayed {
    pub(in crate::rmp) tag: Tag,
    /// By index.
    pub(in crate::rmp) members: Vec<(u8, Marks)>,
}

pub(super) fn wanted(reader: &mut Reader<'_>) -> Result<Wanted, DecodeError> {
    let tag = tag(reader)?;
    let asked = reader.u8("asked")?;
    let again = reader.u8("try")?;
    let count = reader.count("members", 1)?;
    let members: Result<Vec<u8>, DecodeError> = (0..count).map(|_| reader.u8("member")).collect();
    Ok(Wanted {
        tag,
        asked,
        again,
        members: members?,
    })
}

pub(super) fn put_wanted(writer: &mut Writer<'_>, wanted: &Wanted) {
    writer
        .u8(Kind::Wanted as u8)
        .u64(wanted.tag.0)
        .u8(wanted.asked)
        .u8(wanted.again)
        .count(wanted.members.len());
    for member in &wanted.members {
        writer.u8(*member);
    }
}

pub(super) fn relayed(reader: &mut Reader<'_>) -> Result<Relayed, DecodeError> {
    let tag = tag(reader)?;
    let count = reader.count("members", RELAYED_ITEM)?;
    let members: Result<Vec<_>, DecodeError> = (0..count)
        .map(|_| Ok((reader.u8("member")?, marks(reader)?)))
        .collect();
    Ok(Relayed {
        tag,
        members: members?,
    })
}

pub(super) fn put_relayed(writer: &mut Writer<'_>, relayed: &Relayed) {
    writer
        .u8(Kind::Relayed as u8)
        .u64(relayed.tag.0)
        .count(relayed.members.len());
    for (member, marks) in &relayed.members {
        writer.u8(*member);
        put_marks(writer, *marks);
    }
}
