//! The order of one configuration (000 ch. 8): packets, their positions, the token, and what the
//! members are known to hold. It decides nothing about when datagrams are sent.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::mech::delivery::Cursor;
use groupcast_core::mech::indices::{Index, Indices};
use groupcast_core::mech::marks::majority;
use groupcast_core::mech::seq::Seq;
use groupcast_core::mech::window::{Insert, SeqWindow};
use groupcast_core::{ConfigId, MemberId};

use super::config::{OrderRule, RmpConfig, WINDOW_MOST};
use super::lists::Lists;
use super::numbers::{Marks, Number, Packets, Stamp, Tag};
use super::planted::Plants;
use super::stranded::Vain;
use super::stream::Stream;
use super::wire::Ack;
use crate::packing::Record;

/// State of one configuration's order.
#[derive(Clone, Hash, Debug)]
pub(super) struct Order {
    pub(super) id: ConfigId,
    pub(super) tag: Tag,
    /// The members of the configuration that the user is in, ascending.
    pub(super) members: Vec<MemberId>,
    /// The member that each index names: these, those that a list brought, and those that left with
    /// one.
    pub(super) roster: Vec<MemberId>,
    /// Of each of these, the most bytes of a datagram body that its way carries.
    pub(super) sizes: Vec<u16>,
    /// The indices of [`members`](Self::members).
    pub(super) present: Vec<u8>,
    /// The newest list: each ACK names the member after its issuer.
    pub(super) ring: Vec<u8>,
    /// What became of lists.
    pub(super) lists: Lists,
    /// This member's index.
    pub(super) me: Index,
    /// The most bytes of a datagram's body that this member sends.
    pub(super) body_max: usize,
    pub(super) rule: OrderRule,
    pub(super) gap_max: u64,
    /// What stands where, as far as ACKs were heard.
    pub(super) places: SeqWindow<Slot>,
    /// One for each member.
    pub(super) sites: Vec<Site>,
    /// The newest ACK.
    pub(super) top: Top,
    /// Positions up to here were given out, as ACKs say that name members which are not known here.
    pub(super) heard_of: Seq,
    /// The issuers of the last ACKs, the newest first: whom to ask.
    pub(super) issuers: VecDeque<u8>,
    /// Every position up to here is held, with its packet.
    pub(super) held: Seq,
    /// Every position up to here is held and settled: it may be delivered as agreed.
    pub(super) ready: Seq,
    /// The last packet of this member in which a message ends that comes early.
    pub(super) own_early: Number,
    /// What members of this configuration said is safe, beyond what is known by marks.
    safe_told: Seq,
    pub(super) cursor: Cursor<Record>,
    /// The messages of each member.
    pub(super) streams: Vec<Stream>,
    /// The last position at which a message was delivered that some members, not all, must hold.
    pub(super) resilient_to: Seq,
    /// The last position at which a safe message was delivered.
    pub(super) safe_to: Seq,
    /// A majority of this many members must hold what is delivered as `majority`.
    pub(super) max_n: usize,
    /// What of [`max_n`](Self::max_n) this member has itself, and declares: see `claims`.
    pub(super) own_max_n: usize,
    pub(super) message_max: usize,
    /// Members whose messages must be delivered behind a gap, because others may have installed the
    /// next configuration relying on it (Totem's obligation set).
    pub(super) obligations: Indices,
    /// Own packets above this one are sent again, whatever place of them is heard of now: others
    /// may have installed the next configuration relying on it.
    pub(super) places_end: Option<Number>,
    /// With `order = heard`: an ACK settles nothing above this position, for the same reason.
    pub(super) heard_end: Seq,
    /// Recoveries that brought nothing.
    pub(super) vain: Vain,
    pub(super) plants: Plants,
}

/// What stands at a position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Slot {
    pub(super) origin: u8,
    pub(super) number: Number,
    /// Of the ACK that put it there; its issuer, and whom that named.
    pub(super) stamp: Stamp,
    pub(super) issuer: u8,
    pub(super) next: u8,
}

/// A member's packet.
#[derive(Clone, Hash, Debug)]
pub(super) struct Packet {
    /// The version of the list that its sender used.
    pub(super) version: u8,
    /// Packed records.
    pub(super) body: Bytes,
}

impl Slot {
    /// [`origin`](Self::origin) where no packet stands but a list.
    pub(super) const LIST: u8 = u8::MAX;

    /// Whether a list stands there.
    pub(super) fn is_list(&self) -> bool {
        self.origin == Self::LIST
    }
}

/// What is known of one member.
#[derive(Clone, Hash, Debug)]
pub(super) struct Site {
    /// Its packets.
    pub(super) packets: SeqWindow<Packet>,
    /// The positions of its packets.
    pub(super) placed: SeqWindow<Seq>,
    /// What it said last.
    pub(super) marks: Marks,
    /// The newest position of a packet of it.
    pub(super) last: Seq,
}

/// The newest ACK that is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Top {
    pub(super) stamp: Stamp,
    pub(super) issuer: u8,
    /// The member that is to have the token.
    pub(super) next: u8,
    /// The last position that was given out.
    pub(super) last: Seq,
}

/// What became of an ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// It passes the token on.
    Newest,
    /// It is not newer than one that is known; it may have filled a gap.
    Older,
    /// It is further ahead than can be kept, or names members of a list that was not heard.
    Beyond,
    /// It contradicts what is known.
    Malformed,
}

impl Site {
    /// A member of which all packets up to `held` are here or not wanted.
    pub(super) fn new(held: u64, capacity: usize, marks: Marks) -> Self {
        // It may have a window of packets that have no position yet.
        let capacity = capacity + WINDOW_MOST as usize;
        Self {
            packets: SeqWindow::new(held, capacity),
            placed: SeqWindow::new(held, capacity),
            marks,
            last: Seq::default(),
        }
    }
}

/// Positions that are kept: what is not yet stable anywhere, and as much again that a member may be
/// ahead of another.
fn capacity(gap_max: u64) -> usize {
    gap_max as usize * 2
}

/// ACKs that may be missed before one is taken for a peer's bug.
pub(super) const STAMP_JUMP_MAX: u64 = 1 << 20;
/// How many issuers of ACKs are remembered.
const ISSUERS: usize = 8;

impl Order {
    /// A configuration whose first position is `start + 1`, in which its representative has the
    /// token.
    pub(super) fn new(
        id: ConfigId,
        members: Vec<MemberId>,
        local: MemberId,
        start: Seq,
        body_max: usize,
        config: &RmpConfig,
    ) -> Self {
        let first = members
            .iter()
            .position(|member| *member == id.representative);
        Self::with_roster(
            id,
            members,
            local,
            start,
            first.unwrap_or(0),
            body_max,
            config,
        )
    }

    /// The same, for members in any order, of which the one at `first` has the token.
    pub(super) fn with_roster(
        id: ConfigId,
        roster: Vec<MemberId>,
        local: MemberId,
        start: Seq,
        first: usize,
        body_max: usize,
        config: &RmpConfig,
    ) -> Self {
        let me = roster
            .iter()
            .position(|member| *member == local)
            .unwrap_or(0);
        let marks = Marks {
            known: Number::default(),
            ready: start,
        };
        let capacity = capacity(config.gap_max.into());
        let mut members = roster.clone();
        members.sort_unstable();
        Self {
            id,
            tag: id.into(),
            me: Index(me as u16),
            body_max,
            rule: config.order,
            gap_max: config.gap_max.into(),
            places: SeqWindow::new(start.0, capacity),
            sites: roster
                .iter()
                .map(|_| Site::new(0, capacity, marks))
                .collect(),
            top: Top {
                stamp: Stamp::default(),
                issuer: first as u8,
                next: first as u8,
                last: start,
            },
            issuers: VecDeque::from([first as u8]),
            heard_of: start,
            held: start,
            ready: start,
            own_early: Number::default(),
            safe_told: start,
            cursor: Cursor::new(start),
            streams: roster.iter().map(|_| Stream::default()).collect(),
            resilient_to: start,
            safe_to: start,
            max_n: members.len(),
            own_max_n: members.len(),
            message_max: config.message_max,
            obligations: Indices::default(),
            places_end: None,
            heard_end: Seq::MAX,
            vain: Vain::default(),
            plants: config.plants(),
            sizes: roster.iter().map(|_| body_max as u16).collect(),
            present: (0..roster.len() as u8).collect(),
            ring: (0..roster.len() as u8).collect(),
            lists: Lists::default(),
            members,
            roster,
        }
    }

    /// The most positions that are kept.
    pub(super) fn capacity(&self) -> usize {
        capacity(self.gap_max)
    }

    /// Whether there are too few members for messages that a majority must hold.
    pub(super) fn is_minority(&self) -> bool {
        self.members.len() < majority(self.max_n)
    }

    pub(super) fn is_alone(&self) -> bool {
        self.members.len() == 1 && self.ring.len() == 1 && self.lists.change.is_none()
    }

    /// Whether this member is alone, and nothing waits here that it sent or heard.
    pub(super) fn is_done_alone(&self) -> bool {
        let placed = self.acknowledged() >= self.last_sent();
        self.is_alone() && placed && self.cursor.delivered() >= self.top.last
    }

    /// The number of the last own packet.
    pub(super) fn last_sent(&self) -> Number {
        Number(self.local().packets.high())
    }

    /// The lowest position that cannot be kept.
    pub(super) fn room(&self) -> Seq {
        Seq(self.places.room())
    }

    /// All members are ready for every position up to `safe`, as one of them says.
    pub(super) fn note_safe(&mut self, safe: Seq) {
        self.safe_told = self.safe_told.max(safe);
    }

    fn local(&self) -> &Site {
        &self.sites[self.me.at()]
    }

    /// The last position of a packet of this member.
    pub(super) fn own_last(&self) -> Seq {
        self.local().last
    }

    /// How many members had packets ordered above `since`.
    pub(super) fn senders(&self, since: Seq) -> u32 {
        self.sites.iter().filter(|site| site.last > since).count() as u32
    }

    /// The member with this index.
    pub(super) fn member(&self, index: u8) -> Option<MemberId> {
        self.roster.get(usize::from(index)).copied()
    }

    pub(super) fn index_of(&self, member: MemberId) -> Option<u8> {
        let index = self.roster.iter().position(|other| *other == member)?;
        Some(index as u8)
    }

    /// The member after this one in the list.
    pub(super) fn successor(&self) -> u8 {
        self.after(self.me.0 as u8)
    }

    /// The member after another one in the list; the first one if that is not in it.
    pub(super) fn after(&self, index: u8) -> u8 {
        let at = self.ring.iter().position(|other| *other == index);
        let next = at.map_or(0, |at| (at + 1) % self.ring.len());
        self.ring[next]
    }

    /// How many steps after another member this one comes in the list; after one that is not in it,
    /// counted from its beginning. `None` if this one is not in it.
    pub(super) fn turn_after(&self, index: u8) -> Option<u32> {
        let at = |index: usize| self.ring.iter().position(|it| usize::from(*it) == index);
        let (members, me) = (self.ring.len(), at(self.me.at())?);
        let turn = match at(usize::from(index)) {
            Some(other) => (me + members - other) % members,
            None => me + 1,
        };
        u32::try_from(turn).ok()
    }

    /// Whether the newest ACK names this member.
    pub(super) fn is_named(&self) -> bool {
        usize::from(self.top.next) == self.me.at()
    }

    /// Whether this member is token site: it is named, and holds everything (000 ch. 8).
    pub(super) fn has_token(&self) -> bool {
        self.is_named() && self.held >= self.top.last
    }

    /// Whether an ACK has named members of a list that was not heard here: a datagram of a process
    /// that is unknown here may be of one of them.
    pub(super) fn lacks_list(&self) -> bool {
        self.heard_of > self.top.last
    }

    /// What this member says of itself.
    pub(super) fn marks(&self) -> Marks {
        let mut ready = self.ready;
        self.plants.ready_told(&mut ready, self.top.last);
        Marks {
            known: self.known_before_list(),
            ready,
        }
    }

    /// The last own packet up to which all have a position that is known here.
    pub(super) fn acknowledged(&self) -> Number {
        Number(self.local().placed.aru())
    }

    /// The same, as far as the configuration reaches that the user is in: who says that it knows
    /// the place of a packet behind a list has passed that. A list may stand at any position that
    /// is not known here.
    fn known_before_list(&self) -> Number {
        let placed = &self.local().placed;
        let mut known = placed.aru();
        let known_to = Seq(self.places.aru());
        let end = self.lists.pending().map_or(known_to, |at| at.min(known_to));
        while placed.get(known).is_some_and(|seq| *seq > end) {
            known -= 1;
        }
        let mut known = Number(known);
        self.plants.known_told(&mut known, self.acknowledged());
        self.places_end.map_or(known, |end| known.min(end))
    }

    /// All members are ready for every position up to here.
    pub(super) fn safe(&self) -> Seq {
        let present = self.present.iter();
        let marks = present.map(|index| self.sites[usize::from(*index)].marks.ready);
        marks.min().unwrap_or(self.ready).max(self.safe_told)
    }

    /// Whether marks of the member at `index` say more than can be.
    pub(super) fn is_too_far(&self, index: u8, marks: Marks) -> bool {
        let most = self.places.room() + self.places.capacity() as u64;
        let site = &self.sites[usize::from(index)];
        let most_known = site.placed.room() + site.placed.capacity() as u64;
        marks.ready.0 > most || marks.known.0 > most_known
    }

    /// Another member's marks.
    pub(super) fn note_marks(&mut self, index: u8, marks: Marks) {
        if usize::from(index) == self.me.at() || self.is_too_far(index, marks) {
            return;
        }
        let site = &mut self.sites[usize::from(index)];
        site.marks.known = site.marks.known.max(marks.known);
        site.marks.ready = site.marks.ready.max(marks.ready);
        self.advance();
    }

    /// A packet, of this member or another.
    pub(super) fn insert(&mut self, origin: u8, number: Number, packet: Packet) -> Insert {
        let site = &mut self.sites[usize::from(origin)];
        let inserted = site.packets.insert(number.0, packet);
        if inserted == Insert::New {
            self.advance();
        }
        inserted
    }

    /// An ACK, made here or heard.
    pub(super) fn take_ack(&mut self, ack: &Ack) -> Heard {
        if self.names_unlisted(ack) {
            return self.hear_unlisted(ack);
        }
        if !self.is_plausible(ack) {
            return Heard::Malformed;
        }
        match self.fill(ack) {
            Heard::Newest => {}
            other => return other,
        }
        self.raise_top(ack, ack.last())
    }

    /// Whether the members of `ack`, its timestamp and its place fit the newest one. An older ACK
    /// gives out no position above those that are given out.
    pub(super) fn is_plausible(&self, ack: &Ack) -> bool {
        let (top, members) = (self.top, self.roster.len());
        let follows = ack.stamp == top.stamp.next();
        usize::from(ack.issuer) < members
            && usize::from(ack.next) < members
            && ack.stamp.0 > 0
            && ack.first > Seq::ZERO
            && ack.stamp.0 <= top.stamp.0 + STAMP_JUMP_MAX
            && (!follows || ack.issuer == top.next && ack.first == top.last.next())
            && match ack.stamp > top.stamp {
                true => ack.first > top.last,
                false => ack.last() <= top.last,
            }
    }

    /// An ACK that fits, which gives out positions up to `last`.
    pub(super) fn raise_top(&mut self, ack: &Ack, last: Seq) -> Heard {
        let top = self.top;
        let heard = if ack.stamp > top.stamp {
            self.top = Top {
                stamp: ack.stamp,
                issuer: ack.issuer,
                next: ack.next,
                last: last.max(top.last),
            };
            self.issuers.retain(|issuer| *issuer != ack.issuer);
            self.issuers.push_front(ack.issuer);
            self.issuers.truncate(ISSUERS);
            Heard::Newest
        } else {
            Heard::Older
        };
        self.advance();
        heard
    }

    /// Puts the packets of `ack` into their places, all or none.
    fn fill(&mut self, ack: &Ack) -> Heard {
        let placed = || {
            let numbers = ack.packets.iter().flat_map(|run| {
                let origin = run.origin;
                run.numbers().map(move |number| (origin, number))
            });
            (ack.first.0..).map(Seq).zip(numbers)
        };
        let room = self.room().0;
        if ack.last().0 >= room {
            return Heard::Beyond;
        }
        // A member that knows all ACKs before this one knows which packets are next.
        let complete = ack.first == self.top.last.next() && self.places.aru() >= self.top.last.0;
        if complete && !self.continues_each_sender(ack) {
            return Heard::Malformed;
        }
        for (seq, (origin, number)) in placed() {
            let Some(site) = self.sites.get(usize::from(origin)) else {
                return Heard::Malformed;
            };
            if number.0 >= site.placed.room() {
                return Heard::Beyond;
            }
            let same_place = self
                .places
                .get(seq.0)
                .is_none_or(|known| (known.origin, known.number) == (origin, number));
            let same_packet = site.placed.get(number.0).is_none_or(|known| *known == seq);
            // What is forgotten of the positions is forgotten of the packets, and only that.
            let forgotten = seq.0 < self.places.base();
            let same_age = forgotten == (number.0 < site.placed.base());
            if !same_place || !same_packet || !same_age {
                return Heard::Malformed;
            }
        }
        for (seq, (origin, number)) in placed() {
            let place = Slot {
                origin,
                number,
                stamp: ack.stamp,
                issuer: ack.issuer,
                next: ack.next,
            };
            self.places.insert(seq.0, place);
            let site = &mut self.sites[usize::from(origin)];
            site.placed.insert(number.0, seq);
            site.last = site.last.max(seq);
        }
        Heard::Newest
    }

    /// Whether `ack` orders of each sender the packets that are next.
    fn continues_each_sender(&self, ack: &Ack) -> bool {
        ack.packets.iter().enumerate().all(|(index, run)| {
            let before = ack.packets[..index].iter();
            let before = before.filter(|it| it.origin == run.origin);
            let before: u64 = before.map(|it| u64::from(it.count)).sum();
            let site = self.sites.get(usize::from(run.origin));
            site.is_some_and(|site| run.first.0 == site.placed.aru() + 1 + before)
        })
    }

    /// Moves on what is held and what is ready.
    pub(super) fn advance(&mut self) {
        while self.holds(self.held.next()) {
            self.held = self.held.next();
        }
        // A member that is ready for a list, and for what is behind it, has told its user (ours).
        let pending = self.lists.pending();
        let mut end = pending.map_or(self.held, |at| at.before().min(self.held));
        self.plants.ready_to(&mut end, self.held);
        while self.ready < end && self.is_settled(self.ready.next()) {
            self.ready = self.ready.next();
        }
        let marks = self.marks();
        self.sites[self.me.at()].marks = marks;
    }

    /// Whether `seq` is held with its packet.
    pub(super) fn holds(&self, seq: Seq) -> bool {
        if seq.0 < self.places.base() {
            return true;
        }
        let place = self.places.get(seq.0);
        place.is_some_and(|place| {
            if place.is_list() {
                return true;
            }
            let site = &self.sites[usize::from(place.origin)];
            site.packets.has(place.number.0)
        })
    }

    /// Whether the order of the packet at `seq`, which is held, is settled.
    fn is_settled(&self, seq: Seq) -> bool {
        let Some(place) = self.places.get(seq.0) else {
            return true;
        };
        place.is_list()
            || self.rule == OrderRule::Heard && seq <= self.heard_settles_to()
            || self.plants.settles_at_once()
            || self.known(place.origin) >= place.number
    }

    /// Up to where an ACK that is heard settles places, with `order = heard`.
    fn heard_settles_to(&self) -> Seq {
        // What this member says of itself may not be noted yet.
        let to = self
            .lists
            .heard_settles_to(|index| match index == self.me.at() {
                true => self.ready,
                false => self.sites[index].marks.ready,
            });
        to.min(self.heard_end)
    }

    /// Up to which number the member is known to know the places of its packets.
    pub(super) fn known(&self, index: u8) -> Number {
        if usize::from(index) == self.me.at() {
            self.marks().known
        } else {
            self.sites[usize::from(index)].marks.known
        }
    }

    /// Whether there is an ACK behind the newest that is known here: a member knows of places of
    /// its packets that this one does not know (ours).
    pub(super) fn misses_ack(&self) -> bool {
        self.unheard().is_some()
    }

    /// The first member that knows of such places, and up to which packet.
    pub(super) fn unheard(&self) -> Option<(u8, Number)> {
        let knows = |site: &Site| site.marks.known.0 > site.placed.aru();
        let index = self.sites.iter().position(knows)?;
        Some((index as u8, self.sites[index].marks.known))
    }

    /// There is no such ACK: the member at `index` knows the places that are known here.
    pub(super) fn disbelieve(&mut self, index: u8) {
        let site = &mut self.sites[usize::from(index)];
        site.marks.known = site.marks.known.min(Number(site.placed.aru()));
    }

    /// An ACK of this token site for at most `most` packets that have no place; `None` if there are
    /// none, or no room for them. Not taken yet.
    pub(super) fn order(&self, most: usize) -> Option<Ack> {
        let by_gap = self.gap_end().above(self.top.last);
        let by_room = self.room().above(self.top.last.next());
        let most = by_gap.min(by_room).min(most as u64);
        let members = self.sites.len();
        let (mut packets, mut count) = (Vec::new(), 0);
        // Each ACK begins with another member, so that none is always the last.
        for step in 0..members {
            let origin = (self.me.at() + self.top.stamp.0 as usize + step) % members;
            let site = &self.sites[origin];
            let first = site.placed.aru() + 1;
            let last = (first..)
                .take((most - count).min(u64::from(u8::MAX)) as usize)
                .take_while(|number| site.packets.get(*number).is_some())
                .last();
            if let Some(last) = last {
                let run = (last + 1 - first) as u8;
                count += u64::from(run);
                packets.push(Packets {
                    origin: origin as u8,
                    first: Number(first),
                    count: run,
                });
            }
        }
        (count > 0).then(|| self.ack(packets))
    }

    /// No position above this one is given out before all members are ready for more.
    pub(super) fn gap_end(&self) -> Seq {
        self.safe().plus(self.gap_max)
    }

    /// The next ACK, for `packets`: none make a null ACK.
    pub(super) fn ack(&self, packets: Vec<Packets>) -> Ack {
        Ack {
            again: false,
            issuer: self.me.0 as u8,
            next: self.successor(),
            tag: self.tag,
            stamp: self.top.stamp.next(),
            first: self.top.last.next(),
            marks: self.marks(),
            packets,
        }
    }

    /// The member to ask for what is missing: the issuer of the newest ACK, then, `tries` times
    /// later, the issuers before it, and those that have issued none yet (000 Fig. 6; the turn is
    /// ours). `None` if there is nobody else.
    pub(super) fn asked(&self, tries: u32) -> Option<u8> {
        let me = self.me.0 as u8;
        let issued = self.issuers.iter().copied().filter(|it| *it != me);
        let mut others: Vec<u8> = issued.collect();
        if others.is_empty() {
            let successor = self.successor();
            return (successor != me).then_some(successor);
        }
        let present = self.present.iter().copied();
        let quiet = present.filter(|it| *it != me && !self.issuers.contains(it));
        others.extend(quiet);
        Some(others[tries as usize % others.len()])
    }

    /// Packets of members whose records did not decode.
    pub(super) fn malformed(&self) -> u64 {
        self.streams.iter().map(|stream| stream.malformed).sum()
    }

    /// Forgets what all are ready for and what was delivered.
    pub(super) fn discard(&mut self) {
        let stable = self.safe().min(self.cursor.delivered());
        let stable = stable.min(self.lists.kept_above.unwrap_or(stable));
        while self.places.base() <= stable.0
            && let Some(place) = self.places.get(self.places.base()).copied()
        {
            if place.is_list() {
                self.places.discard_to(self.places.base());
                continue;
            }
            self.streams[usize::from(place.origin)].forget(place.number);
            let site = &mut self.sites[usize::from(place.origin)];
            site.packets.discard_to(place.number.0);
            site.placed.discard_to(place.number.0);
            self.places.discard_to(self.places.base());
        }
    }
}
