//! How far the network is read ahead of the engine.
//!
//! In a turn the engine may have no time for further messages. They stay with their protocol, which
//! takes part as before: a token goes on at once. But others may send for as long as it does, so
//! the network is read on only while little waits, up to [`READ_AHEAD`]. What waits then is bounded
//! by that and what is read at once; this daemon's own messages by its protocol's queue, since the
//! engine hands over no further ones.

use groupcast_core::{Event, MemberId};

/// While more bytes of messages than these may be waiting, the network is not read.
pub(crate) const READ_AHEAD: u64 = 16 << 10;

/// What an endpoint has read and the engine has not taken.
#[derive(Default, Debug)]
pub(crate) struct Backlog {
    /// Events were left behind in the last turn that took some.
    is_behind: bool,
    /// Of messages of others no more bytes wait than these, beside what the protocol itself had
    /// kept back.
    bytes: u64,
}

impl Backlog {
    /// Whether events may be waiting.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Whether the network may be read.
    pub(crate) fn may_read(&self) -> bool {
        !self.is_behind || self.bytes <= READ_AHEAD
    }

    /// This many bytes were read.
    pub(crate) fn read(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// The engine takes an event, of the protocol's member `local`.
    pub(crate) fn take(&mut self, local: MemberId, event: &Event) {
        if let Event::Deliver(delivery) = event
            && delivery.id.sender != local
        {
            let len = delivery.payload.len() as u64;
            self.bytes = self.bytes.saturating_sub(len);
        }
    }

    /// Either no event is left, or the turn has no time for more.
    pub(crate) fn taken(&mut self, has_time: bool) {
        self.is_behind = !has_time;
        if has_time {
            self.bytes = 0;
        }
    }
}
