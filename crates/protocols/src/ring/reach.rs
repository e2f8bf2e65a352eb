//! Members that a token does not reach: what is remembered of them from ring to ring.

use alloc::collections::BTreeMap;
use core::time::Duration;

use groupcast_core::mech::delays::{Delays, Lengths};
use groupcast_core::mech::peers::Peers;
use groupcast_core::{MemberId, Time};

/// What is remembered of tokens that did not arrive. Every table is bounded by [`Peers::MAX`].
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// Members that a called token did not reach: the token goes to them by rotation.
    uncalled: Delays,
    /// Members that did not acknowledge the token of a forming ring, how many times in a row.
    unacknowledged: BTreeMap<MemberId, u32>,
}

/// How long a member that a called token did not reach is served by rotation.
const UNCALLED: Lengths = Lengths {
    min: Duration::from_secs(60),
    max: Duration::from_secs(3_600),
    growth: 2,
};
/// A member that did not acknowledge a forming ring's token this many times in a row is left out.
const UNACKNOWLEDGED_MAX: u32 = 2;

impl Reach {
    /// A called token did not reach `member`, and the ring broke of it.
    pub(super) fn note_unanswered_call(&mut self, now: Time, member: MemberId) {
        self.uncalled.begin(now, member, UNCALLED);
    }

    /// Whether the token may be sent straight to `member` when it calls.
    pub(super) fn may_call(&self, now: Time, member: MemberId) -> bool {
        !self.uncalled.lasts(now, member)
    }

    /// `member` did not acknowledge a forming ring's token: whether it did so too often.
    pub(super) fn note_unacknowledged(&mut self, member: MemberId) -> bool {
        if self.unacknowledged.len() >= Peers::MAX {
            self.unacknowledged.clear();
        }
        let unacknowledged = self.unacknowledged.entry(member).or_insert(0);
        *unacknowledged += 1;
        *unacknowledged >= UNACKNOWLEDGED_MAX
    }

    /// A ring was installed.
    pub(super) fn forget_unacknowledged(&mut self) {
        self.unacknowledged.clear();
    }
}
