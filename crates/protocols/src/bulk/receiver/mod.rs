//! A receiver of one transfer: from its announcement to its end. What it takes is in [`intake`], what it says in
//! [`reporting`]; who acknowledges what is the policy's, in [`duty`].
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
mod intake;
mod reporting;
mod store;

use alloc::string::String;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::Time;
use groupcast_core::mech::timers::{TimerKey, Timers};

use self::blocks::Blocks;
use self::duty::Place;
use self::store::Store;
use super::config::Policy;
use super::outbox::Context;
use super::transfer::{Acceptance, Failure, Notice, TransferId};
use super::wire::{Announce, Finish, Message, NAME_MAX, Poll, Purpose, REASON_MAX, Start};

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

    fn handle_start(&mut self, context: &mut Context<'_>, start: &Start) {
        if start.pass < self.pass || self.state.store().is_none() {
            return;
        }
        if start.pass > self.pass {
            self.pass = start.pass;
            self.place = self.place.anew(start.pass);
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
            context.notify(Notice::Enrolled { id: self.id });
        }
        self.place.take_early(self.pass);
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
