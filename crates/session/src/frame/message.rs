//! The frame of a delivered message, on the hot path: decoding copies nothing, and an encoded head
//! is reused.

use bytes::{Buf as _, Bytes, BytesMut};
use groupcast_core::wire::{DecodeError, Reader};
use groupcast_core::{OrderPlace, Service};

use super::text::{Names, Text, put_name, skip_names, split_names, split_text, take_name};
use super::{DESTINATIONS_MAX, HEADER_LEN, frame, kind, take_service};

/// Values of the field `placed`: a place follows, or a number.
const PLACED: u8 = 1;
const NUMBERED: u8 = 2;

/// The bytes of a frame's length field.
const LEN_BYTES: usize = 4;
/// The offset of the service in an encoded head.
pub(crate) const SERVICE_AT: usize = HEADER_LEN + 1;
/// The offset of the field `placed`: behind the index and the service.
const PLACED_AT: usize = HEADER_LEN + 2;
/// The offset of the sequence number, if there is a place: behind the configuration.
const SEQ_AT: usize = PLACED_AT + 1 + 24;

/// A delivered message, in the bytes that it came in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// What it was promised.
    pub service: Service,
    /// Its place in the total order; `None` for an unreliable message and in a bimodal group.
    pub place: Option<OrderPlace>,
    /// In a bimodal group: its number among the messages that the sender's daemon sent to the
    /// group, as gaps count them.
    pub number: Option<u64>,
    /// The private name of the client that sent it.
    pub sender: Text,
    /// Its id on the bus; empty if it has none, and where the message has no label.
    pub sender_id: Text,
    /// Its tag on the bus, by which receivers select messages; often empty.
    pub tag: Text,
    /// The syntax of its payload, as its sender said.
    pub syntax: Syntax,
    /// All its destinations, in the sender's order.
    pub destinations: Names,
    /// The index of the destination by which it came: the first one that this client is in.
    pub index: usize,
    /// What it says.
    pub payload: Bytes,
}

impl Message {
    /// The destination by which it came: a group, or the client's own private name.
    pub fn group(&self) -> &str {
        self.destinations.iter().nth(self.index).unwrap_or_default()
    }

    /// The sender's id and the label, unless both are empty.
    pub(super) fn label(&self) -> Option<(&str, Label<'_>)> {
        let label = Label {
            tag: &self.tag,
            syntax: self.syntax,
        };
        let is_there = label != Label::NONE || !self.sender_id.is_empty();
        is_there.then_some((&*self.sender_id, label))
    }
}

/// The syntax of a message's payload, as its sender said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Syntax {
    /// Bytes of any kind.
    #[default]
    Raw = 0,
    /// A list, as an S-expression.
    Sexp = 1,
    /// A list, as a CSTREAM.
    Cstream = 2,
}

impl Syntax {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Sexp => "sexp",
            Self::Cstream => "cstream",
        }
    }

    /// The syntax of a word.
    pub fn of(word: &str) -> Option<Self> {
        let mut all = [Self::Raw, Self::Sexp, Self::Cstream].into_iter();
        all.find(|syntax| syntax.name() == word)
    }

    /// Reads its code; an unknown code is read as [`Raw`](Self::Raw).
    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8("syntax")? {
            1 => Self::Sexp,
            2 => Self::Cstream,
            _ => Self::Raw,
        })
    }
}

/// The data that the bus adds to a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label<'a> {
    /// The tag, of at most 255 bytes.
    pub tag: &'a str,
    /// The syntax of the payload.
    pub syntax: Syntax,
}

impl Label<'_> {
    /// The label of a message without one.
    pub const NONE: Self = Self {
        tag: "",
        syntax: Syntax::Raw,
    };
}

/// The head of a message frame, without its destinations.
#[derive(Clone, Copy, Debug)]
pub struct MessageHead<'a> {
    /// What it was promised.
    pub service: Service,
    /// Where it stands in the total order.
    pub place: Option<OrderPlace>,
    /// Its number in a bimodal group; not together with a place.
    pub number: Option<u64>,
    /// The private name of the client that sent it.
    pub sender: &'a str,
    /// For a client that knows labels: the sender's id, which may be empty, and the label.
    pub label: Option<(&'a str, Label<'a>)>,
}

/// Appends a message frame up to its payload of `payload_len` bytes. The byte at
/// [`HEADER_LEN`](super::HEADER_LEN) of the frame is the index, so that one head can be changed for
/// subscribers of different groups.
///
/// # Panics
/// If there are no destinations or more than [`DESTINATIONS_MAX`], or a name exceeds 255 bytes.
pub fn encode_message_head(
    bytes: &mut Vec<u8>,
    head: &MessageHead<'_>,
    index: usize,
    destinations: &[impl AsRef<str>],
    payload_len: usize,
) {
    assert!(
        index < destinations.len() && destinations.len() <= DESTINATIONS_MAX,
        "a message has 1 to {DESTINATIONS_MAX} destinations and comes by one of them"
    );
    let kind = match head.label {
        Some(_) => kind::MESSAGE_LABELLED,
        None => kind::MESSAGE,
    };
    frame(bytes, kind, payload_len, |body| {
        body.u8(index as u8).u8(head.service.code());
        match (head.place, head.number) {
            (Some(place), _) => body.u8(PLACED).config(place.config).u64(place.seq),
            (None, Some(number)) => body.u8(NUMBERED).u64(number),
            (None, None) => body.u8(0),
        };
        put_name(body, head.sender);
        if let Some((id, label)) = head.label {
            put_name(body, id);
            put_name(body.u8(label.syntax as u8), label.tag);
        }
        body.u8(destinations.len() as u8);
        for name in destinations {
            put_name(body, name.as_ref());
        }
    });
}

/// Changes an encoded head to that of another message of the same sender to the same destinations:
/// with the sequence number `seq`, if it has a place, and with `payload_len` bytes of payload.
///
/// # Panics
/// If `head` has a place and `seq` is `None`, or the other way round; or if the frame exceeds 4
/// GiB.
pub fn update_message_head(head: &mut [u8], seq: Option<u64>, payload_len: usize) {
    let len = head.len() - LEN_BYTES + payload_len;
    let len = u32::try_from(len).expect("callers bound a frame by FRAME_MAX");
    head[..LEN_BYTES].copy_from_slice(&len.to_be_bytes());
    assert_eq!(
        seq.is_some(),
        head[PLACED_AT] == PLACED,
        "a message with a place stays one"
    );
    if let Some(seq) = seq {
        head[SEQ_AT..SEQ_AT + 8].copy_from_slice(&seq.to_be_bytes());
    }
}

pub(super) fn decode_message(mut body: BytesMut, labelled: bool) -> Result<Message, DecodeError> {
    let mut reader = Reader::new(&body);
    let index = usize::from(reader.u8("index")?);
    let service = take_service(&mut reader)?;
    let (place, number) = match reader.u8("placed")? {
        0 => (None, None),
        PLACED => {
            let place = OrderPlace {
                config: reader.config("config")?,
                seq: reader.u64("seq")?,
            };
            (Some(place), None)
        }
        NUMBERED => (None, Some(reader.u64("number")?)),
        other => return Err(reader.invalid("placed", u64::from(other))),
    };
    let sender_len = take_name(&mut reader, "sender")?.len();
    let sender_end = reader.position();
    let mut label = LabelBytes::default();
    if labelled {
        label = LabelBytes::read(&mut reader)?;
    }
    let count = usize::from(reader.u8("destinations")?);
    if index >= count || count > DESTINATIONS_MAX {
        return Err(reader.invalid("destinations", count as u64));
    }
    let names_len = skip_names(&mut reader, "destination", count)?;
    body.advance(sender_end - sender_len);
    let sender = split_text(&mut body, sender_len);
    let (sender_id, tag) = label.split(&mut body, labelled);
    body.advance(1);
    let destinations = split_names(&mut body, count, names_len);
    Ok(Message {
        service,
        place,
        number,
        sender,
        sender_id,
        tag,
        syntax: label.syntax,
        destinations,
        index,
        payload: body.freeze(),
    })
}

/// The lengths of a label's texts.
#[derive(Clone, Copy, Default)]
struct LabelBytes {
    id: usize,
    syntax: Syntax,
    tag: usize,
}

impl LabelBytes {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: take_name(reader, "id")?.len(),
            syntax: Syntax::take(reader)?,
            tag: take_name(reader, "tag")?.len(),
        })
    }

    /// Splits the sender's id and the tag off the front. Each stands behind its length, and the
    /// syntax between them.
    fn split(self, body: &mut BytesMut, labelled: bool) -> (Text, Text) {
        if !labelled {
            return (Text::default(), Text::default());
        }
        body.advance(1);
        let id = split_text(body, self.id);
        body.advance(2);
        (id, split_text(body, self.tag))
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId};

    use super::*;

    #[test]
    fn an_updated_head_is_that_of_the_next_message() {
        let config = ConfigId {
            counter: 3,
            representative: MemberId {
                node: NodeId(4),
                incarnation: Incarnation(5),
            },
        };
        for (first, next) in [(Some(1u64 << 16), Some(u64::MAX)), (None, None)] {
            let encoded = |seq: Option<u64>, payload_len| {
                let head = MessageHead {
                    service: Service::Safe,
                    place: seq.map(|seq| OrderPlace { config, seq }),
                    number: None,
                    sender: "al@h",
                    label: None,
                };
                let mut bytes = Vec::new();
                encode_message_head(&mut bytes, &head, 1, &["g", "room"], payload_len);
                bytes
            };
            let mut head = encoded(first, 0);
            update_message_head(&mut head, next, 70_000);
            assert_eq!(head, encoded(next, 70_000));
        }
    }
}
