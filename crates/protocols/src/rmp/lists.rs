//! Lists (000 ch. 8, Figs. 9 and 10): what a new list of members changes in the order, and when the
//! user is told.
//!
//! A list stands at a position of the order. The token goes by it from when it is heard. The user
//! is told at its place, when all before it is delivered; and, because `reliable` and `fifo`
//! messages have no place, when all members have said up to which packet of theirs those belong to
//! the configuration before (ours). Nobody says before that it is ready for what is behind the
//! list, or knows it: so nothing behind it is delivered anywhere that relies on a member which has
//! not passed it. With `order = heard` a newcomer, which relies on nobody, waits for one that has.
//! The rules, with their reasons: `docs/rmp.md`.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use groupcast_core::mech::claims::max_n_owing;
use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{ConfigId, Configuration, ConfigurationKind, Event, MemberId};

use super::numbers::{Marks, Number};
use super::order::{Heard, Order, STAMP_JUMP_MAX, Site, Slot};
use super::stream::Stream;
use super::wire::{Ack, List, ListAck, Passed, Start};

/// What became of the lists of an order.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct Lists {
    /// The version of the list that the user is in.
    pub(super) version: u8,
    /// A list that was heard and not passed. There is one at most: the next one is made when all
    /// have passed the last.
    pub(super) change: Option<Change>,
    /// The last list, for those that miss it.
    pub(super) last: Option<Arc<ListAck>>,
    /// The list that was passed last, as long as a member may be before it.
    pub(super) passed: Option<Passed>,
    /// Own messages that were delivered early before a list was passed: they are not sent again,
    /// even if their places behind the list get lost.
    pub(super) own_early: Vec<u64>,
    /// At the issuer: everything above is kept, for a newcomer fetches it.
    pub(super) kept_above: Option<Seq>,
}

/// A list that was heard and not passed.
#[derive(Clone, Hash, Debug)]
pub(super) struct Change {
    pub(super) list: Arc<ListAck>,
    /// By index, the last packet that the member sent before it heard the list; `None` as long as
    /// it has not said so.
    pub(super) cuts: Vec<Option<Number>>,
}

/// The version of a list has six bits on packets; after this many the next change is a reformation.
pub(super) const VERSION_MAX: u8 = 63;

impl Lists {
    /// The position of the list that was not passed.
    pub(super) fn pending(&self) -> Option<Seq> {
        self.change.as_ref().map(|change| change.list.at())
    }

    /// Up to where an ACK that is heard settles places, with `order = heard`, as far as `ready`
    /// says of each index: to no place behind a join before a member that was there already has
    /// passed its list (ours). Until then a reformation may end the list, and all behind it.
    pub(super) fn heard_settles_to(&self, ready: impl Fn(usize) -> Seq) -> Seq {
        let Some(last) = &self.last else {
            return Seq::MAX;
        };
        let (at, list) = (last.at(), &last.list);
        // Only a newcomer is behind a list without having passed it.
        let newcomer = list.roster.len() - usize::from(list.gone == List::NOBODY);
        match (0..newcomer).any(|index| ready(index) >= at) {
            true => Seq::MAX,
            false => at,
        }
    }

    /// The version that own packets bear.
    pub(super) fn newest(&self) -> u8 {
        self.version + u8::from(self.change.is_some())
    }
}

impl List {
    /// The members of the configuration that begins with it, ascending.
    pub(super) fn members(&self) -> Vec<MemberId> {
        let ring = self.ring.iter();
        let mut members: Vec<MemberId> = ring
            .filter_map(|index| self.roster.get(usize::from(*index)).copied())
            .collect();
        members.sort_unstable();
        members
    }

    /// The most bytes of a datagram body that the ways of all these members carry.
    pub(super) fn body_max(&self) -> u16 {
        let ring = self.ring.iter();
        let sizes = ring.filter_map(|index| self.sizes.get(usize::from(*index)));
        sizes.min().copied().unwrap_or_default()
    }

    /// The member that leaves with it.
    pub(super) fn gone(&self) -> Option<MemberId> {
        self.roster.get(usize::from(self.gone)).copied()
    }
}

/// What a token site changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    /// This process comes, whose way carries datagram bodies of so many bytes.
    Join(MemberId, u16),
    /// The next member leaves.
    Leave(u8),
}

impl Order {
    /// Whether this member, which has the token, may make a new list: all have passed the last one,
    /// and there is room (ours).
    pub(super) fn may_change(&mut self) -> bool {
        let at = self.lists.last.as_ref().map(|last| last.at());
        if self.lists.change.is_some() || at.is_some_and(|at| self.safe() < at) {
            return false;
        }
        let next = self.top.last.next();
        self.has_token() && self.lists.version < VERSION_MAX && next < self.room()
    }

    /// Forgets what was kept for those before the last list once all have passed it. Then nobody
    /// goes back to a configuration with one that left, whose way may have carried less (ours).
    pub(super) fn settle_lists(&mut self) {
        let at = self.lists.last.as_ref().map(|last| last.at());
        if self.lists.change.is_none() && at.is_some_and(|at| self.safe() >= at) {
            self.body_max = self.longest();
            self.lists.passed = None;
            self.lists.kept_above = None;
        }
    }

    /// The most bytes of a datagram's body that any member may send by now: one that knows that all
    /// have passed the last list sends as much as the ways of its members carry.
    pub(super) fn longest(&self) -> usize {
        let last = self.lists.last.as_ref();
        let passed = last.filter(|_| self.lists.passed.is_some());
        let listed = passed.map_or(0, |last| usize::from(last.list.body_max()));
        self.body_max.max(listed)
    }

    /// The member of the configuration whose way carries no longer datagrams than these, if the own
    /// way, of `own` bytes, does. None where that member has left and not all have passed the list.
    pub(super) fn narrowest(&self, own: usize) -> Option<MemberId> {
        let mut sizes = self.roster.iter().zip(&self.sizes);
        let is = |(member, size): &(&MemberId, &u16)| {
            usize::from(**size) == self.body_max && self.members.contains(member)
        };
        let narrowest = sizes.find(is).filter(|_| self.body_max < own);
        narrowest.map(|(member, _)| *member)
    }

    /// Whether some member is known to be before the last list still.
    pub(super) fn list_is_open(&self) -> bool {
        self.lists.change.is_some() || self.lists.passed.is_some()
    }

    /// A list that fulfils `wish`, in its ACK, which `sent` packets of this token site precede;
    /// `None` where it cannot be done by a list: so in a minority, whose members must say what they
    /// know of MaxN (`claims`).
    pub(super) fn list(&self, wish: Wish, config: ConfigId, sent: Number) -> Option<ListAck> {
        if self.is_minority() {
            return None;
        }
        let mut ring = self.ring.clone();
        let (mut roster, mut sizes) = (self.roster.clone(), self.sizes.clone());
        let me = self.me.0 as u8;
        let at = self.top.last.next();
        let mut gone = List::NOBODY;
        let (mut floor, mut starts) = (at, Vec::new());
        match wish {
            Wish::Join(newcomer, size) => {
                // Fig. 9: after the token site.
                let index = u8::try_from(roster.len()).ok()?;
                let place = ring.iter().position(|other| *other == me)? + 1;
                ring.insert(place, index);
                roster.push(newcomer);
                sizes.push(size);
                (floor, starts) = self.starts(at)?;
            }
            Wish::Leave(index) => {
                // Fig. 10: it is about to have the token.
                ring.retain(|other| *other != index);
                gone = index;
            }
        }
        let place = ring.iter().position(|other| *other == me)? + 1;
        let mut ack = self.ack(Vec::new());
        ack.next = ring[place % ring.len()];
        Some(ListAck {
            ack,
            list: List {
                version: self.lists.version + 1,
                config,
                max_n: ring.len() as u16,
                cut: sent,
                gone,
                ring,
                roster,
                sizes,
                floor,
                starts,
            },
        })
    }

    /// Where a newcomer begins whose list stands at `at`: with the last packets, as many as there
    /// are members (Fig. 9), and with those where messages begin that end behind the list (ours).
    /// It begins behind the newest list before its own, since no older list is kept: `None` if a
    /// message began before that one.
    fn starts(&self, at: Seq) -> Option<(Seq, Vec<Start>)> {
        let newest_list = self.lists.last.as_ref().map_or(0, |last| last.at().0);
        let mut floor = at.0 - 1 - (self.ring.len() as u64).min(at.0 - 1);
        floor = floor.max(self.places.base() - 1).max(newest_list);
        let mut starts = Vec::with_capacity(self.sites.len());
        for (site, stream) in self.sites.iter().zip(&self.streams) {
            let (first, offset) = stream.begin_behind(Number(site.placed.aru()));
            if first.0 <= site.placed.aru() {
                let seq = site.placed.get(first.0).filter(|seq| seq.0 > newest_list)?;
                floor = floor.min(seq.0 - 1);
            }
            starts.push(Start {
                held: Number::default(),
                first,
                offset: u16::try_from(offset).ok()?,
            });
        }
        for (start, site) in starts.iter_mut().zip(&self.sites) {
            let mut held = site.placed.aru();
            while held >= site.placed.base() && site.placed.get(held).is_some_and(|it| it.0 > floor)
            {
                held -= 1;
            }
            start.held = Number(held);
        }
        Some((Seq(floor), starts))
    }

    /// A list, made here or heard.
    pub(super) fn take_list(&mut self, heard: &ListAck) -> Heard {
        let (ack, list, at) = (&heard.ack, &heard.list, heard.at());
        let known = self.lists.last.as_ref();
        if known.is_some_and(|known| known.list == *list && known.at() == at) {
            return match ack.stamp > self.top.stamp {
                true => Heard::Malformed,
                false => Heard::Older,
            };
        }
        if at.0 < self.places.base() {
            return Heard::Older;
        }
        if !self.fits(heard) {
            return Heard::Malformed;
        }
        if at >= self.room() {
            return Heard::Beyond;
        }
        let place = Slot {
            origin: Slot::LIST,
            number: Number(list.version.into()),
            stamp: ack.stamp,
            issuer: ack.issuer,
            next: ack.next,
        };
        self.places.insert(at.0, place);
        self.grow(list, at);
        self.ring.clone_from(&list.ring);
        let mut cuts = vec![None; self.roster.len()];
        cuts[usize::from(ack.issuer)] = Some(list.cut);
        // All have passed the one before: else there would be no other.
        self.body_max = self.longest();
        let heard = Arc::new(heard.clone());
        self.lists.last = Some(heard.clone());
        self.lists.passed = None;
        self.lists.change = Some(Change { list: heard, cuts });
        let ack = self.lists.last.as_ref().map(|it| it.ack.clone());
        ack.map_or(Heard::Malformed, |ack| self.raise_top(&ack, at))
    }

    /// Makes room for a newcomer, which is ready for nothing yet: not even for the list.
    fn grow(&mut self, list: &List, at: Seq) {
        let capacity = self.capacity();
        let newcomers = list.roster.iter().zip(&list.sizes);
        for (member, size) in newcomers.skip(self.roster.len()) {
            self.roster.push(*member);
            self.sizes.push(*size);
            let mut marks = Marks {
                known: Number::default(),
                ready: at.before(),
            };
            self.plants.newcomer(&mut marks.ready);
            self.sites.push(Site::new(0, capacity, marks));
            self.streams.push(Stream::default());
        }
    }

    /// Whether a list follows from the present one, of a token site that may make it.
    pub(super) fn fits(&self, heard: &ListAck) -> bool {
        let (ack, list) = (&heard.ack, &heard.list);
        let free = self.places.get(heard.at().0).is_none();
        let next = self.lists.change.is_none()
            && self.lists.version < VERSION_MAX
            && list.version == self.lists.version + 1;
        let members = self.roster.len();
        if !free
            || !next
            || list.config.counter <= self.id.counter
            || !self.ring.contains(&ack.issuer)
        {
            return false;
        }
        let mut ring = self.ring.clone();
        let Some(place) = ring.iter().position(|other| *other == ack.issuer) else {
            return false;
        };
        let grown = match list.gone {
            List::NOBODY => {
                ring.insert(place + 1, members as u8);
                1
            }
            gone => {
                let successor = ring[(place + 1) % ring.len()];
                if gone != successor || ring.len() < 3 {
                    return false;
                }
                ring.retain(|other| *other != gone);
                0
            }
        };
        let issuer = ring.iter().position(|other| *other == ack.issuer);
        let after = issuer.map(|at| ring[(at + 1) % ring.len()]);
        let sizes = list.sizes.starts_with(&self.sizes)
            && list.sizes.len() == list.roster.len()
            && list.sizes[members..]
                .iter()
                .all(|size| usize::from(*size) >= self.longest());
        let is_new = list
            .roster
            .get(members)
            .is_none_or(|it| !self.roster.contains(it));
        let ahead = self.top.stamp < ack.stamp;
        let unordered = ahead == (heard.at() <= self.top.last);
        let too_far = ack.stamp.0 > self.top.stamp.0 + STAMP_JUMP_MAX;
        let follows = ack.stamp == self.top.stamp.next();
        let in_turn = !follows || ack.issuer == self.top.next && ack.first == self.top.last.next();
        list.ring == ring
            && usize::from(list.max_n) == ring.len()
            && after == Some(ack.next)
            && list.roster.len() == members + grown
            && list.roster.len() <= Indices::MAX
            && list.roster.starts_with(&self.roster)
            && sizes
            && is_new
            && !unordered
            && !too_far
            && in_turn
    }

    /// Whether an ACK names members that a list brings which was not heard here.
    pub(super) fn names_unlisted(&self, ack: &Ack) -> bool {
        let unlisted = |index: u8| {
            let index = usize::from(index);
            index >= self.roster.len() && index < Indices::MAX
        };
        let mut packets = ack.packets.iter();
        unlisted(ack.issuer) || unlisted(ack.next) || packets.any(|run| unlisted(run.origin))
    }

    /// An ACK that names such members: all before it was given out.
    pub(super) fn hear_unlisted(&mut self, ack: &Ack) -> Heard {
        let newer = ack.stamp > self.top.stamp && ack.first > self.top.last;
        if newer && ack.first < self.room() && self.lists.version < VERSION_MAX {
            self.heard_of = self.heard_of.max(ack.first.before());
        }
        Heard::Beyond
    }

    /// Another member has heard the list, and sent `cut` packets before. The newcomer did not: it
    /// is in no configuration before.
    pub(super) fn note_cut(&mut self, index: u8, version: u8, cut: Number) {
        let next = self.lists.version + 1;
        if let Some(change) = &mut self.lists.change
            && version == next
            && self.present.contains(&index)
            && let Some(known) = change.cuts.get_mut(usize::from(index))
        {
            known.get_or_insert(cut);
        }
    }

    /// The cuts of others that have passed the pending list count, whatever was heard of them here.
    pub(super) fn take_cuts(&mut self, cuts: &[Number]) {
        if let Some(change) = &mut self.lists.change {
            for (known, cut) in change.cuts.iter_mut().zip(cuts) {
                *known = Some(*cut);
            }
        }
    }

    /// What this member said when it heard the list of `version`.
    pub(super) fn own_cut(&self, version: u8) -> Option<Number> {
        if let Some(change) = &self.lists.change
            && version == self.lists.version + 1
        {
            return change.cuts[self.me.at()];
        }
        let passed = self.lists.passed.as_ref();
        let cuts = passed.filter(|_| version == self.lists.version)?;
        cuts.cuts.get(self.me.at()).copied()
    }

    /// Whether members of this configuration leave with a list: a pair is reformed, and a minority.
    pub(super) fn leaves_by_list(&self) -> bool {
        self.ring.len() > 2 && self.lists.version < VERSION_MAX && !self.is_minority()
    }

    /// Whether this member has no place in the configuration that the pending list begins.
    pub(super) fn is_going(&self) -> bool {
        let change = self.lists.change.as_ref();
        change.is_some_and(|it| usize::from(it.list.list.gone) == self.me.at())
    }

    /// Whether all before the pending list is delivered.
    pub(super) fn is_at_list(&self) -> bool {
        self.lists.pending() == Some(self.cursor.next())
    }

    /// Whether a member has not said yet what belongs to the configuration before the list.
    pub(super) fn lacks_cuts(&self) -> bool {
        let change = self.lists.change.as_ref();
        change.is_some_and(|change| {
            let mut present = self.present.iter();
            present.any(|index| change.cuts[usize::from(*index)].is_none())
        })
    }

    /// Whether this member may pass the pending list: all before its place is delivered, and all
    /// that came early in the configuration before was delivered here.
    pub(super) fn may_pass(&self) -> bool {
        let Some(change) = &self.lists.change else {
            return false;
        };
        let read = |index: &u8| {
            let index = usize::from(*index);
            let cut = self.plants.cut(change.cuts[index]);
            cut.is_some_and(|cut| match index == self.me.at() {
                true => self.acknowledged() >= cut,
                false => self.streams[index].next_packet() > cut,
            })
        };
        self.is_at_list() && !self.is_going() && self.present.iter().all(read)
    }

    /// Passes the pending list: the user is told the transitional configuration, to which all
    /// belong that go along, and the regular one that begins (EVS).
    pub(super) fn pass(&mut self, emit: &mut dyn FnMut(Event)) {
        let own = self.own_cut(self.lists.newest()).unwrap_or_default();
        self.read_own(own, emit);
        let Some(Change { list, cuts }) = self.lists.change.take() else {
            return;
        };
        let (at, list) = (list.at(), &list.list);
        let members = list.members();
        let gone = list.gone();
        let left: Vec<MemberId> = gone.into_iter().collect();
        let along = self.members.iter().filter(|it| members.contains(it));
        emit(Event::Configuration(Configuration {
            kind: ConfigurationKind::Transitional,
            id: self.id,
            members: along.copied().collect(),
            left: left.clone(),
        }));
        emit(Event::Configuration(Configuration {
            kind: ConfigurationKind::Regular,
            id: list.config,
            members: members.clone(),
            left,
        }));
        self.lists.passed = Some(Passed {
            from: self.id,
            at,
            gone,
            cuts: cuts.into_iter().map(Option::unwrap_or_default).collect(),
        });
        self.lists.version = list.version;
        self.id = list.config;
        self.present = list.ring.clone();
        self.present.sort_unstable();
        let owed = self.own_max_n.saturating_sub(usize::from(gone.is_some()));
        self.own_max_n = max_n_owing(members.len(), owed);
        self.max_n = self.own_max_n;
        self.members = members;
        self.cursor.step();
        self.advance();
    }
}
