//! The number of a place in the order of one configuration, and the newtype for it.
//!
//! Both engines that order messages count places with it: the packets of a ring, the timestamps of
//! RMP. It does not wrap: 64 bits last longer than any configuration.

/// The number of a place in an order, or a mark: all places up to it have something in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Seq(pub u64);

impl Seq {
    /// Below the first.
    pub const ZERO: Self = Self(0);
    /// Above all that an order reaches.
    pub const MAX: Self = Self(u64::MAX);

    /// The number above this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The number below this one, which is not [`ZERO`](Self::ZERO).
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0 - 1)
    }

    /// The number `count` above this one.
    #[must_use]
    pub fn plus(self, count: u64) -> Self {
        Self(self.0 + count)
    }

    /// How far this number is above `mark`; 0 if it is not.
    pub fn above(self, mark: Self) -> u64 {
        self.0.saturating_sub(mark.0)
    }

    /// All numbers above this one up to `last`.
    pub fn up_to(self, last: Self) -> impl Iterator<Item = Self> {
        (self.0 + 1..=last.0).map(Self)
    }
}
