//! Marks of members that are not heard here, asked of others that hear them (ours).
//!
//! A member's marks come from that member alone. A member that does not hear it, because one
//! direction is closed, gets its packets and ACKs from others by NACKs. But it would never know
//! that their order is settled, or that the other holds them: it would deliver nothing more, and
//! hold back all others. So it asks other members what they have heard. A mark is a fact that stays
//! true in its configuration, whoever tells it; but one member could tell what is not true. So two
//! have to tell it, and one alone is believed only after all were asked: then nobody else hears the
//! member.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use groupcast_core::mech::claims::second;
use groupcast_core::{MemberId, Time};

use super::askers::Verdict;
use super::numbers::{Marks, Tag};
use super::operational::Operational;
use super::order::Order;
use super::wire::{Message, RELAYED_MAX, Relayed, Wanted};
use super::{Rmp, State, Timer};
use crate::packing::waits_for_holders;

/// Others are asked once something has waited for marks for this many of the shortest timers.
const WAITS: u32 = 3;
/// This many members have to tell marks, where as many can; as many are asked at once.
const TELLERS: usize = 2;

/// Marks that others told of members.
#[derive(Clone, Hash, Default, Debug)]
pub(super) struct Tellings {
    /// By the index of the member that they are of, and of the one that told them.
    told: BTreeMap<(u8, u8), Marks>,
}

impl Tellings {
    /// `teller` has told `marks` of the member at `index`.
    fn note(&mut self, index: u8, teller: u8, marks: Marks) {
        let told = self.told.entry((index, teller)).or_default();
        told.known = told.known.max(marks.known);
        told.ready = told.ready.max(marks.ready);
    }

    /// What was told of the member at `index` is not true.
    pub(super) fn forget(&mut self, index: u8) {
        self.told.retain(|(of, _), _| *of != index);
    }

    /// What was told of the member at `index`.
    fn of(&self, index: u8) -> impl Iterator<Item = Marks> {
        let of_it = self.told.range((index, 0)..=(index, u8::MAX));
        of_it.map(|(_, marks)| *marks)
    }

    /// What at least two have told of the member at `index`.
    fn of_two(&self, index: u8) -> Marks {
        Marks {
            known: second(self.of(index).map(|it| it.known)),
            ready: second(self.of(index).map(|it| it.ready)),
        }
    }

    /// What any has told of it.
    fn of_any(&self, index: u8) -> Marks {
        let known = self.of(index).map(|it| it.known).max();
        let ready = self.of(index).map(|it| it.ready).max();
        Marks {
            known: known.unwrap_or_default(),
            ready: ready.unwrap_or_default(),
        }
    }
}

impl Order {
    /// Whether something that is held waits for the marks of others.
    fn waits_for_marks(&self) -> bool {
        let blocked = self.cursor.blocked();
        self.ready < self.held
            || blocked.is_some_and(|record| waits_for_holders(record.service))
            || self.is_filling()
    }

    /// Whether half of the positions that may be given out are, and others are not known to be
    /// ready for them.
    fn is_filling(&self) -> bool {
        self.safe().plus(self.gap_max / 2) < self.held
    }

    /// The members whose marks hold something back here: the sender of the first packet whose order
    /// is not settled, and those that are not known to be ready for what comes next. At most
    /// [`RELAYED_MAX`].
    fn lacks_marks(&self) -> Vec<u8> {
        let mut lacks = Vec::new();
        let unsettled = self.places.get(self.ready.next().0);
        if self.ready < self.held
            && let Some(place) = unsettled.filter(|place| !place.is_list())
            && self.known(place.origin) < place.number
        {
            lacks.push(place.origin);
        }
        let next = match self.is_filling() {
            true => self.held,
            false => self.cursor.delivered().next(),
        };
        let blocked = self.cursor.blocked();
        if self.is_filling() || blocked.is_some_and(|it| waits_for_holders(it.service)) {
            let unready = |index: &u8| self.sites[usize::from(*index)].marks.ready < next;
            lacks.extend(self.present.iter().copied().filter(unready));
        }
        lacks.retain(|index| usize::from(*index) != self.me.at());
        lacks.sort_unstable();
        lacks.dedup();
        lacks.truncate(RELAYED_MAX);
        lacks
    }

    /// The members to ask for the marks of `wanted`: the others, from the one after this on; those
    /// themselves only where there are too few others.
    fn may_tell(&self, wanted: &[u8]) -> Vec<u8> {
        let me = self.me.0 as u8;
        let Some(at) = self.present.iter().position(|index| *index == me) else {
            return Vec::new();
        };
        let (before, after) = self.present.split_at(at);
        let others = after[1..].iter().chain(before).copied();
        let (of_themselves, mut asked): (Vec<u8>, Vec<u8>) =
            others.partition(|it| wanted.contains(it));
        if asked.len() < TELLERS {
            asked.extend(of_themselves);
        }
        asked
    }

    /// Whether enough members could tell marks of the one at `index` that one alone need not be
    /// believed.
    fn has_tellers(&self, index: u8) -> bool {
        let me = self.me.0 as u8;
        let others = self.present.iter().filter(|it| ![me, index].contains(*it));
        others.count() >= TELLERS
    }

    /// What this member knows of the marks of `wanted`.
    fn marks_of(&self, wanted: &[u8]) -> Vec<(u8, Marks)> {
        let known = wanted.iter().take(RELAYED_MAX).filter_map(|index| {
            let site = self.sites.get(usize::from(*index))?;
            Some((*index, site.marks))
        });
        known.collect()
    }
}

impl Rmp {
    /// Sets when to ask for marks, if something waits for them and nothing moves.
    pub(super) fn plan_wanted(&mut self, now: Time) {
        let soon = self.config.timer_min * WAITS;
        let operational = self.state.expect_operational();
        let order = &operational.order;
        if !order.waits_for_marks() || order.is_alone() {
            self.timers.cancel(Timer::Wanted);
            return;
        }
        let at = (order.ready, order.cursor.delivered(), order.safe());
        let moved = operational.wanted_at != at;
        if moved {
            operational.wanted_at = at;
            operational.wanted_tries = 0;
        }
        if moved || self.timers.due(Timer::Wanted).is_none() {
            self.timers.set(Timer::Wanted, now + soon);
        }
    }

    /// Nothing has moved for a while: asks another member for the marks that are missing.
    pub(super) fn ask_for_marks(&mut self, now: Time) {
        let operational = self.state.expect_operational();
        let order = &operational.order;
        let members = order.lacks_marks();
        let tries = operational.wanted_tries;
        let may_tell = order.may_tell(&members);
        if members.is_empty() || may_tell.is_empty() {
            return;
        }
        let asked_before = tries as usize * TELLERS;
        if asked_before >= may_tell.len() && operational.believe_any(&members) {
            return self.progress(now);
        }
        operational.wanted_tries += 1;
        let order = &operational.order;
        let turns = may_tell.iter().cycle().skip(asked_before % may_tell.len());
        for asked in turns.take(TELLERS.min(may_tell.len())) {
            let to = order.member(*asked);
            let wanted = Message::Wanted(Wanted {
                tag: order.tag,
                asked: *asked,
                again: tries.min(u32::from(u8::MAX)) as u8,
                members: members.clone(),
            });
            self.counters.nacks_sent += 1;
            match to {
                // The way by unicast may not work.
                Some(to) if tries == 0 => self.outbox.unicast(to, &wanted),
                _ => self.outbox.multicast(&wanted),
            }
        }
        let timer = self.timing.request_timer(&self.config, tries);
        let timer = timer.max(self.config.timer_min * WAITS);
        self.timers.set(Timer::Wanted, now + timer);
    }

    /// Another member wants marks.
    pub(super) fn handle_wanted(&mut self, now: Time, from: MemberId, wanted: &Wanted) {
        let State::Operational(operational) = &self.state else {
            self.counters.foreign += 1;
            return;
        };
        let order = &operational.order;
        if order.tag != wanted.tag {
            self.counters.foreign += 1;
            return;
        }
        if order.index_of(from).is_none() {
            let lacks_list = order.lacks_list();
            return self.count_stranger(lacks_list);
        }
        if usize::from(wanted.asked) != order.me.at() {
            return;
        }
        let (tag, members) = (order.tag, order.marks_of(&wanted.members));
        let trip = self.timing.trip().max(self.config.timer_min);
        match self.askers.asks(now, from, trip) {
            Verdict::Answer(_) => {}
            Verdict::Refuse => {
                self.counters.nacks_refused += 1;
                return;
            }
            Verdict::Exclude => return self.exclude_asker(now, from),
        }
        self.askers.answered(from, 1);
        self.counters.answers_sent += 1;
        let relayed = Message::Relayed(Relayed { tag, members });
        match wanted.again {
            0 => self.outbox.unicast(from, &relayed),
            _ => self.outbox.multicast(&relayed),
        }
    }

    /// What another member has heard of marks.
    pub(super) fn handle_relayed(&mut self, now: Time, from: MemberId, relayed: &Relayed) {
        if self.note_relayed(from, relayed.tag, &relayed.members) {
            self.progress(now);
        }
    }

    fn note_relayed(&mut self, from: MemberId, tag: Tag, members: &[(u8, Marks)]) -> bool {
        let State::Operational(operational) = &mut self.state else {
            return false;
        };
        let order = &mut operational.order;
        if order.tag != tag {
            self.counters.foreign += 1;
            return false;
        }
        let unlisted = |(index, _): &(u8, Marks)| usize::from(*index) >= order.roster.len();
        let teller = order.index_of(from);
        let Some(teller) = teller.filter(|_| !members.iter().any(unlisted)) else {
            let lacks_list = order.lacks_list();
            self.count_stranger(lacks_list);
            return false;
        };
        let tellings = &mut operational.tellings;
        for (index, marks) in members {
            if order.is_too_far(*index, *marks) {
                continue;
            }
            tellings.note(*index, teller, *marks);
            let marks = match order.has_tellers(*index) && *index != teller {
                true => tellings.of_two(*index),
                false => *marks,
            };
            order.note_marks(*index, marks);
        }
        true
    }
}

impl Operational {
    /// All were asked for the marks of `wanted`, and no two told what is missing: believes one.
    /// Whether that is news.
    fn believe_any(&mut self, wanted: &[u8]) -> bool {
        let at = |order: &Order, index: &u8| order.sites[usize::from(*index)].marks;
        let mut news = false;
        for index in wanted {
            let before = at(&self.order, index);
            self.order.note_marks(*index, self.tellings.of_any(*index));
            news |= at(&self.order, index) != before;
        }
        news
    }
}
