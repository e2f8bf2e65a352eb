//! Reading XGM's datagrams from outside, for measurements and traces.

use groupcast_core::SocketClass;
use groupcast_core::trace::{Inspected, Role};

use super::wire::Message;

/// An [`Inspect`](groupcast_core::trace::Inspect) for XGM.
pub fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let (kind, role) = match Message::decode(body) {
        Ok(Message::Poll(_)) => ("poll", Role::Request),
        Ok(Message::Answer(_)) => ("answer", Role::Control),
        Ok(Message::Change(_)) => ("change", Role::Control),
        Ok(Message::Set { value, .. }) => {
            payload(&value);
            ("set", Role::Data)
        }
        Ok(Message::Ask(_)) => ("ask", Role::Request),
        Ok(Message::Told(_)) => ("told", Role::Control),
        Ok(Message::Report(_)) => ("report", Role::Control),
        Err(_) => ("junk", Role::Control),
    };
    Inspected { kind, role }
}
