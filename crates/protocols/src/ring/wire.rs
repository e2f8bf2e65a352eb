//! Datagram bodies of the ring.
//!
//! The first byte is the kind. Integers are big-endian; a *key* is a ring's identity on the wire, (counter 8,
//! representative's incarnation 8), enough because incarnations are never reused; a *list* is a count (2) and items.
//!
//! | kind | layout after the kind byte |
//! |---|---|
//! | 1 data | flags 1, origin 2, key 16, seq 8, round 4, [old seq 8, old origin 2 if recovered], body |
//! | 2 token | flags 1, key 16, hop 8, seq 8, aru 8, aru-by 2, fcc 4, retransmissions 4, backlog 4, install 8, list of (first 8, count 2), extensions |
//! | 3 join | flags 1, attempt 8, counter 8, lists of members: proc, fail, left, heard |
//! | 4 commit token | hop 8, ring 24, list of left members, list of (member 16, attempt 8, filled 1, old ring 24, aru 8, high 8, safe 8, obligations 16) |
//! | 5 announcement | ring 24, lists of members: members, heard |
//! | 6 acknowledgement | key 16, hop 8 |
//! | 7 hurry | key 16 |
//! | 8 unordered | flags 1 (0), origin 2, key 16, one record |
//! | 9 name in use | uptime in ms 8 |
//!
//! Extensions of the token: (type 1, length 2, bytes) until the end; unknown ones are skipped and not passed on.

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{ConfigId, Incarnation, MemberId};

use super::indices::Indices;

/// Bytes of a data packet before its body.
pub(super) const DATA_HEADER: usize = 32;
/// Bytes that a recovered packet's header has more.
pub(super) const RECOVERED_HEADER: usize = 10;
/// The most runs of missing sequence numbers that a token carries.
pub(super) const RTR_RUNS_MAX: usize = 64;

const FLAG_POST_TOKEN: u8 = 1;
const FLAG_RECOVERED: u8 = 2;
const FLAG_IDLE: u8 = 1;
const FLAG_INSTALLED: u8 = 2;
const FLAG_LEAVING: u8 = 1;
const NOBODY: u16 = u16::MAX;

/// A ring's identity on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RingKey {
    pub(super) counter: u64,
    pub(super) incarnation: Incarnation,
}

impl From<ConfigId> for RingKey {
    fn from(id: ConfigId) -> Self {
        Self {
            counter: id.counter,
            incarnation: id.representative.incarnation,
        }
    }
}

/// Index of a member in its ring.
pub(super) type Index = u16;

/// A data packet (002 III-B), as it is stored and as it travels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    /// Who initiated it.
    pub(super) origin: Index,
    /// The initiator's token visit in which it was.
    pub(super) round: u32,
    /// What it was in an old ring, if it is recovered from one.
    pub(super) recovered: Option<Recovered>,
    /// Packed records.
    pub(super) body: Bytes,
}

/// The place of a recovered packet in its old ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Recovered {
    pub(super) seq: u64,
    pub(super) origin: Index,
}

/// A data packet as it arrives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Data {
    pub(super) ring: RingKey,
    pub(super) seq: u64,
    /// Sent after the token of its round (002 III-C, second method).
    pub(super) post_token: bool,
    pub(super) packet: Packet,
}

/// Header of a data packet, ready to be sent before the body.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataHeader {
    bytes: [u8; DATA_HEADER + RECOVERED_HEADER],
    len: u8,
}

impl DataHeader {
    pub(super) fn new(ring: RingKey, seq: u64, post_token: bool, packet: &Packet) -> Self {
        let mut bytes = [0; DATA_HEADER + RECOVERED_HEADER];
        bytes[0] = Kind::Data as u8;
        bytes[1] = if post_token { FLAG_POST_TOKEN } else { 0 };
        bytes[2..4].copy_from_slice(&packet.origin.to_be_bytes());
        bytes[4..12].copy_from_slice(&ring.counter.to_be_bytes());
        bytes[12..20].copy_from_slice(&ring.incarnation.0.to_be_bytes());
        bytes[20..28].copy_from_slice(&seq.to_be_bytes());
        bytes[28..32].copy_from_slice(&packet.round.to_be_bytes());
        let mut len = DATA_HEADER;
        if let Some(Recovered { seq, origin }) = packet.recovered {
            bytes[1] |= FLAG_RECOVERED;
            bytes[32..40].copy_from_slice(&seq.to_be_bytes());
            bytes[40..42].copy_from_slice(&origin.to_be_bytes());
            len += RECOVERED_HEADER;
        }
        Self {
            bytes,
            len: len as u8,
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The token (002 III-A), with what recovery and idling add.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) ring: RingKey,
    /// Grows with every hop: tells a retransmitted token from the next one.
    pub(super) hop: u64,
    /// The last sequence number claimed.
    pub(super) seq: u64,
    /// All-received-up-to.
    pub(super) aru: u64,
    /// Who lowered aru, if somebody did.
    pub(super) aru_by: Option<Index>,
    /// Packets multicast during the last rotation, retransmissions included.
    pub(super) fcc: u32,
    /// Retransmissions among them.
    pub(super) retransmissions: u32,
    /// Recovery: packets that members still have to re-originate.
    pub(super) backlog: u32,
    /// Recovery: who holds all up to here holds everything of its old ring.
    pub(super) install: Option<u64>,
    /// Recovery: some member has installed the ring.
    pub(super) installed: bool,
    /// Nobody had anything to say: receivers acknowledge the token, the representative may hold it.
    pub(super) idle: bool,
    /// Missing packets, as runs (first, count), ascending.
    pub(super) rtr: Vec<(u64, u16)>,
}

/// A member's view of who is there (Totem's join message).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Join {
    /// The sender's count of its own changes of mind: a lower one is stale, an equal one a repetition.
    pub(super) attempt: u64,
    /// The highest ring counter that the sender has seen.
    pub(super) counter: u64,
    /// The sender says good-bye.
    pub(super) leaving: bool,
    /// Who should be in the next ring.
    pub(super) proc: Vec<MemberId>,
    /// Who should not.
    pub(super) fail: Vec<MemberId>,
    /// Who said good-bye.
    pub(super) left: Vec<MemberId>,
    /// Strangers that the sender hears: evidence for them that the way back works.
    pub(super) heard: Vec<MemberId>,
}

/// The commit token: the next ring's members, and what each holds of its old ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Commit {
    /// Hop k·n + i arrives at member i on its k-th pass.
    pub(super) hop: u64,
    pub(super) ring: ConfigId,
    pub(super) left: Vec<MemberId>,
    pub(super) members: Vec<CommitMember>,
}

/// One member's part of the commit token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CommitMember {
    pub(super) member: MemberId,
    /// The attempt of its join that the representative agreed with.
    pub(super) attempt: u64,
    /// What it holds; `None` until the token has passed it.
    pub(super) holding: Option<Holding>,
}

/// What a member holds of its old ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Holding {
    /// The last ring that it installed; of its own, with counter 0, if none.
    pub(super) ring: ConfigId,
    pub(super) aru: u64,
    pub(super) high: u64,
    /// All members of the old ring are known to hold all up to here.
    pub(super) safe: u64,
    /// Members of the old ring whose messages it must deliver behind a gap.
    pub(super) obligations: Indices,
}

/// What a ring tells strangers from time to time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Announcement {
    pub(super) ring: ConfigId,
    pub(super) members: Vec<MemberId>,
    /// Strangers that the sender hears.
    pub(super) heard: Vec<MemberId>,
}

/// Any datagram body of the ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Data(Data),
    Token(Token),
    Join(Join),
    Commit(Commit),
    Announcement(Announcement),
    Ack {
        ring: RingKey,
        hop: u64,
    },
    Hurry {
        ring: RingKey,
    },
    Unordered {
        ring: RingKey,
        origin: Index,
        record: Bytes,
    },
    NameInUse {
        uptime_ms: u64,
    },
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Data = 1,
    Token = 2,
    Join = 3,
    Commit = 4,
    Announcement = 5,
    Ack = 6,
    Hurry = 7,
    Unordered = 8,
    NameInUse = 9,
}

impl Message {
    /// Reads a body. The bodies of data and unordered packets are slices of it, not copies.
    pub(super) fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("kind")?;
        let message = match kind {
            1 => return data(reader, bytes),
            2 => Self::Token(token(&mut reader)?),
            3 => Self::Join(join(&mut reader)?),
            4 => Self::Commit(commit(&mut reader)?),
            5 => Self::Announcement(Announcement {
                ring: ring_id(&mut reader)?,
                members: members(&mut reader, "members")?,
                heard: members(&mut reader, "heard")?,
            }),
            6 => Self::Ack {
                ring: key(&mut reader)?,
                hop: reader.u64("hop")?,
            },
            7 => Self::Hurry {
                ring: key(&mut reader)?,
            },
            8 => {
                reader.u8("flags")?;
                let origin = reader.u16("origin")?;
                let ring = key(&mut reader)?;
                return Ok(Self::Unordered {
                    ring,
                    origin,
                    record: bytes.slice(reader.position()..),
                });
            }
            9 => Self::NameInUse {
                uptime_ms: reader.u64("uptime")?,
            },
            other => return Err(reader.invalid("kind", u64::from(other))),
        };
        reader.finish()?;
        Ok(message)
    }

    /// Its bytes.
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(128);
        let mut writer = Writer::new(&mut bytes);
        match self {
            Self::Data(Data {
                ring,
                seq,
                post_token,
                packet,
            }) => {
                writer
                    .put(DataHeader::new(*ring, *seq, *post_token, packet).as_bytes())
                    .put(&packet.body);
            }
            Self::Token(token) => put_token(&mut writer, token),
            Self::Join(join) => {
                writer
                    .u8(Kind::Join as u8)
                    .u8(if join.leaving { FLAG_LEAVING } else { 0 });
                writer.u64(join.attempt).u64(join.counter);
                for list in [&join.proc, &join.fail, &join.left, &join.heard] {
                    put_members(&mut writer, list);
                }
            }
            Self::Commit(commit) => put_commit(&mut writer, commit),
            Self::Announcement(Announcement {
                ring,
                members,
                heard,
            }) => {
                writer.u8(Kind::Announcement as u8).config(*ring);
                put_members(&mut writer, members);
                put_members(&mut writer, heard);
            }
            Self::Ack { ring, hop } => {
                writer.u8(Kind::Ack as u8);
                put_key(&mut writer, *ring);
                writer.u64(*hop);
            }
            Self::Hurry { ring } => {
                writer.u8(Kind::Hurry as u8);
                put_key(&mut writer, *ring);
            }
            Self::Unordered {
                ring,
                origin,
                record,
            } => {
                writer.u8(Kind::Unordered as u8).u8(0).u16(*origin);
                put_key(&mut writer, *ring);
                writer.put(record);
            }
            Self::NameInUse { uptime_ms } => {
                writer.u8(Kind::NameInUse as u8).u64(*uptime_ms);
            }
        }
        bytes.into()
    }
}

/// Sequence numbers and counters that no ring reaches; a peer's bug must not make ours overflow.
const LIMIT: u64 = 1 << 47;

fn counter(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let counter = reader.u64("counter")?;
    if counter < LIMIT {
        Ok(counter)
    } else {
        Err(reader.invalid("counter", counter))
    }
}

fn ring_id(reader: &mut Reader<'_>) -> Result<ConfigId, DecodeError> {
    Ok(ConfigId {
        counter: counter(reader)?,
        representative: reader.member("representative")?,
    })
}

fn key(reader: &mut Reader<'_>) -> Result<RingKey, DecodeError> {
    Ok(RingKey {
        counter: reader.u64("ring counter")?,
        incarnation: Incarnation(reader.u64("ring incarnation")?),
    })
}

fn put_key(writer: &mut Writer<'_>, key: RingKey) {
    writer.u64(key.counter).u64(key.incarnation.0);
}

fn members(reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<MemberId>, DecodeError> {
    let count = reader.count(field, 16)?;
    (0..count).map(|_| reader.member(field)).collect()
}

fn put_members(writer: &mut Writer<'_>, members: &[MemberId]) {
    writer.count(members.len());
    for member in members {
        writer.member(*member);
    }
}

fn data(mut reader: Reader<'_>, bytes: &Bytes) -> Result<Message, DecodeError> {
    let flags = reader.u8("flags")?;
    let origin = reader.u16("origin")?;
    let ring = key(&mut reader)?;
    let seq = reader.u64("seq")?;
    let round = reader.u32("round")?;
    let recovered = if flags & FLAG_RECOVERED != 0 {
        Some(Recovered {
            seq: reader.u64("old seq")?,
            origin: reader.u16("old origin")?,
        })
    } else {
        None
    };
    let packet = Packet {
        origin,
        round,
        recovered,
        body: bytes.slice(reader.position()..),
    };
    Ok(Message::Data(Data {
        ring,
        seq,
        post_token: flags & FLAG_POST_TOKEN != 0,
        packet,
    }))
}

fn token(reader: &mut Reader<'_>) -> Result<Token, DecodeError> {
    let flags = reader.u8("flags")?;
    let mut token = Token {
        ring: key(reader)?,
        hop: reader.u64("hop")?,
        seq: reader.u64("seq")?,
        aru: reader.u64("aru")?,
        aru_by: Some(reader.u16("aru by")?).filter(|index| *index != NOBODY),
        fcc: reader.u32("fcc")?,
        retransmissions: reader.u32("retransmissions")?,
        backlog: reader.u32("backlog")?,
        install: Some(reader.u64("install")?).filter(|seq| *seq != u64::MAX),
        installed: flags & FLAG_INSTALLED != 0,
        idle: flags & FLAG_IDLE != 0,
        rtr: Vec::new(),
    };
    if token.aru > token.seq {
        return Err(reader.invalid("aru", token.aru));
    }
    let runs = reader.count("rtr", 10)?;
    if runs > RTR_RUNS_MAX {
        return Err(reader.invalid("rtr", runs as u64));
    }
    for _ in 0..runs {
        let (first, count) = (reader.u64("rtr first")?, reader.u16("rtr count")?);
        let follows = token.rtr.last().is_none_or(|(first_before, count_before)| {
            first > first_before.saturating_add(u64::from(*count_before))
        });
        if count == 0
            || !follows
            || first.saturating_add(u64::from(count)) > token.seq.saturating_add(1)
        {
            return Err(reader.invalid("rtr first", first));
        }
        token.rtr.push((first, count));
    }
    while reader.remaining() > 0 {
        reader.u8("extension type")?;
        let len = reader.u16("extension length")?;
        reader.take("extension", usize::from(len))?;
    }
    Ok(token)
}

fn put_token(writer: &mut Writer<'_>, token: &Token) {
    let flags =
        if token.idle { FLAG_IDLE } else { 0 } | if token.installed { FLAG_INSTALLED } else { 0 };
    writer.u8(Kind::Token as u8).u8(flags);
    put_key(writer, token.ring);
    writer
        .u64(token.hop)
        .u64(token.seq)
        .u64(token.aru)
        .u16(token.aru_by.unwrap_or(NOBODY));
    writer
        .u32(token.fcc)
        .u32(token.retransmissions)
        .u32(token.backlog);
    writer
        .u64(token.install.unwrap_or(u64::MAX))
        .count(token.rtr.len());
    for (first, count) in &token.rtr {
        writer.u64(*first).u16(*count);
    }
}

fn join(reader: &mut Reader<'_>) -> Result<Join, DecodeError> {
    let flags = reader.u8("flags")?;
    Ok(Join {
        leaving: flags & FLAG_LEAVING != 0,
        attempt: reader.u64("attempt")?,
        counter: counter(reader)?,
        proc: members(reader, "proc")?,
        fail: members(reader, "fail")?,
        left: members(reader, "left")?,
        heard: members(reader, "heard")?,
    })
}

fn indices(reader: &mut Reader<'_>) -> Result<Indices, DecodeError> {
    let (high, low) = (reader.u64("obligations")?, reader.u64("obligations")?);
    Ok(Indices(u128::from(high) << 64 | u128::from(low)))
}

fn commit(reader: &mut Reader<'_>) -> Result<Commit, DecodeError> {
    let hop = reader.u64("hop")?;
    let ring = ring_id(reader)?;
    let left = members(reader, "left")?;
    let count = reader.count("members", 16 + 8 + 1 + 24 + 24 + 16)?;
    let mut parts: Vec<CommitMember> = Vec::with_capacity(count);
    for _ in 0..count {
        let member = reader.member("member")?;
        if parts.last().is_some_and(|before| before.member >= member) {
            return Err(reader.invalid("member", member.node.0));
        }
        let attempt = reader.u64("attempt")?;
        let filled = reader.u8("filled")? != 0;
        let holding = Holding {
            ring: ring_id(reader)?,
            aru: reader.u64("aru")?,
            high: reader.u64("high")?,
            safe: reader.u64("safe")?,
            obligations: indices(reader)?,
        };
        if filled
            && (holding.aru > holding.high || holding.safe > holding.aru || holding.high >= LIMIT)
        {
            return Err(reader.invalid("holding", holding.aru));
        }
        parts.push(CommitMember {
            member,
            attempt,
            holding: filled.then_some(holding),
        });
    }
    Ok(Commit {
        hop,
        ring,
        left,
        members: parts,
    })
}

fn put_commit(writer: &mut Writer<'_>, commit: &Commit) {
    writer
        .u8(Kind::Commit as u8)
        .u64(commit.hop)
        .config(commit.ring);
    put_members(writer, &commit.left);
    writer.count(commit.members.len());
    for CommitMember {
        member,
        attempt,
        holding,
    } in &commit.members
    {
        let empty = Holding {
            ring: commit.ring,
            aru: 0,
            high: 0,
            safe: 0,
            obligations: Indices::default(),
        };
        let Holding {
            ring,
            aru,
            high,
            safe,
            obligations,
        } = holding.unwrap_or(empty);
        writer
            .member(*member)
            .u64(*attempt)
            .u8(holding.is_some().into());
        writer
            .config(ring)
            .u64(aru)
            .u64(high)
            .u64(safe)
            .put(&obligations.0.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use groupcast_core::NodeId;
    use proptest::prelude::*;

    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node << 32 | 7),
        }
    }

    fn ring() -> ConfigId {
        ConfigId {
            counter: 3,
            representative: member(1),
        }
    }

    fn examples() -> Vec<Message> {
        let packet = Packet {
            origin: 2,
            round: 9,
            recovered: None,
            body: Bytes::from_static(b"body"),
        };
        let recovered = Some(Recovered { seq: 77, origin: 1 });
        let holding = Holding {
            ring: ring(),
            aru: 5,
            high: 8,
            safe: 4,
            obligations: Indices(5),
        };
        vec![
            Message::Data(Data {
                ring: ring().into(),
                seq: 12,
                post_token: true,
                packet: packet.clone(),
            }),
            Message::Data(Data {
                ring: ring().into(),
                seq: 13,
                post_token: false,
                packet: Packet {
                    recovered,
                    ..packet
                },
            }),
            Message::Token(token()),
            Message::Join(Join {
                attempt: 4,
                counter: 3,
                leaving: true,
                proc: vec![member(1), member(2)],
                fail: vec![member(2)],
                left: vec![],
                heard: vec![member(5)],
            }),
            Message::Commit(Commit {
                hop: 6,
                ring: ring(),
                left: vec![member(9)],
                members: vec![
                    CommitMember {
                        member: member(1),
                        attempt: 2,
                        holding: Some(holding),
                    },
                    CommitMember {
                        member: member(2),
                        attempt: 3,
                        holding: None,
                    },
                ],
            }),
            Message::Announcement(Announcement {
                ring: ring(),
                members: vec![member(1)],
                heard: vec![],
            }),
            Message::Ack {
                ring: ring().into(),
                hop: 5,
            },
            Message::Hurry {
                ring: ring().into(),
            },
            Message::Unordered {
                ring: ring().into(),
                origin: 1,
                record: Bytes::from_static(b"record"),
            },
            Message::NameInUse { uptime_ms: 1234 },
        ]
    }

    fn token() -> Token {
        Token {
            ring: ring().into(),
            hop: 41,
            seq: 20,
            aru: 15,
            aru_by: Some(1),
            fcc: 6,
            retransmissions: 2,
            backlog: 1,
            install: Some(18),
            installed: true,
            idle: false,
            rtr: vec![(16, 1), (18, 2)],
        }
    }

    #[test]
    fn every_message_comes_back() {
        for message in examples() {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn no_prefix_of_a_control_message_decodes() {
        for message in examples() {
            if matches!(message, Message::Data(_) | Message::Unordered { .. }) {
                continue;
            }
            let bytes = message.encode();
            for len in 0..bytes.len() {
                assert!(
                    Message::decode(&bytes.slice(..len)).is_err(),
                    "{message:?} cut to {len} bytes"
                );
            }
        }
    }

    #[test]
    fn the_layout_of_data_and_token_is_pinned() {
        let hex = |message: &Message| {
            message
                .encode()
                .iter()
                .map(|byte| alloc::format!("{byte:02x}"))
                .collect::<alloc::string::String>()
        };
        assert_eq!(
            hex(&examples()[1]),
            "0102000200000000000000030000000100000007000000000000000d00000009000000000000004d0001626f6479"
        );
        assert_eq!(
            hex(&Message::Token(token())),
            "02020000000000000003000000010000000700000000000000290000000000000014000000000000000f0001\
             0000000600000002000000010000000000000012000200000000000000100001000000000000001200\
             02"
        );
    }

    #[test]
    fn an_unknown_extension_of_the_token_is_skipped() {
        let mut bytes = Message::Token(token()).encode().to_vec();
        bytes.extend_from_slice(&[200, 0, 3, 1, 2, 3]);
        assert_eq!(Message::decode(&bytes.into()), Ok(Message::Token(token())));
    }

    #[test]
    fn requests_beyond_seq_or_out_of_order_are_refused() {
        for rtr in [
            vec![(21, 1)],
            vec![(18, 2), (16, 1)],
            vec![(16, 3), (18, 1)],
            vec![(u64::MAX, 9)],
        ] {
            let bytes = Message::Token(Token { rtr, ..token() }).encode();
            assert!(matches!(
                Message::decode(&bytes),
                Err(DecodeError::Invalid {
                    field: "rtr first",
                    ..
                })
            ));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes: Vec<u8>) {
            let _ = Message::decode(&bytes.into());
        }

        #[test]
        fn damaged_messages_decode_or_are_refused(which in 0usize..10, at: prop::sample::Index, flip in 1u8..) {
            let mut bytes = examples()[which].encode().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let _ = Message::decode(&bytes.into());
        }
    }
}
