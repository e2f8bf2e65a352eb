//! When it is served, for its user: the sender says that it is served after the others, or that
//! nothing is sent to anybody for a while. Nothing else depends on it. The sender says it again as
//! long as it holds, and how long a word is to be kept; if the word that it is over is lost, the
//! silence says so.

use groupcast_core::Time;

use super::super::context::Context;
use super::super::transfer::{Notice, Served};
use super::super::wire::ServedWhen;
use super::Receiver;

/// What was said.
#[derive(Default, Debug)]
pub(super) struct Waiting {
    /// Of this receiver, and of all.
    own: Word,
    all: Word,
    /// What the user knows.
    told: Served,
}

#[derive(Clone, Copy, Default, Debug)]
struct Word {
    version: u32,
    served: Served,
    /// When it is forgotten, unless it is said again.
    until: Time,
}

impl Receiver {
    pub(super) fn handle_served(&mut self, context: &mut Context<'_>, said: ServedWhen) {
        let word = match said.all {
            true => &mut self.waiting.all,
            false => &mut self.waiting.own,
        };
        if self.state.store().is_none() || said.version < word.version {
            return;
        }
        *word = Word {
            version: said.version,
            served: said.served,
            until: context.now + said.holds,
        };
        self.tell_served(context);
    }

    /// The sender is heard, and has not said for as long as its word holds that this receiver, or
    /// all, have to wait.
    pub(super) fn forget_waiting(&mut self, context: &mut Context<'_>) {
        let waiting = &mut self.waiting;
        for word in [&mut waiting.own, &mut waiting.all] {
            if context.now >= word.until {
                word.served = Served::Now;
            }
        }
        self.tell_served(context);
    }

    fn tell_served(&mut self, context: &mut Context<'_>) {
        let waiting = &mut self.waiting;
        let served = waiting.own.served.max(waiting.all.served);
        // A receiver that has everything waits for nothing.
        if served != waiting.told && !self.is_received {
            waiting.told = served;
            let id = self.id;
            context.notify(Notice::Served { id, served });
        }
    }
}
