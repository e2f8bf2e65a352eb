//! Requests that members of this host were given and have not answered.

use std::collections::{BTreeMap, BTreeSet};

use super::GuestId;

/// The most requests that one member may leave unanswered. Beyond, it cannot answer its oldest any
/// more.
pub const ASKED_MAX: usize = 4_096;
/// The most requests that all members of this host may leave unanswered. Beyond, the member with
/// the most cannot answer its oldest any more.
pub const ASKED_ALL_MAX: usize = 262_144;

/// A request that a member was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Given {
    pub(super) guest: GuestId,
    pub(super) number: u64,
    pub(super) handler: Option<u16>,
}

/// The requests that members were given and have not answered.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// By client and the name of the request.
    given: BTreeMap<u64, BTreeMap<u64, Given>>,
    /// The clients by their number of requests.
    by_count: BTreeSet<(usize, u64)>,
    /// The number of all requests.
    all: usize,
}

impl Asked {
    pub(super) fn give(
        &mut self,
        client: u64,
        known_as: u64,
        (guest, number): (GuestId, u64),
        handler: Option<u16>,
    ) {
        let count = self.given.get(&client).map_or(0, BTreeMap::len);
        if count >= ASKED_MAX {
            self.change(client, BTreeMap::pop_first);
        } else if self.all >= ASKED_ALL_MAX
            && let Some((_, greatest)) = self.by_count.last().copied()
        {
            self.change(greatest, BTreeMap::pop_first);
        }
        let given = Given {
            guest,
            number,
            handler,
        };
        self.change(client, |of_client| of_client.insert(known_as, given));
    }

    /// Takes the request that the client was given as `known_as` and answers now; `None` if it has
    /// no such request.
    pub(super) fn take(&mut self, client: u64, known_as: u64) -> Option<Given> {
        self.change(client, |of_client| of_client.remove(&known_as))
    }

    /// Forgets the requests of a client that is gone.
    pub(super) fn forget(&mut self, client: u64) {
        self.change(client, BTreeMap::clear);
    }

    /// Changes the requests of a client, and counts them anew.
    fn change<T>(&mut self, client: u64, change: impl FnOnce(&mut BTreeMap<u64, Given>) -> T) -> T {
        let of_client = self.given.entry(client).or_default();
        let before = of_client.len();
        let result = change(of_client);
        let after = of_client.len();
        self.all = self.all - before + after;
        self.by_count.remove(&(before, client));
        match after {
            0 => drop(self.given.remove(&client)),
            _ => drop(self.by_count.insert((after, client))),
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_answers_few_keeps_them_however_many_others_leave_unanswered() {
        let mut asked = Asked::default();
        let key = (GuestId(1), 1);
        for seq in 0..10 {
            asked.give(0, seq, key, None);
        }
        let greedy = (ASKED_ALL_MAX / ASKED_MAX) as u64 + 3;
        for seq in 0..ASKED_MAX as u64 + 5 {
            for client in 1..=greedy {
                asked.give(client, seq, key, None);
            }
        }
        let counts = asked.given.values().map(BTreeMap::len);
        assert_eq!(
            (counts.sum::<usize>(), asked.all),
            (ASKED_ALL_MAX, ASKED_ALL_MAX)
        );
        assert!(asked.given.values().all(|it| it.len() <= ASKED_MAX));
        for seq in 0..10 {
            assert!(asked.take(0, seq).is_some());
        }
        assert!(asked.take(0, 0).is_none() && asked.take(1, 0).is_none());
        for client in 0..=greedy {
            asked.forget(client);
        }
        assert_eq!(asked.all, 0);
        assert!(asked.given.is_empty() && asked.by_count.is_empty());
    }
}
