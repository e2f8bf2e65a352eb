//! What members of a gossip group say to each other, byte by byte.
//!
//! Every body begins with one byte, its kind; members are 16 bytes, `v` is a varint, other numbers are big-endian.
//!
//! | kind | name | fields |
//! |---|---|---|
//! | 1 | data | tree (2; 65535 = multicast), origin (16), number (8), payload |
//! | 2 | repair | as data |
//! | 3 | multicast repair | as data |
//! | 4 | gossip | round (8), [self-description](About), count (1) and that many signs of life, digest |
//! | 5 | request | round (8), origin (16), number (8) |
//! | 6 | special request | requestor (16), origin (16), number (8) |
//! | 7 | info | gossiper (16), origin (16), number (8) |
//! | 8 | mcast | origin (16), number (8) |
//! | 9 | multicast request | origin (16), number (8) |
//! | 10 | join | self-description, answer wanted (1) |
//! | 11 | leave | |
//!
//! A sign of life is a member (16) and its heartbeat (v). A digest is a list, to the end of the body, of
//!
//! | field | size | meaning |
//! |---|---|---|
//! | origin | 16 | whose messages |
//! | flags | 1 | bit 0: each run of numbers held is followed by a bit for each; bit 1: there are gaps |
//! | runs | 1 | how many runs of numbers held |
//! | run | v, v, bits | highest first: distance of its last number from the run before (the first: the number itself), how many more numbers, low-order bit first: was the highest, the next … repaired |
//! | gaps | 1 | how many runs that the sender misses; the same without bits |

use alloc::vec::Vec;

use bytes::{Buf as _, Bytes};
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{MemberId, MessageId};

/// Bytes before a payload.
pub(super) const DATA_HEADER: usize = 1 + 2 + 16 + 8;

/// In the place of a tree: multicast.
pub(super) const NO_TREE: u16 = u16::MAX;

/// The most runs in a list.
const RUNS_MAX: usize = 255;

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

/// What a member says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct About {
    /// Grows with every round: a sign of life.
    pub(super) heartbeat: u64,
    /// Its LAN.
    pub(super) zone: u32,
    /// Whether it gossips with other zones.
    pub(super) link: bool,
    /// How many messages it has sent.
    pub(super) sent: u64,
}

/// Consecutive numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Those that the gossiper has repaired, highest first.
    pub(super) flagged: Vec<u64>,
}

/// What a gossiper holds of one sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Holding {
    pub(super) origin: MemberId,
    /// Highest first.
    pub(super) runs: Vec<Run>,
    /// What the gossiper misses, highest first.
    pub(super) gaps: Vec<Run>,
}

/// A gossip message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Gossip {
    pub(super) round: u64,
    pub(super) about: About,
    pub(super) alive: Vec<(MemberId, u64)>,
    pub(super) digest: Vec<Holding>,
}

/// A body, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Data { header: DataHeader, payload: Bytes },
    Gossip(Gossip),
    Request { round: u64, id: MessageId },
    Special { requestor: MemberId, id: MessageId },
    Info { gossiper: MemberId, id: MessageId },
    Mcast { id: MessageId },
    MulticastRequest { id: MessageId },
    Join { about: About, answer: bool },
    Leave,
}

impl Message {
    /// Reads a body; a payload is not copied.
    pub(super) fn decode(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let kind = reader.u8("kind")?;
        let message = match kind {
            1..=3 => {
                let header = DataHeader {
                    carries: match kind {
                        1 => Carries::Data,
                        2 => Carries::Repair,
                        _ => Carries::MulticastRepair,
                    },
                    tree: reader.u16("tree")?,
                    id: id(&mut reader)?,
                };
                let mut payload = body.clone();
                payload.advance(DATA_HEADER);
                return Ok(Self::Data { header, payload });
            }
            4 => Self::Gossip(gossip(&mut reader)?),
            5 => Self::Request {
                round: reader.u64("round")?,
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
                writer.u8(5).u64(*round);
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
        }
        bytes.into()
    }
}

fn id(reader: &mut Reader<'_>) -> Result<MessageId, DecodeError> {
    let sender = reader.member("origin")?;
    let number = reader.u64("number")?;
    if number == 0 {
        return Err(reader.invalid("number", number));
    }
    Ok(MessageId { sender, number })
}

fn write_id(writer: &mut Writer<'_>, id: MessageId) {
    writer.member(id.sender).u64(id.number);
}

fn about(reader: &mut Reader<'_>) -> Result<About, DecodeError> {
    Ok(About {
        heartbeat: reader.varint("heartbeat")?,
        zone: reader.u32("zone")?,
        link: reader.u8("link")? != 0,
        sent: reader.varint("sent")?,
    })
}

fn write_about(writer: &mut Writer<'_>, about: &About) {
    writer
        .varint(about.heartbeat)
        .u32(about.zone)
        .u8(u8::from(about.link))
        .varint(about.sent);
}

fn gossip(reader: &mut Reader<'_>) -> Result<Gossip, DecodeError> {
    let round = reader.u64("round")?;
    let about = about(reader)?;
    let mut alive = Vec::new();
    for _ in 0..reader.u8("signs of life")? {
        alive.push((reader.member("member")?, reader.varint("heartbeat")?));
    }
    let mut digest = Vec::new();
    while reader.remaining() > 0 {
        let origin = reader.member("origin")?;
        let flags = reader.u8("flags")?;
        digest.push(Holding {
            origin,
            runs: runs(reader, flags & 1 != 0)?,
            gaps: if flags & 2 != 0 {
                runs(reader, false)?
            } else {
                Vec::new()
            },
        });
    }
    Ok(Gossip {
        round,
        about,
        alive,
        digest,
    })
}

fn write_gossip(writer: &mut Writer<'_>, gossip: &Gossip) {
    writer.u8(4).u64(gossip.round);
    write_about(writer, &gossip.about);
    writer.u8(gossip.alive.len().min(255) as u8);
    for (member, heartbeat) in gossip.alive.iter().take(255) {
        writer.member(*member).varint(*heartbeat);
    }
    for holding in &gossip.digest {
        let flagged = holding.runs.iter().any(|run| !run.flagged.is_empty());
        let gaps = !holding.gaps.is_empty();
        writer.member(holding.origin);
        writer.u8(u8::from(flagged) | u8::from(gaps) << 1);
        write_runs(writer, &holding.runs, flagged);
        if gaps {
            write_runs(writer, &holding.gaps, false);
        }
    }
}

fn runs(reader: &mut Reader<'_>, bits: bool) -> Result<Vec<Run>, DecodeError> {
    let count = reader.u8("runs")?;
    let mut runs = Vec::with_capacity(usize::from(count).min(reader.remaining() / 2));
    let mut before = None;
    for _ in 0..count {
        let distance = reader.varint("run")?;
        let last = match before {
            None => distance,
            Some(before) => u64::checked_sub(before, distance).unwrap_or(0),
        };
        let more = reader.varint("length")?;
        // Numbers begin at 1, and runs do not touch: a distance of 1 would go on with the run before.
        if last <= more || (before.is_some() && distance < 2) {
            return Err(reader.invalid("run", distance));
        }
        let first = last - more;
        let mut flagged = Vec::new();
        if bits {
            for byte in 0..more / 8 + 1 {
                let set = reader.u8("repaired")?;
                for bit in (0..8).filter(|bit| set >> bit & 1 == 1) {
                    let below = byte * 8 + bit;
                    if below > more {
                        return Err(reader.invalid("repaired", u64::from(set)));
                    }
                    flagged.push(last - below);
                }
            }
        }
        runs.push(Run {
            first,
            last,
            flagged,
        });
        before = Some(first);
    }
    Ok(runs)
}

fn write_runs(writer: &mut Writer<'_>, runs: &[Run], bits: bool) {
    let runs = &runs[..runs.len().min(RUNS_MAX)];
    writer.u8(runs.len() as u8);
    let mut before = None;
    for run in runs {
        let more = run.last - run.first;
        writer.varint(before.map_or(run.last, |before| before - run.last));
        writer.varint(more);
        before = Some(run.first);
        if bits {
            let mut set = alloc::vec![0u8; (more / 8 + 1) as usize];
            for number in &run.flagged {
                let below = run.last - number;
                set[(below / 8) as usize] |= 1 << (below % 8);
            }
            writer.put(&set);
        }
    }
}

/// Bytes of one more run, at most.
pub(super) fn run_len(first: u64, last: u64, bits: bool) -> usize {
    let bits = if bits { (last - first) / 8 + 1 } else { 0 };
    varint_len(last) + varint_len(last - first) + bits as usize
}

fn varint_len(value: u64) -> usize {
    (64 - value.leading_zeros()).div_ceil(7).max(1) as usize
}

/// Bytes of a sender in a digest, without its runs.
pub(super) const HOLDING_LEN: usize = 16 + 1 + 1 + 1;

/// The most runs of a sender in a digest.
pub(super) const HOLDING_RUNS_MAX: usize = RUNS_MAX;

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

    fn run(first: u64, last: u64, flagged: &[u64]) -> Run {
        Run {
            first,
            last,
            flagged: flagged.to_vec(),
        }
    }

    fn all() -> Vec<Message> {
        let id = MessageId {
            sender: member(7),
            number: 300,
        };
        let about = About {
            heartbeat: 5,
            zone: 2,
            link: true,
            sent: 400,
        };
        let holding = Holding {
            origin: member(7),
            runs: alloc::vec![run(290, 300, &[300, 291, 290]), run(1, 288, &[17])],
            gaps: alloc::vec![run(289, 289, &[])],
        };
        let header = DataHeader {
            carries: Carries::MulticastRepair,
            tree: NO_TREE,
            id,
        };
        let payload = Bytes::from_static(b"abc");
        alloc::vec![
            Message::Data { header, payload },
            Message::Gossip(Gossip {
                round: 9,
                about,
                alive: alloc::vec![(member(3), 1000)],
                digest: alloc::vec![holding],
            }),
            Message::Request { round: 9, id },
            Message::Special {
                requestor: member(4),
                id,
            },
            Message::Info {
                gossiper: member(4),
                id,
            },
            Message::Mcast { id },
            Message::MulticastRequest { id },
            Message::Join {
                about,
                answer: true,
            },
            Message::Leave,
        ]
    }

    #[test]
    fn every_message_comes_back() {
        for message in all() {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn the_bytes_of_a_request_are_pinned() {
        let id = MessageId {
            sender: member(0x0102),
            number: 3,
        };
        let bytes = Message::Request { round: 7, id }.encode();
        let expected = [
            5, 0, 0, 0, 0, 0, 0, 0, 7, // kind, round
            0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 1, 3, // origin
            0, 0, 0, 0, 0, 0, 0, 3, // number
        ];
        assert_eq!(bytes[..], expected);
    }

    #[test]
    fn a_run_that_reaches_below_the_first_number_is_refused() {
        let holding = |first, last| Holding {
            origin: member(1),
            runs: alloc::vec![run(first, last, &[])],
            gaps: Vec::new(),
        };
        let gossip = |holding| {
            Message::Gossip(Gossip {
                round: 1,
                about: About {
                    heartbeat: 0,
                    zone: 0,
                    link: false,
                    sent: 0,
                },
                alive: Vec::new(),
                digest: alloc::vec![holding],
            })
        };
        assert!(Message::decode(&gossip(holding(1, 5)).encode()).is_ok());
        assert!(Message::decode(&gossip(holding(0, 5)).encode()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused_and_what_decodes_comes_back(kind in 0u8..13, rest: Vec<u8>) {
            let body = Bytes::from([&[kind], &rest[..]].concat());
            if let Ok(message) = Message::decode(&body) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }

        #[test]
        fn a_cut_message_is_refused(at in 1usize..200, which in 1usize..8) {
            let bytes = all()[which].encode();
            if at < bytes.len() && which != 1 {
                prop_assert!(Message::decode(&bytes.slice(..at)).is_err());
            }
        }
    }
}
