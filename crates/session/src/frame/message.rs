//! The frame of a delivered message: the one that has to be quick.

use bytes::{Bytes, BytesMut};
use groupcast_core::wire::{DecodeError, Reader};
use groupcast_core::{Place, Service};

use super::text::{Names, Text, put_name, skip_names, split_names, split_text, take_name};
use super::{DESTINATIONS_MAX, frame, kind, take_service};

/// In the field `placed`: a place follows, or a number.
const PLACED: u8 = 1;
const NUMBERED: u8 = 2;

/// A delivered message, in the bytes that it came in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// What it was promised.
    pub service: Service,
    /// Where it stands in the total order; `None` for an unreliable one and in a bimodal group.
    pub place: Option<Place>,
    /// In a bimodal group: its number among those that the sender's daemon sent to the group, as gaps count them.
    pub number: Option<u64>,
    /// The private name of the client that sent it.
    pub sender: Text,
    /// All its destinations, in the sender's order.
    pub destinations: Names,
    /// Which of them it came by: the first that this client is in.
    pub index: usize,
    /// What it says.
    pub payload: Bytes,
}

impl Message {
    /// The destination that it came by: a group, or the client's own private name.
    pub fn group(&self) -> &str {
        self.destinations.iter().nth(self.index).unwrap_or_default()
    }
}

/// What stands in a message frame beside its destinations and payload.
#[derive(Clone, Copy, Debug)]
pub struct MessageHead<'a> {
    /// What it was promised.
    pub service: Service,
    /// Where it stands in the total order.
    pub place: Option<Place>,
    /// Its number in a bimodal group; not together with a place.
    pub number: Option<u64>,
    /// The private name of the client that sent it.
    pub sender: &'a str,
}

/// Appends a message frame up to its payload of `payload_len` bytes. The byte at [`HEADER_LEN`](super::HEADER_LEN) of
/// the frame is the index, so that one head can be changed for subscribers of different groups.
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
    frame(bytes, kind::MESSAGE, payload_len, |body| {
        body.u8(index as u8).u8(head.service as u8);
        match (head.place, head.number) {
            (Some(place), _) => body.u8(PLACED).config(place.config).u64(place.seq),
            (None, Some(number)) => body.u8(NUMBERED).u64(number),
            (None, None) => body.u8(0),
        };
        put_name(body, head.sender);
        body.u8(destinations.len() as u8);
        for name in destinations {
            put_name(body, name.as_ref());
        }
    });
}

pub(super) fn decode_message(mut body: BytesMut) -> Result<Message, DecodeError> {
    let mut reader = Reader::new(&body);
    let index = usize::from(reader.u8("index")?);
    let service = take_service(&mut reader)?;
    let (place, number) = match reader.u8("placed")? {
        0 => (None, None),
        PLACED => {
            let place = Place {
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
    let count = usize::from(reader.u8("destinations")?);
    if index >= count || count > DESTINATIONS_MAX {
        return Err(reader.invalid("destinations", count as u64));
    }
    let names_len = skip_names(&mut reader, "destination", count)?;
    let _ = body.split_to(sender_end - sender_len);
    let sender = split_text(&mut body, sender_len);
    let _ = body.split_to(1);
    let destinations = split_names(&mut body, count, names_len);
    Ok(Message {
        service,
        place,
        number,
        sender,
        destinations,
        index,
        payload: body.freeze(),
    })
}
