//! What the history is told beside what the node observes by itself: long messages, bimodal groups,
//! submissions.

use bytes::Bytes;
use groupcast_core::trace::{Observable as _, Observation, digest};
use groupcast_core::{Event, MessageId, Node, Service, SubmitError, Time};
use groupcast_session::groups::Carrier;

use super::Daemon;
use crate::history::History;
use crate::instance::{self, Instance};

impl Daemon {
    /// The history's line of a long ordered message, whose digest takes its time; the node's
    /// observer has seen everything else.
    pub(super) fn observe_long(&self, event: &Event) {
        if let (Some(history), Event::Deliver(delivery)) = (&self.history, event)
            && instance::is_long(&delivery.payload)
        {
            let observation = Observation::Deliver {
                id: delivery.id,
                service: delivery.service,
                place: delivery.place,
                digest: 0,
            };
            history.observe_message(None, &observation, &delivery.payload);
        }
    }

    /// The history's line of what happened in a bimodal group. That the daemon has left is said by
    /// the order, for all.
    pub(super) fn observe_group_event(&self, index: usize, event: &Event) {
        if let (Some(history), Event::Deliver(_) | Event::Gap(_)) = (&self.history, event)
            && let Some(groups) = instance::bimodal(self.endpoint.node())
            && let Some(observation) = event.observation()
        {
            history.observe_in(groups.name(index), &observation);
        }
    }
}

/// Submits a message and writes it into the history.
pub(super) fn submit(
    node: &mut Node<Instance>,
    history: Option<&History>,
    now: Time,
    carrier: Carrier,
    service: Service,
    payload: Bytes,
) -> Result<MessageId, SubmitError> {
    let Some(history) = history else {
        return instance::submit(node, now, carrier, service, payload);
    };
    // A digest costs a pass over the payload: only where somebody wants it.
    let long = instance::is_long(&payload);
    let digest = if long { 0 } else { digest(&payload) };
    let id = instance::submit(node, now, carrier, service, payload.clone())?;
    let submission = Observation::Submit {
        id,
        service,
        digest,
    };
    match (carrier, instance::bimodal(node)) {
        (Carrier::Bimodal(index), Some(groups)) => {
            history.observe_in(groups.name(index), &submission);
        }
        _ if long => history.observe_message(None, &submission, &payload),
        _ => node.observe(&submission),
    }
    Ok(id)
}
