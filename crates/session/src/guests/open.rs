//! The open requests of this daemon's guests: the members that may still answer, the answers so
//! far, and the deadlines.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{MemberId, Time};

use super::{Effect, Ending, GuestId, Party};

/// The most open requests of one guest.
pub const OPEN_MAX: usize = 1_000;
/// The most weight of one guest's open requests: each counts for one, and for one more for each
/// member that it asked.
pub const AWAITED_PER_GUEST_MAX: usize = 65_536;
/// The most weight of the open requests of all guests of a daemon.
pub const AWAITED_MAX: usize = 524_288;
/// The most guests without a connection whose requests are kept.
const AWAY_MAX: usize = 64;
/// For how long the requests of such a guest are kept.
const AWAY_FOR: Duration = Duration::from_secs(60);
/// The most bytes of answers that are kept for such a guest.
const KEPT_MAX: usize = 1 << 20;
/// Many requests end in parts: those of about this weight at a time, which takes a few
/// milliseconds.
const END_AT_ONCE: usize = 2_048;

/// Why a request is refused, for people.
const TOO_MANY: &str = "1,000 requests of this guest are open: wait until some have ended";
const GUEST_AWAITS: &str = "the open requests of this guest wait for as many answers as they may: \
     wait until some have ended, or ask for shorter times";
const ALL_AWAIT: &str = "the open requests of this daemon's guests wait for as many answers as they \
     may: try later, or connect to another daemon";
const TABLE_FULL: &str = "the table of guests is full: try later";
/// Why a request ends that the order did not take.
pub(super) const NOT_TAKEN: &str = "what orders the messages did not take the request";

/// Why one ends that was under way when the host became another member of the order.
const BEGUN_ANEW: &str = "the daemon was another member of the group's ring, and begins there anew";

type Key = (GuestId, u64);

/// The wishes of a guest for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// How many answers are enough; 0 for those of all members that are asked.
    pub answers: u16,
    /// For how long the guest waits.
    pub within: Duration,
}

#[derive(Debug)]
struct Request {
    /// The connection of its guest; `None` while the guest is away.
    client: Option<u64>,
    wanted: u16,
    deadline: Time,
    /// How often the host had begun anew in the order when the request began.
    life: u64,
    /// Once it has come in the order.
    placed: Option<Placed>,
    /// How many of them may still answer.
    left: usize,
    answered: u32,
    /// Answers that came while its guest was away.
    kept: Vec<(Arc<str>, Bytes)>,
}

/// A request that has come in the order.
#[derive(Debug)]
struct Placed {
    group: Arc<str>,
    /// The members that it asked.
    asked: Vec<Party>,
    /// How many had come, this one included.
    number: u64,
}

impl Request {
    /// Its share of the limits of open requests.
    fn weight(&self) -> usize {
        1 + self.placed.as_ref().map_or(0, |it| it.asked.len())
    }

    /// Whether as many have answered as its guest wants.
    fn has_enough(&self) -> bool {
        match self.wanted {
            0 => self
                .placed
                .as_ref()
                .is_some_and(|it| self.answered as usize >= it.asked.len()),
            wanted => self.answered >= u32::from(wanted),
        }
    }
}

/// A guest of this daemon: its connections, and sums over its requests.
#[derive(Debug, Default)]
struct Guest {
    /// Its connections.
    clients: BTreeSet<u64>,
    open: usize,
    /// The weight of its open requests.
    weight: usize,
    /// How many of its requests have no connection.
    waiting: usize,
    kept: usize,
}

/// The open requests of this daemon's guests.
#[derive(Debug, Default)]
pub(super) struct Open {
    requests: BTreeMap<Key, Request>,
    guests: BTreeMap<GuestId, Guest>,
    /// The weight of all requests.
    weight: usize,
    deadlines: BTreeSet<(Time, Key)>,
    /// By member and group: the requests that it may still answer.
    awaited: BTreeMap<Party, BTreeMap<Arc<str>, BTreeSet<Key>>>,
    /// How many requests have come in the order.
    placed: u64,
    /// Requests that wait for a member that has gone, as of this many that had come: they are told
    /// in parts.
    gone: VecDeque<(u64, BTreeSet<Key>)>,
    /// How often the host has begun anew as another member of the order.
    life: u64,
    /// Requests of an earlier life end in parts: those from this one on may be left.
    ending: Option<Bound<Key>>,
    /// Guests that are away: requests of theirs have no connection. The first that went is first.
    away: VecDeque<GuestId>,
    pub(super) effects: VecDeque<Effect>,
}

impl Open {
    /// A client has said that it is this guest.
    pub(super) fn guest_came(&mut self, guest: GuestId, client: u64) {
        let known = self.guests.entry(guest).or_default();
        known.clients.insert(client);
    }

    /// A guest makes a request, or repeats it in a new connection. By the roles of now, `asked`
    /// members will be asked.
    ///
    /// # Errors
    /// Why there is no room, for people.
    pub(super) fn begin(
        &mut self,
        now: Time,
        key: Key,
        client: u64,
        wanted: Wanted,
        asked: usize,
    ) -> Result<(), &'static str> {
        let deadline = now + wanted.within;
        if self.is_over(key) {
            self.end_anew(key);
        }
        if let Some(request) = self.requests.get_mut(&key) {
            self.deadlines.remove(&(request.deadline, key));
            self.deadlines.insert((deadline, key));
            request.deadline = deadline;
            let waited = request.client.replace(client).is_none();
            request.wanted = wanted.answers;
            let asked = request.placed.as_ref().map(|it| it.asked.len());
            let kept = std::mem::take(&mut request.kept);
            if let Some(asked) = asked {
                self.effects.push_back(Effect::Taken {
                    client,
                    number: key.1,
                    asked: asked as u32,
                });
            }
            for (from, payload) in kept {
                self.kept_taken(key.0, payload.len());
                self.effects.push_back(Effect::Answer {
                    client,
                    number: key.1,
                    from,
                    payload,
                });
            }
            if waited && let Some(guest) = self.guests.get_mut(&key.0) {
                guest.waiting -= 1;
            }
            self.settle_away(key.0);
            self.check(key);
            return Ok(());
        }
        let open = self.guests.get(&key.0).map_or(0, |guest| guest.open);
        if open >= OPEN_MAX {
            return Err(TOO_MANY);
        }
        self.check_weight(key.0, 1 + asked)?;
        let guest = self.guests.entry(key.0).or_default();
        guest.open += 1;
        guest.weight += 1;
        self.weight += 1;
        self.deadlines.insert((deadline, key));
        let request = Request {
            client: Some(client),
            wanted: wanted.answers,
            deadline,
            life: self.life,
            placed: None,
            left: 0,
            answered: 0,
            kept: Vec::new(),
        };
        self.requests.insert(key, request);
        Ok(())
    }

    /// Checks whether the open requests may have this much more weight.
    fn check_weight(&self, guest: GuestId, more: usize) -> Result<(), &'static str> {
        let of_guest = self.guests.get(&guest).map_or(0, |guest| guest.weight);
        if of_guest + more > AWAITED_PER_GUEST_MAX {
            return Err(GUEST_AWAITS);
        }
        match self.weight + more > AWAITED_MAX {
            true => Err(ALL_AWAIT),
            false => Ok(()),
        }
    }

    pub(super) fn contains(&self, key: Key) -> bool {
        self.requests.contains_key(&key) && !self.is_over(key)
    }

    /// Whether the request is open and has come in the order.
    pub(super) fn is_placed(&self, key: Key) -> bool {
        let request = self.requests.get(&key);
        request.is_some_and(|request| request.placed.is_some()) && !self.is_over(key)
    }

    /// Whether the request is of an earlier life, and its end is told later.
    fn is_over(&self, key: Key) -> bool {
        let request = self.requests.get(&key);
        request.is_some_and(|request| request.life < self.life)
    }

    /// The request has come in the order: the members `asked` are asked.
    pub(super) fn place(&mut self, key: Key, group: Arc<str>, asked: Vec<Party>) {
        let full = self.check_weight(key.0, asked.len());
        let life = self.life;
        let request = self.requests.get_mut(&key);
        let Some(request) = request.filter(|request| request.life == life) else {
            return;
        };
        if let Err(why) = full {
            // More members answer requests now than when the request began: their answers are
            // dropped.
            self.end_because(key, Ending::Unknown, why);
            return self.forget(key);
        }
        if let Some(guest) = self.guests.get_mut(&key.0) {
            guest.weight += asked.len();
            self.weight += asked.len();
        }
        for party in &asked {
            let of_party = self.awaited.entry(*party).or_default();
            of_party.entry(group.clone()).or_default().insert(key);
        }
        request.left = asked.len();
        if let Some(client) = request.client {
            self.effects.push_back(Effect::Taken {
                client,
                number: key.1,
                asked: asked.len() as u32,
            });
        }
        self.placed += 1;
        request.placed = Some(Placed {
            group,
            asked,
            number: self.placed,
        });
        self.check(key);
    }

    /// An answer has come in the order.
    pub(super) fn answer(&mut self, key: Key, from: Party, name: Arc<str>, payload: Bytes) {
        if self.is_over(key) || !self.no_longer_awaited(from, key) {
            return;
        }
        // One whose guest is away ends when that is back, and gets no more than it wants.
        let request = self.requests.get_mut(&key);
        let Some(request) = request.filter(|request| !request.has_enough()) else {
            return;
        };
        request.answered += 1;
        match request.client {
            Some(client) => self.effects.push_back(Effect::Answer {
                client,
                number: key.1,
                from: name,
                payload,
            }),
            None => {
                let guest = self.guests.entry(key.0).or_default();
                if guest.kept + payload.len() <= KEPT_MAX {
                    guest.kept += payload.len();
                    request.kept.push((name, payload));
                }
            }
        }
        self.check(key);
    }

    /// A member answers no more requests of `group`, or of all groups if it is `None`. Its answers
    /// count no more at once; the requests that waited for it may end [later](Self::go_on).
    pub(super) fn member_gone(&mut self, party: Party, group: Option<&str>) {
        self.forget_member(party, group);
        self.go_on();
    }

    fn forget_member(&mut self, party: Party, group: Option<&str>) {
        let Some(of_party) = self.awaited.get_mut(&party) else {
            return;
        };
        let mut gone = Vec::new();
        match group {
            Some(group) => gone.extend(of_party.remove(group)),
            None => gone.extend(std::mem::take(of_party).into_values()),
        }
        if of_party.is_empty() {
            self.awaited.remove(&party);
        }
        let placed = self.placed;
        self.gone
            .extend(gone.into_iter().map(|keys| (placed, keys)));
    }

    /// Only members of these daemons can answer from now on.
    pub(super) fn narrow(&mut self, stays: impl Fn(MemberId) -> bool) {
        let gone = self.awaited.keys().filter(|party| !stays(party.daemon));
        let gone: Vec<Party> = gone.copied().collect();
        for party in gone {
            self.forget_member(party, None);
        }
        self.go_on();
    }

    /// Whether requests have to end, or to be told of members that have gone.
    pub(super) fn has_to_go_on(&self) -> bool {
        !self.gone.is_empty() || self.ending.is_some()
    }

    /// Ends some of the requests of earlier lives, and tells some of those that wait for members
    /// that have gone.
    fn go_on(&mut self) {
        let mut left = self.go_on_ending(END_AT_ONCE);
        while left > 0
            && let Some((placed, keys)) = self.gone.front_mut()
        {
            let Some(key) = keys.pop_first() else {
                self.gone.pop_front();
                continue;
            };
            let placed = *placed;
            // One of this number that came later did not ask who had gone.
            let waits = |it: &Placed| it.number <= placed;
            let request = self.requests.get_mut(&key);
            let Some(request) = request.filter(|it| it.placed.as_ref().is_some_and(waits)) else {
                left -= 1;
                continue;
            };
            request.left -= 1;
            let to_end = match request.left {
                0 => request.weight(),
                _ => 0,
            };
            left = left.saturating_sub(1 + to_end);
            self.check(key);
        }
    }

    /// Ends requests of earlier lives, of this weight at most, or one; returns what is left of it.
    fn go_on_ending(&mut self, mut left: usize) -> usize {
        while left > 0
            && let Some(from) = self.ending
        {
            let mut next = self.requests.range((from, Bound::Unbounded));
            let Some((key, request)) = next.next() else {
                self.ending = None;
                break;
            };
            let (key, is_over) = (*key, request.life < self.life);
            left = left.saturating_sub(if is_over { request.weight() } else { 1 });
            self.ending = Some(Bound::Excluded(key));
            if is_over {
                self.end_anew(key);
            }
        }
        left
    }

    /// The host does not know any more what becomes of the request: ends it.
    fn end_anew(&mut self, key: Key) {
        self.end_because(key, Ending::Unknown, BEGUN_ANEW);
        self.forget(key);
    }

    /// A connection of a guest has ended. If the guest has another one, its requests go on there;
    /// else they wait for the guest for a time.
    pub(super) fn guest_gone(&mut self, now: Time, guest: GuestId, client: u64) {
        let known = self.guests.entry(guest).or_default();
        known.clients.remove(&client);
        let other = known.clients.last().copied();
        let mut waiting = 0;
        for key in self.of_guest(guest) {
            let Some(request) = self.requests.get_mut(&key) else {
                continue;
            };
            if request.client != Some(client) {
                continue;
            }
            request.client = other;
            if other.is_none() {
                waiting += 1;
                let deadline = request.deadline.min(now + AWAY_FOR);
                self.deadlines.remove(&(request.deadline, key));
                self.deadlines.insert((deadline, key));
                request.deadline = deadline;
            }
        }
        if let Some(known) = self.guests.get_mut(&guest) {
            known.waiting += waiting;
        }
        self.forget_guest(guest);
        self.settle_away(guest);
        while self.away.len() > AWAY_MAX
            && let Some(guest) = self.away.pop_front()
        {
            for key in self.of_guest(guest) {
                if self.is_kept(key) {
                    self.forget(key);
                }
            }
        }
    }

    /// Whether the request waits for its guest to connect again.
    fn is_kept(&self, key: Key) -> bool {
        let request = self.requests.get(&key);
        request.is_some_and(|request| request.client.is_none())
    }

    /// Keeps [`away`](Self::away) right for a guest: it is away while requests wait for it, since
    /// the first of them began to.
    fn settle_away(&mut self, guest: GuestId) {
        let is_away = self.guests.get(&guest).is_some_and(|it| it.waiting > 0);
        if !is_away {
            self.away.retain(|away| *away != guest);
        } else if !self.away.contains(&guest) {
            self.away.push_back(guest);
        }
    }

    /// Forgets a guest without connections and requests.
    fn forget_guest(&mut self, guest: GuestId) {
        let is_nothing = |guest: &Guest| guest.open == 0 && guest.clients.is_empty();
        if self.guests.get(&guest).is_some_and(is_nothing) {
            self.guests.remove(&guest);
        }
    }

    /// The request ends.
    pub(super) fn end(&mut self, key: Key, ending: Ending) {
        let why = match ending {
            Ending::Refused => TABLE_FULL,
            _ => "",
        };
        self.end_because(key, ending, why);
    }

    /// The request ends, for the reason `why`, for people.
    pub(super) fn end_because(&mut self, key: Key, ending: Ending, why: &'static str) {
        // A guest that is away is told when it repeats the request.
        if let Some(request) = self.requests.get(&key)
            && let Some(client) = request.client
        {
            self.effects.push_back(Effect::Ended {
                client,
                number: key.1,
                ending,
                answers: request.answered,
                why,
            });
            self.forget(key);
        }
    }

    /// Ends requests whose time is up. If there are very many, some of them: the next deadline has
    /// passed then.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.go_on();
        let mut left = END_AT_ONCE;
        while left > 0
            && let Some((_, key)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now)
        {
            let weight = self.requests.get(&key).map_or(1, Request::weight);
            left = left.saturating_sub(weight);
            self.end(key, Ending::TimedOut);
            self.forget(key);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        match self.has_to_go_on() {
            true => Some(Time::ZERO),
            false => self.deadlines.first().map(|(at, _)| *at),
        }
    }

    /// The host is another member of the order from now on. Requests that still wait for the order,
    /// which are among `waiting`, stay open; of the others nobody knows what becomes of them. No
    /// answer to those counts any more; they may end [later](Self::go_on).
    pub(super) fn begin_anew(&mut self, waiting: impl IntoIterator<Item = Key>) {
        let (before, life) = (self.life, self.life + 1);
        self.life = life;
        for key in waiting {
            let request = self.requests.get_mut(&key);
            let stays = |it: &&mut Request| it.placed.is_none() && it.life == before;
            if let Some(request) = request.filter(stays) {
                request.life = life;
            }
        }
        self.ending = Some(Bound::Unbounded);
        self.go_on();
    }

    fn of_guest(&self, guest: GuestId) -> Vec<Key> {
        let keys = self.requests.range((guest, 0)..=(guest, u64::MAX));
        keys.map(|(key, _)| *key).collect()
    }

    /// Ends the request if it has all answers that it wants or can get.
    fn check(&mut self, key: Key) {
        let Some(request) = self.requests.get(&key) else {
            return;
        };
        let Some(placed) = request.placed.as_ref().filter(|_| !self.is_over(key)) else {
            return;
        };
        if placed.asked.is_empty() {
            self.end(key, Ending::Nobody);
        } else if request.has_enough() {
            self.end(key, Ending::Complete);
        } else if request.left == 0 {
            self.end(key, Ending::Short);
        }
    }

    /// The request does not wait for `party` any more; returns whether it did.
    fn no_longer_awaited(&mut self, party: Party, key: Key) -> bool {
        let Some(request) = self.requests.get_mut(&key) else {
            return false;
        };
        let was = match &request.placed {
            Some(placed) => take_awaited(&mut self.awaited, party, &placed.group, key),
            None => false,
        };
        request.left -= usize::from(was);
        was
    }

    fn kept_taken(&mut self, guest: GuestId, len: usize) {
        if let Some(guest) = self.guests.get_mut(&guest) {
            guest.kept -= len;
        }
    }

    fn forget(&mut self, key: Key) {
        let Some(request) = self.requests.remove(&key) else {
            return;
        };
        let weight = request.weight();
        let waited = usize::from(request.client.is_none());
        self.deadlines.remove(&(request.deadline, key));
        for (_, payload) in &request.kept {
            self.kept_taken(key.0, payload.len());
        }
        if let Some(Placed { group, asked, .. }) = request.placed {
            for party in asked {
                take_awaited(&mut self.awaited, party, &group, key);
            }
        }
        if let Some(guest) = self.guests.get_mut(&key.0) {
            guest.open -= 1;
            guest.weight -= weight;
            guest.waiting -= waited;
            self.weight -= weight;
            if waited > 0 && guest.waiting == 0 {
                self.away.retain(|guest| *guest != key.0);
            }
            self.forget_guest(key.0);
        }
    }
}

/// Forgets that the request of `group` waits for `party`; returns whether it did.
fn take_awaited(
    awaited: &mut BTreeMap<Party, BTreeMap<Arc<str>, BTreeSet<Key>>>,
    party: Party,
    group: &str,
    key: Key,
) -> bool {
    let Some(of_party) = awaited.get_mut(&party) else {
        return false;
    };
    let Some(keys) = of_party.get_mut(group) else {
        return false;
    };
    let was = keys.remove(&key);
    if keys.is_empty() {
        of_party.remove(group);
    }
    if of_party.is_empty() {
        awaited.remove(&party);
    }
    was
}

#[cfg(test)]
mod tests;
