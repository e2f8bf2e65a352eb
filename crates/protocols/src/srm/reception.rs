//! What is heard of messages: that they exist, the messages themselves, and that others miss them.

use core::time::Duration;

use bytes::Bytes;
use groupcast_core::{MemberId, MessageId, Service, Time};

use super::Srm;
use super::recovery::TimerInputs;
use super::stream::Stream;
use super::wire::Session;

/// What came of a source itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Heard<'a> {
    /// Its message of this number.
    Data(u64),
    Session(&'a Session),
}

impl Heard<'_> {
    /// It has messages up to here.
    fn high(self) -> u64 {
        match self {
            Self::Data(number) => number,
            Self::Session(session) => session.highest,
        }
    }

    /// This many messages are not new by it.
    fn before(self) -> u64 {
        match self {
            Self::Data(number) => number - 1,
            Self::Session(session) => session.highest,
        }
    }
}

impl Srm {
    /// The source itself was heard, and is followed from now on.
    pub(super) fn follow(&mut self, now: Time, source: MemberId, heard: Heard<'_>) {
        if !self.streams.contains_key(&source) && self.begin(now, source, heard).is_none() {
            return;
        }
        let Some(stream) = self.streams.get_mut(&source) else {
            return;
        };
        let high = heard.high();
        stream.heard = now;
        let oldest = high.saturating_sub(self.config.window_max);
        if oldest > stream.floor() {
            stream.give_up_to(oldest, &mut self.events);
            self.recovery.forget_to(source, oldest);
        }
        stream.note_own_word(high);
        // It has sent no more by now. Where that word was late, the next one of anybody tells of
        // what it has sent since.
        if matches!(heard, Heard::Session(_)) && stream.is_newest(high) {
            let proved = stream.retract();
            self.recovery.forget_above(source, proved);
        }
    }

    /// Begins the stream of a source, if there is room and it is known where it begins. Without a
    /// bookmark the source may be one that was forgotten, and what came may be of long ago: then
    /// its stream begins by a session message that shows how far it has come by now.
    fn begin(&mut self, now: Time, source: MemberId, heard: Heard<'_>) -> Option<()> {
        // Before room is made: that may drop the bookmark.
        let floor = match self.bookmarks.get(source) {
            Some(accounted) => accounted,
            None if !self.bookmarks.dropped() => {
                heard.before().saturating_sub(self.config.catch_up_max)
            }
            None if self.proves(heard) => heard.high(),
            None => {
                self.counters.unproved += 1;
                return None;
            }
        };
        if !self.make_room(now) {
            self.counters.sources_refused += 1;
            return None;
        }
        self.bookmarks.take(source);
        let stream = Stream::new(source, floor, now);
        self.streams.insert(source, stream);
        Some(())
    }

    /// Whether the source said this after its bookmark was set, if it had one that was dropped: it
    /// echoes a session message of this member from after that. Whatever was delivered of it, it
    /// had sent by then.
    fn proves(&self, heard: Heard<'_>) -> bool {
        let Heard::Session(session) = heard else {
            return false;
        };
        let echo = session.echoes.iter().find(|it| it.member == self.local);
        let dropped = self.bookmarks.dropped_stamp();
        let sessions = self.peers.sessions();
        echo.is_some_and(|echo| Some(echo.number.0) > dropped && echo.number <= sessions)
    }

    /// Whether there is room for one more source, perhaps because one is silent for long.
    fn make_room(&mut self, now: Time) -> bool {
        if self.streams.len() < self.config.sources_max {
            return true;
        }
        let longest = self.streams.iter().min_by_key(|(_, stream)| stream.heard);
        let silent = longest
            .filter(|(_, stream)| now - stream.heard >= self.config.source_timeout)
            .map(|(source, _)| *source);
        let Some((source, mut stream)) = silent.and_then(|it| self.streams.remove_entry(&it))
        else {
            return false;
        };
        // Whoever is silent for this long repairs nothing any more; if it comes back, the stream
        // goes on here.
        stream.give_up_to(stream.proved(), &mut self.events);
        self.recovery.forget_to(source, u64::MAX);
        let stamp = self.peers.sessions().0;
        self.bookmarks.set_at(source, stream.floor(), stamp);
        true
    }

    /// Somebody other than the source says that its message `high` exists: it is asked for, but is
    /// not missing on that word alone.
    pub(super) fn hear_of(&mut self, source: MemberId, high: u64) {
        if let Some(stream) = self.streams.get_mut(&source) {
            stream.note_hearsay(high, self.config.window_max);
        }
    }

    /// Somebody other than the source asks for its message `high`, so that it seems to exist.
    fn hear_of_by_request(&mut self, source: MemberId, high: u64) {
        let stream = self.streams.get(&source);
        if !stream.is_some_and(Stream::is_doubted) {
            self.hear_of(source, high);
        }
    }

    /// Nobody answers for a message: gives it up, if it exists. What only others have said to exist
    /// is not asked for any more, and comes if the source sends it.
    pub(super) fn give_up(&mut self, id: MessageId) {
        let Some(stream) = self.streams.get_mut(&id.sender) else {
            return;
        };
        if id.number > stream.proved() {
            stream.doubt();
            self.recovery.forget_above(id.sender, stream.proved());
            return;
        }
        self.counters.given_up += 1;
        stream.give_up(id.number, &mut self.events);
    }

    /// Asks for whatever is known to be missing of `source` and is not asked for yet.
    pub(super) fn ask_for_missing(&mut self, now: Time, source: MemberId) {
        let Some(stream) = self.streams.get_mut(&source) else {
            return;
        };
        let inputs = TimerInputs {
            config: &self.config,
            peers: &self.peers,
        };
        stream.asked = stream.asked.max(stream.floor());
        while stream.asked < stream.high() && self.recovery.room(&self.config) > 0 {
            stream.asked += 1;
            let id = MessageId {
                sender: source,
                number: stream.asked,
            };
            if stream.lacks(id.number) {
                self.recovery.miss(now, id, &inputs);
            }
        }
    }

    /// A message came, from its source or as a repair.
    pub(super) fn receive(&mut self, now: Time, id: MessageId, service: Service, payload: Bytes) {
        let Some(stream) = self.streams.get_mut(&id.sender) else {
            return;
        };
        let beyond = id.number > stream.floor().saturating_add(self.config.window_max);
        if beyond || !stream.receive(id.number, service, payload.clone(), &mut self.events) {
            self.counters.duplicates += 1;
            return;
        }
        let waits = stream.held_bytes() > 0;
        let inputs = TimerInputs {
            config: &self.config,
            peers: &self.peers,
        };
        self.recovery.found(now, id, &inputs);
        self.store.keep(id, service, payload);
        if waits {
            self.hold_no_more_than_allowed();
        }
        self.ask_for_missing(now, id.sender);
    }

    /// Where more FIFO messages wait than may, those that the most are waiting for are given up.
    fn hold_no_more_than_allowed(&mut self) {
        loop {
            let held: usize = self.streams.values().map(Stream::held_bytes).sum();
            if held <= self.config.held_max {
                return;
            }
            let most = self
                .streams
                .iter_mut()
                .max_by_key(|(_, stream)| stream.held_bytes());
            let Some((source, stream)) = most else {
                return;
            };
            stream.give_up_first(&mut self.events);
            self.recovery.forget_to(*source, stream.floor());
        }
    }

    pub(super) fn hear_request(
        &mut self,
        now: Time,
        from: MemberId,
        id: MessageId,
        distance: Duration,
    ) {
        self.counters.requests_heard += 1;
        let has = if id.sender == self.local {
            id.number <= self.sent
        } else {
            self.hear_of_by_request(id.sender, id.number);
            self.ask_for_missing(now, id.sender);
            let stream = self.streams.get(&id.sender);
            stream.is_some_and(|stream| id.number <= stream.high() && !stream.lacks(id.number))
        };
        let inputs = TimerInputs {
            config: &self.config,
            peers: &self.peers,
        };
        let missing = self.recovery.hear_request(now, id, distance, &inputs);
        if !missing && has && self.store.may_have(id) {
            self.recovery.prepare(now, id, from, &inputs);
        }
    }
}
