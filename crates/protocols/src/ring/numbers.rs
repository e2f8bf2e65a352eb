//! The ring's numbers, each a type of its own, so that none is taken for another; and the window
//! over the first of them. A packet's number is a place in the order of its ring.

pub(super) use groupcast_core::mech::indices::Index;
pub(super) use groupcast_core::mech::peers::Attempt;
pub(super) use groupcast_core::mech::seq::Seq;
use groupcast_core::mech::window::{Insert, SeqWindow};

use super::wire::Packet;

/// Packets that were claimed together: those above one number up to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claimed {
    /// The token's seq before.
    pub(super) above: Seq,
    /// The token's seq since.
    pub(super) last: Seq,
}

impl Claimed {
    pub(super) fn len(self) -> u64 {
        self.last.above(self.above)
    }

    pub(super) fn is_empty(self) -> bool {
        self.last == self.above
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Seq> {
        self.above.up_to(self.last)
    }

    /// The first `count` of them, and the others.
    pub(super) fn split_at(self, count: u64) -> (Self, Self) {
        let middle = self.above.plus(count.min(self.len()));
        let (above, last) = (self.above, self.last);
        let first = Self {
            above,
            last: middle,
        };
        let others = Self {
            above: middle,
            last,
        };
        (first, others)
    }
}

/// Consecutive packets: the first, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) first: Seq,
    pub(super) count: u16,
}

impl Run {
    /// The number behind the last.
    pub(super) fn end(self) -> Seq {
        Seq(self.first.0.saturating_add(u64::from(self.count)))
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Seq> {
        (self.first.0..self.end().0).map(Seq)
    }
}

/// A hop of the token, or of the commit token: grows with each pass from a member to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Hop(pub(super) u64);

impl Hop {
    /// The last hop of a commit token of `members`, which goes round twice. The hops of the ring's
    /// own tokens begin there: what acknowledges the one acknowledges none of the others, however
    /// late.
    pub(super) fn last_of_commit(members: usize) -> Self {
        Self(2 * members as u64)
    }

    /// The hop `hops` further.
    pub(super) fn plus(self, hops: u16) -> Self {
        Self(self.0.saturating_add(u64::from(hops)))
    }

    /// The round of a token that is at this hop in a ring of `members`.
    pub(super) fn round(self, members: usize) -> Round {
        Round((self.0 / members as u64) as u8)
    }

    /// The member that this hop leads to in a ring of `members`.
    pub(super) fn member(self, members: usize) -> usize {
        (self.0 % members as u64) as usize
    }
}

/// Rotations of the token since its first, modulo 256.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Round(pub(super) u8);

impl Round {
    pub(super) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Whether this round is `other` or one of the 127 after it.
    pub(super) fn is_from(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) as i8 >= 0
    }
}

/// The index of a ring's representative.
pub(super) const REPRESENTATIVE: Index = Index(0);

/// The packets of a ring, by number.
#[derive(Debug)]
pub(super) struct Window(SeqWindow<Packet>);

impl Window {
    /// A window in which all up to `start` counts as received.
    pub(super) fn new(start: Seq, capacity: usize) -> Self {
        Self(SeqWindow::new(start.0, capacity))
    }

    pub(super) fn insert(&mut self, seq: Seq, packet: Packet) -> Insert {
        self.0.insert(seq.0, packet)
    }

    pub(super) fn get(&self, seq: Seq) -> Option<&Packet> {
        self.0.get(seq.0)
    }

    pub(super) fn has(&self, seq: Seq) -> bool {
        self.0.has(seq.0)
    }

    pub(super) fn aru(&self) -> Seq {
        Seq(self.0.aru())
    }

    pub(super) fn high(&self) -> Seq {
        Seq(self.0.high())
    }

    /// How many numbers it spans now, whether their packets came or not.
    pub(super) fn span(&self) -> u64 {
        self.0.high().saturating_sub(self.0.base()) + 1
    }

    /// The number below the lowest that is kept.
    pub(super) fn discarded(&self) -> Seq {
        Seq(self.0.base() - 1)
    }

    /// How many numbers above `seq` there is room for.
    pub(super) fn room_above(&self, seq: Seq) -> u64 {
        (self.0.capacity() as u64).saturating_sub(seq.above(self.discarded()))
    }

    /// Makes room up to `seq`.
    pub(super) fn reach(&mut self, seq: Seq) {
        self.0.grow(seq.above(self.discarded()) as usize);
    }

    /// The highest number that there is room for.
    pub(super) fn end(&self) -> Seq {
        Seq(self.discarded().0.saturating_add(self.0.capacity() as u64))
    }

    pub(super) fn missing(&self, limit: Seq) -> impl Iterator<Item = Seq> {
        self.0.missing(limit.0).map(Seq)
    }

    pub(super) fn discard_to(&mut self, seq: Seq) {
        self.0.discard_to(seq.0);
    }
}
