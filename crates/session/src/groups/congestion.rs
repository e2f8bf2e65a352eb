//! Clients that take their messages too slowly, and which publishers are held back for each.
//!
//! A publisher is held back from its first message to a client that is too slow until that client
//! has caught up; publishers to other clients go on. Only publishers of this daemon are known here.

use std::collections::{BTreeMap, BTreeSet};

use super::ClientId;

/// The clients that are too slow, and the publishers that are held back.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    /// The slow clients, each with the publishers that are held back for it.
    slow: BTreeMap<ClientId, BTreeSet<ClientId>>,
    /// For how many slow clients each publisher is held back.
    held: BTreeMap<ClientId, usize>,
}

impl Congestion {
    /// `client` is too slow from now on; false if it was already.
    pub(super) fn begin(&mut self, client: ClientId) -> bool {
        let new = !self.slow.contains_key(&client);
        if new {
            self.slow.insert(client, BTreeSet::new());
        }
        new
    }

    /// A message of `publisher` came to `client`, which may be too slow. Returns whether
    /// `publisher` is the first that is held back for it.
    pub(super) fn fed(&mut self, client: ClientId, publisher: ClientId) -> bool {
        let Some(publishers) = self.slow.get_mut(&client) else {
            return false;
        };
        let new = publishers.insert(publisher);
        if new {
            *self.held.entry(publisher).or_default() += 1;
        }
        new && publishers.len() == 1
    }

    /// `client` has caught up, or is gone. Returns the publishers that nothing holds back any more;
    /// `None` if `client` was not slow.
    pub(super) fn end(&mut self, client: ClientId) -> Option<Vec<ClientId>> {
        let publishers = self.slow.remove(&client)?.into_iter();
        Some(publishers.filter(|id| self.release(*id)).collect())
    }

    /// `client` is gone: it publishes nothing more.
    pub(super) fn forget(&mut self, client: ClientId) {
        if self.held.remove(&client).is_some() {
            for publishers in self.slow.values_mut() {
                publishers.remove(&client);
            }
        }
    }

    /// The clients that are too slow.
    pub(super) fn slow(&self) -> Vec<ClientId> {
        self.slow.keys().copied().collect()
    }

    /// Whether publishers are held back for `client`.
    pub(super) fn holds_back(&self, client: ClientId) -> bool {
        let publishers = self.slow.get(&client);
        publishers.is_some_and(|publishers| !publishers.is_empty())
    }

    /// Whether `client` is too slow.
    pub(super) fn is_slow(&self, client: ClientId) -> bool {
        self.slow.contains_key(&client)
    }

    /// Whether `publisher` is held back: it gets no credit back for now.
    pub(super) fn is_held_back(&self, publisher: ClientId) -> bool {
        self.held.contains_key(&publisher)
    }

    /// One slow client less holds `publisher` back; returns whether that was the last.
    fn release(&mut self, publisher: ClientId) -> bool {
        let Some(count) = self.held.get_mut(&publisher) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.held.remove(&publisher);
        }
        !self.held.contains_key(&publisher)
    }
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
}
