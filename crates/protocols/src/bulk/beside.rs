//! What group management beside an endpoint asks of it (003 4.5.2).

use groupcast_core::{MemberId, Time};

use super::Bulk;
use super::transfer::{Outcome, TransferId};

impl Bulk {
    /// Group management knows better what became of a receiver: it has gone, or is not to take
    /// part. It is settled with `outcome`, told so, and not served any more. Nothing happens if it
    /// is settled, or not a receiver.
    pub fn dismiss(&mut self, now: Time, id: TransferId, receiver: MemberId, outcome: &Outcome) {
        self.with_sender(now, id, |sender, context| {
            sender.dismiss(context, receiver, outcome.clone());
        });
    }

    /// The transfers that this endpoint takes part in as a receiver, and how many bytes its user
    /// may use of each, from the start of the stream without a gap. What lies beyond a mark, or is
    /// kept aside, is not among them.
    pub fn receiving(&self) -> impl Iterator<Item = (TransferId, u64)> {
        let receivers = self.receivers.iter();
        receivers.filter_map(|(id, receiver)| Some((*id, receiver.usable()?)))
    }

    /// Whether [`receiving`](Self::receiving) has this one.
    pub fn is_receiving(&self, id: TransferId) -> bool {
        let receiver = self.receivers.get(&id);
        receiver.is_some_and(|receiver| receiver.usable().is_some())
    }

    /// The same for one transfer, which may be over; `None` if this endpoint was not in it, or that
    /// is long ago.
    pub fn usable(&self, id: TransferId) -> Option<u64> {
        let mut latest = self.usable_at_end.iter().rev();
        match self.receivers.get(&id) {
            Some(receiver) => receiver.usable(),
            None => Some(latest.find(|(past, _)| *past == id)?.1),
        }
    }

    /// This many hosts receive, beside this one, as group management has counted (003 4.5.1: a
    /// cached estimate of the group's size). Slots of the transfers that begin from now on
    /// [follow](super::Slot::ForEach) it.
    pub fn set_group_size(&mut self, hosts: Option<usize>) {
        self.shared.group_size = hosts;
    }

    /// What group management has counted, if it has.
    pub fn group_size(&self) -> Option<usize> {
        self.shared.group_size
    }

    /// Whether a transfer that is sent here is under way.
    pub fn is_sending(&self, id: TransferId) -> bool {
        self.sender(id).is_some()
    }
}
