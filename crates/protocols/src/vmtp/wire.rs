//! VMTP's datagrams. All integers are big-endian.
//!
//! | first byte | kind | then |
//! |---|---|---|
//! | 1 | request | transaction (8), segments of the packet group (1), which of them this is (1), its bytes |
//! | 2 | request, again | the same |
//! | 3 | demand: every server is to acknowledge at once | transaction (8), segments (1) |
//! | 4 | acknowledgement | transaction (8), the segments that are here, a bit each (4) |
//! | 5 | response | transaction (8), what the server's user says |

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader, Writer};

const REQUEST: u8 = 1;
const AGAIN: u8 = 2;
const DEMAND: u8 = 3;
const ACK: u8 = 4;
const RESPONSE: u8 = 5;

/// Segments of a packet group, at most: as many as a mask has bits.
pub(super) const SEGMENTS_MAX: u8 = 32;
/// Bytes before those of a segment, or of a response.
const HEADER: usize = 1 + 8 + 2;
const RESPONSE_HEADER: usize = 1 + 8;

/// A datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Request {
        again: bool,
        transaction: u64,
        segments: u8,
        segment: u8,
        bytes: Bytes,
    },
    Demand {
        transaction: u64,
        segments: u8,
    },
    Ack {
        transaction: u64,
        mask: u32,
    },
    Response {
        transaction: u64,
        bytes: Bytes,
    },
}

/// The mask of all segments of a group.
pub(super) fn all_of(segments: u8) -> u32 {
    match segments {
        SEGMENTS_MAX.. => u32::MAX,
        fewer => (1 << fewer) - 1,
    }
}

impl Message {
    /// Reads a datagram. Any bytes are legal input.
    pub(super) fn decode(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let kind = reader.u8("kind")?;
        let transaction = reader.u64("transaction")?;
        let message = match kind {
            REQUEST | AGAIN => {
                let segments = segments(&mut reader)?;
                let segment = reader.u8("segment")?;
                if segment >= segments {
                    return Err(reader.invalid("segment", u64::from(segment)));
                }
                reader.rest();
                Self::Request {
                    again: kind == AGAIN,
                    transaction,
                    segments,
                    segment,
                    bytes: body.slice(HEADER..),
                }
            }
            DEMAND => Self::Demand {
                transaction,
                segments: segments(&mut reader)?,
            },
            ACK => Self::Ack {
                transaction,
                mask: reader.u32("mask")?,
            },
            RESPONSE => {
                reader.rest();
                Self::Response {
                    transaction,
                    bytes: body.slice(RESPONSE_HEADER..),
                }
            }
            other => return Err(reader.invalid("kind", u64::from(other))),
        };
        reader.finish()?;
        Ok(message)
    }

    /// Its bytes.
    pub(super) fn encode(&self) -> Bytes {
        let mut encoded = Vec::new();
        let mut writer = Writer::new(&mut encoded);
        match self {
            Self::Request {
                again,
                transaction,
                segments,
                segment,
                bytes,
            } => {
                writer.u8(if *again { AGAIN } else { REQUEST });
                writer.u64(*transaction).u8(*segments).u8(*segment);
                writer.put(bytes);
            }
            Self::Demand {
                transaction,
                segments,
            } => {
                writer.u8(DEMAND).u64(*transaction).u8(*segments);
            }
            Self::Ack { transaction, mask } => {
                writer.u8(ACK).u64(*transaction).u32(*mask);
            }
            Self::Response { transaction, bytes } => {
                writer.u8(RESPONSE).u64(*transaction).put(bytes);
            }
        }
        encoded.into()
    }
}

fn segments(reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
    match reader.u8("segments")? {
        segments @ 1..=SEGMENTS_MAX => Ok(segments),
        other => Err(reader.invalid("segments", u64::from(other))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_is_pinned() {
        let request = Message::Request {
            again: false,
            transaction: 300,
            segments: 2,
            segment: 1,
            bytes: Bytes::from_static(b"x"),
        };
        assert_eq!(
            request.encode(),
            &[1, 0, 0, 0, 0, 0, 0, 1, 44, 2, 1, b'x'][..]
        );
        let ack = Message::Ack {
            transaction: 1,
            mask: 3,
        };
        assert_eq!(ack.encode(), &[4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3][..]);
    }

    #[test]
    fn a_mask_has_a_bit_for_each_segment() {
        assert_eq!(all_of(1), 1);
        assert_eq!(all_of(31), u32::MAX >> 1);
        assert_eq!(all_of(32), u32::MAX);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_a_message_that_encodes_to_them_or_to_an_error(kind in 0u8..7, rest: Vec<u8>) {
            let body = Bytes::from([&[kind][..], &rest].concat());
            if let Ok(message) = Message::decode(&body) {
                prop_assert_eq!(message.encode(), body);
            }
        }
    }
}
