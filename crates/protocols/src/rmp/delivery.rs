//! Delivery: the order as [`Cursor`](groupcast_core::mech::delivery::Cursor) walks along it.

use alloc::vec::Vec;

use groupcast_core::mech::delivery::{Cursor, Held};
use groupcast_core::mech::indices::{Index, Indices};
use groupcast_core::mech::seq::Seq;
use groupcast_core::mech::window::SeqWindow;
use groupcast_core::{ConfigId, Delivery, Event, MemberId, MessageId, OrderPlace, Service};

use super::numbers::Number;
use super::order::{Order, Place, Site};
use crate::packing::{Record, Unpacker};

/// What the members that finish a configuration together hold of it, all together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Together {
    /// Up to which number each member of the old configuration is known to know its places.
    pub(super) known: Vec<Number>,
    /// All of them hold everything up to here.
    pub(super) low: Seq,
    /// The positions above that one of them holds, ascending.
    pub(super) held: Vec<Seq>,
}

impl Together {
    pub(super) fn has(&self, seq: Seq) -> bool {
        seq <= self.low || self.held.binary_search(&seq).is_ok()
    }
}

/// What counts as held, of what is.
#[derive(Clone, Copy)]
enum Bound<'a> {
    /// All up to here: its order is settled.
    Ready(Seq),
    /// While the configuration is finished: what those who do so together hold.
    Together(&'a Together),
}

/// The held part of an order, with what delivery changes.
struct View<'a> {
    config: ConfigId,
    members: &'a [MemberId],
    places: &'a SeqWindow<Place>,
    sites: &'a [Site],
    unpackers: &'a mut [Unpacker],
    message_max: usize,
    malformed: &'a mut u64,
    /// What counts as held.
    bound: Bound<'a>,
    emit: &'a mut dyn FnMut(Event),
}

impl Held for View<'_> {
    type Message = Record;

    fn origin(&self, seq: Seq) -> Option<Index> {
        let place = self.places.get(seq.0)?;
        let site = usize::from(place.origin);
        self.sites[site].packets.get(place.number.0)?;
        let counts = match self.bound {
            Bound::Ready(ready) => seq <= ready,
            // A packet whose sender may not know its place is sent again by it.
            Bound::Together(together) => {
                let known = together.known.get(site).copied().unwrap_or_default();
                together.has(seq) && place.number <= known
            }
        };
        counts.then_some(Index(place.origin.into()))
    }

    fn next(&mut self, seq: Seq, at: &mut usize) -> Option<Record> {
        let place = self.places.get(seq.0)?;
        let origin = usize::from(place.origin);
        let body = self.sites[origin].packets.get(place.number.0)?;
        match self.unpackers[origin].next(body, at, self.message_max) {
            Ok(record) => record,
            Err(_) => {
                *self.malformed += 1;
                None
            }
        }
    }

    fn service(message: &Record) -> Service {
        message.service
    }

    fn deliver(&mut self, seq: Seq, index: u64, origin: Index, message: Record) {
        let place = OrderPlace::new(self.config, seq.0, index);
        // A large unreliable message is ordered too; its users are promised no place all the same.
        let place = (message.service != Service::Unreliable).then_some(place);
        (self.emit)(delivery(self.members[origin.at()], message, place));
    }
}

impl Order {
    /// Delivers what can be, in order.
    pub(super) fn deliver(&mut self, emit: &mut dyn FnMut(Event)) {
        let safe = self.plants.safe_horizon(self);
        self.walk(Bound::Ready(self.ready), emit, |cursor, view| {
            cursor.deliver(view, |service| horizon(service, safe));
        });
    }

    /// In the regular configuration still, at its end: what all its members were ready for, as one of
    /// those that go along knows.
    pub(super) fn deliver_safe(&mut self, safe: Seq, emit: &mut dyn FnMut(Event)) {
        self.note_safe(safe);
        let bound = Bound::Ready(safe.min(self.ready));
        self.walk(bound, emit, |cursor, view| {
            cursor.deliver(view, |_| Seq::MAX);
        });
    }

    /// The rest of the regular configuration, at its end: up to the first position that nobody
    /// along holds or whose order is not settled, or the first safe message above `safe`.
    pub(super) fn deliver_regular_end(
        &mut self,
        together: &Together,
        safe: Seq,
        emit: &mut dyn FnMut(Event),
    ) {
        self.walk(Bound::Together(together), emit, |cursor, view| {
            cursor.deliver(view, |service| horizon(service, safe));
        });
    }

    /// The messages of the transitional configuration: behind the first gap only those of `bound`.
    pub(super) fn deliver_transitional(
        &mut self,
        together: &Together,
        mut bound: Indices,
        high: Seq,
        emit: &mut dyn FnMut(Event),
    ) {
        self.plants.bound_behind_gap(&mut bound);
        self.walk(Bound::Together(together), emit, |cursor, view| {
            cursor.deliver_transitional(view, bound, high);
        });
    }

    fn walk(
        &mut self,
        bound: Bound<'_>,
        emit: &mut dyn FnMut(Event),
        with: impl FnOnce(&mut Cursor<Record>, &mut View<'_>),
    ) {
        let mut view = View {
            config: self.id,
            members: &self.members,
            places: &self.places,
            sites: &self.sites,
            unpackers: &mut self.unpackers,
            message_max: self.message_max,
            malformed: &mut self.malformed,
            bound,
            emit,
        };
        with(&mut self.cursor, &mut view);
    }
}

/// Up to where messages of `service` are delivered, of what is held.
fn horizon(service: Service, safe: Seq) -> Seq {
    match service {
        Service::Safe => safe,
        _ => Seq::MAX,
    }
}

/// The event of a delivered record.
pub(super) fn delivery(sender: MemberId, record: Record, place: Option<OrderPlace>) -> Event {
    let Record {
        service,
        number,
        payload,
    } = record;
    Event::Deliver(Delivery {
        id: MessageId { sender, number },
        service,
        place,
        payload,
    })
}
