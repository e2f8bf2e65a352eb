//! A receiver of one transfer: what it takes, what it says, and when it gives up. Who acknowledges what is the policy's,
//! in [`duty`].
//!
//! ```text
//!  announced ─ accept ─▶ Registering ─ named in a Start ─▶ Receiving ─ finish ─▶ forgotten
//!                 │                                            ▲
//!                 └── too late for this pass: it listens, and ─┘ is named in the next
//! ```
//!
//! A receiver takes whatever data it hears from the moment that it has accepted, named or not.

mod blocks;
mod duty;
mod store;

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::timers::{TimerKey, Timers};
use groupcast_core::{MemberId, Time};

use self::blocks::Blocks;
use self::duty::Place;
use self::store::{Store, Taken};
use super::config::{BulkConfig, Policy};
use super::outbox::Context;
use super::ranges::RangeSet;
use super::transfer::{Acceptance, Failure, Notice, TransferId};
use super::wire::{
    Announce, Data, DataHeader, Finish, Message, NAME_MAX, Poll, Purpose, REASON_MAX, Report,
    Start, Status,
};

/// One transfer at a receiver.
#[derive(Debug)]
pub(super) struct Receiver {
    id: TransferId,
    announce: Announce,
    state: State,
    /// What the user said, if it did.
    concluded: Option<Result<(), String>>,
    /// Whether the user was told that it has everything.
    told_received: bool,
    pass: u16,
    place: Place,
    /// What parity can restore, if the sender sends any.
    blocks: Option<Blocks>,
    /// One past the highest packet that was sent, as far as is known.
    top: u64,
    /// The highest stamp seen, when, and how many transmissions were received.
    seen: u64,
    seen_at: Time,
    received: u64,
    /// The limit that the sender was last told.
    told_limit: u64,
    /// When it last asked for missing packets, and what it had seen then.
    asked: Option<(Time, u64)>,
    /// When the sender was last heard.
    heard: Time,
    register_wait: Duration,
    /// What it is called.
    name: Bytes,
    timers: Timers<Timer>,
}

#[derive(Debug)]
enum State {
    /// The user has not answered.
    Announced,
    /// The sender has not named this receiver yet.
    Registering(Store),
    /// It is one of those that the sender serves.
    Receiving(Store),
}

impl State {
    fn store(&self) -> Option<&Store> {
        match self {
            Self::Announced => None,
            Self::Registering(store) | Self::Receiving(store) => Some(store),
        }
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        match self {
            Self::Announced => None,
            Self::Registering(store) | Self::Receiving(store) => Some(store),
        }
    }
}

/// What a receiver waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    /// When to register again.
    Register,
    /// When to ask for what is missing.
    Nak,
    /// When to look whether the sender is still there.
    Alive,
}

impl TimerKey for Timer {
    const ALL: &'static [Self] = &[Self::Register, Self::Nak, Self::Alive];

    fn index(self) -> usize {
        self as usize
    }
}

/// Whether a receiver goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    Goes,
    Ends,
}

impl Receiver {
    pub(super) fn new(context: &mut Context<'_>, id: TransferId, announce: Announce) -> Self {
        context.notify(Notice::Announced {
            id,
            about: announce.about.clone(),
            length: announce.length,
        });
        let mut timers = Timers::default();
        timers.set(Timer::Alive, context.now + context.config.vanish_after);
        Self {
            id,
            announce,
            state: State::Announced,
            concluded: None,
            told_received: false,
            pass: 0,
            place: Place::default(),
            blocks: None,
            top: 0,
            seen: 0,
            seen_at: context.now,
            received: 0,
            told_limit: 0,
            asked: None,
            heard: context.now,
            register_wait: context.config.announce_interval,
            name: Bytes::new(),
            timers,
        }
    }

    /// The user takes it; false if it had answered before.
    pub(super) fn accept(&mut self, context: &mut Context<'_>, acceptance: &Acceptance) -> bool {
        if !matches!(self.state, State::Announced) {
            return false;
        }
        let Announce { packet, length, .. } = self.announce;
        let store = Store::new(packet, length, context.config.buffer_max, acceptance);
        self.state = State::Registering(store);
        self.blocks = (self.announce.block > 0).then(|| {
            let size = u64::from(self.announce.block);
            Blocks::new(size, packet as usize, context.config.buffer_max)
        });
        self.name = acceptance.name.slice(..acceptance.name.len().min(NAME_MAX));
        self.register(context);
        self.hand_over(context);
        true
    }

    fn register(&mut self, context: &mut Context<'_>) {
        self.report(context, Purpose::Register, false);
        let wait = self.register_wait;
        // Receivers that heard the same announcement do not repeat themselves in step.
        let jitter = context.rng.duration(Duration::ZERO, wait / 2);
        self.timers
            .set(Timer::Register, context.now + wait + jitter);
        self.register_wait = (wait * 2).min(Duration::from_secs(1));
    }

    /// A message of this transfer's sender.
    pub(super) fn handle(&mut self, context: &mut Context<'_>, message: Message) -> Life {
        self.heard = context.now;
        match message {
            Message::Data(data) => self.handle_data(context, data),
            Message::Start(start) => self.handle_start(context, &start),
            Message::Poll(poll) => self.handle_poll(context, poll),
            Message::Finish(finish) => return self.handle_finish(context, finish),
            Message::Announce(_) | Message::Report(_) | Message::Refuse(_) => {}
        }
        Life::Goes
    }

    fn handle_data(&mut self, context: &mut Context<'_>, data: Data) {
        let Some(store) = self.state.store_mut() else {
            return;
        };
        if matches!(self.concluded, Some(Err(_))) {
            if data.header.answer {
                self.report(context, Purpose::Acknowledge, true);
            }
            return;
        }
        let Data { header, body } = data;
        context.counters.packets_received += 1;
        self.received += 1;
        if header.stamp > self.seen {
            self.seen = header.stamp;
            self.seen_at = context.now;
        }
        if let Some(index) = header.parity {
            self.handle_parity(context, header, index, body);
            return;
        }
        let before = store.next();
        let kept = self.blocks.as_ref().map(|_| body.clone());
        let taken = store.take(header.number, header.last, self.announce.go_back, body);
        let possible = store
            .packets()
            .is_none_or(|packets| header.number < packets);
        if possible {
            self.top = self.top.max(header.number + 1);
        }
        match taken {
            Taken::New => {}
            Taken::Duplicate => context.counters.duplicates += 1,
            Taken::Refused => context.counters.refused += 1,
        }
        if let (Taken::New, Some(blocks), Some(body)) = (taken, &mut self.blocks, kept) {
            blocks.keep(header.number, body);
        }
        if taken == Taken::New {
            self.restore(context, header.number);
        }
        self.fulfil(context, taken == Taken::New, before, header.answer);
        self.hand_over(context);
        self.ask_for_missing(context);
    }

    fn handle_parity(
        &mut self,
        context: &mut Context<'_>,
        header: DataHeader,
        index: u16,
        body: Bytes,
    ) {
        let (Some(store), Some(blocks)) = (self.state.store(), &mut self.blocks) else {
            return;
        };
        let before = store.next();
        let end = header.number + blocks.size();
        let end = store.packets().unwrap_or(u64::MAX).min(end);
        if (header.number..end).any(|number| !store.has(number)) {
            // Parity comes when all of its block was sent.
            self.top = self.top.max(end);
            blocks.keep_parity(header.number, index, body);
        }
        let restored = self.restore(context, header.number);
        self.fulfil(context, restored, before, header.answer);
        self.hand_over(context);
        self.ask_for_missing(context);
    }

    /// Restores what is missing of the block that `number` is in, if that can be done now; whether it was.
    fn restore(&mut self, context: &mut Context<'_>, number: u64) -> bool {
        let (Some(store), Some(blocks)) = (self.state.store_mut(), &mut self.blocks) else {
            return false;
        };
        let first = number - number % blocks.size();
        let packets = store.packets().unwrap_or(u64::MAX);
        let count = packets.saturating_sub(first).min(blocks.size());
        let mut any = false;
        for (number, mut body) in blocks.restore(first, count as usize).unwrap_or_default() {
            // Where the length is not known yet, blocks with parity are of full packets.
            body.truncate(
                store
                    .len_of(number)
                    .unwrap_or(self.announce.packet as usize),
            );
            let last = packets == number + 1;
            if store.take(number, last, false, body) == Taken::New {
                context.counters.packets_restored += 1;
                any = true;
            }
        }
        let complete = (first..first + count).all(|number| store.has(number));
        blocks.forget(store.next(), complete.then_some(first));
        any
    }

    /// Gives the user what is there, and says when that was all.
    fn hand_over(&mut self, context: &mut Context<'_>) {
        let id = self.id;
        let Some(store) = self.state.store_mut() else {
            return;
        };
        while let Some((offset, bytes)) = store.pop() {
            context.notify(Notice::Data { id, offset, bytes });
        }
        if store.is_complete() && !self.told_received {
            self.told_received = true;
            let length = store.length().unwrap_or(0);
            context.notify(Notice::Received { id, length });
        }
    }

    fn handle_start(&mut self, context: &mut Context<'_>, start: &Start) {
        if start.pass < self.pass || self.state.store().is_none() {
            return;
        }
        if start.pass > self.pass {
            self.pass = start.pass;
            self.place = Place::default();
            self.asked = None;
        }
        if !self.place.read(context.local, start) {
            return;
        }
        self.timers.cancel(Timer::Register);
        if let State::Registering(_) = self.state
            && let State::Registering(store) = core::mem::replace(&mut self.state, State::Announced)
        {
            self.state = State::Receiving(store);
        }
        if start.answer {
            self.report(context, Purpose::Ready, false);
        }
    }

    fn handle_poll(&mut self, context: &mut Context<'_>, poll: Poll) {
        let Some(store) = self.state.store_mut() else {
            return;
        };
        self.received += 1;
        if poll.stamp > self.seen {
            self.seen = poll.stamp;
            self.seen_at = context.now;
        }
        if let Some(length) = poll.length {
            store.end_at(length);
        }
        let top = store.packets().unwrap_or(u64::MAX).min(poll.top);
        self.top = self.top.max(top);
        self.report_state(context, true);
        self.hand_over(context);
    }

    fn handle_finish(&mut self, context: &mut Context<'_>, finish: Finish) -> Life {
        let id = self.id;
        let complete = self.state.store().is_some_and(Store::is_complete);
        let given_up = matches!(self.concluded, Some(Err(_)));
        let notice = match finish {
            _ if given_up => Notice::Failed {
                id,
                failure: Failure::GivenUp,
            },
            Finish::Done if complete => Notice::Ended { id },
            Finish::Done => Notice::Failed {
                id,
                failure: Failure::Lost,
            },
            Finish::Cancelled(reason) => Notice::Failed {
                id,
                failure: Failure::Cancelled(reason),
            },
            Finish::Dropped => Notice::Failed {
                id,
                failure: Failure::Dropped,
            },
        };
        context.notify(notice);
        Life::Ends
    }

    /// The user is done with `bytes`.
    pub(super) fn consumed(&mut self, context: &mut Context<'_>, bytes: u64) {
        let Some(store) = self.state.store_mut() else {
            return;
        };
        store.consumed(bytes);
        let quarter = (store.buffer() / 4).max(1);
        let opens = store.limit(self.top) >= self.told_limit + quarter;
        // The sender may be held up by what it was told: it learns of the room without having to ask.
        if opens && self.told_limit < self.top + quarter && !store.is_complete() {
            self.tell_of_room(context);
        }
    }

    /// The user concludes.
    pub(super) fn conclude(&mut self, context: &mut Context<'_>, result: Result<(), &str>) {
        let complete = self.state.store().is_some_and(Store::is_complete);
        if self.concluded.is_some() || self.state.store().is_none() || result.is_ok() && !complete {
            return;
        }
        let fails = result.is_err();
        self.concluded =
            Some(result.map_err(|reason| reason[..reason.floor_char_boundary(REASON_MAX)].into()));
        if fails || self.announce.confirm {
            self.report(context, Purpose::Acknowledge, false);
        }
    }

    /// Another receiver reports: from behind in the chain, or to all.
    pub(super) fn hear(&mut self, context: &mut Context<'_>, from: MemberId, report: &Report) {
        if report.aggregate {
            self.handle_chain(context, from, report);
        } else {
            self.overhear(context, report);
        }
    }

    /// A NAK of another receiver: who misses nothing more behaves as if it had sent it (001 section 3).
    fn overhear(&mut self, context: &mut Context<'_>, report: &Report) {
        let asks = report.purpose == Purpose::Nak && self.timers.due(Timer::Nak).is_some();
        let Some(store) = self.state.store().filter(|_| asks) else {
            return;
        };
        let covered = store.missing(self.top).all(|gap| {
            let covers = |other: &Range<u64>| other.start <= gap.start && gap.end <= other.end;
            report.missing.iter().any(covers)
        });
        if covered {
            self.timers.cancel(Timer::Nak);
            self.asked = Some((context.now, self.seen));
            context.counters.naks_suppressed += 1;
        }
    }

    pub(super) fn handle_timeout(&mut self, context: &mut Context<'_>) -> Life {
        while let Some(timer) = self.timers.pop_due(context.now) {
            match timer {
                Timer::Register => self.register(context),
                Timer::Nak => self.send_nak(context),
                Timer::Alive => {
                    if self.look_for_sender(context) == Life::Ends {
                        return Life::Ends;
                    }
                }
            }
        }
        Life::Goes
    }

    fn look_for_sender(&mut self, context: &mut Context<'_>) -> Life {
        let limit = context.config.vanish_after;
        let silent = context.now - self.heard;
        if silent < limit {
            // Who has everything says so again: the last word of either side may have been lost.
            if self.told_received && silent >= limit / 8 {
                self.report(context, Purpose::Acknowledge, false);
            }
            self.timers.set(Timer::Alive, context.now + limit / 8);
            return Life::Goes;
        }
        let id = self.id;
        context.notify(
            if self.told_received && !matches!(self.concluded, Some(Err(_))) {
                Notice::Ended { id }
            } else {
                Notice::Failed {
                    id,
                    failure: Failure::Lost,
                }
            },
        );
        Life::Ends
    }

    /// Sets out to ask for what is missing, if anything is and it was not just asked for.
    fn ask_for_missing(&mut self, context: &mut Context<'_>) {
        let Some(store) = self.state.store() else {
            return;
        };
        if store.next() >= self.top {
            self.timers.cancel(Timer::Nak);
            return;
        }
        if self.timers.due(Timer::Nak).is_some() || !matches!(self.state, State::Receiving(_)) {
            return;
        }
        let earliest = self.asked.map_or(context.now, |(asked, _)| {
            asked + context.config.nak_interval
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

    fn send_nak(&mut self, context: &mut Context<'_>) {
        let Some(store) = self.state.store() else {
            return;
        };
        // Without anything new since it last asked, it is for the sender to ask.
        let news = self.asked.is_none_or(|(_, seen)| self.seen > seen);
        if news && store.next() < self.top && !matches!(self.concluded, Some(Err(_))) {
            self.report(context, Purpose::Nak, false);
        }
    }

    /// Reports to the sender: as a NAK if something is missing.
    fn report_state(&mut self, context: &mut Context<'_>, answers: bool) {
        let missing = self
            .state
            .store()
            .is_some_and(|store| store.next() < self.top);
        let purpose = if missing {
            Purpose::Nak
        } else {
            Purpose::Acknowledge
        };
        self.report(context, purpose, answers);
    }

    fn report(&mut self, context: &mut Context<'_>, purpose: Purpose, answers: bool) {
        let Some(report) = self.state_of_things(context, purpose, answers) else {
            return;
        };
        let meets = self.announce.meet && purpose == Purpose::Register;
        let asks_all = self.announce.nak_delay_us.is_some() && purpose == Purpose::Nak && !answers;
        let message = Message::Report(report);
        if meets || asks_all {
            context.outbox.multicast(self.id.number, &message);
        } else {
            let sender = self.id.sender;
            context.outbox.unicast(sender, self.id.number, &message);
        }
    }

    /// A report of this moment; counts it, and remembers what it tells.
    fn state_of_things(
        &mut self,
        context: &mut Context<'_>,
        purpose: Purpose,
        answers: bool,
    ) -> Option<Report> {
        let store = self.state.store()?;
        match purpose {
            Purpose::Nak => {
                context.counters.naks_sent += 1;
                self.asked = Some((context.now, self.seen));
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
        let (missing, told) = match trimmed.and_then(|blocks| trim(store, blocks, below)) {
            Some(missing) => list(missing.iter(), below),
            None => list(store.missing(below), below),
        };
        let limit = store.limit(self.top);
        self.told_limit = limit;
        Some(Report {
            sender: self.id.sender.incarnation,
            purpose,
            answers,
            aggregate: false,
            pass: self.pass,
            status: self.status(),
            next: store.next(),
            limit,
            seen: self.seen,
            received: self.received,
            delay_us: (context.now - self.seen_at).as_micros() as u64,
            told,
            missing,
            name: if purpose == Purpose::Register {
                self.name.clone()
            } else {
                Bytes::new()
            },
        })
    }

    fn status(&self) -> Status {
        match &self.concluded {
            Some(Ok(())) => Status::Concluded,
            Some(Err(reason)) => Status::Failed(reason.clone()),
            None if self.state.store().is_some_and(Store::is_complete) => Status::Holding,
            None => Status::Receiving,
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Bytes that are in memory, for the user or to restore others.
    pub(super) fn buffered(&self) -> u64 {
        let parity = self.blocks.as_ref().map_or(0, Blocks::buffered);
        self.state.store().map_or(0, Store::buffered) + parity
    }

    /// Whether its user has answered.
    pub(super) fn is_answered(&self) -> bool {
        !matches!(self.state, State::Announced)
    }

    /// The policy that the sender announced.
    fn policy(&self) -> Policy {
        self.announce.policy
    }
}

/// What is missing below `below`, less what the parity that is here will restore once the rest is; `None` if there is no
/// parity.
fn trim(store: &Store, blocks: &Blocks, below: u64) -> Option<RangeSet> {
    let mut parities = blocks.parities().peekable();
    parities.peek()?;
    let mut missing = RangeSet::default();
    for gap in store.missing(below) {
        missing.insert(gap);
    }
    for (first, parity) in parities {
        let block = first..(first + blocks.size()).min(below).max(first);
        for number in block
            .rev()
            .filter(|number| !store.has(*number))
            .take(parity)
        {
            missing.remove(number..number + 1);
        }
    }
    Some(missing)
}

/// As many of the `gaps` below `below` as fit into a control message, and up to where they tell all.
fn list(gaps: impl Iterator<Item = Range<u64>>, below: u64) -> (Vec<Range<u64>>, u64) {
    let room = BulkConfig::CONTROL_MAX - 80 - REASON_MAX;
    let (mut used, mut at) = (0, 0);
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
