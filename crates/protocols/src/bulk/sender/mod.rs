//! The sender of one transfer: which receivers it waits for, what it sends, and what becomes of
//! each of them.
//!
//! ```text
//!  Announcing ── the receivers are there ──▶ Starting ── all are ready ──▶ Sending ── all have the pass ──▶ Concluding
//!                                               ▲                             │                                 │
//!                                               └── a receiver misses data ───┴─────────────────────────────────┘
//!
//!  any state ── every receiver is settled, or the user cancels ──▶ Over
//! ```
//!
//! A *pass* goes once over what its receivers need. The first pass serves the receivers that
//! registered in time. A receiver that registers later, or is demoted because it holds back the
//! others, listens; the next pass serves it what it still misses.
//!
//! `state.rs` has the states and the edges; `registration.rs` is what happens while it is
//! announced, `pass.rs` begins and ends passes, `roster.rs` tells receivers of them, `flow.rs`
//! sends, `gate.rs` says what it may send, `reports.rs` reads what receivers report, `slow.rs`
//! looks for receivers that hold back the others, `repair.rs` decides what is sent again,
//! `replace.rs` which blocks a later pass sends as parity. `buckets.rs` and `xtp.rs` are the flow
//! of a pass whose receivers are not known, `rounds.rs` and `multidriver.rs` that of one in which
//! all reply; `windows.rs` that of one with a window for each receiver, `collectors.rs` says who
//! collects for the others, `chains.rs` who speaks for whom, `attendance.rs` says who hears the
//! group, `copies.rs` who gets copies of what is sent to it, `list.rs` keeps the transfer list,
//! `behind.rs` who is served by a relay, `lives.rs` says who was restarted, `required.rs` who has
//! to stay, `marks.rs` how far receivers deliver, `joining.rs` lets in who comes late,
//! `unanswered.rs` is for those that nobody answers, `returns.rs` takes in what their users reply,
//! `waiting.rs` tells users when they are served.

mod attendance;
mod behind;
mod buckets;
mod chains;
mod collectors;
mod copies;
mod flow;
mod gate;
mod joining;
mod list;
mod lives;
mod marks;
mod multidriver;
mod pass;
mod peer;
mod registration;
mod repair;
mod replace;
mod reports;
mod required;
mod returns;
mod roster;
mod rounds;
mod slow;
mod state;
mod stream;
mod unanswered;
mod waiting;
mod windows;
mod xtp;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::estimate::Estimate;
use groupcast_core::mech::timers::{TimerKey, Timers};
use groupcast_core::{MemberId, NodeId, Time};

use self::copies::Copied;
use self::list::TransferList;
use self::lives::Former;
use self::marks::Marks;
use self::peer::Peer;
pub(super) use self::registration::AFTERWARDS as ANNOUNCED_AFTERWARDS;
use self::required::Required;
use self::returns::Returns;
use self::slow::Stops;
use self::state::{Announcing, State};
use self::stream::Stream;
use self::waiting::Said;
use super::config::{Policy, RateControl, SlowPolicy};
use super::context::Context;
use super::numbers::{PacketNumber, Stamp};
use super::rate::{Path, Rate};
use super::transfer::{
    Notice, OfferError, Opening, Outcome, Progress, ReceiverProgress, Served, Transfer, TransferId,
    Wanted,
};
use super::wire::{Finish, Message, Purpose};

/// What a transfer carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carries {
    /// A stream of bytes.
    Bytes,
    /// Messages, each with packets of its own, and how receivers come.
    Messages(Opening),
}

/// One transfer at its sender.
#[derive(Debug)]
pub(super) struct Sender {
    id: TransferId,
    transfer: Transfer,
    /// That of the settings, for a group of the size that was known at the start.
    policy: Policy,
    /// When receivers may come, of messages.
    opening: Opening,
    state: State,
    /// Receivers that are not settled.
    peers: BTreeMap<MemberId, Peer>,
    /// Receivers that are settled, and whether they are complete.
    settled: BTreeMap<MemberId, bool>,
    /// Receivers in whose place another incarnation of their node has registered. Most have been
    /// restarted.
    former: BTreeMap<MemberId, Former>,
    /// Receivers that are settled because another one has their name.
    same_name: BTreeSet<MemberId>,
    /// The nodes that a receiver stands for, if it is a relay.
    behind: BTreeMap<MemberId, BTreeSet<NodeId>>,
    stream: Stream,
    /// Packets of a block, if there is parity.
    block: Option<u16>,
    /// Bytes of a packet.
    packet: usize,
    rate: Rate,
    round_trip: Estimate,
    /// How long receivers have held it back.
    stops: Stops,
    /// Who is served.
    list: TransferList,
    /// Who has to stay, if anybody has.
    required: Option<Required>,
    /// How far receivers deliver, if that is bounded.
    marks: Option<Marks>,
    /// What receivers return, if that is wanted.
    returns: Option<Returns>,
    /// How many receivers are expected, and for how many replies back off (policy `multidriver`).
    set_size: u16,
    backoff_for: u16,
    packets: u64,
    repeated: u64,
    copied: Copied,
    /// Any receiver has said that it has all packets below.
    reported: PacketNumber,
    /// The last stamp when it was last looked whether it rests.
    kept_alive: Stamp,
    /// Receivers that came too late for a stream.
    late: BTreeSet<MemberId>,
    /// How often receivers were told in vain whether to hear the group.
    attend_backoff: u32,
    /// When those that stand by were last told of another member's transfer.
    beckoned: Time,
    /// What all were told of when they are served, and when anybody was; what is so above, if a
    /// relay sends it.
    said: Said,
    said_at: Time,
    served_above: Served,
    timers: Timers<Timer>,
}

/// A sender's timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    /// When to announce the transfer again, or to look whether it rests.
    Announce,
    /// When to start with the receivers that have registered.
    Begin,
    /// When to ask for reports again, because nothing has moved.
    Retransmit,
    /// When the rate allows more.
    Pace,
    /// When to tell the mark again.
    Mark,
    /// When to tell receivers again whether to hear the group.
    Attend,
    /// When to ask former receivers again whether they live.
    Former,
}

impl TimerKey for Timer {
    const ALL: &'static [Self] = &[
        Self::Announce,
        Self::Begin,
        Self::Retransmit,
        Self::Pace,
        Self::Mark,
        Self::Attend,
        Self::Former,
    ];

    fn index(self) -> usize {
        self as usize
    }
}

impl Sender {
    pub(super) fn new(
        context: &mut Context<'_>,
        id: TransferId,
        mut transfer: Transfer,
        carries: Carries,
    ) -> Self {
        let config = context.config;
        let (stream, block) = match carries {
            Carries::Bytes => {
                let block = config.block.unwrap_or(1);
                let stream = Stream::new(config.packet, config.window, block, transfer.length);
                (stream, config.block)
            }
            Carries::Messages(_) => (Stream::of_messages(config.packet, config.window), None),
        };
        let opening = match carries {
            Carries::Bytes => Opening::AtStart,
            Carries::Messages(opening) => opening,
        };
        let policy = match opening {
            // Of a policy nothing is left.
            Opening::Unanswered => Policy::Ack,
            Opening::AtStart | Opening::AtAnyTime => config.policy,
        };
        let list = TransferList::of(&mut transfer, policy);
        let mut timers = Timers::default();
        timers.set(Timer::Announce, context.now);
        let patience = match transfer.receivers {
            _ if opening == Opening::Unanswered => Duration::ZERO,
            Wanted::Present => config.present_within,
            Wanted::Count(_)
            | Wanted::Members(_)
            | Wanted::Listed(_)
            | Wanted::Open
            | Wanted::Between { .. } => config.register_within,
        };
        let mut rate = Rate::new(config.rate.suited_to(config.policy), context.now);
        // Only who can be served later is left behind, or who may be given up.
        let may_leave = match config.slow {
            SlowPolicy::Demote => transfer.rewindable,
            SlowPolicy::Drop => true,
            SlowPolicy::Wait => false,
        };
        let patience_with_few = may_leave.then_some(config.slow_after);
        rate.leave_behind_after(patience_with_few, config.slow == SlowPolicy::Drop);
        let named = transfer.receivers.size();
        let set_size = Self::set_size(named.unwrap_or_else(|| context.known.members().count()));
        timers.set(Timer::Begin, context.now + patience);
        Self {
            id,
            policy: policy.in_group_of(named.or(context.group_size)),
            opening,
            state: State::Announcing(Announcing {
                since: context.now,
                present_over: false,
                listed_below: PacketNumber::ZERO,
            }),
            peers: BTreeMap::new(),
            settled: BTreeMap::new(),
            former: BTreeMap::new(),
            same_name: BTreeSet::new(),
            late: BTreeSet::new(),
            behind: BTreeMap::new(),
            stream,
            block,
            packet: config.packet,
            rate,
            round_trip: Estimate::default(),
            stops: Stops::new(context.now),
            list,
            required: Required::of(&transfer, config.policy),
            marks: Marks::of(transfer.deliver_to),
            returns: Returns::of(&transfer, config),
            set_size,
            backoff_for: Self::first_backoff(config.policy, set_size),
            packets: 0,
            repeated: 0,
            copied: Copied::default(),
            reported: PacketNumber::ZERO,
            kept_alive: Stamp::default(),
            attend_backoff: 0,
            beckoned: Time::ZERO,
            said: Said::default(),
            said_at: Time::ZERO,
            served_above: Served::Now,
            timers,
            transfer,
        }
    }

    /// A message from `from` about this transfer.
    pub(super) fn handle(&mut self, context: &mut Context<'_>, from: MemberId, message: Message) {
        if self.is_unanswered() {
            // Nobody was asked.
            context.counters.junk += 1;
            return;
        }
        if self.finds_no_context(context, &message) {
            context.counters.responses_refused += 1;
            return;
        }
        self.note_collector(context.now, from);
        self.note_reported(&message);
        if let Message::Composite(composite) = &message {
            return self.handle_composite(context, from, composite);
        }
        if self.is_of_former(context, from, &message) {
            return;
        }
        if let Some(complete) = self.settled.get(&from).copied() {
            if complete
                && let Message::Report(report) = &message
                && self.buckets().is_some()
            {
                // It may have damped others, so its answer stands for theirs.
                self.collect(context, report);
            }
            if complete && let Message::Report(report) = &message {
                self.acknowledge_reply(context, from, report);
                if let Some(part) = &report.part {
                    self.acknowledge_settled(context, from, part);
                }
            }
            if !complete {
                let finish = match self.is_excluded(from) {
                    true => Finish::Excluded,
                    false if self.same_name.contains(&from) => Finish::SameName,
                    false => Finish::Dropped,
                };
                let dropped = Message::Finish(finish);
                context.outbox.unicast(from, self.id.number, &dropped);
            }
            return;
        }
        match message {
            Message::Report(report) if report.purpose == Purpose::Register => {
                self.handle_register(context, from, &report);
            }
            Message::Report(report) if self.peers.contains_key(&from) => {
                self.handle_report(context, from, &report);
            }
            Message::Joined(number) => self.handle_joined(context, from, number),
            Message::Refuse(refusal) => {
                if self.peers.contains_key(&from) || self.has_room(context.config) {
                    self.handle_refusal(context, from, refusal);
                }
            }
            _ => context.counters.junk += 1,
        }
        self.advance(context);
    }

    /// What is released has been reported by somebody, under every policy.
    fn note_reported(&mut self, message: &Message) {
        let next = match message {
            Message::Report(report) => Some(report.next),
            Message::Composite(it) => it.rows.iter().map(|row| row.report.next).max(),
            _ => None,
        };
        self.reported = self.reported.max(next.unwrap_or_default());
    }

    /// Takes every step that is due after something has changed.
    fn advance(&mut self, context: &mut Context<'_>) {
        loop {
            let is_begun = !matches!(self.state, State::Announcing(_));
            if is_begun && self.ends_broken(context) {
                return;
            }
            self.raise_mark(context);
            if is_begun {
                self.settle_complete(context);
                let awaits_nobody = !self.is_unanswered() || self.has_passed();
                if self.peers.is_empty() && awaits_nobody {
                    if self.may_former_answer(None) {
                        return;
                    }
                    return self.end(context);
                }
            }
            let has_moved = match &self.state {
                State::Announcing(_) => self.begin_if_all_registered(context),
                State::Starting(_) => self.send_if_all_are_ready(context),
                State::Sending(_) => self.release_or_end_pass(context),
                State::Concluding(_) => self.begin_pass_if_missed(context),
                State::Over => false,
            };
            if !has_moved {
                return self.arm(context);
            }
        }
    }

    /// Settles the receivers that have everything, and whose users have said so where that is asked
    /// for.
    fn settle_complete(&mut self, context: &mut Context<'_>) {
        if self.stream.length.is_none() {
            return;
        }
        let packets = self.stream.packets();
        let confirm = self.transfer.confirm;
        // A receiver that did not know beforehand where the stream ends has to say that it has
        // learnt it.
        let open = self.transfer.length.is_none();
        let done = |peer: &Peer| {
            let has_all = peer.next >= packets && (peer.holds || !open);
            let has_replied = self.returns.is_none() || peer.returned.has_ended();
            let has_said_all = (peer.concluded || !confirm) && has_replied && !peer.is_joining();
            has_all && has_said_all && self.has_delivered(peer)
        };
        let complete: Vec<(MemberId, Outcome)> = self
            .peers
            .iter()
            .filter(|(member, peer)| done(peer) && !self.may_former_answer(Some(**member)))
            .map(|(member, peer)| (*member, peer.completion()))
            .collect();
        for (member, outcome) in complete {
            self.settle(context, member, outcome);
        }
    }

    fn settle(&mut self, context: &mut Context<'_>, receiver: MemberId, outcome: Outcome) {
        self.settle_named(context, receiver, outcome, Bytes::new());
    }

    fn settle_named(
        &mut self,
        context: &mut Context<'_>,
        receiver: MemberId,
        outcome: Outcome,
        name: Bytes,
    ) {
        self.peers.remove(&receiver);
        self.settled.insert(receiver, outcome.has_all());
        self.look_for_break(receiver, &outcome);
        if !matches!(outcome, Outcome::Complete | Outcome::Cancelled) {
            self.replace_collector(context, receiver);
            self.leave_chains(context, &[receiver]);
        }
        context.notify(Notice::Settled {
            id: self.id,
            receiver,
            outcome,
            name,
        });
        // What it might have returned can be others'.
        self.grant(context, None);
    }

    /// A receiver is not served any more, and is told.
    fn drop_receiver(&mut self, context: &mut Context<'_>, receiver: MemberId, outcome: Outcome) {
        let dropped = Message::Finish(Finish::Dropped);
        context.outbox.unicast(receiver, self.id.number, &dropped);
        self.settle(context, receiver, outcome);
    }

    /// Group management says what became of a receiver.
    pub(super) fn dismiss(
        &mut self,
        context: &mut Context<'_>,
        receiver: MemberId,
        outcome: Outcome,
    ) {
        if self.peers.contains_key(&receiver) {
            self.drop_receiver(context, receiver, outcome);
            self.advance(context);
        }
    }

    fn end(&mut self, context: &mut Context<'_>) {
        self.settle_former(context);
        if self.stream.has_messages() && self.settled.values().any(|complete| *complete) {
            // The last word of the last receiver said so of the last messages.
            self.stream.release(PacketNumber::END);
            self.tell_all_have(context);
        }
        // Twice: a receiver that loses both asks, and is told.
        for _ in 0..2 {
            let done = Message::Finish(Finish::Done(self.riding_vector()));
            context.outbox.multicast(self.id.number, &done);
        }
        context.notify(Notice::Sent { id: self.id });
        self.transition(context, "all are settled", |_| State::Over);
    }

    /// The transfer is over, with one outcome for all that are not settled. They have been told.
    fn end_all(&mut self, context: &mut Context<'_>, outcome: Outcome, cause: &'static str) {
        self.settle_former(context);
        let open: Vec<MemberId> = self.peers.keys().copied().collect();
        for receiver in open {
            self.settle(context, receiver, outcome.clone());
        }
        context.notify(Notice::Sent { id: self.id });
        self.transition(context, cause, |_| State::Over);
    }

    /// Tells all receivers, twice, that nothing more comes; and whoever asks later.
    fn tell_cancelled(&self, context: &mut Context<'_>, reason: &str) {
        context.farewells.note(self.id.number, reason);
        for _ in 0..2 {
            let cancelled = Message::Finish(Finish::Cancelled(reason.into()));
            context.outbox.multicast(self.id.number, &cancelled);
            for absent in self.absentees() {
                context.outbox.unicast(absent, self.id.number, &cancelled);
            }
        }
    }

    /// The user gives up.
    pub(super) fn cancel(&mut self, context: &mut Context<'_>, reason: &str) {
        self.tell_cancelled(context, reason);
        self.end_all(context, Outcome::Cancelled, "cancelled");
    }

    pub(super) fn handle_timeout(&mut self, context: &mut Context<'_>) {
        while !self.is_over()
            && let Some(timer) = self.timers.pop_due(context.now)
        {
            match timer {
                Timer::Announce => {
                    self.announce(context);
                    self.tell_served(context);
                }
                Timer::Begin if self.may_former_answer(None) => self.begin_after_former(context),
                Timer::Begin if self.is_unanswered() => self.begin_unanswered(context),
                Timer::Begin if self.transfer.receivers == Wanted::Present => {
                    self.begin_with_present(context);
                }
                Timer::Begin => self.begin(context),
                Timer::Retransmit => self.ask_again(context),
                Timer::Pace => {}
                Timer::Mark => self.tell_mark(context),
                Timer::Attend => self.tell_again(context),
                Timer::Former => self.ask_former_again(context),
            }
        }
    }

    /// Whether it can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    pub(super) fn wanted(&self) -> Option<Range<u64>> {
        match &self.state {
            State::Sending(_) => self.stream.wanted(),
            _ => None,
        }
    }

    pub(super) fn offer(
        &mut self,
        context: &mut Context<'_>,
        bytes: Bytes,
    ) -> Result<(), OfferError> {
        let len = bytes.len();
        if self.stream.has_messages() {
            return Err(OfferError::Messages);
        }
        let wanted = self.wanted().map_or(0, |range| range.end - range.start);
        if len as u64 > wanted {
            return Err(OfferError::Unwanted { len, wanted });
        }
        self.stream.offer(bytes);
        self.arm(context);
        Ok(())
    }

    /// Takes a message for a transfer that carries them; its number, from 1.
    pub(super) fn offer_message(
        &mut self,
        context: &mut Context<'_>,
        bytes: Bytes,
    ) -> Result<u64, OfferError> {
        let (len, max) = (bytes.len(), self.stream.message_max());
        if !self.stream.has_messages() {
            return Err(OfferError::NoMessages);
        }
        if len as u64 > max {
            return Err(OfferError::TooLong { len, max });
        }
        let wanted = match self.wanted() {
            Some(range) if len as u64 <= range.end - range.start => {
                if self.stream.ahead() == 0
                    && let Some(backoff) = self.state.backoff_mut()
                {
                    // It was asked now and then while nothing was said, which brought nothing.
                    *backoff = 0;
                }
                let number = self.stream.offer_message(bytes);
                self.arm(context);
                return Ok(number);
            }
            wanted => wanted.map_or(0, |range| range.end - range.start),
        };
        Err(OfferError::Unwanted { len, wanted })
    }

    /// Tells the user which messages all receivers have by now.
    fn tell_all_have(&mut self, context: &mut Context<'_>) {
        while let Some(number) = self.stream.next_held() {
            if self.is_unanswered() {
                continue;
            }
            context.notify(Notice::AllHave {
                id: self.id,
                number,
            });
        }
    }

    /// An open stream ends where the last offer ended.
    pub(super) fn finish(&mut self, context: &mut Context<'_>) {
        if self.stream.length.is_none() {
            self.stream.finish();
            if matches!(self.state, State::Sending(_)) {
                self.poll(context);
            }
        }
        self.advance(context);
    }

    /// Data is sent at another rate from now on, or not at all.
    pub(super) fn set_rate(&mut self, context: &mut Context<'_>, control: Option<RateControl>) {
        let control = control.map(|control| control.suited_to(context.config.policy));
        self.rate.change(control, context.now);
        for peer in self.peers.values_mut() {
            peer.path = Path::default();
        }
        if matches!(self.state, State::Sending(_)) {
            self.timers.set(Timer::Pace, context.now);
        }
    }

    pub(super) fn progress(&self, packet: usize) -> Progress {
        let bytes = |next: PacketNumber| {
            let bytes = next.offset(packet as u64);
            self.stream.length.map_or(bytes, |length| bytes.min(length))
        };
        let lowest = self.peers.values().map(|peer| peer.next).min();
        Progress {
            phase: self.state.kind(),
            pass: self.pass_number().0,
            position: self.stream.position(),
            acknowledged: bytes(lowest.unwrap_or_default()),
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
        let parity = match &self.state {
            State::Sending(sending) => sending.parities.kept(),
            _ => 0,
        };
        ((self.stream.kept() + parity) * packet) as u64
    }

    /// Bytes that were sent and that not all have acknowledged.
    pub(super) fn unacknowledged(&self, packet: usize) -> u64 {
        (self.stream.ahead() * packet) as u64
    }
}
