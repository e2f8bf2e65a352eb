//! A sender of one transfer: whom it waits for, what it sends, and what becomes of each receiver.
//!
//! ```text
//!  Announcing ─ wanted receivers are there ─▶ Starting ─ all ready ─▶ Sending ─ all have this pass ─▶ Concluding ─▶ over
//!                                                ▲                       │  somebody misses something   │
//!                                                └───────────────────────┴──────────────────────────────┘
//! ```
//!
//! A *pass* goes once over what its receivers need. The first serves those who registered in time; who comes later, or
//! is demoted because it holds the others back, listens, and is served what it still misses by the next pass.

mod flow;
mod muster;
mod peer;
mod repair;
mod stream;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use bytes::Bytes;
use groupcast_core::mech::estimate::Estimate;
use groupcast_core::mech::timers::{TimerKey, Timers};
use groupcast_core::{Destination, MemberId, Time};

use self::peer::Peer;
use self::repair::Parities;
use self::stream::Stream;
use super::config::{BulkConfig, NakRule, Policy, Repair};
use super::outbox::Context;
use super::ranges::RangeSet;
use super::rate::Rate;
use super::receiver::Life;
use super::transfer::{
    Notice, OfferError, Outcome, PhaseKind, Progress, ReceiverProgress, Transfer, TransferId,
    Wanted,
};
use super::wire::{Announce, Finish, Message, Purpose, Report, Start};

/// One transfer at its sender.
#[derive(Debug)]
pub(super) struct Sender {
    id: TransferId,
    transfer: Transfer,
    phase: PhaseKind,
    /// When it was first announced, and whether whoever is there has had the time to register.
    announced: Time,
    counted: bool,
    /// Receivers that are not settled, and who is.
    peers: BTreeMap<MemberId, Peer>,
    settled: BTreeMap<MemberId, bool>,
    pass: u16,
    /// The receivers of this pass, as its roster lists them.
    order: Vec<MemberId>,
    /// Up to where all of them have told what they need.
    told: u64,
    /// All that are waited for have what is below.
    base: u64,
    stream: Stream,
    /// Packets of a block, and their parity.
    block: Option<u16>,
    packet: usize,
    parities: Parities,
    rate: Rate,
    round_trip: Estimate,
    /// Time-outs in a row that brought no progress.
    backoff: u32,
    /// Whether it has sent what it may and waits for reports.
    waits: bool,
    /// The next packet asks everybody for an answer.
    asks: bool,
    /// When it last looked for receivers that hold back others.
    looked: Time,
    packets: u64,
    repeated: u64,
    timers: Timers<Timer>,
}

/// What a sender waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    /// When to announce the transfer again.
    Announce,
    /// When to start with those who are there.
    Begin,
    /// When to ask again, because nothing has moved.
    Retransmit,
    /// When the rate allows more.
    Pace,
}

impl TimerKey for Timer {
    const ALL: &'static [Self] = &[Self::Announce, Self::Begin, Self::Retransmit, Self::Pace];

    fn index(self) -> usize {
        self as usize
    }
}

impl Sender {
    pub(super) fn new(context: &mut Context<'_>, id: TransferId, transfer: Transfer) -> Self {
        let config = context.config;
        let mut timers = Timers::default();
        timers.set(Timer::Announce, context.now);
        let patience = match transfer.receivers {
            Wanted::Present => config.census,
            Wanted::Count(_) | Wanted::Members(_) | Wanted::Open => config.register_within,
        };
        timers.set(Timer::Begin, context.now + patience);
        Self {
            id,
            phase: PhaseKind::Announcing,
            announced: context.now,
            counted: false,
            peers: BTreeMap::new(),
            settled: BTreeMap::new(),
            pass: 0,
            order: Vec::new(),
            told: 0,
            base: 0,
            stream: Stream::new(
                config.packet,
                config.window,
                config.block.unwrap_or(1),
                transfer.length,
            ),
            block: config.block,
            packet: config.packet,
            parities: Parities::default(),
            rate: Rate::new(config.rate, context.now),
            round_trip: Estimate::default(),
            backoff: 0,
            waits: false,
            asks: false,
            looked: context.now,
            packets: 0,
            repeated: 0,
            timers,
            transfer,
        }
    }

    /// A message from `from` about this transfer.
    pub(super) fn handle(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        message: Message,
    ) -> Life {
        if let Some(complete) = self.settled.get(&from) {
            if !complete {
                let dropped = Message::Finish(Finish::Dropped);
                context.outbox.unicast(from, self.id.number, &dropped);
            }
            return Life::Goes;
        }
        match message {
            Message::Report(report) if report.purpose == Purpose::Register => {
                self.handle_register(context, from, &report);
            }
            Message::Report(report) if self.peers.contains_key(&from) => {
                self.handle_report(context, from, &report);
            }
            Message::Refuse(reason) => {
                if self.peers.contains_key(&from) || self.has_room(context.config) {
                    self.settle(context, from, Outcome::Refused(reason));
                }
            }
            _ => context.counters.junk += 1,
        }
        self.advance(context)
    }

    fn has_room(&self, config: &BulkConfig) -> bool {
        self.peers.len() + self.settled.len() < config.receivers_max
    }

    fn handle_register(&mut self, context: &mut Context<'_>, from: MemberId, report: &Report) {
        let former = self
            .peers
            .keys()
            .find(|peer| peer.node == from.node && peer.incarnation != from.incarnation);
        if let Some(former) = former.copied() {
            // A node has one life at a time: the one before is over.
            self.settle(context, former, Outcome::Vanished);
        }
        self.look_for_loss(context, from, report);
        if self.settled.contains_key(&from) {
            return;
        }
        let late = self.phase != PhaseKind::Announcing;
        let stamp = self.stream.last_stamp();
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.read(context.now, report, stamp);
            if late && self.order.contains(&from) {
                // It has missed that the pass has begun.
                self.send_roster(context);
            }
            return;
        }
        // 001 section 3: a ring needs more buffers than receivers.
        let ring_is_full = context.config.policy == Policy::Ring
            && self.peers.len() + 1 >= context.config.window as usize;
        if ring_is_full || !self.has_room(context.config) {
            let full = Finish::Cancelled("the sender takes no more receivers".into());
            context
                .outbox
                .unicast(from, self.id.number, &Message::Finish(full));
            return;
        }
        let mut peer = Peer::new(context.now);
        peer.read(context.now, report, stamp);
        self.peers.insert(from, peer);
        context.notify(Notice::Registered {
            id: self.id,
            receiver: from,
            name: report.name.clone(),
        });
        if late && !self.transfer.rewindable {
            self.drop_receiver(context, from, Outcome::Late);
            return;
        }
        let packets = self.stream.packets();
        let known = self.stream.length.is_some();
        if let Some(peer) = self.peers.get_mut(&from) {
            let told = peer.read_needs(report, packets, known);
            if !late {
                self.told = if self.peers.len() == 1 {
                    told
                } else {
                    self.told.min(told)
                };
            }
        }
        let open = matches!(self.transfer.receivers, Wanted::Open | Wanted::Present);
        if !late && open && self.peers.len() == 1 {
            self.timers
                .set(Timer::Begin, context.now + context.config.census);
        }
    }

    /// Takes every step that is due after something has changed.
    fn advance(&mut self, context: &mut Context<'_>) -> Life {
        loop {
            if self.phase != PhaseKind::Announcing {
                self.settle_complete(context);
                if self.peers.is_empty() {
                    return self.end(context);
                }
            }
            let steps = match self.phase {
                PhaseKind::Announcing => {
                    let complete = self.is_complete(context);
                    if complete {
                        self.timers.cancel(Timer::Begin);
                        self.begin_pass(context);
                    }
                    complete
                }
                PhaseKind::Starting => {
                    let ready = self.gating().all(|peer| peer.ready);
                    if ready {
                        self.begin_sending();
                    }
                    ready
                }
                PhaseKind::Sending => self.release_or_end_pass(context),
                PhaseKind::Concluding => {
                    let misses = self.peers.values().any(|peer| self.misses(peer));
                    if misses {
                        self.begin_pass(context);
                    }
                    misses
                }
            };
            if !steps {
                self.arm(context);
                return Life::Goes;
            }
        }
    }

    /// Whether the pass is over: then it takes the next step.
    fn release_or_end_pass(&mut self, context: &mut Context<'_>) -> bool {
        let end = self.stream.pass_end();
        let lowest = self.gating().map(|peer| peer.next).min();
        if let Some(base) = lowest.filter(|base| *base < end) {
            if base > self.base {
                self.base = base;
                self.stream.release(base);
                let size = self.block.map_or(1, u64::from);
                self.parities.release(base - base % size);
            }
            return false;
        }
        self.stream.release(u64::MAX >> 4);
        if self.peers.values().any(|peer| self.misses(peer)) {
            self.begin_pass(context);
        } else {
            self.set_phase(PhaseKind::Concluding);
            self.ask_after(context);
        }
        true
    }

    fn misses(&self, peer: &Peer) -> bool {
        peer.next < self.stream.packets()
    }

    /// The receivers that move the window.
    fn gating(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values().filter(|peer| peer.gates)
    }

    /// A pass begins for everybody that misses something: they are told, in an order that stays.
    fn begin_pass(&mut self, context: &mut Context<'_>) {
        let packets = self.stream.packets();
        self.pass = self.pass.saturating_add(1);
        let first = self.pass == 1;
        self.order.clear();
        for (member, peer) in &mut self.peers {
            peer.gates = false;
            if first || peer.next < packets {
                peer.begin_pass(context.now);
                self.order.push(*member);
            }
        }
        if !first {
            self.told = packets;
        }
        self.set_phase(PhaseKind::Starting);
        if self.order.is_empty() {
            return;
        }
        if first {
            context.notify(Notice::Started {
                id: self.id,
                receivers: self.order.len(),
            });
        }
        self.send_roster(context);
        if self.asks_to_be_ready(context.config) {
            self.ask_after(context);
        } else {
            for peer in self.peers.values_mut() {
                peer.ready = true;
            }
        }
    }

    /// 001 section 4: receivers say that they have room before the first data. In later passes they say what they need.
    fn asks_to_be_ready(&self, config: &BulkConfig) -> bool {
        config.reserve || self.pass > 1
    }

    /// Tells the receivers of a pass who they are: pages that overlap by two, so that everybody finds its neighbours.
    fn send_roster(&self, context: &mut Context<'_>) {
        const PAGE: usize = BulkConfig::CONTROL_MAX / 16 - 2;
        let mut first = 0;
        loop {
            let end = (first + PAGE).min(self.order.len());
            let start = Start {
                pass: self.pass,
                answer: self.asks_to_be_ready(context.config) && self.phase == PhaseKind::Starting,
                receivers: self.order.len() as u16,
                first: first as u16,
                members: self.order[first..end].to_vec(),
            };
            context
                .outbox
                .multicast(self.id.number, &Message::Start(start));
            if end == self.order.len() {
                return;
            }
            first = end - 2;
        }
    }

    fn begin_sending(&mut self) {
        let mut needed = RangeSet::default();
        let packets = self.stream.packets();
        for member in &self.order {
            if let Some(peer) = self.peers.get(member) {
                for gap in peer.needs.iter() {
                    needed.insert(gap);
                }
            }
        }
        // What somebody could not tell for want of room is for the next pass.
        needed.remove(self.told..u64::MAX);
        if needed.is_empty() && packets > 0 {
            needed.insert(0..1);
        }
        self.base = needed.next_from(0).map_or(0, |range| range.start);
        self.stream.begin(needed);
        self.parities.clear();
        self.set_phase(PhaseKind::Sending);
    }

    fn set_phase(&mut self, phase: PhaseKind) {
        self.phase = phase;
        self.backoff = 0;
        self.waits = false;
        self.timers.cancel(Timer::Retransmit);
        self.timers.cancel(Timer::Pace);
    }

    /// Receivers that have everything, and whose users have said so where that is asked for, are done.
    fn settle_complete(&mut self, context: &mut Context<'_>) {
        if self.stream.length.is_none() {
            return;
        }
        let packets = self.stream.packets();
        let confirm = self.transfer.confirm;
        // Who was not told beforehand where the stream ends has to say that it has learnt it.
        let open = self.transfer.length.is_none();
        let done = |peer: &Peer| {
            peer.next >= packets && (peer.holds || !open) && (peer.concluded || !confirm)
        };
        let complete: Vec<MemberId> = self
            .peers
            .iter()
            .filter_map(|(member, peer)| done(peer).then_some(*member))
            .collect();
        for member in complete {
            self.settle(context, member, Outcome::Complete);
        }
    }

    fn settle(&mut self, context: &mut Context<'_>, receiver: MemberId, outcome: Outcome) {
        self.peers.remove(&receiver);
        self.settled.insert(receiver, outcome == Outcome::Complete);
        context.notify(Notice::Settled {
            id: self.id,
            receiver,
            outcome,
        });
    }

    /// A receiver is not served any more, and is told.
    fn drop_receiver(&mut self, context: &mut Context<'_>, receiver: MemberId, outcome: Outcome) {
        let dropped = Message::Finish(Finish::Dropped);
        context.outbox.unicast(receiver, self.id.number, &dropped);
        self.settle(context, receiver, outcome);
    }

    fn end(&mut self, context: &mut Context<'_>) -> Life {
        // Twice: who loses both asks, and is told.
        for _ in 0..2 {
            let done = Message::Finish(Finish::Done);
            context.outbox.multicast(self.id.number, &done);
        }
        context.notify(Notice::Sent { id: self.id });
        Life::Ends
    }

    /// The user gives up.
    pub(super) fn cancel(&mut self, context: &mut Context<'_>, reason: &str) {
        for _ in 0..2 {
            let cancelled = Message::Finish(Finish::Cancelled(reason.into()));
            context.outbox.multicast(self.id.number, &cancelled);
        }
        let open: Vec<MemberId> = self.peers.keys().copied().collect();
        for receiver in open {
            self.settle(context, receiver, Outcome::Cancelled);
        }
        context.notify(Notice::Sent { id: self.id });
    }

    pub(super) fn handle_timeout(&mut self, context: &mut Context<'_>) -> Life {
        while let Some(timer) = self.timers.pop_due(context.now) {
            let life = match timer {
                Timer::Announce => {
                    self.announce(context);
                    Life::Goes
                }
                Timer::Begin if self.transfer.receivers == Wanted::Present => {
                    self.begin_with_present(context)
                }
                Timer::Begin => self.begin(context),
                Timer::Retransmit => self.ask_again(context),
                Timer::Pace => Life::Goes,
            };
            if life == Life::Ends {
                return life;
            }
        }
        Life::Goes
    }

    fn announce(&mut self, context: &mut Context<'_>) {
        let config = context.config;
        let announcing = self.phase == PhaseKind::Announcing;
        if !announcing && !self.transfer.rewindable {
            return;
        }
        let multicast_naks = match config.nak {
            NakRule::Unicast => None,
            NakRule::Multicast { delay_max } => Some((delay_max.as_micros() as u64).max(1)),
        };
        let announce = Announce {
            policy: config.policy,
            go_back: config.repair == Repair::GoBackN,
            meet: multicast_naks.is_some() || matches!(config.policy, Policy::Tree { .. }),
            confirm: self.transfer.confirm,
            packet: config.packet as u32,
            block: config.block.unwrap_or(0),
            length: self.transfer.length,
            nak_delay_us: multicast_naks,
            about: self.transfer.about.clone(),
        };
        context
            .outbox
            .multicast(self.id.number, &Message::Announce(announce));
        let times = if announcing { 1 } else { 4 };
        let again = context.now + config.announce_interval * times;
        self.timers.set(Timer::Announce, again);
    }

    pub(super) fn wanted(&self) -> Option<Range<u64>> {
        match self.phase {
            PhaseKind::Sending => self.stream.wanted(),
            _ => None,
        }
    }

    pub(super) fn offer(
        &mut self,
        context: &mut Context<'_>,
        bytes: Bytes,
    ) -> Result<(), OfferError> {
        let len = bytes.len();
        let wanted = self.wanted().map_or(0, |range| range.end - range.start);
        if len as u64 > wanted {
            return Err(OfferError::Unwanted { len, wanted });
        }
        self.stream.offer(bytes);
        self.arm(context);
        Ok(())
    }

    /// An open stream ends where the last offer ended.
    pub(super) fn finish(&mut self, context: &mut Context<'_>) -> Life {
        if self.stream.length.is_none() {
            self.stream.finish();
            if self.phase == PhaseKind::Sending {
                self.poll(context);
            }
        }
        self.advance(context)
    }

    /// Where data and polls go: a pass for one receiver is unicast, but the first, which others may come to.
    fn destination(&self) -> Destination {
        match self.order[..] {
            [only] if self.pass > 1 => Destination::Member(only),
            _ => Destination::Group,
        }
    }

    pub(super) fn progress(&self, packet: usize) -> Progress {
        let bytes = |packets: u64| {
            let bytes = packets.saturating_mul(packet as u64);
            self.stream.length.map_or(bytes, |length| bytes.min(length))
        };
        let lowest = self.peers.values().map(|peer| peer.next).min();
        Progress {
            phase: self.phase,
            pass: self.pass,
            position: self.stream.position(),
            acknowledged: bytes(lowest.unwrap_or(0)),
            length: self.stream.length,
            packets: self.packets,
            repeated: self.repeated,
            rate: self.rate.rate(),
            round_trip: self.round_trip.mean(),
            receivers: self
                .peers
                .iter()
                .map(|(receiver, peer)| ReceiverProgress {
                    receiver: *receiver,
                    held: bytes(peer.next),
                    waited_for: peer.gates,
                    loss_permille: (peer.loss * 1000.0) as u16,
                })
                .collect(),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Bytes kept for repairs.
    pub(super) fn buffered(&self, packet: usize) -> u64 {
        ((self.stream.kept() + self.parities.kept()) * packet) as u64
    }

    /// Bytes that were sent and that not all have acknowledged.
    pub(super) fn unacknowledged(&self, packet: usize) -> u64 {
        (self.stream.ahead() * packet) as u64
    }
}
