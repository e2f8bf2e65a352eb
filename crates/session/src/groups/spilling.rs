//! The disk on which messages for slow clients wait: what it is asked for, what becomes of that,
//! and what all clients have there together.
//!
//! The disk is the caller's, and slower than the engine may be: it is asked, and answers when it
//! has done it ([`spill`](super::spill) has the rules for one client). A disk that fails costs the
//! clients their connections whose messages were to wait there, and nobody else anything.

use groupcast_core::Time;

use super::output::SpillStep;
use super::{ClientId, Engine, SpillDone, SpillWork};
use crate::frame::Disconnect;

impl Engine {
    /// There is a disk for what waits for slow clients: where a rule says so, and where a client
    /// asks for it, it goes there. Without one such groups block.
    pub fn set_spills(&mut self, spills: bool) {
        self.spills = spills;
        self.routes_changed();
    }

    /// What the disk is to do next. What concerns one client is to be done in order.
    pub fn poll_spill(&mut self, now: Time) -> Option<SpillWork> {
        loop {
            if let Some(client) = self.schedule.spilled.pop_first() {
                return Some(SpillWork::Forget { client });
            }
            let client = self.schedule.spilling.pop_first()?;
            let link = self.clients.link_mut(client);
            let Some(step) = link.and_then(|link| link.output.next_spill_step()) else {
                continue;
            };
            self.clients.count_on_disk(client);
            self.clients.count_output(client);
            return Some(match step {
                SpillStep::Write(place, bytes) => {
                    self.check_disk(now);
                    SpillWork::Write {
                        client,
                        place,
                        bytes,
                    }
                }
                SpillStep::Read(place, len) => SpillWork::Read { client, place, len },
                SpillStep::End => {
                    self.schedule.ready.insert(client);
                    SpillWork::Forget { client }
                }
            });
        }
    }

    /// Whether [`poll_spill`](Self::poll_spill) may have something.
    pub fn has_spill_work(&self) -> bool {
        !self.schedule.spilling.is_empty() || !self.schedule.spilled.is_empty()
    }

    /// The disk has done what it was asked for `client`.
    pub fn spilled(&mut self, now: Time, client: ClientId, done: SpillDone) {
        let Some(link) = self.clients.link_mut(client).filter(|link| !link.closing) else {
            return;
        };
        let why = match &done {
            SpillDone::Failed(why) => why.clone(),
            _ => "it does not give back what was written".to_owned(),
        };
        if !link.output.spill_done(done) {
            let backlog = link.output.backlog();
            let text = format!(
                "too slow: {backlog} bytes waited, and the daemon's disk, on which they do, failed: {why}; read messages as they come"
            );
            return self.disconnect(now, client, Disconnect::TooSlow, text);
        }
        self.clients.count_on_disk(client);
        self.clients.count_output(client);
        self.schedule.ready.insert(client);
        self.go_on_spilling(client);
    }

    /// The disk may have something to do for a client.
    pub(super) fn go_on_spilling(&mut self, id: ClientId) {
        let link = self.clients.link_mut(id);
        if link.is_some_and(|link| link.output.spill_size().is_some()) {
            self.schedule.spilling.insert(id);
        }
    }

    /// What a client has on the disk is of no use any more.
    pub(super) fn end_spill(&mut self, id: ClientId) {
        let link = self.clients.link_mut(id);
        if link.is_some_and(|link| link.output.spill_size().is_some()) {
            self.schedule.spilling.remove(&id);
            self.schedule.spilled.insert(id);
        }
    }

    /// Ends connections until no more is on the disk than may be.
    fn check_disk(&mut self, now: Time) {
        let max = self.config.spill_max;
        while self.clients.on_disk() > max
            && let Some((id, on_disk)) = self.clients.largest_on_disk()
        {
            let text = format!(
                "too slow: {on_disk} bytes waited on the daemon's disk for this client, of {} for all clients of the daemon {}, {max} are allowed; read messages as they come",
                self.clients.on_disk(),
                self.host
            );
            self.disconnect(now, id, Disconnect::TooSlow, text);
        }
    }
}
