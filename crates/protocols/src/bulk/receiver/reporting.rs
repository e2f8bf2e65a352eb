//! What a receiver reports of itself, and when it asks for what it misses.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::MemberId;

use super::super::config::{BulkConfig, Policy};
use super::super::context::Context;
use super::super::numbers::{PacketNumber, Packets, count_at_ends, each};
use super::super::ranges::RangeSet;
use super::super::wire::{Message, Purpose, REASON_MAX, ReceiverReport, Status};
use super::blocks::Blocks;
use super::store::Store;
use super::{Receiver, State, Timer};

/// This often a receiver asks for the same at the usual interval, which it then doubles this often.
const UNSERVED: u32 = 8;
const UNSERVED_DOUBLINGS: u32 = 5;

impl Receiver {
    /// Another receiver reports: from behind in the chain, or to all.
    pub(in crate::bulk) fn hear(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        if report.aggregate {
            self.handle_chain(context, from, report);
        } else if self.control().is_some() {
            self.damp(context, report);
        } else {
            self.overhear(context, report);
        }
    }

    /// A NAK of another receiver. If this receiver misses nothing more, it behaves as if it had
    /// sent that NAK itself (001 section 3).
    pub(super) fn overhear(&mut self, context: &mut Context<'_>, report: &ReceiverReport) {
        let asks = report.purpose == Purpose::Nak && self.timers.due(Timer::Nak).is_some();
        let Some(store) = self.state.store().filter(|_| asks) else {
            return;
        };
        if store.misses_only(&report.missing, self.top) {
            self.timers.cancel(Timer::Nak);
            self.asked = Some((context.now, self.seen));
            context.counters.naks_suppressed += 1;
        }
    }

    /// Asks for what is missing, or sets the timer to do so, if anything is missing and it was not
    /// just asked for.
    pub(super) fn ask_for_missing(&mut self, context: &mut Context<'_>) {
        if self.control().is_some() || self.multidriver().is_some() {
            // 003 3.3.3 and 5.3.1: receivers speak when they are asked.
            return;
        }
        if matches!(self.policy(), Policy::Cp(_)) {
            // Each acknowledgement says what is missing, and the sender's timer does the rest.
            return;
        }
        let Some(store) = self.state.store() else {
            return;
        };
        if store.next() >= self.top {
            self.timers.cancel(Timer::Nak);
            return;
        }
        let takes_part = matches!(self.state, State::Receiving(_)) && !self.is_set_aside();
        if self.timers.due(Timer::Nak).is_some() || !takes_part {
            return;
        }
        let earliest = self.asked.map_or(context.now, |(asked, _)| {
            asked + self.patience(context.config)
        });
        let delay = self.announce.nak_delay_us.map_or(Duration::ZERO, |most| {
            context
                .rng
                .duration(Duration::ZERO, Duration::from_micros(most))
        });
        let due = earliest.max(context.now) + delay;
        if due > context.now {
            self.timers.set(Timer::Nak, due);
        } else {
            self.send_nak(context);
        }
    }

    /// How long not to ask again: the longer the more often the same was asked for in vain, since a
    /// sender that serves this receiver after the others has heard it.
    fn patience(&self, config: &BulkConfig) -> Duration {
        let vain = self.unserved.1.saturating_sub(UNSERVED);
        config.nak_interval * (1 << vain.min(UNSERVED_DOUBLINGS))
    }

    pub(super) fn send_nak(&mut self, context: &mut Context<'_>) {
        let Some(store) = self.state.store() else {
            return;
        };
        // If nothing has come since it last asked, the sender asks when its time-out has passed.
        let news = self.asked.is_none_or(|(_, seen)| self.seen > seen);
        if news && store.next() < self.top && !self.has_given_up() {
            if self.is_collected() {
                return self.tell_collector(context, false);
            }
            self.report(context, Purpose::Nak, false);
        }
    }

    /// Reports to the sender: as a NAK if something is missing.
    pub(super) fn report_state(&mut self, context: &mut Context<'_>, answers: bool) {
        let missing = self
            .state
            .store()
            .is_some_and(|store| store.next() < self.top);
        let purpose = if missing && self.multidriver().is_none() {
            Purpose::Nak
        } else {
            Purpose::Acknowledge
        };
        self.report(context, purpose, answers);
    }

    pub(super) fn report(&mut self, context: &mut Context<'_>, purpose: Purpose, answers: bool) {
        self.report_with(context, purpose, answers, false);
    }

    /// A report; with `must` it carries a part of the return stream even if none may go.
    pub(super) fn report_with(
        &mut self,
        context: &mut Context<'_>,
        purpose: Purpose,
        answers: bool,
        must: bool,
    ) {
        let Some(report) = self.report_of_now(context, purpose, answers) else {
            return;
        };
        let meets = self.announce.meet && purpose == Purpose::Register;
        let asks_all = self.announce.nak_delay_us.is_some() && purpose == Purpose::Nak && !answers;
        if meets || asks_all {
            let message = Message::Report(report);
            context.outbox.multicast(self.id.number, &message);
        } else {
            self.tell_sender(context, report, must);
        }
    }

    fn tell_sender(&mut self, context: &mut Context<'_>, mut report: ReceiverReport, must: bool) {
        self.attach_part(context, &mut report, must);
        let message = Message::Report(report);
        let sender = self.id.sender;
        context.outbox.unicast(sender, self.id.number, &message);
    }

    /// Says what it needs in a pass that begins, and, if it was asked, where parity restores that.
    pub(super) fn report_ready(&mut self, context: &mut Context<'_>, asks_where_restored: bool) {
        let restores_below = asks_where_restored.then(|| self.restores_below());
        let Some(mut report) = self.report_of_now(context, Purpose::Ready, false) else {
            return;
        };
        report.restores_below = restores_below;
        self.tell_sender(context, report, false);
    }

    /// Of every block that begins below this packet, what is held is in memory, so that parity
    /// restores the rest.
    fn restores_below(&self) -> PacketNumber {
        let (Some(store), Some(blocks)) = (self.state.store(), &self.blocks) else {
            return PacketNumber::ZERO;
        };
        let below = store.packets().unwrap_or_else(|| store.end());
        let missing = count_at_ends(store.missing(below), blocks.size());
        let mut missing = missing.into_iter();
        let is_elsewhere = |(first, missing): &(PacketNumber, u64)| {
            let packets = blocks.size().min(below.distance_from(*first));
            blocks.held_of(*first) < packets - missing
        };
        missing.find(is_elsewhere).map_or(below, |(first, _)| first)
    }

    /// A report of what is here now; counts it, and remembers what the sender learns by it.
    pub(super) fn report_of_now(
        &mut self,
        context: &mut Context<'_>,
        purpose: Purpose,
        answers: bool,
    ) -> Option<ReceiverReport> {
        let store = self.state.store()?;
        match purpose {
            Purpose::Nak => {
                context.counters.naks_sent += 1;
                self.asked = Some((context.now, self.seen));
                self.unserved = match self.unserved {
                    (first, times) if first == store.next() => (first, times.saturating_add(1)),
                    _ => (store.next(), 0),
                };
                self.timers.cancel(Timer::Nak);
            }
            Purpose::Acknowledge => context.counters.reports_sent += 1,
            Purpose::Register | Purpose::Ready => {}
        }
        let whole = matches!(purpose, Purpose::Register | Purpose::Ready);
        let below = if whole {
            store.packets().unwrap_or_else(|| store.end())
        } else {
            self.top
        };
        let trimmed = (!whole).then_some(self.blocks.as_ref()).flatten();
        let (missing, listed_below) =
            match trimmed.and_then(|blocks| missing_beside_parity(store, blocks, below)) {
                Some(missing) => list(missing.iter(), below),
                None => list(store.missing(below), below),
            };
        let limit = self.limit(store);
        self.reported_limit = limit;
        Some(ReceiverReport {
            sender: self.id.sender.incarnation,
            purpose,
            answers,
            aggregate: false,
            outrun: self.answers.is_outrun(),
            pass: self.pass,
            status: self.status(),
            next: store.next(),
            limit,
            seen: self.seen,
            received: self.received,
            delay_us: (context.now - self.seen_at).as_micros() as u64,
            listed_below,
            missing,
            tag: None,
            delivers_to: self.echo(),
            part: None,
            subgroups: (purpose == Purpose::Register && self.announce.subgroups.is_some())
                .then_some(context.subgroups),
            attends: self.attending.version(),
            restores_below: None,
            name: if purpose == Purpose::Register {
                self.name.clone()
            } else {
                Bytes::new()
            },
        })
    }

    pub(super) fn status(&self) -> Status {
        match &self.concluded {
            Some(Ok(())) => Status::Concluded,
            Some(Err(reason)) => Status::Failed(reason.clone()),
            None if self.state.store().is_some_and(Store::is_complete) => Status::Holding,
            None => Status::Receiving,
        }
    }
}

/// What is missing below `below`, less what the parity that is here will restore once the rest is;
/// `None` if there is no parity.
fn missing_beside_parity(
    store: &Store,
    blocks: &Blocks,
    below: PacketNumber,
) -> Option<RangeSet<PacketNumber>> {
    let mut with_parity = blocks.with_parity().peekable();
    with_parity.peek()?;
    let mut missing = RangeSet::default();
    for gap in store.missing(below) {
        missing.insert(gap);
    }
    for (first, here) in with_parity {
        let block = first..(first + blocks.size()).min(below).max(first);
        // This many more restore the rest. What is held of an earlier transfer is not here to
        // restore others from; and what could be restored and still is missing had no room: it is
        // asked for as if there were no parity.
        let wanted = ((block.end - block.start) as usize).saturating_sub(here);
        if wanted > 0 {
            let gaps = each(block).filter(|number| !store.has(*number));
            for number in gaps.skip(wanted) {
                missing.remove(number..number + 1);
            }
        }
    }
    Some(missing)
}

/// As many of the `gaps` below `below` as fit into a control message, and below which packet they
/// are all there are.
fn list(gaps: impl Iterator<Item = Packets>, below: PacketNumber) -> (Vec<Packets>, PacketNumber) {
    let room = BulkConfig::CONTROL_MAX - 80 - REASON_MAX;
    let (mut used, mut at) = (0, PacketNumber::ZERO);
    let mut listed = Vec::new();
    for gap in gaps {
        used += varint_len(gap.start - at) + varint_len(gap.end - gap.start);
        if used > room {
            return (listed, at);
        }
        at = gap.end;
        listed.push(gap);
    }
    (listed, below)
}

fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}
