//! Datagram bodies of accounts. All integers are big-endian; a varint has seven bits a byte, lowest
//! first.
//!
//! | kind | from | after the kind (1) |
//! |---|---|---|
//! | 1 page | relay | transfer's number (4), number of its first word (4), count of words (2), words |
//! | 2 taken | sender | transfer's number (4), number of the next word (4), flags (1): 1 no more are taken |
//! | 3 late | relay | transfer's number (4), node (8), name's length (2), name |
//!
//! A sender that does not know *late* drops it. A page goes to the sender of the transfer. A word
//! is its kind (1) and
//!
//! | kind | then |
//! |---|---|
//! | 1 registered | node (8), name's length (2), name |
//! | 2 settled | row (varint), outcome (1), reason's length (2), reason |
//! | 3 aside | row (varint) |
//! | 4 final | |
//!
//! Outcomes: 1 complete, 2 refused, 3 failed, 4 vanished, 5 slow, 6 late, 7 outrun, 8 excluded, 9
//! too few, 10 absent, 11 same name, 12 cancelled. Any other is read as failed.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::NodeId;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::account::{Account, Word};
use crate::bulk::Outcome;

/// The longest reason, in bytes. Longer ones lose their end.
pub(super) const REASON_MAX: usize = 512;

/// The most bytes of a page, unless one word alone is longer: a page fits an Ethernet frame.
const PAGE_MAX: usize = 1300;

/// A datagram body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// Words of a relay's account.
    Page(Page),
    /// How many of these words the sender has taken.
    Taken(Taken),
    /// A receiver below the relay came too late.
    Late(Late),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Page {
    pub(super) transfer: u32,
    pub(super) first: u32,
    pub(super) words: Vec<Word>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken {
    pub(super) transfer: u32,
    pub(super) next: u32,
    pub(super) is_full: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Late {
    pub(super) transfer: u32,
    pub(super) node: NodeId,
    pub(super) name: Bytes,
}

impl Late {
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.u8(3).u32(self.transfer);
        put_receiver(&mut writer, self.node, &self.name);
        bytes.into()
    }
}

impl Taken {
    pub(super) fn encode(self) -> Bytes {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes)
            .u8(2)
            .u32(self.transfer)
            .u32(self.next)
            .u8(self.is_full.into());
        bytes.into()
    }
}

/// The body of a page with as many of `words` as fit, and how many fit. The first word has the
/// number `first`.
pub(super) fn page(transfer: u32, first: u32, words: &[Word]) -> (Bytes, usize) {
    let mut body = Vec::new();
    let mut count = 0;
    for word in words {
        let mut next = Vec::new();
        put_word(&mut Writer::new(&mut next), word);
        if count > 0 && body.len() + next.len() > PAGE_MAX {
            break;
        }
        body.extend_from_slice(&next);
        count += 1;
    }
    let mut bytes = Vec::new();
    Writer::new(&mut bytes)
        .u8(1)
        .u32(transfer)
        .u32(first)
        .u16(count as u16)
        .put(&body);
    (bytes.into(), count)
}

fn put_word(writer: &mut Writer<'_>, word: &Word) {
    match word {
        Word::Registered { node, name } => put_receiver(writer.u8(1), *node, name),
        Word::Settled { row, outcome } => {
            let reason = match outcome {
                Outcome::Refused(reason) | Outcome::Failed(reason) => reason.as_str(),
                _ => "",
            };
            let reason = &reason[..reason.floor_char_boundary(REASON_MAX)];
            writer.u8(2).varint((*row).into()).u8(code(outcome));
            writer.u16(reason.len() as u16).put(reason.as_bytes());
        }
        Word::Aside { row } => {
            writer.u8(3).varint((*row).into());
        }
        Word::Final => {
            writer.u8(4);
        }
    }
}

fn put_receiver(writer: &mut Writer<'_>, node: NodeId, name: &[u8]) {
    let name = &name[name.len().saturating_sub(Account::NAME_MAX)..];
    writer.u64(node.0).u16(name.len() as u16).put(name);
}

fn code(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Complete => 1,
        Outcome::Refused(_) => 2,
        Outcome::Failed(_) => 3,
        Outcome::Vanished => 4,
        Outcome::Slow => 5,
        // Nobody joins late but connections, which no relay carries.
        Outcome::Late | Outcome::Joined { .. } => 6,
        Outcome::Outrun => 7,
        Outcome::Excluded => 8,
        Outcome::TooFew => 9,
        Outcome::Absent => 10,
        Outcome::SameName => 11,
        Outcome::Cancelled => 12,
    }
}

fn outcome(code: u8, reason: String) -> Outcome {
    match code {
        1 => Outcome::Complete,
        2 => Outcome::Refused(reason),
        4 => Outcome::Vanished,
        5 => Outcome::Slow,
        6 => Outcome::Late,
        7 => Outcome::Outrun,
        8 => Outcome::Excluded,
        9 => Outcome::TooFew,
        10 => Outcome::Absent,
        11 => Outcome::SameName,
        12 => Outcome::Cancelled,
        _ => Outcome::Failed(reason),
    }
}

impl Message {
    /// Reads a body. It allocates for the words that are there, not for the count that is claimed.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8("kind")? {
            1 => {
                let (transfer, first) = (reader.u32("transfer")?, reader.u32("first")?);
                let count = reader.count("words", 1)?;
                let words = (0..count).map(|_| word(&mut reader));
                Self::Page(Page {
                    transfer,
                    first,
                    words: words.collect::<Result<_, _>>()?,
                })
            }
            2 => Self::Taken(Taken {
                transfer: reader.u32("transfer")?,
                next: reader.u32("next")?,
                is_full: reader.u8("flags")? & 1 != 0,
            }),
            3 => {
                let transfer = reader.u32("transfer")?;
                let (node, name) = receiver(&mut reader)?;
                Self::Late(Late {
                    transfer,
                    node,
                    name,
                })
            }
            other => return Err(reader.invalid("kind", other.into())),
        };
        reader.finish()?;
        Ok(message)
    }
}

fn word(reader: &mut Reader<'_>) -> Result<Word, DecodeError> {
    Ok(match reader.u8("word")? {
        1 => {
            let (node, name) = receiver(reader)?;
            Word::Registered { node, name }
        }
        2 => {
            let row = row(reader)?;
            let code = reader.u8("outcome")?;
            let reason = text(reader, "reason", REASON_MAX)?;
            Word::Settled {
                row,
                outcome: outcome(code, String::from_utf8_lossy(reason).into_owned()),
            }
        }
        3 => Word::Aside { row: row(reader)? },
        4 => Word::Final,
        other => return Err(reader.invalid("word", other.into())),
    })
}

fn receiver(reader: &mut Reader<'_>) -> Result<(NodeId, Bytes), DecodeError> {
    let node = NodeId(reader.u64("node")?);
    let name = text(reader, "name", Account::NAME_MAX)?;
    Ok((node, Bytes::copy_from_slice(name)))
}

fn row(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let row = reader.varint("row")?;
    u32::try_from(row).map_err(|_| reader.invalid("row", row))
}

fn text<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
    most: usize,
) -> Result<&'a [u8], DecodeError> {
    let len = usize::from(reader.u16(field)?);
    if len > most {
        return Err(reader.invalid(field, len as u64));
    }
    reader.take(field, len)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn words() -> Vec<Word> {
        let settled = |row, outcome| Word::Settled { row, outcome };
        vec![
            Word::Registered {
                node: NodeId(7),
                name: Bytes::from_static(b"host"),
            },
            settled(0, Outcome::Failed("no room".into())),
            settled(300, Outcome::Complete),
            settled(1, Outcome::Refused("busy".into())),
            settled(2, Outcome::Vanished),
            settled(3, Outcome::Slow),
            settled(4, Outcome::Late),
            settled(5, Outcome::Outrun),
            settled(6, Outcome::Excluded),
            settled(7, Outcome::TooFew),
            settled(8, Outcome::Absent),
            settled(9, Outcome::SameName),
            settled(10, Outcome::Cancelled),
            Word::Aside { row: 4 },
            Word::Final,
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let (body, count) = page(9, 4, &words());
        let page = Page {
            transfer: 9,
            first: 4,
            words: words(),
        };
        assert_eq!(count, words().len());
        assert_eq!(Message::decode(&body), Ok(Message::Page(page)));
        let taken = Taken {
            transfer: 1,
            next: 70_000,
            is_full: true,
        };
        let read = Message::decode(&taken.encode());
        assert_eq!(read, Ok(Message::Taken(taken)));
        let late = Late {
            transfer: 9,
            node: NodeId(7),
            name: Bytes::from_static(b"relay/host"),
        };
        let read = Message::decode(&late.encode());
        assert_eq!(read, Ok(Message::Late(late)));
    }

    #[test]
    fn the_layout_is_that_of_the_table() {
        let (body, _) = page(1, 2, &words()[..2]);
        let golden = [
            &[1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 2][..],
            &[1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 4],
            b"host",
            &[2, 0, 3, 0, 7],
            b"no room",
        ];
        assert_eq!(body, golden.concat());
        let late = Late {
            transfer: 1,
            node: NodeId(7),
            name: Bytes::from_static(b"host"),
        };
        let golden = [&[3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 4][..], b"host"];
        assert_eq!(late.encode(), golden.concat());
    }

    #[test]
    fn a_page_fits_a_frame_and_takes_a_word_at_least() {
        let name = Bytes::from(vec![b'n'; 900]);
        let node = NodeId(1);
        let long = vec![Word::Registered { node, name }; 5];
        let (body, count) = page(1, 0, &long);
        assert!(count == 2 && body.len() < 1400, "{count}, {}", body.len());
        let Ok(Message::Page(read)) = Message::decode(&body) else {
            panic!("it is a page");
        };
        let cut = Bytes::from(vec![b'n'; Account::NAME_MAX]);
        assert_eq!(read.words, vec![Word::Registered { node, name: cut }; 2]);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..5) {
            let _ = Message::decode(&bytes);
            let _ = Message::decode(&[&[kind], &bytes[..]].concat());
        }
    }
}
