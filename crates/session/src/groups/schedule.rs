//! Which clients the daemon has to attend to: to write to them, to close them, or because their
//! time is up.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::Time;

use super::ClientId;

/// Clients that wait for something to be done, by what it is.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// They have output, or will once it is asked for.
    pub(super) ready: BTreeSet<ClientId>,
    /// Publishers are held back for them.
    pub(super) congested: BTreeSet<ClientId>,
    /// Their connection has to be closed.
    pub(super) closable: BTreeSet<ClientId>,
    pub(super) deadlines: Deadlines,
}

impl Schedule {
    /// Forgets the connection of `client`. Whether publishers are held back for it is for the
    /// caller to settle.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.deadlines.set(client, None);
        self.ready.remove(&client);
        self.closable.remove(&client);
    }
}

/// When to act for a client if nothing has happened; at most one time each.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_time: BTreeSet<(Time, ClientId)>,
    by_client: BTreeMap<ClientId, Time>,
}

impl Deadlines {
    /// Replaces the deadline of `client`.
    pub(super) fn set(&mut self, client: ClientId, at: Option<Time>) {
        let old = match at {
            Some(at) => self.by_client.insert(client, at),
            None => self.by_client.remove(&client),
        };
        if let Some(old) = old {
            self.by_time.remove(&(old, client));
        }
        if let Some(at) = at {
            self.by_time.insert((at, client));
        }
    }

    /// The next deadline.
    pub(super) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes the next client whose deadline has passed.
    pub(super) fn take_due(&mut self, now: Time) -> Option<ClientId> {
        let (at, client) = *self.by_time.first()?;
        if at > now {
            return None;
        }
        self.set(client, None);
        Some(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_one_deadline_and_it_comes_once() {
        let mut deadlines = Deadlines::default();
        let at = Time::from_millis;
        deadlines.set(ClientId(1), Some(at(5)));
        deadlines.set(ClientId(2), Some(at(3)));
        deadlines.set(ClientId(1), Some(at(2)));
        assert_eq!(deadlines.next(), Some(at(2)));
        assert_eq!(deadlines.take_due(at(1)), None);
        assert_eq!(deadlines.take_due(at(4)), Some(ClientId(1)));
        deadlines.set(ClientId(2), None);
        assert_eq!(deadlines.take_due(at(9)), None);
        assert_eq!(deadlines.next(), None);
    }
}
