//! RMP's numbers, each a type of its own, so that none is taken for another. Positions in the order
//! are [`Seq`](groupcast_core::mech::seq::Seq).

use groupcast_core::ConfigId;
use groupcast_core::mech::seq::Seq;

/// A member's count of its packets in one configuration, from 1 on; or a mark, which says something
/// of all its packets up to this one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub(super) struct Number(pub(super) u64);

impl Number {
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The timestamp of an ACK: one more than that of the ACK before, whoever sent it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub(super) struct Stamp(pub(super) u64);

impl Stamp {
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Consecutive packets of one member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Packets {
    /// Whose, by its index in the configuration.
    pub(super) origin: u8,
    pub(super) first: Number,
    pub(super) count: u8,
}

impl Packets {
    pub(super) fn numbers(self) -> impl Iterator<Item = Number> {
        (self.first.0..self.first.0 + u64::from(self.count)).map(Number)
    }
}

/// Consecutive positions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Positions {
    pub(super) first: Seq,
    pub(super) count: u8,
}

impl Positions {
    pub(super) fn iter(self) -> impl Iterator<Item = Seq> {
        (self.first.0..self.first.0 + u64::from(self.count)).map(Seq)
    }
}

/// What a member says of itself on all that it sends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct Marks {
    /// It knows the positions of its own packets up to here.
    pub(super) known: Number,
    /// It holds every position up to here, and may deliver it as agreed.
    pub(super) ready: Seq,
}

/// A configuration's identity in eight bytes. All configurations of one representative have
/// different tags; two of different representatives have the same one in one of 2^64 cases, since
/// incarnations are random.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Tag(pub(super) u64);

impl From<ConfigId> for Tag {
    fn from(id: ConfigId) -> Self {
        /// Odd, so that no two counters give the same product: 2^64 by the golden ratio.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        Self(id.representative.incarnation.0 ^ id.counter.wrapping_mul(SPREAD))
    }
}
