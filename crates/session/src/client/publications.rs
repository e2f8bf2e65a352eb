//! The messages that a client has published: numbers, credit, acceptance and rejections.

use std::collections::BTreeSet;

use crate::frame::{Request, has_credit};

/// Messages from the first to the last that was published.
#[derive(Debug, Default)]
pub(super) struct Publications {
    last: u64,
    accepted: u64,
    /// The last value of `accepted` that was reported as an event.
    accepted_reported: u64,
    /// Numbers above `accepted` that were rejected.
    rejected: BTreeSet<u64>,
    /// Cost of the frames for which no credit came back.
    outstanding: u64,
}

impl Publications {
    /// The next message was published, at this cost.
    pub(super) fn published(&mut self, cost: u64) {
        self.last += 1;
        self.outstanding += cost;
    }

    /// A request or an answer was sent, at this cost.
    pub(super) fn charged(&mut self, cost: u64) {
        self.outstanding += cost;
    }

    pub(super) fn handle_accepted(&mut self, up_to: u64) {
        self.accepted = self.accepted.max(up_to);
        self.rejected = self.rejected.split_off(&(self.accepted + 1));
    }

    pub(super) fn handle_rejected(&mut self, request: &Request) {
        if let Request::Publish(number) = request {
            self.rejected.insert(*number);
        }
    }

    pub(super) fn handle_credit(&mut self, bytes: u64) {
        self.outstanding = self.outstanding.saturating_sub(bytes);
    }

    /// The number up to which all messages are accepted, if it was not reported yet.
    pub(super) fn take_accepted(&mut self) -> Option<u64> {
        let news = self.accepted > self.accepted_reported;
        self.accepted_reported = self.accepted;
        news.then_some(self.accepted)
    }

    pub(super) fn has_credit(&self, window: u64) -> bool {
        has_credit(self.outstanding, window)
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(super) fn undecided(&self) -> u64 {
        self.last
            .saturating_sub(self.accepted)
            .saturating_sub(self.rejected.len() as u64)
    }
}
