//! Whom an endpoint has heard of late, whatever they said: who is there, so that a sender need not guess it from the
//! answers to a single announcement.

use alloc::collections::BTreeMap;
use core::time::Duration;

use groupcast_core::{MemberId, NodeId, Time};

/// The other members that were heard, and when.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Each node's last life.
    heard: BTreeMap<NodeId, (MemberId, Time)>,
    /// When somebody was last heard, and when this endpoint first had something to send.
    last: Option<Time>,
    began: Option<Time>,
}

impl Others {
    /// This endpoint has something to send.
    pub(super) fn begin(&mut self, now: Time) {
        self.began.get_or_insert(now);
    }

    /// `from` was heard. At most `max` are remembered: those silent for `vanish_after` make room.
    pub(super) fn hear(&mut self, now: Time, from: MemberId, max: usize, vanish_after: Duration) {
        self.last = Some(now);
        if self.heard.len() >= max && !self.heard.contains_key(&from.node) {
            self.heard
                .retain(|_, (_, heard)| now - *heard < vanish_after);
        }
        if self.heard.len() < max || self.heard.contains_key(&from.node) {
            self.heard.insert(from.node, (from, now));
        }
    }

    /// Who was heard less than `vanish_after` ago, and when each will have been silent for so long.
    pub(super) fn present(
        &self,
        now: Time,
        vanish_after: Duration,
    ) -> impl Iterator<Item = (MemberId, Time)> + '_ {
        let until = move |(member, heard): &(MemberId, Time)| (*member, *heard + vanish_after);
        let each = self.heard.values().map(until);
        each.filter(move |(_, until)| *until > now)
    }

    /// From when on this endpoint takes itself to be alone: nobody was heard for `vanish_after`, or nobody was ever heard,
    /// for `register_within` since it first had something to send.
    pub(super) fn alone_from(&self, vanish_after: Duration, register_within: Duration) -> Time {
        let began = self.began.unwrap_or(Time::ZERO);
        let silence = self.last.map(|last| last + vanish_after);
        silence.unwrap_or(began + register_within)
    }
}
