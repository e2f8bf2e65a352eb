//! Clients that take their messages too slowly, and which publishers are held back for each.
//!
//! A publisher is held back from its first message to a client that is too slow until that client
//! has caught up; publishers to other clients go on. Only publishers of this daemon are known here.
//!
//! A publisher that is held back gets no more credit, and goes on while it has some: where few
//! publish little, nobody else in the group waits. The windows of many publishers together may be
//! much. So once more than that waits for the client, its publishers are *stopped*: what they have
//! sent stays in the daemon.

use std::collections::{BTreeMap, BTreeSet};

use super::ClientId;

/// The clients that are too slow, and the publishers that are held back.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    slow: BTreeMap<ClientId, Slow>,
    /// For how many slow clients each publisher is held back.
    held: BTreeMap<ClientId, usize>,
    /// For how many of them it is stopped.
    stopped: BTreeMap<ClientId, usize>,
    /// Publishers may go on that were stopped.
    resumed: bool,
}

/// A slow client.
#[derive(Debug, Default)]
struct Slow {
    /// The publishers that are held back for it.
    publishers: BTreeSet<ClientId>,
    /// They are stopped.
    stops: bool,
}

impl Congestion {
    /// `client` is too slow from now on; false if it was already.
    pub(super) fn begin(&mut self, client: ClientId) -> bool {
        let new = !self.slow.contains_key(&client);
        if new {
            self.slow.insert(client, Slow::default());
        }
        new
    }

    /// So much waits for `client`, which is too slow, that its publishers are stopped.
    pub(super) fn stop(&mut self, client: ClientId) {
        let Some(slow) = self.slow.get_mut(&client) else {
            return;
        };
        if !std::mem::replace(&mut slow.stops, true) {
            for publisher in &slow.publishers {
                *self.stopped.entry(*publisher).or_default() += 1;
            }
        }
    }

    /// A message of `publisher` came to `client`, which may be too slow. Returns whether
    /// `publisher` is the first that is held back for it.
    pub(super) fn fed(&mut self, client: ClientId, publisher: ClientId) -> bool {
        let Some(slow) = self.slow.get_mut(&client) else {
            return false;
        };
        let new = slow.publishers.insert(publisher);
        if new {
            *self.held.entry(publisher).or_default() += 1;
            if slow.stops {
                *self.stopped.entry(publisher).or_default() += 1;
            }
        }
        new && slow.publishers.len() == 1
    }

    /// `client` has caught up, or is gone. Returns the publishers that nothing holds back any more;
    /// `None` if `client` was not slow.
    pub(super) fn end(&mut self, client: ClientId) -> Option<Vec<ClientId>> {
        let Slow { publishers, stops } = self.slow.remove(&client)?;
        if stops {
            for publisher in &publishers {
                self.resumed |= release(&mut self.stopped, *publisher);
            }
        }
        let held = &mut self.held;
        let released = publishers.into_iter().filter(|id| release(held, *id));
        Some(released.collect())
    }

    /// `client` is gone: it publishes nothing more.
    pub(super) fn forget(&mut self, client: ClientId) {
        if self.held.remove(&client).is_some() {
            for slow in self.slow.values_mut() {
                slow.publishers.remove(&client);
            }
        }
        self.resumed |= self.stopped.remove(&client).is_some();
    }

    /// The clients that are too slow.
    pub(super) fn slow(&self) -> Vec<ClientId> {
        self.slow.keys().copied().collect()
    }

    /// Whether publishers are held back for `client`.
    pub(super) fn holds_back(&self, client: ClientId) -> bool {
        let slow = self.slow.get(&client);
        slow.is_some_and(|slow| !slow.publishers.is_empty())
    }

    /// Whether `client` is too slow.
    pub(super) fn is_slow(&self, client: ClientId) -> bool {
        self.slow.contains_key(&client)
    }

    /// Whether `publisher` is held back: it gets no credit back for now.
    pub(super) fn is_held_back(&self, publisher: ClientId) -> bool {
        self.held.contains_key(&publisher)
    }

    /// Whether `publisher` is stopped: no more of its messages goes to the order.
    pub(super) fn is_stopped(&self, publisher: ClientId) -> bool {
        self.stopped.contains_key(&publisher)
    }

    /// Whether publishers may go on that were stopped.
    pub(super) fn has_resumed(&self) -> bool {
        self.resumed
    }

    /// The same, once.
    pub(super) fn take_resumed(&mut self) -> bool {
        std::mem::take(&mut self.resumed)
    }
}

/// One slow client less counts for `publisher`; returns whether that was the last.
fn release(counts: &mut BTreeMap<ClientId, usize>, publisher: ClientId) -> bool {
    let Some(count) = counts.get_mut(&publisher) else {
        return false;
    };
    *count -= 1;
    let is_last = *count == 0;
    if is_last {
        counts.remove(&publisher);
    }
    is_last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publisher_is_held_back_for_as_long_as_one_that_it_fed_is_slow() {
        let mut congestion = Congestion::default();
        let [slow, slower, al, bo] = [1, 2, 3, 4].map(ClientId);
        assert!(
            !congestion.fed(slow, al) && !congestion.is_held_back(al),
            "nobody is slow"
        );
        assert!(congestion.begin(slow) && congestion.begin(slower) && !congestion.begin(slow));
        assert!(!congestion.holds_back(slow));
        for (client, publisher, first) in [
            (slow, al, true),
            (slow, al, false),
            (slower, al, true),
            (slower, bo, false),
        ] {
            assert_eq!(congestion.fed(client, publisher), first);
        }
        assert!(congestion.holds_back(slow) && congestion.slow() == [slow, slower]);
        assert!(congestion.is_held_back(al) && congestion.is_held_back(bo));
        assert!(!congestion.is_held_back(slow));
        assert_eq!(congestion.end(slow), Some(vec![]));
        assert!(congestion.is_held_back(al), "the other is slow still");
        congestion.forget(bo);
        assert_eq!(congestion.end(slower), Some(vec![al]));
        assert_eq!(congestion.end(slower), None);
        assert!(!congestion.is_held_back(al) && !congestion.is_slow(slower));
    }

    #[test]
    fn publishers_are_stopped_where_much_waits_until_it_does_not() {
        let mut congestion = Congestion::default();
        let [slow, other, al, bo] = [1, 2, 3, 4].map(ClientId);
        congestion.stop(slow);
        assert!(congestion.begin(slow) && congestion.fed(slow, al));
        assert!(!congestion.is_stopped(al), "it has credit left");
        congestion.stop(slow);
        congestion.stop(slow);
        congestion.fed(slow, bo);
        assert!(congestion.is_stopped(al) && congestion.is_stopped(bo));
        congestion.begin(other);
        congestion.fed(other, al);
        congestion.stop(other);
        assert!(!congestion.has_resumed());
        assert_eq!(congestion.end(slow), Some(vec![bo]));
        assert!(congestion.take_resumed() && !congestion.take_resumed());
        assert!(congestion.is_stopped(al) && !congestion.is_stopped(bo));
        congestion.forget(al);
        assert!(congestion.take_resumed() && !congestion.is_stopped(al));
        assert_eq!(congestion.end(other), Some(vec![]));
        assert!(!congestion.has_resumed());
    }
}
