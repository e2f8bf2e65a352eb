//! What the sender's own host shows of an epoch: how long there was nothing to send in it, what
//! waited in the host of what was sent, and what its link carried of all.

use core::time::Duration;

use groupcast_core::{Time, Uplink};

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

/// What waits in this host of what was sent, and what its link carries, where the host tells.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct HostQueue {
    told: Option<Time>,
    /// The least that waited in this epoch, in bytes.
    least: Option<u64>,
    /// Bytes sent here so far.
    sent: u64,
    /// What the link had carried when the epoch began, and by now.
    carried: Option<[Carried; 2]>,
}

/// What a link has carried: bytes that were sent here, and by all.
#[derive(Clone, Copy, Debug)]
struct Carried {
    at: Time,
    own: u64,
    all: u64,
}

/// What a link carries, in bytes a second: of what is sent here, and of all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carries {
    pub(super) own: f64,
    pub(super) all: f64,
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

    pub(super) fn note(&mut self, now: Time, uplink: Uplink) {
        self.told = Some(now);
        let waits = uplink.waits;
        self.least = Some(self.least.map_or(waits, |least| least.min(waits)));
        self.carried = uplink.carried.map(|all| {
            let last = Carried {
                at: now,
                own: self.sent.saturating_sub(waits),
                all,
            };
            let first = self.carried.map_or(last, |[first, _]| first);
            [first, last]
        });
    }

    /// How long the least took to leave at `rate` bytes a second: the queue that stayed all through
    /// the epoch that ends.
    pub(super) fn take_queue(&mut self, rate: f64) -> Duration {
        let least = self.least.take().unwrap_or(0);
        Duration::try_from_secs_f64(least as f64 / rate.max(1.0)).unwrap_or(Duration::MAX)
    }

    /// So many bytes were sent here.
    pub(super) fn note_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// What the link carried in the epoch that ends.
    pub(super) fn take_carried(&mut self) -> Option<Carries> {
        let [first, last] = self.carried?;
        self.carried = Some([last, last]);
        let seconds = (last.at - first.at).as_secs_f64();
        // Counters begin anew where the link is another one.
        let all = last.all.checked_sub(first.all)?;
        (seconds > 0.0).then(|| Carries {
            own: last.own.saturating_sub(first.own) as f64 / seconds,
            all: all as f64 / seconds,
        })
    }
}
