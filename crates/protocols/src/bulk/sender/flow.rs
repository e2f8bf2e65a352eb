//! What a sender sends when: packets, repairs, polls; what it learns from reports; who holds back the others.

use core::time::Duration;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, SocketClass, Transmit, TransmitBuf};

use super::super::config::{BulkConfig, Policy, RateControl, Repair, SlowPolicy};
use super::super::outbox::Context;
use super::super::rate::Seen;
use super::super::receiver::Life;
use super::super::transfer::{Outcome, PhaseKind};
use super::super::wire::{DATA_HEADER, DataHeader, Message, Poll, Purpose, Report, Status};
use super::{Sender, Timer};

/// A receiver that loses less than this share of transmissions is not slow for it.
const LOSS_MIN: f64 = 0.03;

impl Sender {
    /// Fills `buf` with the next packets that window, rate and the receivers' room let go.
    pub(in crate::bulk) fn poll_transmit(
        &mut self,
        context: &mut Context<'_>,
        buf: &mut TransmitBuf,
    ) -> Option<Transmit> {
        if self.phase != PhaseKind::Sending {
            return None;
        }
        let limit = self.limit();
        loop {
            let repair = self.stream.next_repair();
            let parity = self.parities.next().filter(|_| repair.is_none());
            let number = repair.or_else(|| self.stream.next(limit));
            let body = match (&parity, number) {
                (Some((_, _, body)), _) => Some(body.clone()),
                (None, Some(number)) => self.stream.get(number).map(|slot| slot.body.clone()),
                (None, None) => None,
            };
            let Some(body) = body.filter(|body| buf.accepts(DATA_HEADER + body.len())) else {
                break;
            };
            if !self.rate.allows(context.now) {
                self.timers.set(Timer::Pace, self.rate.due(context.now));
                break;
            }
            match (parity, number) {
                (Some((first, index, _)), _) => {
                    self.send_parity(context, buf, first, index, &body, limit);
                }
                (None, Some(number)) => self.send_packet(context, buf, number, &body, limit),
                (None, None) => break,
            }
        }
        self.arm(context);
        (!buf.is_empty()).then(|| Transmit {
            destination: self.destination(),
            class: SocketClass::Data,
        })
    }

    fn send_parity(
        &mut self,
        context: &mut Context<'_>,
        buf: &mut TransmitBuf,
        first: u64,
        index: u16,
        body: &Bytes,
        limit: u64,
    ) {
        let stamp = self.stream.stamp(context.now);
        self.parities.sent(first, index, stamp);
        let header = DataHeader {
            transfer: self.id.number,
            answer: self.has_nothing_to_send(limit),
            last: false,
            again: true,
            stamp,
            number: first,
            parity: Some(index),
        };
        self.packets += 1;
        self.repeated += 1;
        context.counters.parity_sent += 1;
        self.rate.spend(DATA_HEADER + body.len());
        buf.push(&[&header.encode(), body]);
    }

    fn has_nothing_to_send(&self, limit: u64) -> bool {
        self.stream.next(limit).is_none() && self.parities.next().is_none()
    }

    fn send_packet(
        &mut self,
        context: &mut Context<'_>,
        buf: &mut TransmitBuf,
        number: u64,
        body: &Bytes,
        limit: u64,
    ) {
        let (again, stamp) = self.stream.sent(context.now, number);
        let last_of_pass = number + 1 == self.stream.pass_end();
        let flagged = match context.config.policy {
            // PAPERS 001: packets i-1, 2i-1 … and always the last.
            Policy::Nak { poll } => (number + 1).is_multiple_of(poll.into()) || last_of_pass,
            Policy::Ack | Policy::Ring | Policy::Tree { .. } => false,
        };
        // After the last repair that can be sent nothing else would make anybody answer.
        let selective = context.config.repair == Repair::Selective;
        if !again {
            self.foresee(number);
        }
        let repairs_end = again && selective && self.has_nothing_to_send(limit);
        let header = DataHeader {
            transfer: self.id.number,
            answer: flagged || repairs_end || self.asks,
            last: self.stream.is_last(number),
            again,
            stamp,
            number,
            parity: None,
        };
        self.asks = false;
        self.packets += 1;
        self.repeated += u64::from(again);
        context.counters.packets_sent += 1;
        context.counters.packets_repeated += u64::from(again);
        self.rate.spend(DATA_HEADER + body.len());
        buf.push(&[&header.encode(), body]);
    }

    /// All that are waited for have room below this packet.
    fn limit(&self) -> u64 {
        self.gating()
            .map(|peer| peer.limit)
            .min()
            .unwrap_or(u64::MAX)
    }

    pub(super) fn handle_report(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &Report,
    ) {
        match report.purpose {
            Purpose::Nak => context.counters.naks_received += 1,
            Purpose::Acknowledge => context.counters.reports_received += 1,
            Purpose::Register | Purpose::Ready => {}
        }
        if let Status::Failed(reason) = &report.status
            && !report.aggregate
        {
            self.settle(context, from, Outcome::Failed(reason.clone()));
            return;
        }
        self.look_for_loss(context, from, report);
        let moved = self.read_report(context, from, report);
        if report.purpose == Purpose::Ready && report.pass == self.pass {
            self.read_ready(from, report);
        }
        self.time_round_trip(context, report);
        if moved {
            self.progressed(context);
        }
        if self.phase == PhaseKind::Sending {
            let gates = self.peers.get(&from).is_some_and(|peer| peer.gates);
            if gates {
                self.repair(context, from, report);
            }
            self.end_epoch(context);
            self.look_for_slow(context);
        }
    }

    /// Who has lost what it had cannot be served by this pass, which may have moved on: the next one serves it.
    pub(super) fn look_for_loss(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &Report,
    ) {
        let peer = self.peers.get_mut(&from).filter(|_| !report.aggregate);
        let Some(peer) = peer.filter(|peer| peer.has_begun_anew(report)) else {
            return;
        };
        if !self.transfer.rewindable {
            self.drop_receiver(context, from, Outcome::Late);
            return;
        }
        peer.begin_anew(context.now, report, self.stream.last_stamp());
        // Unless it has yet to say what it needs in this pass.
        peer.gates &= self.phase == PhaseKind::Starting && !peer.ready;
    }

    /// Whether it says that anybody has more than before.
    fn read_report(&mut self, context: &mut Context<'_>, from: MemberId, report: &Report) -> bool {
        let mut moved = false;
        let stamp = self.stream.last_stamp();
        if report.aggregate {
            // The first of a chain speaks for all of it (001 section 3).
            let Policy::Tree { height } = context.config.policy else {
                return false;
            };
            let height = height as usize;
            let Some(at) = self.order.iter().position(|member| *member == from) else {
                return false;
            };
            if report.pass != self.pass || !at.is_multiple_of(height) {
                return false;
            }
            let chain = at..(at + height).min(self.order.len());
            for member in &self.order[chain] {
                if let Some(peer) = self.peers.get_mut(member) {
                    moved |= peer.has(report.next, stamp);
                    peer.limit = peer.limit.max(report.limit);
                }
            }
        }
        if let Some(peer) = self.peers.get_mut(&from) {
            moved |= peer.read(context.now, report, stamp);
        }
        moved
    }

    fn read_ready(&mut self, from: MemberId, report: &Report) {
        let packets = self.stream.packets();
        let known = self.stream.length.is_some();
        if self.phase != PhaseKind::Starting {
            return;
        }
        if let Some(peer) = self.peers.get_mut(&from).filter(|peer| !peer.ready) {
            peer.ready = true;
            let told = peer.read_needs(report, packets, known);
            self.told = self.told.min(told);
        }
    }

    fn time_round_trip(&mut self, context: &mut Context<'_>, report: &Report) {
        if report.aggregate || report.seen == 0 {
            return;
        }
        if let Some(sent) = self.stream.time_of(report.seen) {
            let waited = Duration::from_micros(report.delay_us);
            let round_trip = (context.now - sent).saturating_sub(waited);
            self.round_trip.sample(round_trip);
            self.rate.sample(round_trip);
        }
    }

    /// Something moved: patience begins anew.
    fn progressed(&mut self, context: &mut Context<'_>) {
        self.backoff = 0;
        if self.waits {
            let due = context.now + self.time_out(context.config);
            self.timers.set(Timer::Retransmit, due);
        }
    }

    /// How long to wait before asking again.
    fn time_out(&self, config: &BulkConfig) -> Duration {
        let first = if self.round_trip.samples() == 0 {
            config.rto_initial
        } else {
            (self.round_trip.upper() + config.nak_interval).max(config.rto_min)
        };
        (first * (1 << self.backoff.min(10))).min(config.rto_max)
    }

    /// Nothing has moved for too long.
    pub(super) fn ask_again(&mut self, context: &mut Context<'_>) -> Life {
        self.give_up_silent(context);
        if self.waits || self.phase != PhaseKind::Sending {
            self.backoff += 1;
        }
        match self.phase {
            PhaseKind::Announcing => {}
            PhaseKind::Starting => self.send_roster(context),
            PhaseKind::Concluding => self.poll(context),
            PhaseKind::Sending => {
                if self.waits && context.config.repair == Repair::GoBackN {
                    // 001 section 4: the timer goes off, and the packet is sent again, with all after it.
                    self.stream.go_back();
                    self.asks = true;
                    self.waits = false;
                } else {
                    self.poll(context);
                }
                if self.backoff > 1 && !context.config.reserve {
                    self.send_roster(context);
                }
            }
        }
        self.ask_after(context);
        self.advance(context)
    }

    /// Asks again when the time-out has passed.
    pub(super) fn ask_after(&mut self, context: &mut Context<'_>) {
        let due = context.now + self.time_out(context.config);
        self.timers.set(Timer::Retransmit, due);
    }

    /// Asks everybody for a report.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        let poll = Poll {
            pass: self.pass,
            stamp: self.stream.stamp(context.now),
            top: match self.phase {
                PhaseKind::Concluding => self.stream.packets(),
                _ => self.stream.top(),
            },
            length: self.stream.length,
        };
        context.counters.polls_sent += 1;
        let message = Message::Poll(poll);
        match self.destination() {
            Destination::Member(only) if self.phase == PhaseKind::Sending => {
                context.outbox.unicast(only, self.id.number, &message);
            }
            _ => context.outbox.multicast(self.id.number, &message),
        }
    }

    /// Who was asked several times and says nothing is gone.
    fn give_up_silent(&mut self, context: &mut Context<'_>) {
        if self.backoff < 3 {
            return;
        }
        let (now, limit) = (context.now, context.config.vanish_after);
        let reach = self.stream.top();
        let phase = self.phase;
        let gone: alloc::vec::Vec<MemberId> = self
            .peers
            .iter()
            .filter(|(_, peer)| {
                let asked = match phase {
                    PhaseKind::Announcing => false,
                    PhaseKind::Starting => peer.gates && !peer.ready,
                    PhaseKind::Sending => peer.gates && peer.next < reach,
                    PhaseKind::Concluding => true,
                };
                asked && now - peer.heard >= limit
            })
            .map(|(member, _)| *member)
            .collect();
        for member in gone {
            self.drop_receiver(context, member, Outcome::Vanished);
        }
    }

    /// Keeps the timer that asks again: soon if it waits for reports, now and then if it has nothing to send.
    pub(super) fn arm(&mut self, context: &mut Context<'_>) {
        if self.phase != PhaseKind::Sending {
            return;
        }
        let waits = self.stream.ahead() > 0 && self.has_nothing_to_send(self.limit());
        if waits != self.waits || self.timers.due(Timer::Retransmit).is_none() {
            self.waits = waits;
            let patience = if waits {
                self.time_out(context.config)
            } else {
                context.config.vanish_after / 8
            };
            self.timers.set(Timer::Retransmit, context.now + patience);
        }
    }

    /// Lets the rate control learn from what the receivers lost.
    fn end_epoch(&mut self, context: &mut Context<'_>) {
        if !matches!(context.config.rate, RateControl::Adaptive { .. }) {
            return;
        }
        let round_trip = self.round_trip.mean();
        if !self.rate.epoch_ends(context.now, round_trip) {
            return;
        }
        // Lost by the one that lost the largest share: a / b > c / d as a × d > c × b.
        let worst = self
            .gating()
            .map(|peer| peer.epoch)
            .filter(|seen| seen.sent > 0)
            .max_by_key(|seen| seen.lost.saturating_mul(1 << 20) / seen.sent)
            .unwrap_or(Seen::default());
        for peer in self.peers.values_mut() {
            peer.epoch = Seen::default();
        }
        let packet = context.config.packet;
        self.rate.end_epoch(context.now, packet, worst);
    }

    /// Finds the few receivers that hold back the many.
    fn look_for_slow(&mut self, context: &mut Context<'_>) {
        let passed = context.now - self.looked;
        let config = context.config;
        if config.slow == SlowPolicy::Wait || passed < config.slow_after / 16 {
            return;
        }
        self.looked = context.now;
        let limit = self.limit();
        let held_back = self.stream.is_held_back(limit);
        let base = self.gating().map(|peer| peer.next).min().unwrap_or(0);
        let count = self.gating().count();
        let mut losses: alloc::vec::Vec<f64> = self.gating().map(|peer| peer.loss).collect();
        losses.sort_by(f64::total_cmp);
        let median = losses.get(losses.len() / 2).copied().unwrap_or(0.0);

        let holds = |peer: &super::Peer| {
            let stops = held_back && (peer.next == base || peer.limit == limit);
            let loses = peer.sampled > 256 && peer.loss > LOSS_MIN.max(4.0 * median);
            peer.gates && (stops || loses)
        };
        // The many are not slow: then the few are fast.
        let few = self.peers.values().filter(|peer| holds(peer)).count() * 3 <= count;
        let mut slow = alloc::vec::Vec::new();
        for (member, peer) in &mut self.peers {
            if few && holds(peer) {
                peer.holds_back += passed;
            } else {
                peer.holds_back = peer.holds_back.saturating_sub(passed / 2);
            }
            if peer.gates && peer.holds_back >= config.slow_after {
                slow.push(*member);
            }
        }
        for member in slow {
            self.set_aside(context, member);
        }
    }

    /// A slow receiver is demoted, or dropped.
    fn set_aside(&mut self, context: &mut Context<'_>, member: MemberId) {
        if context.config.slow == SlowPolicy::Demote && self.transfer.rewindable {
            context.counters.demoted += 1;
            if let Some(peer) = self.peers.get_mut(&member) {
                peer.gates = false;
            }
        } else {
            self.drop_receiver(context, member, Outcome::Slow);
        }
    }
}
