//! Changes of the list in operation (000 ch. 8, Figs. 9 and 10): the token site makes a list, and
//! members say that they have heard it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use groupcast_core::mech::peers::Stranger;
use groupcast_core::{ConfigId, Event, MemberId, Time};

use super::lists::Wish;
use super::numbers::{Marks, Tag};
use super::order::{Heard, Order};
use super::polling::Polling;
use super::token::Pass;
use super::wire::{Join, ListAck, Listed, Message};
use super::{Rmp, State, Timer};

/// The processes that want to come and the members that want to go. Every member keeps them until a
/// list fulfils the wish.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct Wishes {
    /// The processes that want to come, and when each last said so.
    joins: BTreeMap<MemberId, (Join, Time)>,
    /// The indices of the members that want to leave.
    leaves: BTreeSet<u8>,
    /// How many times the timer of a list expired.
    tries: u32,
    /// How many times this member said that it wants to leave.
    pub(super) leave_asked: u32,
}

/// The most requests to come that are kept.
const JOINS_MAX: usize = 16;
/// A request that was not repeated for this many poll intervals is over.
const JOIN_KEPT: u32 = 4;
/// After this many requests a leaver says good-bye, and the others reform the group.
const LEAVE_ASKED_MAX: u32 = 16;

impl Wishes {
    /// Whether somebody waits for a list.
    pub(super) fn is_empty(&self) -> bool {
        self.joins.is_empty() && self.leaves.is_empty()
    }
}

impl Rmp {
    /// A process wants to be let in (Fig. 9).
    pub(super) fn handle_join(&mut self, now: Time, from: MemberId, join: Join) {
        self.peers.note_counter(join.counter);
        let stranger = self.stranger_who_joins(now, from, &join);
        let State::Operational(operational) = &mut self.state else {
            return;
        };
        let order = &operational.order;
        if order.index_of(from).is_some() {
            // It missed the list.
            let list = order.lists.last.clone();
            let its = list.filter(|list| list.list.roster.last() == Some(&from));
            if let Some(list) = its
                && self.may_tell(now, from)
            {
                self.outbox.unicast(from, &Message::List(again(&list)));
            }
            return;
        }
        if stranger != Stranger::LetIn || operational.wishes.joins.len() >= JOINS_MAX {
            return;
        }
        self.peers.note_heard(now, from);
        operational.wishes.joins.insert(from, (join, now));
        self.act(now);
    }

    /// A member wants to leave (Fig. 10).
    pub(super) fn handle_leave_request(&mut self, now: Time, from: MemberId, tag: Tag) {
        let State::Operational(operational) = &mut self.state else {
            return;
        };
        let order = &operational.order;
        match order.index_of(from).filter(|_| order.tag == tag) {
            Some(index) if order.ring.contains(&index) => {
                operational.wishes.leaves.insert(index);
                self.act(now);
            }
            Some(_) => {}
            None => self.counters.foreign += 1,
        }
    }

    /// As token site: makes a list if somebody waits for one, and it is its turn. False if not.
    pub(super) fn change_list(&mut self, now: Time) -> bool {
        let keep = self.config.poll_interval * JOIN_KEPT;
        let operational = self.state.expect_operational();
        let wishes = &mut operational.wishes;
        wishes.joins.retain(|_, (_, at)| now.since(*at) < keep);
        if wishes.is_empty() || !operational.order.may_change() {
            return false;
        }
        self.deliver();
        let Some(wish) = self.wish(now) else {
            return false;
        };
        let (counter, _) = self.peers.next_counter();
        let config = ConfigId {
            counter,
            representative: self.local,
        };
        let operational = self.state.expect_operational();
        let order = &operational.order;
        let list = order.list(wish, config, operational.sent);
        let longest = order.body_max;
        let list = list.filter(|list| Message::List(list.clone()).encode().len() <= longest);
        let Some(list) = list else {
            if let Wish::Join(newcomer, _) = wish {
                operational.wishes.joins.remove(&newcomer);
            }
            return false;
        };
        self.issue_list(now, list)
    }

    /// The wish that this token site can fulfil now: that of the next member to leave, else that of
    /// a process to come.
    fn wish(&self, now: Time) -> Option<Wish> {
        let State::Operational(operational) = &self.state else {
            return None;
        };
        let (order, wishes) = (&operational.order, &operational.wishes);
        let successor = order.successor();
        if wishes.leaves.contains(&successor) && order.ring.len() > 2 {
            return Some(Wish::Leave(successor));
        }
        let room = order.members.len() < self.config.members_max && order.ring.len() > 1;
        let mut joins = wishes.joins.iter().filter(|_| room);
        let newcomer = joins.find(|(newcomer, (join, _))| {
            join.high <= order.top.last
                && usize::from(join.body_max) >= order.longest()
                && self.stranger_who_joins(now, **newcomer, join) == Stranger::LetIn
        });
        newcomer.map(|(newcomer, (join, _))| Wish::Join(*newcomer, join.body_max))
    }

    /// What to do about a process that wants to be let in.
    fn stranger_who_joins(&self, now: Time, from: MemberId, join: &Join) -> Stranger {
        let installed = self.state.installed();
        let members = installed.map_or(&[][..], |order| &order.members);
        let evidence = join.heard.iter().any(|it| members.contains(it));
        self.peers.stranger(now, from, evidence, members)
    }

    /// Multicasts a list in its ACK.
    fn issue_list(&mut self, now: Time, mut list: ListAck) -> bool {
        let operational = self.state.expect_operational();
        let order = &mut operational.order;
        if order.take_list(&list) != Heard::Newest {
            return false;
        }
        order.lists.kept_above = match list.list.starts.is_empty() {
            true => None,
            false => Some(list.list.floor),
        };
        list.ack.marks = order.marks();
        operational.told = list.ack.marks;
        operational.token_since = None;
        self.counters.lists_sent += 1;
        self.timers.cancel(Timer::NullAck);
        self.timers.cancel(Timer::Confirm);
        self.outbox.multicast(&Message::List(list.clone()));
        let ack = list.ack.clone();
        self.state.expect_operational().pass =
            Some(Pass::new(ack.clone(), Some(Arc::new(list)), now));
        let timer = self.timing.pass_timer(&self.config, 0);
        self.timers.set(Timer::Pass, now + timer);
        self.begin_change(now);
        self.token_moved(now, &ack);
        true
    }

    /// A list was made or heard: it is used from now on.
    fn begin_change(&mut self, now: Time) {
        let operational = self.state.expect_operational();
        let sent = operational.sent;
        let order = &mut operational.order;
        let (me, tag) = (order.me.0 as u8, order.tag);
        let version = order.lists.newest();
        operational.wishes.tries = 0;
        let ring = order.ring.clone();
        operational
            .wishes
            .leaves
            .retain(|index| ring.contains(index));
        let roster = &order.roster;
        operational
            .wishes
            .joins
            .retain(|member, _| !roster.contains(member));
        order.note_cut(me, version, sent);
        let config = order.lists.last.as_ref().map(|last| last.list.config);
        let issued = order
            .lists
            .last
            .as_ref()
            .is_some_and(|last| last.ack.issuer == me);
        self.peers
            .note_counter(config.map_or(0, |config| config.counter));
        if !issued {
            let listed = Listed {
                tag,
                version,
                cut: sent,
                asks: false,
            };
            self.outbox.multicast(&Message::Listed(listed));
        }
        let timer = self.timing.pass_timer(&self.config, 0);
        self.timers.set(Timer::Lists, now + timer);
    }

    /// A list, and the token with it.
    pub(super) fn handle_list(&mut self, now: Time, from: MemberId, list: &ListAck) {
        if matches!(self.state, State::Joining(_)) {
            self.handle_own_list(now, from, list);
            return;
        }
        let ack = &list.ack;
        let (tells, leaves) = (self.tells_marks(), self.leaving.is_some());
        let Some(order) = self.order_of(ack.tag) else {
            self.counters.foreign += 1;
            return;
        };
        let own = order.member(ack.issuer) == Some(from);
        let expelled = !leaves && usize::from(list.list.gone) == order.me.at();
        if !own && !ack.again || expelled {
            let fits = own && order.fits(list);
            self.counters.malformed += 1;
            if fits && matches!(self.state, State::Operational(_)) {
                // No other passes it without this member's word. They would wait for that.
                self.poll(now, "a list without this member", Polling::default());
            }
            return;
        }
        let pending = order.lists.pending();
        let heard = order.take_list(list);
        let begins = order.lists.pending() != pending;
        if own && tells && matches!(heard, Heard::Newest | Heard::Older) {
            order.note_marks(ack.issuer, ack.marks);
        }
        let operational = matches!(self.state, State::Operational(_));
        if begins && operational {
            self.begin_change(now);
        }
        self.ack_heard(now, from, ack, heard);
        self.forward(from, ack, Some(&list.list));
    }

    /// A member says that it has heard a list.
    pub(super) fn handle_listed(&mut self, now: Time, from: MemberId, listed: Listed) {
        let State::Operational(operational) = &mut self.state else {
            return;
        };
        let order = &mut operational.order;
        let Some(index) = order.index_of(from).filter(|_| order.tag == listed.tag) else {
            self.counters.foreign += 1;
            return;
        };
        order.note_cut(index, listed.version, listed.cut);
        if listed.asks
            && let Some(cut) = order.own_cut(listed.version)
        {
            let own = Listed {
                cut,
                asks: false,
                ..listed
            };
            self.outbox.unicast(from, &Message::Listed(own));
        }
        self.progress(now);
    }

    /// The list is not passed yet: says again what it waits for.
    pub(super) fn list_again(&mut self, now: Time) {
        let tries_max = self.config.tries * 2;
        let operational = self.state.expect_operational();
        let (order, wishes) = (&operational.order, &mut operational.wishes);
        if order.lists.change.is_none() {
            self.ask_to_leave(now);
            return;
        }
        wishes.tries += 1;
        let tries = wishes.tries;
        if order.is_going() && tries > tries_max / 2 && order.is_at_list() {
            self.gone();
            return;
        }
        if tries > tries_max {
            self.poll(now, "a list is not passed", Polling::default());
            return;
        }
        let version = order.lists.newest();
        if let Some(cut) = order.own_cut(version) {
            let listed = Listed {
                tag: order.tag,
                version,
                cut,
                asks: order.lacks_cuts(),
            };
            self.outbox.multicast(&Message::Listed(listed));
        }
        self.tell_marks();
        let timer = self.timing.pass_timer(&self.config, tries);
        self.timers.set(Timer::Lists, now + timer);
    }

    /// Passes the pending list if all before its place is delivered.
    pub(super) fn pass_list(&mut self, now: Time) {
        let operational = self.state.expect_operational();
        let order = &mut operational.order;
        if order.may_pass() {
            let events = &mut self.events;
            order.pass(&mut |event| events.push_back(event));
            let (counter, members) = (order.id.counter, order.members.clone());
            let someone_left = order
                .lists
                .passed
                .as_ref()
                .is_some_and(|it| it.gone.is_some());
            operational.left.retain(|member| members.contains(member));
            self.counters.configurations += 1;
            self.peers.note_counter(counter);
            self.timers.cancel(Timer::Lists);
            let operational = self.state.expect_operational();
            if operational.wishes.leave_asked > 0 {
                // The newcomer, which may be the one to make the next list, has not heard it.
                let again = self.config.poll_interval;
                self.timers.set(Timer::Lists, now + again);
            }
            let known = operational.order.marks().known;
            self.queue.settle(known);
            self.plan_first_announcement(now);
            self.deliver();
            if someone_left {
                // The member that left stays until all have passed the list.
                self.tell_marks();
            }
        }
        let order = &mut self.state.expect_operational().order;
        order.settle_lists();
        let passed = |order: &Order| {
            let at = order.lists.pending();
            let list = order
                .lists
                .change
                .as_ref()
                .map(|change| &change.list.list.ring);
            let mut others = list.into_iter().flatten();
            others.all(|index| Some(order.sites[usize::from(*index)].marks.ready) >= at)
        };
        if order.is_going() && order.is_at_list() && passed(order) {
            self.gone();
        }
    }

    /// This member has left with a list, and nobody needs it.
    fn gone(&mut self) {
        self.events.push_back(Event::Left);
        self.timers.cancel_all();
        self.transition("leave", |before| State::Left(before.into_installed()));
    }

    /// Asks to be taken off the list; as a last resort, says good-bye.
    pub(super) fn ask_to_leave(&mut self, now: Time) {
        if self.leaving.is_none() {
            return;
        }
        let operational = self.state.expect_operational();
        let (order, wishes) = (&operational.order, &mut operational.wishes);
        if order.lists.change.is_some() {
            return;
        }
        wishes.leave_asked += 1;
        if wishes.leave_asked > LEAVE_ASKED_MAX || !order.leaves_by_list() {
            self.say_goodbye(now);
            return;
        }
        let tag = order.tag;
        self.outbox.multicast(&Message::Leave { tag });
        let again = self.config.poll_interval;
        self.timers.set(Timer::Lists, now + again);
    }
}

/// A list that is sent again.
pub(super) fn again(list: &ListAck) -> ListAck {
    let mut again = list.clone();
    again.ack.again = true;
    again.ack.marks = Marks::default();
    again
}
