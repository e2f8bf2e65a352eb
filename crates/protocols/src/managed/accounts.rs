//! The accounts of monitored messages. Each account waits until the checkpoint at the message's end
//! is settled; a member that *has it* by the checkpoint counts as complete, besides those that the
//! transport calls complete. So the checker judges what group management says by what was
//! delivered.

use alloc::collections::VecDeque;

use groupcast_core::{Event, MemberId};

use crate::xgm::{self, Holding};

/// A checkpoint of a transfer that this member sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Checkpoint {
    /// The number of the transfer.
    pub(super) number: u32,
    pub(super) place: u64,
}

/// The events of this member's own messages that wait, in order.
#[derive(Debug)]
pub(super) struct Accounts {
    local: MemberId,
    /// Each event, and the checkpoint that it waits for.
    waiting: VecDeque<(Event, Option<Checkpoint>)>,
}

impl Accounts {
    pub(super) fn new(local: MemberId) -> Self {
        Self {
            local,
            waiting: VecDeque::new(),
        }
    }

    /// Takes an event of the messages. Events about the messages of others need not wait: they are
    /// given back.
    pub(super) fn take(&mut self, event: Event, checkpoint: Option<Checkpoint>) -> Option<Event> {
        let is_own = match &event {
            Event::Account(_) => true,
            Event::Deliver(delivery) => delivery.id.sender == self.local,
            Event::Left => {
                // The member hears nothing any more: nothing waits for a checkpoint.
                for (_, checkpoint) in &mut self.waiting {
                    *checkpoint = None;
                }
                true
            }
            _ => false,
        };
        if !is_own {
            return Some(event);
        }
        self.waiting.push_back((event, checkpoint));
        None
    }

    /// Takes in the account of a checkpoint that is settled.
    pub(super) fn hear(&mut self, settled: &xgm::Account) {
        let at = Checkpoint {
            number: settled.number,
            place: settled.place,
        };
        let waiting = self.waiting.iter_mut();
        for (event, _) in waiting.filter(|(_, checkpoint)| *checkpoint == Some(at)) {
            let Event::Account(account) = event else {
                continue;
            };
            let have = settled.members.iter();
            for one in have.filter(|it| it.holding == Holding::Has) {
                account.failed.retain(|member| *member != one.member);
                if !account.complete.contains(&one.member) {
                    account.complete.push(one.member);
                }
            }
        }
    }

    /// The next event, unless its checkpoint is still open.
    pub(super) fn next(&mut self, is_open: impl Fn(Checkpoint) -> bool) -> Option<Event> {
        let (_, checkpoint) = self.waiting.front()?;
        if checkpoint.is_some_and(is_open) {
            return None;
        }
        self.waiting.pop_front().map(|(event, _)| event)
    }
}
