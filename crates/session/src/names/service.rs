//! The interface of a name service, which knows the rings that joins have made, and makes rings.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use groupcast_core::{MemberId, NodeId, OrderPlace};

use super::DomainName;

/// The most rings that joins have made at one time.
pub const RINGS_MADE_MAX: usize = 64;

/// A ring that a join has made, as all daemons agree on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingAddress {
    /// The name at its top: it carries the groups at and below it.
    pub top: DomainName,
    /// Its number: 64 random bits, which tell it from all other rings.
    pub number: u64,
    /// The address of its multicasts.
    pub multicast: SocketAddrV4,
    /// The place in the daemons' own order at which it was made.
    pub since: OrderPlace,
}

impl RingAddress {
    /// Whether this ring stands, and not `other`, if both have one name.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.rank() < other.rank()
    }

    /// Earlier rings rank lower. Two parts of a network can make rings at equal places: then the
    /// number decides.
    pub(super) fn rank(&self) -> (u64, groupcast_core::ConfigId, u64) {
        (self.since.seq, self.since.config, self.number)
    }
}

/// Addresses for rings that joins make: all addresses of a network, at one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool {
    first: u32,
    /// The bits of an address that are not the network's.
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

    /// The number of addresses.
    pub fn len(&self) -> u32 {
        1 << self.bits
    }

    /// Always false: a network has an address.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether `address` is in the pool.
    pub fn holds(&self, address: SocketAddrV4) -> bool {
        let network = address.ip().to_bits() & !(self.len() - 1);
        network == self.first && address.port() == self.port
    }

    /// The network, the length of its prefix in bits, and the port.
    pub fn parts(&self) -> (Ipv4Addr, u8, u16) {
        (Ipv4Addr::from_bits(self.first), 32 - self.bits, self.port)
    }

    /// The address for the ring `top`: the one that its name's hash gives, or the next that is not
    /// `taken`.
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
        // At most [`RINGS_MADE_MAX`] addresses are taken.
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
    /// A ring with a lower top exists.
    #[error("a ring {top} would be around the ring {below}: use a name that has no ring below it")]
    Below {
        /// The name of the ring that was asked for.
        top: DomainName,
        /// The top of that ring.
        below: DomainName,
    },
    /// There are as many rings as there may be.
    #[error(
        "there are {RINGS_MADE_MAX} rings that joins have made, as many as there may be: leave one first"
    )]
    Full,
    /// Every address of the pool is another ring's.
    #[error(
        "every address of the pool is a ring's: leave one first, or make the pool of this daemon larger"
    )]
    NoAddress,
}

/// A group in use: the answer of a daemon to another that asks for a ring above the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InUse {
    /// Its name.
    pub group: String,
    /// The top of the ring that carries it; empty for the daemons' own order.
    pub ring: String,
}

impl InUse {
    /// The order that carries the group, in words.
    fn carrier(&self) -> String {
        match self.ring.as_str() {
            "" => "the daemons' own order".to_owned(),
            ring => format!("the ring {ring}"),
        }
    }
}

/// The name service of one daemon: it knows which rings joins have made, and makes rings.
///
/// Sans-IO. Name services talk in *words*, which the daemons' own order carries. All daemons of a
/// configuration see the same words in the same order and act alike, so they know the same rings. A
/// word counts only in the configuration in which it was handed over.
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
    /// All states of a configuration have come. `members` go on together from here, this daemon
    /// among them; `said` has what each of them [said](Self::said).
    fn reformed(&mut self, members: &[MemberId], said: &[(MemberId, Vec<u8>)]);

    /// The part of the name service in the state that this daemon submits: the rings that it is a
    /// site of.
    fn said(&self) -> Vec<u8>;

    /// Asks for a ring with the top `top`, which a client wants. [`NameEvent::Settled`] follows.
    fn ask(&mut self, top: &DomainName, pool: Pool);

    /// Makes this daemon a site of the ring.
    fn add_site(&mut self, top: &DomainName);

    /// Takes this daemon, which has left the ring, from its sites.
    fn remove_site(&mut self, top: &DomainName);

    /// Takes in a word of the daemon `from`, at its place in the order.
    ///
    /// # Errors
    /// If the word makes no sense; it is skipped.
    fn handle_word(&mut self, from: MemberId, at: OrderPlace, word: &[u8]) -> Result<(), String>;

    /// The next word for the daemons' own order.
    fn poll_word(&mut self) -> Option<Vec<u8>>;

    /// Whether there is a next word.
    fn has_words(&self) -> bool;

    /// The next event for the host.
    fn poll_event(&mut self) -> Option<NameEvent>;

    /// The answer to [`NameEvent::IsFree`]: a group at or below `top` that has clients here, if
    /// there is one.
    fn answer(&mut self, top: &DomainName, in_use: Option<InUse>);

    /// All rings that joins have made, in the order of their names.
    fn rings(&self) -> Vec<RingAddress>;

    /// Whether this daemon is a site of the ring, as all daemons agree.
    fn is_site(&self, top: &DomainName) -> bool;

    /// Whether that is about to change: [`add_site`](Self::add_site) or
    /// [`remove_site`](Self::remove_site) is on its way.
    fn is_changing(&self, top: &DomainName) -> bool;
}

/// What a name service tells its host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameEvent {
    /// [`NameService::rings`] has changed.
    Changed,
    /// A daemon has the lock and asks for a ring with this top: call [`NameService::answer`].
    IsFree(DomainName),
    /// The result of a question of this daemon. If there is a ring, the daemon is a site of it.
    Settled(DomainName, Result<(), Refusal>),
}
