//! Windows that tune themselves, and what the time-outs adapt to.
//!
//! The personal window grows while it is what limits a visit, few packets have to be sent again and
//! rotations are short. A rotation is long enough when each member's visit takes many times as long
//! as passing the token: larger bursts would wait in the queues of senders and switches. Near that
//! length only those grow that have less than a fair share: where wires are the limit, unequal
//! windows leave some of them idle, since a member's own packets do not cross the wire that leads
//! to it. Above it the window shrinks by an eighth, down to a least size; a smaller one grows by
//! one packet, since rotations may be long because the members are far apart. It halves when more
//! than an eighth of a rotation's packets are retransmissions. Neither happens more often than a
//! change takes to show; a ring that breaks halves it too. A rotation so long that its token may be
//! taken for lost, because a host is slow, halves it at once, and from there it may grow by half at
//! a time only: the ring would break in each burst. The global window, the same at all members, is
//! what a receiver's socket buffer takes. (A share of one's own window would let a member with a
//! small one starve.)
//!
//! Post-token packets are three quarters of the personal window (002 III-A.1: acceleration): as
//! many members then send at a time as keep the links busy; if all sent after the token, all would
//! send at a time, into the buffers of one switch. A lone packet goes before the token, which would
//! only wake the next member to pass on what it has not got yet. The original ring is accelerated
//! window 0 with the second priority method.

use core::time::Duration;

use groupcast_core::Time;
use groupcast_core::mech::estimate::{Estimate, Shortest};

use super::config::RingConfig;
use super::ordering::Limits;

/// Least packets a visit, however long rotations are, unless the ring broke.
const PERSONAL_MIN: u32 = 16;
/// Least packets a visit after tokens were lost.
const PERSONAL_LEAST: u32 = 2;
/// Most packets a visit: eight sends, each of 64 KiB in packets for an MTU of 1500.
const PERSONAL_MAX: u32 = 376;
/// Packets by which a window grows at a visit: as many at every member, and what it shrinks by is a
/// share, so that windows that differ come together.
const GROWTH: u32 = 4;
/// Most packets of all members a rotation.
const GLOBAL_MAX: u32 = 1024;
/// A rotation is long when it takes this for each member: many times what waking up for the token
/// and passing it take.
const VISIT_LONG: Duration = Duration::from_micros(800);
/// A rotation of any number of members is long when it takes this.
const ROTATION_LONG: Duration = Duration::from_millis(8);
/// Visits that it takes until a smaller window shows in the mean rotation.
const SETTLING: u32 = 8;
/// Visits that the window limits until it may be larger than it was after a rotation that was too
/// long, unless that takes longer than [`CAUTION_TIME`].
const CAUTION: u32 = 64;
/// This much time in rotations whose window is the limit is enough, with as many visits as it takes
/// for a window to show in the mean.
const CAUTION_TIME: Duration = Duration::from_millis(500);

/// The token is sent again after this part of the least token-loss time-out at the latest, unless
/// `token_retransmit_min` is longer.
const RETRANSMIT_PART: u32 = 5;

/// Flow control of one member.
#[derive(Debug)]
pub(super) struct Flow {
    personal: u32,
    pinned_personal: Option<u32>,
    pinned_global: Option<u32>,
    pinned_accelerated: Option<u32>,
    seq_gap: u32,
    rotation: Estimate,
    /// A rotation in which no token was lost: with a fifth of them lost on the way, one in a few of
    /// eight members'.
    undisturbed: Shortest,
    /// A rotation longer than this may be taken for a lost token.
    fitting: Duration,
    /// Rotations that were.
    slow: u64,
    /// The last one was.
    endangered: bool,
    /// The most that the window may be since then.
    personal_most: u32,
    /// Visits that the window limited since that changed.
    limited_visits: u32,
    /// How long the rotations before them took.
    limited_for: Duration,
    /// How long the last rotation took, if its way round says that.
    last: Duration,
    /// Visits of the token since the window was last made smaller.
    visits_since_change: u32,
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
            fitting: config.token_loss_max / 3,
            slow: 0,
            endangered: false,
            personal_most: PERSONAL_MAX,
            limited_visits: 0,
            limited_for: Duration::ZERO,
            last: Duration::ZERO,
            visits_since_change: 0,
            token_left: None,
        }
    }

    /// What the next visit may send.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            personal: self.personal,
            global: self.pinned_global.unwrap_or(GLOBAL_MAX),
            seq_gap: self.seq_gap,
        }
    }

    /// Of `new` packets of a visit, how many go before the token (002 III-A.1).
    pub(super) fn before_token(&self, new: u64) -> u64 {
        let accelerated = match self.pinned_accelerated {
            Some(pinned) => pinned,
            None if new == 1 => 0,
            None => self.personal * 3 / 4,
        };
        new.saturating_sub(u64::from(accelerated))
    }

    /// A visit took place: `limited` by the window; the last rotation of `members` sent `fcc`
    /// packets, `retransmissions` of them again.
    pub(super) fn adapt(&mut self, limited: bool, members: u32, fcc: u32, retransmissions: u32) {
        if self.pinned_personal.is_some() {
            return;
        }
        if core::mem::take(&mut self.endangered) {
            self.personal = (self.personal / 2).max(PERSONAL_LEAST);
            self.personal_most = self.personal;
            (self.visits_since_change, self.limited_visits) = (0, 0);
            self.limited_for = Duration::ZERO;
            return;
        }
        self.visits_since_change = self.visits_since_change.saturating_add(1);
        let lossy = retransmissions.saturating_mul(8) > fcc && retransmissions > 4;
        let long = VISIT_LONG.saturating_mul(members).min(ROTATION_LONG);
        let rotation = self.rotation.mean();
        if lossy || rotation > long && self.personal > PERSONAL_MIN {
            if self.visits_since_change >= SETTLING {
                let least = self.personal.min(PERSONAL_MIN);
                let less = self.personal / if lossy { 2 } else { 8 };
                self.personal = (self.personal - less).max(least);
                self.visits_since_change = 0;
            }
        } else if limited {
            let growth = if rotation * 4 < long * 3 {
                GROWTH
            } else {
                // Rotations may be long without any packets: what is far away stays far.
                let small = self.personal < PERSONAL_MIN || self.personal * members < fcc;
                u32::from(small)
            };
            self.personal = (self.personal + growth).min(self.most());
        }
    }

    /// The most that the window may be at a visit that it limits.
    fn most(&mut self) -> u32 {
        self.limited_visits += 1;
        self.limited_for += self.last;
        let settled = self.limited_visits >= SETTLING && self.limited_for >= CAUTION_TIME;
        if settled || self.limited_visits >= CAUTION {
            (self.limited_visits, self.limited_for) = (0, Duration::ZERO);
            self.personal_most = (self.personal_most * 3 / 2).min(PERSONAL_MAX);
        }
        self.personal_most.max(self.personal)
    }

    /// The ring broke, perhaps because the network could not take the bursts: begins again with
    /// smaller ones.
    pub(super) fn ring_broke(&mut self) {
        self.undisturbed = Shortest::default();
        if self.pinned_personal.is_none() {
            self.personal = (self.personal / 2).max(PERSONAL_LEAST);
        }
    }

    /// The token comes: samples the rotation.
    pub(super) fn token_came(&mut self, now: Time) {
        self.last = Duration::ZERO;
        if let Some(left) = self.token_left.take() {
            let rotation = now.since(left);
            self.last = rotation;
            self.rotation.sample(rotation);
            self.undisturbed.sample(rotation);
            self.endangered = rotation > self.fitting;
            self.slow += u64::from(self.endangered);
        }
    }

    /// The token goes; `timed` if its way round will say how long a rotation takes.
    pub(super) fn token_went(&mut self, now: Time, timed: bool) {
        self.token_left = timed.then_some(now);
    }

    /// Rotations that took more than a third of the longest token-loss time-out.
    pub(super) fn slow(&self) -> u64 {
        self.slow
    }

    /// The smoothed rotation.
    pub(super) fn rotation(&self) -> &Estimate {
        &self.rotation
    }

    /// Packets a visit may initiate now.
    pub(super) fn personal(&self) -> u32 {
        self.personal
    }

    /// When to send a token again. The mean rotation is no measure for it: it grows with every
    /// token that is lost, and so would the time-out that makes up for it.
    pub(super) fn token_retransmit(&self, config: &RingConfig) -> Duration {
        let undisturbed = self.undisturbed.value() * 2;
        let most = config.token_loss_min / RETRANSMIT_PART;
        undisturbed.min(most).max(config.token_retransmit_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window after `visits` that it limits, each a rotation of `millis` after the one before.
    fn after(flow: &mut Flow, visits: u32, millis: u64) -> u32 {
        for visit in 0..u64::from(visits) {
            flow.token_went(Time::from_millis(visit * millis), true);
            flow.token_came(Time::from_millis((visit + 1) * millis));
            flow.adapt(true, 3, flow.personal * 3, 0);
        }
        flow.personal()
    }

    #[test]
    fn a_window_that_slow_rotations_halved_grows_by_half_at_a_time() {
        let mut flow = Flow::new(&RingConfig::lan());
        assert_eq!(after(&mut flow, 1, 100), PERSONAL_MIN / 2);
        assert_eq!(flow.slow(), 1);
        // The mean forgets the slow rotation, and the window stays.
        assert_eq!(after(&mut flow, CAUTION - 1, 0), PERSONAL_MIN / 2);
        assert_eq!(after(&mut flow, CAUTION, 0), PERSONAL_MIN * 3 / 4);
        assert_eq!(after(&mut flow, 10, 100), PERSONAL_LEAST);
        assert!(after(&mut flow, 20 * CAUTION, 0) > 10 * PERSONAL_MIN);
    }

    /// Eight members with 5 ms from each to the next: 64 visits were three seconds.
    #[test]
    fn a_window_that_a_slow_rotation_halved_grows_again_within_half_a_second() {
        let mut flow = Flow::new(&RingConfig::lan());
        assert_eq!(after(&mut flow, 1, 100), PERSONAL_MIN / 2);
        assert_eq!(after(&mut flow, 11, 45), PERSONAL_MIN / 2);
        assert!(after(&mut flow, 1, 45) > PERSONAL_MIN / 2);
        // Too few rotations say nothing.
        let mut flow = Flow::new(&RingConfig::wan());
        assert_eq!(after(&mut flow, 1, 4_000), PERSONAL_MIN / 2);
        assert_eq!(after(&mut flow, SETTLING - 1, 600), PERSONAL_MIN / 2);
        assert!(after(&mut flow, 1, 600) > PERSONAL_MIN / 2);
    }

    /// The least retransmission time-out may be above the longest that rotations lead to.
    #[test]
    fn every_retransmission_time_out_that_is_valid_is_kept() {
        let lan = RingConfig::lan();
        for token_retransmit_min in [Duration::ZERO, lan.token_loss_min / 4] {
            let config = RingConfig {
                token_retransmit_min,
                ..lan.clone()
            };
            assert_eq!(config.validate(), Ok(()));
            let mut flow = Flow::new(&config);
            assert_eq!(flow.token_retransmit(&config), token_retransmit_min);
            after(&mut flow, 40, 1_000);
            let most = token_retransmit_min.max(lan.token_loss_min / RETRANSMIT_PART);
            assert_eq!(flow.token_retransmit(&config), most);
        }
    }

    /// Eight members with 5 ms from each to the next have no shorter ones.
    #[test]
    fn a_window_that_breaks_made_small_grows_to_the_least_in_long_rotations_too() {
        let mut flow = Flow::new(&RingConfig::lan());
        (0..4).for_each(|_| flow.ring_broke());
        assert_eq!(flow.personal(), PERSONAL_LEAST);
        let visits = PERSONAL_MIN - PERSONAL_LEAST;
        assert_eq!(after(&mut flow, visits, 45), PERSONAL_MIN);
        assert_eq!(after(&mut flow, visits, 45), PERSONAL_MIN);
    }

    #[test]
    fn quick_rotations_let_the_window_grow_at_once() {
        let mut flow = Flow::new(&RingConfig::lan());
        assert_eq!(after(&mut flow, 10, 1), PERSONAL_MIN + 10 * GROWTH);
    }
}
