//! A daemon's state, written and read in parts: it may have 100,000 memberships, and each costs as
//! much as a short message.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use groupcast_core::ConfigId;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::bus::{put_bus_part, take_bus_part};
use super::guests::{put_part, take_part};
use super::{GroupRef, STATE, checked, count, put_ref, take_group};
use crate::frame::text::put_name;
use crate::groups::roster::{Roster, RosterClient};
use crate::guests::Part;
use crate::name::{check_client, check_group, check_host, private};

/// To read one group of a client, or another number with its name, counts for this much.
const READ: usize = 12;

/// To put what was read in order counts for this much.
const SORT: usize = 6;

/// To write one counts for this much: its number is looked up by its name.
const WRITE: usize = 40;

/// This many bytes count for one more.
const BYTES: usize = 16;

/// A daemon's part of the group state, as of the installation of `config`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::groups) struct State {
    pub(in crate::groups) config: ConfigId,
    pub(in crate::groups) roster: Roster,
    /// Roles of its clients, and what it knows of guests.
    pub(in crate::groups) part: Part,
    /// The part of its name service; empty in the state of a further ring.
    pub(in crate::groups) names: Vec<u8>,
}

impl State {
    /// The whole envelope.
    pub(in crate::groups) fn encoded(&self) -> Vec<u8> {
        let bindings = self.roster.bindings.iter().map(|name| &**name);
        let numbers: BTreeMap<&str, u64> = bindings.zip(1..).collect();
        let mut writer = StateWriter::new(self.clone());
        writer.go_on(|name| numbers.get(name).copied(), |_| true);
        writer.bytes
    }
}

/// A state that is being written.
#[derive(Debug)]
pub(in crate::groups) struct StateWriter {
    state: State,
    bytes: Vec<u8>,
    next: ToWrite,
}

/// What is to be written next.
#[derive(Debug)]
enum ToWrite {
    Head,
    /// The names of groups from this index on.
    Bindings(usize),
    /// The clients from this number on.
    Clients(Bound<u64>),
    /// The groups of a client behind this one.
    Groups(u64, Arc<str>),
    /// The clients that disconnected, from this number on.
    Departed(Bound<u64>),
    HeadOfBus,
    /// The clients of the bus from this number on.
    Bus(Bound<u64>),
    Rest,
    Nothing,
}

impl StateWriter {
    pub(in crate::groups) fn new(state: State) -> Self {
        Self {
            state,
            bytes: Vec::new(),
            next: ToWrite::Head,
        }
    }

    /// Goes on until all is written or `spend`, which counts the work, finds no time for more.
    /// Returns whether all is written. `number` gives the number of a group; it is written if the
    /// state has it, too.
    pub(in crate::groups) fn go_on(
        &mut self,
        number: impl Fn(&str) -> Option<u64>,
        mut spend: impl FnMut(usize) -> bool,
    ) -> bool {
        while !matches!(self.next, ToWrite::Nothing) {
            let before = self.bytes.len();
            let entries = self.write(&number, &mut spend);
            let bytes = self.bytes.len() - before;
            if !spend(entries * WRITE + bytes / BYTES) {
                break;
            }
        }
        matches!(self.next, ToWrite::Nothing)
    }

    /// The state, and its envelope when all is written.
    pub(in crate::groups) fn finish(self) -> (State, Vec<u8>) {
        (self.state, self.bytes)
    }

    /// Writes one thing more; returns the entries that it has beside those that were counted.
    fn write(
        &mut self,
        number: &impl Fn(&str) -> Option<u64>,
        spend: &mut impl FnMut(usize) -> bool,
    ) -> usize {
        let Self { state, bytes, next } = self;
        let Roster {
            host,
            bindings,
            clients,
            departed,
        } = &state.roster;
        let number = &|name: &str| {
            let number = number(name)?;
            let index = usize::try_from(number.checked_sub(1)?).ok()?;
            (**bindings.get(index)? == *name).then_some(number)
        };
        let writer = &mut Writer::new(bytes);
        match next {
            ToWrite::Head => {
                put_name(writer.u8(STATE).config(state.config), host);
                writer.varint(bindings.len() as u64);
                *next = ToWrite::Bindings(0);
            }
            ToWrite::Bindings(index) => match bindings.get(*index) {
                Some(name) => {
                    put_name(writer, name);
                    *index += 1;
                }
                None => {
                    writer.varint(clients.len() as u64);
                    *next = ToWrite::Clients(Bound::Unbounded);
                }
            },
            ToWrite::Clients(from) => match clients.range((*from, Bound::Unbounded)).next() {
                Some((client, it)) => {
                    put_name(writer.varint(*client), it.bare_name());
                    writer.varint(it.groups.len() as u64);
                    *next = put_groups(writer, *client, it, None, number, spend);
                }
                None => {
                    writer.varint(departed.len() as u64);
                    *next = ToWrite::Departed(Bound::Unbounded);
                }
            },
            ToWrite::Groups(client, after) => {
                let (client, after) = (*client, after.clone());
                *next = match clients.get(&client) {
                    Some(it) => put_groups(writer, client, it, Some(&after), number, spend),
                    None => ToWrite::Clients(Bound::Excluded(client)),
                };
            }
            ToWrite::Departed(from) => match departed.range((*from, Bound::Unbounded)).next() {
                Some((client, private)) => {
                    let bare = private.split('@').next().unwrap_or_default();
                    put_name(writer.varint(*client), bare);
                    *from = Bound::Excluded(*client);
                }
                None => *next = ToWrite::HeadOfBus,
            },
            ToWrite::HeadOfBus => {
                // If there are none and nothing follows, nothing is written, so that a daemon that
                // is older than the bus can read the state.
                let on_bus = clients.values().filter(|it| it.bus.is_some()).count();
                if on_bus > 0 || !state.part.is_empty() || !state.names.is_empty() {
                    writer.varint(on_bus as u64);
                }
                *next = ToWrite::Bus(Bound::Unbounded);
                return clients.len();
            }
            ToWrite::Bus(from) => {
                let mut on_bus =
                    clients
                        .range((*from, Bound::Unbounded))
                        .filter_map(|(client, it)| {
                            let bus = it.bus.as_ref()?;
                            Some((*client, bus))
                        });
                match on_bus.next() {
                    Some((client, bus)) => {
                        put_bus_part(writer, client, bus, number);
                        *from = Bound::Excluded(client);
                        return bus.patterns.values().map(|it| 1 + it.len()).sum();
                    }
                    None => *next = ToWrite::Rest,
                }
            }
            ToWrite::Rest => {
                if !state.part.is_empty() || !state.names.is_empty() {
                    put_part(writer, &state.part, number);
                }
                writer.put(&state.names);
                *next = ToWrite::Nothing;
                return state.part.claims.len() + state.part.guests.len();
            }
            ToWrite::Nothing => {}
        }
        1
    }
}

/// Writes the groups of a client behind this one; returns what comes next.
fn put_groups(
    writer: &mut Writer<'_>,
    number: u64,
    client: &RosterClient,
    after: Option<&str>,
    number_of: &impl Fn(&str) -> Option<u64>,
    spend: &mut impl FnMut(usize) -> bool,
) -> ToWrite {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    for group in client.groups.range::<str, _>((from, Bound::Unbounded)) {
        let bound = number_of(group);
        put_ref(
            writer,
            bound.map_or(GroupRef::Named(group), GroupRef::Bound),
        );
        if !spend(WRITE) {
            return ToWrite::Groups(number, group.clone());
        }
    }
    ToWrite::Clients(Bound::Excluded(number))
}

/// A state that is being read.
#[derive(Debug)]
pub(in crate::groups) struct StateReader {
    bytes: Bytes,
    /// How many of them are read.
    at: usize,
    config: ConfigId,
    roster: Roster,
    part: Part,
    next: ToRead,
}

/// What is to be read next.
#[derive(Debug)]
enum ToRead {
    Head,
    /// This many names of groups.
    Bindings(usize),
    /// This many clients.
    Clients(usize),
    /// This many groups of a client, and this many clients behind it.
    Groups(usize, Box<Client>, usize),
    /// This many clients that disconnected.
    Departed(usize),
    HeadOfBus,
    /// This many clients of the bus.
    Bus(usize),
    Rest,
    Nothing,
}

/// A client whose groups are being read.
#[derive(Debug)]
struct Client {
    number: u64,
    private: Arc<str>,
    groups: Vec<Arc<str>>,
}

impl StateReader {
    /// Will read the state `bytes`, which is for the exchange of `config`.
    pub(in crate::groups) fn new(config: ConfigId, bytes: Bytes) -> Self {
        Self {
            bytes,
            at: 0,
            config,
            roster: Roster::new(""),
            part: Part::default(),
            next: ToRead::Head,
        }
    }

    /// Goes on until all is read or `spend`, which counts the work, finds no time for more.
    /// Returns the state when all is read.
    ///
    /// # Errors
    /// If it is no state; then nothing more can be read.
    pub(in crate::groups) fn go_on(
        &mut self,
        mut spend: impl FnMut(usize) -> bool,
    ) -> Result<Option<State>, DecodeError> {
        let bytes = self.bytes.clone();
        let reader = &mut Reader::new(&bytes);
        reader.take("state", self.at)?;
        while !matches!(self.next, ToRead::Nothing) {
            let before = reader.position();
            let entries = self.read(reader)?;
            self.at = reader.position();
            if !spend(entries * READ + (self.at - before) / BYTES) {
                break;
            }
        }
        if !matches!(self.next, ToRead::Nothing) {
            return Ok(None);
        }
        let names = reader.rest().to_vec();
        self.at = reader.position();
        Ok(Some(State {
            config: self.config,
            roster: std::mem::replace(&mut self.roster, Roster::new("")),
            part: std::mem::take(&mut self.part),
            names,
        }))
    }

    /// Reads one thing more; returns how many entries it has.
    fn read(&mut self, reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
        let Roster {
            host,
            bindings,
            clients,
            departed,
        } = &mut self.roster;
        match &mut self.next {
            ToRead::Head => {
                reader.u8("envelope")?;
                self.config = reader.config("config")?;
                *host = checked(reader, "host", |name| check_host(name).is_ok())?.into();
                let bound = count(reader, "groups")?;
                if bound > super::BINDINGS_MAX {
                    return Err(reader.invalid("groups", bound as u64));
                }
                self.next = ToRead::Bindings(bound);
            }
            ToRead::Bindings(0) => self.next = ToRead::Clients(count(reader, "clients")?),
            ToRead::Bindings(left) => {
                let name = checked(reader, "group", |name| check_group(name).is_ok())?;
                bindings.push(name.into());
                *left -= 1;
            }
            ToRead::Clients(0) => self.next = ToRead::Departed(count(reader, "departed")?),
            ToRead::Clients(left) => {
                let number = reader.varint("client number")?;
                let name = checked(reader, "client", |name| check_client(name).is_ok())?;
                let groups = count(reader, "client's groups")?;
                let client = Client {
                    number,
                    private: private(name, host).into(),
                    groups: Vec::new(),
                };
                self.next = ToRead::Groups(groups, Box::new(client), *left - 1);
            }
            ToRead::Groups(0, client, left) => {
                let groups = std::mem::take(&mut client.groups);
                let entries = groups.len() * SORT / READ;
                let it = RosterClient {
                    private: client.private.clone(),
                    groups: BTreeSet::from_iter(groups),
                    bus: None,
                };
                clients.insert(client.number, Arc::new(it));
                self.next = ToRead::Clients(*left);
                return Ok(1 + entries);
            }
            ToRead::Groups(left, client, _) => {
                client.groups.push(take_group(reader, bindings)?);
                *left -= 1;
            }
            ToRead::Departed(0) => self.next = ToRead::HeadOfBus,
            ToRead::Departed(left) => {
                let number = reader.varint("client number")?;
                let name = checked(reader, "client", |name| check_client(name).is_ok())?;
                departed.insert(number, private(name, host).into());
                *left -= 1;
            }
            ToRead::HeadOfBus => {
                self.next = match reader.remaining() {
                    0 => ToRead::Rest,
                    _ => ToRead::Bus(count(reader, "clients of the bus")?),
                };
            }
            ToRead::Bus(0) => self.next = ToRead::Rest,
            ToRead::Bus(left) => {
                *left -= 1;
                return take_bus_part(reader, bindings, clients);
            }
            ToRead::Rest => {
                self.part = take_part(reader, bindings)?;
                self.next = ToRead::Nothing;
                return Ok(self.part.claims.len() + self.part.guests.len());
            }
            ToRead::Nothing => {}
        }
        Ok(1)
    }
}
