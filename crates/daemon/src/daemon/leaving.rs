//! How a daemon ends: it leaves the bimodal groups, then the order's configuration, and its clients
//! read why.

use std::time::Duration;

use groupcast_core::{Ordered as _, Time};
use groupcast_protocols::gossip::GossipConfig;

use super::Daemon;
use crate::bimodal::Bimodal;
use crate::instance;

/// After the order's own time-out for leaving, the daemon ends at this time at the latest.
const LEAVE_MARGIN: Duration = Duration::from_secs(1);
/// How long clients may take to read why the daemon ends.
pub(super) const FAREWELL: Duration = Duration::from_millis(500);

/// What a daemon does on its way from serving to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RunPhase {
    /// It serves its clients.
    Running,
    /// It leaves the bimodal groups first, until this time at the latest.
    LeavingBimodal(Time),
    /// It leaves the order's configuration, until this time at the latest.
    LeavingOrder(Time),
    /// It has left; its clients have until this time to read why.
    Left(Time),
}

impl RunPhase {
    /// When it ends at the latest.
    pub(super) fn end(self) -> Option<Time> {
        match self {
            Self::Running => None,
            Self::LeavingBimodal(end) | Self::LeavingOrder(end) | Self::Left(end) => Some(end),
        }
    }
}

impl Daemon {
    /// Moves on with stopping, by requests to stop and by time; returns whether the daemon goes on.
    pub(super) fn advance(&mut self, now: Time, stop_requests: usize) -> bool {
        match self.phase {
            RunPhase::Running if stop_requests > 0 => {
                tracing::info!("stopping: leaving the group first");
                match instance::bimodal_mut(self.endpoint.node_mut()) {
                    Some(groups) if groups.len() > 0 => {
                        groups.leave(now);
                        self.phase =
                            RunPhase::LeavingBimodal(now + bimodal_leave_max(&self.config.bimodal));
                    }
                    _ => self.leave_order(now),
                }
                stop_requests == 1
            }
            RunPhase::Running => true,
            RunPhase::LeavingBimodal(end) => {
                let left = instance::bimodal(self.endpoint.node()).is_none_or(Bimodal::has_left);
                if left || now >= end {
                    self.leave_order(now);
                }
                stop_requests == 0
            }
            RunPhase::LeavingOrder(end) if now >= end => {
                tracing::warn!("stopped without having left the group: it did not answer in time");
                self.engine.stop(now, "the daemon is stopping");
                self.clients.give_output(now, &mut self.engine);
                false
            }
            RunPhase::LeavingOrder(_) => stop_requests == 0,
            RunPhase::Left(end) => {
                let done = self.clients.count() == 0 || now >= end;
                if done {
                    self.endpoint.flush(now);
                    tracing::info!("left the group and stopped");
                }
                !done && stop_requests == 0
            }
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
