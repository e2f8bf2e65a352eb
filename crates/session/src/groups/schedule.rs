//! The clients that the daemon has to attend to: to write to them, to close their connections, or
//! because their deadline has passed.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::Time;

use super::ClientId;
use super::congestion::Congestion;

/// Clients that the daemon has to attend to, by what is to be done.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// Clients with output, or with reports that become output when it is asked for.
    pub(super) ready: BTreeSet<ClientId>,
    /// Clients that are too slow, and the publishers that are held back for them.
    pub(super) congestion: Congestion,
    /// Their disk may have something to do.
    pub(super) spilling: BTreeSet<ClientId>,
    /// What their disk has is of no use any more.
    pub(super) spilled: BTreeSet<ClientId>,
    /// Their connection has to be closed.
    pub(super) closable: BTreeSet<ClientId>,
    pub(super) deadlines: Deadlines,
}

/// The timers of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    /// When to end a connection whose hello has not come, whose client takes too little, or whose
    /// last frame was not taken.
    Connection,
    /// When to check whether the unfinished frame has come whole.
    Frame,
}

impl Schedule {
    /// Forgets the connection of `client`. The caller releases the publishers that are held back
    /// for it.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.congestion.forget(client);
        self.deadlines.set(client, Timer::Connection, None);
        self.deadlines.set(client, Timer::Frame, None);
        self.ready.remove(&client);
        self.closable.remove(&client);
    }
}

/// The deadlines of clients: at most one for each client and timer.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_time: BTreeSet<(Time, ClientId, Timer)>,
    by_client: BTreeMap<(ClientId, Timer), Time>,
}

impl Deadlines {
    /// Replaces a deadline of `client`.
    pub(super) fn set(&mut self, client: ClientId, timer: Timer, at: Option<Time>) {
        let old = match at {
            Some(at) => self.by_client.insert((client, timer), at),
            None => self.by_client.remove(&(client, timer)),
        };
        if let Some(old) = old {
            self.by_time.remove(&(old, client, timer));
        }
        if let Some(at) = at {
            self.by_time.insert((at, client, timer));
        }
    }

    /// Whether `client` has a deadline for `timer`.
    pub(super) fn is_set(&self, client: ClientId, timer: Timer) -> bool {
        self.by_client.contains_key(&(client, timer))
    }

    /// The next deadline.
    pub(super) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(at, ..)| *at)
    }

    /// Takes the next client whose deadline has passed.
    pub(super) fn take_due(&mut self, now: Time) -> Option<(ClientId, Timer)> {
        let (at, client, timer) = *self.by_time.first()?;
        if at > now {
            return None;
        }
        self.set(client, timer, None);
        Some((client, timer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_one_deadline_a_timer_and_it_comes_once() {
        let mut deadlines = Deadlines::default();
        let at = Time::from_millis;
        deadlines.set(ClientId(1), Timer::Frame, Some(at(5)));
        deadlines.set(ClientId(2), Timer::Frame, Some(at(3)));
        deadlines.set(ClientId(1), Timer::Frame, Some(at(2)));
        deadlines.set(ClientId(1), Timer::Connection, Some(at(4)));
        assert_eq!(deadlines.next(), Some(at(2)));
        assert_eq!(deadlines.take_due(at(1)), None);
        let due = Some((ClientId(1), Timer::Frame));
        assert_eq!(deadlines.take_due(at(4)), due);
        assert!(!deadlines.is_set(ClientId(1), Timer::Frame));
        deadlines.set(ClientId(2), Timer::Frame, None);
        let due = Some((ClientId(1), Timer::Connection));
        assert_eq!(deadlines.take_due(at(9)), due);
        assert_eq!(deadlines.take_due(at(9)), None);
        assert_eq!(deadlines.next(), None);
    }
}
