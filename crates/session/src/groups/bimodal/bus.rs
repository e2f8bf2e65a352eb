//! Clients of the bus in bimodal groups: what they accept of a group's messages.
//!
//! Nothing is agreed in these groups. So a pattern for tags holds at its client's daemon alone, and
//! from the moment in which it comes. Who would get a message is known nowhere: `who` is refused.

use groupcast_core::Time;

use super::super::{ClientId, Engine};
use crate::frame::{BIMODAL, BusRequest, Reject};
use crate::view::Cause;

impl Engine {
    /// Why no client here can be in the group called `name`: it is bimodal, and not here.
    pub(in super::super) fn only_elsewhere(&self, name: &str) -> Option<(Reject, String)> {
        self.bimodal.is_elsewhere(name).then(|| {
            let text = format!(
                "the group {name:?} is bimodal at other daemons and not at {}, where it would be another group: \
                 name it in bimodal.groups of every daemon, or join it at one of those",
                self.host
            );
            (Reject::Unsupported, text)
        })
    }

    /// Why a client that does not know bimodal groups cannot be in the group called `name`, if it
    /// is one.
    pub(in super::super) fn not_known_to(
        &self,
        id: ClientId,
        name: &str,
    ) -> Option<(Reject, String)> {
        self.bimodal.find(name)?;
        (!self.knows(id, BIMODAL)).then(|| {
            let text = format!(
                "the group {name:?} is bimodal, which this client does not know: upgrade it"
            );
            (Reject::Unsupported, text)
        })
    }

    /// Carries out a request of the bus that is about a bimodal group, and was taken; whether it is
    /// about one. It has no place in an order, so it holds at once.
    pub(in super::super) fn take_bimodal_bus(
        &mut self,
        now: Time,
        id: ClientId,
        request: &BusRequest,
    ) -> bool {
        let (BusRequest::Accept { group, .. } | BusRequest::Reject { group, .. }) = request else {
            return false;
        };
        let Some(index) = self.bimodal.find(group) else {
            return false;
        };
        let found = &self.bimodal.groups[index];
        let (name, is_in) = (found.name.clone(), found.subscribers.contains(&id));
        match request {
            BusRequest::Accept { pattern, .. } => {
                self.bimodal.filters.accept(id.0, &name, pattern);
                if !is_in {
                    self.join_bimodal(now, id, index);
                }
            }
            BusRequest::Reject { pattern, .. } => {
                self.bimodal.filters.reject(id.0, &name, pattern);
                let wanted = self.clients.get(id).map(|client| &client.wanted);
                if wanted.is_none_or(|wanted| !wanted.contains_key(&name)) {
                    self.part_bimodal(now, id, index, Cause::Leave);
                }
            }
            _ => {}
        }
        true
    }
}
