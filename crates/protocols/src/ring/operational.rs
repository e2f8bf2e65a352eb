//! Operational: the token goes round, messages are ordered (002 III). Also what a data packet does
//! in any state.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::window::Insert;
use groupcast_core::{MemberId, SocketClass, Time};

use super::gather::Gather;
use super::numbers::{Index, Seq};
use super::ordering::{Ordering, Visit};
use super::passing::{Errand, Sent};
use super::wire::{Data, DataHeader, Message, Packet, RingKey, RingTag, Token};
use super::{Ring, State, Timer, TokenPriority};
use crate::packing::{Record, Unpacker};

/// What only an operational member needs.
#[derive(Debug)]
pub(super) struct Operational {
    /// The order of the ring.
    pub(super) ordering: Ordering,
    /// When the ring was installed.
    pub(super) since: Time,
    /// The token, while it rests here (representative) or waits to be handled by this member again
    /// (a ring of one).
    pub(super) resting: Option<Token>,
    /// Since when no member has had anything to send, as far as this member saw.
    pub(super) quiet_since: Time,
    /// seq of the token at the last visit.
    last_seq: Seq,
    /// The token that this member passed on was idle: it may rest at the representative.
    pub(super) idle: bool,
    /// The members that called for the token while it was away from the representative.
    pub(super) callers: Indices,
    /// The member that the token was sent to because it called.
    pub(super) called: Option<Index>,
    /// When a token that rests goes round again, at the latest.
    pub(super) round_at: Time,
    /// When it goes round to confirm the newest packet for which it was called.
    pub(super) confirm_at: Time,
    /// How many times in a row packets were confirmed of which none had been missing.
    pub(super) lossless: u32,
    /// That packet.
    pub(super) called_seq: Seq,
    /// Unreliable packets sent since the last visit.
    pub(super) unordered_sent: u32,
    /// Until when the token alone is worth waking for.
    pub(super) dozes_until: Option<Time>,
}

impl Operational {
    pub(super) fn new(now: Time, ordering: Ordering) -> Self {
        Self {
            ordering,
            since: now,
            resting: None,
            quiet_since: now,
            last_seq: Seq::ZERO,
            idle: false,
            callers: Indices::default(),
            called: None,
            round_at: now,
            confirm_at: now,
            lossless: 0,
            called_seq: Seq::ZERO,
            unordered_sent: 0,
            dozes_until: None,
        }
    }
}

/// With more packets than this in a rotation, a member reads while the token is elsewhere: it would
/// take too long once the token is here, and this many come with few wakings.
const DOZE_PACKETS_MAX: u32 = 64;

/// The way to the next member, in hops.
const SUCCESSOR: u16 = 1;
/// A ring of one handles its token this long after it passed it to itself.
const OWN_TOKEN_DELAY: Duration = Duration::from_micros(20);

impl Ring {
    /// The ring in which tokens and data with `tag` are handled now, if they come from one of its
    /// members: the forming one in recovery, else the installed.
    fn ring_of(&mut self, tag: RingTag, from: MemberId) -> Option<&mut Ordering> {
        match &mut self.state {
            State::Recovery(recovery) => Some(&mut recovery.ordering),
            State::Operational(operational) => Some(&mut operational.ordering),
            State::Gather(gather) => gather.old.as_mut(),
            // What a member holds is declared: nothing may be added (see Holding).
            State::Commit(_) | State::Left(_) => None,
        }
        .filter(|ring| ring.tag() == tag && ring.has(from))
    }

    pub(super) fn handle_data(&mut self, now: Time, from: MemberId, data: Data) {
        let first_method = self.config.priority == TokenPriority::FirstMethod;
        self.config.plants().data_came(self, &data);
        if let State::Recovery(recovery) = &self.state
            && !recovery.has_room_for(&data)
        {
            self.counters.packets_beyond += 1;
            return;
        }
        let Some(ring) = self.ring_of(data.ring, from) else {
            self.counters.foreign += 1;
            return;
        };
        // 002 III-C. The representative visits first in each round, so its predecessor's next round
        // has its own number.
        let next_round = if ring.is_representative() {
            ring.round
        } else {
            ring.round.next()
        };
        let token_is_near = data.packet.origin == ring.predecessor()
            && data.packet.round.is_from(next_round)
            && (first_method || data.post_token);
        let inserted = ring.handle_data(&data);
        if token_is_near {
            self.priority = SocketClass::Control;
        }
        match inserted {
            Insert::New => {
                self.counters.packets_received += 1;
                self.data_is_evidence(data.ring, data.seq);
                if let State::Recovery(recovery) = &mut self.state {
                    recovery.handle_recovered(&data);
                } else {
                    self.deliver();
                    self.notice_gap(now);
                }
            }
            Insert::Duplicate => {
                self.counters.packets_duplicate += 1;
                self.config.plants().duplicate_came(self, &data);
            }
            Insert::Beyond => self.counters.packets_beyond += 1,
        }
    }

    pub(super) fn handle_token(&mut self, now: Time, from: MemberId, token: Token) {
        let forming = matches!(self.state, State::Recovery(_));
        if !forming && !matches!(self.state, State::Operational(_)) {
            self.counters.foreign += 1;
            return;
        }
        let Some(ring) = self.ring_of(token.ring.tag(), from) else {
            self.counters.foreign += 1;
            return;
        };
        ring.plants.token_came(ring, &token);
        if ring.plants.loses(&token, ring) {
            return;
        }
        if token.hop <= ring.hop {
            self.counters.token_duplicates += 1;
            if self.return_again(now, &token) {
                return;
            }
            let ack = Message::Ack {
                ring: token.ring,
                hop: token.hop,
            };
            self.outbox.unicast_both_ways(from, ack.encode());
            return;
        }
        if !ring.plausible(&token) || token.called && forming {
            self.counters.malformed += 1;
            return;
        }
        ring.hop = token.hop;
        if let State::Operational(operational) = &mut self.state {
            operational.dozes_until = None;
        }
        self.token_arrived();
        self.flow.token_came(now);
        self.timers.cancel(Timer::Hurry);
        self.timers.set(Timer::Loss, now + self.token_loss());
        // A member that was called answers with the token itself, and the representative sends a
        // call again until the token is back: an acknowledgement would wake the caller for nothing.
        if token.idle && !token.called {
            let ack = Message::Ack {
                ring: token.ring,
                hop: token.hop,
            };
            self.outbox.unicast(from, ack.encode());
        }
        if forming {
            self.recovery_token(now, token);
        } else {
            self.operational_token(now, token);
        }
    }

    /// The token is here: lets it rest, or visits.
    pub(super) fn operational_token(&mut self, now: Time, mut token: Token) {
        if token.called {
            self.called_token(now, token);
            return;
        }
        let operational = self.state.expect_operational();
        let ring = &mut operational.ordering;
        if ring.is_representative() {
            let settled = token.seq == operational.last_seq
                && ring.is_settled(&token)
                && self.queue.is_empty()
                && self.unordered.is_empty();
            let called = !core::mem::take(&mut operational.callers).is_empty();
            if !settled || called {
                operational.quiet_since = now;
            }
            // All know that it may rest, and that all hold everything: it went round since with
            // both.
            if settled && !called && token.idle {
                if ring.note_settled(&token) {
                    operational.lossless = operational.lossless.saturating_add(1);
                }
                self.deliver();
                let round_at = now + self.config.idle_hold;
                self.state.expect_operational().round_at = round_at;
                self.rest(now, token, round_at);
                return;
            }
            token.idle = settled && now.since(operational.quiet_since) >= self.config.idle_after;
        }
        self.visit(now, token);
    }

    /// A visit of the token in the operational state (002 III-A), which then goes on.
    pub(super) fn visit(&mut self, now: Time, mut token: Token) {
        let limits = self.flow.limits();
        let operational = self.state.expect_operational();
        let ring = &mut operational.ordering;
        let (fcc, retransmissions) = (token.fcc, token.retransmissions);
        let records_max = ring.packet_size.records_max();
        let queue = &mut self.queue;
        let waiting = queue.bytes();
        let visit = ring.visit(&mut token, limits, || {
            queue.pack(records_max).map(|body| (None, body))
        });
        queue.took(waiting);
        ring.exchange_marks(&mut token, queue.take_marks_wanted());
        self.flow.adapt(
            visit.limited && !queue.is_empty(),
            ring.members.len() as u32,
            fcc,
            retransmissions,
        );
        let more = !queue.is_empty() || self.unordered.len() > self.flow.personal() as usize;
        if !visit.new.is_empty() || !visit.retransmissions.is_empty() || more {
            token.idle = false;
        }
        operational.last_seq = token.seq;
        operational.idle = token.idle;
        if !token.rtr.is_empty() || token.retransmissions > 0 {
            operational.lossless = 0;
        }
        operational.unordered_sent = 0;
        self.counters.visits += 1;
        let patience = self.config.fail_to_receive;
        if let Some(deaf) = ring.cannot_receive(now, &token, patience) {
            let bytes = ring.missed_bytes(&token);
            self.exclude_deaf(now, deaf, bytes);
            return;
        }
        if ring.waits_in_vain(now, &token, patience) {
            self.gather(now, "nobody has a packet", Gather::default());
            return;
        }
        self.doze(now, &token);
        self.send_visit(now, &visit, token);
        self.flush_unordered();
        self.deliver();
        self.wake_submitter();
        self.leave_when_done(now);
    }

    /// After a visit: while messages go round and nothing is missing, what comes before the token
    /// can wait for it. What a safe message waits for is the token itself.
    fn doze(&mut self, now: Time, token: &Token) {
        let traffic = (1..=DOZE_PACKETS_MAX).contains(&token.fcc);
        let dozes = traffic && !token.idle && token.rtr.is_empty();
        let longest = self.config.doze_max;
        let mut until = dozes.then(|| now + self.flow.rotation().mean().min(longest));
        self.config.plants().dozes(&mut until);
        self.state.expect_operational().dozes_until = until;
    }

    /// Sends what a visit decided: retransmissions and the first new packets, the token, the rest
    /// (002 III-A.1–3).
    pub(super) fn send_visit(&mut self, now: Time, visit: &Visit, token: Token) {
        let ring = match &self.state {
            State::Recovery(recovery) => &recovery.ordering,
            State::Operational(operational) => &operational.ordering,
            other => unreachable!("no token visits in {}", other.name()),
        };
        let (tag, alone) = (ring.tag(), ring.members.len() == 1);
        let new = visit.new.len();
        let (before, after) = visit.new.split_at(self.flow.before_token(new));
        let counters = &mut self.counters;
        let outbox = &mut self.outbox;
        let mut send = |seq: Seq, again: bool| {
            if let Some(packet) = ring.window.get(seq) {
                let Packet { body, .. } = packet;
                let header = DataHeader::new(tag, seq, false, packet);
                outbox.data(if again { header.again() } else { header }, body.clone());
            }
        };
        if !alone {
            visit
                .retransmissions
                .iter()
                .for_each(|seq| send(*seq, true));
            before.iter().for_each(|seq| send(seq, false));
        }
        counters.packets_sent += new;
        counters.retransmissions += visit.retransmissions.len() as u64;
        if alone {
            self.pass_to_self(now, token);
            return;
        }
        let after: Vec<(DataHeader, Bytes)> = after
            .iter()
            .filter_map(|seq| {
                let packet = ring.window.get(seq)?;
                Some((DataHeader::new(tag, seq, true, packet), packet.body.clone()))
            })
            .collect();
        let to = ring.after(SUCCESSOR);
        self.pass_token(now, to, SUCCESSOR, token);
        for (header, body) in after {
            self.outbox.data(header, body);
        }
        // 002 III-C: data is high after a token.
        self.priority = SocketClass::Data;
    }

    pub(super) fn pass_token(&mut self, now: Time, to: MemberId, hops: u16, mut token: Token) {
        token.hop = token.hop.plus(hops);
        self.flow.token_went(now, !token.idle);
        let errand = match (token.called, self.is_representative()) {
            (false, _) => Errand::Round,
            (true, true) => Errand::Call,
            (true, false) => Errand::Return,
        };
        let size = match &self.state {
            State::Recovery(recovery) => recovery.ordering.packet_size,
            State::Operational(operational) => operational.ordering.packet_size,
            other => unreachable!("no token visits in {}", other.name()),
        };
        let token = Sent {
            to,
            ring: token.ring,
            hop: token.hop,
            seq: token.seq,
            errand,
            again: 0,
            body: Message::Token(token).encode(),
            way: size.body_max,
            way_surely: size.body_max,
        };
        self.pass(now, token);
    }

    fn pass_to_self(&mut self, now: Time, mut token: Token) {
        token.hop = token.hop.plus(1);
        self.timers.set(Timer::Own, now + OWN_TOKEN_DELAY);
        match &mut self.state {
            State::Operational(operational) => operational.resting = Some(token),
            State::Recovery(recovery) => recovery.resting = Some(token),
            other => unreachable!("no token visits in {}", other.name()),
        }
    }

    /// A ring of one: its token has come round.
    pub(super) fn own_token(&mut self, now: Time) {
        let token = match &mut self.state {
            State::Operational(operational) => operational.resting.take(),
            State::Recovery(recovery) => recovery.resting.take(),
            other => unreachable!("no token visits in {}", other.name()),
        };
        let token = token.expect("the timer is set when the token is put here");
        self.timers.set(Timer::Loss, now + self.token_loss());
        if matches!(self.state, State::Recovery(_)) {
            self.recovery_token(now, token);
        } else {
            self.operational_token(now, token);
        }
    }

    /// Sends an unreliable message: at once while few were sent since the token's last visit, else
    /// with the next.
    pub(super) fn submit_unordered(&mut self, now: Time, record: Record) {
        self.events
            .push_back(record.clone().delivered(self.local, None));
        if !self.unordered.push(record, self.records_max()) {
            self.counters.unordered_dropped += 1;
            return;
        }
        self.flush_unordered();
        if !self.unordered.is_empty() {
            self.wake_token(now);
        }
    }

    pub(super) fn flush_unordered(&mut self) {
        let State::Operational(operational) = &mut self.state else {
            return;
        };
        let ring = &operational.ordering;
        while operational.unordered_sent < self.flow.personal()
            && let Some(record) = self.unordered.pop()
        {
            operational.unordered_sent += 1;
            if ring.members.len() > 1 {
                self.outbox.multicast(&Message::Unordered {
                    ring: ring.key(),
                    origin: ring.me,
                    record,
                });
            }
        }
    }

    pub(super) fn handle_unordered(
        &mut self,
        from: MemberId,
        key: RingKey,
        origin: Index,
        body: &Bytes,
    ) {
        let State::Operational(Operational { ordering: ring, .. }) = &self.state else {
            return;
        };
        let sender = ring.members.get(origin.at());
        let Some(sender) = sender.filter(|it| ring.key() == key && **it == from) else {
            self.counters.foreign += 1;
            return;
        };
        let (mut unpacker, mut at) = (Unpacker::default(), 0);
        match unpacker.next(body, &mut at, self.config.message_max) {
            Ok(Some(record)) => self.events.push_back(record.delivered(*sender, None)),
            Ok(None) | Err(_) => self.counters.malformed += 1,
        }
    }
}
