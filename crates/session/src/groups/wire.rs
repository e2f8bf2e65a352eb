//! The messages of daemons in an order: envelopes.
//!
//! Every payload that a daemon submits is one envelope. Counts and numbers are varints (see
//! `groupcast_core::wire`), a *name* is `u8 length | UTF-8`, a *ref* to a group is its number at
//! the sending daemon, or 0 and its name.
//!
//! | envelope | layout | service |
//! |---|---|---|
//! | 1 bind group | number, name | agreed |
//! | 2 bind client | number, name (without `@host`) | agreed |
//! | 3 data | client number × 2 + named; private name if named; count; refs; payload | the message's |
//! | 4 join | client number, ref | agreed |
//! | 5 leave | client number, ref | agreed |
//! | 6 disconnect | client number | agreed |
//! | 7 state | config, host name; count, names of groups 1, 2, …; count, {client number, name, count, refs}; count, {departed client number, name}; if there are clients of the bus: count, {client number, id or an empty name, count, {ref, count, patterns as names}}; if there are roles or guests: that count, maybe 0; count, {ref, count, {client number, token, flags `u8`, role, config, seq}}; count, {guest `u64`, number, seq, member, client number, flags `u8` (1: present, 2: blank), if blank: number above which, and up to which}; if the daemon is a site of rings that joins made: the two before, maybe 0, then to the end what the name service says of them | agreed |
//! | 9 labelled data | as data, but before the count: syntax `u8`, tag as a name | the message's |
//! | 10 accept, 11 reject | client number, token, ref, pattern as a name | agreed |
//! | 12 identify | client number, token, id or an empty name | agreed |
//! | 13 who | client number, token, tag as a name, ref | agreed |
//! | 14 request | client number; guest `u64`; number; floor; 0, or handler + 1; ref; payload | agreed |
//! | 15 answer | client number; guest `u64`; number; payload | agreed |
//! | 16 claim | client number, token, wait `u8`, role (kind `u8`, number `u16`), ref | agreed |
//! | 17 release | client number, token, role, ref | agreed |
//! | 19 names | config, word of the name service ([`names`](crate::names)) to the end | agreed |
//! | 18 part of a state | config, index, last `u8`, bytes of envelope 7 | agreed |
//! | 8 rekey | step 1, fingerprint 16 ([`rekey`](crate::rekey)) | agreed |
//! | 20 rings of a configuration | count, {top, address, port} ([`names`](crate::names)) | agreed |
//! | 21 withdraw | client number, how many of its groups | agreed |
//!
//! Numbers are local to the sending daemon, begin at 1, and are never given twice in one of its
//! lives; groups are bound in ascending order, at most [`BINDINGS_MAX`], and later ones travel by
//! name. A state that is longer than a message may be goes in parts 0, 1, …, and is complete with
//! the last of them. Private names are never bound: replies to short-lived clients would fill the
//! table. An unreliable message may overtake the bindings of its numbers, so it uses names until
//! they are agreed.

mod bus;
mod guests;
mod parts;
mod state;

use std::sync::Arc;

use groupcast_core::ConfigId;
use groupcast_core::wire::{DecodeError, Reader, Writer};

pub(super) use self::bus::BusOp;
use self::bus::{ACCEPT, IDENTIFY, REJECT, WHO, take_bus};
pub(super) use self::guests::GuestOp;
use self::guests::{ANSWER, CLAIM, RELEASE, REQUEST, take_guest};
use self::parts::STATE_PART;
pub(super) use self::parts::{STATE_MAX, StatePart, StateParts};
pub(super) use self::state::{State, StateReader, StateWriter};
use crate::frame::text::{put_name, take_name};
use crate::frame::{DESTINATIONS_MAX, Label, Syntax};
use crate::name::{check_client, check_group};
use crate::names::ConfiguredRings;
use crate::rekey::Statement;

/// The most groups that one daemon binds to numbers in one life.
pub const BINDINGS_MAX: usize = 65_536;

const BIND_GROUP: u8 = 1;
const BIND_CLIENT: u8 = 2;
const DATA: u8 = 3;
const JOIN: u8 = 4;
const LEAVE: u8 = 5;
const DISCONNECT: u8 = 6;
const STATE: u8 = 7;
const LABELLED: u8 = 9;
const NAMES: u8 = 19;
const WITHDRAW: u8 = 21;

/// A group as a daemon refers to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GroupRef<'a> {
    /// The number that the daemon bound to it.
    Bound(u64),
    /// Its name.
    Named(&'a str),
}

/// An operation on a daemon's part of the group state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op<'a> {
    BindGroup {
        number: u64,
        name: &'a str,
    },
    BindClient {
        client: u64,
        name: &'a str,
    },
    Join {
        client: u64,
        group: GroupRef<'a>,
    },
    Leave {
        client: u64,
        group: GroupRef<'a>,
    },
    Disconnect {
        client: u64,
    },
    /// The client is leaving. It is not in the first `groups` of its groups any more, by their
    /// names.
    Withdraw {
        client: u64,
        groups: u64,
    },
    /// A request of the bus; the token is the client's.
    Bus {
        client: u64,
        token: u64,
        what: BusOp<'a>,
    },
}

/// A decoded envelope.
#[derive(Debug)]
pub(super) enum Envelope<'a> {
    Op(Op<'a>),
    Data(Data<'a>),
    /// A daemon's state for the exchange of this configuration, to be read by a [`StateReader`].
    State(ConfigId),
    StatePart(StatePart<'a>),
    /// A request, an answer, a claim or a release.
    Guest {
        client: u64,
        op: GuestOp<'a>,
        /// The offset of the payload of a request or an answer.
        payload_at: usize,
    },
    /// A word of the name service, and the configuration in which it was said.
    Names {
        config: ConfigId,
        word: &'a [u8],
    },
    /// A message that is for the daemon and not about groups: of a change of the key, or the rings
    /// of a configuration.
    OfDaemon,
}

/// The head of a data envelope; its destinations are read one by one, and the payload follows them.
#[derive(Debug)]
pub(super) struct Data<'a> {
    pub(super) client: u64,
    /// The sender's private name, if the message brings it along.
    pub(super) sender: Option<&'a str>,
    pub(super) label: Label<'a>,
    left: usize,
    reader: Reader<'a>,
}

impl<'a> Data<'a> {
    /// The next destination.
    pub(super) fn next_destination(&mut self) -> Result<Option<GroupRef<'a>>, DecodeError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        take_ref(&mut self.reader).map(Some)
    }

    /// The offset of the payload, once all destinations are read.
    pub(super) fn payload_at(&self) -> usize {
        self.reader.position()
    }
}

impl<'a> Envelope<'a> {
    /// The envelope in `bytes`; `None` if its kind is unknown, which a newer daemon may send.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Option<Self>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let op = match reader.u8("envelope")? {
            BIND_GROUP => Op::BindGroup {
                number: reader.varint("group number")?,
                name: checked(&mut reader, "group", |name| check_group(name).is_ok())?,
            },
            BIND_CLIENT => Op::BindClient {
                client: reader.varint("client number")?,
                name: checked(&mut reader, "client", |name| check_client(name).is_ok())?,
            },
            JOIN => Op::Join {
                client: reader.varint("client number")?,
                group: take_ref(&mut reader)?,
            },
            LEAVE => Op::Leave {
                client: reader.varint("client number")?,
                group: take_ref(&mut reader)?,
            },
            DISCONNECT => Op::Disconnect {
                client: reader.varint("client number")?,
            },
            WITHDRAW => Op::Withdraw {
                client: reader.varint("client number")?,
                groups: reader.varint("groups")?,
            },
            kind @ (ACCEPT | REJECT | IDENTIFY | WHO) => take_bus(kind, &mut reader)?,
            kind @ (DATA | LABELLED) => {
                return take_data(reader, kind == LABELLED).map(|data| Some(Self::Data(data)));
            }
            kind @ (REQUEST | ANSWER | CLAIM | RELEASE) => {
                let (client, op, payload_at) = take_guest(kind, reader)?;
                return Ok(Some(Self::Guest {
                    client,
                    op,
                    payload_at,
                }));
            }
            Statement::KIND | ConfiguredRings::KIND => return Ok(Some(Self::OfDaemon)),
            NAMES => {
                let config = reader.config("config")?;
                let word = reader.rest();
                return Ok(Some(Self::Names { config, word }));
            }
            STATE_PART => return StatePart::take(reader).map(|it| Some(Self::StatePart(it))),
            STATE => return Ok(Some(Self::State(reader.config("config")?))),
            _ => return Ok(None),
        };
        reader.finish()?;
        Ok(Some(Self::Op(op)))
    }

    /// Whether `bytes` are an envelope with a client's payload; reads the kind alone.
    pub(super) fn is_data(bytes: &[u8]) -> bool {
        matches!(bytes.first(), Some(&(DATA | LABELLED | REQUEST | ANSWER)))
    }
}

impl Op<'_> {
    /// The number of the client, or of the group, that it concerns.
    pub(super) fn number(&self) -> u64 {
        let (Self::BindGroup { number: id, .. }
        | Self::BindClient { client: id, .. }
        | Self::Join { client: id, .. }
        | Self::Leave { client: id, .. }
        | Self::Bus { client: id, .. }
        | Self::Withdraw { client: id, .. }
        | Self::Disconnect { client: id }) = *self;
        id
    }

    /// Appends the envelope to `bytes`.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        let writer = &mut Writer::new(bytes);
        match *self {
            Self::BindGroup { number, name } => {
                put_name(writer.u8(BIND_GROUP).varint(number), name);
            }
            Self::BindClient { client, name } => {
                put_name(writer.u8(BIND_CLIENT).varint(client), name);
            }
            Self::Join { client, group } => put_ref(writer.u8(JOIN).varint(client), group),
            Self::Leave { client, group } => put_ref(writer.u8(LEAVE).varint(client), group),
            Self::Disconnect { client } => {
                writer.u8(DISCONNECT).varint(client);
            }
            Self::Withdraw { client, groups } => {
                writer.u8(WITHDRAW).varint(client).varint(groups);
            }
            Self::Bus {
                client,
                token,
                what,
            } => what.encode(writer, client, token),
        }
    }
}

/// Appends a word of the name service.
pub(super) fn encode_names(bytes: &mut Vec<u8>, config: ConfigId, word: &[u8]) {
    Writer::new(bytes).u8(NAMES).config(config).put(word);
}

/// Appends a data envelope up to its payload. `sender` is the client's private name if the message
/// must bring it along.
pub(super) fn encode_data_head<'a>(
    bytes: &mut Vec<u8>,
    client: u64,
    sender: Option<&str>,
    label: Option<Label<'_>>,
    destinations: impl ExactSizeIterator<Item = GroupRef<'a>>,
) {
    let writer = &mut Writer::new(bytes);
    writer
        .u8(if label.is_some() { LABELLED } else { DATA })
        .varint(client << 1 | u64::from(sender.is_some()));
    if let Some(name) = sender {
        put_name(writer, name);
    }
    if let Some(label) = label {
        put_name(writer.u8(label.syntax as u8), label.tag);
    }
    writer.varint(destinations.len() as u64);
    for destination in destinations {
        put_ref(writer, destination);
    }
}

fn take_data(mut reader: Reader<'_>, labelled: bool) -> Result<Data<'_>, DecodeError> {
    let client = reader.varint("client number")?;
    let sender = if client & 1 == 1 {
        let name = take_name(&mut reader, "sender")?;
        if !name.contains('@') || crate::name::check_destination(name).is_err() {
            return Err(reader.invalid("sender", name.len() as u64));
        }
        Some(name)
    } else {
        None
    };
    let mut label = Label::NONE;
    if labelled {
        label.syntax = Syntax::take(&mut reader)?;
        label.tag = take_name(&mut reader, "tag")?;
    }
    let left = count(&mut reader, "destinations")?;
    if left == 0 || left > DESTINATIONS_MAX {
        return Err(reader.invalid("destinations", left as u64));
    }
    Ok(Data {
        client: client >> 1,
        sender,
        label,
        left,
        reader,
    })
}

/// A group that is joined, by its number or its name.
fn take_group(reader: &mut Reader<'_>, bindings: &[Arc<str>]) -> Result<Arc<str>, DecodeError> {
    match take_ref(reader)? {
        GroupRef::Named(name) if check_group(name).is_ok() => Ok(Arc::from(name)),
        GroupRef::Named(name) => Err(reader.invalid("group", name.len() as u64)),
        GroupRef::Bound(number) => usize::try_from(number - 1)
            .ok()
            .and_then(|index| bindings.get(index).cloned())
            .ok_or_else(|| reader.invalid("group number", number)),
    }
}

/// A count of items of at least one byte each.
fn count(reader: &mut Reader<'_>, field: &'static str) -> Result<usize, DecodeError> {
    let count = reader.varint(field)?;
    match usize::try_from(count) {
        Ok(count) if count <= reader.remaining() => Ok(count),
        _ => Err(reader.invalid(field, count)),
    }
}

fn checked<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
    is_allowed: impl Fn(&str) -> bool,
) -> Result<&'a str, DecodeError> {
    let name = take_name(reader, field)?;
    if is_allowed(name) {
        Ok(name)
    } else {
        Err(reader.invalid(field, name.len() as u64))
    }
}

fn put_ref(writer: &mut Writer<'_>, group: GroupRef<'_>) {
    match group {
        GroupRef::Bound(number) => {
            writer.varint(number);
        }
        GroupRef::Named(name) => put_name(writer.varint(0), name),
    }
}

/// A destination: a group or a private name.
fn take_ref<'a>(reader: &mut Reader<'a>) -> Result<GroupRef<'a>, DecodeError> {
    match reader.varint("group number")? {
        0 => checked(reader, "group", |name| {
            crate::name::check_destination(name).is_ok()
        })
        .map(GroupRef::Named),
        number => Ok(GroupRef::Bound(number)),
    }
}

#[cfg(test)]
mod tests;
