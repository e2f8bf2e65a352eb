//! What a name service is: who knows the rings that joins have made, and lets them be made.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use groupcast_core::{MemberId, NodeId, OrderPlace};

use super::DomainName;

/// The most rings that joins have made at one time.
pub const RINGS_MADE_MAX: usize = 64;

/// A ring that a join has made: what all daemons agree on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingAddress {
    /// The name at its top: it carries the groups at and below it.
    pub top: DomainName,
    /// Its number, which no other has: 64 random bits.
    pub number: u64,
    /// Where its multicasts go.
    pub multicast: SocketAddrV4,
    /// Where in the daemons' own order it was made.
    pub since: OrderPlace,
}

impl RingAddress {
    /// Whether of two rings of one name this one stands.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.rank() < other.rank()
    }

    /// The earlier is the lower; equal places are possible in two parts of a network.
    pub(super) fn rank(&self) -> (u64, groupcast_core::ConfigId, u64) {
        (self.since.seq, self.since.config, self.number)
    }
}

/// Addresses for rings that joins make: all hosts of a network, at one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool {
    first: u32,
    /// Bits of an address that are free.
    bits: u8,
    port: u16,
}

impl Pool {
    /// The addresses of `network`, which has `prefix` bits, at `port`. `None` if that is no network
    /// of 224.0.0.0/4 with 65,536 addresses at most, or the port is 0.
    pub fn new(network: Ipv4Addr, prefix: u8, port: u16) -> Option<Self> {
        let bits = 32u8.checked_sub(prefix).filter(|bits| *bits <= 16)?;
        let first = network.to_bits();
        let is_network = first & ((1u32 << bits) - 1) == 0;
        let pool = Self { first, bits, port };
        (is_network && network.is_multicast() && port != 0).then_some(pool)
    }

    /// How many addresses it has.
    pub fn len(&self) -> u32 {
        1 << self.bits
    }

    /// Never: a network has an address.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether `address` is one of them.
    pub fn holds(&self, address: SocketAddrV4) -> bool {
        let network = address.ip().to_bits() & !(self.len() - 1);
        network == self.first && address.port() == self.port
    }

    /// Its network, the bits of that, and the port.
    pub fn parts(&self) -> (Ipv4Addr, u8, u16) {
        (Ipv4Addr::from_bits(self.first), 32 - self.bits, self.port)
    }

    /// The address of the ring `top`: that of its name's hash, or the next that is not `taken`.
    pub fn address(
        &self,
        top: &DomainName,
        taken: impl Fn(SocketAddrV4) -> bool,
    ) -> Option<SocketAddrV4> {
        let mask = self.len() - 1;
        let hash = NodeId::from_name(&top.to_string()).0 as u32;
        let all = (0..self.len()).map(|step| {
            let address = self.first | (hash.wrapping_add(step) & mask);
            SocketAddrV4::new(Ipv4Addr::from_bits(address), self.port)
        });
        // So many are taken at most.
        all.take(RINGS_MADE_MAX + 1).find(|it| !taken(*it))
    }
}

/// Why a ring is not made. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Members of a group would have to move from their ring to the new one.
    #[error(
        "a ring {top} would take the group {} from {}: use a name without groups in use at or below it",
        .in_use.group,
        .in_use.carrier()
    )]
    Fragments {
        /// The name of the ring that was asked for.
        top: DomainName,
        /// The group that is in use at or below it.
        in_use: InUse,
    },
    /// There is a ring with a lower top.
    #[error("a ring {top} would be around the ring {below}: use a name that has no ring below it")]
    Below {
        /// The name of the ring that was asked for.
        top: DomainName,
        /// The top of the other.
        below: DomainName,
    },
    /// There are as many rings as there may be.
    #[error(
        "there are {RINGS_MADE_MAX} rings that joins have made, as many as there may be: leave one first"
    )]
    Full,
    /// Every address that was asked for is another ring's.
    #[error(
        "every address of the pool is a ring's: leave one first, or make the pool of this daemon larger"
    )]
    NoAddress,
}

/// A group in use, as a daemon answers who asks for a ring above it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InUse {
    /// Its name.
    pub group: String,
    /// The top of the ring that carries it; empty for the daemons' own order.
    pub ring: String,
}

impl InUse {
    /// What carries the group, in words.
    fn carrier(&self) -> String {
        match self.ring.as_str() {
            "" => "the daemons' own order".to_owned(),
            ring => format!("the ring {ring}"),
        }
    }
}

/// A name service, as one daemon has it: which rings joins have made, and how they are made.
///
/// Sans-IO. The daemons' own order carries its words, one behind the other; so what it does at a
/// word, the services of all daemons of the configuration do, and they know the same rings. A word
/// counts in the configuration in which it was handed over and in no other.
///
/// These are the paper's operations (000 ch. 8, Figs. 7 and 8), by the methods that carry them out:
///
/// | paper | here |
/// |---|---|
/// | `InitializeNS`, `ReformedRing` | [`reformed`](Self::reformed): what the states of all daemons say, together; a lock of who is gone is free |
/// | `DeleteNS` | the daemon leaves its order, and is a site of nothing in the next configuration |
/// | `AddSiteToAddress` of a name without a ring | [`ask`](Self::ask): waits for the lock, makes the ring, and the asking daemon is its first site |
/// | `AddSiteToAddress`, else | [`add_site`](Self::add_site) |
/// | `RemoveSiteFromAddress` | [`remove_site`](Self::remove_site): with the last site the ring ends, and its address is free |
/// | `AcquireLock`, `ReleaseLock` | within `ask`: one ring is made at a time, that whose question is first in the order |
pub trait NameService: fmt::Debug {
    /// All states of a configuration have come: from here on this daemon and `members` go on
    /// together, and these are the rings that each of them [said](Self::said).
    fn reformed(&mut self, members: &[MemberId], said: &[(MemberId, Vec<u8>)]);

    /// What this daemon says of itself in the state that it submits.
    fn said(&self) -> Vec<u8>;

    /// A client wants a ring of this name. [`NameEvent::Settled`] follows.
    fn ask(&mut self, top: &DomainName, pool: Pool);

    /// This daemon is to be in the ring.
    fn add_site(&mut self, top: &DomainName);

    /// It has left the ring.
    fn remove_site(&mut self, top: &DomainName);

    /// A word of the daemon `from` has come to its place.
    ///
    /// # Errors
    /// It makes no sense, and is skipped.
    fn handle_word(&mut self, from: MemberId, at: OrderPlace, word: &[u8]) -> Result<(), String>;

    /// The next word for the daemons' own order.
    fn poll_word(&mut self) -> Option<Vec<u8>>;

    /// Whether there is one.
    fn has_words(&self) -> bool;

    /// What has happened, for the host.
    fn poll_event(&mut self) -> Option<NameEvent>;

    /// The answer to [`NameEvent::IsFree`]: a group at or below `top` that has clients here, if
    /// there is one.
    fn answer(&mut self, top: &DomainName, in_use: Option<InUse>);

    /// The rings that there are, in the order of their names.
    fn rings(&self) -> Vec<RingAddress>;

    /// Whether this daemon is a site of the ring, as far as all know.
    fn is_site(&self, top: &DomainName) -> bool;

    /// Whether that is about to change: [`add_site`](Self::add_site) or
    /// [`remove_site`](Self::remove_site) is on its way.
    fn is_changing(&self, top: &DomainName) -> bool;
}

/// What a name service tells its host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameEvent {
    /// Another set of [`NameService::rings`].
    Changed,
    /// Somebody has the lock and asks for a ring of this name: [`NameService::answer`].
    IsFree(DomainName),
    /// What came of a question of this daemon. If there is a ring, the daemon is a site of it.
    Settled(DomainName, Result<(), Refusal>),
}
