//! MTP's datagrams. All integers are big-endian.
//!
//! | first byte | kind | then |
//! |---|---|---|
//! | 1 | hello: a member looks for a web | |
//! | 2 | status: the master says what it has decided | web (8), statuses |
//! | 3 | request for a token | web (8), number of the request (8) |
//! | 4 | grant of a token | web (8), number of the request (8), message (8) |
//! | 5 | data | web (8), statuses, message (8), packet (4), flags (1): 1 the message's bytes end, 2 the window ends, 4 sent before; the sender's number of the message (8), bytes |
//! | 7 | alive: the master is there | as a status |
//! | 6 | NACK | web (8), message (8), packets: first, one past the last (4 each), until the end |
//!
//! A web is named by its master's incarnation. Statuses: the newest message (8), two bits for each
//! of twelve (4).

use alloc::vec::Vec;
use core::ops::Range;

use bytes::Bytes;
use groupcast_core::Incarnation;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::statuses::Statuses;

/// Ranges of a NACK, at most.
pub(super) const RANGES_MAX: usize = 128;
/// Bytes before those of a data packet.
pub(super) const DATA_HEADER: usize = 1 + 8 + 12 + 8 + 4 + 1 + 8;

/// A datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Hello,
    Of(Incarnation, InWeb),
}

/// A datagram of a web.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum InWeb {
    Status(Statuses),
    Alive(Statuses),
    Request {
        request: u64,
    },
    Grant {
        request: u64,
        message: u64,
    },
    Data(Data),
    Nack {
        message: u64,
        missing: Vec<Range<u32>>,
    },
}

/// A packet of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Data {
    pub(super) statuses: Statuses,
    pub(super) message: u64,
    pub(super) packet: u32,
    /// The message's bytes end with it: those that follow are empty.
    pub(super) ends: bool,
    /// Nothing more comes in this heartbeat.
    pub(super) ends_window: bool,
    pub(super) again: bool,
    pub(super) number: u64,
    pub(super) bytes: Bytes,
}

impl Message {
    /// Reads a datagram. Any bytes are legal input.
    pub(super) fn decode(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let kind = reader.u8("kind")?;
        if kind == 1 {
            reader.finish()?;
            return Ok(Self::Hello);
        }
        let web = Incarnation(reader.u64("web")?);
        let message = match kind {
            2 => InWeb::Status(statuses(&mut reader)?),
            7 => InWeb::Alive(statuses(&mut reader)?),
            3 => InWeb::Request {
                request: reader.u64("request")?,
            },
            4 => InWeb::Grant {
                request: reader.u64("request")?,
                message: message(&mut reader)?,
            },
            5 => InWeb::Data(data(&mut reader, body)?),
            6 => InWeb::Nack {
                message: message(&mut reader)?,
                missing: missing(&mut reader)?,
            },
            other => return Err(reader.invalid("kind", u64::from(other))),
        };
        reader.finish()?;
        Ok(Self::Of(web, message))
    }

    /// Its bytes.
    pub(super) fn encode(&self) -> Bytes {
        let mut encoded = Vec::new();
        let mut writer = Writer::new(&mut encoded);
        let Self::Of(web, message) = self else {
            writer.u8(1);
            return encoded.into();
        };
        match message {
            InWeb::Status(statuses) => {
                writer.u8(2).u64(web.0);
                put_statuses(&mut writer, statuses);
            }
            InWeb::Alive(statuses) => {
                writer.u8(7).u64(web.0);
                put_statuses(&mut writer, statuses);
            }
            InWeb::Request { request } => {
                writer.u8(3).u64(web.0).u64(*request);
            }
            InWeb::Grant { request, message } => {
                writer.u8(4).u64(web.0).u64(*request).u64(*message);
            }
            InWeb::Data(data) => {
                writer.u8(5).u64(web.0);
                put_statuses(&mut writer, &data.statuses);
                writer.u64(data.message).u32(data.packet);
                writer.u8(u8::from(data.ends)
                    | u8::from(data.ends_window) << 1
                    | u8::from(data.again) << 2);
                writer.u64(data.number).put(&data.bytes);
            }
            InWeb::Nack { message, missing } => {
                writer.u8(6).u64(web.0).u64(*message);
                for range in missing.iter().take(RANGES_MAX) {
                    writer.u32(range.start).u32(range.end);
                }
            }
        }
        encoded.into()
    }
}

fn data(reader: &mut Reader<'_>, body: &Bytes) -> Result<Data, DecodeError> {
    let statuses = statuses(reader)?;
    let message = message(reader)?;
    let packet = reader.u32("packet")?;
    let flags = reader.u8("flags")?;
    if flags > 7 {
        return Err(reader.invalid("flags", u64::from(flags)));
    }
    let number = reader.u64("number")?;
    reader.rest();
    Ok(Data {
        statuses,
        message,
        packet,
        ends: flags & 1 != 0,
        ends_window: flags & 2 != 0,
        again: flags & 4 != 0,
        number,
        bytes: body.slice(DATA_HEADER..),
    })
}

fn message(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    match reader.u64("message")? {
        message if (1..u64::MAX / 2).contains(&message) => Ok(message),
        other => Err(reader.invalid("message", other)),
    }
}

fn missing(reader: &mut Reader<'_>) -> Result<Vec<Range<u32>>, DecodeError> {
    let mut missing = Vec::new();
    while reader.remaining() > 0 {
        let (start, end) = (reader.u32("first")?, reader.u32("end")?);
        if start >= end || missing.len() == RANGES_MAX {
            return Err(reader.invalid("end", u64::from(end)));
        }
        missing.push(start..end);
    }
    Ok(missing)
}

fn statuses(reader: &mut Reader<'_>) -> Result<Statuses, DecodeError> {
    let newest = reader.u64("newest")?;
    let bits = reader.u32("statuses")?;
    Statuses::of(newest, bits).ok_or_else(|| reader.invalid("statuses", u64::from(bits)))
}

fn put_statuses(writer: &mut Writer<'_>, statuses: &Statuses) {
    writer.u64(statuses.newest()).u32(statuses.bits());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_is_pinned() {
        let nack = InWeb::Nack {
            message: 5,
            missing: core::iter::once(2..4).collect(),
        };
        let bytes = Message::Of(Incarnation(9), nack).encode();
        let expected = [
            6, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 4,
        ];
        assert_eq!(bytes, &expected[..]);
        assert_eq!(Message::Hello.encode(), &[1][..]);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_a_message_that_encodes_to_them_or_to_an_error(kind in 0u8..8, rest: Vec<u8>) {
            let body = Bytes::from([&[kind][..], &rest].concat());
            if let Ok(message) = Message::decode(&body) {
                prop_assert_eq!(message.encode(), body);
            }
        }
    }
}
