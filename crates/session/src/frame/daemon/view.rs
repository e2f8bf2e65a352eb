//! The frame of a view, which lists the members of a group.

use std::sync::Arc;

use groupcast_core::wire::{DecodeError, Reader};

use super::super::text::{put_name, take_bool, take_name};
use super::super::{frame, kind};
use crate::view::{Cause, View, ViewId, ViewKind};

/// The code of a view's kind that is regular and approximate.
const APPROXIMATE: u8 = 2;

pub(super) fn encode_view(bytes: &mut Vec<u8>, view: &View) {
    frame(bytes, kind::VIEW, 0, |body| {
        let kind = match view.approximate {
            true => APPROXIMATE,
            false => view.kind as u8,
        };
        body.u8(kind)
            .u8(view.cause as u8)
            .config(view.id.config)
            .u64(view.id.seq);
        match view.id.within {
            Some(component) => body.u8(1).u64(component),
            None => body.u8(0),
        };
        put_name(body, &view.group);
        put_name(body, view.changed.as_deref().unwrap_or_default());
        body.u32(u32::try_from(view.members.len()).expect("members are bounded by memory"));
        for member in &view.members {
            put_name(body, member);
        }
    });
}

pub(super) fn decode_view(reader: &mut Reader<'_>) -> Result<View, DecodeError> {
    let code = reader.u8("kind")?;
    let kind = match code {
        0 | APPROXIMATE => ViewKind::Regular,
        1 => ViewKind::Transitional,
        other => return Err(reader.invalid("kind", u64::from(other))),
    };
    let cause = match reader.u8("cause")? {
        0 => Cause::Join,
        1 => Cause::Leave,
        2 => Cause::Disconnect,
        3 => Cause::Network,
        other => return Err(reader.invalid("cause", u64::from(other))),
    };
    let config = reader.config("config")?;
    let seq = reader.u64("seq")?;
    let within = if take_bool(reader, "within")? {
        Some(reader.u64("component")?)
    } else {
        None
    };
    let group = Arc::from(take_name(reader, "group")?);
    let changed = take_name(reader, "changed")?;
    let changed = (!changed.is_empty()).then(|| Arc::from(changed));
    let count = reader.u32("members")? as usize;
    // Each takes a byte at least, so nothing is allocated for members that are not there.
    if count > reader.remaining() {
        return Err(reader.invalid("members", count as u64));
    }
    let members = (0..count)
        .map(|_| take_name(reader, "member").map(Arc::from))
        .collect::<Result<_, _>>()?;
    Ok(View {
        group,
        id: ViewId {
            config,
            seq,
            within,
        },
        kind,
        approximate: code == APPROXIMATE,
        cause,
        changed,
        members,
    })
}
