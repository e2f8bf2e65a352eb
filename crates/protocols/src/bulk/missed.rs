//! Transfers of others that this endpoint has no part in: which of them began before it came, so
//! that its user can be told.
//!
//! What can be read again is announced as long as it is sent. A stream that cannot is announced at
//! its start alone: who comes later hears its data and knows nothing of it.

use alloc::collections::VecDeque;

use bytes::Bytes;
use groupcast_core::Time;

use super::sender::ANNOUNCED_AFTERWARDS;
use super::transfer::TransferId;
use super::wire::Message;
use super::{Bulk, BulkConfig, Notice};

/// So many transfers are kept in mind, the latest.
const KEPT: usize = 64;
/// A transfer whose announcements are so many intervals overdue is not announced any more.
const LOST_MAX: u32 = 5;

/// Transfers that were announced here, or whose data was heard.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// Each with the time since which its data was heard without an announcement; `None` if there
    /// is nothing more to say of it.
    heard: VecDeque<(TransferId, Option<Time>)>,
}

impl Missed {
    /// The transfer is announced.
    pub(super) fn announced(&mut self, id: TransferId) {
        match self.heard.iter_mut().find(|(known, _)| *known == id) {
            Some((_, since)) => *since = None,
            None => self.keep(id, None),
        }
    }

    /// Data came of a transfer in which this endpoint has no part.
    pub(super) fn hears(
        &mut self,
        now: Time,
        id: TransferId,
        config: &BulkConfig,
    ) -> Option<Notice> {
        let Some((_, since)) = self.heard.iter_mut().find(|(known, _)| *known == id) else {
            self.keep(id, Some(now));
            return None;
        };
        let overdue = config.announce_interval * ANNOUNCED_AFTERWARDS * LOST_MAX;
        since.filter(|since| now - *since >= overdue)?;
        *since = None;
        Some(Notice::Missed { id })
    }

    fn keep(&mut self, id: TransferId, since: Option<Time>) {
        if self.heard.len() >= KEPT {
            self.heard.pop_front();
        }
        self.heard.push_back((id, since));
    }
}

impl Bulk {
    /// Tells the sender of a [missed](Notice::Missed) transfer that this receiver, called `name`,
    /// came too late for it.
    pub fn say_missed(&mut self, id: TransferId, name: &[u8]) {
        let missed = Message::Missed(Bytes::copy_from_slice(name));
        self.shared.outbox.unicast(id.sender, id.number, &missed);
    }
}
