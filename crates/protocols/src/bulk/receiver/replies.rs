//! The Multidriver at a receiver (003 5.3.2, 5.3.3): it waits before it registers, replies to
//! requests, waits before that too if it is told to, and repeats a reply until the sender has
//! acknowledged it. It says nothing else of what it misses.

use core::time::Duration;

use groupcast_core::Time;

use super::super::config::{Multidriver, Policy};
use super::super::context::Context;
use super::super::numbers::{PacketNumber, Stamp};
use super::super::wire::{Message, Purpose, ReceiverReport, ReplyTag, Tag};
use super::{Receiver, Timer};
use crate::xgm::Subgroups;

/// A reply that is to be sent, or was sent and is not acknowledged. A newer one takes its place: it
/// says more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    /// Of the request.
    stamp: Stamp,
    /// Whether the rate is asked for.
    rate: bool,
    /// When the request came, and how many transmissions had come by then.
    came: Time,
    received: u64,
    /// How long until it is repeated.
    wait: Duration,
}

impl Receiver {
    /// The policy's settings, if it is this one or the list-based one.
    pub(super) fn multidriver(&self) -> Option<Multidriver> {
        self.policy().rounds().copied()
    }

    /// The subgroups that this receiver is in, if what it says has to name them (003 5.4).
    pub(super) fn own_vector(&self, context: &Context<'_>) -> Option<Subgroups> {
        self.is_listed().then_some(context.subgroups)
    }

    /// Whether the policy is the list-based one.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.policy(), Policy::List(_))
    }

    /// Registers, under this policy after a random part of the back-off for the whole set.
    pub(super) fn register_in_turn(&mut self, context: &mut Context<'_>) {
        let Some(rule) = self.multidriver() else {
            return self.register(context);
        };
        let most = rule.backoff_time(self.announce.set_size);
        let wait = context.rng.duration(Duration::ZERO, most);
        self.timers.set(Timer::Register, context.now + wait);
    }

    pub(super) fn handle_tag(&mut self, context: &mut Context<'_>, tag: Tag) {
        let Some(store) = self.state.store_mut() else {
            return;
        };
        if tag.stamp > self.seen {
            // What is asked again was lost when it was sent to all.
            self.received += u64::from(!tag.again);
            self.seen = tag.stamp;
            self.seen_at = context.now;
        }
        if let Some(length) = tag.length {
            store.end_at(length);
        }
        let top = store.packets().unwrap_or(PacketNumber::MAX).min(tag.top);
        self.top = self.top.max(top);
        let backoff = match tag.again && self.is_listed() {
            // It may have found no response context, as others that would reply at once again.
            true => tag.backoff.max(self.announce.set_size),
            false => tag.backoff,
        };
        self.reply(context, tag.stamp, tag.rate, backoff);
        self.hand_over(context);
    }

    /// Replies to the request with this stamp, after a random part of the back-off for this many
    /// receivers.
    pub(super) fn reply(
        &mut self,
        context: &mut Context<'_>,
        stamp: Stamp,
        rate: bool,
        backoff: u16,
    ) {
        let Some(rule) = self.multidriver() else {
            return;
        };
        self.backs_off = backoff;
        self.reply = Some(Reply {
            stamp,
            rate,
            came: context.now,
            received: self.received,
            wait: context.config.rto_initial,
        });
        let most = rule.backoff_time(backoff);
        if most.is_zero() {
            return self.send_reply(context);
        }
        let wait = context.rng.duration(Duration::ZERO, most);
        self.timers.set(Timer::Answer, context.now + wait);
    }

    /// What this receiver takes, if that is limited.
    pub(super) fn takes(context: &Context<'_>) -> Option<ReplyTag> {
        let rate = context.config.receive_rate?;
        let burst = context.config.receive_burst as u64;
        Some(ReplyTag { rate, burst })
    }

    /// Sends the reply that is not acknowledged, with what is here now.
    pub(super) fn send_reply(&mut self, context: &mut Context<'_>) {
        let Some(reply) = self.reply else {
            return;
        };
        let Some(now) = self.report_of_now(context, Purpose::Acknowledge, true) else {
            return;
        };
        let takes = Self::takes(context).filter(|_| reply.rate);
        let mut report = ReceiverReport {
            seen: reply.stamp,
            received: reply.received,
            delay_us: (context.now - reply.came).as_micros() as u64,
            tag: Some(takes.unwrap_or(ReplyTag::NO_LIMIT)),
            subgroups: self.own_vector(context),
            ..now
        };
        self.attach_part(context, &mut report, false);
        let message = Message::Report(report);
        let sender = self.id.sender;
        context.outbox.unicast(sender, self.id.number, &message);
        let wait = (reply.wait * 2).min(context.config.rto_max);
        self.reply = Some(Reply { wait, ..reply });
        let spread = match self.is_listed() {
            true => context.rng.duration(Duration::ZERO, reply.wait / 2),
            false => Duration::ZERO,
        };
        self.timers
            .set(Timer::Answer, context.now + reply.wait + spread);
    }

    /// The sender has the reply to the request with this stamp.
    pub(super) fn handle_acknowledgement(&mut self, stamp: Stamp) {
        if self.reply.is_some_and(|reply| reply.stamp <= stamp) {
            self.reply = None;
            self.timers.cancel(Timer::Answer);
        }
    }
}
