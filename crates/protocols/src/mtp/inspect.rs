//! Reading MTP's datagrams from outside, for measurements and traces.

use bytes::Bytes;
use groupcast_core::SocketClass;
use groupcast_core::trace::{Inspected, Role};

use super::wire::{InWeb, Message};

/// An [`Inspect`](groupcast_core::trace::Inspect) for MTP. A message of one packet shows its
/// payload.
pub fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let (kind, role) = match Message::decode(&Bytes::copy_from_slice(body)) {
        Ok(Message::Hello) => ("hello", Role::Control),
        Ok(Message::Of(_, message)) => match message {
            InWeb::Status(_) => ("status", Role::Control),
            InWeb::Alive(_) => ("alive", Role::Control),
            InWeb::Request { .. } => ("token request", Role::Control),
            InWeb::Grant { .. } => ("token", Role::Control),
            InWeb::Nack { .. } => ("nack", Role::Request),
            InWeb::Data(data) if data.again => ("repair", Role::Repair),
            InWeb::Data(data) if data.bytes.is_empty() => ("empty data", Role::Control),
            InWeb::Data(data) => {
                if data.packet == 0 && data.ends {
                    payload(&data.bytes);
                }
                ("data", Role::Data)
            }
        },
        Err(_) => ("junk", Role::Control),
    };
    Inspected { kind, role }
}
