//! Whose turn it is to submit. Clients share the order by bytes, a turn at a time, by start-time
//! fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996).
//!
//! Each client has a *mark*: the bytes that it has submitted, on a scale that all clients of a
//! daemon share. The client with the lowest mark has the next turn, which moves its mark by what it
//! submits. The scale's present is where the last turn began. The mark of a client that comes back
//! with requests is moved up to there.
//!
//! - Clients that always have requests submit equally many bytes. A message may be longer than a
//!   turn; its client then waits until the others have had as much.
//! - A client that comes back is next while its mark is within a turn of the present: while it
//!   submits no more than others. It waits for the rest of one turn, and for others like it.
//! - A client that has just connected begins one turn behind. So the others have their turns even
//!   where clients come, send one message and go, without end.

use std::collections::BTreeSet;

use super::ClientId;

/// How many bytes a client may submit before the next client has its turn: with what one message
/// has more.
pub(super) const TURN: usize = 4 * 1024;

/// How far a client is on the scale of bytes; `None` before its first turn.
pub(super) type Mark = Option<u64>;

/// The clients that wait for a turn, and the one that has it.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: BTreeSet<Place>,
    current: Option<Turn>,
    /// Where the last turn began.
    present: u64,
    /// Places that were given.
    places: u64,
}

/// A client's place among those that wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    /// Where its turn begins: those with the lowest are first.
    start: u64,
    /// It has just had a turn, or is new: those that come back go before it.
    again: bool,
    /// Who came first.
    number: u64,
    client: ClientId,
    mark: u64,
}

/// A turn under way.
#[derive(Debug)]
struct Turn {
    client: ClientId,
    mark: u64,
    spent: usize,
}

impl Turns {
    /// A client without a place, whose mark is `mark`, has requests.
    pub(super) fn enter(&mut self, client: ClientId, mark: Mark) {
        let ahead = self.present + TURN as u64;
        match mark {
            Some(mark) => {
                let mark = mark.max(self.present);
                let start = self.present + mark.saturating_sub(ahead);
                self.wait(client, start, mark, false);
            }
            None => self.wait(client, ahead, ahead, true),
        }
    }

    /// The client that may submit next. It stays the next one until its turn [ends](Self::end).
    pub(super) fn next(&mut self) -> Option<ClientId> {
        if self.current.is_none() {
            let place = self.waiting.pop_first()?;
            self.present = self.present.max(place.start);
            self.current = Some(Turn {
                client: place.client,
                mark: place.mark,
                spent: 0,
            });
        }
        self.current.as_ref().map(|turn| turn.client)
    }

    /// The next client submitted `cost` bytes. Returns whether its turn is over.
    pub(super) fn spend(&mut self, cost: usize) -> bool {
        let turn = self.current.as_mut();
        turn.is_none_or(|turn| {
            turn.spent += cost;
            turn.spent >= TURN
        })
    }

    /// The turn under way is over; if the client has `more` requests it waits for another. Returns
    /// its mark.
    pub(super) fn end(&mut self, more: bool) -> Mark {
        let turn = self.current.take()?;
        let mark = turn.mark + turn.spent as u64;
        if more {
            self.wait(turn.client, mark, mark, true);
        }
        Some(mark)
    }

    /// The mark of a client that submitted `cost` bytes out of turn.
    pub(super) fn charged(&self, mark: Mark, cost: usize) -> Mark {
        Some(mark.unwrap_or(0).max(self.present) + cost as u64)
    }

    /// Takes out a client that has no requests any more.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.current.take_if(|turn| turn.client == client);
        self.waiting.retain(|place| place.client != client);
    }

    /// Whether no client waits or has its turn.
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty()
    }

    fn wait(&mut self, client: ClientId, start: u64, mark: u64, again: bool) {
        self.places += 1;
        self.waiting.insert(Place {
            start,
            again,
            number: self.places,
            client,
            mark,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Clients whose messages have one length each.
    #[derive(Default)]
    struct Crowd {
        turns: Turns,
        marks: BTreeMap<ClientId, Mark>,
        lengths: BTreeMap<ClientId, usize>,
        submitted: BTreeMap<ClientId, usize>,
    }

    impl Crowd {
        fn come(&mut self, client: u64, len: usize) {
            let client = ClientId(client);
            self.lengths.insert(client, len);
            self.turns.enter(client, self.mark(client));
        }

        fn mark(&self, client: ClientId) -> Mark {
            self.marks.get(&client).copied().flatten()
        }

        /// The next message, after which its client has `more` or not; whose it is.
        fn submit(&mut self, more: impl Fn(ClientId) -> bool) -> ClientId {
            let client = self.turns.next().expect("clients wait");
            let len = self.lengths[&client];
            *self.submitted.entry(client).or_default() += len;
            let more = more(client);
            if self.turns.spend(len) || !more {
                let mark = self.turns.end(more);
                self.marks.insert(client, mark);
            }
            client
        }
    }

    #[test]
    fn a_client_with_one_message_waits_for_the_rest_of_one_turn() {
        let (lone, greedy) = (ClientId(1), 2..=14);
        let mut crowd = Crowd::default();
        crowd.come(1, 200);
        assert_eq!(crowd.submit(|_| false), lone);
        greedy.for_each(|client| crowd.come(client, 1_000));
        for round in 0..200 {
            // The lone one comes in all places of the turns of others.
            for _ in 0..round {
                assert_ne!(crowd.submit(|_| true), lone);
            }
            crowd.come(1, 200);
            let before = (0..).take_while(|_| crowd.submit(|client| client != lone) != lone);
            assert!(before.count() <= TURN.div_ceil(1_000));
        }
    }

    #[test]
    fn a_long_message_is_paid_for_by_waiting() {
        let mut crowd = Crowd::default();
        crowd.come(1, 1 << 20);
        crowd.come(2, 100);
        for _ in 0..50_000 {
            crowd.submit(|_| true);
        }
        let [long, short] = [1, 2].map(|client| crowd.submitted[&ClientId(client)]);
        assert!(long.abs_diff(short) <= (1 << 20) + TURN, "{long}, {short}");
    }

    #[test]
    fn those_who_come_and_go_do_not_keep_others_from_their_turns() {
        let mut crowd = Crowd::default();
        crowd.come(0, 50_000);
        crowd.submit(|_| true);
        for client in 1..=100 {
            crowd.come(client, 50_000);
            if crowd.submit(|client| client == ClientId(0)) == ClientId(0) {
                return;
            }
        }
        panic!("a hundred newcomers went before one that had waited");
    }

    #[test]
    fn who_is_forgotten_has_no_turn() {
        let mut turns = Turns::default();
        (1..=3).for_each(|client| turns.enter(ClientId(client), None));
        assert_eq!(turns.next(), Some(ClientId(1)));
        turns.forget(ClientId(1));
        turns.forget(ClientId(2));
        assert_eq!(turns.next(), Some(ClientId(3)));
        turns.end(false);
        assert!(turns.is_empty());
    }

    proptest! {
        /// Those that always have messages differ by a turn and a message at most.
        #[test]
        fn shares_are_equal(lengths in prop::collection::vec(1usize..20_000, 2..12), steps in 1usize..3_000) {
            let mut crowd = Crowd::default();
            for (client, len) in (1..).zip(&lengths) {
                crowd.come(client, *len);
            }
            for _ in 0..steps {
                crowd.submit(|_| true);
            }
            let of = |client: &ClientId| crowd.submitted.get(client).copied().unwrap_or(0);
            let most = crowd.lengths.keys().map(of).max();
            let least = crowd.lengths.keys().map(of).min();
            let longest = lengths.iter().max().expect("there are some");
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= TURN + longest));
        }
    }
}
