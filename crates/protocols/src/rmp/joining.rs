//! A process that wants to be let in by one message (000 ch. 8, Fig. 9): it asks, hears the list
//! that names it, and gets the last packets and ACKs before it takes the token.
//!
//! A process that is alone, and holds nothing that is not delivered, may ask. If it is not let in
//! soon, it polls.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use groupcast_core::mech::claims::is_near;
use groupcast_core::mech::delivery::Cursor;
use groupcast_core::mech::seq::Seq;
use groupcast_core::mech::window::SeqWindow;
use groupcast_core::{ConfigId, Configuration, ConfigurationKind, Event, MemberId, Time};

use super::config::RmpConfig;
use super::lists::VERSION_MAX;
use super::numbers::{Marks, Number};
use super::order::{Order, Site, Slot, Top};
use super::polling::Polling;
use super::repair::runs;
use super::stream::Stream;
use super::wire::{Announcement, Join, ListAck, Message, Nack};
use super::{Rmp, State, Timer};
use crate::packing::refused;

/// A list that makes its newcomer fetch this many positions is of a peer that breaks the rules.
const FETCHED_MAX: u64 = 1 << 16;

/// State of a member that asks to be let in, or fetches what it needs for that.
#[derive(Clone, Hash, Debug)]
pub(super) struct Joining {
    /// The order that was: of this member alone, and all of it is delivered.
    pub(super) old: Option<Order>,
    /// The configuration that it wants to join, and its members.
    config: ConfigId,
    pub(super) members: BTreeSet<MemberId>,
    /// The group's order, from the list on that names this member.
    pub(super) order: Option<Order>,
    /// Where that list stands.
    at: Seq,
    tries: u32,
}

impl Order {
    /// The order of a member that `heard` names as the newcomer.
    fn joined(heard: &ListAck, local: MemberId, config: &RmpConfig) -> Self {
        let (ack, list, at) = (&heard.ack, &heard.list, heard.at());
        let mut order = Self::with_roster(
            list.config,
            list.roster.clone(),
            local,
            list.floor,
            usize::from(ack.issuer),
            usize::from(list.body_max()),
            config,
        );
        order.sizes.clone_from(&list.sizes);
        order.tag = ack.tag;
        order.ring.clone_from(&list.ring);
        order.present.clone_from(&list.ring);
        order.present.sort_unstable();
        order.members = list.members();
        order.max_n = order.members.len();
        order.own_max_n = order.max_n;
        let capacity = order.capacity();
        order.places = SeqWindow::new(list.floor.0, capacity);
        let marks = Marks {
            known: Number::default(),
            ready: at.before(),
        };
        for (index, start) in list.starts.iter().enumerate() {
            order.sites[index] = Site::new(start.held.0, capacity, marks);
            order.streams[index] = Stream::behind(start.first, usize::from(start.offset));
        }
        let place = Slot {
            origin: Slot::LIST,
            number: Number(list.version.into()),
            stamp: ack.stamp,
            issuer: ack.issuer,
            next: ack.next,
        };
        order.places.insert(at.0, place);
        order.top = Top {
            stamp: ack.stamp,
            issuer: ack.issuer,
            next: ack.next,
            last: at,
        };
        order.cursor = Cursor::new(at);
        order.ready = at;
        let me = order.me.at();
        order.sites[me].last = at;
        order.resilient_to = at;
        order.lists.version = list.version;
        order.lists.last = Some(Arc::new(heard.clone()));
        order.advance();
        order
    }
}

impl Rmp {
    /// Whether this member may be let in by a list: it is alone, and nothing waits here that it
    /// sent or heard in a configuration of its own.
    fn may_join(&self) -> bool {
        let settled = |order: &Order| order.is_done_alone() && !order.is_minority();
        let alone = match &self.state {
            State::Polling(polling) => polling.old.as_ref().is_none_or(settled),
            State::Operational(operational) => settled(&operational.order),
            _ => false,
        };
        alone && self.leaving.is_none()
    }

    /// A group announces itself that hears this member: asks to be let in, if that can be. False if
    /// not.
    pub(super) fn join_by_list(&mut self, now: Time, group: &Announcement) -> bool {
        let members: BTreeSet<MemberId> = group.members.iter().copied().collect();
        let namesake = members.iter().any(|it| it.node == self.local.node);
        if members.len() < 2 || namesake || !self.may_join() {
            return false;
        }
        let config = group.config;
        self.timers.cancel_all_but(Timer::KEPT);
        self.transition("a group hears it", |before| {
            State::Joining(
                Joining {
                    old: before.into_installed(),
                    config,
                    members,
                    order: None,
                    at: Seq::ZERO,
                    tries: 0,
                }
                .into(),
            )
        });
        let wait = self.config.poll_wait;
        self.timers.set(Timer::Deadline, now + wait);
        self.repeat_join(now);
        true
    }

    /// The group has a newer list.
    pub(super) fn note_group(&mut self, group: &Announcement) {
        if let State::Joining(joining) = &mut self.state
            && joining.order.is_none()
            && group.config.counter > joining.config.counter
            && group.members.iter().any(|it| joining.members.contains(it))
        {
            joining.config = group.config;
            joining.members = group.members.iter().copied().collect();
        }
    }

    /// Asks again: to be let in, or for what is missing.
    pub(super) fn repeat_join(&mut self, now: Time) {
        let heard = self.peers.heard(now);
        let (counter, body_max) = (self.peers.counter(), self.config.body_max as u16);
        let State::Joining(joining) = &mut self.state else {
            return;
        };
        match &joining.order {
            None => {
                let old = joining.old.as_ref();
                let join = Join {
                    counter,
                    high: old.map_or(Seq::ZERO, |old| old.top.last),
                    body_max,
                    config: joining.config,
                    heard,
                };
                self.outbox.multicast(&Message::Join(join));
            }
            Some(order) => {
                let nack = joining.missing(order);
                joining.tries += 1;
                if let Some(asked) = order.member(nack.asked) {
                    self.counters.nacks_sent += 1;
                    self.outbox.unicast(asked, &Message::Nack(nack));
                }
            }
        }
        self.plan_repeat(now);
    }

    /// A list came while this member waits for one that names it.
    pub(super) fn handle_own_list(&mut self, now: Time, from: MemberId, list: &ListAck) {
        let (local, config) = (self.local, &self.config);
        let State::Joining(joining) = &mut self.state else {
            return;
        };
        if joining.order.is_some() {
            return;
        }
        let own = list.list.sizes.last().copied().map(usize::from);
        let too_long = usize::from(list.list.body_max()) > config.body_max;
        if too_long || own != Some(config.body_max) || !joining.is_named(list, local, from) {
            self.counters.foreign += 1;
            return;
        }
        joining.order = Some(Order::joined(list, local, config));
        joining.at = list.at();
        self.peers.note_counter(list.list.config.counter);
        let wait = self.config.recover_wait;
        self.timers.set(Timer::Deadline, now + wait);
        self.join_if_complete(now);
        if matches!(self.state, State::Joining(_)) {
            self.repeat_join(now);
        }
    }

    /// Installs the group's configuration once the last packets are here.
    pub(super) fn join_if_complete(&mut self, now: Time) {
        let State::Joining(joining) = &mut self.state else {
            return;
        };
        let complete = |order: &mut Order| order.held >= joining.at;
        let Some(order) = joining.order.take_if(complete) else {
            return;
        };
        if let Some(old) = &joining.old {
            self.events.push_back(Event::Configuration(Configuration {
                kind: ConfigurationKind::Transitional,
                id: old.id,
                members: vec![self.local],
                left: Vec::new(),
            }));
        }
        self.events.push_back(Event::Configuration(Configuration {
            kind: ConfigurationKind::Regular,
            id: order.id,
            members: order.members.clone(),
            left: Vec::new(),
        }));
        if order.is_minority() {
            let local = self.local;
            let numbers = self.queue.take_majority();
            let refusals = numbers.into_iter().map(|number| refused(local, number));
            self.events.extend(refusals);
        }
        self.queue.restart(&[]);
        self.peers.note_installed(order.id.counter);
        self.flow.restart();
        self.askers.clear();
        self.claims.clear();
        self.polls_told.clear();
        self.counters.configurations += 1;
        self.go_on(now, "let in by a list", order, BTreeSet::new());
    }

    /// This member was not let in: it polls for the group.
    pub(super) fn join_failed(&mut self, now: Time) {
        self.poll(now, "not let in", Polling::default());
    }
}

/// Whether no item is there twice.
fn is_set<T: Ord>(items: &[T]) -> bool {
    items.iter().collect::<BTreeSet<_>>().len() == items.len()
}

impl Joining {
    /// Whether `list` lets `local` in, and is of a group that this member wants to join.
    fn is_named(&self, heard: &ListAck, local: MemberId, from: MemberId) -> bool {
        let (ack, list) = (&heard.ack, &heard.list);
        let index = list.roster.len().wrapping_sub(1);
        let issuer = list.roster.get(usize::from(ack.issuer)).copied();
        let old = self.old.as_ref();
        let own_high = old.map_or(Seq::ZERO, |old| old.top.last);
        let own_counter = old.map_or(0, |old| old.id.counter);
        list.roster.last() == Some(&local)
            && usize::from(ack.next) == index
            && list.ring.contains(&(index as u8))
            && list.ring.iter().all(|it| usize::from(*it) <= index)
            && (1..=VERSION_MAX).contains(&list.version)
            && is_set(&list.ring)
            && is_set(&list.roster)
            && list.sizes.len() == list.roster.len()
            && list.starts.len() == index
            && list.floor < heard.at()
            && heard.at().above(list.floor) < FETCHED_MAX
            && heard.at() > own_high
            && is_near(heard.at(), own_high)
            && usize::from(list.max_n) == list.ring.len()
            && list.config.counter > own_counter
            && (issuer == Some(from) || ack.again)
            && issuer.is_some_and(|issuer| issuer != local)
            && self.members.contains(&from)
    }

    /// What is missing up to the list: of its issuer, which keeps it.
    fn missing(&self, order: &Order) -> Nack {
        let positions = order.held.up_to(self.at);
        let positions = positions.filter(|seq| !order.holds(*seq));
        Nack {
            whole: true,
            tag: order.tag,
            asked: order.lists.last.as_ref().map_or(0, |list| list.ack.issuer),
            again: self.tries.min(u32::from(u8::MAX)) as u8,
            positions: runs(positions),
            packets: Vec::new(),
        }
    }
}
