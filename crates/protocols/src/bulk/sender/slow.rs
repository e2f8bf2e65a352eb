//! The few receivers that hold back the many: they are demoted or given up.

use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::{MemberId, Time};

use super::super::config::SlowPolicy;
use super::super::context::Context;
use super::super::numbers::PassNumber;
use super::super::transfer::Outcome;
use super::{Peer, Sender};

/// A receiver that loses less than this share of transmissions is not slow for it.
const LOSS_MIN: f64 = 0.03;

/// How long the room of receivers has stopped a sender.
#[derive(Debug)]
pub(super) struct Stops {
    /// When it last looked for receivers that hold back others.
    looked: Time,
    /// How long it was stopped since then.
    lasted: Duration,
    /// Since when it is stopped, if it is.
    since: Option<Time>,
}

impl Stops {
    pub(super) fn new(now: Time) -> Self {
        Self {
            looked: now,
            lasted: Duration::ZERO,
            since: None,
        }
    }

    /// Receivers have no room for what is to be sent now, or have.
    pub(super) fn stopped(&mut self, now: Time, is_stopped: bool) {
        match (self.since, is_stopped) {
            (None, true) => self.since = Some(now),
            (Some(since), false) => {
                self.lasted += now - since;
                self.since = None;
            }
            _ => {}
        }
    }

    /// How long it was since it last looked, and how much of that it was stopped.
    fn look(&mut self, now: Time) -> (Duration, Duration) {
        let passed = now - self.looked;
        let lasted = self.lasted + self.since.map_or(Duration::ZERO, |since| now - since);
        *self = Self {
            looked: now,
            lasted: Duration::ZERO,
            since: self.since.map(|_| now),
        };
        (passed, lasted.min(passed))
    }
}

impl Sender {
    /// Finds the few receivers that hold back the many, and sets aside those that have done so for
    /// too long.
    ///
    /// They are at most a third of those that are waited for: if many held back the others, it
    /// would be the others that are fast. Those whose users are slow (a disk) may be half of all:
    /// it costs them nothing, since they take all the same what they have room for, and get the
    /// rest in a later pass. Of two receivers one is slow where slow ones are dropped: the user has
    /// said that the other one is not to wait.
    pub(super) fn look_for_slow(&mut self, context: &mut Context<'_>) {
        let config = context.config;
        let is_early = context.now - self.stops.looked < config.slow_after / 16;
        if config.slow == SlowPolicy::Wait || is_early {
            return;
        }
        // A report that opens the room comes at the end of a stop. So what counts is how long the
        // sender was stopped, and who is short of room still.
        let (passed, stopped) = self.stops.look(context.now);
        let limit = self.limit();
        let held_back = self.stream.is_held_back(limit);
        let top = self.stream.top();
        let base = self
            .gating()
            .map(|peer| peer.next)
            .min()
            .unwrap_or_default();
        let count = self.gating().count();
        let mut losses: Vec<f64> = self.gating().map(|peer| peer.loss).collect();
        losses.sort_by(f64::total_cmp);
        let one_of_two = config.slow == SlowPolicy::Drop && count == 2;
        // What one of two loses is compared with what the other one does.
        let middle = if one_of_two { 0 } else { losses.len() / 2 };
        let median = losses.get(middle).copied().unwrap_or(0.0);

        let holds = |peer: &Peer| {
            let stops = held_back && (peer.next == base || peer.limit == limit);
            let loses = peer.sampled > 256 && peer.loss > LOSS_MIN.max(4.0 * median);
            peer.gates && (stops || loses)
        };
        let hold = self.peers.values().filter(|peer| holds(peer)).count();
        let few_hold = hold * 3 <= count || one_of_two && hold == 1;
        // Of what cannot be sent again, a receiver that is set aside gets nothing more. In a later
        // pass all are slow.
        let is_first = self.pass_number() == PassNumber::FIRST;
        let was_stopped = is_first && self.transfer.rewindable && !stopped.is_zero();
        let is_short = |peer: &Peer| was_stopped && peer.gates && peer.is_short_of_room(top);
        let short = self.peers.values().filter(|peer| is_short(peer)).count();
        let served = self.roster().len();
        let few_are_short = (served.saturating_sub(count) + short) * 2 <= served;
        // A receiver that has to stay is not set aside while it is silent: it may be gone, and then
        // the others are not to be served without it.
        let waits_for_silent = self.required.is_some();
        let is_silent =
            |peer: &Peer| waits_for_silent && context.now - peer.heard >= config.slow_after / 2;
        let mut slow = Vec::new();
        for (member, peer) in &mut self.peers {
            let held = if few_hold && holds(peer) {
                passed
            } else if few_are_short && is_short(peer) {
                stopped
            } else {
                Duration::ZERO
            };
            peer.holds_back = (peer.holds_back + held).saturating_sub((passed - held) / 2);
            let is_slow = !peer.holds_back.is_zero() && peer.holds_back >= config.slow_after;
            if peer.gates && is_slow && !is_silent(peer) {
                slow.push(*member);
            }
        }
        for member in slow {
            self.set_aside(context, member);
        }
        self.set_apart(context);
    }

    /// The rate is held far below what the others take by these few. One that was blamed once, and
    /// takes as much as the others, stays; so does one that is silent and has to stay.
    pub(super) fn leave_behind(&mut self, context: &mut Context<'_>) {
        let waits_for_silent = self.required.is_some();
        let half = context.config.slow_after / 2;
        let now = context.now;
        // One that would be given up for good, and was not heard in the leap, may have lost a
        // report or two.
        let patience = match self.serves_later(context) {
            true => Duration::ZERO,
            false => context.config.slow_after,
        };
        let is_slow = |peer: &Peer| match peer.path.took_leap() {
            Some(took) => !(took || waits_for_silent && now - peer.heard >= half),
            None => !waits_for_silent && now - peer.heard >= patience,
        };
        let is_blamed = |peer: &Peer| peer.gates && peer.path.is_blamed() && is_slow(peer);
        let blamed = self.peers.iter().filter(|(_, peer)| is_blamed(peer));
        let blamed: Vec<MemberId> = blamed.map(|(member, _)| *member).collect();
        for member in &blamed {
            self.set_aside(context, *member);
            if let Some(peer) = self.peers.get_mut(member) {
                peer.is_outpaced = true;
            }
        }
        self.set_apart(context);
    }

    /// Whether a slow receiver can be served after the others; else it is dropped, if anything is
    /// done about it.
    fn serves_later(&self, context: &Context<'_>) -> bool {
        context.config.slow == SlowPolicy::Demote && self.transfer.rewindable
    }

    /// A slow receiver is demoted, or dropped.
    fn set_aside(&mut self, context: &mut Context<'_>, member: MemberId) {
        if self.serves_later(context) {
            context.counters.demoted += 1;
            if let Some(peer) = self.peers.get_mut(&member) {
                peer.gates = false;
            }
            self.leave_chains(context, &[member]);
        } else {
            self.drop_receiver(context, member, Outcome::Slow);
        }
    }
}
