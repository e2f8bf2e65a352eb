//! The receiver of one transfer, from the announcement to the end. `intake.rs` takes data,
//! `reporting.rs` reports and asks for what is missing, `answers.rs` answers the requests of XTP,
//! `replies.rs` those of the Multidriver, `collecting.rs` collects for others, `attending.rs` says
//! whether it hears the group, `waiting.rs` when it is served; `returning.rs` is what its user says
//! to the sender's, `joining.rs` how it comes in, `unanswered.rs` how it takes what nobody answers,
//! `held.rs` what it may deliver, `excluded.rs` whether the transfer is for it still;
//! `acknowledge.rs` has the policies: which receiver acknowledges what.
//!
//! ```text
//!  Announced ── the user accepts ──▶ Registering ── a Start lists it ──▶ Receiving
//!
//!  any state ── the sender finishes or is silent, the user refuses ──▶ Over
//! ```
//!
//! A receiver takes any data that it hears from the moment that it has accepted. If it is too late
//! for the current pass, it stays in Registering until the Start of the next pass lists it.

mod acknowledge;
mod answers;
mod attending;
mod blocks;
mod collecting;
mod excluded;
mod held;
mod intake;
mod joining;
mod replies;
mod reporting;
mod returning;
mod store;
mod unanswered;
mod waiting;

use alloc::string::String;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::Time;
use groupcast_core::mech::timers::{TimerKey, Timers};
use groupcast_core::trace::Transition;

use self::acknowledge::RosterPlace;
use self::answers::Answers;
use self::attending::Attending;
use self::blocks::Blocks;
use self::collecting::Collecting;
use self::held::Held;
use self::replies::Reply;
use self::returning::Returning;
use self::store::Store;
use self::unanswered::Assembly;
use self::waiting::Waiting;
use super::config::Policy;
use super::context::Context;
use super::numbers::{PacketNumber, PassNumber, Stamp};
use super::transfer::{Acceptance, DeliverTo, Failure, Notice, TransferId};
use super::wire::{Announce, Finish, Message, NAME_MAX, Poll, Purpose, REASON_MAX, Refusal, Start};
use crate::xgm::Subgroups;

/// One transfer at a receiver.
#[derive(Debug)]
pub(super) struct Receiver {
    id: TransferId,
    announce: Announce,
    state: State,
    /// What the user said, if it did.
    concluded: Option<Result<(), String>>,
    /// Whether the user knows that everything has come.
    is_received: bool,
    pass: PassNumber,
    place: RosterPlace,
    collecting: Collecting,
    attending: Attending,
    waiting: Waiting,
    answers: Answers,
    /// What the sender has asked and not acknowledged to know (policy `multidriver`).
    reply: Option<Reply>,
    /// For how many receivers it backs off, as the last request has said.
    backs_off: u16,
    /// What its user says to the sender's, if the sender wants that.
    returning: Option<Returning>,
    /// How far it delivers, if there are marks.
    held: Held,
    /// What parity can restore, if the sender sends any.
    blocks: Option<Blocks>,
    /// One past the highest packet that was sent, as far as is known.
    top: PacketNumber,
    /// The highest stamp seen, when, and how many transmissions were received.
    seen: Stamp,
    seen_at: Time,
    received: u64,
    /// The limit in the last report.
    reported_limit: PacketNumber,
    /// Whether delays begin when this host had a packet.
    from_arrival: bool,
    /// When it last asked for missing packets, and what it had seen then.
    asked: Option<(Time, Stamp)>,
    /// The first packet that it asked for then, and how often in a row that was the same.
    unserved: (PacketNumber, u32),
    /// When the sender was last heard.
    heard: Time,
    /// What was usable when it was over, or its user gave up.
    usable_at_end: Option<u64>,
    register_wait: Duration,
    /// What it calls itself.
    name: Bytes,
    /// The message that it begins with, and the last whose end was handed over.
    first_message: u64,
    messages: u64,
    /// What it puts together of a connection that nobody answers.
    assembly: Assembly,
    timers: Timers<Timer>,
}

/// What a receiver is doing.
#[derive(Debug)]
enum State {
    /// The user has not answered.
    Announced,
    /// No Start has listed this receiver yet.
    Registering(Store),
    /// The sender serves it.
    Receiving(Store),
    /// It can be forgotten.
    Over,
}

impl State {
    /// The edges of the diagram at the head of this module, and no others.
    const EDGES: &[(&str, &str)] = &[
        ("announced", "registering"),
        ("registering", "receiving"),
        ("announced", "receiver over"),
        ("registering", "receiver over"),
        ("receiving", "receiver over"),
    ];

    fn name(&self) -> &'static str {
        match self {
            Self::Announced => "announced",
            Self::Registering(_) => "registering",
            Self::Receiving(_) => "receiving",
            Self::Over => "receiver over",
        }
    }

    fn store(&self) -> Option<&Store> {
        match self {
            Self::Announced | Self::Over => None,
            Self::Registering(store) | Self::Receiving(store) => Some(store),
        }
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        match self {
            Self::Announced | Self::Over => None,
            Self::Registering(store) | Self::Receiving(store) => Some(store),
        }
    }
}

/// A receiver's timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    /// When to register again.
    Register,
    /// When to ask for what is missing.
    Nak,
    /// When the slot of an answer has come, or a reply is to be sent, or sent again.
    Answer,
    /// When a part of the return stream is to be sent.
    Part,
    /// When to send again what is not acknowledged of the return stream.
    Return,
    /// When to look whether the sender is still there.
    Alive,
    /// When to hand on what was collected, though not all have answered.
    Collect,
    /// When it has heard the group for long enough, and stands by again.
    LookIn,
}

impl TimerKey for Timer {
    const ALL: &'static [Self] = &[
        Self::Register,
        Self::Nak,
        Self::Answer,
        Self::Part,
        Self::Return,
        Self::Alive,
        Self::Collect,
        Self::LookIn,
    ];

    fn index(self) -> usize {
        self as usize
    }
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
            held: Held::of(announce.deliver_to),
            returning: announce.returns.map(Returning::new),
            announce,
            state: State::Announced,
            concluded: None,
            is_received: false,
            pass: PassNumber::default(),
            place: RosterPlace::default(),
            collecting: Collecting::default(),
            attending: Attending::default(),
            waiting: Waiting::default(),
            answers: Answers::default(),
            reply: None,
            backs_off: 0,
            blocks: None,
            top: PacketNumber::ZERO,
            from_arrival: false,
            seen: Stamp::default(),
            seen_at: context.now,
            received: 0,
            reported_limit: PacketNumber::ZERO,
            asked: None,
            unserved: (PacketNumber::default(), 0),
            heard: context.now,
            usable_at_end: None,
            first_message: 1,
            messages: 0,
            assembly: Assembly::default(),
            register_wait: context.config.announce_interval,
            name: Bytes::new(),
            timers,
        }
    }

    /// Changes the state to what `next` makes of the one before.
    ///
    /// # Panics
    /// If there is no such edge.
    fn transition(
        &mut self,
        context: &mut Context<'_>,
        cause: &'static str,
        next: impl FnOnce(State) -> State,
    ) {
        let from = self.state.name();
        self.usable_at_end = self.usable();
        let before = core::mem::replace(&mut self.state, State::Over);
        self.state = next(before);
        let transition = Transition::new(from, self.state.name(), cause);
        context.record(State::EDGES, transition);
    }

    /// The user takes it; false if it had answered before.
    pub(super) fn accept(&mut self, context: &mut Context<'_>, acceptance: &Acceptance) -> bool {
        if !matches!(self.state, State::Announced) {
            return false;
        }
        let Announce { packet, length, .. } = self.announce;
        let buffer_max = context.config.buffer_max;
        if buffer_max < 2 * packet as usize {
            self.refuse_large_packets(context, &acceptance.name);
            return true;
        }
        let store = match self.carries_messages() {
            true => Store::of_messages(packet, buffer_max),
            false => Store::new(packet, length, buffer_max, acceptance),
        };
        self.transition(context, "accepted", |_| State::Registering(store));
        self.blocks = (self.announce.block > 0).then(|| {
            let size = u64::from(self.announce.block);
            Blocks::new(size, packet as usize, context.config.buffer_max)
        });
        self.name = acceptance.name.slice(..acceptance.name.len().min(NAME_MAX));
        if self.is_unanswered() {
            self.begin_unanswered(context);
            return true;
        }
        self.register_in_turn(context);
        self.hand_over(context);
        true
    }

    /// The user, who has taken it and not concluded, holds this of it and nothing else; false if
    /// that cannot be, or its sender may have settled it already.
    pub(super) fn hold_again(
        &mut self,
        context: &mut Context<'_>,
        acceptance: &Acceptance,
    ) -> bool {
        let is_open = self.concluded.is_none() && self.may_hold_less();
        let packet = self.announce.packet;
        let Some(store) = self.state.store_mut().filter(|_| is_open) else {
            return false;
        };
        let buffer_max = context.config.buffer_max;
        *store = Store::new(packet, store.length(), buffer_max, acceptance);
        self.blocks = self
            .blocks
            .is_some()
            .then(|| Blocks::new(u64::from(self.announce.block), packet as usize, buffer_max));
        self.answers = Answers::default();
        self.is_received = false;
        self.asked = None;
        self.unserved = (PacketNumber::default(), 0);
        if matches!(self.state, State::Receiving(_)) {
            self.report_state(context, false);
        }
        self.hand_over(context);
        true
    }

    /// The user takes it, and it cannot be received: two packets of it do not fit into the buffer.
    fn refuse_large_packets(&mut self, context: &mut Context<'_>, name: &[u8]) {
        let id = self.id;
        let (packet, buffer_max) = (self.announce.packet, context.config.buffer_max);
        let reason = alloc::format!(
            "two packets of {packet} bytes do not fit into its buffer_max of {buffer_max} bytes"
        );
        context.notify(Notice::Failed {
            id,
            failure: Failure::LargePackets { packet, buffer_max },
        });
        self.refuse(context, &reason, name);
    }

    /// The user does not take it; the sender learns `reason`, and what this receiver is called.
    pub(super) fn refuse(&mut self, context: &mut Context<'_>, reason: &str, name: &[u8]) {
        let message = Message::Refuse(Refusal {
            reason: reason.into(),
            name: Bytes::copy_from_slice(name),
        });
        let sender = self.id.sender;
        if !self.is_unanswered() {
            context.outbox.unicast(sender, self.id.number, &message);
        }
        self.transition(context, "refused", |_| State::Over);
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
    pub(super) fn handle(&mut self, context: &mut Context<'_>, message: Message) {
        self.heard = context.now;
        if self.is_unanswered() {
            return self.handle_unanswered(context, message);
        }
        if self.leaves(context, &message) {
            return;
        }
        self.forget_waiting(context);
        match message {
            Message::Data(data) => self.handle_data(context, data),
            Message::Start(start) => self.handle_start(context, &start),
            Message::Poll(poll) => self.handle_poll(context, poll),
            Message::Request(request) => self.handle_request(context, request),
            Message::Mark(mark) => self.handle_mark(context, mark),
            Message::Attend(attend) => self.handle_attend(context, attend),
            Message::Tag(tag) => self.handle_tag(context, tag),
            Message::Acknowledgement(stamp) => self.handle_acknowledgement(stamp),
            Message::Returned(returned) => self.handle_returned(context, &returned),
            Message::Join(join) => self.handle_join(context, join),
            Message::ServedWhen(said) => self.handle_served(context, said),
            Message::Finish(finish) => self.handle_finish(context, finish),
            Message::Announce(_)
            | Message::Report(_)
            | Message::Composite(_)
            | Message::Joined(_)
            | Message::Missed(_)
            | Message::Refuse(_) => {}
        }
    }

    fn handle_start(&mut self, context: &mut Context<'_>, start: &Start) {
        if start.pass < self.pass || self.state.store().is_none() {
            return;
        }
        if start.pass > self.pass {
            if start.pass > PassNumber::FIRST {
                // What it misses is sent again.
                self.answers = Answers::default();
                self.reported_limit = PacketNumber::ZERO;
            }
            self.pass = start.pass;
            self.place = self.place.in_pass(start.pass);
            self.collecting = Collecting::default();
            self.timers.cancel(Timer::Collect);
            self.asked = None;
            self.unserved.1 = 0;
        }
        let left = self.place.left();
        let is_listed = self.place.read(context.local, start);
        self.read_collectors(context, start);
        if !is_listed {
            return;
        }
        self.timers.cancel(Timer::Register);
        if let State::Registering(_) = self.state {
            let has_waited = self.awaits_place();
            self.enroll(context, "listed in a start");
            if has_waited {
                self.hand_over(context);
            }
            self.schedule_part(context);
        }
        self.place.take_early(self.pass);
        if self.place.left() != left {
            // It acknowledges to another one, or for others, than before.
            self.acknowledge_in_chain(context, true);
        }
        if start.answer {
            self.report_ready(context, start.asks_where_restored);
        }
    }

    /// There is room for packets below this one.
    fn limit(&self, store: &Store) -> PacketNumber {
        match self.pass > PassNumber::FIRST {
            true => store.limit_of_places(),
            // More may have been sent than there is room for: it must say which of what it misses
            // has a place.
            false => store.limit(self.top).min(store.limit_of_places()),
        }
    }

    /// Whether the sender may be held up by the limit in the last report, which there is room
    /// beyond now.
    fn has_room_to_report(&self, store: &Store) -> bool {
        let quarter = (store.buffer() / 4).max(1);
        let opens = self.limit(store) >= self.reported_limit + quarter;
        opens && self.reported_limit < self.top + quarter && !store.is_complete()
    }

    fn handle_poll(&mut self, context: &mut Context<'_>, poll: Poll) {
        let Some(store) = self.state.store_mut() else {
            return;
        };
        self.received += 1;
        if poll.stamp > self.seen {
            self.seen = poll.stamp;
            self.seen_at = match self.from_arrival {
                true => context.arrived,
                false => context.now,
            };
        }
        if let Some(length) = poll.length {
            store.end_at(length);
        }
        let top = store.packets().unwrap_or(PacketNumber::MAX).min(poll.top);
        self.top = self.top.max(top);
        self.report_state(context, true);
        self.hand_over(context);
    }

    fn handle_finish(&mut self, context: &mut Context<'_>, finish: Finish) {
        let id = self.id;
        let is_done = matches!(finish, Finish::Done(_));
        if is_done && self.may_be_unnamed() && !self.announce.confirm {
            // It may have been counted by what it said when it registered.
            self.enroll(context, "the sender is done");
            self.hand_over(context);
        }
        let has_replied = self.returning.as_ref().is_none_or(Returning::has_ended);
        let has_replied_all = self.returning.as_ref().is_some_and(Returning::is_done);
        let complete = self.state.store().is_some_and(Store::is_complete)
            && self.has_delivered()
            && has_replied;
        let given_up = self.has_given_up();
        let notice = match finish {
            _ if given_up => Notice::Failed {
                id,
                failure: Failure::GivenUp,
            },
            // All that are named have concluded.
            Finish::Done(_) if self.may_be_unnamed() => Notice::Failed {
                id,
                failure: Failure::Excluded,
            },
            Finish::Done(_) if complete => Notice::Ended { id },
            Finish::Done(_) => Notice::Failed {
                id,
                failure: Failure::Lost,
            },
            // The sender has its reply, and has given up others.
            Finish::Cancelled(_) if complete && has_replied_all => Notice::Ended { id },
            Finish::Cancelled(reason) => Notice::Failed {
                id,
                failure: Failure::Cancelled(reason),
            },
            Finish::Dropped if self.answers.is_outrun() || self.misses_what_was_sent() => {
                Notice::Failed {
                    id,
                    failure: Failure::Outrun,
                }
            }
            Finish::Dropped => Notice::Failed {
                id,
                failure: Failure::Dropped,
            },
            Finish::SameName => Notice::Failed {
                id,
                failure: Failure::SameName,
            },
            Finish::Full => Notice::Failed {
                id,
                failure: Failure::Full,
            },
            Finish::Excluded => Notice::Failed {
                id,
                failure: Failure::Excluded,
            },
        };
        self.tell_undelivered(context);
        context.notify(notice);
        self.transition(context, "finished by the sender", |_| State::Over);
    }

    /// The user concludes.
    pub(super) fn conclude(&mut self, context: &mut Context<'_>, result: Result<(), &str>) {
        let complete = self.state.store().is_some_and(Store::is_complete);
        // What was good and is kept aside may still fail to be put in place.
        let is_open = self.concluded.is_none()
            || self.concluded == Some(Ok(())) && self.is_kept_aside() && result.is_err();
        if !is_open || self.state.store().is_none() || result.is_ok() && !complete {
            return;
        }
        let fails = result.is_err();
        if fails {
            self.usable_at_end = self.usable();
        }
        self.concluded =
            Some(result.map_err(|reason| reason[..reason.floor_char_boundary(REASON_MAX)].into()));
        if (fails || self.announce.confirm) && !self.is_unanswered() {
            self.report(context, Purpose::Acknowledge, false);
        }
        self.release(context);
    }

    /// Whether its user has given up: what comes now is of no use.
    fn has_given_up(&self) -> bool {
        matches!(self.concluded, Some(Err(_)))
    }

    pub(super) fn handle_timeout(&mut self, context: &mut Context<'_>) {
        while !self.is_over()
            && let Some(timer) = self.timers.pop_due(context.now)
        {
            match timer {
                Timer::Register => self.register(context),
                Timer::Nak => self.send_nak(context),
                Timer::Answer if self.reply.is_some() => self.send_reply(context),
                Timer::Answer => self.send_answers(context),
                Timer::Part => self.send_parts(context),
                Timer::Return => self.return_again(context),
                Timer::Alive => self.look_for_sender(context),
                Timer::Collect => self.hand_on_until(context, Some(context.now)),
                Timer::LookIn => self.end_look(),
            }
        }
    }

    /// Whether it can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    fn look_for_sender(&mut self, context: &mut Context<'_>) {
        let limit = context.config.vanish_after;
        let silent = context.now - self.heard;
        if silent < limit {
            // A receiver that has everything says so again: the last message of either side may
            // have been lost.
            if self.is_received && silent >= limit / 8 {
                self.report(context, Purpose::Acknowledge, false);
            }
            if self.stands_by() && silent >= limit / 2 {
                self.look_in(context);
            }
            self.timers.set(Timer::Alive, context.now + limit / 8);
            return;
        }
        let id = self.id;
        self.tell_undelivered(context);
        let has_replied = self.returning.as_ref().is_none_or(Returning::is_done);
        let is_good = self.is_received && self.has_delivered() && has_replied;
        context.notify(if is_good && !self.has_given_up() {
            Notice::Ended { id }
        } else {
            Notice::Failed {
                id,
                failure: Failure::Lost,
            }
        });
        self.transition(context, "the sender is silent", |_| State::Over);
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Bytes that are in memory, for the user or to restore others.
    pub(super) fn buffered(&self) -> u64 {
        let parity = self.blocks.as_ref().map_or(0, Blocks::buffered);
        self.state.store().map_or(0, Store::buffered) + parity + self.assembled()
    }

    /// Whether the sender wants its user to reply.
    pub(super) fn wants_reply(&self) -> bool {
        self.returning.is_some()
    }

    /// Whether the transfer carries messages.
    pub(super) fn carries_messages(&self) -> bool {
        self.announce.messages.is_some()
    }

    /// Whether its user may find that it holds less than it has said: the sender waits until the
    /// user has concluded it, and can send again what it has sent.
    pub(super) fn may_hold_less(&self) -> bool {
        let waits = self.announce.confirm && self.deliver_to() == DeliverTo::AtOnce;
        waits && self.announce.rewindable && !self.carries_messages()
    }

    /// Whether its sender can send again what it has sent.
    pub(super) fn is_rewindable(&self) -> bool {
        self.announce.rewindable
    }

    /// When the sender was last heard.
    pub(super) fn heard(&self) -> Time {
        self.heard
    }

    /// Whether its user has answered.
    pub(super) fn is_answered(&self) -> bool {
        !matches!(self.state, State::Announced)
    }

    /// Whether it may not leave: it is counted in, and the set of receivers is locked.
    pub(super) fn is_locked(&self) -> bool {
        matches!(self.policy(), Policy::Cp(_)) && matches!(self.state, State::Receiving(_))
    }

    /// The policy that the sender announced.
    fn policy(&self) -> Policy {
        self.announce.policy
    }

    pub(super) fn policy_announced(&self) -> Policy {
        self.announce.policy
    }

    pub(super) fn subgroups_announced(&self) -> Subgroups {
        self.announce.subgroups.unwrap_or(Subgroups::ALL)
    }
}
