//! Delivery: the order as [`Cursor`](groupcast_core::mech::delivery::Cursor) walks along it, and
//! what comes before its place in it.

use alloc::vec::Vec;
use core::cell::OnceCell;

use groupcast_core::mech::closing::Closing;
use groupcast_core::mech::delivery::{Cursor, Held};
use groupcast_core::mech::indices::Index;
use groupcast_core::mech::marks::{self, Horizons, majority};
use groupcast_core::mech::seq::Seq;
use groupcast_core::mech::window::SeqWindow;
use groupcast_core::{ConfigId, Event, MemberId, OrderPlace, Service};

use super::numbers::Number;
use super::order::{Order, Site, Slot};
use super::plan::Together;
use super::planted::Plants;
use super::stream::Stream;
use crate::packing::{Record, refused, waits_for_marks};

/// Which of the packets that are held here count as held.
#[derive(Clone, Copy)]
enum Bound<'a> {
    /// All up to here: their order is settled.
    Ready(Seq),
    /// While the configuration is finished: what the members that do so together hold.
    Together(&'a Together),
}

/// The held part of an order, with what delivery changes.
struct View<'a> {
    config: ConfigId,
    members: &'a [MemberId],
    max_n: usize,
    places: &'a SeqWindow<Slot>,
    sites: &'a [Site],
    streams: &'a mut [Stream],
    message_max: usize,
    resilient_to: &'a mut Seq,
    safe_to: &'a mut Seq,
    plants: Plants,
    /// Messages that a majority must hold are not delivered but reported as lost.
    minority: bool,
    /// What counts as held.
    bound: Bound<'a>,
    /// A list that was not passed: nothing from there on is delivered.
    end: Option<Seq>,
    /// While the configuration is finished: up to which packet of each member the order is settled.
    settled: Vec<Number>,
    /// The version of the list that the user is in.
    version: u8,
    /// Messages that come early in packets of the next version are read, too: that list comes to
    /// nothing here.
    any_version: bool,
    present: &'a [u8],
    emit: &'a mut dyn FnMut(Event),
}

impl<'a> View<'a> {
    /// What the horizons follow from, where all members are known to hold all up to `safe`.
    fn known(&self, safe: Seq) -> Known<'a> {
        Known {
            safe,
            max_n: self.max_n,
            bound: self.bound,
            sites: self.sites,
            present: self.present,
            marks: OnceCell::new(),
        }
    }

    /// Reads the packets of `origin` up to `last`, as far as they are here, and delivers what comes
    /// early in them.
    fn read(&mut self, origin: usize, last: Number) {
        let (sender, order_waits) = (self.members[origin], self.plants.fifo_waits());
        let (stream, packets) = (&mut self.streams[origin], &self.sites[origin].packets);
        let mut emit = |record: Record| (self.emit)(record.delivered(sender, None));
        while stream.next_packet() <= last
            && let Some(packet) = packets.get(stream.next_packet().0)
            && (packet.version <= self.version || self.any_version)
        {
            let stale = self.plants.is_stale(packet.version < self.version);
            stream.read(
                &packet.body,
                self.message_max,
                order_waits,
                stale,
                &mut emit,
            );
        }
    }

    /// Delivers of each sender what comes early, of its packets up to `last` of it.
    fn deliver_early(&mut self, last: impl Fn(usize, &Site) -> Number) {
        let sites = self.sites;
        for (origin, site) in sites.iter().enumerate() {
            self.read(origin, last(origin, site));
        }
    }
}

impl Held for View<'_> {
    type Message = Record;

    fn origin(&self, seq: Seq) -> Option<Index> {
        if self.end.is_some_and(|end| seq >= end) {
            return None;
        }
        let place = self.places.get(seq.0).filter(|place| !place.is_list())?;
        let site = usize::from(place.origin);
        self.sites[site].packets.get(place.number.0)?;
        let counts = match self.bound {
            Bound::Ready(ready) => seq <= ready,
            // A packet whose sender may not know its place is sent again by it.
            Bound::Together(together) => {
                let settled = self.settled.get(site).copied().unwrap_or_default();
                together.has(seq) && place.number <= settled
            }
        };
        counts.then_some(Index(place.origin.into()))
    }

    fn next(&mut self, seq: Seq, _at: &mut usize) -> Option<Record> {
        let place = *self.places.get(seq.0)?;
        let origin = usize::from(place.origin);
        self.read(origin, place.number);
        let sender = self.members[origin];
        let mut emit = |record: Record| (self.emit)(record.delivered(sender, None));
        self.streams[origin].take(place.number, &mut emit)
    }

    fn service(message: &Record) -> Service {
        message.service
    }

    fn deliver(&mut self, seq: Seq, index: u64, origin: Index, message: Record) {
        let sender = self.members[origin.at()];
        if self.minority && message.service == Service::Majority {
            return (self.emit)(refused(sender, message.number));
        }
        if waits_for_marks(message.service) {
            *self.resilient_to = (*self.resilient_to).max(seq);
        }
        if message.service == Service::Safe {
            *self.safe_to = (*self.safe_to).max(seq);
        }
        let place = OrderPlace::new(self.config, seq.0, index);
        (self.emit)(message.delivered(sender, Some(place)));
    }
}

/// What the horizons of the services follow from. The marks are looked at only if a service asks
/// for them.
struct Known<'a> {
    safe: Seq,
    max_n: usize,
    bound: Bound<'a>,
    sites: &'a [Site],
    present: &'a [u8],
    marks: OnceCell<marks::MarkTable>,
}

impl Known<'_> {
    fn horizon(&self, service: Service) -> Seq {
        match service {
            Service::Safe => self.safe,
            service if !waits_for_marks(service) => Seq::MAX,
            service => {
                let (safe, max_n) = (self.safe, self.max_n);
                let marks = self.marks.get_or_init(|| self.marks());
                let horizons = Horizons { safe, marks, max_n };
                horizons.of_delivery(service)
            }
        }
    }

    /// Up to where each member is ready. At the end of a configuration what those that go along
    /// declared, and nothing that came since: it must be the same at all of them.
    fn marks(&self) -> marks::MarkTable {
        let mut marks = marks::MarkTable::new(self.present.len(), self.safe);
        let present = self.present.iter().map(|index| usize::from(*index));
        let ready: Vec<Seq> = match self.bound {
            Bound::Ready(_) => present.map(|index| self.sites[index].marks.ready).collect(),
            Bound::Together(together) => {
                let members = &together.members;
                let ready = present.map(|index| members.get(index).map(|it| it.ready));
                ready.map(Option::unwrap_or_default).collect()
            }
        };
        marks.merge(&ready);
        marks
    }
}

/// Notes in `own` the number of a message of `local` that came early.
pub(super) fn note_early(local: MemberId, own: &mut Vec<u64>, event: &Event) {
    if let Event::Deliver(delivery) = event
        && delivery.id.sender == local
        && delivery.place.is_none()
    {
        own.push(delivery.id.number);
    }
}

impl Order {
    /// Delivers what can be: in order, and before that what comes early.
    pub(super) fn deliver(&mut self, emit: &mut dyn FnMut(Event)) {
        let safe = self.plants.safe_horizon(self);
        let (me, minority) = (self.me.at(), self.is_minority());
        let own = self.marks().known;
        self.walk(Bound::Ready(self.ready), minority, emit, |cursor, view| {
            // The sender's own copy comes with the ACK: then it is accepted.
            view.deliver_early(|origin, site| match origin == me {
                true => own,
                false => Number(site.packets.aru()),
            });
            let (known, plants) = (view.known(safe), view.plants);
            cursor.deliver(view, |service| known.horizon(plants.held_by(service)));
        });
    }

    /// Own messages that come early, in packets up to `cut`: they belong to the configuration
    /// before a list that is being passed. The packets may have places behind the list that are not
    /// known yet, so it is noted that their messages were delivered.
    pub(super) fn read_own(&mut self, cut: Number, emit: &mut dyn FnMut(Event)) {
        let (me, minority) = (self.me.at(), self.is_minority());
        let mut own = Vec::new();
        let local = self.roster[me];
        let emit = &mut |event| {
            note_early(local, &mut own, &event);
            emit(event);
        };
        self.walk(Bound::Ready(self.ready), minority, emit, |_, view| {
            view.deliver_early(|origin, _| match origin == me {
                true => cut,
                false => Number::default(),
            });
        });
        self.lists.own_early.append(&mut own);
    }

    /// All before a list that others have passed, and of each member what came early in packets up
    /// to its one of `cuts`.
    pub(super) fn deliver_to_list(&mut self, cuts: &[Number], emit: &mut dyn FnMut(Event)) {
        let (bound, minority) = (Bound::Ready(Seq::MAX), self.is_minority());
        self.walk(bound, minority, emit, |cursor, view| {
            cursor.deliver(view, |_| Seq::MAX);
            view.deliver_early(|origin, _| cuts.get(origin).copied().unwrap_or_default());
        });
    }

    /// In the regular configuration still, at its end: what all its members were ready for, as one
    /// of those that go along knows.
    pub(super) fn deliver_safe(&mut self, safe: Seq, emit: &mut dyn FnMut(Event)) {
        self.note_safe(safe);
        let (bound, minority) = (Bound::Ready(safe.min(self.ready)), self.is_minority());
        self.walk(bound, minority, emit, |cursor, view| {
            cursor.deliver(view, |_| Seq::MAX);
        });
    }

    /// The rest of the regular configuration, at its end: up to the first position that none of
    /// those that go along holds, or whose order is not settled, or the first message above the
    /// horizon of its service, which is `safe` for that of all members.
    pub(super) fn deliver_regular_end(
        &mut self,
        together: &Together,
        safe: Seq,
        emit: &mut dyn FnMut(Event),
    ) {
        let (bound, minority) = (Bound::Together(together), self.is_minority());
        self.walk(bound, minority, emit, |cursor, view| {
            let known = view.known(safe);
            cursor.deliver(view, |service| known.horizon(service));
        });
    }

    /// The messages of the transitional configuration: behind the first gap only those of the
    /// members that are bound; then what came early to one of those that go along. Nobody waits for
    /// a majority of those that have `left`.
    pub(super) fn deliver_transitional(
        &mut self,
        together: &Together,
        closing: &Closing,
        left: &[MemberId],
        emit: &mut dyn FnMut(Event),
    ) {
        let mut bound = closing.bound;
        self.plants.bound_behind_gap(&mut bound);
        let minority = closing.members.len() < majority(self.without(self.max_n, left.iter()));
        self.walk(Bound::Together(together), minority, emit, |cursor, view| {
            view.any_version = true;
            cursor.deliver_transitional(view, bound, closing.high);
            let early = |origin: usize| together.members.get(origin).map(|it| it.early);
            view.deliver_early(|origin, _| early(origin).unwrap_or_default());
        });
    }

    fn walk(
        &mut self,
        bound: Bound<'_>,
        minority: bool,
        emit: &mut dyn FnMut(Event),
        with: impl FnOnce(&mut Cursor<Record>, &mut View<'_>),
    ) {
        let settled = match bound {
            Bound::Ready(_) => Vec::new(),
            Bound::Together(together) => self.settled(together),
        };
        let mut view = View {
            end: self.lists.pending(),
            settled,
            version: self.lists.version,
            any_version: false,
            present: &self.present,
            config: self.id,
            members: &self.roster,
            max_n: self.max_n,
            places: &self.places,
            sites: &self.sites,
            streams: &mut self.streams,
            message_max: self.message_max,
            resilient_to: &mut self.resilient_to,
            safe_to: &mut self.safe_to,
            plants: self.plants,
            minority,
            bound,
            emit,
        };
        with(&mut self.cursor, &mut view);
    }
}
