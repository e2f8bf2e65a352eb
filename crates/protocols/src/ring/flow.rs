//! Windows that tune themselves, and what the time-outs adapt to.
//!
//! The personal window grows by an eighth while it is what limits a visit and few packets have to be sent again, and
//! halves when more than an eighth of a rotation's packets are retransmissions, or when a rotation takes so long that
//! a larger burst would only add latency; a ring that breaks halves it too. The global window is what all personal windows together may use, bounded by
//! what a receiver's socket buffer takes. Post-token packets are three quarters of the personal window (002 III-A.1:
//! acceleration); the original ring is accelerated window 0 with the second priority method.

use core::time::Duration;

use groupcast_core::Time;
use groupcast_core::mech::estimate::{Estimate, Shortest};

use super::config::RingConfig;
use super::ordering::Limits;

/// Least packets a visit.
const PERSONAL_MIN: u32 = 16;
/// Least packets a visit after tokens were lost.
const PERSONAL_LEAST: u32 = 2;
/// Most packets a visit: eight full sends of 47 segments.
const PERSONAL_MAX: u32 = 376;
/// Most packets of all members a rotation.
const GLOBAL_MAX: u32 = 1024;
/// A rotation that takes longer than this is not made longer.
const ROTATION_LONG: Duration = Duration::from_millis(8);

/// Flow control of one member.
#[derive(Debug)]
pub(super) struct Flow {
    personal: u32,
    pinned_personal: Option<u32>,
    pinned_global: Option<u32>,
    pinned_accelerated: Option<u32>,
    seq_gap: u32,
    rotation: Estimate,
    /// A rotation in which no token was lost: with a fifth of them lost on the way, one in a few of eight members'.
    undisturbed: Shortest,
    /// When the token left; `None` if its way round says nothing (it rested, or the ring is new).
    token_left: Option<Time>,
}

impl Flow {
    pub(super) fn new(config: &RingConfig) -> Self {
        Self {
            personal: config.personal_window.unwrap_or(PERSONAL_MIN),
            pinned_personal: config.personal_window,
            pinned_global: config.global_window,
            pinned_accelerated: config.accelerated_window,
            seq_gap: config.seq_gap_max,
            rotation: Estimate::default(),
            undisturbed: Shortest::default(),
            token_left: None,
        }
    }

    /// What the next visit may send in a ring of `members`.
    pub(super) fn limits(&self, members: usize) -> Limits {
        let all = self
            .personal
            .saturating_mul(members as u32)
            .max(self.personal * 2);
        Limits {
            personal: self.personal,
            global: self.pinned_global.unwrap_or(all.min(GLOBAL_MAX)),
            seq_gap: self.seq_gap,
        }
    }

    /// Of `new` packets of a visit, how many go before the token (002 III-A.1).
    pub(super) fn before_token(&self, new: u64) -> u64 {
        let accelerated = self.pinned_accelerated.unwrap_or(self.personal * 3 / 4);
        new.saturating_sub(u64::from(accelerated))
    }

    /// A visit took place: `limited` by the window; the last rotation sent `fcc` packets, `retransmissions` of them
    /// again.
    pub(super) fn adapt(&mut self, limited: bool, fcc: u32, retransmissions: u32) {
        if self.pinned_personal.is_some() {
            return;
        }
        let lossy = retransmissions * 8 > fcc && retransmissions > 4;
        let slow = self.rotation.mean() > ROTATION_LONG;
        if lossy || slow {
            self.personal = (self.personal / 2).max(self.personal.min(PERSONAL_MIN));
        } else if limited && self.rotation.mean() * 2 <= ROTATION_LONG {
            self.personal = (self.personal + self.personal / 8 + 1).min(PERSONAL_MAX);
        }
    }

    /// The ring broke, perhaps because the network could not take the bursts: begins again with smaller ones.
    pub(super) fn ring_broke(&mut self) {
        self.undisturbed = Shortest::default();
        if self.pinned_personal.is_none() {
            self.personal = (self.personal / 2).max(PERSONAL_LEAST);
        }
    }

    /// The token comes: samples the rotation.
    pub(super) fn token_came(&mut self, now: Time) {
        if let Some(left) = self.token_left.take() {
            self.rotation.sample(now.since(left));
            self.undisturbed.sample(now.since(left));
        }
    }

    /// The token goes; `timed` if its way round will say how long a rotation takes.
    pub(super) fn token_went(&mut self, now: Time, timed: bool) {
        self.token_left = timed.then_some(now);
    }

    /// The smoothed rotation.
    pub(super) fn rotation(&self) -> &Estimate {
        &self.rotation
    }

    /// Packets a visit may initiate now.
    pub(super) fn personal(&self) -> u32 {
        self.personal
    }

    /// When to send a token again. The mean rotation is no measure for it: it grows with every token that is lost, and
    /// so would the time-out that makes up for it.
    pub(super) fn token_retransmit(&self, config: &RingConfig) -> Duration {
        (self.undisturbed.value() * 2).clamp(config.token_retransmit_min, config.token_loss_min / 5)
    }
}
