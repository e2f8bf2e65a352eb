//! Reading SRM's datagrams from outside, for measurements and traces.

use bytes::Bytes;
use groupcast_core::SocketClass;
use groupcast_core::trace::{Inspected, Role};

use super::wire::Message;

/// An [`Inspect`](groupcast_core::trace::Inspect) for SRM.
pub fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let (kind, role) = match Message::decode(&Bytes::copy_from_slice(body)) {
        Ok(Message::Data { payload: bytes, .. }) => {
            payload(&bytes);
            ("data", Role::Data)
        }
        Ok(Message::Repair { payload: bytes, .. }) => {
            payload(&bytes);
            ("repair", Role::Repair)
        }
        Ok(Message::Request { .. }) => ("request", Role::Request),
        Ok(Message::Session(_)) => ("session", Role::Control),
        Err(_) => ("junk", Role::Control),
    };
    Inspected { kind, role }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use groupcast_core::{Incarnation, MemberId, MessageId, NodeId, Service};

    use super::super::wire;
    use super::*;

    #[test]
    fn each_kind_has_its_role_and_shows_its_payload() {
        let sender = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(2),
        };
        let id = MessageId { sender, number: 3 };
        let data = [wire::data_header(Service::Fifo, 3), b"x".to_vec()].concat();
        let repair = wire::repair_header(id, Service::Fifo, Duration::ZERO);
        let repair = [repair, b"x".to_vec()].concat();
        let request = wire::request(id, Duration::ZERO);
        let session = wire::Session::default().encode();
        let seen = [data, repair, request, session, b"\x09".to_vec()].map(|body| {
            let mut payloads = 0;
            let inspected = inspect(SocketClass::Data, &body, &mut |bytes| {
                assert_eq!(bytes, b"x");
                payloads += 1;
            });
            (inspected.kind, inspected.role, payloads)
        });
        let expected = [
            ("data", Role::Data, 1),
            ("repair", Role::Repair, 1),
            ("request", Role::Request, 0),
            ("session", Role::Control, 0),
            ("junk", Role::Control, 0),
        ];
        assert_eq!(seen, expected);
    }
}
