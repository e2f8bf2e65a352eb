//! CP at the sender (003 3.1.1, 3.3.1, 3.4): a window and a timer for each receiver.
//!
//! Data is multicast once, as far as the window of every receiver lets it go, and every receiver
//! acknowledges every packet. A receiver's timer runs while it has to acknowledge something, and
//! begins anew when it does. When it has run out, what the receiver misses is sent again: to it
//! alone, or to all if more than a share of the receivers misses that packet. It runs, too, while
//! the receiver has everything and no room for more, and that stops the sender: the word of its
//! room may be lost, so that it is asked for it, alone. Each is given up by its own silence: who
//! owed no word may be silent.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::estimate::Estimate;
use groupcast_core::{Destination, MemberId, SocketClass, Time, Transmit, TransmitBuf};

use super::super::config::{BulkConfig, Cp};
use super::super::context::Context;
use super::super::numbers::{PacketNumber, each};
use super::super::ranges::RangeSet;
use super::super::wire::{DATA_HEADER, DataHeader, ReceiverReport};
use super::Sender;
use super::flow::SILENT_ASKED;
use super::gate::Gate;

/// The windows of a pass.
#[derive(Debug)]
pub(super) struct Windows {
    rule: Cp,
    of: BTreeMap<MemberId, Window>,
    /// Packets that go to one receiver again.
    unicast: VecDeque<(MemberId, PacketNumber)>,
}

/// What the sender knows of the way to one receiver.
#[derive(Debug, Default)]
struct Window {
    round_trip: Estimate,
    /// When its timer runs out, and what it had when that was set.
    due: Option<Time>,
    next: PacketNumber,
    /// Since when it owes a word, while its timer runs.
    owed_since: Option<Time>,
    /// How often it has run out in a row.
    backoff: u32,
    /// What it has said to miss, and below which packet that was all.
    missing: RangeSet<PacketNumber>,
    listed_below: PacketNumber,
}

impl Window {
    /// What is waited for an acknowledgement, before anything was in vain.
    fn patience(&self, config: &BulkConfig) -> Duration {
        match self.round_trip.samples() {
            0 => config.rto_initial,
            _ => (self.round_trip.upper() + config.nak_interval).max(config.rto_min),
        }
    }

    fn time_out(&self, config: &BulkConfig) -> Duration {
        (self.patience(config) * (1 << self.backoff.min(10))).min(config.rto_max)
    }

    /// Whether the receiver has not said that it has a packet; `next` is the lowest that it misses.
    fn lacks(&self, next: PacketNumber, number: PacketNumber) -> bool {
        number >= next && (number >= self.listed_below || self.missing.contains(number))
    }
}

impl Windows {
    pub(super) fn new(rule: Cp) -> Self {
        Self {
            rule,
            of: BTreeMap::new(),
            unicast: VecDeque::new(),
        }
    }

    /// Whether a receiver's timer has run out so often that its silence says something.
    pub(super) fn has_asked_in_vain(&self, receiver: MemberId) -> bool {
        let window = self.of.get(&receiver);
        window.is_some_and(|window| window.backoff >= SILENT_ASKED)
    }

    /// Since when a receiver owes a word.
    pub(super) fn owed_since(&self, receiver: MemberId) -> Option<Time> {
        self.of.get(&receiver)?.owed_since
    }

    /// A receiver says what it misses, `round_trip` after the last packet that it has seen left.
    fn note(&mut self, from: MemberId, report: &ReceiverReport, round_trip: Option<Duration>) {
        let window = self.of.entry(from).or_default();
        if let Some(round_trip) = round_trip {
            window.round_trip.sample(round_trip);
        }
        window.listed_below = report.listed_below;
        window.missing = RangeSet::default();
        for gap in &report.missing {
            window.missing.insert(gap.clone());
        }
    }
}

impl Sender {
    /// The windows of the pass, under that policy.
    pub(super) fn windows(&self) -> Option<&Windows> {
        match &self.sending()?.gate {
            Gate::Windows(windows) => Some(windows),
            _ => None,
        }
    }

    fn windows_mut(&mut self) -> Option<&mut Windows> {
        match &mut self.sending_mut()?.gate {
            Gate::Windows(windows) => Some(windows),
            _ => None,
        }
    }

    /// Takes in what a receiver has acknowledged, and what it misses.
    pub(super) fn note_window(&mut self, now: Time, from: MemberId, report: &ReceiverReport) {
        let sent = self.stream.time_of(report.seen);
        let waited = Duration::from_micros(report.delay_us);
        let round_trip = sent.map(|sent| (now - sent).saturating_sub(waited));
        if let Some(windows) = self.windows_mut() {
            windows.note(from, report, round_trip);
        }
    }

    /// Sets the timer to the first of the receivers' timers that runs out.
    pub(super) fn arm_windows(&mut self, context: &mut Context<'_>) {
        let (now, top, config) = (context.now, self.stream.top(), context.config);
        let room = self.limit();
        let closed = self.stream.lacks_room(room).then_some(room);
        let gating = self.peers.iter().filter(|(_, peer)| peer.gates);
        let gating: Vec<(MemberId, PacketNumber, bool)> = gating
            .map(|(member, peer)| (*member, peer.next, peer.owes_word(top, closed)))
            .collect();
        let Some(windows) = self.windows_mut() else {
            return;
        };
        // The timers of those that have gone run out for nobody.
        let is_served = |member: &MemberId| gating.binary_search_by_key(member, |(it, ..)| *it);
        windows.of.retain(|member, _| is_served(member).is_ok());
        let mut first: Option<Time> = None;
        for (member, next, owes_word) in gating {
            let window = windows.of.entry(member).or_default();
            let moved = next > window.next;
            if moved {
                window.backoff = 0;
                window.next = next;
            }
            if !owes_word {
                window.due = None;
                window.owed_since = None;
                window.backoff = 0;
                continue;
            }
            window.owed_since.get_or_insert(now);
            if moved || window.due.is_none() {
                window.due = Some(now + window.time_out(config));
            }
            first = [first, window.due].into_iter().flatten().min();
        }
        self.arm_request(now, first, config.vanish_after / 8, first.is_some());
    }

    /// Timers of receivers have run out, or nothing was heard for long.
    pub(super) fn act_on_windows(&mut self, context: &mut Context<'_>) {
        let (now, config) = (context.now, context.config);
        let Some(windows) = self.windows_mut() else {
            return;
        };
        let mut expired = Vec::new();
        for (member, window) in &mut windows.of {
            if window.due.is_some_and(|due| due <= now) {
                window.backoff += 1;
                window.due = Some(now + window.time_out(config));
                expired.push(*member);
            }
        }
        let backoff = windows.of.values().map(|window| window.backoff).max();
        let backoff = backoff.unwrap_or_default();
        if let Some(sending) = self.sending_mut() {
            sending.backoff = backoff;
        }
        if expired.is_empty() {
            self.poll(context);
        }
        self.give_up_silent(context);
        let top = self.stream.top();
        let mut any_misses = false;
        for receiver in expired {
            match self.peers.get(&receiver) {
                Some(peer) if peer.next >= top => self.poll_one(context, receiver),
                Some(_) => {
                    any_misses = true;
                    self.send_again_to(context, receiver);
                }
                None => {}
            }
        }
        if backoff > 1 && any_misses && !context.config.reserve {
            // They may have missed that they are served.
            self.send_roster(context);
        }
        self.advance(context);
    }

    /// Has what a receiver misses sent again, to it or to all (003 3.4).
    fn send_again_to(&mut self, context: &Context<'_>, receiver: MemberId) {
        let (now, top) = (context.now, self.stream.top());
        let (Some(peer), Some(windows)) = (self.peers.get(&receiver), self.windows()) else {
            return;
        };
        let Some(window) = windows.of.get(&receiver).filter(|_| peer.gates) else {
            return;
        };
        if windows.unicast.iter().any(|(to, _)| *to == receiver) {
            return;
        }
        let patience = window.patience(context.config);
        let is_due = |number: PacketNumber| {
            let slot = self.stream.get(number);
            slot.is_some_and(|slot| now - slot.sent >= patience)
        };
        let group = self.roster().len() as u64;
        let (mut to_all, mut to_one) = (Vec::new(), Vec::new());
        for number in each(peer.next..top).filter(|number| is_due(*number)) {
            if !window.lacks(peer.next, number) {
                continue;
            }
            let peers = self.peers.iter().filter(|(_, peer)| peer.gates);
            let lacking = peers.filter(|(member, peer)| {
                let window = windows.of.get(member);
                window.is_none_or(|window| window.lacks(peer.next, number))
            });
            let share = lacking.count() as u64 * 100;
            match share > u64::from(windows.rule.threshold) * group {
                true => to_all.push(number),
                false => to_one.push((receiver, number)),
            }
        }
        for number in to_all {
            self.stream.repair(number..number + 1, |_| true);
        }
        if let Some(windows) = self.windows_mut() {
            windows.unicast.extend(to_one);
        }
    }

    /// The next packet for one receiver. No other sees it, so it counts for nothing: its stamp is
    /// that of the last transmission to all.
    pub(super) fn poll_unicast(
        &mut self,
        context: &mut Context<'_>,
        buf: &mut TransmitBuf,
    ) -> Option<Transmit> {
        if !self.rate.allows(context.now) {
            return None;
        }
        loop {
            let (receiver, number) = self.windows_mut()?.unicast.pop_front()?;
            let is_served = self.peers.contains_key(&receiver);
            let slot = self.stream.get(number).filter(|_| is_served);
            let Some(body) = slot.map(|slot| slot.body.clone()) else {
                continue;
            };
            if !buf.accepts(DATA_HEADER + body.len()) {
                self.windows_mut()?.unicast.push_front((receiver, number));
                return None;
            }
            self.rate.fan_out(1);
            self.send_unicast(context, buf, number, &body);
            return Some(Transmit {
                destination: Destination::Member(receiver),
                class: SocketClass::Data,
            });
        }
    }

    fn send_unicast(
        &mut self,
        context: &mut Context<'_>,
        buf: &mut TransmitBuf,
        number: PacketNumber,
        body: &Bytes,
    ) {
        let header = DataHeader {
            transfer: self.id.number,
            // A receiver that has it, and whose acknowledgement was lost, says so.
            answer: true,
            last: self.stream.is_last(number),
            again: true,
            ends: self.stream.ends_message(number),
            rate: false,
            stamp: self.stream.last_stamp(),
            number,
            parity: None,
            kept: 0,
            from_arrival: self.rate.looks_at_each(),
            subgroups: None,
        };
        self.packets += 1;
        self.repeated += 1;
        context.counters.packets_sent += 1;
        context.counters.packets_repeated += 1;
        self.rate.spend(DATA_HEADER + body.len());
        buf.push(&[&header.encode(), body]);
    }
}
