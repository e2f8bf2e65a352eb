//! Compares the rings of daemons' configurations: each daemon says its rings in the daemons' own
//! order, so that a daemon that lacks a ring, or has it at another address, notices. Differences
//! are only told.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | 20 | the kind of the envelope (`groups::wire`) |
//! | 1 | count | |
//! | 2.. | rings | each: its top as a name (`u8` length, UTF-8), address 4, port `u16` |

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::DomainName;
use crate::frame::text::{put_name, take_name};
use crate::groups::RINGS_PER_DAEMON_MAX;

/// The most differences that a daemon tells in its life.
const TOLD_MAX: usize = 4 * RINGS_PER_DAEMON_MAX;

/// A ring that another daemon's configuration has, and this daemon's has not or has otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingDifference {
    /// Its top.
    pub top: String,
    /// Its address at the other daemon.
    pub theirs: SocketAddrV4,
    /// The address of the ring with this top at this daemon, if there is one.
    pub ours: Option<SocketAddrV4>,
}

/// The side of one daemon: says the rings of its configuration, and compares them with what others
/// say.
#[derive(Debug)]
pub struct ConfiguredRings {
    own: BTreeMap<String, SocketAddrV4>,
    /// Whether the daemon has to say its rings.
    is_due: bool,
    told: BTreeSet<(String, SocketAddrV4)>,
}

impl ConfiguredRings {
    /// The kind of the envelope.
    pub(crate) const KIND: u8 = 20;

    /// The side of a daemon with the rings `own`.
    pub fn new(own: impl IntoIterator<Item = (String, SocketAddrV4)>) -> Self {
        Self {
            own: own.into_iter().collect(),
            is_due: false,
            told: BTreeSet::new(),
        }
    }

    /// A regular configuration was installed: this daemon has to say its rings again.
    pub fn handle_regular(&mut self) {
        self.is_due = !self.own.is_empty();
    }

    /// The next statement, for an agreed message; it stays the next until [`said`](Self::said).
    pub fn next_statement(&self) -> Option<Vec<u8>> {
        self.is_due.then(|| {
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes);
            let rings = self.own.iter().take(RINGS_PER_DAEMON_MAX);
            writer.u8(Self::KIND).u8(rings.len() as u8);
            for (top, address) in rings {
                put_name(&mut writer, top);
                writer.put(&address.ip().octets()).u16(address.port());
            }
            bytes
        })
    }

    /// The order took the next statement, or never will.
    pub fn said(&mut self) {
        self.is_due = false;
    }

    /// Takes in the statement of a daemon. Returns the differences that were not told before; none
    /// for an envelope of another kind.
    ///
    /// # Errors
    /// If the envelope cannot be read.
    pub fn handle_statement(
        &mut self,
        envelope: &[u8],
    ) -> Result<Vec<RingDifference>, DecodeError> {
        if envelope.first() != Some(&Self::KIND) {
            return Ok(Vec::new());
        }
        let mut differences = Vec::new();
        for (top, theirs) in decode(envelope)? {
            let ours = self.own.get(&top).copied();
            let is_new = ours != Some(theirs) && self.told.len() < TOLD_MAX;
            if is_new && self.told.insert((top.clone(), theirs)) {
                differences.push(RingDifference { top, theirs, ours });
            }
        }
        Ok(differences)
    }
}

fn decode(envelope: &[u8]) -> Result<Vec<(String, SocketAddrV4)>, DecodeError> {
    let reader = &mut Reader::new(envelope);
    reader.u8("envelope")?;
    let count = reader.u8("count")?;
    if usize::from(count) > RINGS_PER_DAEMON_MAX {
        return Err(reader.invalid("count", u64::from(count)));
    }
    let mut rings = Vec::new();
    for _ in 0..count {
        let top = take_name(reader, "top")?.to_owned();
        let len = top.len() as u64;
        // The name comes into the log: it has to be a valid one.
        top.parse::<DomainName>()
            .map_err(|_| reader.invalid("top", len))?;
        let ip = Ipv4Addr::from_bits(reader.u32("address")?);
        rings.push((top, SocketAddrV4::new(ip, reader.u16("port")?)));
    }
    reader.finish()?;
    Ok(rings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(all: &[(&str, u8)]) -> ConfiguredRings {
        let address = |last: u8| SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, last), 4809);
        let all = all
            .iter()
            .map(|(top, last)| ((*top).to_owned(), address(*last)));
        ConfiguredRings::new(all)
    }

    #[test]
    fn a_ring_that_is_lacking_or_elsewhere_is_told_once() {
        let mut one = rings(&[("cb", 1), ("wb.cb", 2), ("x", 3)]);
        assert_eq!(one.next_statement(), None, "nobody is there");
        one.handle_regular();
        let said = one.next_statement().unwrap();
        assert_eq!(said[..5], [20, 3, 2, b'c', b'b']);
        one.said();
        assert_eq!(one.next_statement(), None);

        let mut two = rings(&[("cb", 1), ("x", 4)]);
        let told = two.handle_statement(&said).unwrap();
        let told: Vec<_> = told
            .iter()
            .map(|it| (&*it.top, it.ours.is_some()))
            .collect();
        assert_eq!(told, [("wb.cb", false), ("x", true)]);
        assert_eq!(two.handle_statement(&said), Ok(Vec::new()), "once");
        assert_eq!(one.handle_statement(&said), Ok(Vec::new()), "its own");

        // A daemon without rings says nothing, and is told.
        let mut none = rings(&[]);
        none.handle_regular();
        assert_eq!(none.next_statement(), None);
        assert_eq!(none.handle_statement(&said).unwrap().len(), 3);
    }

    #[test]
    fn what_makes_no_sense_is_an_error_and_is_bounded() {
        let mut here = rings(&[]);
        let mut one = rings(&[("cb", 1)]);
        one.handle_regular();
        let said = one.next_statement().unwrap();
        for end in 1..said.len() {
            assert!(here.handle_statement(&said[..end]).is_err(), "{end}");
        }
        assert!(here.handle_statement(&[20, 255]).is_err());
        assert_eq!(here.handle_statement(&[8, 1]), Ok(Vec::new()));
        for number in 0..2 * TOLD_MAX {
            let mut other = rings(&[(&format!("ring{number}"), 1)]);
            other.handle_regular();
            let said = other.next_statement().unwrap();
            here.handle_statement(&said).unwrap();
        }
        assert_eq!(here.told.len(), TOLD_MAX);
    }
}
