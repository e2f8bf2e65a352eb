//! What a sender sends when: packets in their turn, repairs, parity, polls; when it asks for
//! reports again.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, SocketClass, Time, Transmit, TransmitBuf, Uplink};

use super::super::config::{BulkConfig, Collectors, Policy, Repair, Xtp};
use super::super::context::Context;
use super::super::numbers::{PacketNumber, Stamp};
use super::super::rate::Turn;
use super::super::transfer::Outcome;
use super::super::wire::{DATA_HEADER, DataHeader, Message, Poll};
use super::collectors::CollectorSet;
use super::state::Sending;
use super::{Sender, State, Timer};

/// This many time-outs in a row without progress go before anybody is given up.
pub(super) const SILENT_ASKED: u32 = 3;

impl Sender {
    /// Whether its rate wants to know what waits in this host.
    pub(in crate::bulk) fn wants_uplink(&self, now: Time) -> bool {
        self.rate.wants_uplink(now)
    }

    /// What the host says of the link, on which it sends alone.
    pub(in crate::bulk) fn handle_uplink(&mut self, now: Time, uplink: Uplink) {
        self.rate.handle_uplink(now, uplink);
    }

    /// Fills `buf` with the next packets that window, rate and the receivers' room let go.
    pub(in crate::bulk) fn poll_transmit(
        &mut self,
        context: &mut Context<'_>,
        buf: &mut TransmitBuf,
    ) -> Option<Transmit> {
        if !matches!(self.state, State::Sending(_)) {
            return None;
        }
        if let Some(transmit) = self.poll_unicast(context, buf) {
            return Some(transmit);
        }
        let (limit, header_len) = (self.limit(), self.header_len());
        let destination = self.destination();
        let by_need = self.begins_copying(context, destination);
        let mut has_next;
        loop {
            self.replace_block(context, limit);
            let repair = self.stream.next_repair();
            let parity = self.sending().and_then(|sending| sending.parities.next());
            let parity = parity.filter(|_| repair.is_none());
            let number = repair.or_else(|| self.stream.next(limit));
            let body = match (&parity, number) {
                (Some((_, _, body)), _) => Some(body.clone()),
                (None, Some(number)) => self.stream.get(number).map(|slot| slot.body.clone()),
                (None, None) => None,
            };
            has_next = body.is_some();
            let Some(body) = body.filter(|body| buf.accepts(header_len + body.len())) else {
                break;
            };
            let first = parity.as_ref().map(|(first, ..)| *first);
            if by_need && !self.chooses_copied(context, destination, number, first, limit, buf) {
                break;
            }
            if !self.rate.allows(context.now) {
                match self.rate.due(context.now) {
                    Some(due) => self.timers.set(Timer::Pace, due),
                    None => self.timers.cancel(Timer::Pace),
                }
                break;
            }
            if by_need {
                self.copies_as_chosen(destination);
            }
            match (parity, number) {
                (Some((first, index, _)), _) => {
                    self.send_parity(context, buf, first, index, &body, limit);
                }
                (None, Some(number)) => self.send_packet(context, buf, number, &body, limit),
                (None, None) => break,
            }
        }
        if self.is_unanswered() {
            self.release_sent();
        }
        let lacks_room = self.stream.lacks_room(limit);
        self.stops.stopped(context.now, lacks_room);
        // What waits for the window waits for answers, and so for the network.
        let is_idle = !has_next && self.stream.ahead() < self.stream.window();
        self.rate.note_idle(context.now, is_idle);
        self.arm(context);
        (!buf.is_empty()).then_some(Transmit {
            destination,
            class: SocketClass::Data,
        })
    }

    fn send_parity(
        &mut self,
        context: &mut Context<'_>,
        buf: &mut TransmitBuf,
        first: PacketNumber,
        index: u16,
        body: &Bytes,
        limit: PacketNumber,
    ) {
        let asks = self.asks_with_parity(first, limit);
        if asks {
            self.rate.note_asked(context.now);
        }
        let stamp = self.stream.stamp(context.now);
        self.note_copied(context, stamp);
        if let Some(sending) = self.sending_mut() {
            sending.parities.sent(first, index, stamp);
        }
        let header = DataHeader {
            transfer: self.id.number,
            answer: asks,
            last: false,
            again: true,
            ends: false,
            rate: false,
            stamp,
            number: first,
            parity: Some(index),
            kept: 0,
            from_arrival: self.rate.looks_at_each(),
            subgroups: None,
        };
        self.packets += 1;
        self.repeated += 1;
        context.counters.parity_sent += 1;
        self.rate.spend(DATA_HEADER + body.len());
        buf.push(&[&header.encode(), body]);
    }

    /// How many packets before this one are kept, under the policy that says so.
    fn kept_before(&self, config: &BulkConfig, number: PacketNumber) -> u16 {
        if !matches!(config.policy, Policy::Xtp(_)) {
            return 0;
        }
        // Receivers that are known are not outrun.
        let sending = self.sending().filter(|_| self.buckets().is_some());
        let kept = sending.map(|sending| number.distance_from(sending.base));
        kept.and_then(|kept| u16::try_from(kept).ok())
            .unwrap_or(DataHeader::KEPT_UNKNOWN)
    }

    /// Whether the next parity packet, of the block that begins with `first`, asks every receiver
    /// for a report: it is the last of a block that is to ask, or nothing follows.
    pub(super) fn asks_with_parity(&self, first: PacketNumber, limit: PacketNumber) -> bool {
        let Some(sending) = self.sending() else {
            return false;
        };
        let is_last = self.stream.next(limit).is_none()
            && self.stream.next_as_parity(limit).is_none()
            && sending.parities.is_one_due();
        sending.parities.asks_next(first) || is_last
    }

    /// Whether packet `number`, which is the next, asks every receiver for a report because of its
    /// place in the stream (001 section 3: packets i-1, 2i-1 … and always the last). Of many
    /// receivers a rate that is found need not hear this often.
    fn asks_in_turn(
        &self,
        now: Time,
        number: PacketNumber,
        every: u32,
        limit: PacketNumber,
    ) -> bool {
        if number + 1 == self.stream.pass_end() {
            return true;
        }
        let base = self.stream.base();
        let turn = Turn {
            receivers: self.peers.len(),
            every: every.into(),
            room: (limit.distance_from(base)).min(self.stream.window() as u64),
            at: number.distance_from(base) + 1,
            round_trip: self.round_trip.mean(),
        };
        (number + 1).starts_block(every.into()) && self.rate.asks_in_turn(now, &turn)
    }

    /// Whether it asks because nothing follows it: after the last repair nothing else would make a
    /// receiver answer, and of a message that all have the sender learns at once, not when the
    /// time-out has passed.
    fn asks_at_end(&self, config: &BulkConfig, number: PacketNumber, limit: PacketNumber) -> bool {
        let is_known =
            self.buckets().is_none() && self.rounds().is_none() && self.windows().is_none();
        let is_repair =
            || config.repair == Repair::Selective && self.stream.next_repair() == Some(number);
        is_known && (is_repair() || self.stream.ends_message(number)) && {
            let has_parity = |sending: &Sending| sending.parities.next().is_some();
            !self.stream.follows(number, limit) && !self.sending().is_some_and(has_parity)
        }
    }

    /// Whether packet `number`, which is the next, asks every receiver for a report, under policy
    /// NAK and selective repeat. The rate may have it ask, too, by the time.
    pub(super) fn asks_all(
        &self,
        context: &Context<'_>,
        number: PacketNumber,
        limit: PacketNumber,
    ) -> bool {
        let in_turn = match context.config.policy {
            Policy::Nak { poll } => self.asks_in_turn(context.now, number, poll, limit),
            _ => true,
        };
        in_turn || self.asks_at_end(context.config, number, limit)
    }

    pub(super) fn has_nothing_to_send(&self, limit: PacketNumber) -> bool {
        let has_parity = |sending: &Sending| sending.parities.next().is_some();
        self.stream.next(limit).is_none()
            && self.stream.next_as_parity(limit).is_none()
            && !self.sending().is_some_and(has_parity)
    }

    /// Whether a message ends with packet `number`, which was sent just now, and nothing else is to
    /// be sent.
    pub(super) fn rests_after_message(&self, number: PacketNumber, limit: PacketNumber) -> bool {
        self.stream.ends_message(number) && self.has_nothing_to_send(limit)
    }

    /// What belongs to the pass that is being sent.
    pub(super) fn sending(&self) -> Option<&Sending> {
        match &self.state {
            State::Sending(sending) => Some(sending),
            _ => None,
        }
    }

    pub(super) fn sending_mut(&mut self) -> Option<&mut Sending> {
        match &mut self.state {
            State::Sending(sending) => Some(sending),
            _ => None,
        }
    }

    fn send_packet(
        &mut self,
        context: &mut Context<'_>,
        buf: &mut TransmitBuf,
        number: PacketNumber,
        body: &Bytes,
        limit: PacketNumber,
    ) {
        let at_end = self.asks_at_end(context.config, number, limit);
        let (again, stamp) = self.stream.sent(context.now, number);
        self.note_copied(context, stamp);
        let known = self.buckets().is_none() && self.rounds().is_none();
        let in_rounds = self.rounds().is_some();
        let flagged = match context.config.policy {
            _ if self.is_unanswered() => false,
            Policy::Xtp(_) if !known => self.request(context, number, stamp, again, limit),
            Policy::Multidriver(_) | Policy::List(_) => {
                self.begin_round(context, number, stamp, again, limit)
            }
            Policy::Nak { poll }
            | Policy::Xtp(Xtp { every: poll, .. })
            | Policy::Collectors(Collectors { every: poll, .. }) => {
                let (now, receivers) = (context.now, self.peers.len());
                self.asks_in_turn(now, number, poll, limit) || self.rate.asks(now, receivers)
            }
            // A receiver that has it, and whose acknowledgement was lost, says so.
            Policy::Cp(_) => again,
            Policy::Ack | Policy::Ring | Policy::Tree { .. } => false,
        };
        if !again {
            self.foresee(number);
        }
        let asks = self.sending_mut();
        let asks = asks.is_some_and(|sending| core::mem::take(&mut sending.asks));
        let answer = flagged || at_end || asks;
        if answer {
            self.rate.note_asked(context.now);
        }
        let header = DataHeader {
            transfer: self.id.number,
            answer,
            last: self.stream.is_last(number),
            again,
            ends: self.stream.ends_message(number),
            rate: in_rounds && flagged,
            stamp,
            number,
            parity: None,
            kept: match in_rounds && flagged {
                true => self.backoff_for,
                false => self.kept_before(context.config, number),
            },
            from_arrival: self.rate.looks_at_each(),
            subgroups: self.riding_vector(),
        };
        let header = match self.is_unanswered() {
            true => self.number_unanswered(header),
            false => header,
        };
        self.packets += 1;
        self.repeated += u64::from(again);
        context.counters.packets_sent += 1;
        context.counters.packets_repeated += u64::from(again);
        let (vector, len) = header.vector();
        self.rate.spend(DATA_HEADER + len + body.len());
        buf.push(&[&header.encode(), &vector[..len], body]);
    }

    /// All that are waited for have room below this packet.
    pub(super) fn limit(&self) -> PacketNumber {
        let sending = self.sending();
        sending.map_or(PacketNumber::MAX, |sending| {
            sending.gate.room(self.gating())
        })
    }

    /// How long to wait before asking again.
    pub(super) fn time_out(&self, config: &BulkConfig) -> Duration {
        let first = if self.round_trip.samples() == 0 {
            config.rto_initial
        } else {
            (self.round_trip.upper() + config.nak_interval).max(config.rto_min)
        };
        (first * (1 << self.state.backoff().min(10))).min(config.rto_max)
    }

    /// Nothing has moved for too long.
    pub(super) fn ask_again(&mut self, context: &mut Context<'_>) {
        if self.is_unanswered() {
            return self.act_unanswered(context);
        }
        if self.buckets().is_some() {
            return self.act_on_buckets(context);
        }
        if self.rounds().is_some() {
            return self.act_on_rounds(context);
        }
        if self.windows().is_some() {
            return self.act_on_windows(context);
        }
        self.give_up_silent(context);
        self.give_up_unready(context);
        self.replace_silent_collectors(context);
        match &mut self.state {
            State::Announcing(_) | State::Over => {
                debug_assert!(false, "no time-out runs before the first pass");
                return;
            }
            State::Starting(starting) => {
                starting.backoff += 1;
                self.send_roster(context);
            }
            State::Sending(_) => self.ask_again_in_pass(context),
            State::Concluding(concluding) => {
                concluding.backoff += 1;
                self.poll(context);
            }
        }
        self.ask_after(context);
        self.advance(context);
    }

    fn ask_again_in_pass(&mut self, context: &mut Context<'_>) {
        let is_held_back = self.stream.is_held_back(self.limit());
        let Some(sending) = self.sending_mut() else {
            return;
        };
        let awaited = core::mem::take(&mut sending.awaits_reports);
        sending.backoff += u32::from(awaited || is_held_back);
        let backoff = sending.backoff;
        if awaited && backoff > 1 {
            self.rate.unheard();
        }
        let Some(sending) = self.sending_mut() else {
            return;
        };
        if awaited && context.config.repair == Repair::GoBackN {
            // 001 section 4: the timer goes off, and the packet is sent again, with all after it.
            sending.asks = true;
            self.stream.go_back();
        } else {
            sending.awaits_reports = awaited;
            self.poll(context);
        }
        let set = self.state.pass().map(|pass| &pass.collectors);
        let replaced = set.is_some_and(CollectorSet::has_changed);
        let collects = set.is_some_and(|set| set.list().is_some());
        if backoff > 1 && collects && context.config.repair == Repair::GoBackN {
            // What is asked with data goes by collectors; a poll is answered here.
            self.poll(context);
        }
        if backoff > 1 && (!context.config.reserve || replaced) {
            self.send_roster(context);
        }
    }

    /// Asks again when the time-out has passed.
    pub(super) fn ask_after(&mut self, context: &mut Context<'_>) {
        let due = context.now + self.time_out(context.config);
        self.timers.set(Timer::Retransmit, due);
    }

    /// Asks every receiver for a report.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        let stamp = self.stream.stamp(context.now);
        let message = self.poll_with(context, stamp);
        match self.destination() {
            Destination::Member(only) if matches!(self.state, State::Sending(_)) => {
                context.outbox.unicast(only, self.id.number, &message);
            }
            _ => context.outbox.multicast(self.id.number, &message),
        }
    }

    /// Asks one receiver. No other sees it, so its stamp is that of the last transmission to all.
    pub(super) fn poll_one(&mut self, context: &mut Context<'_>, receiver: MemberId) {
        let stamp = self.stream.last_stamp();
        let message = self.poll_with(context, stamp);
        context.outbox.unicast(receiver, self.id.number, &message);
    }

    fn poll_with(&self, context: &mut Context<'_>, stamp: Stamp) -> Message {
        context.counters.polls_sent += 1;
        Message::Poll(Poll {
            pass: self.pass_number(),
            stamp,
            top: match &self.state {
                State::Concluding(_) => self.stream.packets(),
                _ => self.stream.top(),
            },
            length: self.stream.length,
        })
    }

    /// Gives up the receivers that were asked several times and say nothing.
    pub(super) fn give_up_silent(&mut self, context: &mut Context<'_>) {
        if self.state.backoff() < SILENT_ASKED {
            return;
        }
        let (now, limit) = (context.now, context.config.vanish_after);
        let reach = self.stream.top();
        let room = self.limit();
        let closed = self.stream.is_held_back(room).then_some(room);
        let state = &self.state;
        let gone: Vec<MemberId> = self
            .peers
            .iter()
            .filter(|(member, peer)| {
                let asked = match state {
                    State::Announcing(_) | State::Over => false,
                    State::Starting(_) => peer.gates && !peer.ready,
                    State::Sending(sending) => {
                        peer.gates && sending.gate.awaits(**member, peer, reach, closed)
                    }
                    State::Concluding(_) => true,
                };
                let owed_since = match state {
                    State::Sending(sending) => sending.gate.owed_since(**member),
                    _ => None,
                };
                let silent_since = owed_since.map_or(peer.heard, |owed| peer.heard.max(owed));
                asked && now - silent_since >= limit
            })
            .map(|(member, _)| *member)
            .collect();
        self.leave_chains(context, &gone);
        for member in gone {
            self.drop_receiver(context, member, Outcome::Vanished);
        }
    }

    /// Keeps the timer that asks again: soon if it waits for reports, now and then if it has
    /// nothing to send.
    pub(super) fn arm(&mut self, context: &mut Context<'_>) {
        if self.is_unanswered() {
            return self.arm_unanswered(context);
        }
        if self.buckets().is_some() {
            return self.arm_buckets(context);
        }
        if self.rounds().is_some() {
            return self.arm_rounds(context);
        }
        if self.windows().is_some() {
            return self.arm_windows(context);
        }
        let waits = self.stream.ahead() > 0 && self.has_nothing_to_send(self.limit());
        let patience = if waits {
            self.time_out(context.config)
        } else {
            context.config.vanish_after / 8
        };
        self.arm_request(context.now, None, patience, waits);
    }

    /// Sets the timer for the request that is open until `due`; without one, for the next, after
    /// `patience`, unless it is set and the sender stalls as before.
    pub(super) fn arm_request(
        &mut self,
        now: Time,
        due: Option<Time>,
        patience: Duration,
        stalls: bool,
    ) {
        let is_set = self.timers.due(Timer::Retransmit).is_some();
        let Some(sending) = self.sending_mut() else {
            return;
        };
        let changed = core::mem::replace(&mut sending.awaits_reports, stalls) != stalls;
        match due {
            Some(due) => self.timers.set(Timer::Retransmit, due),
            None if changed || !is_set => self.timers.set(Timer::Retransmit, now + patience),
            None => {}
        }
    }
}
