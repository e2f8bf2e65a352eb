//! The return stream at a receiver (003 5.3.2, X_MRreply): what its user says to the sender's. It
//! rides in the packets with which the receiver reports, as far as the sender gives it credit, and
//! each part is acknowledged. What is not is sent again from there on (go-back-N): when a later
//! part has come, or after the time-out.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::Time;
use groupcast_core::mech::estimate::Estimate;

use super::super::config::BulkConfig;
use super::super::context::Context;
use super::super::transfer::Notice;
use super::super::wire::{Message, Part, Purpose, ReceiverReport, Returned, Status};
use super::{Receiver, State, Timer};

/// The return stream of one transfer.
#[derive(Debug)]
pub(super) struct Returning {
    /// What the sender has not acknowledged, from `acknowledged` on.
    bytes: VecDeque<u8>,
    acknowledged: u64,
    /// The next byte to be sent, and one past the highest that was.
    next: u64,
    reach: u64,
    /// The sender takes the bytes below.
    limit: u64,
    /// What the user says of the end, if it has ended the stream.
    code: Option<u32>,
    is_end_sent: bool,
    /// Everything is acknowledged, and the end.
    is_done: bool,
    /// Bytes that the sender was told of.
    told: u64,
    /// Parts that were sent, and how many when it last went back.
    count: u64,
    went_back: u64,
    /// How often the time-out has passed since the last acknowledgement of more.
    vain: u32,
    round_trip: Estimate,
    /// A part whose acknowledgement is awaited, for the round trip.
    timed: Option<(u64, Time)>,
    /// The user had more than there was room for.
    wants_room: bool,
}

impl Returning {
    /// With `credit` bytes that may be sent without being granted.
    pub(super) fn new(credit: u64) -> Self {
        Self {
            bytes: VecDeque::new(),
            acknowledged: 0,
            next: 0,
            reach: 0,
            limit: credit,
            code: None,
            is_end_sent: false,
            is_done: false,
            told: 0,
            count: 0,
            went_back: 0,
            vain: 0,
            round_trip: Estimate::default(),
            timed: None,
            wants_room: false,
        }
    }

    /// One past the last byte of the user so far.
    fn total(&self) -> u64 {
        self.acknowledged + self.bytes.len() as u64
    }

    /// Takes as many bytes as `most` leaves room for; how many.
    fn take(&mut self, bytes: &[u8], most: usize) -> usize {
        let room = most.saturating_sub(self.bytes.len());
        let taken = match self.code {
            None => bytes.len().min(room),
            Some(_) => 0,
        };
        self.bytes.extend(&bytes[..taken]);
        self.wants_room = taken < bytes.len() && self.code.is_none();
        taken
    }

    /// Whether the user has ended it.
    pub(super) fn has_ended(&self) -> bool {
        self.code.is_some()
    }

    /// Whether the sender has all of it, and knows that it has.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether any part of it was sent.
    fn has_begun(&self) -> bool {
        self.count > 0
    }

    /// Whether the sender owes an acknowledgement or credit.
    fn is_open(&self) -> bool {
        !self.is_done && (!self.bytes.is_empty() || self.code.is_some())
    }

    /// Whether a part may go: bytes within the credit, the end, or that there is more than credit.
    fn has_part(&self) -> bool {
        let total = self.total();
        let ends = self.code.is_some() && !self.is_end_sent && self.next == total;
        self.is_open() && (self.next < total.min(self.limit) || ends || self.told < total)
    }

    /// The next part, of at most `room` bytes; without bytes, if none may go.
    fn part(&mut self, now: Time, room: usize) -> Part {
        let total = self.total();
        let end = total.min(self.limit).min(self.next + room as u64);
        let end = end.max(self.next);
        let start = (self.next - self.acknowledged) as usize;
        let bytes = self.bytes.range(start..start + (end - self.next) as usize);
        let bytes: Vec<u8> = bytes.copied().collect();
        let code = self.code.filter(|_| end == total);
        self.count += 1;
        self.timed.get_or_insert((self.count, now));
        let part = Part {
            count: self.count,
            offset: self.next,
            waiting: total,
            end: code,
            bytes: bytes.into(),
        };
        self.next = end;
        self.reach = self.reach.max(end);
        self.told = total;
        self.is_end_sent |= code.is_some();
        part
    }

    /// What was not acknowledged is sent again.
    fn go_back(&mut self) {
        self.next = self.acknowledged;
        self.is_end_sent = false;
        self.told = 0;
        self.went_back = self.count;
        self.timed = None;
    }

    /// Takes in what the sender says; false if that cannot be.
    fn acknowledge(&mut self, now: Time, returned: &Returned) -> bool {
        let Returned {
            next, limit, count, ..
        } = *returned;
        let knows_end = self.code.is_some() && next == self.total();
        if next > self.reach || count > self.count || returned.ended && !knows_end {
            return false;
        }
        if let Some((timed, sent)) = self.timed
            && count >= timed
        {
            if count == timed {
                self.round_trip.sample(now - sent);
            }
            self.timed = None;
        }
        self.limit = self.limit.max(limit);
        if next > self.acknowledged {
            self.bytes.drain(..(next - self.acknowledged) as usize);
            self.acknowledged = next;
            self.next = self.next.max(next);
            self.vain = 0;
        }
        self.is_done |= returned.ended;
        let is_lost = returned.gap && next == self.acknowledged && count > self.went_back;
        if is_lost && !self.is_done {
            self.go_back();
        }
        true
    }

    /// Whether the user, for whom there was no room, should be told that there is.
    fn tells_room(&mut self, most: usize) -> bool {
        let tells = self.wants_room && self.bytes.len() <= most / 2;
        self.wants_room &= !tells;
        tells
    }

    /// How long to wait for an acknowledgement.
    fn time_out(&self, config: &BulkConfig) -> Duration {
        let first = match self.round_trip.samples() {
            0 => config.rto_initial,
            _ => self.round_trip.upper().max(config.rto_min),
        };
        (first * (1 << self.vain.min(10))).min(config.rto_max)
    }
}

impl Receiver {
    /// Whether the sender may have heard anything of the return stream.
    pub(in crate::bulk) fn has_replied(&self) -> bool {
        self.returning.as_ref().is_some_and(Returning::has_begun)
    }

    /// Bytes of the user for the sender's user; how many were taken.
    pub(in crate::bulk) fn add_return(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> usize {
        let most = context.config.reply_buffer;
        let Some(returning) = self.open_return() else {
            return 0;
        };
        let taken = returning.take(bytes, most);
        self.schedule_part(context);
        taken
    }

    /// The return stream ends, with the user's `code`.
    pub(in crate::bulk) fn end_return(&mut self, context: &mut Context<'_>, code: u32) {
        if let Some(returning) = self.open_return() {
            returning.code.get_or_insert(code);
            self.schedule_part(context);
        }
    }

    /// The return stream, if the sender wants one and its user has not given up.
    fn open_return(&mut self) -> Option<&mut Returning> {
        let has_given_up = self.has_given_up();
        let takes_part = self.state.store().is_some();
        let returning = self.returning.as_mut();
        returning.filter(|_| takes_part && !has_given_up)
    }

    /// The same, if the sender counts this receiver in, too.
    fn counted_return(&mut self) -> Option<&mut Returning> {
        let is_counted = matches!(self.state, State::Receiving(_));
        self.open_return().filter(|_| is_counted)
    }

    /// The longest wait before each packet from the return context (003 5.3.3).
    fn part_wait(&self) -> Duration {
        let rule = self.multidriver();
        rule.map_or(Duration::ZERO, |it| it.backoff_time(self.backs_off))
    }

    /// If a part may go, it goes: with what else the user says now, or after a random wait where
    /// receivers back off.
    pub(super) fn schedule_part(&mut self, context: &mut Context<'_>) {
        let may_go = self.counted_return().is_some_and(|it| it.has_part());
        if may_go && self.timers.due(Timer::Part).is_none() {
            let wait = match self.part_wait() {
                Duration::ZERO => Duration::ZERO,
                most => context.rng.duration(Duration::ZERO, most),
            };
            self.timers.set(Timer::Part, context.now + wait);
        }
    }

    /// Sends the parts that may go; where receivers back off, one.
    pub(super) fn send_parts(&mut self, context: &mut Context<'_>) {
        let backs_off = !self.part_wait().is_zero();
        while self.counted_return().is_some_and(|it| it.has_part()) {
            self.send_part(context);
            if backs_off {
                break;
            }
        }
        self.schedule_part(context);
    }

    /// Sends one part in a report of its own.
    fn send_part(&mut self, context: &mut Context<'_>) {
        self.report_with(context, Purpose::Acknowledge, false, true);
    }

    /// Puts the next part into a report to the sender, if one may go; with `must` one without bytes
    /// too.
    pub(super) fn attach_part(
        &mut self,
        context: &mut Context<'_>,
        report: &mut ReceiverReport,
        must: bool,
    ) {
        let asks = matches!(report.purpose, Purpose::Register | Purpose::Ready);
        if asks || matches!(report.status, Status::Failed(_)) {
            return;
        }
        let Some(returning) = self.counted_return() else {
            return;
        };
        if !must && !returning.has_part() {
            return;
        }
        let used = Message::Report(report.clone()).encode(0).len() + Part::HEADER_MAX;
        let room = BulkConfig::CONTROL_MAX.saturating_sub(used).max(1);
        report.part = Some(returning.part(context.now, room));
        let due = context.now + returning.time_out(context.config);
        context.counters.parts_sent += 1;
        if self.timers.due(Timer::Return).is_none() {
            self.timers.set(Timer::Return, due);
        }
    }

    /// The sender has acknowledged nothing for too long: all is sent again, or it is asked for
    /// credit.
    pub(super) fn return_again(&mut self, context: &mut Context<'_>) {
        let Some(returning) = self.counted_return().filter(|it| it.is_open()) else {
            return;
        };
        returning.go_back();
        returning.vain = returning.vain.saturating_add(1);
        self.send_part(context);
        self.schedule_part(context);
    }

    /// What the sender has of the return stream, and how far it may go.
    pub(super) fn handle_returned(&mut self, context: &mut Context<'_>, returned: &Returned) {
        let (id, most) = (self.id, context.config.reply_buffer);
        let Some(returning) = self.counted_return() else {
            return;
        };
        if !returning.acknowledge(context.now, returned) {
            context.counters.junk += 1;
            return;
        }
        let due = context.now + returning.time_out(context.config);
        let (is_open, tells_room) = (returning.is_open(), returning.tells_room(most));
        match is_open {
            true => self.timers.set(Timer::Return, due),
            false => self.timers.cancel(Timer::Return),
        }
        if tells_room {
            context.notify(Notice::ReplyRoom { id });
        }
        self.schedule_part(context);
    }
}
