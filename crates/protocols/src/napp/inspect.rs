//! Reading NAPP's datagrams from outside, for measurements and traces.

use bytes::Bytes;
use groupcast_core::SocketClass;
use groupcast_core::trace::{Inspected, Role};

use super::wire::{Message, What};

/// An [`Inspect`](groupcast_core::trace::Inspect) for NAPP. Messages of one packet show their
/// payload.
pub fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let (kind, role) = match Message::decode(&Bytes::copy_from_slice(body)) {
        Ok(Message::Data {
            again,
            packets,
            bytes,
            ..
        }) => {
            if packets == 1 {
                payload(&bytes);
            }
            match again {
                true => ("repair", Role::Repair),
                false => ("data", Role::Data),
            }
        }
        Ok(Message::Control { what, .. }) => match what {
            What::Ack => ("acknowledgement", Role::Control),
            What::Pack => ("pack", Role::Request),
            What::Srej => ("srej", Role::Request),
        },
        Ok(Message::Open { .. }) => ("open", Role::Control),
        Ok(Message::Here { .. }) => ("here", Role::Control),
        Ok(Message::Roster { .. }) => ("roster", Role::Control),
        Ok(Message::Close { .. }) => ("close", Role::Control),
        Err(_) => ("junk", Role::Control),
    };
    Inspected { kind, role }
}
