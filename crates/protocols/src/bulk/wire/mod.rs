//! Datagram bodies of bulk transfers. All integers are big-endian; a varint has seven bits a byte,
//! lowest first.
//!
//! Every body begins with its kind (1) and its transfer's number (4). The sender of the transfer is
//! the member that the datagram comes from, or for the kinds that receivers send, the member that
//! it is addressed to.
//!
//! | kind | from | after kind and number |
//! |---|---|---|
//! | 1 data | sender | flags (1): 1 answer, 2 last, 4 again, 8 rate, 16 says its subgroups, 32 delays begin when the receiver's host has it, 64 a message ends with it; index (2): 0, under the policy XTP how many packets before it are kept (65535: so many or more), under Multidriver in a packet that asks for how many receivers replies back off, on a connection that nobody answers how many packets of its message go before it (65535: so many or more); stamp (8), on a connection that nobody answers the message's number; packet number (8); with flag 16 the subgroups that it is for (8); bytes of the stream |
//! | 8 parity | sender | as data: index of the parity packet, or 65535 for the sum of the block; number of the first packet of its block; parity |
//! | 2 announce | sender | policy (1), and 128 if it is for some subgroups only, 64 if it carries messages, 32 if what was sent can be sent again in a later pass, its parameter (4), flags (1): 1 go-back-N, 2 registers are multicast, 4 confirm, 64 receivers deliver up to marks, 128 they keep it aside until all hold it; of the policy XTP 8 answers are multicast, 16 damped within a request, 32 damped by what they say; of Multidriver 8 return streams are wanted; packet size (4); packets of a block, 0 if there is no parity (2); length plus one, 0 if open (varint); longest delay of a NAK in µs, 0 if unicast (varint); of the policy XTP the longest slot in µs (varint); of Multidriver and List the back-off for each receiver in µs (varint), and the parameter is the set's size, with flag 8 the bytes that each return stream may have without being granted (varint); of Collectors the longest wait of a collector in µs (varint); with flag 64 the first mark (varint); with 64 in the policy when receivers may come (1): 1 at the start, 2 at any time, 3 so that nobody answers; with 128 in the policy the subgroups (8); description |
//! | 3 start | sender | pass (2), flags (1): 1 answer, 4 names collectors, 8 the answer is to say where parity restores, too; receivers in all (2), first (2), count (2), members (16 each; incarnation 0: the place was left); with flag 4 the version of the list (2), count (2), collectors (16 each) |
//! | 4 report | receiver | see [`ReceiverReport`] |
//! | 5 poll | sender | pass (2), stamp (8), top: one past the highest packet sent (8), length plus one (varint) |
//! | 9 request | sender | (XTP) pass (2), stamp (8), top (8), the first packet that is kept (8), length plus one (varint) |
//! | 10 tag | sender | (Multidriver) a request without data: pass (2), stamp (8), top (8), length plus one (varint), flags (1): 4 again, to one that has not replied, 8 rate, 16 says its subgroups; for how many receivers replies back off (2); with flag 16 the subgroups that it is for (8) |
//! | 11 acknowledgement | sender | (Multidriver) of a reply: the stamp that it echoes (8) |
//! | 12 mark | sender | receivers deliver the bytes below (8) |
//! | 13 return acknowledgement | sender | (Multidriver) of a return stream, see [`Returned`] |
//! | 14 composite | receiver | (Collectors) see [`Composite`] |
//! | 15 attend | sender | to one receiver: version (4), attendance (1): 1 attends, 2 stands by, 3 looks in |
//! | 16 join | sender | (XTP) to one receiver that has come late: the first packet of its first message (8), that message's number (varint) |
//! | 18 served | sender | whom (1): 1 the receiver that it is sent to, 2 all; version (4), served (1): 1 now, 2 later, 3 not before the sender goes on; for how many ms that holds, unless it is said again (4) |
//! | 19 missed | receiver | it came too late for this stream: its name |
//! | 17 joined | receiver | (XTP) the number of its first message (varint) |
//! | 6 finish | sender | how (1): 1 done, 2 cancelled, 3 dropped, 4 another receiver has the same name, 5 there are as many receivers as the sender takes, 6 it is for others; reason, of 1 under List the subgroups that it was for (8) |
//! | 7 refuse | receiver | reason; if the receiver has a name, 0 and the name |
//!
//! Packet `n` carries the bytes of the stream from `n` × packet size on; all packets are full but
//! the last. Where it carries messages, one that ends a message may be short, or empty, and the
//! next begins at its place all the same.

mod composite;
mod data;
mod handshake;
mod report;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader, Writer};

pub(super) use self::composite::{Composite, Row};
pub(super) use self::data::{DATA_HEADER, Data, DataHeader, VECTOR};
pub(super) use self::handshake::{Announce, CollectorList, EMPTY_PLACE, Join, Start};
pub(super) use self::report::{NAME_MAX, Part, Purpose, ReceiverReport, ReplyTag, Status};
use super::numbers::{PacketNumber, PassNumber, Stamp};
use super::transfer::Served;
use crate::xgm::Subgroups;

/// The most bytes of a reason.
pub(super) const REASON_MAX: usize = 512;

/// Any datagram body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Data(Data),
    Announce(Announce),
    Start(Start),
    Report(ReceiverReport),
    Poll(Poll),
    Request(Request),
    Tag(Tag),
    Acknowledgement(Stamp),
    /// Every receiver holds the bytes below, and delivers them (003 5.3.3, deliver-to).
    Mark(u64),
    Returned(Returned),
    Composite(Composite),
    Attend(Attend),
    Join(Join),
    /// A receiver begins with the message that has this number.
    Joined(u64),
    ServedWhen(ServedWhen),
    Finish(Finish),
    Refuse(Refusal),
    /// A receiver of this name came too late for a stream that cannot be read again.
    Missed(Bytes),
}

/// Whether a receiver is to hear what is sent to the group. It says the version in its reports; a
/// lower one than its last says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Attend {
    pub(super) version: u32,
    pub(super) attendance: Attendance,
}

/// What a receiver hears of what is sent to the group.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Attendance {
    /// All.
    #[default]
    Attends,
    /// Nothing: it is served after the others, and told when.
    StandsBy,
    /// All for a short time, because others may have something for it; then it stands by again.
    LooksIn,
}

/// When receivers are served, for their users. A lower version than the last for the same ones says
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ServedWhen {
    /// It holds for all receivers, or for the one that it is sent to.
    pub(super) all: bool,
    pub(super) version: u32,
    pub(super) served: Served,
    /// For how long, unless it is said again: whole milliseconds.
    pub(super) holds: Duration,
}

/// Every receiver is to report, at once and to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Poll {
    pub(super) pass: PassNumber,
    pub(super) stamp: Stamp,
    /// One past the highest packet that was sent in this pass.
    pub(super) top: PacketNumber,
    pub(super) length: Option<u64>,
}

/// XTP: whoever receives is to answer, in its slot and as control goes (003 3.3.3: a CNTL packet
/// with SREQ). Data packets ask by their flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) pass: PassNumber,
    pub(super) stamp: Stamp,
    /// One past the highest packet that was sent in this pass.
    pub(super) top: PacketNumber,
    /// Packets below are released.
    pub(super) kept: PacketNumber,
    pub(super) length: Option<u64>,
}

/// Multidriver: every receiver is to reply, or the one that it is sent to. Data packets ask by
/// their flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    pub(super) pass: PassNumber,
    pub(super) stamp: Stamp,
    /// One past the highest packet that was sent in this pass.
    pub(super) top: PacketNumber,
    pub(super) length: Option<u64>,
    /// The rate that it takes is asked for, too.
    pub(super) rate: bool,
    /// It repeats a request to one that has not replied: nothing was sent to all with this stamp
    /// but that request.
    pub(super) again: bool,
    /// For how many receivers replies back off.
    pub(super) backoff: u16,
    /// It is for receivers in these (policy `list`).
    pub(super) subgroups: Option<Subgroups>,
}

/// What the sender has of a receiver's return stream, and how far the receiver may go.
///
/// | bytes | field |
/// |---|---|
/// | 1 | flags: 1 the part that it answers came after a gap, 2 the end is here too |
/// | varint | next: the bytes below are here |
/// | varint | limit: the receiver may send the bytes below |
/// | varint | count: that of the part that it answers |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Returned {
    pub(super) gap: bool,
    pub(super) ended: bool,
    pub(super) next: u64,
    pub(super) limit: u64,
    pub(super) count: u64,
}

/// A receiver does not want the transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    /// Why: text without NUL.
    pub(super) reason: String,
    /// What the receiver calls itself.
    pub(super) name: Bytes,
}

/// The sender serves a receiver no longer, or all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Finish {
    /// The transfer is over; a receiver that has everything can forget it. It was for these
    /// subgroups in the end (policy `list`).
    Done(Option<Subgroups>),
    /// The sender's user gave up.
    Cancelled(String),
    /// The receiver is not served any more.
    Dropped,
    /// Two receivers have the same name: neither is served.
    SameName,
    /// There are as many receivers as the sender takes.
    Full,
    /// The transfer is for others.
    Excluded,
}

impl Message {
    /// Reads a body: of which transfer, and what. A data packet's part of the stream is a slice,
    /// not a copy.
    pub(super) fn decode(bytes: &Bytes) -> Result<(u32, Self), DecodeError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("kind")?;
        let transfer = reader.u32("transfer")?;
        let message = match kind {
            1 | 8 => Self::Data(data::data(&mut reader, transfer, bytes, kind == 8)?),
            2 => Self::Announce(handshake::announce(&mut reader, bytes)?),
            3 => Self::Start(handshake::start(&mut reader)?),
            4 => Self::Report(report::report(&mut reader, bytes)?),
            5 => Self::Poll(Poll {
                pass: PassNumber(reader.u16("pass")?),
                stamp: Stamp(reader.u64("stamp")?),
                top: PacketNumber(reader.u64("top")?),
                length: reader.varint("length")?.checked_sub(1),
            }),
            9 => Self::Request(Request {
                pass: PassNumber(reader.u16("pass")?),
                stamp: Stamp(reader.u64("stamp")?),
                top: packet(&mut reader, "top")?,
                kept: packet(&mut reader, "kept")?,
                length: reader.varint("length")?.checked_sub(1),
            }),
            10 => Self::Tag(tag(&mut reader)?),
            11 => Self::Acknowledgement(Stamp(reader.u64("stamp")?)),
            12 => Self::Mark(reader.u64("mark")?),
            13 => {
                let flags = reader.u8("flags")?;
                Self::Returned(Returned {
                    gap: flags & 1 != 0,
                    ended: flags & 2 != 0,
                    next: small(&mut reader, "next")?,
                    limit: small(&mut reader, "limit")?,
                    count: small(&mut reader, "count")?,
                })
            }
            14 => Self::Composite(composite::composite(&mut reader)?),
            15 => Self::Attend(Attend {
                version: reader.u32("version")?,
                attendance: match reader.u8("attendance")? {
                    1 => Attendance::Attends,
                    2 => Attendance::StandsBy,
                    3 => Attendance::LooksIn,
                    other => return Err(reader.invalid("attendance", u64::from(other))),
                },
            }),
            16 => Self::Join(handshake::join(&mut reader)?),
            17 => Self::Joined(handshake::message_number(&mut reader)?),
            18 => Self::ServedWhen(ServedWhen {
                all: match reader.u8("whom")? {
                    1 => false,
                    2 => true,
                    other => return Err(reader.invalid("whom", u64::from(other))),
                },
                version: reader.u32("version")?,
                served: match reader.u8("served")? {
                    1 => Served::Now,
                    2 => Served::Later,
                    3 => Served::Paused,
                    other => return Err(reader.invalid("served", u64::from(other))),
                },
                holds: Duration::from_millis(reader.u32("holds")?.into()),
            }),
            6 => Self::Finish(match reader.u8("how")? {
                1 if reader.remaining() > 0 => Finish::Done(Some(subgroups(&mut reader)?)),
                1 => Finish::Done(None),
                2 => Finish::Cancelled(reason(&mut reader)?),
                3 => Finish::Dropped,
                4 => Finish::SameName,
                5 => Finish::Full,
                6 => Finish::Excluded,
                other => return Err(reader.invalid("how", u64::from(other))),
            }),
            7 => Self::Refuse(refusal(&mut reader, bytes)?),
            19 => {
                let name = bytes.slice(reader.position()..);
                if name.len() > NAME_MAX {
                    return Err(reader.invalid("name's length", name.len() as u64));
                }
                reader.rest();
                Self::Missed(name)
            }
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
                let (vector, len) = data.header.vector();
                writer.put(&data.header.encode()).put(&vector[..len]);
                writer.put(&data.body);
            }
            Self::Announce(announce) => {
                handshake::put_announce(writer.u8(2).u32(transfer), announce);
            }
            Self::Start(start) => handshake::put_start(writer.u8(3).u32(transfer), start),
            Self::Report(report) => report::put_report(writer.u8(4).u32(transfer), report),
            Self::Poll(poll) => {
                writer.u8(5).u32(transfer).u16(poll.pass.0);
                writer.u64(poll.stamp.0);
                writer.u64(poll.top.0).varint(one_more(poll.length));
            }
            Self::Request(request) => {
                writer.u8(9).u32(transfer).u16(request.pass.0);
                writer.u64(request.stamp.0).u64(request.top.0);
                writer.u64(request.kept.0).varint(one_more(request.length));
            }
            Self::Tag(tag) => {
                writer.u8(10).u32(transfer).u16(tag.pass.0);
                writer.u64(tag.stamp.0).u64(tag.top.0);
                writer.varint(one_more(tag.length));
                let flags = u8::from(tag.again) << 2
                    | u8::from(tag.rate) << 3
                    | u8::from(tag.subgroups.is_some()) << 4;
                writer.u8(flags).u16(tag.backoff);
                if let Some(subgroups) = tag.subgroups {
                    writer.u64(subgroups.0);
                }
            }
            Self::Acknowledgement(stamp) => {
                writer.u8(11).u32(transfer).u64(stamp.0);
            }
            Self::Mark(mark) => {
                writer.u8(12).u32(transfer).u64(*mark);
            }
            Self::Returned(returned) => {
                let flags = u8::from(returned.gap) | u8::from(returned.ended) << 1;
                writer.u8(13).u32(transfer).u8(flags);
                writer.varint(returned.next).varint(returned.limit);
                writer.varint(returned.count);
            }
            Self::Composite(it) => {
                composite::put_composite(writer.u8(14).u32(transfer), it);
            }
            Self::Attend(attend) => {
                writer.u8(15).u32(transfer).u32(attend.version);
                writer.u8(match attend.attendance {
                    Attendance::Attends => 1,
                    Attendance::StandsBy => 2,
                    Attendance::LooksIn => 3,
                });
            }
            Self::Join(Join { place, number }) => {
                writer.u8(16).u32(transfer).u64(place.0).varint(*number);
            }
            Self::Joined(number) => {
                writer.u8(17).u32(transfer).varint(*number);
            }
            Self::ServedWhen(it) => {
                writer.u8(18).u32(transfer).u8(if it.all { 2 } else { 1 });
                writer.u32(it.version).u8(match it.served {
                    Served::Now => 1,
                    Served::Later => 2,
                    Served::Paused => 3,
                });
                writer.u32(u32::try_from(it.holds.as_millis()).unwrap_or(u32::MAX));
            }
            Self::Finish(finish) => {
                writer.u8(6).u32(transfer);
                match finish {
                    Finish::Done(None) => writer.u8(1),
                    Finish::Done(Some(subgroups)) => writer.u8(1).u64(subgroups.0),
                    Finish::Cancelled(reason) => writer.u8(2).put(cut(reason).as_bytes()),
                    Finish::Dropped => writer.u8(3),
                    Finish::SameName => writer.u8(4),
                    Finish::Full => writer.u8(5),
                    Finish::Excluded => writer.u8(6),
                };
            }
            Self::Missed(name) => {
                let name = &name[..name.len().min(NAME_MAX)];
                writer.u8(19).u32(transfer).put(name);
            }
            Self::Refuse(Refusal { reason, name }) => {
                let reason = cut(reason.split('\0').next().unwrap_or_default());
                writer.u8(7).u32(transfer).put(reason.as_bytes());
                if !name.is_empty() {
                    writer.u8(0).put(&name[..name.len().min(NAME_MAX)]);
                }
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

/// A subgroup vector: one subgroup at least.
fn subgroups(reader: &mut Reader<'_>) -> Result<Subgroups, DecodeError> {
    let subgroups = Subgroups(reader.u64("subgroups")?);
    match subgroups.is_empty() {
        true => Err(reader.invalid("subgroups", 0)),
        false => Ok(subgroups),
    }
}

fn tag(reader: &mut Reader<'_>) -> Result<Tag, DecodeError> {
    let pass = PassNumber(reader.u16("pass")?);
    let stamp = Stamp(reader.u64("stamp")?);
    let top = packet(reader, "top")?;
    let length = reader.varint("length")?.checked_sub(1);
    let flags = reader.u8("flags")?;
    Ok(Tag {
        pass,
        stamp,
        top,
        length,
        again: flags & 4 != 0,
        rate: flags & 8 != 0,
        backoff: reader.u16("back-off")?,
        subgroups: match flags & 16 != 0 {
            true => Some(subgroups(reader)?),
            false => None,
        },
    })
}

fn refusal(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Refusal, DecodeError> {
    let start = reader.position();
    let rest = reader.rest();
    let end = rest.iter().position(|byte| *byte == 0);
    let (reason, name) = match end {
        Some(end) => (&rest[..end], bytes.slice(start + end + 1..)),
        None => (rest, Bytes::new()),
    };
    if reason.len() > REASON_MAX || name.len() > NAME_MAX {
        return Err(reader.invalid("refusal's length", rest.len() as u64));
    }
    let reason = String::from_utf8_lossy(reason).into_owned();
    Ok(Refusal { reason, name })
}

/// Packet numbers stay far below the end of 64 bits, so that sums of them do not overflow.
const NUMBER_MAX: u64 = 1 << 60;

/// A packet's number of eight bytes.
fn packet(reader: &mut Reader<'_>, field: &'static str) -> Result<PacketNumber, DecodeError> {
    let number = reader.u64(field)?;
    checked(reader, field, number).map(PacketNumber)
}

/// A packet's number of as many bytes as it needs.
fn short_packet(reader: &mut Reader<'_>, field: &'static str) -> Result<PacketNumber, DecodeError> {
    small(reader, field).map(PacketNumber)
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
