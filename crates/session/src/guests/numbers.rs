//! The table of guests' numbers: for each guest the highest number of a request that came in the
//! order, so that no request is carried out twice.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::MemberId;

use super::Party;

/// The most guests in the table.
pub const GUESTS_MAX: usize = 8_192;
/// The most guests in the table whose home is at one daemon.
pub const GUESTS_PER_DAEMON_MAX: usize = 1_024;

/// A guest: the random bits by which it is known across connections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GuestId(pub u64);

/// A guest in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Its highest number.
    pub(super) last: u64,
    /// The numbers up to `last` of which no daemon here knows whether they came.
    pub(super) blank: Option<Blank>,
    /// The place in the order of the guest's last request.
    pub(super) at: u64,
    /// The guest's client that made its last request; if that one has gone, another one that is
    /// there.
    pub(super) home: Party,
    /// Whether the client `home` is there.
    pub(super) present: bool,
}

/// A range of numbers that may have come in another part of the network, and were not admitted
/// here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blank {
    /// The numbers are above this one.
    pub(crate) above: u64,
    /// The last number of the range.
    pub(crate) upto: u64,
}

/// The table's decision on a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// It is new, and carried out.
    New,
    /// It came before.
    Repeated,
    /// It may have been carried out elsewhere.
    Unknown,
    /// There is no room for its guest.
    Full,
}

/// The fields of a request that the table needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbered {
    pub(super) guest: GuestId,
    pub(super) number: u64,
    /// The highest number that the guest had used in earlier connections.
    pub(super) floor: u64,
    /// It asks for a handler.
    pub(super) handled: bool,
    /// Other parts of the network may have it at the same place.
    pub(super) split: bool,
}

/// The table. It changes with the agreed order alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    entries: BTreeMap<GuestId, Entry>,
    /// The guest that each client is, and the clients of each guest: a guest may have several, of
    /// which one may be about to disconnect.
    by_client: BTreeMap<Party, GuestId>,
    clients: BTreeMap<GuestId, BTreeSet<Party>>,
    by_daemon: BTreeMap<MemberId, usize>,
}

impl Numbers {
    /// A request of the client `home` has come at `at` in the order.
    pub(super) fn admit(&mut self, at: u64, home: Party, request: Numbered) -> Admission {
        let Numbered {
            guest,
            number,
            floor,
            handled,
            split,
        } = request;
        let repeats = number <= floor;
        // Another part may have another holder, who answers it.
        let elsewhere = handled && (repeats || split);
        let Some(known) = self.entries.get(&guest).copied() else {
            if !self.make_room(home.daemon) {
                return Admission::Full;
            }
            let mut entry = Entry::new(floor.max(number), at, home);
            entry.blank = Blank::of(0, if elsewhere { entry.last } else { floor });
            self.set(guest, entry);
            return match repeats || elsewhere {
                true => Admission::Unknown,
                false => Admission::New,
            };
        };
        let mut entry = Entry::new(known.last.max(number), at, home);
        entry.blank = known.blank;
        let admission = if known.is_blank(number) {
            Admission::Unknown
        } else if number <= known.last {
            Admission::Repeated
        } else if elsewhere {
            entry.blank = Blank::of(known.reach(), number);
            Admission::Unknown
        } else {
            Admission::New
        };
        if home.daemon != known.home.daemon && !self.make_room_at(home.daemon) {
            if admission == Admission::New {
                return Admission::Full;
            }
            (entry.home, entry.present) = (known.home, known.present);
        }
        self.set(guest, entry);
        admission
    }

    /// The client has disconnected. Its guest stays in the table: as present if it has another
    /// client, else as absent.
    pub(super) fn client_gone(&mut self, party: Party) {
        let Some(guest) = self.by_client.remove(&party) else {
            return;
        };
        let mut other = None;
        if let Some(clients) = self.clients.get_mut(&guest) {
            clients.remove(&party);
            other = clients.last().copied();
            if clients.is_empty() {
                self.clients.remove(&guest);
            }
        }
        let Some(mut entry) = self.entries.get(&guest).copied() else {
            return;
        };
        if entry.home != party {
            return;
        }
        match other {
            Some(other) if other.daemon == party.daemon || self.make_room_at(other.daemon) => {
                entry.home = other;
            }
            _ => entry.present = false,
        }
        self.set(guest, entry);
    }

    /// All guests.
    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = (GuestId, Entry)> {
        self.entries.iter().map(|(guest, entry)| (*guest, *entry))
    }

    /// Merges the tables of several daemons: takes for each guest the highest number, the range
    /// that is blank in all tables, and the newest home. A guest whose home is not `there` is
    /// absent.
    pub(super) fn merge(
        parts: impl Iterator<Item = (GuestId, Entry)>,
        there: impl Fn(Party) -> bool,
    ) -> Self {
        let mut merged: BTreeMap<GuestId, Entry> = BTreeMap::new();
        for (guest, mut entry) in parts {
            entry.present &= there(entry.home);
            let known = merged.entry(guest).or_insert(entry);
            let last = known.last.max(entry.last);
            let blanks = [known.blank, entry.blank].into_iter().flatten();
            let upto = blanks.map(|blank| blank.upto).max().unwrap_or_default();
            let blank = Blank::of(known.reach().max(entry.reach()), upto);
            let rank = |entry: &Entry| (entry.present, entry.at, entry.home);
            if rank(&entry) > rank(known) {
                *known = entry;
            }
            (known.last, known.blank) = (last, blank);
        }
        let mut table = Self::default();
        for (guest, entry) in merged {
            table.set(guest, entry);
        }
        let daemons: Vec<_> = table.by_daemon.keys().copied().collect();
        for daemon in daemons {
            while table.count(daemon) > GUESTS_PER_DAEMON_MAX && table.forget(Some(daemon)) {}
        }
        while table.entries.len() > GUESTS_MAX && table.forget(None) {}
        table
    }

    fn count(&self, daemon: MemberId) -> usize {
        self.by_daemon.get(&daemon).copied().unwrap_or_default()
    }

    /// Makes room for one more guest of `daemon`; returns whether there is room.
    fn make_room(&mut self, daemon: MemberId) -> bool {
        if self.count(daemon) >= GUESTS_PER_DAEMON_MAX {
            return self.forget(Some(daemon));
        }
        self.entries.len() < GUESTS_MAX || self.forget(None)
    }

    /// Makes room for a guest that moves to `daemon`; returns whether there is room.
    fn make_room_at(&mut self, daemon: MemberId) -> bool {
        self.count(daemon) < GUESTS_PER_DAEMON_MAX || self.forget(Some(daemon))
    }

    /// Forgets the absent guest, of `daemon` or of any daemon, whose last request is oldest;
    /// returns whether there was one.
    fn forget(&mut self, daemon: Option<MemberId>) -> bool {
        let entries = self.entries.iter();
        let gone = entries.filter(|(_, entry)| {
            !entry.present && daemon.is_none_or(|daemon| entry.home.daemon == daemon)
        });
        let oldest = gone.min_by_key(|(guest, entry)| (entry.at, **guest));
        let Some(guest) = oldest.map(|(guest, _)| *guest) else {
            return false;
        };
        self.remove(guest);
        true
    }

    fn set(&mut self, guest: GuestId, entry: Entry) {
        self.uncount(guest);
        *self.by_daemon.entry(entry.home.daemon).or_default() += 1;
        self.entries.insert(guest, entry);
        if entry.present && self.by_client.get(&entry.home) != Some(&guest) {
            // A client is one guest at a time, so it is not the former one any more.
            self.client_gone(entry.home);
            self.by_client.insert(entry.home, guest);
            self.clients.entry(guest).or_default().insert(entry.home);
        }
    }

    fn remove(&mut self, guest: GuestId) {
        self.uncount(guest);
        for client in self.clients.remove(&guest).into_iter().flatten() {
            self.by_client.remove(&client);
        }
    }

    /// Removes a guest's entry, and takes it out of its daemon's count.
    fn uncount(&mut self, guest: GuestId) {
        let Some(entry) = self.entries.remove(&guest) else {
            return;
        };
        let daemon = entry.home.daemon;
        if let Some(count) = self.by_daemon.get_mut(&daemon) {
            *count -= 1;
            if *count == 0 {
                self.by_daemon.remove(&daemon);
            }
        }
    }
}

impl Entry {
    fn new(last: u64, at: u64, home: Party) -> Self {
        Self {
            last,
            blank: None,
            at,
            home,
            present: true,
        }
    }

    fn is_blank(&self, number: u64) -> bool {
        let blank = self.blank;
        blank.is_some_and(|blank| blank.above < number && number <= blank.upto)
    }

    /// The number up to which it is known of every number whether it came.
    fn reach(&self) -> u64 {
        self.blank.map_or(self.last, |blank| blank.above)
    }
}

impl Blank {
    fn of(above: u64, upto: u64) -> Option<Self> {
        (above < upto).then_some(Self { above, upto })
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    fn home(daemon: u64, client: u64) -> Party {
        Party {
            daemon: MemberId {
                node: NodeId(daemon),
                incarnation: Incarnation(1),
            },
            client,
        }
    }

    fn plain(guest: u64, number: u64, floor: u64) -> Numbered {
        Numbered {
            guest: GuestId(guest),
            number,
            floor,
            handled: false,
            split: false,
        }
    }

    #[test]
    fn a_number_is_admitted_once() {
        let mut table = Numbers::default();
        let one = home(1, 1);
        assert_eq!(table.admit(1, one, plain(7, 1, 0)), Admission::New);
        assert_eq!(table.admit(2, one, plain(7, 1, 0)), Admission::Repeated);
        assert_eq!(table.admit(3, one, plain(7, 3, 0)), Admission::New);
        assert_eq!(table.admit(4, one, plain(7, 2, 0)), Admission::Repeated);
        let other = home(2, 9);
        assert_eq!(table.admit(5, other, plain(7, 3, 4)), Admission::Repeated);
        assert_eq!(table.admit(6, other, plain(7, 4, 4)), Admission::New);
    }

    #[test]
    fn what_was_asked_before_is_unknown_where_the_guest_is_or_a_handler_is_asked() {
        let mut table = Numbers::default();
        let one = home(1, 1);
        for (at, number) in [(1, 2), (2, 3), (3, 2)] {
            let admission = table.admit(at, one, plain(7, number, 3));
            assert_eq!(admission, Admission::Unknown, "{number} never came here");
        }
        assert_eq!(table.admit(4, one, plain(7, 4, 3)), Admission::New);
        assert_eq!(table.admit(5, one, plain(7, 3, 4)), Admission::Unknown);
        assert_eq!(table.admit(6, one, plain(7, 4, 4)), Admission::Repeated);
        let handled = Numbered {
            handled: true,
            ..plain(7, 5, 5)
        };
        assert_eq!(table.admit(7, one, handled), Admission::Unknown);
        assert_eq!(table.admit(8, one, handled), Admission::Unknown);
        let handled = Numbered {
            number: 6,
            ..handled
        };
        assert_eq!(table.admit(9, one, handled), Admission::New);
        assert_eq!(table.admit(10, one, plain(7, 5, 6)), Admission::Unknown);
        assert_eq!(table.admit(11, one, plain(7, 6, 6)), Admission::Repeated);
    }

    #[test]
    fn a_request_for_a_handler_is_unknown_where_the_network_has_split() {
        let one = home(1, 1);
        let split = |guest, number, handled| Numbered {
            handled,
            split: true,
            ..plain(guest, number, 0)
        };
        let mut table = Numbers::default();
        assert_eq!(table.admit(1, one, split(7, 1, false)), Admission::New);
        assert_eq!(table.admit(2, one, split(7, 2, true)), Admission::Unknown);
        // It is not carried out when it is repeated either.
        assert_eq!(table.admit(3, one, plain(7, 2, 2)), Admission::Unknown);
        assert_eq!(table.admit(4, one, plain(7, 3, 2)), Admission::New);
        let mut other = Numbers::default();
        assert_eq!(other.admit(5, one, split(8, 1, true)), Admission::Unknown);
        assert_eq!(other.admit(6, one, plain(8, 1, 1)), Admission::Unknown);
    }

    #[test]
    fn what_is_unknown_to_one_table_is_known_to_another() {
        let mut whole = Numbers::default();
        for number in 1..=4 {
            let admission = whole.admit(number, home(1, 1), plain(7, number, 0));
            assert_eq!(admission, Admission::New);
        }
        let mut late = Numbers::default();
        let other = home(2, 1);
        let admission = late.admit(9, other, plain(7, 4, 5));
        assert_eq!(admission, Admission::Unknown);
        let both = whole.entries().chain(late.entries());
        let mut table = Numbers::merge(both, |_| true);
        assert_eq!(table.admit(10, other, plain(7, 4, 5)), Admission::Repeated);
        assert_eq!(table.admit(11, other, plain(7, 5, 5)), Admission::Unknown);
        assert_eq!(table.admit(12, other, plain(7, 6, 5)), Admission::New);
    }

    #[test]
    fn a_daemon_has_its_share_and_only_who_is_gone_is_forgotten() {
        let mut table = Numbers::default();
        let share = GUESTS_PER_DAEMON_MAX as u64;
        for guest in 0..share {
            let admission = table.admit(guest, home(1, guest), plain(guest, 1, 0));
            assert_eq!(admission, Admission::New);
        }
        let late = || plain(share, 1, 0);
        let newcomer = home(1, share);
        assert_eq!(table.admit(share, newcomer, late()), Admission::Full);
        assert_eq!(table.admit(share, home(2, 1), late()), Admission::New);
        table.client_gone(home(1, 5));
        table.client_gone(home(1, 3));
        let next = plain(share + 1, 1, 0);
        assert_eq!(table.admit(share, newcomer, next), Admission::New);
        let known = |guest| table.entries().any(|(id, _)| id == GuestId(guest));
        assert!(
            !known(3) && known(5),
            "the one that asked first is forgotten"
        );
    }

    #[test]
    fn a_guest_is_there_as_long_as_one_of_its_clients_is() {
        let mut table = Numbers::default();
        let (old, new) = (home(1, 1), home(2, 1));
        assert_eq!(table.admit(1, old, plain(7, 1, 0)), Admission::New);
        assert_eq!(table.admit(2, new, plain(7, 2, 1)), Admission::New);
        // A copy that was on its way over the old connection.
        assert_eq!(table.admit(3, old, plain(7, 1, 0)), Admission::Repeated);
        table.client_gone(old);
        let of = |table: &Numbers| table.entries().next().unwrap().1;
        assert_eq!((of(&table).home, of(&table).present), (new, true));
        assert_eq!((table.count(old.daemon), table.count(new.daemon)), (0, 1));
        table.client_gone(new);
        assert!(!of(&table).present);
        assert!(table.by_client.is_empty() && table.clients.is_empty());
    }

    #[test]
    fn a_guest_that_moves_counts_for_the_daemon_that_it_moves_to() {
        let mut table = Numbers::default();
        let share = GUESTS_PER_DAEMON_MAX as u64;
        for guest in 0..share {
            let admission = table.admit(guest, home(1, guest), plain(guest, 1, 0));
            assert_eq!(admission, Admission::New);
        }
        let (there, here) = (home(2, 1), home(1, share));
        let mover = |number, floor| plain(share, number, floor);
        assert_eq!(table.admit(share, there, mover(1, 0)), Admission::New);
        assert_eq!(table.admit(share, here, mover(1, 1)), Admission::Repeated);
        assert_eq!(table.admit(share, here, mover(2, 1)), Admission::Full);
        assert_eq!(table.count(here.daemon), GUESTS_PER_DAEMON_MAX);
        table.client_gone(home(1, 5));
        assert_eq!(table.admit(share, here, mover(2, 1)), Admission::New);
        assert_eq!(table.count(here.daemon), GUESTS_PER_DAEMON_MAX);
        assert_eq!(table.count(there.daemon), 0);
    }

    #[test]
    fn parts_together_know_the_highest_number_and_stay_within_the_limits() {
        let entry = |last, at, home, present| Entry {
            last,
            blank: None,
            at,
            home,
            present,
        };
        let ours = (GuestId(1), entry(5, 10, home(1, 1), true));
        let theirs = (GuestId(1), entry(7, 9, home(2, 1), false));
        let table = Numbers::merge([ours, theirs].into_iter(), |_| true);
        let merged = table.entries().next().unwrap().1;
        assert_eq!(merged, entry(7, 10, home(1, 1), true));
        let many = (0..3 * GUESTS_MAX as u64).map(|guest| {
            let home = home(guest % 30, guest);
            (GuestId(guest), entry(1, guest, home, true))
        });
        let table = Numbers::merge(many, |_| false);
        assert!(table.entries().len() <= GUESTS_MAX);
    }
}
