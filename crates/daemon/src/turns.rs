//! Queues of clients for turns, each in them at most once.

use std::collections::{BTreeSet, VecDeque};

use groupcast_session::ClientId;

/// The queue.
#[derive(Default)]
pub(crate) struct Turns {
    queue: VecDeque<ClientId>,
    /// The clients in the queue, to find them.
    known: BTreeSet<ClientId>,
}

impl Turns {
    /// Puts `id` at the end, unless it is in the queue.
    pub(crate) fn push(&mut self, id: ClientId) {
        if self.known.insert(id) {
            self.queue.push_back(id);
        }
    }

    /// Takes the client whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<ClientId> {
        let id = self.queue.pop_front()?;
        self.known.remove(&id);
        Some(id)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The clients that wait, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ClientId> {
        self.queue.iter().copied()
    }
}

/// The queue for reading. Clients that took much of the loop's time when they were read last are
/// read after the others, so that a client that sends a little now and then does not wait for those
/// that send without end.
#[derive(Default)]
pub(crate) struct ReadTurns {
    light: Turns,
    heavy: Turns,
    /// The clients that took much when they were read last.
    took_much: BTreeSet<ClientId>,
}

impl ReadTurns {
    /// There is something to read from `id`. It keeps its place if it waits already.
    pub(crate) fn push(&mut self, id: ClientId) {
        match self.took_much.contains(&id) {
            true => self.heavy.push(id),
            false => self.light.push(id),
        }
    }

    /// Notes whether `id`, which was read and does not wait, took much.
    pub(crate) fn note(&mut self, id: ClientId, took_much: bool) {
        match took_much {
            true => self.took_much.insert(id),
            false => self.took_much.remove(&id),
        };
    }

    /// The client is gone. Its place is skipped when its turn comes.
    pub(crate) fn forget(&mut self, id: ClientId) {
        self.took_much.remove(&id);
    }

    /// Takes the client whose turn it is; a light one only if `light`.
    pub(crate) fn pop(&mut self, light: bool) -> Option<ClientId> {
        let first = match light {
            true => self.light.pop(),
            false => None,
        };
        first.or_else(|| self.heavy.pop())
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.light.len() + self.heavy.len()
    }

    /// How many clients took much when they were read last.
    #[cfg(test)]
    pub(crate) fn len_took_much(&self) -> usize {
        self.took_much.len()
    }

    /// How many of those that wait took much.
    pub(crate) fn len_heavy(&self) -> usize {
        self.heavy.len()
    }

    /// The clients that wait, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ClientId> {
        self.light.iter().chain(self.heavy.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_took_much_waits_behind_the_others() {
        let mut turns = ReadTurns::default();
        for id in [1, 2] {
            turns.note(ClientId(id), true);
        }
        for id in [1, 2, 3, 1] {
            turns.push(ClientId(id));
        }
        assert_eq!(turns.iter().map(|id| id.0).collect::<Vec<_>>(), [3, 1, 2]);
        assert_eq!((turns.len(), turns.len_heavy()), (3, 2));
        assert_eq!(turns.pop(false), Some(ClientId(1)));
        assert_eq!(turns.pop(true), Some(ClientId(3)));
        assert_eq!(turns.pop(true), Some(ClientId(2)));
        assert_eq!(turns.pop(true), None);
        turns.note(ClientId(1), false);
        turns.push(ClientId(1));
        assert_eq!(turns.len_heavy(), 0);
    }

    #[test]
    fn each_waits_once_and_comes_in_order() {
        let mut turns = Turns::default();
        for id in [3, 1, 3, 2] {
            turns.push(ClientId(id));
        }
        assert_eq!(turns.iter().map(|id| id.0).collect::<Vec<_>>(), [3, 1, 2]);
        assert_eq!(turns.pop(), Some(ClientId(3)));
        turns.push(ClientId(3));
        assert_eq!(turns.len(), 3);
        assert_eq!(turns.pop(), Some(ClientId(1)));
    }
}
