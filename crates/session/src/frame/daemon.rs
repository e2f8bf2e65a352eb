//! Frames from a daemon to its client.

mod view;

use std::fmt;

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use self::view::{decode_view, encode_view};
use super::bus::{BusClient, put_names, take_names};
use super::guests::{GuestReply, encode_guest_reply};
use super::message::{Message, MessageHead, decode_message, encode_message_head};
use super::reason::{Disconnect, Refusal, Reject};
use super::text::{put_name, take_bool, take_name, take_text};
use super::{FrameError, ORDER_NAME, RINGS, RawFrame, frame, kind};
use crate::view::View;

/// The answer to a hello.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The version that both sides speak from now on.
    pub version: u16,
    /// The features that both sides support.
    pub features: u64,
    /// How many bytes of publish frames may be outstanding ([credit](super)).
    pub publish_window: u64,
    /// The longest payload of a message, in bytes.
    pub message_max: u64,
    /// The client's name in the cluster: `client@host`.
    pub private_name: String,
    /// The name of the daemon's own order, if both sides know the feature [`ORDER_NAME`]; empty if
    /// the daemon does not say.
    pub order: String,
    /// The tops of the rings that carry the groups at and below them instead, if both sides know
    /// the feature [`RINGS`].
    pub rings: Vec<String>,
}

/// A request that was rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// To publish the message with this number.
    Publish(u64),
    /// To join this group.
    Join(String),
    /// To leave this group.
    Leave(String),
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Publish(number) => write!(f, "message {number}"),
            Self::Join(group) => write!(f, "join of {group:?}"),
            Self::Leave(group) => write!(f, "leave of {group:?}"),
        }
    }
}

/// A frame from a daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DaemonFrame {
    /// The client is welcome.
    Welcome(Welcome),
    /// The client is refused; the connection ends.
    Refused {
        /// The reason of the refusal, for programs.
        code: Refusal,
        /// What was wrong and what to do.
        text: String,
    },
    /// A message is delivered.
    Message(Message),
    /// A group has a new view.
    View(View),
    /// The client's messages up to this number are ordered and delivered at the daemon, except the
    /// rejected ones.
    Accepted {
        /// The number of the last message that is accepted.
        up_to: u64,
    },
    /// Gives publish credit back.
    Credit {
        /// Bytes of the stream that the client may send in addition.
        bytes: u64,
    },
    /// A request is not carried out.
    Rejected {
        /// The request that was rejected.
        request: Request,
        /// The reason, for programs.
        code: Reject,
        /// What was wrong and what to do.
        text: String,
    },
    /// The daemon's status, in JSON.
    StatusReport(Bytes),
    /// All groups, in JSON.
    GroupsReport(Bytes),
    /// The progress of a change of the key, or why it does not begin, in JSON.
    RekeyReport(Bytes),
    /// The connection ends.
    Disconnected {
        /// The reason, for programs.
        code: Disconnect,
        /// What happened and what to do.
        text: String,
    },
    /// A request of the bus was carried out or rejected.
    Done {
        /// The token of the request.
        token: u64,
        /// Why it was rejected.
        result: Result<(), (Reject, String)>,
    },
    /// The clients that would get a message, at the place of the question in the order.
    WhoReport {
        /// The token of the request.
        token: u64,
        /// Their ids; the private names of those without one.
        ids: Vec<String>,
    },
    /// The clients on the bus.
    BusClientsReport {
        /// The token of the request.
        token: u64,
        /// The clients, in the order of their private names.
        clients: Vec<BusClient>,
    },
    /// A reply about requests to groups, handlers and locks, with the payload of a request or an
    /// answer.
    Guest(GuestReply, Bytes),
    /// In a bimodal group, consecutive messages of one daemon are lost to this client for good.
    Gap {
        /// The name of the group.
        group: String,
        /// The name of the daemon whose clients sent them; its identity if its name is unknown.
        sender: String,
        /// The number of the first.
        first: u64,
        /// The number of the last.
        last: u64,
    },
    /// A warning that the client takes its messages more slowly than they come; sent ahead of those
    /// that wait.
    Behind {
        /// Bytes that wait for it in the daemon.
        waiting: u64,
        /// At this many waiting bytes it is disconnected.
        limit: u64,
        /// Unreliable messages that it has missed since it connected.
        dropped: u64,
    },
    /// From here on, this ring, which a join has made, carries the messages and views of a group
    /// that the client is in.
    Carried {
        /// The name of the group.
        group: String,
        /// The ring's top; empty if the order that the welcome names carries the group again.
        ring: String,
    },
    /// The answer to a ping.
    Pong {
        /// The token of the ping that it answers.
        token: u64,
    },
}

impl DaemonFrame {
    /// The frame in `raw`; `None` if this side does not know its kind, which is skipped.
    pub fn decode(raw: RawFrame) -> Result<Option<Self>, FrameError> {
        let code = raw.kind;
        Self::decode_body(raw).map_err(|error| FrameError::Malformed { kind: code, error })
    }

    fn decode_body(raw: RawFrame) -> Result<Option<Self>, DecodeError> {
        match raw.kind {
            kind::MESSAGE | kind::MESSAGE_LABELLED => {
                let labelled = raw.kind == kind::MESSAGE_LABELLED;
                return Ok(Some(Self::Message(decode_message(raw.body, labelled)?)));
            }
            kind::STATUS_REPORT => return Ok(Some(Self::StatusReport(raw.body.freeze()))),
            kind::GROUPS_REPORT => return Ok(Some(Self::GroupsReport(raw.body.freeze()))),
            kind::REKEY_REPORT => return Ok(Some(Self::RekeyReport(raw.body.freeze()))),
            _ => {}
        }
        if let Some((reply, payload)) = GuestReply::decode(raw.kind, &raw.body)? {
            return Ok(Some(Self::Guest(reply, payload)));
        }
        let reader = &mut Reader::new(&raw.body);
        let frame = match raw.kind {
            kind::WELCOME => Self::Welcome(decode_welcome(reader)?),
            kind::REFUSED => Self::Refused {
                code: Refusal::from_code(reader.u8("code")?),
                text: take_text(reader, "text")?.into(),
            },
            kind::VIEW => Self::View(decode_view(reader)?),
            kind::ACCEPTED => Self::Accepted {
                up_to: reader.u64("number")?,
            },
            kind::GRANT => Self::Credit {
                bytes: reader.u64("bytes")?,
            },
            kind::REJECTED => Self::Rejected {
                request: decode_request(reader)?,
                code: Reject::from_code(reader.u8("code")?),
                text: take_text(reader, "text")?.into(),
            },
            kind::DISCONNECTED => Self::Disconnected {
                code: Disconnect::from_code(reader.u8("code")?),
                text: take_text(reader, "text")?.into(),
            },
            kind::BEHIND => Self::Behind {
                waiting: reader.u64("waiting")?,
                limit: reader.u64("limit")?,
                dropped: reader.u64("dropped")?,
            },
            kind::CARRIED => Self::Carried {
                group: take_name(reader, "group")?.into(),
                ring: take_name(reader, "ring")?.into(),
            },
            kind::PONG => Self::Pong {
                token: reader.u64("token")?,
            },
            kind::DONE => Self::Done {
                token: reader.u64("token")?,
                result: match take_bool(reader, "done")? {
                    true => Ok(()),
                    false => Err((
                        Reject::from_code(reader.u8("code")?),
                        take_text(reader, "text")?.into(),
                    )),
                },
            },
            kind::WHO_REPORT => Self::WhoReport {
                token: reader.u64("token")?,
                ids: take_names(reader, "ids")?,
            },
            kind::BUS_CLIENTS_REPORT => Self::BusClientsReport {
                token: reader.u64("token")?,
                clients: (0..reader.u32("clients")?)
                    .map(|_| BusClient::decode(reader))
                    .collect::<Result<_, _>>()?,
            },
            kind::GAP => {
                let (first, last) = (reader.u64("first")?, reader.u64("last")?);
                if first > last {
                    return Err(reader.invalid("first", first));
                }
                Self::Gap {
                    first,
                    last,
                    group: take_name(reader, "group")?.into(),
                    sender: take_name(reader, "sender")?.into(),
                }
            }
            _ => return Ok(None),
        };
        reader.finish()?;
        Ok(Some(frame))
    }

    /// Appends the frame to `bytes`.
    ///
    /// # Panics
    /// If a name exceeds 255 bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Welcome(welcome) => frame(bytes, kind::WELCOME, 0, |body| {
                body.u16(welcome.version)
                    .u64(welcome.features)
                    .u64(welcome.publish_window)
                    .u64(welcome.message_max);
                put_name(body, &welcome.private_name);
                if welcome.features & ORDER_NAME != 0 {
                    put_name(body, &welcome.order);
                }
                if welcome.features & RINGS != 0 {
                    put_names(body, &welcome.rings);
                }
            }),
            Self::Refused { code, text } => {
                encode_text(bytes, kind::REFUSED, *code as u8, text);
            }
            Self::Message(message) => {
                let head = MessageHead {
                    service: message.service,
                    place: message.place,
                    number: message.number,
                    sender: &message.sender,
                    label: message.label(),
                };
                let names: Vec<_> = message.destinations.iter().collect();
                let payload = &message.payload;
                encode_message_head(bytes, &head, message.index, &names, payload.len());
                bytes.extend_from_slice(payload);
            }
            Self::View(view) => encode_view(bytes, view),
            Self::Accepted { up_to } => encode_number(bytes, kind::ACCEPTED, *up_to),
            Self::Credit { bytes: granted } => encode_number(bytes, kind::GRANT, *granted),
            Self::Rejected {
                request,
                code,
                text,
            } => frame(bytes, kind::REJECTED, 0, |body| {
                encode_request(body, request);
                body.u8(*code as u8).put(text.as_bytes());
            }),
            Self::StatusReport(json) => encode_report(bytes, kind::STATUS_REPORT, json),
            Self::GroupsReport(json) => encode_report(bytes, kind::GROUPS_REPORT, json),
            Self::RekeyReport(json) => encode_report(bytes, kind::REKEY_REPORT, json),
            Self::Disconnected { code, text } => {
                encode_text(bytes, kind::DISCONNECTED, *code as u8, text);
            }
            Self::Behind {
                waiting,
                limit,
                dropped,
            } => frame(bytes, kind::BEHIND, 0, |body| {
                body.u64(*waiting).u64(*limit).u64(*dropped);
            }),
            Self::Carried { group, ring } => frame(bytes, kind::CARRIED, 0, |body| {
                put_name(body, group);
                put_name(body, ring);
            }),
            Self::Pong { token } => encode_number(bytes, kind::PONG, *token),
            Self::Done { token, result } => frame(bytes, kind::DONE, 0, |body| {
                body.u64(*token).u8(u8::from(result.is_ok()));
                if let Err((code, text)) = result {
                    body.u8(*code as u8).put(text.as_bytes());
                }
            }),
            Self::WhoReport { token, ids } => frame(bytes, kind::WHO_REPORT, 0, |body| {
                put_names(body.u64(*token), ids);
            }),
            Self::BusClientsReport { token, clients } => {
                frame(bytes, kind::BUS_CLIENTS_REPORT, 0, |body| {
                    body.u64(*token).u32(clients.len() as u32);
                    for client in clients {
                        client.encode(body);
                    }
                });
            }
            Self::Guest(reply, payload) => {
                encode_guest_reply(bytes, reply, payload.len());
                bytes.extend_from_slice(payload);
            }
            Self::Gap {
                group,
                sender,
                first,
                last,
            } => frame(bytes, kind::GAP, 0, |body| {
                body.u64(*first).u64(*last);
                put_name(body, group);
                put_name(body, sender);
            }),
        }
    }
}

fn decode_welcome(reader: &mut Reader<'_>) -> Result<Welcome, DecodeError> {
    let mut welcome = Welcome {
        version: reader.u16("version")?,
        features: reader.u64("features")?,
        publish_window: reader.u64("publish window")?,
        message_max: reader.u64("longest message")?,
        private_name: take_name(reader, "private name")?.into(),
        order: String::new(),
        rings: Vec::new(),
    };
    if welcome.features & ORDER_NAME != 0 {
        welcome.order = take_name(reader, "order")?.into();
    }
    if welcome.features & RINGS != 0 {
        welcome.rings = take_names(reader, "ring")?;
    }
    Ok(welcome)
}

fn encode_request(body: &mut Writer<'_>, request: &Request) {
    match request {
        Request::Publish(number) => {
            body.u8(0).u64(*number);
        }
        Request::Join(group) => put_name(body.u8(1), group),
        Request::Leave(group) => put_name(body.u8(2), group),
    }
}

fn decode_request(reader: &mut Reader<'_>) -> Result<Request, DecodeError> {
    match reader.u8("what")? {
        0 => reader.u64("number").map(Request::Publish),
        1 => take_name(reader, "group").map(|group| Request::Join(group.into())),
        2 => take_name(reader, "group").map(|group| Request::Leave(group.into())),
        other => Err(reader.invalid("what", u64::from(other))),
    }
}

/// Appends the beginning of a report, behind which stand `len` bytes of JSON.
pub(crate) fn encode_report_head(bytes: &mut Vec<u8>, kind: u8, len: usize) {
    frame(bytes, kind, len, |_| ());
}

fn encode_report(bytes: &mut Vec<u8>, kind: u8, json: &[u8]) {
    encode_report_head(bytes, kind, json.len());
    bytes.extend_from_slice(json);
}

fn encode_text(bytes: &mut Vec<u8>, kind: u8, code: u8, text: &str) {
    frame(bytes, kind, 0, |body| {
        body.u8(code).put(text.as_bytes());
    });
}

fn encode_number(bytes: &mut Vec<u8>, kind: u8, number: u64) {
    frame(bytes, kind, 0, |body| {
        body.u64(number);
    });
}

#[cfg(test)]
mod tests;
