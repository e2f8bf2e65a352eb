//! The policies: which receiver acknowledges what, and to whom (001 section 3). Everything else is
//! the same for all of them.
//!
//! | policy | a receiver acknowledges | to |
//! |---|---|---|
//! | ACK | every packet that is new to it | the sender |
//! | NAK | every flagged packet | the sender |
//! | CP | every packet that is new to it | the sender |
//! | ring | packet k, if it is receiver k mod N and has all up to k; the last packet in any case | the sender |
//! | tree | every packet that it and all behind it in its chain have, in order | the receiver before it; the first, the sender |
//! | collectors | as NAK | its collector, which hands on what several have acknowledged (`collecting.rs`) |
//! | Multidriver | every request, until the sender acknowledges that (`replies.rs`) | the sender |
//! | XTP | every request, in its slot, unless another has said as much (`answers.rs`) | all |
//!
//! Under the other policies a flagged packet means that the sender has waited in vain, and so does
//! a poll: every receiver answers, to the sender. Acknowledgements are cumulative, so one may stand
//! for several where packets were repaired.

use groupcast_core::MemberId;

use super::super::config::Policy;
use super::super::context::Context;
use super::super::numbers::{PacketNumber, PassNumber};
use super::super::wire::{
    DataHeader, EMPTY_PLACE, Message, Purpose, ReceiverReport, Start, Status,
};
use super::store::Store;
use super::{Receiver, State};

/// Where a receiver stands among the receivers of a pass, and what it knows of those behind it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct RosterPlace {
    /// Its index and the number of receivers, once a Start has come.
    index: Option<(u64, u64)>,
    /// Its neighbours in the order of the roster.
    before: Option<MemberId>,
    behind: Option<MemberId>,
    /// This many places right before and behind it were left. It never is fewer within a pass.
    left_before: u64,
    left_behind: u64,
    /// What the receivers behind it in its chain all have: next and limit.
    behind_has: Option<(PacketNumber, PacketNumber)>,
    /// An acknowledgement of the receiver behind that has overtaken the roster.
    early: Option<EarlyAck>,
    /// The highest packet, plus one, that it has acknowledged down its chain.
    acknowledged: PacketNumber,
}

/// An acknowledgement that has overtaken the roster. It came by unicast from a receiver that had
/// the roster sooner, and it is not repeated before the sender times out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct EarlyAck {
    from: MemberId,
    pass: PassNumber,
    next: PacketNumber,
    limit: PacketNumber,
}

impl RosterPlace {
    /// Its index and the number of receivers, once a Start has come.
    pub(super) fn index(&self) -> Option<(u64, u64)> {
        self.index
    }

    /// Another pass begins.
    pub(super) fn in_pass(self, pass: PassNumber) -> Self {
        Self {
            early: self.early.filter(|early| early.pass == pass),
            ..Self::default()
        }
    }

    /// Takes in what the receiver behind has acknowledged in this pass before the roster was here.
    pub(super) fn take_early(&mut self, pass: PassNumber) {
        if let Some(early) = self.early
            && early.pass == pass
            && self.behind == Some(early.from)
        {
            let (next, limit) = self.behind_has.unwrap_or_default();
            self.behind_has = Some((next.max(early.next), limit.max(early.limit)));
            self.early = None;
        }
    }

    /// Reads a page of the roster; whether `local` is on it.
    pub(super) fn read(&mut self, local: MemberId, start: &Start) -> bool {
        let members = &start.members;
        let first = u64::from(start.first);
        let Some(at) = members.iter().position(|member| *member == local) else {
            let page = first..first + members.len() as u64;
            if self.index.is_some_and(|(index, _)| page.contains(&index)) {
                // Its place was left: it is served later, and takes no part in a chain.
                *self = Self::default();
            }
            return false;
        };
        let index = first + at as u64;
        self.index = Some((index, u64::from(start.receivers)));
        // Pages overlap by two, so that each receiver finds both neighbours on one of them.
        let before = members[..at].iter().rev();
        let behind = members[at + 1..].iter();
        neighbour(before, &mut self.left_before, &mut self.before);
        neighbour(behind, &mut self.left_behind, &mut self.behind);
        true
    }

    /// How many places right before and behind it were left.
    pub(super) fn left(&self) -> (u64, u64) {
        (self.left_before, self.left_behind)
    }

    /// Whether it is the first of a chain, or the last.
    fn ends_chain(&self, height: u64) -> Option<(bool, bool)> {
        let (index, receivers) = self.index?;
        let at = index % height;
        let behind = self.left_behind + 1;
        let first = self.left_before >= at;
        let last = at + behind >= height || index + behind >= receivers;
        Some((first, last))
    }
}

/// Reads one side of a page, nearest first: how many places were left there, and who is next.
fn neighbour<'a>(
    places: impl Iterator<Item = &'a MemberId>,
    left: &mut u64,
    next: &mut Option<MemberId>,
) {
    let mut places = places.peekable();
    let mut gone = 0;
    while places
        .next_if(|place| place.incarnation == EMPTY_PLACE)
        .is_some()
    {
        gone += 1;
    }
    if gone > *left {
        (*left, *next) = (gone, None);
    }
    if gone == *left
        && let Some(member) = places.next()
    {
        *next = Some(*member);
    }
}

impl Receiver {
    /// Acknowledges a data packet as the policy asks: `new` to this receiver or not, `before` the
    /// lowest missing packet until then, `answer` its header if it was flagged.
    pub(super) fn acknowledge(
        &mut self,
        context: &mut Context<'_>,
        new: bool,
        before: PacketNumber,
        answer: Option<DataHeader>,
    ) {
        let Some(store) = self.state.store() else {
            return;
        };
        let (next, complete) = (store.next(), store.is_complete());
        let completed = new && complete;
        if let Some(asks) = answer
            && self.multidriver().is_some()
        {
            return self.reply(context, asks.stamp, asks.rate, asks.kept);
        }
        if answer.is_some() && self.is_collected() {
            return self.tell_collector(context, true);
        }
        if let Some(asks) = answer {
            self.answer(context, asks.stamp, asks.kept_from());
            self.acknowledge_in_chain(context, false);
            return;
        }
        match self.policy() {
            Policy::Ack | Policy::Cp(_) if new => self.report_state(context, false),
            Policy::Nak { .. } if completed => self.report_state(context, false),
            Policy::Xtp(_) if completed && self.control().is_none() => {
                self.report_state(context, false);
            }
            Policy::Ring if completed || self.has_turn(before, next) => {
                self.report_state(context, false);
            }
            Policy::Tree { .. } => self.acknowledge_in_chain(context, false),
            Policy::Collectors(_) if completed => self.tell_collector(context, false),
            Policy::Ack
            | Policy::Nak { .. }
            | Policy::Ring
            | Policy::Xtp(_)
            | Policy::Multidriver(_)
            | Policy::List(_)
            | Policy::Collectors(_)
            | Policy::Cp(_) => {}
        }
    }

    /// Whether one of the packets from `before` to `next` is this receiver's to acknowledge on a
    /// ring.
    fn has_turn(&self, before: PacketNumber, next: PacketNumber) -> bool {
        let Some((index, receivers)) = self.place.index else {
            return false;
        };
        let turn = before + (index + receivers - before.0 % receivers) % receivers;
        turn < next
    }

    /// Tree: acknowledges to the receiver before what this one and all behind it have, if that is
    /// more than before, or `again`.
    pub(super) fn acknowledge_in_chain(&mut self, context: &mut Context<'_>, again: bool) {
        let Policy::Tree { height } = self.policy() else {
            return;
        };
        let Some((first, last)) = self.place.ends_chain(u64::from(height)) else {
            return;
        };
        let State::Receiving(store) = &self.state else {
            return;
        };
        let behind_has = if last {
            Some((PacketNumber::MAX, PacketNumber::MAX))
        } else {
            self.place.behind_has
        };
        let Some((behind_next, behind_limit)) = behind_has else {
            return;
        };
        let next = store.next().min(behind_next);
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
        let Some(own) = self.report_of_now(context, Purpose::Acknowledge, false) else {
            return;
        };
        let holds = self.state.store().is_some_and(Store::is_complete);
        let report = ReceiverReport {
            aggregate: true,
            next,
            limit: own.limit.min(behind_limit),
            missing: [].into(),
            listed_below: PacketNumber::ZERO,
            // Of the receivers behind it nothing is known but what they have.
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

    /// Tree: the receiver behind acknowledges for its part of the chain.
    pub(super) fn handle_chain(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        if !report.aggregate || report.pass < self.pass {
            return;
        }
        if report.pass > self.pass || self.place.behind != Some(from) {
            self.place.early = Some(EarlyAck {
                from,
                pass: report.pass,
                next: report.next,
                limit: report.limit,
            });
            return;
        }
        let (next, limit) = self.place.behind_has.unwrap_or_default();
        let opens = report.limit > limit && report.next <= next;
        self.place.behind_has = Some((next.max(report.next), limit.max(report.limit)));
        self.acknowledge_in_chain(context, opens);
    }

    /// Reports new room for data, the way that acknowledgements take.
    pub(super) fn report_room(&mut self, context: &mut Context<'_>) {
        match self.policy() {
            Policy::Tree { .. } => self.acknowledge_in_chain(context, true),
            Policy::Collectors(_) => self.tell_collector(context, false),
            _ => self.report_state(context, false),
        }
    }
}
