//! Reading the ring's datagrams from outside, for measurements and traces.

use bytes::Bytes;
use groupcast_core::SocketClass;
use groupcast_core::family::Moment;
use groupcast_core::trace::{Inspected, Role};

use super::numbers::Hop;
use super::wire::{Data, Message, is_again};
use crate::packing::Unpacker;

/// Steps between which a fault is likely to find a gap: the resting token is on its way to a caller
/// or back; all have declared what they hold; what one lacked is on its way; all is there, and
/// nobody knows yet that all have it.
pub(super) const MOMENTS: [Moment; 4] = [
    Moment {
        name: "called token",
        shows: |class, body| matches!(control(class, body), Some(Message::Token(it)) if it.called),
    },
    Moment {
        name: "second pass of a commit token",
        shows: |class, body| match control(class, body) {
            Some(Message::Commit(it)) => it.hop >= Hop(it.members.len() as u64),
            _ => false,
        },
    },
    Moment {
        name: "recovered packet",
        shows: |class, body| {
            let read = |body: &[u8]| Message::decode(&Bytes::copy_from_slice(body));
            class == SocketClass::Data
                && matches!(
                    read(body),
                    Ok(Message::Data(Data { packet, .. })) if packet.recovered.is_some()
                )
        },
    },
    Moment {
        name: "token that ends recovery",
        shows: |class, body| match control(class, body) {
            Some(Message::Token(it)) => {
                it.install.is_some_and(|all| it.aru >= all) && !it.installed
            }
            _ => false,
        },
    },
];

/// A message to one member.
fn control(class: SocketClass, body: &[u8]) -> Option<Message> {
    let read = || Message::decode(&Bytes::copy_from_slice(body)).ok();
    (class == SocketClass::Control).then(read).flatten()
}

/// An [`Inspect`](groupcast_core::trace::Inspect) for the ring. Messages that span several packets
/// are not seen.
pub fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let body = Bytes::copy_from_slice(body);
    let steers = |kind| Inspected {
        kind,
        role: Role::Control,
    };
    match Message::decode(&body) {
        Ok(Message::Data(data)) => {
            payloads(&data.packet.body, payload);
            if is_again(&body) || data.packet.recovered.is_some() {
                Inspected {
                    kind: "repair",
                    role: Role::Repair,
                }
            } else {
                Inspected {
                    kind: "data",
                    role: Role::Data,
                }
            }
        }
        Ok(Message::Unordered { record, .. }) => {
            payloads(&record, payload);
            Inspected {
                kind: "unordered",
                role: Role::Data,
            }
        }
        Ok(Message::Token(_)) => steers("token"),
        Ok(Message::Join(_)) => steers("join"),
        Ok(Message::Commit(_)) => steers("commit token"),
        Ok(Message::Announcement(_)) => steers("announcement"),
        Ok(Message::Ack { .. }) => steers("acknowledgement"),
        Ok(Message::Hurry { .. }) => steers("hurry"),
        Ok(Message::Name(_)) => steers("name in use"),
        Ok(Message::Probe { .. }) => steers("probe"),
        Ok(Message::Part { .. }) => steers("part"),
        Err(_) => steers("junk"),
    }
}

/// Calls `payload` for every message that is whole in `body`.
fn payloads(body: &Bytes, payload: &mut dyn FnMut(&[u8])) {
    let (mut unpacker, mut at) = (Unpacker::default(), 0);
    while let Ok(Some(record)) = unpacker.next(body, &mut at, body.len()) {
        payload(&record.payload);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId, Service};

    use super::super::numbers::{Index, Round, Seq};
    use super::super::wire::{DataHeader, Packet, RingKey};
    use super::*;
    use crate::packing::{Packer, Record};

    #[test]
    fn a_data_packet_shows_its_payloads_and_whether_it_is_sent_again() {
        let mut packer = Packer::default();
        for (number, payload) in [(1, "one"), (2, "two")] {
            packer.push(Record {
                service: Service::Agreed,
                number,
                payload: Bytes::from_static(payload.as_bytes()),
            });
        }
        let packet = Packet {
            origin: Index(0),
            round: Round(1),
            recovered: None,
            body: packer.pack(1400).expect("two messages wait"),
        };
        let representative = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(2),
        };
        let key = RingKey::from(ConfigId {
            counter: 3,
            representative,
        });
        let header = DataHeader::new(key.tag(), Seq(7), true, &packet);
        for (header, role) in [(header, Role::Data), (header.again(), Role::Repair)] {
            let datagram = [header.as_bytes(), &packet.body[..]].concat();
            let mut seen: Vec<Vec<u8>> = Vec::new();
            let inspected = inspect(SocketClass::Data, &datagram, &mut |payload| {
                seen.push(payload.to_vec());
            });
            assert_eq!(inspected.role, role);
            assert_eq!(seen, [b"one", b"two"]);
        }
    }

    #[test]
    fn any_bytes_are_legal() {
        let junk = inspect(SocketClass::Data, &[0xfe, 1, 2], &mut |_| {});
        assert_eq!(junk.kind, "junk");
    }
}
