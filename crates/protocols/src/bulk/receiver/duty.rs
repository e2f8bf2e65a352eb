//! Who acknowledges what: the policies (001 section 3). Everything else is the same for all of them.
//!
//! | policy | a receiver acknowledges | to |
//! |---|---|---|
//! | ACK | every packet that is new to it | the sender |
//! | NAK | every flagged packet | the sender |
//! | ring | packet k, if it is receiver k mod N and has all up to k; the last packet in any case | the sender |
//! | tree | every packet that it and all behind it in its chain have, in order | the one before it; the first, the sender |
//!
//! A flagged packet of the other policies, and a poll, mean that the sender has waited in vain: everybody answers, to
//! the sender. Acknowledgements are cumulative, so one may stand for several where packets were repaired.

use groupcast_core::MemberId;

use super::super::config::Policy;
use super::super::outbox::Context;
use super::super::wire::{Message, Purpose, Report, Start, Status};
use super::store::Store;
use super::{Receiver, State};

/// A receiver's place among the receivers of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Place {
    /// Its index and the number of receivers, once a Start has told it.
    index: Option<(u64, u64)>,
    /// Its neighbours in the order of the roster.
    before: Option<MemberId>,
    behind: Option<MemberId>,
    /// What the chain behind has: next and limit.
    rest: Option<(u64, u64)>,
    /// What a receiver said of its part of a chain before it was known to be the one behind.
    early: Option<Early>,
    /// The highest packet, plus one, that it has acknowledged down its chain.
    acknowledged: u64,
}

/// An acknowledgement that has overtaken the roster: it comes by unicast, from a member that had the roster sooner, and
/// is not repeated unless the sender runs out of patience.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Early {
    from: MemberId,
    pass: u16,
    next: u64,
    limit: u64,
}

impl Place {
    /// Another pass begins.
    pub(super) fn anew(self, pass: u16) -> Self {
        Self {
            early: self.early.filter(|early| early.pass == pass),
            ..Self::default()
        }
    }

    /// Takes what the one behind has said in this pass before the roster was here.
    pub(super) fn take_early(&mut self, pass: u16) {
        if let Some(early) = self.early
            && early.pass == pass
            && self.behind == Some(early.from)
        {
            self.rest = Some((early.next, early.limit));
            self.early = None;
        }
    }

    /// Reads a page of the roster; whether `local` is on it.
    pub(super) fn read(&mut self, local: MemberId, start: &Start) -> bool {
        let members = &start.members;
        let Some(at) = members.iter().position(|member| *member == local) else {
            return false;
        };
        let index = u64::from(start.first) + at as u64;
        self.index = Some((index, u64::from(start.receivers)));
        // Pages overlap by two, so that everybody finds both neighbours on one of them.
        if at > 0 {
            self.before = Some(members[at - 1]);
        }
        if let Some(behind) = members.get(at + 1) {
            self.behind = Some(*behind);
        }
        true
    }

    /// Whether it is the first of a chain, or the last.
    fn ends_chain(&self, height: u64) -> Option<(bool, bool)> {
        let (index, receivers) = self.index?;
        let first = index.is_multiple_of(height);
        let last = (index + 1).is_multiple_of(height) || index + 1 == receivers;
        Some((first, last))
    }
}

impl Receiver {
    /// Does what the policy asks for after a data packet: `new` to this receiver or not, `before` the lowest missing
    /// packet until then, `answer` if it was flagged.
    pub(super) fn fulfil(
        &mut self,
        context: &mut Context<'_>,
        new: bool,
        before: u64,
        answer: bool,
    ) {
        let Some(store) = self.state.store() else {
            return;
        };
        let (next, complete) = (store.next(), store.is_complete());
        let completed = new && complete;
        if answer {
            self.report_state(context, true);
            self.pass_on(context, false);
            return;
        }
        match self.policy() {
            Policy::Ack if new => self.report_state(context, false),
            Policy::Nak { .. } if completed => self.report_state(context, false),
            Policy::Ring if completed || self.has_turn(before, next) => {
                self.report_state(context, false);
            }
            Policy::Tree { .. } => self.pass_on(context, false),
            Policy::Ack | Policy::Nak { .. } | Policy::Ring => {}
        }
    }

    /// Whether one of the packets from `before` to `next` is this receiver's to acknowledge on a ring.
    fn has_turn(&self, before: u64, next: u64) -> bool {
        let Some((index, receivers)) = self.place.index else {
            return false;
        };
        let turn = before + (index + receivers - before % receivers) % receivers;
        turn < next
    }

    /// Tree: tells the one before what this receiver and all behind it have, if that is more than before, or `again`.
    pub(super) fn pass_on(&mut self, context: &mut Context<'_>, again: bool) {
        let Policy::Tree { height } = self.policy() else {
            return;
        };
        let Some((first, last)) = self.place.ends_chain(u64::from(height)) else {
            return;
        };
        let State::Receiving(store) = &self.state else {
            return;
        };
        let rest = if last {
            Some((u64::MAX, u64::MAX))
        } else {
            self.place.rest
        };
        let Some((rest_next, rest_limit)) = rest else {
            return;
        };
        let next = store.next().min(rest_next);
        if next <= self.place.acknowledged && !again {
            return;
        }
        let to = if first {
            Some(self.id.sender)
        } else {
            self.place.before
        };
        let Some(to) = to else {
            return;
        };
        self.place.acknowledged = next.max(self.place.acknowledged);
        let Some(own) = self.state_of_things(context, Purpose::Acknowledge, false) else {
            return;
        };
        let holds = self.state.store().is_some_and(Store::is_complete);
        let report = Report {
            aggregate: true,
            next,
            limit: own.limit.min(rest_limit),
            missing: [].into(),
            told: 0,
            // Of the others behind it nothing is known but what they have.
            status: match own.status {
                Status::Concluded | Status::Failed(_) => own.status,
                _ if holds => Status::Holding,
                _ => Status::Receiving,
            },
            ..own
        };
        context
            .outbox
            .unicast(to, self.id.number, &Message::Report(report));
    }

    /// Tree: the one behind says what its part of the chain has.
    pub(super) fn handle_chain(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &Report,
    ) {
        if !report.aggregate || report.pass < self.pass {
            return;
        }
        if report.pass > self.pass || self.place.behind.is_none() {
            self.place.early = Some(Early {
                from,
                pass: report.pass,
                next: report.next,
                limit: report.limit,
            });
            return;
        }
        if self.place.behind != Some(from) {
            return;
        }
        let (next, limit) = self.place.rest.unwrap_or((0, 0));
        let opens = report.limit > limit && report.next <= next;
        self.place.rest = Some((next.max(report.next), limit.max(report.limit)));
        self.pass_on(context, opens);
    }

    /// Tells of new room for data, the way that acknowledgements take.
    pub(super) fn tell_of_room(&mut self, context: &mut Context<'_>) {
        match self.policy() {
            Policy::Tree { .. } => self.pass_on(context, true),
            _ => self.report_state(context, false),
        }
    }
}
