//! Counts of a transfer that must not be mistaken for each other.
//!
//! Packet numbers are plain `u64`: sets and ranges of them are what most of the code works on, and
//! whatever counts bytes says so in its name.

/// A sender's count of its transmissions: data, parity and polls alike. Each carries its own; 0
/// before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Stamp(pub(super) u64);

impl Stamp {
    /// The stamp of the next transmission.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The stamp `count` transmissions later.
    pub(super) fn after(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// Transmissions since `earlier`; `None` if that is later than this one.
    pub(super) fn since(self, earlier: Self) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

/// Which pass over the stream, from 1; 0 before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct PassNumber(pub(super) u16);

impl PassNumber {
    /// The pass that serves the receivers that registered in time.
    pub(super) const FIRST: Self = Self(1);

    /// The pass after this one. The last possible number is used again: it stands for all that
    /// follow.
    pub(super) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// How many epochs of the rate control have ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Epoch(pub(super) u32);

impl Epoch {
    /// The epoch after this one.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
