//! The route of the last message, kept because most messages go where the one before them went.
//!
//! The head of an envelope (its bytes before the payload) and the tables of groups and clients
//! decide who gets a message, and which frame head stands before its payload there. So a message of
//! the same daemon whose envelope begins with the same bytes has the same route, as long as the
//! tables have not changed: only sequence number and length differ, and no table is asked. The
//! encoding of a head determines where it ends, so equal beginnings mean equal heads.

use std::sync::Arc;

use groupcast_core::{ConfigId, Delivery, MemberId, Service};

use super::ClientId;
use crate::when_slow::WhenSlow;

/// The last route, and lists that are reused while a route is found.
#[derive(Debug, Default)]
pub(super) struct Routing {
    /// The route of the last message.
    last: Option<Box<Route>>,
    /// How often the tables changed on which routes depend: groups, names, and the wishes of
    /// clients.
    changes: u64,
    /// Reused buffers: the destinations of one message, and its recipients.
    pub(super) destinations: Vec<Arc<str>>,
    pub(super) recipients: Vec<Recipient>,
    /// The same: the clients in one of the destinations.
    pub(super) found: Vec<ClientId>,
}

impl Routing {
    /// Takes the reused lists, so that they can be filled while the engine is borrowed.
    pub(super) fn take_lists(&mut self) -> (Vec<Arc<str>>, Vec<Recipient>) {
        let lists = (&mut self.destinations, &mut self.recipients);
        (std::mem::take(lists.0), std::mem::take(lists.1))
    }

    /// Puts the lists back.
    pub(super) fn set_lists(
        &mut self,
        destinations: &mut Vec<Arc<str>>,
        recipients: &mut Vec<Recipient>,
    ) {
        std::mem::swap(&mut self.destinations, destinations);
        std::mem::swap(&mut self.recipients, recipients);
    }

    /// A table changed on which routes depend: the last route holds no longer.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    /// Takes the last route, if it is the route of `delivery`, too.
    pub(super) fn take(&mut self, delivery: &Delivery) -> Option<Box<Route>> {
        let changes = self.changes;
        self.last.take_if(|route| route.is_for(delivery, changes))
    }

    /// How often the tables have changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// A new route for `delivery`, whose payload begins at `payload_at`, as of this many changes.
    /// The caller fills in heads and recipients, which are empty.
    pub(super) fn begin(
        &mut self,
        delivery: &Delivery,
        payload_at: usize,
        client: u64,
        as_of: u64,
    ) -> Box<Route> {
        Route::new(self.last.take(), delivery, payload_at, client, as_of)
    }

    /// Keeps a route for the messages that follow.
    pub(super) fn keep(&mut self, route: Box<Route>) {
        self.last = Some(route);
    }
}

/// A client that gets a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipient {
    pub(super) id: ClientId,
    /// The index of the destination by which the message reaches it: the first one that it is in.
    pub(super) index: usize,
    /// The rule for a slow client: of the rules of all destinations that it is in, the one with the
    /// least patience.
    pub(super) when_slow: WhenSlow,
}

/// Recipients and frame heads of messages whose envelopes begin alike.
#[derive(Debug)]
pub(super) struct Route {
    sender: MemberId,
    service: Service,
    config: Option<ConfigId>,
    /// The envelope up to its payload.
    envelope: Vec<u8>,
    /// The client of `sender` that published the message.
    pub(super) client: u64,
    /// The recipients' frame up to the payload.
    pub(super) head: Vec<u8>,
    /// The same with the message's label, for clients that know labels; empty if the message has
    /// none.
    pub(super) labelled: Vec<u8>,
    /// The clients of this daemon that get the message.
    pub(super) recipients: Vec<Recipient>,
    /// The value of [`Routing::changes`] for which this route holds.
    as_of: u64,
}

impl Route {
    /// An empty route for `delivery`, in the memory of an `old` one.
    fn new(
        old: Option<Box<Self>>,
        delivery: &Delivery,
        payload_at: usize,
        client: u64,
        as_of: u64,
    ) -> Box<Self> {
        let (mut envelope, mut head, mut labelled, mut recipients) = match old {
            Some(old) => (old.envelope, old.head, old.labelled, old.recipients),
            None => (Vec::new(), Vec::new(), Vec::new(), Vec::new()),
        };
        envelope.clear();
        envelope.extend_from_slice(&delivery.payload[..payload_at]);
        head.clear();
        labelled.clear();
        recipients.clear();
        Box::new(Self {
            sender: delivery.id.sender,
            service: delivery.service,
            config: delivery.place.map(|place| place.config),
            envelope,
            client,
            head,
            labelled,
            recipients,
            as_of,
        })
    }

    /// Whether `delivery` takes this route, now that the tables have changed `changes` times.
    fn is_for(&self, delivery: &Delivery, changes: u64) -> bool {
        self.as_of == changes
            && self.sender == delivery.id.sender
            && self.service == delivery.service
            && self.config == delivery.place.map(|place| place.config)
            && delivery.payload.starts_with(&self.envelope)
    }

    /// The offset of the payload in the envelope.
    pub(super) fn payload_at(&self) -> usize {
        self.envelope.len()
    }
}
