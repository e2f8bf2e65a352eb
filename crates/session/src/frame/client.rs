//! Frames from a client to its daemon.

use std::ops::Range;

use bytes::{Buf as _, Bytes, BytesMut};
use groupcast_core::Service;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use zeroize::Zeroizing;

use super::bus::BusRequest;
use super::guests::GuestFrame;
use super::message::{Label, Syntax};
use super::text::{names_in, put_name, skip_names, take_name};
use super::token::AccessToken;
use super::{DESTINATIONS_MAX, FrameError, PATH_MAX, RawFrame, frame, kind, take_service};
use crate::when_slow::WhenSlow;

/// Flags of a join.
const DISCARD_OWN: u8 = 1;
const RING: u8 = 2;

/// The first frame of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The oldest version that the client speaks.
    pub version_min: u16,
    /// The newest version that the client speaks.
    pub version_max: u16,
    /// Feature bits of what else it can do.
    pub features: u64,
    /// The kind of client.
    pub kind: ClientKind,
    /// How many bytes of messages and views the daemon may send before the client gives credit
    /// back.
    pub delivery_window: u64,
    /// The name that it asks for, without `@host`. If it is `None`, the daemon makes one.
    pub name: Option<String>,
    /// The token that lets it connect, if the daemon asks for one.
    pub token: Option<AccessToken>,
}

/// The kind of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum ClientKind {
    /// It joins and publishes.
    #[default]
    Application = 0,
    /// It looks at the daemon: `groupcast status`.
    Tool = 1,
}

impl ClientKind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Tool => "tool",
        }
    }
}

/// A frame from a client.
#[derive(Debug)]
pub enum ClientFrame {
    /// The first frame.
    Hello(Hello),
    /// Become a member of a group.
    Join {
        /// The name of the group.
        group: String,
        /// Whether the client's own messages are not delivered to it by this group.
        discard_own: bool,
        /// Whether it asks for a ring of its own for the group, if there is none.
        ring: bool,
    },
    /// Leave a group.
    Leave {
        /// The name of the group.
        group: String,
    },
    /// Publish a message, with a label or without.
    Publish(Publish),
    /// A request of the bus.
    Bus {
        /// A number that comes back in the answer.
        token: u64,
        /// The request.
        request: BusRequest,
    },
    /// A frame about requests to groups, handlers and locks.
    Guest(GuestFrame),
    /// From now on, the daemon's policy should this client take its messages too slowly.
    WhenSlow(WhenSlow),
    /// This many bytes of deliveries have been consumed.
    Credit {
        /// Bytes of the stream that the client has taken since the last credit.
        bytes: u64,
    },
    /// Asks for the daemon's status.
    Status,
    /// Asks for all groups.
    Groups,
    /// Asks for a pong.
    Ping {
        /// A number that comes back in the answer.
        token: u64,
    },
    /// Change the cluster's key, by way of this daemon.
    Rekey {
        /// The path of the new key's file, on the daemon's host.
        path: Vec<u8>,
    },
    /// The client sends nothing more; the daemon ends the connection when all its messages are
    /// accepted.
    Bye,
}

impl ClientFrame {
    /// The frame in `raw`; `None` if this side does not know its kind, which is skipped.
    pub fn decode(raw: RawFrame) -> Result<Option<Self>, FrameError> {
        let code = raw.kind;
        Self::decode_body(raw).map_err(|error| FrameError::Malformed { kind: code, error })
    }

    fn decode_body(raw: RawFrame) -> Result<Option<Self>, DecodeError> {
        if matches!(raw.kind, kind::PUBLISH | kind::PUBLISH_LABELLED) {
            let labelled = raw.kind == kind::PUBLISH_LABELLED;
            return Publish::decode(raw.body, labelled).map(|publish| Some(Self::Publish(publish)));
        }
        if let Some(frame) = GuestFrame::decode(raw.kind, &raw.body)? {
            return Ok(Some(Self::Guest(frame)));
        }
        let reader = &mut Reader::new(&raw.body);
        if let Some((token, request)) = BusRequest::decode(raw.kind, reader)? {
            reader.finish()?;
            return Ok(Some(Self::Bus { token, request }));
        }
        let frame = match raw.kind {
            kind::HELLO => Self::Hello(Hello::decode(reader)?),
            kind::JOIN => {
                let flags = reader.u8("flags")?;
                if flags > DISCARD_OWN | RING {
                    return Err(reader.invalid("flags", u64::from(flags)));
                }
                Self::Join {
                    group: take_name(reader, "group")?.into(),
                    discard_own: flags & DISCARD_OWN != 0,
                    ring: flags & RING != 0,
                }
            }
            kind::LEAVE => Self::Leave {
                group: take_name(reader, "group")?.into(),
            },
            kind::CREDIT => Self::Credit {
                bytes: reader.u64("bytes")?,
            },
            kind::WHEN_SLOW => {
                let code = reader.u8("policy")?;
                let policy = WhenSlow::find(|policy| policy.code() == code);
                Self::WhenSlow(policy.ok_or_else(|| reader.invalid("policy", code.into()))?)
            }
            kind::STATUS => Self::Status,
            kind::GROUPS => Self::Groups,
            kind::PING => Self::Ping {
                token: reader.u64("token")?,
            },
            kind::BYE => Self::Bye,
            kind::REKEY if reader.remaining() <= PATH_MAX => Self::Rekey {
                path: reader.rest().to_vec(),
            },
            kind::REKEY => return Err(reader.invalid("path", reader.remaining() as u64)),
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
            Self::Hello(hello) => frame(bytes, kind::HELLO, 0, |body| hello.encode(body)),
            Self::Join {
                group,
                discard_own,
                ring,
            } => frame(bytes, kind::JOIN, 0, |body| {
                let discards = u8::from(*discard_own) * DISCARD_OWN;
                body.u8(discards | (u8::from(*ring) * RING));
                put_name(body, group);
            }),
            Self::Leave { group } => {
                frame(bytes, kind::LEAVE, 0, |body| put_name(body, group));
            }
            Self::Publish(publish) => {
                let groups: Vec<_> = publish.destinations().collect();
                let payload = publish.payload();
                encode_labelled_head(
                    bytes,
                    publish.number,
                    publish.service,
                    publish.label(),
                    &groups,
                    payload.len(),
                );
                bytes.extend_from_slice(payload);
            }
            Self::Bus { token, request } => request.encode(bytes, *token),
            Self::Credit { bytes: consumed } => frame(bytes, kind::CREDIT, 0, |body| {
                body.u64(*consumed);
            }),
            Self::WhenSlow(policy) => frame(bytes, kind::WHEN_SLOW, 0, |body| {
                body.u8(policy.code());
            }),
            Self::Status => frame(bytes, kind::STATUS, 0, |_| {}),
            Self::Groups => frame(bytes, kind::GROUPS, 0, |_| {}),
            Self::Ping { token } => frame(bytes, kind::PING, 0, |body| {
                body.u64(*token);
            }),
            Self::Guest(guest) => guest.encode(bytes),
            Self::Rekey { path } => frame(bytes, kind::REKEY, 0, |body| {
                body.put(path);
            }),
            Self::Bye => frame(bytes, kind::BYE, 0, |_| {}),
        }
    }
}

impl Hello {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (version_min, version_max) = (reader.u16("version min")?, reader.u16("version max")?);
        let features = reader.u64("features")?;
        let kind = match reader.u8("kind")? {
            1 => ClientKind::Tool,
            // A newer client may be of a newer kind: this daemon treats it as an application.
            _ => ClientKind::Application,
        };
        let delivery_window = reader.u64("delivery window")?;
        let name = take_name(reader, "name")?;
        let token = take_token(reader)?;
        // Further bytes belong to a newer version, which may be in the client's range.
        reader.rest();
        Ok(Self {
            version_min,
            version_max,
            features,
            kind,
            delivery_window,
            name: (!name.is_empty()).then(|| name.into()),
            token,
        })
    }

    fn encode(&self, body: &mut Writer<'_>) {
        body.u16(self.version_min)
            .u16(self.version_max)
            .u64(self.features)
            .u8(self.kind as u8)
            .u64(self.delivery_window);
        put_name(body, self.name.as_deref().unwrap_or_default());
        if let Some(token) = &self.token {
            body.u8(AccessToken::LEN as u8).put(token.as_bytes());
        }
    }
}

/// The token at the end of a hello. An older client sends none; a token of another length is of a
/// newer version.
fn take_token(reader: &mut Reader<'_>) -> Result<Option<AccessToken>, DecodeError> {
    if reader.remaining() == 0 {
        return Ok(None);
    }
    let len = usize::from(reader.u8("token length")?);
    let mut bytes = Zeroizing::new([0; AccessToken::LEN]);
    if len != bytes.len() {
        return Ok(None);
    }
    bytes.copy_from_slice(reader.take("token", len)?);
    Ok(Some(AccessToken::from_bytes(*bytes)))
}

/// A message to publish, in the bytes that it came in.
///
/// The bytes before the payload are of no use once the destinations are known, so
/// [`into_payload_after`](Self::into_payload_after) writes the envelope's head over them, and the
/// payload is not copied.
#[derive(Debug)]
pub struct Publish {
    /// The client's number of the message; numbers increase.
    pub number: u64,
    /// The guarantee of the message.
    pub service: Service,
    syntax: Option<Syntax>,
    /// The range of the tag's text in `body`; empty without a label.
    tag: Range<usize>,
    names_at: usize,
    payload_at: usize,
    body: BytesMut,
}

/// The offset of label and destinations in the body of a publish frame: behind number and service.
const ADDRESS_AT: usize = 9;

impl Publish {
    fn decode(body: BytesMut, labelled: bool) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(&body);
        let number = reader.u64("number")?;
        let service = take_service(&mut reader)?;
        let (mut syntax, mut tag) = (None, 0..0);
        if labelled {
            syntax = Some(Syntax::take(&mut reader)?);
            let len = take_name(&mut reader, "tag")?.len();
            tag = reader.position() - len..reader.position();
        }
        let count = usize::from(reader.u8("destinations")?);
        if count == 0 || count > DESTINATIONS_MAX {
            return Err(reader.invalid("destinations", count as u64));
        }
        let names_at = reader.position();
        let len = skip_names(&mut reader, "destination", count)?;
        Ok(Self {
            number,
            service,
            syntax,
            tag,
            names_at,
            payload_at: names_at + len,
            body,
        })
    }

    /// Its destinations, in the publisher's order. The names are UTF-8, and not checked further.
    pub fn destinations(&self) -> impl Iterator<Item = &str> {
        names_in(self.destination_bytes())
    }

    /// Tag and syntax, if it has a label.
    pub fn label(&self) -> Option<Label<'_>> {
        let tag = std::str::from_utf8(&self.body[self.tag.clone()]);
        self.syntax.map(|syntax| Label {
            tag: tag.unwrap_or_default(),
            syntax,
        })
    }

    /// Label and destinations as they came, for a comparison with those of a frame of the same
    /// kind.
    pub fn address_bytes(&self) -> &[u8] {
        &self.body[ADDRESS_AT..self.payload_at]
    }

    fn destination_bytes(&self) -> &[u8] {
        &self.body[self.names_at..self.payload_at]
    }

    /// The message's bytes.
    pub fn payload(&self) -> &[u8] {
        &self.body[self.payload_at..]
    }

    /// The bytes of its frame in the stream, which publish credit counts.
    pub fn stream_len(&self) -> usize {
        super::HEADER_LEN + self.body.len()
    }

    /// `head`, then the payload. Copies the payload only if `head` is longer than the bytes before
    /// it.
    pub fn into_payload_after(mut self, head: &[u8]) -> Bytes {
        match self.payload_at.checked_sub(head.len()) {
            Some(start) => {
                self.body[start..self.payload_at].copy_from_slice(head);
                self.body.advance(start);
                self.body.freeze()
            }
            None => {
                let mut whole = BytesMut::with_capacity(head.len() + self.payload().len());
                whole.extend_from_slice(head);
                whole.extend_from_slice(self.payload());
                whole.freeze()
            }
        }
    }
}

/// Appends a publish frame up to its payload of `payload_len` bytes, which the caller sends next.
/// Returns the length of the whole frame in the stream.
///
/// # Panics
/// If there are no destinations or more than [`DESTINATIONS_MAX`], or a name exceeds 255 bytes.
pub fn encode_publish_head(
    bytes: &mut Vec<u8>,
    number: u64,
    service: Service,
    destinations: &[&str],
    payload_len: usize,
) -> usize {
    encode_labelled_head(bytes, number, service, None, destinations, payload_len)
}

/// The same, with a label if there is one.
///
/// # Panics
/// As [`encode_publish_head`], and if the tag exceeds 255 bytes.
pub fn encode_labelled_head(
    bytes: &mut Vec<u8>,
    number: u64,
    service: Service,
    label: Option<Label<'_>>,
    destinations: &[&str],
    payload_len: usize,
) -> usize {
    assert!(
        (1..=DESTINATIONS_MAX).contains(&destinations.len()),
        "a message has 1 to {DESTINATIONS_MAX} destinations"
    );
    let start = bytes.len();
    let kind = match label {
        Some(_) => kind::PUBLISH_LABELLED,
        None => kind::PUBLISH,
    };
    frame(bytes, kind, payload_len, |body| {
        body.u64(number).u8(service.code());
        if let Some(label) = label {
            put_name(body.u8(label.syntax as u8), label.tag);
        }
        body.u8(destinations.len() as u8);
        for name in destinations {
            put_name(body, name);
        }
    });
    bytes.len() - start + payload_len
}

#[cfg(test)]
mod tests;
