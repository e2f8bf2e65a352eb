//! Envelopes of the bus, and the part of a state about clients of the bus.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::super::roster::{BusPart, RosterClient};
use super::{GroupRef, Op, checked, count, put_ref, take_group, take_ref};
use crate::frame::text::{put_name, take_name};
use crate::name::check_group;

pub(super) const ACCEPT: u8 = 10;
pub(super) const REJECT: u8 = 11;
pub(super) const IDENTIFY: u8 = 12;
pub(super) const WHO: u8 = 13;

/// A request of a client of the bus, at its place in the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::groups) enum BusOp<'a> {
    Accept {
        group: GroupRef<'a>,
        pattern: &'a str,
    },
    Reject {
        group: GroupRef<'a>,
        pattern: &'a str,
    },
    Identify {
        id: &'a str,
    },
    Who {
        tag: &'a str,
        group: GroupRef<'a>,
    },
}

impl BusOp<'_> {
    /// Appends the envelope of the request, with the client's number and token.
    pub(super) fn encode(&self, writer: &mut Writer<'_>, client: u64, token: u64) {
        let kind = match self {
            Self::Accept { .. } => ACCEPT,
            Self::Reject { .. } => REJECT,
            Self::Identify { .. } => IDENTIFY,
            Self::Who { .. } => WHO,
        };
        writer.u8(kind).varint(client).varint(token);
        match *self {
            Self::Accept { group, pattern } | Self::Reject { group, pattern } => {
                put_ref(writer, group);
                put_name(writer, pattern);
            }
            Self::Identify { id } => put_name(writer, id),
            Self::Who { tag, group } => {
                put_name(writer, tag);
                put_ref(writer, group);
            }
        }
    }
}

/// Reads such an envelope behind its kind.
pub(super) fn take_bus<'a>(kind: u8, reader: &mut Reader<'a>) -> Result<Op<'a>, DecodeError> {
    let client = reader.varint("client number")?;
    let token = reader.varint("token")?;
    let what = match kind {
        ACCEPT => BusOp::Accept {
            group: take_ref(reader)?,
            pattern: take_name(reader, "pattern")?,
        },
        REJECT => BusOp::Reject {
            group: take_ref(reader)?,
            pattern: take_name(reader, "pattern")?,
        },
        IDENTIFY => BusOp::Identify {
            id: checked(reader, "id", |id| id.is_empty() || check_group(id).is_ok())?,
        },
        _ => BusOp::Who {
            tag: take_name(reader, "tag")?,
            group: take_ref(reader)?,
        },
    };
    Ok(Op::Bus {
        client,
        token,
        what,
    })
}

/// Appends the id and the patterns of one client.
pub(super) fn put_bus_part(
    writer: &mut Writer<'_>,
    client: u64,
    bus: &BusPart,
    number: &impl Fn(&str) -> Option<u64>,
) {
    put_name(writer.varint(client), bus.id.as_deref().unwrap_or_default());
    writer.varint(bus.patterns.len() as u64);
    for (group, patterns) in &bus.patterns {
        let bound = number(group);
        put_ref(
            writer,
            bound.map_or(GroupRef::Named(group), GroupRef::Bound),
        );
        writer.varint(patterns.len() as u64);
        for pattern in patterns {
            put_name(writer, pattern);
        }
    }
}

/// Reads the id and the patterns of one client; returns how many groups and patterns they are.
pub(super) fn take_bus_part(
    reader: &mut Reader<'_>,
    bindings: &[Arc<str>],
    clients: &mut BTreeMap<u64, Arc<RosterClient>>,
) -> Result<usize, DecodeError> {
    let number = reader.varint("client number")?;
    let id = checked(reader, "id", |id| id.is_empty() || check_group(id).is_ok())?;
    let mut part = BusPart {
        id: (!id.is_empty()).then(|| id.into()),
        patterns: BTreeMap::new(),
    };
    for _ in 0..count(reader, "domains")? {
        let group = take_group(reader, bindings)?;
        let patterns = (0..count(reader, "patterns")?)
            .map(|_| take_name(reader, "pattern").map(Arc::from))
            .collect::<Result<BTreeSet<_>, _>>()?;
        part.patterns.insert(group, patterns);
    }
    let entries = part.patterns.values().map(|it| 1 + it.len()).sum();
    let unknown = reader.invalid("client number", number);
    let client = clients.get_mut(&number).ok_or(unknown)?;
    Arc::make_mut(client).bus = Some(part);
    Ok(entries)
}
