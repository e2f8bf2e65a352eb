//! The lines of the history that the node's observer does not write: bimodal groups and
//! submissions.

use bytes::Bytes;
use groupcast_core::trace::Observable as _;
use groupcast_core::{Event, MessageId, Node, Service, SubmitError, Time};
use groupcast_session::groups::Carrier;

use super::Daemon;
use crate::history::{History, submission};
use crate::instance::{self, Instance};

impl Daemon {
    /// Writes a line about a message or a gap in a bimodal group. The order's line tells for all
    /// groups that the daemon has left.
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
    let id = instance::submit(node, now, carrier, service, payload.clone())?;
    match (carrier, instance::bimodal(node)) {
        (Carrier::Bimodal(index), Some(groups)) => {
            history.observe_in(groups.name(index), &submission(id, service, &payload));
        }
        _ => history.observe_submission(node, id, service, &payload),
    }
    Ok(id)
}
