//! Reading a gossip group's datagrams from outside, for measurements and traces.

use bytes::Bytes;
use groupcast_core::trace::{Inspected, Role};
use groupcast_core::{MessageId, SocketClass};

use super::wire::{self, Carries, Message};

/// An [`Inspect`](groupcast_core::trace::Inspect) for gossip.
pub fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let (kind, role) = match wire::data(body) {
        Ok(Some((header, bytes))) => {
            payload(bytes);
            match header.carries {
                Carries::Data => ("data", Role::Data),
                Carries::Repair => ("repair", Role::Repair),
                Carries::MulticastRepair => ("multicast repair", Role::Repair),
            }
        }
        Ok(None) => control(body),
        Err(_) => JUNK,
    };
    Inspected { kind, role }
}

const JUNK: (&str, Role) = ("junk", Role::Control);

/// What carries no message.
fn control(body: &[u8]) -> (&'static str, Role) {
    match Message::decode(&Bytes::copy_from_slice(body)) {
        Ok(Message::Gossip(_)) => ("gossip", Role::Control),
        Ok(Message::Request { .. }) => ("request", Role::Request),
        Ok(Message::Special { .. }) => ("special request", Role::Request),
        Ok(Message::Info { .. }) => ("info", Role::Control),
        Ok(Message::Mcast { .. }) => ("mcast", Role::Request),
        Ok(Message::MulticastRequest { .. }) => ("multicast request", Role::Request),
        Ok(Message::Join { .. }) => ("join", Role::Control),
        Ok(Message::Leave) => ("leave", Role::Control),
        Ok(Message::Prove { .. }) => ("prove", Role::Control),
        Ok(Message::Proof { .. }) => ("proof", Role::Control),
        Ok(Message::Data { .. }) | Err(_) => JUNK,
    }
}

/// The message that a datagram carries or is about, for transcripts; `None` where it is about many,
/// none, or unreadable.
pub fn subject(body: &[u8]) -> Option<MessageId> {
    match Message::decode(&Bytes::copy_from_slice(body)).ok()? {
        Message::Data { header, .. } => Some(header.id),
        Message::Request { id, .. }
        | Message::Special { id, .. }
        | Message::Info { id, .. }
        | Message::Mcast { id }
        | Message::MulticastRequest { id } => Some(id),
        Message::Gossip(_)
        | Message::Join { .. }
        | Message::Leave
        | Message::Prove { .. }
        | Message::Proof { .. } => None,
    }
}
