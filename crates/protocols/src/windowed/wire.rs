//! The windowed group's datagrams. All integers big-endian; varints as in [`Reader::varint`].
//!
//! | first byte | kind | then |
//! |---|---|---|
//! | 1 | hello | 1 if all members are found, else 0 |
//! | 2 | data | service (1), number (varint), payload |
//! | 3 | repair | the same, again |
//! | 4 | acknowledgement | all up to here are delivered (varint), highest seen (varint), count (2), missing numbers (8 each) |

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::Service;
use groupcast_core::wire::{DecodeError, Reader, Writer};

const HELLO: u8 = 1;
const DATA: u8 = 2;
const REPAIR: u8 = 3;
const ACK: u8 = 4;

/// The most bytes before a message's payload.
pub(super) const DATA_HEADER: usize = 2 + 10;

/// A datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Hello {
        complete: bool,
    },
    Data {
        again: bool,
        service: Service,
        number: u64,
        payload: Bytes,
    },
    Ack {
        delivered: u64,
        seen: u64,
        missing: Vec<u64>,
    },
}

pub(super) fn hello(complete: bool) -> Vec<u8> {
    [HELLO, u8::from(complete)].to_vec()
}

/// Bytes before a message's payload.
pub(super) fn data_header(again: bool, service: Service, number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(DATA_HEADER);
    let kind = if again { REPAIR } else { DATA };
    let mut writer = Writer::new(&mut bytes);
    writer.u8(kind).u8(service.code()).varint(number);
    bytes
}

pub(super) fn ack(delivered: u64, seen: u64, missing: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.u8(ACK).varint(delivered).varint(seen);
    writer.count(missing.len());
    for number in missing {
        writer.u64(*number);
    }
    bytes
}

impl Message {
    /// Reads a datagram. Any bytes are legal input.
    pub(super) fn decode(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let message = match reader.u8("kind")? {
            HELLO => Self::Hello {
                complete: match reader.u8("complete")? {
                    flag @ (0 | 1) => flag == 1,
                    other => return Err(reader.invalid("complete", u64::from(other))),
                },
            },
            kind @ (DATA | REPAIR) => {
                let code = reader.u8("service")?;
                let service = Service::from_code(code)
                    .filter(|service| matches!(service, Service::Reliable | Service::Fifo))
                    .ok_or_else(|| reader.invalid("service", u64::from(code)))?;
                let number = reader.varint("number")?;
                reader.rest();
                let payload = body.slice(DATA_START + varint_len(number)..);
                Self::Data {
                    again: kind == REPAIR,
                    service,
                    number,
                    payload,
                }
            }
            ACK => {
                let (delivered, seen) = (reader.varint("delivered")?, reader.varint("seen")?);
                let count = reader.count("missing", 8)?;
                let missing = (0..count).map(|_| reader.u64("missing"));
                let missing = missing.collect::<Result<_, _>>()?;
                Self::Ack {
                    delivered,
                    seen,
                    missing,
                }
            }
            other => return Err(reader.invalid("kind", u64::from(other))),
        };
        reader.finish()?;
        Ok(message)
    }
}

/// Where a message's number begins.
const DATA_START: usize = 2;

fn varint_len(value: u64) -> usize {
    (64 - value.leading_zeros()).div_ceil(7).max(1) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(message: &Message) -> Bytes {
        match message {
            Message::Hello { complete } => hello(*complete).into(),
            Message::Data {
                again,
                service,
                number,
                payload,
            } => [&data_header(*again, *service, *number)[..], payload]
                .concat()
                .into(),
            Message::Ack {
                delivered,
                seen,
                missing,
            } => ack(*delivered, *seen, missing).into(),
        }
    }

    #[test]
    fn the_layout_is_pinned() {
        assert_eq!(hello(true), [1, 1]);
        assert_eq!(data_header(false, Service::Fifo, 300), [2, 2, 0xac, 2]);
        assert_eq!(data_header(true, Service::Reliable, 1), [3, 1, 1]);
        let bytes = ack(5, 7, &[6]);
        assert_eq!(bytes, [4, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0, 6]);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_a_message_that_encodes_to_them_or_to_an_error(kind in 0u8..6, rest: Vec<u8>) {
            let body = Bytes::from([&[kind][..], &rest].concat());
            if let Ok(message) = Message::decode(&body) {
                prop_assert_eq!(encode(&message), body);
            }
        }

        #[test]
        fn numbers_of_all_sizes_come_back(number: u64, shift in 0u32..64) {
            let data = Message::Data {
                again: false,
                service: Service::Fifo,
                number: number >> shift,
                payload: Bytes::from_static(b"xyz"),
            };
            prop_assert_eq!(Message::decode(&encode(&data)), Ok(data));
        }
    }
}
