//! The end of a daemon: it leaves the bimodal groups and the rings, then its own order, and its
//! clients read why.

use std::time::Duration;

use groupcast_core::{Ordered as _, Time};
use groupcast_protocols::gossip::GossipConfig;

use super::Daemon;
use crate::bimodal::Bimodal;
use crate::instance;
use crate::rings::Ring;

/// The daemon ends at the latest this long after the order's own time-out for leaving.
const LEAVE_MARGIN: Duration = Duration::from_secs(1);
/// How long clients may take to read why the daemon ends.
pub(super) const FAREWELL: Duration = Duration::from_millis(500);
/// How often the daemon looks at connections that linger when it has no turns any more.
const LINGER_STEP: Duration = Duration::from_millis(2);
/// What clients are told when the daemon is asked to stop and does not leave.
pub(super) const STOPPING: &str = "the daemon is stopping";

/// The phases of a daemon from serving to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RunPhase {
    /// It serves its clients.
    Running,
    /// It leaves the bimodal groups and the rings first, until this time at the latest.
    LeavingGroups(Time),
    /// It leaves the order's configuration, until this time at the latest.
    LeavingOrder(Time),
    /// It has left; its clients have until this time to read why.
    Left(Time),
    /// It could not leave in time, and does not try any more; its clients have until this time to
    /// read why.
    GivenUp(Time),
}

impl RunPhase {
    /// When this phase ends at the latest.
    pub(super) fn end(self) -> Option<Time> {
        match self {
            Self::Running => None,
            Self::LeavingGroups(end)
            | Self::LeavingOrder(end)
            | Self::Left(end)
            | Self::GivenUp(end) => Some(end),
        }
    }
}

impl Daemon {
    /// Moves on with stopping, by requests to stop and by time; returns whether the daemon goes on.
    pub(super) fn advance(&mut self, now: Time, stop_requests: usize) -> bool {
        match self.phase {
            RunPhase::Running if stop_requests > 0 => {
                tracing::info!("stopping: leaving the group first");
                self.leave_groups(now);
                stop_requests == 1
            }
            RunPhase::Running => true,
            RunPhase::LeavingGroups(end) => {
                let left = instance::bimodal(self.endpoint.node()).is_none_or(Bimodal::has_left);
                if left && self.rings.iter().flatten().all(Ring::is_out) || now >= end {
                    self.leave_order(now);
                }
                stop_requests == 0
            }
            RunPhase::LeavingOrder(end) if now >= end => {
                tracing::warn!("stopped without having left the group: it did not answer in time");
                self.engine.stop(now, STOPPING);
                self.phase = RunPhase::GivenUp(now + FAREWELL);
                stop_requests == 0
            }
            RunPhase::LeavingOrder(_) => stop_requests == 0,
            RunPhase::Left(end) | RunPhase::GivenUp(end) => {
                let done = self.clients.count() == 0 || now >= end;
                if done && matches!(self.phase, RunPhase::Left(_)) {
                    self.endpoint.flush(now);
                    tracing::info!("left the group and stopped");
                }
                !done && stop_requests == 0
            }
        }
    }

    /// The daemon ends now: its clients are told `why`, unless they were told before. Nothing is
    /// waited for but what a client that reads takes at once.
    pub(super) fn say_last(&mut self, why: &str) {
        let was_told = matches!(self.phase, RunPhase::Left(_) | RunPhase::GivenUp(_));
        let begun = self.endpoint.now();
        self.engine.stop(begun, why);
        let mut now = begun;
        loop {
            // One call writes a share to each client, and to a part of the clients: the reason may
            // stand behind several shares.
            self.clients.give_output(now, &mut self.engine);
            now = self.endpoint.now();
            if !self.clients.has_output() || now >= begun + FAREWELL {
                break;
            }
        }
        // Closing a socket with unread bytes would take back what was written to it.
        while !was_told && self.clients.are_lingering() && now < begun + FAREWELL {
            std::thread::sleep(LINGER_STEP);
            now = self.endpoint.now();
            self.clients.go_on_lingering(now);
        }
    }

    /// Leaves the bimodal groups and the rings; leaves the own order at once if the daemon is in
    /// none.
    fn leave_groups(&mut self, now: Time) {
        let bimodal = instance::bimodal_mut(self.endpoint.node_mut());
        let bimodal = bimodal.filter(|groups| groups.len() > 0);
        let of_bimodal = bimodal.map(|groups| {
            groups.leave(now);
            bimodal_leave_max(&self.config.bimodal)
        });
        let of_rings = self.rings.iter_mut().flatten().filter_map(|ring| {
            ring.leave(now, true);
            (!ring.is_out()).then(|| ring.leave_max())
        });
        match of_rings.chain(of_bimodal).max() {
            Some(max) => self.phase = RunPhase::LeavingGroups(now + max),
            None => self.leave_order(now),
        }
    }

    fn leave_order(&mut self, now: Time) {
        let timeout = self.config.order.config.limits().leave_timeout + LEAVE_MARGIN;
        self.phase = RunPhase::LeavingOrder(now + timeout);
        if let Some(order) = instance::order_mut(self.endpoint.node_mut()) {
            order.member.leave(now);
        }
    }
}

/// How long leaving the bimodal groups may take: until messages that were just sent are stable, and
/// two rounds more to tell the others.
fn bimodal_leave_max(config: &GossipConfig) -> Duration {
    config
        .step_interval
        .saturating_mul(config.stable_threshold + 4)
}
