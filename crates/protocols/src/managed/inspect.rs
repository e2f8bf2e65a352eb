//! Reading the datagrams of endpoint and entity from outside, for measurements and traces.

use groupcast_core::SocketClass;
use groupcast_core::trace::{Inspected, Role};

use super::messages::{BULK, XGM};
use crate::{bulk, xgm};

/// An [`Inspect`](groupcast_core::trace::Inspect) for monitored messages.
pub(super) fn inspect(
    class: SocketClass,
    body: &[u8],
    payload: &mut dyn FnMut(&[u8]),
) -> Inspected {
    match body.split_first() {
        Some((&BULK, body)) => bulk::inspect(class, body, payload),
        Some((&XGM, body)) => xgm::inspect(class, body, payload),
        _ => Inspected {
            kind: "junk",
            role: Role::Control,
        },
    }
}
