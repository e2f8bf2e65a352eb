//! Deliver-to marks (003 5.3.3; the rules for raising one are ours): receivers deliver up to the
//! mark and hold the rest. It is raised only after every receiver has said that it holds what lies
//! below, and told again until each has echoed it.
//!
//! A receiver that is counted in and goes before the last mark ends the transfer for all
//! (`required.rs`): what it would have been waited for cannot come true.

use core::time::Duration;

use super::super::context::Context;
use super::super::numbers::PacketNumber;
use super::super::transfer::{DeliverTo, Notice, Outcome};
use super::super::wire::Message;
use super::peer::Peer;
use super::{Sender, State, Timer};

/// How far the receivers of a transfer may deliver.
#[derive(Debug)]
pub(super) struct Marks {
    deliver_to: DeliverTo,
    /// The mark that the receivers were told; `None`: they deliver nothing.
    told: Option<u64>,
    /// How long until the mark is told again.
    wait: Duration,
}

impl Marks {
    /// The marks of a transfer, if it has any.
    pub(super) fn of(deliver_to: DeliverTo) -> Option<Self> {
        let told = match deliver_to {
            DeliverTo::AtOnce => return None,
            DeliverTo::UpTo { first, .. } => Some(first),
            DeliverTo::Aside => None,
        };
        Some(Self {
            deliver_to,
            told,
            wait: Duration::ZERO,
        })
    }

    /// The next mark of a stream of `length` bytes; `None` if there is none that is known.
    fn next(&self, length: Option<u64>) -> Option<u64> {
        match self.deliver_to {
            DeliverTo::UpTo {
                step: Some(step), ..
            } => {
                let next = self.told.unwrap_or_default().saturating_add(step.max(1));
                Some(length.map_or(next, |length| length.min(next)))
            }
            DeliverTo::UpTo { step: None, .. } | DeliverTo::Aside => length,
            DeliverTo::AtOnce => None,
        }
    }

    /// Whether the last mark is told.
    fn is_last(&self, length: Option<u64>) -> bool {
        length.is_some() && self.told >= length
    }
}

impl Sender {
    /// Whether every receiver was told that it may deliver everything.
    pub(super) fn are_all_told(&self) -> bool {
        let length = self.stream.length;
        self.marks
            .as_ref()
            .is_some_and(|marks| marks.is_last(length))
    }

    fn end_undelivered(&mut self, context: &mut Context<'_>, why: &'static str) {
        self.tell_cancelled(context, why);
        self.end_all(context, Outcome::Cancelled, why);
    }

    /// A mark that lies beyond what a receiver can hold would never be reached: the transfer is
    /// refused before its first byte; whether it was.
    pub(super) fn refuses_marks(&mut self, context: &mut Context<'_>) -> bool {
        let Some(marks) = &self.marks else {
            return false;
        };
        let DeliverTo::UpTo { first, step } = marks.deliver_to else {
            return false;
        };
        let rest = self
            .stream
            .length
            .map(|length| length.saturating_sub(first));
        let Some(held) = step.into_iter().chain(rest).min() else {
            return false;
        };
        let room = |peer: &Peer| peer.limit.distance_from(peer.next);
        let room = self.gating().map(room).min().unwrap_or_default();
        // A mark inside a packet holds all of the packet.
        let refuses = PacketNumber::end_of(held, self.packet as u64).0 + 1 > room;
        if refuses {
            self.end_undelivered(context, "its mark is beyond what a receiver can hold");
        }
        refuses
    }

    /// Raises the mark if every receiver holds all up to the next one.
    pub(super) fn raise_mark(&mut self, context: &mut Context<'_>) {
        let length = self.stream.length;
        let is_begun = !matches!(self.state, State::Announcing(_) | State::Over);
        let Some(next) = self.marks.as_ref().and_then(|marks| marks.next(length)) else {
            return;
        };
        let is_new = self.marks.as_ref().is_some_and(|it| it.told < Some(next));
        let mut holds = self.peers.values().map(|peer| self.holds(peer, next));
        #[cfg(any(test, feature = "planted-bugs"))]
        let all = match self.raises_early() {
            true => holds.any(|holds| holds),
            false => holds.all(|holds| holds),
        };
        #[cfg(not(any(test, feature = "planted-bugs")))]
        let all = holds.all(|holds| holds);
        drop(holds);
        if !is_begun || self.peers.is_empty() {
            return;
        }
        if !is_new || !all {
            // A receiver that has come since all had echoed it has not heard of it.
            if self.timers.due(Timer::Mark).is_none() {
                self.tell_mark(context);
            }
            return;
        }
        let wait = self.time_out(context.config);
        if let Some(marks) = &mut self.marks {
            marks.told = Some(next);
            marks.wait = wait;
        }
        if Some(next) == length {
            context.notify(Notice::AllMayDeliver {
                id: self.id,
                holders: self.peers.keys().copied().collect(),
            });
        }
        self.tell_mark(context);
    }

    #[cfg(any(test, feature = "planted-bugs"))]
    fn raises_early(&self) -> bool {
        use super::super::config::PlantedInRounds;
        let planted = self.rounds().and_then(|rounds| rounds.rule().planted);
        planted == Some(PlantedInRounds::MarkTooEarly)
    }

    /// Whether a receiver holds all below `mark`, and its user says that it is good where that is
    /// asked for.
    fn holds(&self, peer: &Peer, mark: u64) -> bool {
        let end = PacketNumber::end_of(mark, self.packet as u64);
        let is_last = self.stream.length == Some(mark);
        // It may not have learnt yet where the stream ends.
        let knows_end = peer.holds || self.transfer.length.is_some();
        let is_good = peer.concluded || !self.transfer.confirm;
        peer.next >= end && (!is_last || knows_end && is_good)
    }

    /// Tells the mark again if a receiver has not echoed it.
    pub(super) fn tell_mark(&mut self, context: &mut Context<'_>) {
        let first_wait = self.time_out(context.config);
        let Some(marks) = &mut self.marks else {
            return;
        };
        let told = marks.told;
        if let Some(mark) = told
            && self.peers.values().any(|peer| peer.delivers_to < told)
        {
            context
                .outbox
                .multicast(self.id.number, &Message::Mark(mark));
            if marks.wait.is_zero() {
                // The first mark went with the announcement, and somebody has not echoed it.
                marks.wait = first_wait;
            }
            self.timers.set(Timer::Mark, context.now + marks.wait);
            marks.wait = (marks.wait * 2).min(context.config.rto_max);
        }
    }

    /// Whether a receiver has delivered all, as far as that has to be echoed.
    pub(super) fn has_delivered(&self, peer: &Peer) -> bool {
        self.marks.is_none() || peer.delivers_to >= self.stream.length
    }
}
