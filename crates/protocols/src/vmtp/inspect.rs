//! Reading VMTP's datagrams from outside, for measurements and traces.

use bytes::Bytes;
use groupcast_core::SocketClass;
use groupcast_core::trace::{Inspected, Role};

use super::wire::Message;

/// An [`Inspect`](groupcast_core::trace::Inspect) for VMTP. Requests of one segment show their
/// payload.
pub fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let (kind, role) = match Message::decode(&Bytes::copy_from_slice(body)) {
        Ok(Message::Request {
            again,
            segments,
            bytes,
            ..
        }) => {
            if segments == 1 {
                payload(&bytes);
            }
            match again {
                true => ("repair", Role::Repair),
                false => ("data", Role::Data),
            }
        }
        Ok(Message::Demand { .. }) => ("demand", Role::Request),
        Ok(Message::Ack { .. }) => ("acknowledgement", Role::Control),
        Ok(Message::Response { .. }) => ("response", Role::Control),
        Err(_) => ("junk", Role::Control),
    };
    Inspected { kind, role }
}
