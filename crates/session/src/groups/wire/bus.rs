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

/// Appends ids and patterns of the clients of the bus. If there are none and nothing follows,
/// appends nothing, so that a daemon that is older than the bus can read the state.
pub(super) fn put_bus_parts(
    writer: &mut Writer<'_>,
    clients: &BTreeMap<u64, RosterClient>,
    numbers: &BTreeMap<&str, u64>,
    more_follows: bool,
) {
    let on_bus = clients.iter().filter_map(|(number, client)| {
        let bus = client.bus.as_ref()?;
        Some((*number, bus))
    });
    let on_bus: Vec<_> = on_bus.collect();
    if on_bus.is_empty() && !more_follows {
        return;
    }
    writer.varint(on_bus.len() as u64);
    for (number, bus) in on_bus {
        put_name(writer.varint(number), bus.id.as_deref().unwrap_or_default());
        writer.varint(bus.patterns.len() as u64);
        for (group, patterns) in &bus.patterns {
            let bound = numbers.get(&**group).copied();
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
}

/// Reads ids and patterns of the clients of the bus, if there are any.
pub(super) fn take_bus_parts(
    reader: &mut Reader<'_>,
    bindings: &[Arc<str>],
    clients: &mut BTreeMap<u64, RosterClient>,
) -> Result<(), DecodeError> {
    if reader.remaining() == 0 {
        return Ok(());
    }
    for _ in 0..count(reader, "clients of the bus")? {
        take_bus_part(reader, bindings, clients)?;
    }
    Ok(())
}

/// Reads the id and the patterns of one client.
fn take_bus_part(
    reader: &mut Reader<'_>,
    bindings: &[Arc<str>],
    clients: &mut BTreeMap<u64, RosterClient>,
) -> Result<(), DecodeError> {
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
    let unknown = reader.invalid("client number", number);
    clients.get_mut(&number).ok_or(unknown)?.bus = Some(part);
    Ok(())
}
