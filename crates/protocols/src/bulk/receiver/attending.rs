//! Whether a receiver hears what is sent to the group. One that is served after the others, and
//! gets little of what they get, stands by meanwhile: it asks for nothing, and its host leaves the
//! multicast group, so that the network does not carry there what does not fit.
//!
//! ```text
//!  attends ── told to stand by ──▶ stands by ── told to look in ──▶ looks in
//!     ▲                            │      ▲                         │      │
//!     └──────── called back ───────┘      └────── for a while ──────┘      │
//!     └──────────────────────────── called back ───────────────────────────┘
//! ```
//!
//! The sender says it to this receiver alone, and again until a report confirms that; the highest
//! version counts. A receiver that has everything attends, whatever it was told: all that it waits
//! for is the end, which is said to all.

use super::super::context::Context;
use super::super::wire::{Attend, Attendance, Purpose};
use super::{Receiver, State, Timer};

/// What a receiver was told last.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Attending {
    /// 0: nothing.
    version: u32,
    attendance: Attendance,
}

impl Attending {
    /// The version to be confirmed, if there is any.
    pub(super) fn version(&self) -> Option<u32> {
        (self.version > 0).then_some(self.version)
    }
}

impl Receiver {
    pub(super) fn handle_attend(&mut self, context: &mut Context<'_>, attend: Attend) {
        if self.state.store().is_none() || attend.version < self.attending.version {
            return;
        }
        if attend.version > self.attending.version {
            self.attending = Attending {
                version: attend.version,
                attendance: attend.attendance,
            };
            self.timers.cancel(Timer::Nak);
            self.timers.cancel(Timer::LookIn);
            // From now on silence is no good sign.
            let soon = context.now + context.config.vanish_after / 8;
            self.timers.set(Timer::Alive, soon);
            if attend.attendance == Attendance::LooksIn {
                return self.look_in(context);
            }
        }
        self.report(context, Purpose::Acknowledge, false);
    }

    /// It hears the group for a while, and says that it is there: its sender has told it to, or has
    /// said nothing for long, and may have begun anew.
    pub(super) fn look_in(&mut self, context: &mut Context<'_>) {
        self.attending.attendance = Attendance::LooksIn;
        let end = context.now + context.config.present_within;
        self.timers.set(Timer::LookIn, end);
        self.report(context, Purpose::Acknowledge, false);
    }

    /// It has heard the group for long enough.
    pub(super) fn end_look(&mut self) {
        self.attending.attendance = Attendance::StandsBy;
    }

    /// Whether it was told not to ask for anything until it is called.
    pub(super) fn is_set_aside(&self) -> bool {
        self.attending.attendance != Attendance::Attends
    }

    /// Whether it does without what is sent to the group.
    pub(in crate::bulk) fn stands_by(&self) -> bool {
        let takes_part = matches!(self.state, State::Registering(_) | State::Receiving(_));
        takes_part && !self.is_received && self.attending.attendance == Attendance::StandsBy
    }
}
