//! The master: grants tokens, and decides what becomes of each message (000 ch. 4).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::{MemberId, Time};

use super::statuses::{Status, Statuses};

/// What the master of a web keeps, beside what all members know.
#[derive(Debug, Default)]
pub(super) struct Master {
    /// Who holds the tokens of messages that are not decided, and when each was heard last.
    holders: BTreeMap<u64, (MemberId, Time)>,
    /// The last request of each member that was granted, and the message that it got.
    granted: BTreeMap<MemberId, (u64, u64)>,
    /// Requests that wait because the oldest message is not decided.
    waiting: VecDeque<(MemberId, u64)>,
    /// When it last said something.
    pub(super) said: Time,
}

/// A token for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Grant {
    pub(super) to: MemberId,
    pub(super) request: u64,
    pub(super) message: u64,
}

impl Master {
    /// Members that a master remembers; requests of more wait.
    const MEMBERS_MAX: usize = 1_024;

    /// A member asks for a token; what it gets, if it gets one now.
    pub(super) fn request(
        &mut self,
        now: Time,
        from: MemberId,
        request: u64,
        statuses: &mut Statuses,
    ) -> Option<Grant> {
        match self.granted.get(&from) {
            Some((known, message)) if *known == request => {
                let message = *message;
                return Some(Grant {
                    to: from,
                    request,
                    message,
                });
            }
            Some((known, _)) if *known > request => return None,
            None if self.granted.len() >= Self::MEMBERS_MAX => return None,
            _ => {}
        }
        self.waiting.retain(|(member, _)| *member != from);
        if self.waiting.len() < Self::MEMBERS_MAX {
            self.waiting.push_back((from, request));
        }
        self.next_grant(now, statuses)
    }

    /// The token of the request that has waited longest, if one can be granted.
    pub(super) fn next_grant(&mut self, now: Time, statuses: &mut Statuses) -> Option<Grant> {
        if statuses.is_full() {
            return None;
        }
        let (to, request) = self.waiting.pop_front()?;
        let message = statuses.grant();
        self.holders.insert(message, (to, now));
        self.granted.insert(to, (request, message));
        Some(Grant {
            to,
            request,
            message,
        })
    }

    /// Whether a member has the token of a message that is not decided.
    pub(super) fn is_held_by(&self, message: u64, member: MemberId) -> bool {
        let holder = self.holders.get(&message);
        holder.is_some_and(|(holder, _)| *holder == member)
    }

    /// A packet of a message was heard.
    pub(super) fn hear(&mut self, now: Time, message: u64, from: MemberId) {
        if let Some((holder, heard)) = self.holders.get_mut(&message)
            && *holder == from
        {
            *heard = now;
        }
    }

    /// The master has a message whole: it is accepted; whether that is news.
    pub(super) fn accept(&mut self, message: u64, statuses: &mut Statuses) -> bool {
        let is_open = self.holders.remove(&message).is_some();
        if is_open {
            statuses.set(message, Status::Accepted);
        }
        is_open
    }

    /// Holders that were silent for this long have failed: their messages are rejected; whether any
    /// was.
    pub(super) fn reject_silent(
        &mut self,
        now: Time,
        silence: Duration,
        statuses: &mut Statuses,
    ) -> bool {
        let holders = self.holders.iter();
        let failed = holders.filter(|(_, (_, heard))| now - *heard >= silence);
        let failed: Vec<u64> = failed.map(|(message, _)| *message).collect();
        for message in &failed {
            self.holders.remove(message);
            statuses.set(*message, Status::Rejected);
        }
        !failed.is_empty()
    }
}
