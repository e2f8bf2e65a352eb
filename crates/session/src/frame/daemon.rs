//! Frames from a daemon to its client.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::message::{Message, MessageHead, decode_message, encode_message_head};
use super::reason::{Disconnect, Refusal, Reject};
use super::text::{put_name, take_bool, take_name, take_text};
use super::{FrameError, RawFrame, frame, kind};
use crate::view::{Cause, View, ViewId, ViewKind};

/// The code of a view's kind that is regular and approximate.
const APPROXIMATE: u8 = 2;

/// The answer to a hello.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The version that both speak from now on.
    pub version: u16,
    /// The features that both have.
    pub features: u64,
    /// How many bytes of publish frames may be outstanding.
    pub publish_window: u64,
    /// The longest payload.
    pub message_max: u64,
    /// The client's name in the cluster: `client@host`.
    pub private_name: String,
}

/// A request that was rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// The message of this number.
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
    /// The client is taken.
    Welcome(Welcome),
    /// The client is not taken; the connection ends.
    Refused {
        /// Why.
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
        /// The number.
        up_to: u64,
    },
    /// So many bytes more may be published.
    Credit {
        /// Stream bytes.
        bytes: u64,
    },
    /// A request is not carried out.
    Rejected {
        /// Which.
        request: Request,
        /// Why.
        code: Reject,
        /// What was wrong and what to do.
        text: String,
    },
    /// The daemon's status, in JSON.
    StatusReport(Bytes),
    /// All groups, in JSON.
    GroupsReport(Bytes),
    /// The connection ends.
    Disconnected {
        /// Why.
        code: Disconnect,
        /// What happened and what to do.
        text: String,
    },
    /// In a bimodal group, consecutive messages of one daemon are lost to this client for good.
    Gap {
        /// The group.
        group: String,
        /// The name of the daemon whose clients sent them; its identity where the name was not
        /// heard.
        sender: String,
        /// The number of the first.
        first: u64,
        /// The number of the last.
        last: u64,
    },
    /// The answer to a ping.
    Pong {
        /// The ping's.
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
            kind::MESSAGE => return Ok(Some(Self::Message(decode_message(raw.body)?))),
            kind::STATUS_REPORT => return Ok(Some(Self::StatusReport(raw.body.freeze()))),
            kind::GROUPS_REPORT => return Ok(Some(Self::GroupsReport(raw.body.freeze()))),
            _ => {}
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
            kind::PONG => Self::Pong {
                token: reader.u64("token")?,
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
            Self::StatusReport(json) => frame(bytes, kind::STATUS_REPORT, 0, |body| {
                body.put(json);
            }),
            Self::GroupsReport(json) => frame(bytes, kind::GROUPS_REPORT, 0, |body| {
                body.put(json);
            }),
            Self::Disconnected { code, text } => {
                encode_text(bytes, kind::DISCONNECTED, *code as u8, text);
            }
            Self::Pong { token } => encode_number(bytes, kind::PONG, *token),
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
    let welcome = Welcome {
        version: reader.u16("version")?,
        features: reader.u64("features")?,
        publish_window: reader.u64("publish window")?,
        message_max: reader.u64("longest message")?,
        private_name: take_name(reader, "private name")?.into(),
    };
    Ok(welcome)
}

fn encode_view(bytes: &mut Vec<u8>, view: &View) {
    frame(bytes, kind::VIEW, 0, |body| {
        let kind = match view.approximate {
            true => APPROXIMATE,
            false => view.kind as u8,
        };
        body.u8(kind)
            .u8(view.cause as u8)
            .config(view.id.config)
            .u64(view.id.seq);
        match view.id.within {
            Some(component) => body.u8(1).u64(component),
            None => body.u8(0),
        };
        put_name(body, &view.group);
        put_name(body, view.changed.as_deref().unwrap_or_default());
        body.u32(u32::try_from(view.members.len()).expect("members are bounded by memory"));
        for member in &view.members {
            put_name(body, member);
        }
    });
}

fn decode_view(reader: &mut Reader<'_>) -> Result<View, DecodeError> {
    let code = reader.u8("kind")?;
    let kind = match code {
        0 | APPROXIMATE => ViewKind::Regular,
        1 => ViewKind::Transitional,
        other => return Err(reader.invalid("kind", u64::from(other))),
    };
    let cause = match reader.u8("cause")? {
        0 => Cause::Join,
        1 => Cause::Leave,
        2 => Cause::Disconnect,
        3 => Cause::Network,
        other => return Err(reader.invalid("cause", u64::from(other))),
    };
    let config = reader.config("config")?;
    let seq = reader.u64("seq")?;
    let within = if take_bool(reader, "within")? {
        Some(reader.u64("component")?)
    } else {
        None
    };
    let group = Arc::from(take_name(reader, "group")?);
    let changed = take_name(reader, "changed")?;
    let changed = (!changed.is_empty()).then(|| Arc::from(changed));
    let count = reader.u32("members")? as usize;
    // Each takes a byte at least, so nothing is allocated for members that are not there.
    if count > reader.remaining() {
        return Err(reader.invalid("members", count as u64));
    }
    let members = (0..count)
        .map(|_| take_name(reader, "member").map(Arc::from))
        .collect::<Result<_, _>>()?;
    Ok(View {
        group,
        id: ViewId {
            config,
            seq,
            within,
        },
        kind,
        approximate: code == APPROXIMATE,
        cause,
        changed,
        members,
    })
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
mod tests {
    use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId, OrderPlace, Service};
    use proptest::prelude::*;

    use super::super::{FRAME_MAX, FrameDecoder, HEADER_LEN, MAGIC};
    use super::*;

    fn decode_all(bytes: &[u8]) -> Result<Vec<DaemonFrame>, FrameError> {
        let mut decoder = FrameDecoder::new(FRAME_MAX);
        for piece in [&MAGIC[..], bytes] {
            for chunk in piece.chunks(1000) {
                decoder.space()[..chunk.len()].copy_from_slice(chunk);
                decoder.filled(chunk.len());
            }
        }
        let mut frames = Vec::new();
        while let Some(raw) = decoder.next_frame()? {
            frames.extend(DaemonFrame::decode(raw)?);
        }
        Ok(frames)
    }

    fn config() -> ConfigId {
        ConfigId {
            counter: 3,
            representative: MemberId {
                node: NodeId(4),
                incarnation: Incarnation(5),
            },
        }
    }

    fn one_of_each() -> Vec<DaemonFrame> {
        let place = OrderPlace {
            config: config(),
            seq: 9 << 16,
        };
        let message = Message {
            service: Service::Agreed,
            place: Some(place),
            number: None,
            sender: "al@h".into(),
            destinations: ["g", "room/ü"].into_iter().collect(),
            index: 1,
            payload: Bytes::from_static(b"hello"),
        };
        let unplaced = Message {
            service: Service::Unreliable,
            place: None,
            payload: Bytes::new(),
            ..message.clone()
        };
        let numbered = Message {
            service: Service::Bimodal,
            number: Some(77),
            ..unplaced.clone()
        };
        let view = View {
            group: "g".into(),
            id: ViewId {
                config: config(),
                seq: 65_537,
                within: None,
            },
            kind: ViewKind::Regular,
            approximate: false,
            cause: Cause::Join,
            changed: Some("bo@h".into()),
            members: vec!["al@h".into(), "bo@h".into()],
        };
        let transitional = View {
            id: ViewId {
                within: Some(77),
                ..view.id
            },
            kind: ViewKind::Transitional,
            cause: Cause::Network,
            changed: None,
            members: Vec::new(),
            ..view.clone()
        };
        let approximate = View {
            approximate: true,
            ..view.clone()
        };
        vec![
            DaemonFrame::Welcome(Welcome {
                version: 1,
                features: 0,
                publish_window: 4 << 20,
                message_max: 64 << 20,
                private_name: "al@h".into(),
            }),
            DaemonFrame::Refused {
                code: Refusal::NameInUse,
                text: "choose another".into(),
            },
            DaemonFrame::Message(message),
            DaemonFrame::Message(unplaced),
            DaemonFrame::View(view),
            DaemonFrame::View(transitional),
            DaemonFrame::Accepted { up_to: 12 },
            DaemonFrame::Credit { bytes: 1 << 20 },
            DaemonFrame::Rejected {
                request: Request::Publish(4),
                code: Reject::TooLarge,
                text: "too large".into(),
            },
            DaemonFrame::Rejected {
                request: Request::Join("a@b".into()),
                code: Reject::Name,
                text: "has an @".into(),
            },
            DaemonFrame::StatusReport(Bytes::from_static(b"{}")),
            DaemonFrame::GroupsReport(Bytes::from_static(b"[]")),
            DaemonFrame::Disconnected {
                code: Disconnect::TooSlow,
                text: "too slow".into(),
            },
            DaemonFrame::Pong { token: 5 },
            DaemonFrame::Message(numbered),
            DaemonFrame::View(approximate),
            DaemonFrame::Gap {
                group: "g".into(),
                sender: "h".into(),
                first: 3,
                last: 5,
            },
        ]
    }

    #[test]
    fn every_frame_comes_back() {
        let frames = one_of_each();
        let mut bytes = Vec::new();
        for frame in &frames {
            frame.encode(&mut bytes);
        }
        assert_eq!(decode_all(&bytes).unwrap(), frames);
    }

    #[test]
    fn golden_bytes() {
        let mut bytes = Vec::new();
        one_of_each()[2].encode(&mut bytes);
        #[rustfmt::skip]
        let golden = [
            0, 0, 0, 57, 67,  1,  4,  1,
            0, 0, 0, 0, 0, 0, 0, 3,  0, 0, 0, 0, 0, 0, 0, 4,  0, 0, 0, 0, 0, 0, 0, 5,
            0, 0, 0, 0, 0, 9, 0, 0,
            4, b'a', b'l', b'@', b'h',
            2,  1, b'g',  7, b'r', b'o', b'o', b'm', b'/', 0xc3, 0xbc,
            b'h', b'e', b'l', b'l', b'o',
        ];
        assert_eq!(bytes, golden);
        bytes.clear();
        DaemonFrame::Refused {
            code: Refusal::Version,
            text: "old".into(),
        }
        .encode(&mut bytes);
        assert_eq!(bytes, [0, 0, 0, 5, 66, 2, b'o', b'l', b'd']);
        bytes.clear();
        one_of_each()[16].encode(&mut bytes);
        #[rustfmt::skip]
        let gap = [
            0, 0, 0, 21, 76,  0, 0, 0, 0, 0, 0, 0, 3,  0, 0, 0, 0, 0, 0, 0, 5,  1, b'g',  1, b'h',
        ];
        assert_eq!(bytes, gap);
    }

    #[test]
    fn the_index_can_be_changed_in_an_encoded_head() {
        let frames = one_of_each();
        let mut bytes = Vec::new();
        frames[2].encode(&mut bytes);
        bytes[HEADER_LEN] = 0;
        let frames = decode_all(&bytes).unwrap();
        let DaemonFrame::Message(message) = &frames[0] else {
            panic!("{:?}", frames[0]);
        };
        assert_eq!(message.group(), "g");
    }

    #[test]
    fn codes_of_newer_daemons_are_read_as_other() {
        let frames = decode_all(&[0, 0, 0, 4, 66, 99, b'h', b'm']).unwrap();
        assert_eq!(
            frames,
            [DaemonFrame::Refused {
                code: Refusal::Other,
                text: "hm".into()
            }]
        );
    }

    proptest! {
        #[test]
        fn any_body_of_any_kind_never_panics(kind in 60u8..80, body: Vec<u8>) {
            let raw = RawFrame { kind, body: body[..].into() };
            if let Ok(Some(frame)) = DaemonFrame::decode(raw) {
                let mut bytes = Vec::new();
                frame.encode(&mut bytes);
                prop_assert_eq!(decode_all(&bytes).unwrap(), vec![frame]);
            }
        }

        #[test]
        fn truncated_frames_are_errors_not_panics(which in 0usize..17, cut in 1usize..40) {
            let mut bytes = Vec::new();
            one_of_each()[which].encode(&mut bytes);
            let body = &bytes[HEADER_LEN..];
            let body = &body[..body.len().saturating_sub(cut)];
            let _ = DaemonFrame::decode(RawFrame { kind: bytes[4], body: body.into() });
        }
    }
}
