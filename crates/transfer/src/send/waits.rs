//! Tells a sender's user for whom a transfer waits, so that nobody wonders: receivers that have not
//! come before the start, and receivers that have everything and have not concluded.

use std::collections::BTreeMap;
use std::time::Duration;

use groupcast_core::{MemberId, NodeId, Time};
use groupcast_protocols::bulk::{Awaited, PhaseKind, Progress, TransferId};

use super::SendEvent;
use crate::host::BulkHost;

/// For whom a transfer waits, as its user was told.
pub(crate) struct Waits {
    /// When to look next.
    next: Time,
    /// How many are enough, where others may come until the time is up.
    least: Option<usize>,
    told: Option<(Vec<NodeId>, usize)>,
    /// Since when everything is sent, as far as was looked.
    concludes_since: Option<Time>,
    /// The receivers that had not concluded when it was last told.
    unconcluded: Vec<MemberId>,
}

/// What a sender calls a receiver.
pub(crate) type NameOf<'a> = &'a dyn Fn(MemberId) -> String;

impl Waits {
    /// How long receivers that are there may take: until then there is nothing to say.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
    /// How often it is said at most.
    const EVERY: Duration = Duration::from_secs(1);

    /// The transfer is announced now.
    pub(crate) fn new(now: Time) -> Self {
        Self {
            next: now + Self::PATIENCE,
            least: None,
            told: None,
            concludes_since: None,
            unconcluded: Vec::new(),
        }
    }

    /// The transfer needs `least` receivers, and takes as many as come.
    pub(crate) fn needs(self, least: Option<usize>) -> Self {
        Self { least, ..self }
    }

    /// Tells for whom the transfer waits, if that has changed. `required` has the names.
    pub(crate) fn tell(
        &mut self,
        host: &mut BulkHost,
        id: TransferId,
        required: &BTreeMap<NodeId, String>,
        tell: &mut dyn FnMut(SendEvent<'_>),
    ) {
        let now = host.now();
        if now < self.next {
            return;
        }
        self.next = now + Self::EVERY;
        let Some(Awaited {
            here,
            named,
            missing,
            until,
        }) = host.bulk().awaited(id)
        else {
            return;
        };
        let missing = self.least.map_or(missing, |it| it.saturating_sub(here));
        // Without a number those that have come are enough, and it begins soon.
        let waits = missing > 0 || here == 0 || self.least.is_some();
        if !waits || self.told.as_ref() == Some(&(named.clone(), missing)) {
            return;
        }
        let names = named.iter().filter_map(|node| required.get(node));
        let names: Vec<&str> = names.map(String::as_str).collect();
        tell(SendEvent::Waiting {
            names: &names,
            missing,
            here,
            left: match until > now {
                true => until - now,
                false => Duration::ZERO,
            },
        });
        self.told = Some((named, missing));
    }

    /// Tells which receivers have not concluded, though everything is sent, if these are others
    /// than before. They are called as `name_of` says; if they are asked what they hold, they
    /// `compare`.
    pub(crate) fn tell_unconcluded(
        &mut self,
        progress: &Progress,
        (now, compare): (Time, bool),
        name_of: NameOf<'_>,
        tell: &mut dyn FnMut(SendEvent<'_>),
    ) {
        if progress.phase != PhaseKind::Concluding {
            self.concludes_since = None;
            return;
        }
        let since = *self.concludes_since.get_or_insert(now);
        if now - since < Self::PATIENCE {
            return;
        }
        // The next time it is told at the earliest.
        let before = Self::PATIENCE - Self::EVERY;
        self.concludes_since = Some(since + (now - since - before));
        let receivers = progress.receivers.iter().map(|it| it.receiver);
        let receivers: Vec<MemberId> = receivers.collect();
        if receivers.is_empty() || receivers == self.unconcluded {
            return;
        }
        let names: Vec<String> = receivers.iter().map(|it| name_of(*it)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        tell(SendEvent::Unconcluded {
            names: &names,
            compare,
        });
        self.unconcluded = receivers;
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Incarnation;
    use groupcast_protocols::bulk::ReceiverProgress;

    use super::*;

    fn progress(phase: PhaseKind, nodes: &[u64]) -> Progress {
        let receiver = |node: &u64| ReceiverProgress {
            receiver: MemberId {
                node: NodeId(*node),
                incarnation: Incarnation(1),
            },
            held: 10,
            waited_for: true,
            loss_permille: 0,
        };
        Progress {
            phase,
            pass: 1,
            position: 10,
            acknowledged: 10,
            length: Some(10),
            packets: 1,
            repeated: 0,
            rate: None,
            round_trip: Duration::ZERO,
            receivers: nodes.iter().map(receiver).collect(),
        }
    }

    #[test]
    fn who_has_not_concluded_is_told_after_two_seconds_and_when_that_changes() {
        let mut waits = Waits::new(Time::ZERO);
        let mut at = |millis: u64, phase, nodes: &[u64]| {
            let mut told = Vec::new();
            let name_of = |member: MemberId| format!("r{}", member.node.0);
            let now = (Time::from_millis(millis), false);
            let progress = progress(phase, nodes);
            waits.tell_unconcluded(&progress, now, &name_of, &mut |event| match event {
                SendEvent::Unconcluded { names, .. } => told.push(names.join(",")),
                other => panic!("{other:?}"),
            });
            told
        };
        let nobody: [&str; 0] = [];
        assert_eq!(at(0, PhaseKind::Concluding, &[1, 2, 3]), nobody);
        assert_eq!(at(1_900, PhaseKind::Concluding, &[1, 2, 3]), nobody);
        // A receiver missed something after all.
        assert_eq!(at(1_950, PhaseKind::Sending, &[1, 2, 3]), nobody);
        assert_eq!(at(2_100, PhaseKind::Concluding, &[1, 2, 3]), nobody);
        assert_eq!(at(4_100, PhaseKind::Concluding, &[1, 2]), ["r1,r2"]);
        assert_eq!(at(4_200, PhaseKind::Concluding, &[2]), nobody, "too soon");
        assert_eq!(at(5_100, PhaseKind::Concluding, &[2]), ["r2"]);
        assert_eq!(
            at(9_000, PhaseKind::Concluding, &[2]),
            nobody,
            "nothing is new"
        );
        assert_eq!(at(9_900, PhaseKind::Concluding, &[]), nobody);
    }
}
