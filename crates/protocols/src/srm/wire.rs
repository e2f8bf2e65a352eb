//! SRM's datagrams. All integers big-endian; varints as in [`Reader::varint`].
//!
//! | first byte | kind | then |
//! |---|---|---|
//! | 1 | data | service (1), number (varint), payload |
//! | 2 | repair | service (1), source (16), number (varint), distance to the requestor in ns (varint), payload |
//! | 3 | request | source (16), number (varint), distance to the source in ns (varint) |
//! | 4 | session | number (varint), highest own message (varint), count (2) of states, count (2) of echoes, both |
//!
//! A state is a source (16) with the highest number that the member has of it (varint); an echo is
//! a member (16), the number of the last session message that was heard of it (varint), and for how
//! long ago that was in ns (varint). Session messages are numbered where Floyd et al. stamp them
//! with the time: whoever sent one knows when that was, and no clock goes on the wire.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{MemberId, MessageId, Service};

const DATA: u8 = 1;
const REPAIR: u8 = 2;
const REQUEST: u8 = 3;
const SESSION: u8 = 4;

/// The most bytes before a data message's payload.
pub(super) const DATA_HEADER: usize = 2 + 10;
/// The most bytes before a repair's payload.
pub(super) const REPAIR_HEADER: usize = 2 + 16 + 10 + 10;
/// The most bytes of a session message before its lists.
const SESSION_HEADER: usize = 1 + 10 + 10 + 4;
/// The fewest and the most bytes of a state or an echo.
const STATE_MIN: usize = 16 + 1;
const STATE_MAX: usize = 16 + 10;
const ECHO_MIN: usize = 16 + 2;
const ECHO_MAX: usize = 16 + 20;

/// A datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// A message of the sender, for the first time.
    Data {
        service: Service,
        number: u64,
        payload: Bytes,
    },
    /// Anybody's message, again.
    Repair {
        id: MessageId,
        service: Service,
        distance: Duration,
        payload: Bytes,
    },
    /// The sender misses a message.
    Request { id: MessageId, distance: Duration },
    /// What the sender has, and whom it hears.
    Session(Session),
}

/// The number of a member's session message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct SessionNumber(pub(super) u64);

/// A session message.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Session {
    pub(super) number: SessionNumber,
    /// The sender's own highest message; 0 before the first.
    pub(super) highest: u64,
    pub(super) states: Vec<(MemberId, u64)>,
    pub(super) echoes: Vec<Echo>,
}

/// That a session message was heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Echo {
    pub(super) member: MemberId,
    pub(super) number: SessionNumber,
    pub(super) held: Duration,
}

/// How many states and echoes fit into a session message of `bytes`, if there are this many of
/// each: half the room for each, and what one does not need for the other.
pub(super) fn session_room(bytes: usize, states: usize, echoes: usize) -> (usize, usize) {
    let room = bytes.saturating_sub(SESSION_HEADER);
    let echoes_first = echoes.min(room / 2 / ECHO_MAX);
    let states = states.min((room - echoes_first * ECHO_MAX) / STATE_MAX);
    let echoes = echoes.min((room - states * STATE_MAX) / ECHO_MAX);
    (states, echoes)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Bytes before a data message's payload.
pub(super) fn data_header(service: Service, number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(DATA_HEADER);
    let mut writer = Writer::new(&mut bytes);
    writer.u8(DATA).u8(service.code()).varint(number);
    bytes
}

/// Bytes before a repair's payload.
pub(super) fn repair_header(id: MessageId, service: Service, distance: Duration) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REPAIR_HEADER);
    let mut writer = Writer::new(&mut bytes);
    writer.u8(REPAIR).u8(service.code()).member(id.sender);
    writer.varint(id.number).varint(nanos(distance));
    bytes
}

/// A request.
pub(super) fn request(id: MessageId, distance: Duration) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + 16 + 20);
    let mut writer = Writer::new(&mut bytes);
    writer.u8(REQUEST).member(id.sender);
    writer.varint(id.number).varint(nanos(distance));
    bytes
}

impl Session {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.u8(SESSION).varint(self.number.0);
        writer.varint(self.highest);
        writer.count(self.states.len()).count(self.echoes.len());
        for (source, number) in &self.states {
            writer.member(*source).varint(*number);
        }
        for echo in &self.echoes {
            let writer = writer.member(echo.member).varint(echo.number.0);
            writer.varint(nanos(echo.held));
        }
        bytes
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = SessionNumber(reader.varint("session")?);
        let highest = existing(reader)?;
        let states = reader.count("states", STATE_MIN)?;
        let echoes = reader.count("echoes", ECHO_MIN)?;
        let need = states * STATE_MIN + echoes * ECHO_MIN;
        if need > reader.remaining() {
            return Err(DecodeError::Truncated {
                field: "echoes",
                at: reader.position(),
                need,
                have: reader.remaining(),
            });
        }
        let states = (0..states).map(|_| Ok((reader.member("source")?, existing(reader)?)));
        let states = states.collect::<Result<_, _>>()?;
        let echoes = (0..echoes).map(|_| {
            Ok(Echo {
                member: reader.member("member")?,
                number: SessionNumber(reader.varint("session")?),
                held: Duration::from_nanos(reader.varint("held")?),
            })
        });
        Ok(Self {
            number,
            highest,
            states,
            echoes: echoes.collect::<Result<_, _>>()?,
        })
    }
}

impl Message {
    /// Reads a datagram. Any bytes are legal input.
    pub(super) fn decode(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let kind = reader.u8("kind")?;
        match kind {
            DATA => {
                let service = service(&mut reader)?;
                let number = number(&mut reader)?;
                let payload = body.slice(reader.position()..);
                Ok(Self::Data {
                    service,
                    number,
                    payload,
                })
            }
            REPAIR => {
                let service = service(&mut reader)?;
                let id = id(&mut reader)?;
                let distance = Duration::from_nanos(reader.varint("distance")?);
                let payload = body.slice(reader.position()..);
                Ok(Self::Repair {
                    id,
                    service,
                    distance,
                    payload,
                })
            }
            REQUEST => {
                let id = id(&mut reader)?;
                let distance = Duration::from_nanos(reader.varint("distance")?);
                reader.finish()?;
                Ok(Self::Request { id, distance })
            }
            SESSION => {
                let session = Session::decode(&mut reader)?;
                reader.finish()?;
                Ok(Self::Session(session))
            }
            other => Err(reader.invalid("kind", u64::from(other))),
        }
    }
}

fn service(reader: &mut Reader<'_>) -> Result<Service, DecodeError> {
    let code = reader.u8("service")?;
    Service::from_code(code)
        .filter(|service| matches!(service, Service::Reliable | Service::Fifo))
        .ok_or_else(|| reader.invalid("service", u64::from(code)))
}

fn number(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    match reader.varint("number")? {
        // Numbers begin at 1, and the one after the highest must be a number too.
        number @ (0 | u64::MAX) => Err(reader.invalid("number", number)),
        number => Ok(number),
    }
}

/// The number of a message, or 0 for none.
fn existing(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    match reader.varint("highest")? {
        u64::MAX => Err(reader.invalid("highest", u64::MAX)),
        highest => Ok(highest),
    }
}

fn id(reader: &mut Reader<'_>) -> Result<MessageId, DecodeError> {
    Ok(MessageId {
        sender: reader.member("source")?,
        number: number(reader)?,
    })
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};
    use proptest::prelude::*;

    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node + 1),
        }
    }

    fn encode(message: &Message) -> Bytes {
        let (header, payload) = match message {
            Message::Data {
                service,
                number,
                payload,
            } => (data_header(*service, *number), payload.clone()),
            Message::Repair {
                id,
                service,
                distance,
                payload,
            } => (repair_header(*id, *service, *distance), payload.clone()),
            Message::Request { id, distance } => (request(*id, *distance), Bytes::new()),
            Message::Session(session) => (session.encode(), Bytes::new()),
        };
        [&header[..], &payload[..]].concat().into()
    }

    #[test]
    fn the_layout_is_pinned_and_what_was_encoded_comes_back() {
        let id = MessageId {
            sender: member(0x0102),
            number: 300,
        };
        let payload = Bytes::from_static(b"xyz");
        let session = Session {
            number: SessionNumber(5),
            highest: 6,
            states: alloc::vec![(member(1), 7)],
            echoes: alloc::vec![Echo {
                member: member(2),
                number: SessionNumber(8),
                held: Duration::from_nanos(9),
            }],
        };
        let distance = Duration::from_nanos(1);
        let source = [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 1, 3];
        let data = Message::Data {
            service: Service::Fifo,
            number: 300,
            payload: payload.clone(),
        };
        assert_eq!(encode(&data), [&[1, 2, 0xac, 2][..], b"xyz"].concat());
        let request = Message::Request { id, distance };
        assert_eq!(
            encode(&request),
            [&[3], &source[..], &[0xac, 2, 1]].concat()
        );
        let repair = Message::Repair {
            id,
            service: Service::Reliable,
            distance,
            payload,
        };
        let expected = [&[2, 1], &source[..], &[0xac, 2, 1], b"xyz"].concat();
        assert_eq!(encode(&repair), expected);
        let session = Message::Session(session);
        assert_eq!(encode(&session)[..7], [4, 5, 6, 0, 1, 0, 1]);
        for message in [data, request, repair, session] {
            assert_eq!(Message::decode(&encode(&message)), Ok(message));
        }
    }

    #[test]
    fn a_session_message_keeps_within_its_bytes() {
        for bytes in [128, 500, 1_400] {
            for (states, echoes) in [(0, 0), (1000, 0), (0, 1000), (1000, 1000), (3, 1000)] {
                let (some_states, some_echoes) = session_room(bytes, states, echoes);
                let session = Session {
                    number: SessionNumber(u64::MAX),
                    highest: u64::MAX - 1,
                    states: alloc::vec![(member(1), u64::MAX - 1); some_states],
                    echoes: alloc::vec![Echo { member: member(1), number: SessionNumber(u64::MAX), held: Duration::MAX }; some_echoes],
                };
                let len = session.encode().len();
                assert!(len <= bytes, "{len} of {bytes}");
                assert_eq!(some_states > 0, states > 0);
                assert_eq!(some_echoes > 0, echoes > 0);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_a_message_that_encodes_to_them_or_to_an_error(kind in 0u8..6, rest: Vec<u8>) {
            let body = Bytes::from([&[kind][..], &rest].concat());
            if let Ok(message) = Message::decode(&body) {
                prop_assert_eq!(encode(&message), body);
            }
        }
    }
}
