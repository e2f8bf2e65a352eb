//! Further rings: which order carries a group, and when a daemon has to be in a ring.
//!
//! A daemon has an order of its own, for all groups. Beside it there may be *rings*, each with a
//! top: a ring carries the groups at and below its top, except those of a ring with a lower top. A
//! daemon is in a ring only while its clients want something of it: the host asks
//! [`Engine::asks_for_ring`] and [`Engine::uses_ring`], and joins or leaves. Each time it joins it
//! is a new member, which it tells with [`Engine::begin_ring`]; requests of clients wait until
//! then.
//!
//! A client's requests for one order never wait for another order. But acceptance is reported in
//! the order of the client's messages, so a message may be reported late because one before it, in
//! another order, is not accepted yet. A client has one credit for all orders.

use std::collections::BTreeSet;
use std::sync::Arc;

use groupcast_core::{MemberId, Time};

use super::client::{Client, ClientOrder, ClientPhase, Pending};
use super::exchange::Phase;
use super::fact::RingStatus;
use super::filters::BELOW;
use super::guests::GuestRequest;
use super::orders::{Order, OrderIndex};
use super::{ClientId, Engine, Fact};
use crate::frame::{Disconnect, Publish, Reject};
use crate::guests::GuestId;
use crate::name::is_private;
use crate::names::{DomainName, RingAddress, is_at_or_below};

/// The most further rings of a daemon.
pub const RINGS_PER_DAEMON_MAX: usize = 64;

/// The further rings of a daemon: first those that its configuration names, then those that joins
/// have made.
#[derive(Clone, Debug)]
pub(super) struct Rings {
    slots: Vec<Option<Slot>>,
    /// How many of the slots are for rings that the configuration names; they come first.
    configured: usize,
}

/// A ring of the daemon.
#[derive(Clone, Debug)]
struct Slot {
    top: Arc<str>,
    /// Its agreed address, if a join has made it.
    made: Option<RingAddress>,
    /// It carries no groups any more: clients that are left in it finish.
    is_closing: bool,
}

/// The most rings of a daemon, closing ones included.
const SLOTS_MAX: usize = 250;

impl Rings {
    pub(super) fn new(tops: &[String]) -> Self {
        let slot = |top: &String| {
            Some(Slot {
                top: top.as_str().into(),
                made: None,
                is_closing: false,
            })
        };
        Self {
            slots: tops.iter().map(slot).collect(),
            configured: tops.len(),
        }
    }

    /// The order that carries the group `name`: the ring with the lowest top that covers it, else
    /// the daemon's own. Private names are of no ring.
    pub(super) fn order_of(&self, name: &str) -> OrderIndex {
        if self.slots.is_empty() || is_private(name) {
            return OrderIndex::OWN;
        }
        let covering = self
            .carrying()
            .filter(|(_, slot)| is_at_or_below(name, &slot.top));
        let lowest = covering.max_by_key(|(_, slot)| slot.top.len());
        lowest.map_or(OrderIndex::OWN, |(index, _)| OrderIndex::of_ring(index))
    }

    /// The rings that carry groups: all that are not closing.
    fn carrying(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let slots = self.slots.iter().enumerate();
        let there = slots.filter_map(|(index, slot)| Some((index, slot.as_ref()?)));
        there.filter(|(_, slot)| !slot.is_closing)
    }

    fn slot(&self, on: OrderIndex) -> Option<&Slot> {
        self.slots.get(on.ring()?)?.as_ref()
    }

    /// The top of the ring; `None` for the daemon's own order.
    pub(super) fn top(&self, on: OrderIndex) -> Option<&Arc<str>> {
        self.slot(on).map(|slot| &slot.top)
    }

    /// The agreed address of the ring, if a join has made it.
    pub(super) fn made(&self, on: OrderIndex) -> Option<&RingAddress> {
        self.slot(on)?.made.as_ref()
    }

    /// Whether the ring is closing: it carries no groups any more.
    pub(super) fn is_closing(&self, on: OrderIndex) -> bool {
        self.slot(on).is_some_and(|slot| slot.is_closing)
    }

    /// The rings that joins have made, and whether each is closing.
    pub(super) fn all_made(&self) -> impl Iterator<Item = (OrderIndex, &RingAddress, bool)> {
        let slots = self.slots.iter().enumerate().skip(self.configured);
        slots.filter_map(|(index, slot)| {
            let slot = slot.as_ref()?;
            let address = slot.made.as_ref()?;
            Some((OrderIndex::of_ring(index), address, slot.is_closing))
        })
    }

    /// The tops that the configuration names.
    pub(super) fn configured(&self) -> impl Iterator<Item = &Arc<str>> {
        let slots = self.slots[..self.configured].iter().flatten();
        slots.map(|slot| &slot.top)
    }

    /// The tops of rings that carry groups now and did not `before`, or the other way round: the
    /// groups of all others are where they were.
    pub(super) fn changed_since(&self, before: &Self) -> BTreeSet<Arc<str>> {
        let carried = |rings: &Self| -> BTreeSet<(usize, Arc<str>)> {
            let carrying = rings.carrying();
            carrying.map(|(at, slot)| (at, slot.top.clone())).collect()
        };
        let (now, before) = (carried(self), carried(before));
        let changed = now.symmetric_difference(&before);
        changed.map(|(_, top)| top.clone()).collect()
    }

    /// Replaces the rings that joins have made. A ring with the same top at another address is
    /// another ring. Rings that are not in `made` are closing from now on.
    pub(super) fn set_made(&mut self, made: &[RingAddress]) {
        let is_same = |slot: &Slot, ring: &RingAddress| {
            let known = slot.made.as_ref();
            known.is_some_and(|it| it.top == ring.top && it.multicast == ring.multicast)
        };
        for slot in self.slots.iter_mut().skip(self.configured).flatten() {
            let stays = made.iter().find(|ring| is_same(slot, ring));
            slot.is_closing = stays.is_none();
            if let Some(ring) = stays {
                slot.made = Some(ring.clone());
            }
        }
        for ring in made {
            if self.slots.iter().flatten().any(|slot| is_same(slot, ring)) {
                continue;
            }
            let slot = Slot {
                top: ring.top.to_string().into(),
                made: Some(ring.clone()),
                is_closing: false,
            };
            let mut free = self.slots.iter_mut().skip(self.configured);
            if let Some(free) = free.find(|slot| slot.is_none()) {
                *free = Some(slot);
            } else if self.slots.len() < SLOTS_MAX {
                self.slots.push(Some(slot));
            }
        }
    }

    /// How many slots there are.
    pub(super) fn places(&self) -> usize {
        self.slots.len()
    }

    /// Frees the slot of a ring that a join has made.
    pub(super) fn forget(&mut self, on: OrderIndex) {
        if let Some(slot) = on.ring().and_then(|index| self.slots.get_mut(index)) {
            *slot = None;
        }
    }

    /// `fact`, marked with the ring if the order is one.
    pub(super) fn fact(&self, on: OrderIndex, fact: Fact) -> Fact {
        match self.top(on) {
            Some(ring) => Fact::InRing {
                ring: ring.clone(),
                fact: Box::new(fact),
            },
            None => fact,
        }
    }

    /// The top of a ring below `name`, if there is one.
    fn other_below(&self, name: &str) -> Option<&Arc<str>> {
        let mut tops = self.carrying().map(|(_, slot)| &slot.top);
        tops.find(|top| ***top != *name && is_at_or_below(top, name))
    }

    /// The order, for people.
    fn describe(&self, on: OrderIndex) -> String {
        match self.top(on) {
            Some(top) => format!("the ring {top:?}"),
            None => "the daemon's own".to_owned(),
        }
    }
}

impl OrderIndex {
    /// The order of the ring `index`.
    pub(super) fn of_ring(index: usize) -> Self {
        Self::at(index + 1)
    }
}

impl Engine {
    /// The error of a message whose destinations are of two orders.
    pub(super) fn of_two_orders(&self, publish: &Publish) -> Option<(Reject, String)> {
        let mut names = publish.destinations();
        let first = names.next()?;
        let on = self.rings.order_of(first);
        let other = names.find(|name| self.rings.order_of(name) != on)?;
        let text = format!(
            "{first:?} and {other:?} are of two orders, {} and {}, and one message has a place in one: publish to each by \
             itself",
            self.rings.describe(on),
            self.rings.describe(self.rings.order_of(other)),
        );
        Some((Reject::Unsupported, text))
    }

    /// The error of a group's name that its ring cannot have: names of a ring consist of levels.
    pub(super) fn bad_in_ring(&self, name: &str) -> Option<(Reject, String)> {
        self.rings.top(self.rings.order_of(name))?;
        let error = name.parse::<DomainName>().err()?;
        Some((Reject::Name, error.to_string()))
    }

    /// The error of a `group` that no client can accept because it would stand for groups of two
    /// orders.
    pub(super) fn bad_pattern_group(&self, group: &str) -> Option<(Reject, String)> {
        let Some(above) = group.strip_prefix(BELOW) else {
            return self.bad_in_ring(group);
        };
        let other = self.rings.other_below(above)?;
        let text = format!(
            "{group:?} stands for groups of two orders, {} and the ring {other:?}: accept names of each by themselves",
            self.rings.describe(self.rings.order_of(above)),
        );
        Some((Reject::Unsupported, text))
    }

    /// The error of an id that is a name of a ring: ids are of the daemon's own order.
    pub(super) fn bad_id(&self, id: &str) -> Option<(Reject, String)> {
        if self.bimodal.find(id).is_some() {
            let text = format!("{id:?} is a bimodal group: choose an id that is none");
            return Some((Reject::Name, text));
        }
        let top = self.rings.top(self.rings.order_of(id))?;
        let text = format!("{id:?} is a name of the ring {top:?}: choose an id that is of no ring");
        Some((Reject::Name, text))
    }

    /// The order that carries `group`. A name that begins with [`BELOW`] belongs to the order of
    /// the rest of it.
    pub(super) fn order_of(&self, group: &str) -> OrderIndex {
        let above = group.strip_prefix(BELOW);
        self.rings.order_of(above.unwrap_or(group))
    }

    /// The daemon is `member` in the ring `index` from now on, and takes part once its first
    /// configuration comes. Events of a former membership must not come to the engine any more. The
    /// fate of messages that were on their way there is unknown: clients that wait for one, or are
    /// in groups of the ring, are disconnected, with [`Disconnect::Other`].
    pub fn begin_ring(&mut self, now: Time, index: usize, member: MemberId) {
        let on = OrderIndex::of_ring(index);
        if self.rings.top(on).is_none() || self.orders[on].is_stopped() {
            return;
        }
        self.finish_spreading(on, now);
        let has_been_in = self.orders[on].current.is_some();
        if has_been_in && self.uses_ring(index) {
            let text =
                "the daemon was another member of the ring, and begins there anew: connect again";
            self.cut_off(on, now, text);
        }
        self.begin_anew(on, now, member);
    }

    /// The daemon cannot take part in the ring `index`, for the reason `text`: disconnects its
    /// clients there. The host then leaves the ring, which waits for this daemon's state, and may
    /// join it again.
    pub(super) fn give_up_ring(&mut self, now: Time, index: usize, text: &str) {
        let on = OrderIndex::of_ring(index);
        self.finish_spreading(on, now);
        self.cut_off(on, now, text);
        self.begin_anew(on, now, self.orders[on].local);
        self.refuse_ring(now, index, text);
        self.orders[on].phase = Phase::Refused;
    }

    fn begin_anew(&mut self, on: OrderIndex, now: Time, member: MemberId) {
        let mut old = std::mem::replace(&mut self.orders[on], Order::new(member));
        self.orders[on].submissions = old.submissions.begun_anew();
        let waiting = self.requests_that_wait(on);
        old.guests.begin_anew(member, waiting);
        self.orders[on].guests = old.guests;
        self.orders[on].guests.plant(self.planted);
        for (id, client) in self.clients.iter_mut() {
            client.orders[on].begin_anew();
            if let Some(guest) = &client.guest {
                self.orders[on].guests.guest_came(guest.id, id.0);
            }
        }
        self.tell_guests(on, now);
    }

    /// The requests to groups that wait for a turn in an order.
    fn requests_that_wait(&self, on: OrderIndex) -> BTreeSet<(GuestId, u64)> {
        let clients = self.clients.iter().filter_map(|(_, client)| {
            let guest = client.guest.as_ref()?.id;
            let requests = client.orders[on].requests.iter();
            Some(requests.filter_map(move |request| match request {
                Pending::Guest(GuestRequest::Ask { number, .. }) => Some((guest, *number)),
                _ => None,
            }))
        });
        clients.flatten().collect()
    }

    /// Disconnects the clients that are in groups of an order, or have something under way there.
    fn cut_off(&mut self, on: OrderIndex, now: Time, text: &str) {
        let is_cut = |client: &Client| {
            client.orders[on].bound && client.unaccepted() > 0 || self.wants(on, client)
        };
        let cut = self.clients.iter().filter(|(_, client)| is_cut(client));
        let cut: Vec<ClientId> = cut.map(|(id, _)| id).collect();
        for id in cut {
            self.disconnect(now, id, Disconnect::Other, text.to_owned());
        }
    }

    /// Whether a client is in groups of an order, or waits for something there.
    fn wants(&self, on: OrderIndex, client: &Client) -> bool {
        let is_leaving = matches!(client.phase, ClientPhase::Leaving);
        let mut groups = client.wanted.keys();
        client.orders[on].is_there() && is_leaving
            || client.awaits(on)
            || groups.any(|group| self.order_of(group) == on)
    }

    /// Whether requests of clients wait for the ring `index`.
    pub fn asks_for_ring(&self, index: usize) -> bool {
        let on = OrderIndex::of_ring(index);
        self.rings.top(on).is_some() && self.may_be_in(on) && self.orders[on].submissions.is_asked()
    }

    /// Whether the daemon's clients want anything of the ring `index`: they are in groups of it,
    /// have requests for it, wait for messages on their way, or are being given one. Costs a walk
    /// over clients and their groups.
    pub fn uses_ring(&self, index: usize) -> bool {
        let on = OrderIndex::of_ring(index);
        if self.rings.top(on).is_none() {
            return false;
        }
        let order = &self.orders[on];
        if order.is_refused() {
            return false;
        }
        let wants = |(_, client): (ClientId, &Client)| self.wants(on, client);
        order.submissions.is_asked()
            || order.submissions.is_under_way()
            || order.has_begun()
            || order.table.has_subscribers()
            || order.guests.poll_timeout().is_some()
            || self.clients.iter().any(wants)
    }

    /// The state of the further rings, which [`Engine::status`] has, too.
    pub fn ring_statuses(&self) -> Vec<RingStatus> {
        let rings = (0..self.rings.places()).map(OrderIndex::of_ring);
        let statuses = rings.filter_map(|on| {
            let order = &self.orders[on];
            Some(RingStatus {
                index: on.ring()?,
                made: self.rings.made(on).cloned(),
                is_closing: self.rings.is_closing(on),
                top: self.rings.top(on)?.clone(),
                phase: order.phase_name(),
                config: order.config(),
                daemons: order.daemons(),
                groups: order.table.count(),
                held: order.held_bytes(),
            })
        });
        statuses.collect()
    }
}

impl ClientOrder {
    /// Whether the order knows the client, or requests of the client wait for it.
    pub(super) fn is_there(&self) -> bool {
        self.bound || !self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_top_that_covers_a_name_carries_it() {
        let rings = Rings::new(&["cb.uiuc".into(), "wb.cb.uiuc".into()]);
        for (name, top) in [
            ("cb.uiuc", Some("cb.uiuc")),
            ("ed.cb.uiuc", Some("cb.uiuc")),
            ("wb.cb.uiuc", Some("wb.cb.uiuc")),
            ("page1.wb.cb.uiuc", Some("wb.cb.uiuc")),
            ("xcb.uiuc", None),
            ("uiuc", None),
            ("al@wb.cb.uiuc", None),
        ] {
            let found = rings.top(rings.order_of(name)).map(|top| &**top);
            assert_eq!(found, top, "{name}");
        }
        assert_eq!(rings.other_below("uiuc").map(|top| &**top), Some("cb.uiuc"));
        assert_eq!(rings.other_below("wb.cb.uiuc"), None);
    }
}
