//! Envelopes of requests and roles, and the part of a state about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use groupcast_core::OrderPlace;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::{GroupRef, count, put_ref, take_group, take_ref};
use crate::guests::{
    Blank, GUESTS_MAX, GuestId, PART_FLAGS, Part, PartClaim, PartGuest, Party,
    ROLES_PER_DAEMON_MAX, Role,
};

pub(super) const REQUEST: u8 = 14;
pub(super) const ANSWER: u8 = 15;
pub(super) const CLAIM: u8 = 16;
pub(super) const RELEASE: u8 = 17;

/// The most claims that count in a daemon's state: roles that are held or waited for, and claims
/// without an answer. All daemons skip the same claims beyond it.
const CLAIMS_MAX: usize = 2 * ROLES_PER_DAEMON_MAX;

/// An operation of a client on requests and roles, at its place in the order. The payload of a
/// request or an answer follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::groups) enum GuestOp<'a> {
    Request {
        guest: GuestId,
        number: u64,
        floor: u64,
        handler: Option<u16>,
        group: GroupRef<'a>,
    },
    Answer {
        guest: GuestId,
        number: u64,
    },
    Claim {
        token: u64,
        may_wait: bool,
        role: Role,
        group: GroupRef<'a>,
    },
    Release {
        token: u64,
        role: Role,
        group: GroupRef<'a>,
    },
}

impl GuestOp<'_> {
    /// Appends the envelope of a client up to its payload.
    pub(in crate::groups) fn encode(&self, bytes: &mut Vec<u8>, client: u64) {
        let writer = &mut Writer::new(bytes);
        match *self {
            Self::Request {
                guest,
                number,
                floor,
                handler,
                group,
            } => {
                writer.u8(REQUEST).varint(client).u64(guest.0);
                writer.varint(number).varint(floor);
                writer.varint(handler.map_or(0, |handler| u64::from(handler) + 1));
                put_ref(writer, group);
            }
            Self::Answer { guest, number } => {
                writer.u8(ANSWER).varint(client).u64(guest.0).varint(number);
            }
            Self::Claim {
                token,
                may_wait,
                role,
                group,
            } => {
                writer.u8(CLAIM).varint(client).varint(token);
                put_role(writer.u8(u8::from(may_wait)), role);
                put_ref(writer, group);
            }
            Self::Release { token, role, group } => {
                put_role(writer.u8(RELEASE).varint(client).varint(token), role);
                put_ref(writer, group);
            }
        }
    }
}

/// Reads such an envelope behind its kind: the client's number, the operation, and the offset of
/// the payload.
pub(super) fn take_guest<'a>(
    kind: u8,
    mut reader: Reader<'a>,
) -> Result<(u64, GuestOp<'a>, usize), DecodeError> {
    let reader = &mut reader;
    let client = reader.varint("client number")?;
    let op = match kind {
        REQUEST => GuestOp::Request {
            guest: GuestId(reader.u64("guest")?),
            number: reader.varint("number")?,
            floor: reader.varint("floor")?,
            handler: match reader.varint("handler")? {
                0 => None,
                code => Some(u16::try_from(code - 1).map_err(|_| reader.invalid("handler", code))?),
            },
            group: take_ref(reader)?,
        },
        ANSWER => GuestOp::Answer {
            guest: GuestId(reader.u64("guest")?),
            number: reader.varint("number")?,
        },
        CLAIM => GuestOp::Claim {
            token: reader.varint("token")?,
            may_wait: match reader.u8("wait")? {
                flag @ (0 | 1) => flag == 1,
                other => return Err(reader.invalid("wait", u64::from(other))),
            },
            role: take_role(reader)?,
            group: take_ref(reader)?,
        },
        _ => GuestOp::Release {
            token: reader.varint("token")?,
            role: take_role(reader)?,
            group: take_ref(reader)?,
        },
    };
    if matches!(kind, CLAIM | RELEASE) {
        reader.finish()?;
    }
    Ok((client, op, reader.position()))
}

fn put_role(writer: &mut Writer<'_>, role: Role) {
    let (kind, number) = role.code();
    writer.u8(kind).u16(number);
}

fn take_role(reader: &mut Reader<'_>) -> Result<Role, DecodeError> {
    let (kind, number) = (reader.u8("role")?, reader.u16("role number")?);
    Role::from_code(kind, number).ok_or_else(|| reader.invalid("role", u64::from(kind)))
}

/// Flag: the client that was last connected as this guest is still there.
const PRESENT: u8 = 1;
/// Flag: two numbers follow, the range that is blank.
const HAS_BLANK: u8 = 2;

/// Appends a daemon's part about requests and roles. Each group is written once, however many roles
/// it has.
pub(super) fn put_part(
    writer: &mut Writer<'_>,
    part: &Part,
    number: &impl Fn(&str) -> Option<u64>,
) {
    let mut groups: BTreeMap<&str, Vec<&PartClaim>> = BTreeMap::new();
    for claim in &part.claims {
        groups.entry(&claim.group).or_default().push(claim);
    }
    writer.varint(groups.len() as u64);
    for (group, claims) in groups {
        let bound = number(group);
        put_ref(
            writer,
            bound.map_or(GroupRef::Named(group), GroupRef::Bound),
        );
        writer.varint(claims.len() as u64);
        for claim in claims {
            writer
                .varint(claim.client)
                .varint(claim.token)
                .u8(claim.flags);
            put_role(writer, claim.role);
            writer.config(claim.since.config).varint(claim.since.seq);
        }
    }
    writer.varint(part.guests.len() as u64);
    for guest in &part.guests {
        writer
            .u64(guest.guest.0)
            .varint(guest.last)
            .varint(guest.at);
        writer.member(guest.home.daemon).varint(guest.home.client);
        let present = if guest.present { PRESENT } else { 0 };
        let blank = if guest.blank.is_some() { HAS_BLANK } else { 0 };
        writer.u8(present | blank);
        if let Some(blank) = guest.blank {
            writer.varint(blank.above).varint(blank.upto);
        }
    }
}

/// Reads a daemon's part about requests and roles; an empty one if nothing follows.
pub(super) fn take_part(
    reader: &mut Reader<'_>,
    bindings: &[Arc<str>],
) -> Result<Part, DecodeError> {
    let mut part = Part::default();
    if reader.remaining() == 0 {
        return Ok(part);
    }
    for _ in 0..count(reader, "groups with roles")? {
        let group = take_group(reader, bindings)?;
        for _ in 0..count(reader, "claims")? {
            let claim = take_claim(reader, &group)?;
            if part.claims.len() < CLAIMS_MAX {
                part.claims.push(claim);
            }
        }
    }
    for _ in 0..count(reader, "guests")? {
        let guest = take_part_guest(reader)?;
        if part.guests.len() < GUESTS_MAX {
            part.guests.push(guest);
        }
    }
    Ok(part)
}

fn take_part_guest(reader: &mut Reader<'_>) -> Result<PartGuest, DecodeError> {
    let guest = GuestId(reader.u64("guest")?);
    let (last, at) = (reader.varint("number")?, reader.varint("place")?);
    let home = Party {
        daemon: reader.member("home")?,
        client: reader.varint("client number")?,
    };
    let flags = reader.u8("flags of a guest")?;
    if flags & !(PRESENT | HAS_BLANK) != 0 {
        return Err(reader.invalid("flags of a guest", u64::from(flags)));
    }
    let blank = match flags & HAS_BLANK {
        0 => None,
        _ => Some(Blank {
            above: reader.varint("number")?,
            upto: reader.varint("number")?,
        }),
    };
    Ok(PartGuest {
        guest,
        last,
        blank,
        at,
        home,
        present: flags & PRESENT != 0,
    })
}

fn take_claim(reader: &mut Reader<'_>, group: &Arc<str>) -> Result<PartClaim, DecodeError> {
    let (client, token) = (reader.varint("client number")?, reader.varint("token")?);
    let flags = reader.u8("flags")?;
    if flags & !PART_FLAGS != 0 {
        return Err(reader.invalid("flags", u64::from(flags)));
    }
    let role = take_role(reader)?;
    Ok(PartClaim {
        client,
        token,
        role,
        group: group.clone(),
        since: OrderPlace {
            config: reader.config("config")?,
            seq: reader.varint("place")?,
        },
        flags,
    })
}
