//! Members of one configuration by their places in its list, and sets of them.

/// The index of a member in the list of its configuration's members.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Index(pub u16);

impl Index {
    /// As the index of a slice.
    pub fn at(self) -> usize {
        usize::from(self.0)
    }
}

/// A set of indices below [`MAX`](Self::MAX), which is why a configuration whose members are named
/// by it has at most that many.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Indices(u128);

impl Indices {
    /// The most members of a configuration.
    pub const MAX: usize = 128;
    /// Every index.
    pub const ALL: Self = Self(u128::MAX);

    /// The set whose bit `i` says whether index `i` is in it, as it is on the wire.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The set as bits.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Adds `index`. One that no set can have is left out.
    pub fn insert(&mut self, index: Index) {
        self.0 |= bit(index);
    }

    /// Takes `index` out.
    pub fn remove(&mut self, index: Index) {
        self.0 &= !bit(index);
    }

    /// Whether `index` is in the set.
    pub fn contains(self, index: Index) -> bool {
        self.0 & bit(index) != 0
    }

    /// How many members are in the set.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lowest index in the set.
    pub fn first(self) -> Option<Index> {
        (self.0 != 0).then(|| Index(self.0.trailing_zeros() as u16))
    }

    /// Who is in this set or in `other`.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

fn bit(index: Index) -> u128 {
    1u128.checked_shl(u32::from(index.0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_out_is_gone_and_the_lowest_of_the_rest_is_first() {
        let mut set = Indices::default();
        assert!(set.is_empty() && set.first().is_none());
        for index in [0, 3, 5] {
            set.insert(Index(index));
        }
        assert_eq!((set.len(), set.first()), (3, Some(Index(0))));
        set.remove(Index(0));
        assert_eq!((set.bits(), set.first()), (0b10_1000, Some(Index(3))));
        assert!(!set.is_empty());
    }

    #[test]
    fn an_index_that_no_set_can_have_is_in_none() {
        let mut set = Indices::default();
        set.insert(Index(127));
        set.insert(Index(128));
        assert_eq!((set.len(), set.first()), (1, Some(Index(127))));
        assert!(!Indices::ALL.contains(Index(128)));
        set.remove(Index(128));
        set.remove(Index(127));
        assert!(set.is_empty());
    }
}
