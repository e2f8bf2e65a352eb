//! Telling receivers when they are served, for their users: that they are served after the others,
//! or that nothing is sent to anybody. Nothing depends on it, so nobody confirms it: it is said
//! again as long as it holds, and twice when it is over. Each word says for how long it is to be
//! kept, since only the sender knows how often it says it.

use core::time::Duration;

use super::super::config::BulkConfig;
use super::super::context::Context;
use super::super::transfer::Served;
use super::super::wire::{Message, ServedWhen};
use super::registration::AFTERWARDS;
use super::{Sender, State};

/// A word is forgotten when this many in a row were lost.
const LOST_MAX: u32 = 6;

/// It is not said more often than those are told that stand by: what is over soon is no matter for
/// people.
fn said_every(config: &BulkConfig) -> Duration {
    config.vanish_after / 16
}

/// For how long a word holds: it is said with an announcement, so up to one interval of these late.
fn holds(config: &BulkConfig) -> Duration {
    (said_every(config) + config.announce_interval * AFTERWARDS) * LOST_MAX
}

/// What was said last.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Said {
    version: u32,
    served: Served,
    /// Whether it is to be said once more.
    again: bool,
}

impl Said {
    /// What there is to say.
    fn say(&mut self, all: bool, served: Served, holds: Duration) -> Option<ServedWhen> {
        if served != self.served {
            self.version = self.version.saturating_add(1);
            self.served = served;
            self.again = true;
        } else if served == Served::Now && !core::mem::take(&mut self.again) {
            return None;
        }
        Some(ServedWhen {
            all,
            version: self.version,
            served,
            holds,
        })
    }
}

impl Sender {
    /// Tells receivers when they are served, if that is not now, or has changed.
    pub(super) fn tell_served(&mut self, context: &mut Context<'_>) {
        let is_early = context.now - self.said_at < said_every(context.config);
        if is_early || self.is_unanswered() {
            return;
        }
        self.said_at = context.now;
        let (number, holds) = (self.id.number, holds(context.config));
        let is_paused = self.rate.rate() == Some(0);
        let to_all = match is_paused {
            true => Served::Paused,
            false => self.served_above,
        };
        let to_all = self.said.say(true, to_all, holds).map(Message::ServedWhen);
        if let Some(said) = &to_all {
            context.outbox.multicast(number, said);
        }
        let is_under_way = matches!(self.state, State::Starting(_) | State::Sending(_));
        let has_later = is_under_way && self.transfer.rewindable;
        for (member, peer) in &mut self.peers {
            // A receiver that stands by hears no multicast.
            if let Some(said) = to_all.as_ref().filter(|_| !peer.told.attends()) {
                context.outbox.unicast(*member, number, said);
            }
            let served = match has_later && !peer.gates && !peer.holds {
                true => Served::Later,
                false => Served::Now,
            };
            if let Some(said) = peer.said.say(false, served, holds) {
                let said = Message::ServedWhen(said);
                context.outbox.unicast(*member, number, &said);
            }
        }
    }

    /// The relay that sends this is served so above, and its receivers with it.
    pub(in crate::bulk) fn note_served_above(&mut self, served: Served) {
        self.served_above = served;
    }
}
