//! A queue of clients for turns, each in it at most once.

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

#[cfg(test)]
mod tests {
    use super::*;

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
