//! Tells a sender's user for whom a transfer waits, so that nobody wonders.

use std::collections::BTreeMap;
use std::time::Duration;

use groupcast_core::{NodeId, Time};
use groupcast_protocols::bulk::{Awaited, TransferId};

use super::SendEvent;
use crate::host::BulkHost;

/// For whom a transfer waits, as its user was told.
pub(crate) struct Waits {
    /// When to look next.
    next: Time,
    /// How many are enough, where others may come until the time is up.
    least: Option<usize>,
    told: Option<(Vec<NodeId>, usize)>,
}

impl Waits {
    /// How long receivers that are there may take: until then there is nothing to say.
    const PATIENCE: Duration = Duration::from_secs(2);
    /// How often it is said at most.
    const EVERY: Duration = Duration::from_secs(1);

    /// The transfer is announced now.
    pub(crate) fn new(now: Time) -> Self {
        Self {
            next: now + Self::PATIENCE,
            least: None,
            told: None,
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
}
