//! Requests that members of this host were given and have not answered.

use std::collections::BTreeMap;

use super::GuestId;

/// The most that one member may leave unanswered; of more, it cannot answer the oldest any more.
pub const ASKED_MAX: usize = 4_096;

/// A request that a member was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Given {
    pub(super) guest: GuestId,
    pub(super) number: u64,
    pub(super) handler: Option<u16>,
}

/// What members were given, by client and place in the order.
#[derive(Debug, Default)]
pub(super) struct Asked(BTreeMap<u64, BTreeMap<u64, Given>>);

impl Asked {
    pub(super) fn give(
        &mut self,
        client: u64,
        seq: u64,
        (guest, number): (GuestId, u64),
        handler: Option<u16>,
    ) {
        let of_client = self.0.entry(client).or_default();
        if of_client.len() >= ASKED_MAX {
            of_client.pop_first();
        }
        let given = Given {
            guest,
            number,
            handler,
        };
        of_client.insert(seq, given);
    }

    /// The client answers what it was given at `seq`; `None` if there is nothing to be answered.
    pub(super) fn take(&mut self, client: u64, seq: u64) -> Option<Given> {
        let of_client = self.0.get_mut(&client)?;
        let given = of_client.remove(&seq);
        if of_client.is_empty() {
            self.0.remove(&client);
        }
        given
    }

    /// The client is gone.
    pub(super) fn forget(&mut self, client: u64) {
        self.0.remove(&client);
    }
}
