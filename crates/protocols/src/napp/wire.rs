//! NAPP's datagrams. All integers are big-endian.
//!
//! | first byte | kind | then |
//! |---|---|---|
//! | 1 | open: who is there? | message (8), its packets (4) |
//! | 2 | here | message (8) |
//! | 3 | roster: a page of the receivers | message (8), receivers (2), index of the first here (2), receivers (16 each) |
//! | 4 | data | message (8), packets (4), how many were sent so far (4), which this is (4), its bytes |
//! | 5 | data, again | the same |
//! | 6 | ACK | source (16), message (8), number (4), index of its sender (2), state vector (4 each) |
//! | 7 | PACK | the same |
//! | 8 | SREJ | the same |
//! | 9 | close | message (8) |
//!
//! A state vector has an entry for each receiver, in the order of the roster: the first packet that
//! the receiver lacks. The number in an ACK or a PACK is the first packet that its sender lacks; in
//! an SREJ it is the packet that is asked for.

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::MemberId;
use groupcast_core::wire::{DecodeError, Reader, Writer};

const OPEN: u8 = 1;
const HERE: u8 = 2;
const ROSTER: u8 = 3;
const DATA: u8 = 4;
const AGAIN: u8 = 5;
const ACK: u8 = 6;
const PACK: u8 = 7;
const SREJ: u8 = 8;
const CLOSE: u8 = 9;

/// Receivers of a connection, at most: a state vector fits into a packet.
pub(super) const RECEIVERS_MAX: usize = 300;
/// Receivers of a page of the roster.
pub(super) const PAGE: usize = 64;
/// Bytes of a packet.
pub(super) const PACKET: usize = 1_400;
/// Packets of a message, at most.
pub(super) const PACKETS_MAX: u32 = (1_u32 << 20).div_ceil(PACKET as u32);
/// Bytes before those of a packet.
const HEADER: usize = 1 + 8 + 4 + 4 + 4;

/// What a control packet says besides its state vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Ack,
    Pack,
    Srej,
}

/// A datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Open {
        message: u64,
        packets: u32,
    },
    Here {
        message: u64,
    },
    Roster {
        message: u64,
        receivers: u16,
        first: u16,
        page: Vec<MemberId>,
    },
    Data {
        again: bool,
        message: u64,
        packets: u32,
        sent: u32,
        sequence: u32,
        bytes: Bytes,
    },
    Control {
        what: What,
        source: MemberId,
        message: u64,
        number: u32,
        index: u16,
        vector: Vec<u32>,
    },
    Close {
        message: u64,
    },
}

impl Message {
    /// Reads a datagram. Any bytes are legal input.
    pub(super) fn decode(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let message = match reader.u8("kind")? {
            OPEN => Self::Open {
                message: reader.u64("message")?,
                packets: packets(&mut reader)?,
            },
            HERE => Self::Here {
                message: reader.u64("message")?,
            },
            ROSTER => roster(&mut reader)?,
            kind @ (DATA | AGAIN) => {
                let message = reader.u64("message")?;
                let packets = packets(&mut reader)?;
                let sent = reader.u32("sent")?;
                let sequence = reader.u32("sequence")?;
                if sent > packets || sequence >= sent {
                    return Err(reader.invalid("sequence", u64::from(sequence)));
                }
                if reader.rest().len() > PACKET {
                    return Err(reader.invalid("length", body.len() as u64));
                }
                Self::Data {
                    again: kind == AGAIN,
                    message,
                    packets,
                    sent,
                    sequence,
                    bytes: body.slice(HEADER..),
                }
            }
            ACK => control(What::Ack, &mut reader)?,
            PACK => control(What::Pack, &mut reader)?,
            SREJ => control(What::Srej, &mut reader)?,
            CLOSE => Self::Close {
                message: reader.u64("message")?,
            },
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
            Self::Open { message, packets } => {
                writer.u8(OPEN).u64(*message).u32(*packets);
            }
            Self::Here { message } => {
                writer.u8(HERE).u64(*message);
            }
            Self::Roster {
                message,
                receivers,
                first,
                page,
            } => {
                writer.u8(ROSTER).u64(*message).u16(*receivers).u16(*first);
                for member in page {
                    writer.member(*member);
                }
            }
            Self::Data {
                again,
                message,
                packets,
                sent,
                sequence,
                bytes,
            } => {
                writer.u8(if *again { AGAIN } else { DATA }).u64(*message);
                writer.u32(*packets).u32(*sent).u32(*sequence).put(bytes);
            }
            Self::Control {
                what,
                source,
                message,
                number,
                index,
                vector,
            } => {
                let kind = match what {
                    What::Ack => ACK,
                    What::Pack => PACK,
                    What::Srej => SREJ,
                };
                writer.u8(kind).member(*source).u64(*message);
                writer.u32(*number).u16(*index);
                for entry in vector {
                    writer.u32(*entry);
                }
            }
            Self::Close { message } => {
                writer.u8(CLOSE).u64(*message);
            }
        }
        encoded.into()
    }
}

fn packets(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    match reader.u32("packets")? {
        packets @ 1..=PACKETS_MAX => Ok(packets),
        other => Err(reader.invalid("packets", u64::from(other))),
    }
}

fn roster(reader: &mut Reader<'_>) -> Result<Message, DecodeError> {
    let message = reader.u64("message")?;
    let receivers = reader.u16("receivers")?;
    let first = reader.u16("first")?;
    let mut page = Vec::new();
    while reader.remaining() > 0 && page.len() < PAGE {
        page.push(reader.member("receiver")?);
    }
    let is_in = usize::from(first) + page.len() <= usize::from(receivers);
    if !is_in || usize::from(receivers) > RECEIVERS_MAX {
        return Err(reader.invalid("receivers", u64::from(receivers)));
    }
    Ok(Message::Roster {
        message,
        receivers,
        first,
        page,
    })
}

fn control(what: What, reader: &mut Reader<'_>) -> Result<Message, DecodeError> {
    let source = reader.member("source")?;
    let message = reader.u64("message")?;
    let number = reader.u32("number")?;
    let index = reader.u16("index")?;
    let mut vector = Vec::new();
    while reader.remaining() > 0 && vector.len() < RECEIVERS_MAX {
        vector.push(reader.u32("entry")?);
    }
    if usize::from(index) >= vector.len() {
        return Err(reader.invalid("index", u64::from(index)));
    }
    Ok(Message::Control {
        what,
        source,
        message,
        number,
        index,
        vector,
    })
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_is_pinned() {
        let data = Message::Data {
            again: false,
            message: 300,
            packets: 2,
            sent: 2,
            sequence: 1,
            bytes: Bytes::from_static(b"x"),
        };
        let head = [4, 0, 0, 0, 0, 0, 0, 1, 44, 0, 0, 0, 2];
        let tail = [0, 0, 0, 2, 0, 0, 0, 1, b'x'];
        assert_eq!(data.encode(), [&head[..], &tail].concat());
        let srej = Message::Control {
            what: What::Srej,
            source: MemberId {
                node: NodeId(1),
                incarnation: Incarnation(2),
            },
            message: 3,
            number: 4,
            index: 1,
            vector: alloc::vec![9, 4],
        };
        let head = [8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2];
        let middle = [0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 1];
        let vector = [0, 0, 0, 9, 0, 0, 0, 4];
        assert_eq!(srej.encode(), [&head[..], &middle, &vector].concat());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_a_message_that_encodes_to_them_or_to_an_error(kind in 0u8..11, rest: Vec<u8>) {
            let body = Bytes::from([&[kind][..], &rest].concat());
            if let Ok(message) = Message::decode(&body) {
                prop_assert_eq!(message.encode(), body);
            }
        }
    }
}
