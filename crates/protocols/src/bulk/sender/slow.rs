//! The few receivers that hold back the many: they are demoted or given up.

use alloc::vec::Vec;

use groupcast_core::MemberId;

use super::super::config::SlowPolicy;
use super::super::context::Context;
use super::super::transfer::Outcome;
use super::{Peer, Sender};

/// A receiver that loses less than this share of transmissions is not slow for it.
const LOSS_MIN: f64 = 0.03;

impl Sender {
    /// Finds the few receivers that hold back the many, and sets aside those that have done so for
    /// too long.
    pub(super) fn look_for_slow(&mut self, context: &mut Context<'_>) {
        let passed = context.now - self.looked;
        let config = context.config;
        if config.slow == SlowPolicy::Wait || passed < config.slow_after / 16 {
            return;
        }
        self.looked = context.now;
        let limit = self.limit();
        let held_back = self.stream.is_held_back(limit);
        let base = self
            .gating()
            .map(|peer| peer.next)
            .min()
            .unwrap_or_default();
        let count = self.gating().count();
        let mut losses: Vec<f64> = self.gating().map(|peer| peer.loss).collect();
        losses.sort_by(f64::total_cmp);
        let median = losses.get(losses.len() / 2).copied().unwrap_or(0.0);

        let holds = |peer: &Peer| {
            let stops = held_back && (peer.next == base || peer.limit == limit);
            let loses = peer.sampled > 256 && peer.loss > LOSS_MIN.max(4.0 * median);
            peer.gates && (stops || loses)
        };
        // If many held back the others, it would be the others that are fast.
        let few = self.peers.values().filter(|peer| holds(peer)).count() * 3 <= count;
        // Who has to stay is not set aside while it is silent: it may be gone, and then the others
        // are not to be served without it.
        let waits_for_silent = self.required.is_some();
        let is_silent =
            |peer: &Peer| waits_for_silent && context.now - peer.heard >= config.slow_after / 2;
        let mut slow = Vec::new();
        for (member, peer) in &mut self.peers {
            if few && holds(peer) {
                peer.holds_back += passed;
            } else {
                peer.holds_back = peer.holds_back.saturating_sub(passed / 2);
            }
            if peer.gates && peer.holds_back >= config.slow_after && !is_silent(peer) {
                slow.push(*member);
            }
        }
        for member in slow {
            self.set_aside(context, member);
        }
        self.set_apart(context);
    }

    /// A slow receiver is demoted, or dropped.
    fn set_aside(&mut self, context: &mut Context<'_>, member: MemberId) {
        if context.config.slow == SlowPolicy::Demote && self.transfer.rewindable {
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
