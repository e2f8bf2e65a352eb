//! The way of the last message: most go where the one before them went.
//!
//! What an envelope says before its payload decides, with what is known of groups and clients, who
//! gets the message and what stands before its payload there. A message of the same daemon whose
//! envelope begins with the same bytes, while nothing else has changed, goes the same way with
//! another sequence number and length; no table is asked. The encoding of an envelope determines
//! where it ends, so equal beginnings mean the same.

use std::sync::Arc;

use groupcast_core::{ConfigId, Delivery, MemberId, Service};

use super::ClientId;
use crate::when_slow::WhenSlow;

/// What is known of where messages go.
#[derive(Debug, Default)]
pub(super) struct Routing {
    /// The way of the last message.
    last: Option<Box<Route>>,
    /// How often something changed that decides where messages go: groups, names, what clients
    /// want.
    changes: u64,
    /// Hold the destinations of one message, and for whom it is.
    pub(super) destinations: Vec<Arc<str>>,
    pub(super) recipients: Vec<Recipient>,
}

impl Routing {
    /// Takes the lists away while they are filled.
    pub(super) fn take_lists(&mut self) -> (Vec<Arc<str>>, Vec<Recipient>) {
        let lists = (&mut self.destinations, &mut self.recipients);
        (std::mem::take(lists.0), std::mem::take(lists.1))
    }

    /// Puts them back.
    pub(super) fn set_lists(
        &mut self,
        destinations: &mut Vec<Arc<str>>,
        recipients: &mut Vec<Recipient>,
    ) {
        std::mem::swap(&mut self.destinations, destinations);
        std::mem::swap(&mut self.recipients, recipients);
    }

    /// Something changed that decides where messages go.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    /// The way of `delivery`, if it is that of the message before it.
    pub(super) fn take(&mut self, delivery: &Delivery) -> Option<Box<Route>> {
        let changes = self.changes;
        self.last.take_if(|route| route.is_for(delivery, changes))
    }

    /// A new way for `delivery`, whose payload begins at `payload_at`; the caller fills in the head
    /// and the recipients, which are empty.
    pub(super) fn begin(
        &mut self,
        delivery: &Delivery,
        payload_at: usize,
        client: u64,
    ) -> Box<Route> {
        Route::new(self.last.take(), delivery, payload_at, client, self.changes)
    }

    /// Keeps a way for the messages that follow.
    pub(super) fn keep(&mut self, route: Box<Route>) {
        self.last = Some(route);
    }
}

/// A client that gets a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipient {
    pub(super) id: ClientId,
    /// The index of the destination that it comes by: the first that it is in.
    pub(super) index: usize,
    /// What holds for the client: of all destinations that it is in, what has the least patience.
    pub(super) when_slow: WhenSlow,
}

impl Recipient {
    /// One whose rule has to be looked up.
    pub(super) fn new(id: ClientId, index: usize) -> Self {
        Self {
            id,
            index,
            when_slow: WhenSlow::Block,
        }
    }
}

/// Where messages with a certain beginning go.
#[derive(Debug)]
pub(super) struct Route {
    sender: MemberId,
    service: Service,
    config: Option<ConfigId>,
    /// The envelope up to its payload.
    envelope: Vec<u8>,
    /// The client of `sender` that it names.
    pub(super) client: u64,
    /// The frame for the recipients, up to the payload.
    pub(super) head: Vec<u8>,
    /// The same with the message's label, for the clients that know labels; empty if it has none.
    pub(super) labelled: Vec<u8>,
    /// Who gets it.
    pub(super) recipients: Vec<Recipient>,
    /// The engine's count of changes as of which this holds.
    as_of: u64,
}

impl Route {
    /// The way of `delivery`, in the memory of an `old` one.
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

    /// Whether `delivery` goes this way, after so many `changes` of the engine.
    fn is_for(&self, delivery: &Delivery, changes: u64) -> bool {
        self.as_of == changes
            && self.sender == delivery.id.sender
            && self.service == delivery.service
            && self.config == delivery.place.map(|place| place.config)
            && delivery.payload.starts_with(&self.envelope)
    }

    /// Where the payload begins.
    pub(super) fn payload_at(&self) -> usize {
        self.envelope.len()
    }
}
