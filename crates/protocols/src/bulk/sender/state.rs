//! The states of a sender. Each variant owns the data that has a meaning in that state only.

use alloc::boxed::Box;
use alloc::vec::Vec;

use groupcast_core::trace::Transition;
use groupcast_core::{MemberId, Time};

use super::super::context::Context;
use super::super::numbers::{PacketNumber, PassNumber, Stamp};
use super::super::transfer::PhaseKind;
use super::collectors::CollectorSet;
use super::gate::Gate;
use super::repair::Parities;
use super::{Sender, Timer};

/// What a sender is doing.
#[derive(Debug)]
pub(super) enum State {
    /// Receivers register.
    Announcing(Announcing),
    /// The receivers of a pass are told of it, and say what they need.
    Starting(Starting),
    /// The packets of a pass go out.
    Sending(Sending),
    /// Every receiver has everything; not all of their users have said so.
    Concluding(Concluding),
    /// Every receiver is settled.
    Over,
}

#[derive(Debug)]
pub(super) struct Announcing {
    /// When the transfer was first announced.
    pub(super) since: Time,
    /// Whether the members that are there have had the time to register.
    pub(super) present_over: bool,
    /// Every receiver has listed what it needs below this packet.
    pub(super) listed_below: PacketNumber,
}

/// A pass: once over what its receivers need.
#[derive(Debug, Default)]
pub(super) struct Pass {
    pub(super) number: PassNumber,
    /// Its receivers, in the order in which they are told of each other.
    pub(super) roster: Vec<MemberId>,
    /// Which of them collect for the others.
    pub(super) collectors: CollectorSet,
}

#[derive(Debug)]
pub(super) struct Starting {
    pub(super) pass: Pass,
    /// Every receiver has listed what it needs below this packet.
    pub(super) listed_below: PacketNumber,
    /// Since when its receivers are asked, and how often they were asked again.
    pub(super) since: Time,
    pub(super) asked: u32,
    /// Time-outs in a row that brought no progress.
    pub(super) backoff: u32,
}

#[derive(Debug)]
pub(super) struct Sending {
    pub(super) pass: Pass,
    pub(super) gate: Gate,
    /// Every receiver that is waited for has all packets below.
    pub(super) base: PacketNumber,
    pub(super) parities: Box<Parities>,
    /// Time-outs in a row that brought no progress.
    pub(super) backoff: u32,
    /// Whether everything that may be sent was sent, and only a report can change that.
    pub(super) awaits_reports: bool,
    /// Whether the next packet asks every receiver for a report.
    pub(super) asks: bool,
}

#[derive(Debug)]
pub(super) struct Concluding {
    pub(super) pass: Pass,
    /// After a pass whose receivers were not known: the poll that each of them has to answer before
    /// it is known what they miss.
    pub(super) polled: Option<Stamp>,
    /// Time-outs in a row that brought no progress.
    pub(super) backoff: u32,
}

impl State {
    /// The edges of the diagram at the head of this module's parent, and no others.
    const EDGES: &[(&str, &str)] = &[
        ("announcing", "starting"),
        ("starting", "sending"),
        ("sending", "starting"),
        ("sending", "concluding"),
        ("concluding", "starting"),
        ("announcing", "sender over"),
        ("starting", "sender over"),
        ("sending", "sender over"),
        ("concluding", "sender over"),
    ];

    fn name(&self) -> &'static str {
        match self {
            Self::Announcing(_) => "announcing",
            Self::Starting(_) => "starting",
            Self::Sending(_) => "sending",
            Self::Concluding(_) => "concluding",
            Self::Over => "sender over",
        }
    }

    /// What the user is told of it.
    pub(super) fn kind(&self) -> PhaseKind {
        match self {
            Self::Announcing(_) => PhaseKind::Announcing,
            Self::Starting(_) => PhaseKind::Starting,
            Self::Sending(_) => PhaseKind::Sending,
            // What is over is forgotten: no user can ask for it.
            Self::Concluding(_) | Self::Over => PhaseKind::Concluding,
        }
    }

    /// The pass that is under way; none before the first.
    pub(super) fn pass(&self) -> Option<&Pass> {
        match self {
            Self::Starting(Starting { pass, .. })
            | Self::Sending(Sending { pass, .. })
            | Self::Concluding(Concluding { pass, .. }) => Some(pass),
            Self::Announcing(_) | Self::Over => None,
        }
    }

    pub(super) fn pass_mut(&mut self) -> Option<&mut Pass> {
        match self {
            Self::Starting(Starting { pass, .. })
            | Self::Sending(Sending { pass, .. })
            | Self::Concluding(Concluding { pass, .. }) => Some(pass),
            Self::Announcing(_) | Self::Over => None,
        }
    }

    /// The pass, to be owned by the next state.
    pub(super) fn into_pass(self) -> Pass {
        match self {
            Self::Starting(Starting { pass, .. })
            | Self::Sending(Sending { pass, .. })
            | Self::Concluding(Concluding { pass, .. }) => pass,
            Self::Announcing(_) | Self::Over => Pass::default(),
        }
    }

    /// Time-outs in a row that brought no progress.
    pub(super) fn backoff(&self) -> u32 {
        match self {
            Self::Starting(Starting { backoff, .. })
            | Self::Sending(Sending { backoff, .. })
            | Self::Concluding(Concluding { backoff, .. }) => *backoff,
            Self::Announcing(_) | Self::Over => 0,
        }
    }

    pub(super) fn backoff_mut(&mut self) -> Option<&mut u32> {
        match self {
            Self::Starting(Starting { backoff, .. })
            | Self::Sending(Sending { backoff, .. })
            | Self::Concluding(Concluding { backoff, .. }) => Some(backoff),
            Self::Announcing(_) | Self::Over => None,
        }
    }
}

impl Sender {
    /// Changes the state to what `next` makes of the one before.
    ///
    /// # Panics
    /// If there is no such edge.
    pub(super) fn transition(
        &mut self,
        context: &mut Context<'_>,
        cause: &'static str,
        next: impl FnOnce(State) -> State,
    ) {
        let from = self.state.name();
        let before = core::mem::replace(&mut self.state, State::Over);
        self.state = next(before);
        let transition = Transition::new(from, self.state.name(), cause);
        context.record(State::EDGES, transition);
        // What they were set for is over.
        self.timers.cancel(Timer::Retransmit);
        self.timers.cancel(Timer::Pace);
    }

    /// The number of the pass that is under way; 0 before the first.
    pub(super) fn pass_number(&self) -> PassNumber {
        let pass = self.state.pass();
        pass.map_or(PassNumber::default(), |pass| pass.number)
    }

    /// The receivers of the pass that is under way; none before the first.
    pub(super) fn roster(&self) -> &[MemberId] {
        self.state.pass().map_or(&[], |pass| &pass.roster)
    }
}
