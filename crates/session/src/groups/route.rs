//! The way of the last message: most go where the one before them went.
//!
//! What an envelope says before its payload decides, with what is known of groups and clients, who gets the message and
//! what stands before its payload there. A message of the same daemon whose envelope begins with the same bytes, while
//! nothing else has changed, goes the same way with another sequence number and length; no table is asked. The encoding
//! of an envelope tells where it ends, so equal beginnings mean the same.

use groupcast_core::{ConfigId, Delivery, MemberId, Service};

use super::ClientId;

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
    /// Who gets it, each with the index of the destination that it comes by.
    pub(super) recipients: Vec<(ClientId, usize)>,
    /// The engine's count of changes as of which this holds.
    as_of: u64,
}

impl Route {
    /// The way of `delivery`, whose payload begins at `payload_at`, in the memory of an `old` one; the caller fills in the
    /// head and the recipients, which are empty.
    pub(super) fn new(
        old: Option<Box<Self>>,
        delivery: &Delivery,
        payload_at: usize,
        client: u64,
        as_of: u64,
    ) -> Box<Self> {
        let (mut envelope, mut head, mut recipients) = match old {
            Some(old) => (old.envelope, old.head, old.recipients),
            None => (Vec::new(), Vec::new(), Vec::new()),
        };
        envelope.clear();
        envelope.extend_from_slice(&delivery.payload[..payload_at]);
        head.clear();
        recipients.clear();
        Box::new(Self {
            sender: delivery.id.sender,
            service: delivery.service,
            config: delivery.place.map(|place| place.config),
            envelope,
            client,
            head,
            recipients,
            as_of,
        })
    }

    /// Whether `delivery` goes this way, after so many `changes` of the engine.
    pub(super) fn is_for(&self, delivery: &Delivery, changes: u64) -> bool {
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
