//! The rests of clients: for how long each that made much work is not read.
//!
//! Rests pass one after the other, so that all clients together make no more work than one may.
//! They share the time by start-time fair queueing, as clients share an order
//! (`groupcast_session::groups`): each client has a *mark*, the rest that it has had, on a scale
//! that all share. The scale's present is where the last share began. The client that is first on
//! the scale rests next, for a [`SHARE`] at most, and one that comes back is next while its mark is
//! within a share of the present. So a client that rests briefly now and then does not wait for the
//! long rests of others, however many they are. A rest that nobody waits for moves the present
//! along. A client that has just connected begins one share behind: those that come and go without
//! end do not keep others from their rests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use groupcast_core::Time;
use groupcast_session::ClientId;

/// How long a client rests before the next one, if others wait.
const SHARE: Duration = Duration::from_millis(1);

/// The clients that rest, or wait to.
#[derive(Default)]
pub(crate) struct Rests {
    waiting: BTreeSet<Place>,
    current: Option<Current>,
    /// The places of those that wait, to find them.
    known: BTreeMap<ClientId, Place>,
    /// The mark of each connected client.
    marks: BTreeMap<ClientId, Duration>,
    /// Where the last share began.
    present: Duration,
    /// Places that were given.
    places: u64,
}

/// The place of a client that waits: the lowest is next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Where its next share begins.
    start: Duration,
    /// It has just had a share, or is new: those that come back go before it.
    again: bool,
    /// Of several that begin there, the one that came first is next.
    number: u64,
    client: ClientId,
    mark: Duration,
    /// The rest that it has to have.
    left: Duration,
}

/// The client whose rest passes.
#[derive(Clone, Copy)]
struct Current {
    client: ClientId,
    mark: Duration,
    left: Duration,
    /// How much of its share has passed at `since`.
    spent: Duration,
    since: Time,
}

impl Rests {
    /// The client has connected.
    pub(crate) fn connected(&mut self, client: ClientId) {
        self.marks.insert(client, self.present + 2 * SHARE);
    }

    /// The client is to rest for `time`, or for that much longer if it rests already.
    pub(crate) fn rest(&mut self, now: Time, client: ClientId, time: Duration) {
        self.pass(now);
        if let Some(current) = &mut self.current
            && current.client == client
        {
            current.left += time;
            return;
        }
        if let Some(place) = self.known.remove(&client) {
            self.waiting.remove(&place);
            let left = place.left + time;
            return self.wait(Place { left, ..place });
        }
        let mark = self.marks.get(&client).copied().unwrap_or_default();
        let start = self.present + mark.saturating_sub(self.present + SHARE);
        self.places += 1;
        self.wait(Place {
            start,
            again: start > self.present,
            number: self.places,
            client,
            mark: mark.max(self.present),
            left: time,
        });
        if self.current.is_none() {
            self.begin_next(now);
        }
    }

    /// The next client that has rested, if one has by `now`.
    pub(crate) fn take_rested(&mut self, now: Time) -> Option<ClientId> {
        loop {
            let end = self.due().filter(|end| *end <= now)?;
            self.pass(end);
            let Current {
                client,
                mark,
                left,
                spent,
                ..
            } = self.current.take()?;
            let mark = mark + spent;
            self.marks.insert(client, mark);
            if !left.is_zero() {
                self.places += 1;
                let number = self.places;
                self.wait(Place {
                    start: mark,
                    again: true,
                    number,
                    client,
                    mark,
                    left,
                });
            }
            self.begin_next(end);
            if left.is_zero() {
                return Some(client);
            }
        }
    }

    /// When to ask for the [next](Self::take_rested); `None` if nobody rests.
    pub(crate) fn due(&self) -> Option<Time> {
        let current = self.current.as_ref()?;
        let share = match self.waiting.is_empty() {
            true => current.left,
            false => current.left.min(SHARE.saturating_sub(current.spent)),
        };
        Some(current.since + share)
    }

    /// Whether the client rests, or waits to.
    pub(crate) fn contains(&self, client: ClientId) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|it| it.client == client) || self.known.contains_key(&client)
    }

    /// The client is gone.
    pub(crate) fn forget(&mut self, now: Time, client: ClientId) {
        self.marks.remove(&client);
        if let Some(place) = self.known.remove(&client) {
            self.waiting.remove(&place);
        }
        if self.current.take_if(|it| it.client == client).is_some() {
            self.begin_next(now);
        }
    }

    /// Whether nobody rests.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty()
    }

    fn wait(&mut self, place: Place) {
        self.waiting.insert(place);
        self.known.insert(place.client, place);
    }

    /// The time until `now` has passed.
    fn pass(&mut self, now: Time) {
        if let Some(current) = &mut self.current {
            let passed = (now - current.since).min(current.left);
            current.left -= passed;
            current.spent += passed;
            current.since = current.since.max(now);
            // Nobody waits for it, so it is not held against the client later.
            if self.waiting.is_empty() {
                let had = current.mark + current.spent;
                self.present = self.present.max(had.saturating_sub(SHARE));
            }
        }
    }

    fn begin_next(&mut self, since: Time) {
        let Some(place) = self.waiting.pop_first() else {
            return;
        };
        self.known.remove(&place.client);
        self.present = self.present.max(place.start);
        self.current = Some(Current {
            client: place.client,
            mark: place.mark,
            left: place.left,
            spent: Duration::ZERO,
            since,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    /// When each that rests has rested, in order.
    fn ends(rests: &mut Rests) -> Vec<(u64, Time)> {
        let mut ends = Vec::new();
        while let Some(due) = rests.due() {
            while let Some(client) = rests.take_rested(due) {
                ends.push((client.0, due));
            }
        }
        ends
    }

    #[test]
    fn rests_pass_one_after_the_other() {
        let mut rests = Rests::default();
        rests.rest(at(10), ClientId(1), 3 * MS);
        assert_eq!(rests.due(), Some(at(13)), "it is alone");
        rests.rest(at(11), ClientId(2), MS);
        rests.rest(at(11), ClientId(2), MS);
        assert!(rests.contains(ClientId(1)) && rests.contains(ClientId(2)));
        assert_eq!(ends(&mut rests), [(2, at(14)), (1, at(15))]);
        assert!(rests.is_empty() && rests.due().is_none());
        // The time between does not count.
        rests.rest(at(100), ClientId(2), 2 * MS);
        assert_eq!(ends(&mut rests), [(2, at(102))]);
    }

    #[test]
    fn who_rests_briefly_does_not_wait_for_the_long_rests_of_others() {
        let mut rests = Rests::default();
        let now = at(0);
        (0..1_000).for_each(|client| rests.connected(ClientId(client)));
        for client in 1..1_000 {
            rests.rest(now, ClientId(client), 5 * MS);
        }
        let brief = Duration::from_micros(80);
        // Once it waits for the shares of those that connected with it.
        let mut now = at(0);
        let mut waits = Vec::new();
        // Less than a share in all.
        for _ in 0..12 {
            let begun = now;
            rests.rest(now, ClientId(0), brief);
            while rests.contains(ClientId(0)) {
                now = rests.due().unwrap();
                while let Some(client) = rests.take_rested(now) {
                    if client != ClientId(0) {
                        rests.rest(now, client, 5 * MS);
                    }
                }
            }
            waits.push(now - begun);
            now += 10 * MS;
            while rests.take_rested(now).is_some() {}
        }
        assert!(waits[0] < 1_001 * MS, "{waits:?}");
        assert!(waits[1..].iter().all(|it| *it < 3 * MS), "{waits:?}");
    }

    #[test]
    fn those_who_come_and_go_do_not_keep_others_from_their_rests() {
        let mut rests = Rests::default();
        rests.connected(ClientId(0));
        rests.rest(at(0), ClientId(1), MS);
        rests.rest(at(0), ClientId(0), 10 * MS);
        for client in 2..=200 {
            rests.connected(ClientId(client));
            let now = rests.due().unwrap();
            rests.rest(now, ClientId(client), MS);
            while let Some(rested) = rests.take_rested(now) {
                rests.forget(now, rested);
                if rested == ClientId(0) {
                    return;
                }
            }
        }
        panic!("200 newcomers went before one that had waited");
    }

    #[test]
    fn of_who_is_gone_nothing_is_kept() {
        let mut rests = Rests::default();
        for client in 1..=3 {
            rests.connected(ClientId(client));
            rests.rest(at(0), ClientId(client), 5 * MS);
        }
        rests.forget(at(1), ClientId(1));
        rests.forget(at(1), ClientId(3));
        assert_eq!(ends(&mut rests), [(2, at(6))]);
        rests.forget(at(6), ClientId(2));
        assert!(rests.is_empty() && rests.known.is_empty() && rests.marks.is_empty());
    }

    #[test]
    fn a_long_rest_that_nobody_waited_for_is_not_held_against_a_client() {
        let mut rests = Rests::default();
        let alone = ClientId(1);
        rests.connected(alone);
        rests.rest(at(0), alone, 100 * MS);
        assert_eq!(ends(&mut rests), [(1, at(100))]);
        for other in 2..22 {
            rests.connected(ClientId(other));
            rests.rest(at(200), ClientId(other), 50 * MS);
        }
        rests.rest(at(201), alone, Duration::from_micros(80));
        let ends = ends(&mut rests);
        let (_, end) = ends[ends.iter().position(|it| it.0 == 1).unwrap()];
        assert!(end <= at(203), "{end:?}");
    }
}
