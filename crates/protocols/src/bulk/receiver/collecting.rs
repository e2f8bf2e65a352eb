//! Collectors at a receiver (003 3.3.3): it tells its collector what it would tell the sender, and
//! if it is one itself, it hands on together what its receivers acknowledge.
//!
//! What a receiver misses is not held up: its collector hands that on at once, by itself. An
//! acknowledgement that comes too late for its composite goes on alone, too. Polls, which the
//! sender sends when its time-out has passed, are answered to the sender: so nothing but time is
//! lost with a collector.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::{MemberId, Time};

use super::super::config::{Collectors, Policy};
use super::super::context::Context;
use super::super::numbers::Stamp;
use super::super::wire::{
    CollectorList, Composite, Message, Purpose, ReceiverReport, Row, Start, Status,
};
use super::store::Store;
use super::{Receiver, Timer};

/// What a receiver knows of the collectors of a pass, and what it collects.
#[derive(Debug, Default)]
pub(super) struct Collecting {
    list: CollectorList,
    /// By the stamp that the request has: several may be on their way.
    open: BTreeMap<Stamp, Collection>,
    /// The highest request of which it has handed something on.
    done: Stamp,
}

/// Acknowledgements of one request.
#[derive(Debug)]
struct Collection {
    /// When it is handed on, though not all have answered.
    due: Time,
    /// By place in the roster: what each has said, and when. `None`: it was handed on already.
    rows: BTreeMap<u16, Option<(Time, ReceiverReport)>>,
}

impl Collecting {
    /// Requests whose answers are collected at once; the oldest is handed on.
    const OPEN_MAX: usize = 16;

    /// Reads the list of a page of the roster, if it is none that is older than the one known;
    /// whether there is a newer one.
    pub(super) fn read(&mut self, start: &Start) -> bool {
        let Some(list) = &start.collectors else {
            return false;
        };
        let is_newer = self.list.members.is_empty() || list.version > self.list.version;
        if is_newer {
            self.list = list.clone();
        }
        is_newer
    }

    /// Which of the collectors a receiver with this place has; `None`: there are none.
    fn slot_of(&self, index: u64) -> Option<usize> {
        let count = self.list.members.len() as u64;
        (count > 0).then(|| (index % count) as usize)
    }
}

impl Receiver {
    /// The policy's settings, if it is this one.
    fn collectors(&self) -> Option<Collectors> {
        match self.policy() {
            Policy::Collectors(rule) => Some(rule),
            _ => None,
        }
    }

    /// Whether what it says goes by a collector, if there is one.
    pub(super) fn is_collected(&self) -> bool {
        self.collectors().is_some()
    }

    /// The roster of a pass has come, or who collects has changed.
    pub(super) fn read_collectors(&mut self, context: &mut Context<'_>, start: &Start) {
        if self.collecting.read(start) {
            // What was collected for others is theirs to say again.
            self.hand_on_until(context, None);
        }
    }

    /// Says how far it is, to its collector: that it misses something, if it does.
    pub(super) fn tell_collector(&mut self, context: &mut Context<'_>, answers: bool) {
        let misses = |store: &Store| store.next() < self.top;
        let purpose = match self.state.store().is_some_and(misses) {
            true => Purpose::Nak,
            false => Purpose::Acknowledge,
        };
        let index = self.place.index().map(|(index, _)| index);
        let slot = index.and_then(|index| self.collecting.slot_of(index));
        let (Some(index), Some(slot)) = (index, slot) else {
            return self.report(context, purpose, answers);
        };
        if matches!(self.status(), Status::Failed(_)) {
            return self.report(context, purpose, answers);
        }
        let collector = self.collecting.list.members[slot];
        if collector == self.id.sender {
            return self.report(context, purpose, answers);
        }
        let Some(report) = self.report_of_now(context, purpose, answers) else {
            return;
        };
        let index = index as u16;
        if collector == context.local {
            return self.take_row(context, Row { index, report });
        }
        let rows = Vec::from([Row { index, report }]);
        self.send_rows(context, collector, rows);
    }

    /// As a collector: a receiver has told it something.
    pub(in crate::bulk) fn collect(&mut self, context: &mut Context<'_>, told: &Composite) {
        let own = self.collecting.list.members.iter();
        let mut own = own.enumerate().filter(|(_, it)| **it == context.local);
        let (Some((slot, _)), Some((_, receivers))) = (own.next(), self.place.index()) else {
            return;
        };
        if told.pass != self.pass {
            return;
        }
        for row in &told.rows {
            let index = u64::from(row.index);
            if index < receivers && self.collecting.slot_of(index) == Some(slot) {
                self.take_row(context, row.clone());
            }
        }
    }

    /// Takes in what a receiver has said, or this one itself.
    fn take_row(&mut self, context: &mut Context<'_>, row: Row) {
        let (now, seen) = (context.now, row.report.seen);
        let is_open = self.collecting.open.contains_key(&seen);
        let is_collected = row.report.answers && (is_open || seen > self.collecting.done);
        let is_error = row.report.purpose == Purpose::Nak;
        let kept = (!is_error).then(|| (now, row.report.clone()));
        let index = row.index;
        if is_error || !is_collected {
            // 003 3.3.3: error reports whenever errors occur.
            let sender = self.id.sender;
            self.send_rows(context, sender, Vec::from([row]));
        }
        if !is_collected {
            return;
        }
        if !is_open && self.collecting.open.len() == Collecting::OPEN_MAX {
            let oldest = self.collecting.open.keys().next().copied();
            self.hand_on(context, oldest.unwrap_or_default());
        }
        let wait = self.collectors().map_or(Duration::ZERO, |rule| rule.wait);
        let open = self.collecting.open.entry(seen);
        let open = open.or_insert_with(|| Collection {
            due: now + wait,
            rows: BTreeMap::new(),
        });
        open.rows.insert(index, kept);
        if open.rows.len() as u64 >= self.expected(context.local) {
            self.hand_on(context, seen);
        }
        self.set_collect_timer();
    }

    fn set_collect_timer(&mut self) {
        let due = self.collecting.open.values().map(|open| open.due).min();
        match due {
            Some(due) => self.timers.set(Timer::Collect, due),
            None => self.timers.cancel(Timer::Collect),
        }
    }

    /// How many receivers this one collects from, itself included.
    fn expected(&self, local: MemberId) -> u64 {
        let members = &self.collecting.list.members;
        let slot = members.iter().position(|member| *member == local);
        let (Some(slot), Some((_, receivers))) = (slot, self.place.index()) else {
            return 0;
        };
        receivers
            .saturating_sub(slot as u64)
            .div_ceil(members.len() as u64)
    }

    /// Hands on what it has waited for long enough, or, without a time, everything.
    pub(super) fn hand_on_until(&mut self, context: &mut Context<'_>, until: Option<Time>) {
        let open = self.collecting.open.iter();
        let due = open.filter(|(_, open)| until.is_none_or(|until| open.due <= until));
        let due: Vec<Stamp> = due.map(|(stamp, _)| *stamp).collect();
        for stamp in due {
            self.hand_on(context, stamp);
        }
        self.set_collect_timer();
    }

    /// Hands on what it has collected of a request.
    fn hand_on(&mut self, context: &mut Context<'_>, stamp: Stamp) {
        let Some(open) = self.collecting.open.remove(&stamp) else {
            return;
        };
        self.collecting.done = self.collecting.done.max(stamp);
        let rows = open.rows.into_iter().filter_map(|(index, kept)| {
            let (came, report) = kept?;
            let waited = (context.now - came).as_micros() as u64;
            let delay_us = report.delay_us.saturating_add(waited);
            let report = ReceiverReport { delay_us, ..report };
            Some(Row { index, report })
        });
        let rows: Vec<Row> = rows.collect();
        let sender = self.id.sender;
        self.send_rows(context, sender, rows);
    }

    fn send_rows(&self, context: &mut Context<'_>, to: MemberId, rows: Vec<Row>) {
        for composite in Composite::pack(self.id.sender.incarnation, self.pass, rows.into_iter()) {
            let message = Message::Composite(composite);
            context.outbox.unicast(to, self.id.number, &message);
        }
    }
}
