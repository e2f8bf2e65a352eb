//! How large the packets of a ring are: what the ways of all its members carry.

use groupcast_core::MemberId;

use super::config::{BODY_LEAST, RingConfig};
use super::wire::{Commit, DATA_HEADER, RECOVERED_HEADER};

/// How large packets are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PacketSize {
    /// The most bytes of a datagram body.
    pub(super) body_max: usize,
    /// The member whose way carries no more, if this member's way does.
    pub(super) narrowest: Option<MemberId>,
}

impl Commit {
    /// The most bytes of a datagram body that the ways of those carry that have declared it.
    pub(super) fn way(&self) -> usize {
        let declared = self.members.iter().filter(|part| part.holding.is_some());
        let least = declared.map(|part| part.body_max.into()).min();
        least.unwrap_or(BODY_LEAST)
    }
}

impl PacketSize {
    /// The most bytes of packed records where ways carry the least that they may.
    pub(super) const RECORDS_LEAST: usize = BODY_LEAST - DATA_HEADER - RECOVERED_HEADER;

    /// Without others to agree with.
    pub(super) fn own(config: &RingConfig) -> Self {
        Self {
            body_max: config.body_max,
            narrowest: None,
        }
    }

    /// What the ways of all members of the ring that `commit` forms carry.
    pub(super) fn agreed(commit: &Commit, config: &RingConfig) -> Self {
        let own = Self::own(config);
        let parts = commit.members.iter();
        let narrowest = parts.min_by_key(|part| part.body_max);
        narrowest.map_or(own, |part| Self {
            body_max: part.body_max.into(),
            narrowest: (usize::from(part.body_max) < own.body_max).then_some(part.member),
        })
    }

    /// The most bytes of packed records in a packet: what a recovered packet's larger header
    /// leaves.
    pub(super) fn records_max(self) -> usize {
        self.body_max - DATA_HEADER - RECOVERED_HEADER
    }
}
