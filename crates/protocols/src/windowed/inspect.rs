//! Reading the windowed group's datagrams from outside, for measurements and traces.

use bytes::Bytes;
use groupcast_core::SocketClass;
use groupcast_core::trace::{Inspected, Role};

use super::wire::Message;

/// An [`Inspect`](groupcast_core::trace::Inspect) for windowed groups. An acknowledgement that
/// names missing messages is a request.
pub fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let (kind, role) = match Message::decode(&Bytes::copy_from_slice(body)) {
        Ok(Message::Data {
            again,
            payload: bytes,
            ..
        }) => {
            payload(&bytes);
            match again {
                true => ("repair", Role::Repair),
                false => ("data", Role::Data),
            }
        }
        Ok(Message::Ack { missing, .. }) if !missing.is_empty() => ("request", Role::Request),
        Ok(Message::Ack { .. }) => ("acknowledgement", Role::Control),
        Ok(Message::Hello { .. }) => ("hello", Role::Control),
        Err(_) => ("junk", Role::Control),
    };
    Inspected { kind, role }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Service;

    use super::super::wire;
    use super::*;

    #[test]
    fn each_kind_has_its_role() {
        let data = |again| [wire::data_header(again, Service::Fifo, 3), b"x".to_vec()].concat();
        let bodies = [
            data(false),
            data(true),
            wire::ack(1, 1, &[]),
            wire::ack(1, 3, &[2]),
            wire::hello(true),
            b"\x09".to_vec(),
        ];
        let roles = bodies.map(|body| inspect(SocketClass::Data, &body, &mut |_| {}).role);
        let [control, request] = [Role::Control, Role::Request];
        let expected = [Role::Data, Role::Repair, control, request, control, control];
        assert_eq!(roles, expected);
    }
}
