//! What members of a gossip group say to each other, byte by byte.
//!
//! Every body begins with one byte, its kind; members are 16 bytes, `v` is a varint, other numbers
//! are big-endian.
//!
//! | kind | name | fields |
//! |---|---|---|
//! | 1 | data | tree (2; 65535 = multicast), origin (16), number (8), payload |
//! | 2 | repair | as data |
//! | 3 | multicast repair | as data |
//! | 4 | gossip | round (8), [self-description](SelfDescription), count (1) and that many signs of life, digest |
//! | 5 | request | round (8), origin (16), number (8) |
//! | 6 | special request | requestor (16), origin (16), number (8) |
//! | 7 | info | gossiper (16), origin (16), number (8) |
//! | 8 | mcast | origin (16), number (8) |
//! | 9 | multicast request | origin (16), number (8) |
//! | 10 | join | self-description, answer wanted (1) |
//! | 11 | leave | |
//! | 12 | prove | nonce (8) |
//! | 13 | proof | nonce (8), self-description |
//!
//! A sign of life is a member (16) and its heartbeat (v). A digest is a list, to the end of the
//! body, of
//!
//! | field | size | meaning |
//! |---|---|---|
//! | origin | 16 | whose messages |
//! | flags | 1 | bit 0: each run of numbers held is followed by a bit for each; bit 1: there are gaps |
//! | runs | 1 | how many runs of numbers held |
//! | run | v, v, bits | highest first: distance of its last number from the run before (the first: the number itself), how many more numbers, low-order bit first: was the highest, the next … repaired |
//! | gaps | 1 | how many runs that the sender misses; the same without bits |

mod digest;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{MemberId, MessageId};

use super::round::RoundNumber;

pub(super) use self::digest::{HOLDING_LEN, HOLDING_RUNS_MAX, Holding, Run};

/// Bytes before a payload.
pub(super) const DATA_HEADER: usize = 1 + 2 + 16 + 8;

/// No message has a higher number: a member that sends a million a second gets there after 146,000
/// years. What counts on from a number that was read cannot overflow.
pub(super) const NUMBER_MAX: u64 = u64::MAX >> 2;

/// In the place of a tree: multicast.
pub(super) const NO_TREE: u16 = u16::MAX;

/// Whether a payload is carried for the first time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carries {
    Data = 1,
    Repair = 2,
    MulticastRepair = 3,
}

/// The header of data and repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DataHeader {
    pub(super) carries: Carries,
    pub(super) tree: u16,
    pub(super) id: MessageId,
}

impl DataHeader {
    pub(super) fn encode(&self) -> [u8; DATA_HEADER] {
        let mut bytes = [0; DATA_HEADER];
        bytes[0] = self.carries as u8;
        bytes[1..3].copy_from_slice(&self.tree.to_be_bytes());
        bytes[3..11].copy_from_slice(&self.id.sender.node.0.to_be_bytes());
        bytes[11..19].copy_from_slice(&self.id.sender.incarnation.0.to_be_bytes());
        bytes[19..27].copy_from_slice(&self.id.number.to_be_bytes());
        bytes
    }
}

/// A sign of life: it grows with every round of the member that gives it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Heartbeat(pub(super) u64);

/// What a member says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SelfDescription {
    pub(super) heartbeat: Heartbeat,
    /// Its LAN.
    pub(super) zone: u32,
    /// Whether it gossips with other zones.
    pub(super) link: bool,
    /// How many messages it has sent.
    pub(super) sent: u64,
}

/// A gossip message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Gossip {
    pub(super) round: RoundNumber,
    pub(super) about: SelfDescription,
    pub(super) alive: Vec<(MemberId, Heartbeat)>,
    pub(super) digest: Vec<Holding>,
}

/// A body, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Data {
        header: DataHeader,
        payload: Bytes,
    },
    Gossip(Gossip),
    Request {
        round: RoundNumber,
        id: MessageId,
    },
    Special {
        requestor: MemberId,
        id: MessageId,
    },
    Info {
        gossiper: MemberId,
        id: MessageId,
    },
    Mcast {
        id: MessageId,
    },
    MulticastRequest {
        id: MessageId,
    },
    Join {
        about: SelfDescription,
        answer: bool,
    },
    Leave,
    /// Asks a member whether it lives, and how many messages it has sent.
    Prove {
        nonce: u64,
    },
    /// The answer, to one member.
    Proof {
        nonce: u64,
        about: SelfDescription,
    },
}

impl Message {
    /// Reads a body; a payload is not copied.
    pub(super) fn decode(body: &Bytes) -> Result<Self, DecodeError> {
        if let Some((header, payload)) = data(body)? {
            let payload = body.slice_ref(payload);
            return Ok(Self::Data { header, payload });
        }
        let mut reader = Reader::new(body);
        let kind = reader.u8("kind")?;
        let message = match kind {
            4 => Self::Gossip(gossip(&mut reader)?),
            5 => Self::Request {
                round: RoundNumber(reader.u64("round")?),
                id: id(&mut reader)?,
            },
            6 => Self::Special {
                requestor: reader.member("requestor")?,
                id: id(&mut reader)?,
            },
            7 => Self::Info {
                gossiper: reader.member("gossiper")?,
                id: id(&mut reader)?,
            },
            8 => Self::Mcast {
                id: id(&mut reader)?,
            },
            9 => Self::MulticastRequest {
                id: id(&mut reader)?,
            },
            10 => Self::Join {
                about: about(&mut reader)?,
                answer: reader.u8("answer")? != 0,
            },
            11 => Self::Leave,
            12 => Self::Prove {
                nonce: reader.u64("nonce")?,
            },
            13 => Self::Proof {
                nonce: reader.u64("nonce")?,
                about: about(&mut reader)?,
            },
            _ => return Err(reader.invalid("kind", u64::from(kind))),
        };
        reader.finish()?;
        Ok(message)
    }

    /// Its bytes. Data goes out as header and payload without a copy: see [`DataHeader::encode`].
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(64);
        let mut writer = Writer::new(&mut bytes);
        match self {
            Self::Data { header, payload } => {
                writer.put(&header.encode()).put(payload);
            }
            Self::Gossip(gossip) => write_gossip(&mut writer, gossip),
            Self::Request { round, id } => {
                writer.u8(5).u64(round.0);
                write_id(&mut writer, *id);
            }
            Self::Special { requestor, id } => {
                writer.u8(6).member(*requestor);
                write_id(&mut writer, *id);
            }
            Self::Info { gossiper, id } => {
                writer.u8(7).member(*gossiper);
                write_id(&mut writer, *id);
            }
            Self::Mcast { id } => {
                writer.u8(8);
                write_id(&mut writer, *id);
            }
            Self::MulticastRequest { id } => {
                writer.u8(9);
                write_id(&mut writer, *id);
            }
            Self::Join { about, answer } => {
                writer.u8(10);
                write_about(&mut writer, about);
                writer.u8(u8::from(*answer));
            }
            Self::Leave => {
                writer.u8(11);
            }
            Self::Prove { nonce } => {
                writer.u8(12).u64(*nonce);
            }
            Self::Proof { nonce, about } => {
                writer.u8(13).u64(*nonce);
                write_about(&mut writer, about);
            }
        }
        bytes.into()
    }
}

/// Reads the header and the payload of data and repairs; `None` if it is anything else.
pub(super) fn data(body: &[u8]) -> Result<Option<(DataHeader, &[u8])>, DecodeError> {
    let mut reader = Reader::new(body);
    let carries = match reader.u8("kind")? {
        1 => Carries::Data,
        2 => Carries::Repair,
        3 => Carries::MulticastRepair,
        _ => return Ok(None),
    };
    let tree = reader.u16("tree")?;
    let id = id(&mut reader)?;
    let header = DataHeader { carries, tree, id };
    Ok(Some((header, &body[DATA_HEADER..])))
}

fn id(reader: &mut Reader<'_>) -> Result<MessageId, DecodeError> {
    let sender = reader.member("origin")?;
    let number = reader.u64("number")?;
    if number == 0 || number > NUMBER_MAX {
        return Err(reader.invalid("number", number));
    }
    Ok(MessageId { sender, number })
}

fn write_id(writer: &mut Writer<'_>, id: MessageId) {
    writer.member(id.sender).u64(id.number);
}

fn about(reader: &mut Reader<'_>) -> Result<SelfDescription, DecodeError> {
    Ok(SelfDescription {
        heartbeat: Heartbeat(reader.varint("heartbeat")?),
        zone: reader.u32("zone")?,
        link: reader.u8("link")? != 0,
        sent: match reader.varint("sent")? {
            sent if sent <= NUMBER_MAX => sent,
            sent => return Err(reader.invalid("sent", sent)),
        },
    })
}

fn write_about(writer: &mut Writer<'_>, about: &SelfDescription) {
    writer
        .varint(about.heartbeat.0)
        .u32(about.zone)
        .u8(u8::from(about.link))
        .varint(about.sent);
}

fn gossip(reader: &mut Reader<'_>) -> Result<Gossip, DecodeError> {
    let round = RoundNumber(reader.u64("round")?);
    let about = about(reader)?;
    let mut alive = Vec::new();
    for _ in 0..reader.u8("signs of life")? {
        let member = reader.member("member")?;
        alive.push((member, Heartbeat(reader.varint("heartbeat")?)));
    }
    Ok(Gossip {
        round,
        about,
        alive,
        digest: digest::read(reader)?,
    })
}

fn write_gossip(writer: &mut Writer<'_>, gossip: &Gossip) {
    writer.u8(4).u64(gossip.round.0);
    write_about(writer, &gossip.about);
    writer.u8(gossip.alive.len().min(255) as u8);
    for (member, heartbeat) in gossip.alive.iter().take(255) {
        writer.member(*member).varint(heartbeat.0);
    }
    digest::write(writer, &gossip.digest);
}
