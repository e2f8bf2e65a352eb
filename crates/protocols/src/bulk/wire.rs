//! Datagram bodies of bulk transfers. All integers are big-endian; a varint has seven bits a byte, lowest first.
//!
//! Every body begins with its kind (1) and its transfer's number (4); the sender of a transfer is who the datagram is
//! from, or whom it is addressed to.
//!
//! | kind | from | after kind and number |
//! |---|---|---|
//! | 1 data | sender | flags (1): 1 answer, 2 last, 4 again; index (2): 0; stamp (8); packet number (8); bytes of the stream |
//! | 8 parity | sender | as data: index of the parity packet; number of the first packet of its block; parity |
//! | 2 announce | sender | policy (1), its parameter (4), flags (1): 1 go-back-N, 2 registers are multicast, 4 confirm; packet size (4); packets of a block, 0 if there is no parity (2); length plus one, 0 if open (varint); longest delay of a NAK in µs, 0 if unicast (varint); description |
//! | 3 start | sender | pass (2), flags (1): 1 answer, 2 data comes from the start; receivers in all (2), first (2), count (2), members (16 each) |
//! | 4 report | receiver | see [`Report`] |
//! | 5 poll | sender | pass (2), stamp (8), top: one past the highest packet sent (8), length plus one (varint) |
//! | 6 finish | sender | how (1): 1 done, 2 cancelled, 3 dropped; reason |
//! | 7 refuse | receiver | reason |
//!
//! Packet `n` carries the bytes of the stream from `n` × packet size on; all packets are full but the last.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{Incarnation, MemberId};

use super::config::Policy;

/// Bytes of a data packet before its part of the stream.
pub(super) const DATA_HEADER: usize = 24;
/// The most bytes of a reason.
pub(super) const REASON_MAX: usize = 512;
/// The most bytes of a receiver's name.
pub(super) const NAME_MAX: usize = 255;

/// Any datagram body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Data(Data),
    Announce(Announce),
    Start(Start),
    Report(Report),
    Poll(Poll),
    Finish(Finish),
    Refuse(String),
}

/// A packet of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Data {
    pub(super) header: DataHeader,
    pub(super) body: Bytes,
}

/// What a data packet says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DataHeader {
    pub(super) transfer: u32,
    /// Everybody is to report (001: the flagged packets of polling).
    pub(super) answer: bool,
    /// The stream ends with it.
    pub(super) last: bool,
    /// It was sent before. For whoever measures.
    pub(super) again: bool,
    /// The sender's count of transmissions.
    pub(super) stamp: u64,
    pub(super) number: u64,
    /// It is this parity packet of the block that begins with the number.
    pub(super) parity: Option<u16>,
}

impl DataHeader {
    pub(super) fn encode(self) -> [u8; DATA_HEADER] {
        let mut bytes = [0; DATA_HEADER];
        let flags = u8::from(self.answer) | u8::from(self.last) << 1 | u8::from(self.again) << 2;
        bytes[0] = if self.parity.is_some() { 8 } else { 1 };
        bytes[1..5].copy_from_slice(&self.transfer.to_be_bytes());
        bytes[5] = flags;
        bytes[6..8].copy_from_slice(&self.parity.unwrap_or(0).to_be_bytes());
        bytes[8..16].copy_from_slice(&self.stamp.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }
}

/// What a transfer is, for those who may want it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Announce {
    pub(super) policy: Policy,
    pub(super) go_back: bool,
    /// Receivers register by multicast, so that they know each other.
    pub(super) meet: bool,
    pub(super) confirm: bool,
    pub(super) packet: u32,
    /// Packets of a block; 0 if there is no parity.
    pub(super) block: u16,
    pub(super) length: Option<u64>,
    /// The longest delay of a multicast NAK, in microseconds.
    pub(super) nak_delay_us: Option<u64>,
    pub(super) about: Bytes,
}

/// A pass begins: a page of its receivers, in the order of the ring or of the chains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Start {
    pub(super) pass: u16,
    /// Each is to report what it needs.
    pub(super) answer: bool,
    pub(super) receivers: u16,
    pub(super) first: u16,
    pub(super) members: Vec<MemberId>,
}

/// What a report is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// It takes part (the first report).
    Register,
    /// It has room, and says what it needs in this pass.
    Ready,
    /// It acknowledges.
    Acknowledge,
    /// It misses something.
    Nak,
}

/// How far a receiver is with the whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// It misses something, or does not know yet.
    Receiving,
    /// It has everything; its user has not concluded.
    Holding,
    /// Its user has concluded that all is well.
    Concluded,
    /// Its user has given up.
    Failed(String),
}

/// What a receiver says of itself (and, in a chain, of all behind it).
///
/// | bytes | field |
/// |---|---|
/// | 8 | incarnation of the sender that it is for |
/// | 1 | purpose: 1 register, 2 ready, 3 acknowledge, 4 NAK |
/// | 1 | flags: 1 answers a poll, 2 speaks for its chain |
/// | 2 | pass |
/// | 1 | status: 1 receiving, 2 holding, 3 concluded, 4 failed |
/// | varint | next: the lowest packet that it misses |
/// | varint | limit: it takes packets below this one |
/// | varint | seen: the highest stamp that it has seen |
/// | varint | received: transmissions that it has received |
/// | varint | delay: microseconds since it saw that stamp |
/// | varint | told: it lists all that it misses below this packet |
/// | 2 | count of gaps |
/// | varints | of each gap its distance from the end of the one before, and its length |
/// | rest | name, if it registers; else reason, if failed |
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Report {
    /// The sender that it is for: what all hear must say so, as all senders count from 1.
    pub(super) sender: Incarnation,
    pub(super) purpose: Purpose,
    pub(super) answers: bool,
    pub(super) aggregate: bool,
    pub(super) pass: u16,
    pub(super) status: Status,
    pub(super) next: u64,
    pub(super) limit: u64,
    pub(super) seen: u64,
    pub(super) received: u64,
    pub(super) delay_us: u64,
    pub(super) told: u64,
    pub(super) missing: Vec<Range<u64>>,
    pub(super) name: Bytes,
}

/// Everybody is to report, at once and to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Poll {
    pub(super) pass: u16,
    pub(super) stamp: u64,
    /// One past the highest packet that was sent in this pass.
    pub(super) top: u64,
    pub(super) length: Option<u64>,
}

/// The sender is done with somebody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Finish {
    /// The transfer is over; who has everything can forget it.
    Done,
    /// The sender's user gave up.
    Cancelled(String),
    /// The receiver is not served any more.
    Dropped,
}

impl Message {
    /// Reads a body: of which transfer, and what. A data packet's part of the stream is a slice, not a copy.
    pub(super) fn decode(bytes: &Bytes) -> Result<(u32, Self), DecodeError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("kind")?;
        let transfer = reader.u32("transfer")?;
        let message = match kind {
            1 | 8 => Self::Data(data(&mut reader, transfer, bytes, kind == 8)?),
            2 => Self::Announce(announce(&mut reader, bytes)?),
            3 => Self::Start(start(&mut reader)?),
            4 => Self::Report(report(&mut reader, bytes)?),
            5 => Self::Poll(Poll {
                pass: reader.u16("pass")?,
                stamp: reader.u64("stamp")?,
                top: reader.u64("top")?,
                length: reader.varint("length")?.checked_sub(1),
            }),
            6 => Self::Finish(match reader.u8("how")? {
                1 => Finish::Done,
                2 => Finish::Cancelled(reason(&mut reader)?),
                3 => Finish::Dropped,
                other => return Err(reader.invalid("how", u64::from(other))),
            }),
            7 => Self::Refuse(reason(&mut reader)?),
            other => return Err(reader.invalid("kind", u64::from(other))),
        };
        reader.finish()?;
        Ok((transfer, message))
    }

    /// Its bytes, as a body of `transfer`.
    pub(super) fn encode(&self, transfer: u32) -> Bytes {
        let mut bytes = Vec::with_capacity(64);
        let mut writer = Writer::new(&mut bytes);
        match self {
            Self::Data(data) => {
                writer.put(&data.header.encode()).put(&data.body);
            }
            Self::Announce(announce) => put_announce(writer.u8(2).u32(transfer), announce),
            Self::Start(start) => {
                writer.u8(3).u32(transfer).u16(start.pass);
                writer.u8(start.answer.into()).u16(start.receivers);
                writer.u16(start.first).count(start.members.len());
                for member in &start.members {
                    writer.member(*member);
                }
            }
            Self::Report(report) => put_report(writer.u8(4).u32(transfer), report),
            Self::Poll(poll) => {
                writer.u8(5).u32(transfer).u16(poll.pass).u64(poll.stamp);
                writer.u64(poll.top).varint(one_more(poll.length));
            }
            Self::Finish(finish) => {
                writer.u8(6).u32(transfer);
                match finish {
                    Finish::Done => writer.u8(1),
                    Finish::Cancelled(reason) => writer.u8(2).put(cut(reason).as_bytes()),
                    Finish::Dropped => writer.u8(3),
                };
            }
            Self::Refuse(reason) => {
                writer.u8(7).u32(transfer).put(cut(reason).as_bytes());
            }
        }
        bytes.into()
    }
}

/// A length as it travels: 0 says that it is not known.
fn one_more(length: Option<u64>) -> u64 {
    length.map_or(0, |length| length.saturating_add(1))
}

/// As much of a reason as is sent.
fn cut(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_MAX)]
}

fn reason(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let bytes = reader.rest();
    if bytes.len() > REASON_MAX {
        return Err(reader.invalid("reason's length", bytes.len() as u64));
    }
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn data(
    reader: &mut Reader<'_>,
    transfer: u32,
    bytes: &Bytes,
    parity: bool,
) -> Result<Data, DecodeError> {
    let flags = reader.u8("flags")?;
    let index = reader.u16("index")?;
    let header = DataHeader {
        transfer,
        answer: flags & 1 != 0,
        last: flags & 2 != 0,
        again: flags & 4 != 0,
        stamp: reader.u64("stamp")?,
        number: packet(reader, "number")?,
        parity: parity.then_some(index),
    };
    let body = bytes.slice(reader.position()..);
    reader.rest();
    Ok(Data { header, body })
}

/// Packet numbers stay far below the end of 64 bits, so that sums of them do not overflow.
const NUMBER_MAX: u64 = 1 << 60;

fn packet(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, DecodeError> {
    let number = reader.u64(field)?;
    checked(reader, field, number)
}

fn checked(reader: &Reader<'_>, field: &'static str, number: u64) -> Result<u64, DecodeError> {
    if number > NUMBER_MAX {
        return Err(reader.invalid(field, number));
    }
    Ok(number)
}

fn small(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, DecodeError> {
    let number = reader.varint(field)?;
    checked(reader, field, number)
}

fn announce(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Announce, DecodeError> {
    let code = reader.u8("policy")?;
    let parameter = reader.u32("parameter")?;
    let policy = match (code, parameter) {
        (1, _) => Policy::Ack,
        (2, 1..) => Policy::Nak { poll: parameter },
        (3, _) => Policy::Ring,
        (4, 1..) => Policy::Tree { height: parameter },
        _ => return Err(reader.invalid("policy", u64::from(code))),
    };
    let flags = reader.u8("flags")?;
    let packet = reader.u32("packet size")?;
    if packet == 0 || packet as usize > super::BulkConfig::PACKET_MAX {
        return Err(reader.invalid("packet size", u64::from(packet)));
    }
    let block = reader.u16("block")?;
    let length = reader.varint("length")?.checked_sub(1);
    if length.is_some_and(|length| length > NUMBER_MAX) {
        return Err(reader.invalid("length", NUMBER_MAX));
    }
    let nak_delay_us = small(reader, "delay")?;
    if reader.remaining() > super::BulkConfig::ABOUT_MAX {
        return Err(reader.invalid("description's length", reader.remaining() as u64));
    }
    let about = bytes.slice(reader.position()..);
    reader.rest();
    Ok(Announce {
        policy,
        go_back: flags & 1 != 0,
        meet: flags & 2 != 0,
        confirm: flags & 4 != 0,
        packet,
        block,
        length,
        nak_delay_us: (nak_delay_us > 0).then_some(nak_delay_us),
        about,
    })
}

fn put_announce(writer: &mut Writer<'_>, announce: &Announce) {
    let (code, parameter) = match announce.policy {
        Policy::Ack => (1, 0),
        Policy::Nak { poll } => (2, poll),
        Policy::Ring => (3, 0),
        Policy::Tree { height } => (4, height),
    };
    let flags =
        u8::from(announce.go_back) | u8::from(announce.meet) << 1 | u8::from(announce.confirm) << 2;
    writer.u8(code).u32(parameter).u8(flags);
    writer.u32(announce.packet).u16(announce.block);
    writer.varint(one_more(announce.length));
    writer.varint(announce.nak_delay_us.unwrap_or(0));
    writer.put(&announce.about);
}

fn start(reader: &mut Reader<'_>) -> Result<Start, DecodeError> {
    let pass = reader.u16("pass")?;
    let answer = reader.u8("flags")? & 1 != 0;
    let receivers = reader.u16("receivers")?;
    let first = reader.u16("first")?;
    let count = reader.count("members", 16)?;
    if usize::from(first) + count > usize::from(receivers) {
        return Err(reader.invalid("first", u64::from(first)));
    }
    let members = (0..count)
        .map(|_| reader.member("member"))
        .collect::<Result<_, _>>()?;
    Ok(Start {
        pass,
        answer,
        receivers,
        first,
        members,
    })
}

fn report(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Report, DecodeError> {
    let sender = Incarnation(reader.u64("sender")?);
    let purpose = match reader.u8("purpose")? {
        1 => Purpose::Register,
        2 => Purpose::Ready,
        3 => Purpose::Acknowledge,
        4 => Purpose::Nak,
        other => return Err(reader.invalid("purpose", u64::from(other))),
    };
    let flags = reader.u8("flags")?;
    let pass = reader.u16("pass")?;
    let status = reader.u8("status")?;
    let next = small(reader, "next")?;
    let limit = small(reader, "limit")?;
    let seen = reader.varint("seen")?;
    let received = reader.varint("received")?;
    let delay_us = small(reader, "delay")?;
    let told = small(reader, "told")?;
    let count = reader.count("gaps", 2)?;
    let mut missing = Vec::with_capacity(count);
    let mut at = 0;
    for _ in 0..count {
        let start = at + small(reader, "gap's distance")?;
        at = start + small(reader, "gap's length")?;
        if checked(reader, "gap", at)? == start {
            return Err(reader.invalid("gap's length", 0));
        }
        missing.push(start..at);
    }
    let name = if purpose == Purpose::Register {
        let name = bytes.slice(reader.position()..);
        reader.rest();
        if name.len() > NAME_MAX {
            return Err(reader.invalid("name's length", name.len() as u64));
        }
        name
    } else {
        Bytes::new()
    };
    let status = match status {
        1 => Status::Receiving,
        2 => Status::Holding,
        3 => Status::Concluded,
        4 => Status::Failed(reason(reader)?),
        other => return Err(reader.invalid("status", u64::from(other))),
    };
    Ok(Report {
        sender,
        purpose,
        answers: flags & 1 != 0,
        aggregate: flags & 2 != 0,
        pass,
        status,
        next,
        limit,
        seen,
        received,
        delay_us,
        told,
        missing,
        name,
    })
}

fn put_report(writer: &mut Writer<'_>, report: &Report) {
    writer.u64(report.sender.0).u8(match report.purpose {
        Purpose::Register => 1,
        Purpose::Ready => 2,
        Purpose::Acknowledge => 3,
        Purpose::Nak => 4,
    });
    writer.u8(u8::from(report.answers) | u8::from(report.aggregate) << 1);
    writer.u16(report.pass);
    writer.u8(match report.status {
        Status::Receiving => 1,
        Status::Holding => 2,
        Status::Concluded => 3,
        Status::Failed(_) => 4,
    });
    writer.varint(report.next).varint(report.limit);
    writer.varint(report.seen).varint(report.received);
    writer.varint(report.delay_us).varint(report.told);
    writer.count(report.missing.len());
    let mut at = 0;
    for gap in &report.missing {
        writer.varint(gap.start - at).varint(gap.end - gap.start);
        at = gap.end;
    }
    match &report.status {
        _ if report.purpose == Purpose::Register => {
            writer.put(&report.name[..report.name.len().min(NAME_MAX)]);
        }
        Status::Failed(reason) => {
            writer.put(cut(reason).as_bytes());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::NodeId;
    use proptest::prelude::*;

    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node + 1),
        }
    }

    fn examples() -> Vec<Message> {
        let data = Data {
            header: DataHeader {
                transfer: 9,
                answer: true,
                last: false,
                again: true,
                stamp: 77,
                number: 1 << 33,
                parity: None,
            },
            body: Bytes::from_static(b"stream"),
        };
        let mut parity = data.clone();
        parity.header.parity = Some(7);
        let announce = Announce {
            policy: Policy::Tree { height: 6 },
            go_back: true,
            meet: true,
            confirm: false,
            packet: 1400,
            block: 64,
            length: Some(0),
            nak_delay_us: None,
            about: Bytes::from_static(b"about"),
        };
        let start = Start {
            pass: 2,
            answer: true,
            receivers: 9,
            first: 7,
            members: [member(1), member(2)].into(),
        };
        let report = Report {
            sender: Incarnation(8),
            purpose: Purpose::Nak,
            answers: true,
            aggregate: false,
            pass: 2,
            status: Status::Failed("the disk is full".into()),
            next: 5,
            limit: 900,
            seen: 300,
            received: 290,
            delay_us: 12,
            told: 70,
            missing: [5..6, 9..70].into(),
            name: Bytes::new(),
        };
        let poll = Poll {
            pass: 1,
            stamp: 4,
            top: 8,
            length: None,
        };
        [
            Message::Data(data),
            Message::Data(parity),
            Message::Announce(announce),
            Message::Start(start),
            Message::Report(report),
            Message::Poll(poll),
            Message::Finish(Finish::Done),
            Message::Finish(Finish::Cancelled("why".into())),
            Message::Finish(Finish::Dropped),
            Message::Refuse("no".into()),
        ]
        .into()
    }

    #[test]
    fn what_was_encoded_comes_back_and_no_shorter_body_does() {
        for message in examples() {
            let bytes = message.encode(9);
            assert_eq!(Message::decode(&bytes), Ok((9, message)));
            assert!(Message::decode(&bytes.slice(..4)).is_err());
        }
    }

    #[test]
    fn the_layout_of_a_data_packet_is_pinned() {
        let bytes = examples()[0].encode(9);
        assert_eq!(
            bytes[..DATA_HEADER],
            [
                1, 0, 0, 0, 9, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 2, 0, 0, 0, 0
            ]
        );
        assert_eq!(bytes[DATA_HEADER..], *b"stream");
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_a_message_that_encodes_or_to_an_error(kind in 0u8..10, bytes: Vec<u8>) {
            let body: Bytes = [&[kind, 0, 0, 0, 1], &bytes[..]].concat().into();
            if let Ok((transfer, message)) = Message::decode(&body) {
                prop_assert!(message.encode(transfer).len() <= body.len() + 2 * REASON_MAX);
            }
        }

        #[test]
        fn a_damaged_message_is_another_or_an_error(which in 0usize..10, at in 0usize..90, bit in 0u8..8) {
            let mut bytes = examples()[which].encode(1).to_vec();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let body = Bytes::from(bytes);
            if let Ok((transfer, message)) = Message::decode(&body) {
                prop_assert_eq!(Message::decode(&message.encode(transfer)).map(|(_, again)| again), Ok(message));
            }
        }
    }
}
