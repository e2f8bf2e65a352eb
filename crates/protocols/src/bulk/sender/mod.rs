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
mod pass;
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
use super::outbox::Context;
use super::rate::Rate;
use super::receiver::Life;
use super::transfer::{
    Notice, OfferError, Outcome, PhaseKind, Progress, ReceiverProgress, Transfer, TransferId,
    Wanted,
};
use super::wire::{Finish, Message, Purpose};

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
