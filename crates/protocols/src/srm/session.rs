//! Session messages: what exists, and how far away others are.

use alloc::vec::Vec;
use core::ops::Bound;

use groupcast_core::{MemberId, Time};

use super::Srm;
use super::reception::Heard;
use super::wire::{self, Session};

impl Srm {
    pub(super) fn hear_session(&mut self, now: Time, from: MemberId, session: &Session) {
        self.peers
            .hear(&self.config, now, self.local, from, session);
        self.follow(now, from, Heard::Session(session));
        self.ask_for_missing(now, from);
        for (source, highest) in &session.states {
            self.hear_of(*source, *highest);
            self.ask_for_missing(now, *source);
        }
    }

    /// Sends a session message: what there is, and whom this member hears.
    pub(super) fn send_session(&mut self, now: Time) {
        self.peers.forget_silent(&self.config, now);
        let room = self.config.session_bytes_max;
        let (states, echoes) = wire::session_room(room, self.streams.len(), self.peers.len());
        let session = Session {
            number: self.peers.begin_session(now),
            highest: self.sent,
            states: self.states(states),
            echoes: self.peers.echoes(now, echoes),
        };
        self.control.push_back(session.encode());
        self.counters.sessions_sent += 1;
    }

    /// The highest numbers of `count` sources that this member has received, or heard from them
    /// (004 5.4.1), and not what others say: a false word would go around for ever. Those after the
    /// last that was told of.
    fn states(&mut self, count: usize) -> Vec<(MemberId, u64)> {
        let after = self.stated.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.streams.range((after, Bound::Unbounded));
        let chosen = rest.chain(&self.streams).take(count);
        let states: Vec<(MemberId, u64)> = chosen
            .map(|(source, stream)| (*source, stream.proved()))
            .collect();
        self.stated = states.last().map(|(source, _)| *source).or(self.stated);
        states
    }
}
