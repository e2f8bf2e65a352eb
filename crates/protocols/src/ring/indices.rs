//! A set of members of one ring, by their indices in it.

use super::numbers::Index;

/// A set of indices below 128, which is why a ring has at most that many members.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Indices(pub(super) u128);

impl Indices {
    /// The most members of a ring.
    pub(super) const MAX: usize = 128;

    pub(super) fn insert(&mut self, index: Index) {
        self.0 |= 1u128.checked_shl(u32::from(index.0)).unwrap_or(0);
    }

    pub(super) fn remove(&mut self, index: Index) {
        self.0 &= !1u128.checked_shl(u32::from(index.0)).unwrap_or(0);
    }

    pub(super) fn contains(self, index: Index) -> bool {
        self.0 & 1u128.checked_shl(u32::from(index.0)).unwrap_or(0) != 0
    }

    /// How many members are in the set.
    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The lowest index in the set.
    pub(super) fn first(self) -> Option<Index> {
        (self.0 != 0).then(|| Index(self.0.trailing_zeros() as u16))
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
