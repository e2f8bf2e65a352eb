//! Frames of requests to groups, handlers and locks, both ways.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use groupcast_core::OrderPlace;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::text::{put_name, take_bool, take_name, take_text};
use super::{HEADER_LEN, Reject, frame, kind};
use crate::guests::{Effect, Ending, Role, RoleNotice, RoleState};

/// A frame of a client about requests and roles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GuestFrame {
    /// Tells which guest the client is: once in a connection, before its first request.
    Guest {
        /// 64 random bits, which the client keeps secret, and keeps when it connects again.
        id: u64,
        /// The highest request number that it used before this connection.
        floor: u64,
    },
    /// A request to a group.
    Request {
        /// The guest's number of the request; numbers increase.
        number: u64,
        /// How many answers are enough; 0 for those of all members that are asked.
        answers: u16,
        /// Asks only the member that has this handler.
        handler: Option<u16>,
        /// For how long the guest waits, in milliseconds on the wire.
        within: Duration,
        /// The group.
        group: String,
        /// The request's bytes.
        payload: Bytes,
        /// The bytes of the received frame in the stream; 0 for a frame to be sent.
        stream_len: usize,
    },
    /// Answers a request.
    Answer {
        /// The place of the request in the order.
        seq: u64,
        /// The answer's bytes.
        payload: Bytes,
        /// The bytes of the received frame in the stream; 0 for a frame to be sent.
        stream_len: usize,
    },
    /// Asks for a role.
    Claim {
        /// A number that comes back in the notices about it.
        token: u64,
        /// Whether to wait while another has the role.
        may_wait: bool,
        /// The role.
        role: Role,
        /// The group.
        group: String,
    },
    /// Gives a role back, or the wait for it.
    Release {
        /// A number that comes back in the notices about it.
        token: u64,
        /// The role.
        role: Role,
        /// The group.
        group: String,
    },
}

impl GuestFrame {
    /// The frame of this kind; `None` if the kind is not about requests and roles.
    pub(super) fn decode(code: u8, body: &BytesMut) -> Result<Option<Self>, DecodeError> {
        if !matches!(code, kind::GUEST..=kind::RELEASE) {
            return Ok(None);
        }
        let stream_len = HEADER_LEN + body.len();
        let reader = &mut Reader::new(body);
        let decoded = match code {
            kind::GUEST => Self::Guest {
                id: reader.u64("guest")?,
                floor: reader.u64("floor")?,
            },
            kind::REQUEST => Self::Request {
                number: reader.u64("number")?,
                answers: reader.u16("answers")?,
                handler: take_handler(reader)?,
                within: Duration::from_millis(u64::from(reader.u32("within")?)),
                group: take_name(reader, "group")?.into(),
                payload: Bytes::copy_from_slice(reader.rest()),
                stream_len,
            },
            kind::ANSWER => Self::Answer {
                seq: reader.u64("seq")?,
                payload: Bytes::copy_from_slice(reader.rest()),
                stream_len,
            },
            kind::CLAIM => Self::Claim {
                token: reader.u64("token")?,
                may_wait: take_bool(reader, "wait")?,
                role: take_role(reader)?,
                group: take_name(reader, "group")?.into(),
            },
            _ => Self::Release {
                token: reader.u64("token")?,
                role: take_role(reader)?,
                group: take_name(reader, "group")?.into(),
            },
        };
        reader.finish()?;
        Ok(Some(decoded))
    }

    /// Appends the frame to `bytes`.
    ///
    /// # Panics
    /// If the group's name exceeds 255 bytes.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Guest { id, floor } => frame(bytes, kind::GUEST, 0, |body| {
                body.u64(*id).u64(*floor);
            }),
            Self::Request {
                number,
                answers,
                handler,
                within,
                group,
                payload,
                ..
            } => frame(bytes, kind::REQUEST, 0, |body| {
                body.u64(*number).u16(*answers);
                put_handler(body, *handler);
                body.u32(u32::try_from(within.as_millis()).unwrap_or(u32::MAX));
                put_name(body, group);
                body.put(payload);
            }),
            Self::Answer { seq, payload, .. } => frame(bytes, kind::ANSWER, 0, |body| {
                body.u64(*seq).put(payload);
            }),
            Self::Claim {
                token,
                may_wait,
                role,
                group,
            } => frame(bytes, kind::CLAIM, 0, |body| {
                body.u64(*token).u8(u8::from(*may_wait));
                put_role(body, *role);
                put_name(body, group);
            }),
            Self::Release { token, role, group } => frame(bytes, kind::RELEASE, 0, |body| {
                put_role(body.u64(*token), *role);
                put_name(body, group);
            }),
        }
    }
}

/// A frame of a daemon about requests and roles. The payload of a request or an answer stands
/// beside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GuestReply {
    /// The client is asked as a member of a group.
    Request {
        /// The place of the request in the order. An answer names its sequence number; where the
        /// daemon is in several orders, that may be a later one than the request's, so that no two
        /// requests have the same.
        place: OrderPlace,
        /// The handler that the request asks for, which the client has.
        handler: Option<u16>,
        /// The private name of the client that asks.
        guest: Arc<str>,
        /// The group.
        group: Arc<str>,
    },
    /// A request of the client has come to its place in the order.
    Taken {
        /// Its number.
        number: u64,
        /// How many members are asked.
        asked: u32,
    },
    /// An answer to a request of the client.
    Answer {
        /// Its number.
        number: u64,
        /// The private name of the member that answers.
        from: Arc<str>,
    },
    /// A request of the client has ended.
    Ended {
        /// Its number.
        number: u64,
        /// How.
        ending: Ending,
        /// How many answered.
        answers: u32,
        /// Why, for programs, if it was refused.
        code: Reject,
        /// Why, in words, if there is something to say.
        text: String,
    },
    /// A role was granted, refused, lost or given back, or the client waits for it.
    Role(RoleNotice),
}

impl GuestReply {
    /// The number of the client that an effect is for, its frame, and the payload.
    pub(crate) fn of(effect: Effect) -> (u64, Self, Bytes) {
        match effect {
            Effect::Asked {
                client,
                place,
                handler,
                guest,
                group,
                payload,
            } => {
                let asked = Self::Request {
                    place,
                    handler,
                    guest,
                    group,
                };
                (client, asked, payload)
            }
            Effect::Taken {
                client,
                number,
                asked,
            } => (client, Self::Taken { number, asked }, Bytes::new()),
            Effect::Answer {
                client,
                number,
                from,
                payload,
            } => (client, Self::Answer { number, from }, payload),
            Effect::Ended {
                client,
                number,
                ending,
                answers,
                why,
            } => {
                let code = match ending {
                    Ending::Refused => Reject::TooManyGuests,
                    _ => Reject::Other,
                };
                let ended = Self::Ended {
                    number,
                    ending,
                    answers,
                    code,
                    text: why.into(),
                };
                (client, ended, Bytes::new())
            }
            Effect::Role { client, notice } => (client, Self::Role(notice), Bytes::new()),
        }
    }

    /// The frame of this kind, and its payload; `None` if the kind is not about requests and roles.
    pub(super) fn decode(code: u8, body: &BytesMut) -> Result<Option<(Self, Bytes)>, DecodeError> {
        if !matches!(code, kind::ASKED..=kind::ROLE) {
            return Ok(None);
        }
        let reader = &mut Reader::new(body);
        let reply = match code {
            kind::ASKED => Self::Request {
                place: OrderPlace {
                    config: reader.config("config")?,
                    seq: reader.u64("seq")?,
                },
                handler: take_handler(reader)?,
                guest: take_name(reader, "guest")?.into(),
                group: take_name(reader, "group")?.into(),
            },
            kind::TAKEN => Self::Taken {
                number: reader.u64("number")?,
                asked: reader.u32("asked")?,
            },
            kind::ANSWERED => Self::Answer {
                number: reader.u64("number")?,
                from: take_name(reader, "from")?.into(),
            },
            kind::ENDED => Self::Ended {
                number: reader.u64("number")?,
                ending: Ending::from_code(reader.u8("ending")?),
                answers: reader.u32("answers")?,
                code: Reject::from_code(reader.u8("code")?),
                text: take_text(reader, "text")?.into(),
            },
            _ => Self::Role(take_notice(reader)?),
        };
        let payload = match reply {
            Self::Request { .. } | Self::Answer { .. } => Bytes::copy_from_slice(reader.rest()),
            _ => Bytes::new(),
        };
        reader.finish()?;
        Ok(Some((reply, payload)))
    }
}

/// Appends a frame up to its payload of `payload_len` bytes, which the caller sends after it.
///
/// # Panics
/// If a name exceeds 255 bytes.
pub(crate) fn encode_guest_reply(bytes: &mut Vec<u8>, reply: &GuestReply, payload_len: usize) {
    match reply {
        GuestReply::Request {
            place,
            handler,
            guest,
            group,
        } => frame(bytes, kind::ASKED, payload_len, |body| {
            body.config(place.config).u64(place.seq);
            put_handler(body, *handler);
            put_name(body, guest);
            put_name(body, group);
        }),
        GuestReply::Taken { number, asked } => frame(bytes, kind::TAKEN, 0, |body| {
            body.u64(*number).u32(*asked);
        }),
        GuestReply::Answer { number, from } => {
            frame(bytes, kind::ANSWERED, payload_len, |body| {
                put_name(body.u64(*number), from);
            });
        }
        GuestReply::Ended {
            number,
            ending,
            answers,
            code,
            text,
        } => frame(bytes, kind::ENDED, 0, |body| {
            body.u64(*number).u8(*ending as u8).u32(*answers);
            body.u8(*code as u8).put(text.as_bytes());
        }),
        GuestReply::Role(notice) => frame(bytes, kind::ROLE, 0, |body| put_notice(body, notice)),
    }
}

fn put_notice(body: &mut Writer<'_>, notice: &RoleNotice) {
    let (state, holder, code, text) = match &notice.state {
        RoleState::Held => (0, "", Reject::Other, ""),
        RoleState::Waits { holder } => (1, &**holder, Reject::Other, ""),
        RoleState::Released => (2, "", Reject::Other, ""),
        RoleState::Lost { holder } => (3, &**holder, Reject::Other, ""),
        RoleState::Refused { holder, code, text } => (4, &**holder, *code, &**text),
    };
    put_role(body.u64(notice.token).u8(state), notice.role);
    put_name(body, &notice.group);
    put_name(body, holder);
    body.u8(code as u8).put(text.as_bytes());
}

fn take_notice(reader: &mut Reader<'_>) -> Result<RoleNotice, DecodeError> {
    let token = reader.u64("token")?;
    let state = reader.u8("state")?;
    let role = take_role(reader)?;
    let group = take_name(reader, "group")?.into();
    let holder = take_name(reader, "holder")?.to_owned();
    let code = Reject::from_code(reader.u8("code")?);
    let text = take_text(reader, "text")?.to_owned();
    let state = match state {
        0 => RoleState::Held,
        1 => RoleState::Waits { holder },
        2 => RoleState::Released,
        3 => RoleState::Lost { holder },
        4 => RoleState::Refused { holder, code, text },
        other => return Err(reader.invalid("state", u64::from(other))),
    };
    Ok(RoleNotice {
        token,
        group,
        role,
        state,
    })
}

fn put_handler(body: &mut Writer<'_>, handler: Option<u16>) {
    body.u8(u8::from(handler.is_some()));
    if let Some(handler) = handler {
        body.u16(handler);
    }
}

fn take_handler(reader: &mut Reader<'_>) -> Result<Option<u16>, DecodeError> {
    match take_bool(reader, "handler")? {
        true => reader.u16("handler number").map(Some),
        false => Ok(None),
    }
}

fn put_role(body: &mut Writer<'_>, role: Role) {
    let (kind, number) = role.code();
    body.u8(kind).u16(number);
}

fn take_role(reader: &mut Reader<'_>) -> Result<Role, DecodeError> {
    let (kind, number) = (reader.u8("role")?, reader.u16("role number")?);
    Role::from_code(kind, number).ok_or_else(|| reader.invalid("role", u64::from(kind)))
}
