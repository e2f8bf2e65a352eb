//! XGM's datagrams.
//!
//! All integers are big-endian. `subgroups` are 64 bits, bit k for subgroup k.
//!
//! | kind | fields after the kind (bytes) |
//! |---|---|
//! | 1 poll | census 4, poll 2, list 1 (0 or 1), subgroups asked 8, first position 4, last position 4, spread 4 (µs), count 2 and incarnations of hosts that were heard, 8 each |
//! | 2 answer | census 4, poll 2, held 4 (µs), union of subgroups 8, members 2; if the poll asked for the list: name (length 1, bytes), then key 8 and subgroups 8 for each member |
//! | 3 change | verb 1 (1 partition, 2 merge), from 8, to 8 |
//! | 4 set | scope 1 (1 group, 2 subgroups, 3 member), target 8 (0, subgroups, key), name (length 1, bytes), value: the rest |
//! | 5 ask | connection 4, ask 4 (from 1), who is asked 8 (an incarnation, 0: all that are in it), spread 4 (µs), count 2 (up to 16) and places of checkpoints, 8 each |
//! | 6 told | connection 4, ask 4 that is answered (0: none), standing 1 (1 within, 2 complete, 3 left, 4 closed, 5 stranger), subgroups 8, progress 8 (bytes) |
//! | 7 report | connection 4, member's key 8, standing 1 (1 has joined, 2 is complete, 3 has left, 4 was closed), subgroups 8, progress 8 (bytes), name (length 1, bytes) |
//!
//! A connection's name is its source, which sends 5 and receives 6 and 7, and the source's number
//! for it.

mod connection;

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::Incarnation;
use groupcast_core::wire::{DecodeError, Reader, Writer};

pub(super) use self::connection::{Ask, PLACES_MAX, Report, Told};
use super::{Change, ChangeVerb, Key, MEMBERS_MAX, NAME_MAX, Scope, Subgroups, VALUE_MAX};

const POLL: u8 = 1;
const ANSWER: u8 = 2;
const CHANGE: u8 = 3;
const SET: u8 = 4;
const ASK: u8 = 5;
const TOLD: u8 = 6;
const REPORT: u8 = 7;

/// The most hosts that a poll names as heard; with this many its body has 1,054 bytes.
pub(super) const HEARD_MAX: usize = 128;

/// A datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// Asks the hosts in a slice of the positions.
    Poll(Poll),
    /// Lists the members of one host for an asker.
    Answer(Answer),
    /// Moves members to other subgroups.
    Change(Change),
    /// Sets a variable.
    Set {
        scope: Scope,
        name: Bytes,
        value: Bytes,
    },
    /// Asks the members of a connection how they stand.
    Ask(Ask),
    /// Tells the connection's source how a member stands.
    Told(Told),
    /// Tells the connection's source, unasked, that a member has joined, is complete, has left or
    /// was closed.
    Report(Report),
}

/// A poll: which hosts it asks, and how they answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Poll {
    pub(super) census: u32,
    pub(super) number: u16,
    pub(super) list: bool,
    pub(super) asked: Subgroups,
    /// The poll asks the hosts at positions from `first` to `last`; no host if `first` is above
    /// `last`.
    pub(super) first: u32,
    pub(super) last: u32,
    /// A host answers at a random time within this.
    pub(super) spread: Duration,
    pub(super) heard: Vec<Incarnation>,
}

/// A host's answer to a poll.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    pub(super) census: u32,
    /// The poll that is answered.
    pub(super) poll: u16,
    /// How long the poll waited at the host.
    pub(super) held: Duration,
    pub(super) union: Subgroups,
    pub(super) members: u16,
    pub(super) list: Option<Listed>,
}

/// The list of a host's members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Listed {
    pub(super) name: Bytes,
    pub(super) members: Vec<(Key, Subgroups)>,
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        match self {
            Self::Poll(poll) => {
                writer.u8(POLL).u32(poll.census).u16(poll.number);
                writer.u8(poll.list.into()).u64(poll.asked.0);
                writer.u32(poll.first).u32(poll.last);
                writer.u32(micros(poll.spread)).count(poll.heard.len());
                for incarnation in &poll.heard {
                    writer.u64(incarnation.0);
                }
            }
            Self::Answer(answer) => {
                writer.u8(ANSWER).u32(answer.census).u16(answer.poll);
                writer.u32(micros(answer.held)).u64(answer.union.0);
                writer.u16(answer.members);
                if let Some(list) = &answer.list {
                    put_name(&mut writer, &list.name);
                    for (key, subgroups) in &list.members {
                        writer.u64(key.0).u64(subgroups.0);
                    }
                }
            }
            Self::Change(change) => {
                let verb = match change.verb {
                    ChangeVerb::Partition => 1,
                    ChangeVerb::Merge => 2,
                };
                writer.u8(CHANGE).u8(verb);
                writer.u64(change.from.0).u64(change.to.0);
            }
            Self::Set { scope, name, value } => {
                let (code, target) = match scope {
                    Scope::Group => (1, 0),
                    Scope::Subgroups(subgroups) => (2, subgroups.0),
                    Scope::Member(key) => (3, key.0),
                };
                writer.u8(SET).u8(code).u64(target);
                put_name(&mut writer, name);
                writer.put(value);
            }
            Self::Ask(ask) => ask.encode(writer.u8(ASK)),
            Self::Told(told) => told.encode(writer.u8(TOLD)),
            Self::Report(report) => report.encode(writer.u8(REPORT)),
        }
        bytes
    }

    pub(super) fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let message = match reader.u8("kind")? {
            POLL => Self::Poll(poll(&mut reader)?),
            ANSWER => Self::Answer(answer(&mut reader)?),
            CHANGE => Self::Change(change(&mut reader)?),
            SET => set(&mut reader)?,
            ASK => Self::Ask(Ask::decode(&mut reader)?),
            TOLD => Self::Told(Told::decode(&mut reader)?),
            REPORT => Self::Report(Report::decode(&mut reader)?),
            kind => return Err(reader.invalid("kind", u64::from(kind))),
        };
        reader.finish()?;
        Ok(message)
    }
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

fn put_name(writer: &mut Writer<'_>, name: &[u8]) {
    let name = &name[..name.len().min(NAME_MAX)];
    writer.u8(name.len() as u8).put(name);
}

fn name(reader: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
    let len = reader.u8("name length")?;
    let bytes = reader.take("name", usize::from(len))?;
    Ok(Bytes::copy_from_slice(bytes))
}

/// Reads a set of subgroups that may not be empty.
fn subgroups(reader: &mut Reader<'_>, field: &'static str) -> Result<Subgroups, DecodeError> {
    match reader.u64(field)? {
        0 => Err(reader.invalid(field, 0)),
        bits => Ok(Subgroups(bits)),
    }
}

fn poll(reader: &mut Reader<'_>) -> Result<Poll, DecodeError> {
    let census = reader.u32("census")?;
    let number = reader.u16("poll")?;
    let list = match reader.u8("list")? {
        0 => false,
        1 => true,
        other => return Err(reader.invalid("list", u64::from(other))),
    };
    let asked = subgroups(reader, "subgroups asked")?;
    let first = reader.u32("first position")?;
    let last = reader.u32("last position")?;
    let spread = Duration::from_micros(u64::from(reader.u32("spread")?));
    let count = reader.count("heard", 8)?;
    let heard = (0..count).map(|_| Ok(Incarnation(reader.u64("heard")?)));
    Ok(Poll {
        census,
        number,
        list,
        asked,
        first,
        last,
        spread,
        heard: heard.collect::<Result<_, DecodeError>>()?,
    })
}

fn answer(reader: &mut Reader<'_>) -> Result<Answer, DecodeError> {
    let census = reader.u32("census")?;
    let poll = reader.u16("poll")?;
    let held = Duration::from_micros(u64::from(reader.u32("held")?));
    let union = subgroups(reader, "union of subgroups")?;
    let members = reader.u16("members")?;
    if members == 0 || usize::from(members) > MEMBERS_MAX {
        return Err(reader.invalid("members", u64::from(members)));
    }
    let list = match reader.remaining() {
        0 => None,
        _ => Some(listed(reader, members)?),
    };
    Ok(Answer {
        census,
        poll,
        held,
        union,
        members,
        list,
    })
}

fn listed(reader: &mut Reader<'_>, count: u16) -> Result<Listed, DecodeError> {
    let name = name(reader)?;
    let mut members = Vec::new();
    for _ in 0..count {
        let key = Key(reader.u64("key")?);
        members.push((key, subgroups(reader, "subgroups")?));
    }
    Ok(Listed { name, members })
}

fn change(reader: &mut Reader<'_>) -> Result<Change, DecodeError> {
    let verb = match reader.u8("verb")? {
        1 => ChangeVerb::Partition,
        2 => ChangeVerb::Merge,
        other => return Err(reader.invalid("verb", u64::from(other))),
    };
    let from = subgroups(reader, "from")?;
    let to = subgroups(reader, "to")?;
    if verb == ChangeVerb::Merge && to.len() != 1 {
        return Err(reader.invalid("to", to.0));
    }
    Ok(Change { verb, from, to })
}

fn set(reader: &mut Reader<'_>) -> Result<Message, DecodeError> {
    let code = reader.u8("scope")?;
    let target = reader.u64("target")?;
    let scope = match (code, target) {
        (1, 0) => Scope::Group,
        (2, 1..) => Scope::Subgroups(Subgroups(target)),
        (3, _) => Scope::Member(Key(target)),
        _ => return Err(reader.invalid("scope", u64::from(code))),
    };
    let name = name(reader)?;
    let value = reader.rest();
    if value.len() > VALUE_MAX {
        return Err(reader.invalid("value length", value.len() as u64));
    }
    let value = Bytes::copy_from_slice(value);
    Ok(Message::Set { scope, name, value })
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::super::Standing;
    use super::*;

    fn examples() -> [Message; 8] {
        let poll = Poll {
            census: 7,
            number: 2,
            list: true,
            asked: Subgroups(0b101),
            first: 0x10,
            last: 0x20,
            spread: Duration::from_millis(5),
            heard: [Incarnation(9)].into(),
        };
        let answer = Answer {
            census: 7,
            poll: 2,
            held: Duration::from_micros(3),
            union: Subgroups(0b100),
            members: 1,
            list: None,
        };
        let list = Listed {
            name: Bytes::from_static(b"a"),
            members: [(Key(1), Subgroups(0b100))].into(),
        };
        let with_list = Answer {
            list: Some(list),
            ..answer.clone()
        };
        let change = Change {
            verb: ChangeVerb::Merge,
            from: Subgroups(3),
            to: Subgroups(4),
        };
        let set = Message::Set {
            scope: Scope::Group,
            name: Bytes::from_static(b"n"),
            value: Bytes::from_static(b"v"),
        };
        [
            Message::Poll(poll),
            Message::Answer(answer),
            Message::Answer(with_list),
            Message::Change(change),
            set,
            Message::Ask(Ask {
                number: 7,
                round: 2,
                only: Incarnation(9),
                spread: Duration::from_millis(5),
                places: [0x100].into(),
            }),
            Message::Told(Told {
                number: 7,
                round: 2,
                standing: Standing::Within,
                subgroups: Subgroups(4),
                progress: 0x100,
            }),
            Message::Report(Report {
                number: 7,
                key: Key(1),
                standing: Standing::Closed,
                subgroups: Subgroups(4),
                progress: 0x100,
                name: Bytes::from_static(b"a"),
            }),
        ]
    }

    /// The bytes that `line` has in hexadecimal digits, with spaces between some of them.
    fn bytes(line: &str) -> Vec<u8> {
        let hex: String = line.split_whitespace().collect();
        let pairs = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
        let byte = |pair| u8::from_str_radix(pair, 16).expect("two hexadecimal digits");
        pairs.map(byte).collect()
    }

    #[test]
    fn the_layout_is_pinned() {
        let lines = [
            "010000000700020100000000000000050000001000000020000013880001\
             0000000000000009",
            "0200000007000200000003000000000000000400 01",
            "0200000007000200000003000000000000000400 01 01 61\
             00000000000000010000000000000004",
            "030200000000000000030000000000000004",
            "040100000000000000000 16e76",
            "05 00000007 00000002 0000000000000009 00001388 0001 0000000000000100",
            "06 00000007 00000002 01 0000000000000004 0000000000000100",
            "07 00000007 0000000000000001 04 0000000000000004 0000000000000100 01 61",
        ];
        for (message, line) in examples().iter().zip(lines) {
            let bytes = bytes(line);
            assert_eq!(message.encode(), bytes, "{message:?}");
            assert_eq!(Message::decode(&bytes).as_ref(), Ok(message));
        }
    }

    /// A value is what is left, so a shorter one is one; and an answer without its list is an
    /// answer. Nothing else may be read that was not written so.
    #[test]
    fn what_is_cut_short_or_too_long_is_refused_or_is_another_message() {
        for message in examples() {
            let bytes = message.encode();
            let mut longer = bytes.clone();
            longer.push(0);
            let cuts = (0..bytes.len()).map(|len| &bytes[..len]);
            for other in cuts.chain([&longer[..]]) {
                let Ok(read) = Message::decode(other) else {
                    continue;
                };
                let has_rest = matches!(read, Message::Set { .. } | Message::Answer(_));
                assert!(has_rest, "{message:?}: {read:?}");
                assert_eq!(read.encode(), other, "{message:?}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let answer = "02000000070002000000030000000000000000\
                      0001";
        let merge_to_two = "030200000000000000030000000000000006";
        let ask_of_round_0 = "05 00000007 00000000 0000000000000009 00001388 0000";
        let stranger_reports =
            "07 00000007 0000000000000001 05 0000000000000004 0000000000000100 01 61";
        for line in [answer, merge_to_two, ask_of_round_0, stranger_reports] {
            assert!(Message::decode(&bytes(line)).is_err(), "{line}");
        }
    }
}
