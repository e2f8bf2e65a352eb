//! What the sender's own host shows of an epoch: how long there was nothing to send in it, and what
//! waited in the host of what was sent.

use core::time::Duration;

use groupcast_core::Time;

/// How long there was nothing to send, or no receiver's room for it: that says nothing of the
/// network.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Idle {
    since: Option<Time>,
    lasted: Duration,
}

impl Idle {
    pub(super) fn note(&mut self, now: Time, is_idle: bool) {
        match (self.since, is_idle) {
            (None, true) => self.since = Some(now),
            (Some(since), false) => {
                self.lasted += now - since;
                self.since = None;
            }
            _ => {}
        }
    }

    /// How long it was so since this was last asked.
    pub(super) fn take(&mut self, now: Time) -> Duration {
        let is_idle = self.since.is_some();
        self.note(now, false);
        self.note(now, is_idle);
        core::mem::take(&mut self.lasted)
    }
}

/// What waits in this host of what was sent, where the host tells.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct HostQueue {
    told: Option<Time>,
    /// The least that waited in this epoch, in bytes.
    least: Option<u64>,
}

impl HostQueue {
    /// It is asked for so often.
    const EVERY: Duration = Duration::from_millis(1);

    pub(super) fn is_wanted(&self, now: Time) -> bool {
        self.told.is_none_or(|told| now >= told + Self::EVERY)
    }

    /// Whether the host tells at all.
    pub(super) fn is_told(&self) -> bool {
        self.told.is_some()
    }

    pub(super) fn note(&mut self, now: Time, bytes: u64) {
        self.told = Some(now);
        self.least = Some(self.least.map_or(bytes, |least| least.min(bytes)));
    }

    /// How long the least took to leave at `rate` bytes a second: the queue that stayed all through
    /// the epoch that ends.
    pub(super) fn take_queue(&mut self, rate: f64) -> Duration {
        let least = self.least.take().unwrap_or(0);
        Duration::try_from_secs_f64(least as f64 / rate.max(1.0)).unwrap_or(Duration::MAX)
    }
}
