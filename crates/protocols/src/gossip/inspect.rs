//! Reading a gossip group's datagrams from outside, for measurements and traces.

use bytes::Bytes;
use groupcast_core::trace::{Inspected, Role};
use groupcast_core::{MessageId, SocketClass};

use super::wire::{Carries, Message};

/// An [`Inspect`](groupcast_core::trace::Inspect) for gossip.
pub fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let (kind, role) = match Message::decode(&Bytes::copy_from_slice(body)) {
        Ok(Message::Data {
            header,
            payload: bytes,
        }) => {
            payload(&bytes);
            match header.carries {
                Carries::Data => ("data", Role::Data),
                Carries::Repair => ("repair", Role::Repair),
                Carries::MulticastRepair => ("multicast repair", Role::Repair),
            }
        }
        Ok(Message::Gossip(_)) => ("gossip", Role::Control),
        Ok(Message::Request { .. }) => ("request", Role::Request),
        Ok(Message::Special { .. }) => ("special request", Role::Request),
        Ok(Message::Info { .. }) => ("info", Role::Control),
        Ok(Message::Mcast { .. }) => ("mcast", Role::Request),
        Ok(Message::MulticastRequest { .. }) => ("multicast request", Role::Request),
        Ok(Message::Join { .. }) => ("join", Role::Control),
        Ok(Message::Leave) => ("leave", Role::Control),
        Err(_) => ("junk", Role::Control),
    };
    Inspected { kind, role }
}

/// The message that a datagram carries or is about, for transcripts; `None` where it is about many, none, or unreadable.
pub fn subject(body: &[u8]) -> Option<MessageId> {
    match Message::decode(&Bytes::copy_from_slice(body)).ok()? {
        Message::Data { header, .. } => Some(header.id),
        Message::Request { id, .. }
        | Message::Special { id, .. }
        | Message::Info { id, .. }
        | Message::Mcast { id }
        | Message::MulticastRequest { id } => Some(id),
        Message::Gossip(_) | Message::Join { .. } | Message::Leave => None,
    }
}
