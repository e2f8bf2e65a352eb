//! Events that wait for the client, and the credit that they cost the daemon.

use std::collections::VecDeque;

use super::ClientEvent;

/// Events in their order.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Each with its credit cost.
    events: VecDeque<(ClientEvent, u64)>,
    window: u64,
    /// Cost of the events that wait.
    unread: u64,
    /// Cost of the events that were taken and whose credit was not given back.
    consumed: u64,
}

impl Inbox {
    pub(super) fn new(window: u64) -> Self {
        Self {
            events: VecDeque::new(),
            window,
            unread: 0,
            consumed: 0,
        }
    }

    pub(super) fn put(&mut self, event: ClientEvent, cost: u64) {
        self.unread += cost;
        self.events.push_back((event, cost));
    }

    pub(super) fn take(&mut self) -> Option<ClientEvent> {
        let (event, cost) = self.events.pop_front()?;
        self.unread -= cost;
        self.consumed += cost;
        Some(event)
    }

    pub(super) fn discard(&mut self) {
        self.consumed += std::mem::take(&mut self.unread);
        self.events.clear();
    }

    /// The daemon that counted the credit is gone: waiting events cost nothing any more.
    pub(super) fn forget_credit(&mut self) {
        self.unread = 0;
        self.consumed = 0;
        for (_, cost) in &mut self.events {
            *cost = 0;
        }
    }

    /// Whether enough was taken to give credit back. Less is no reason to wake the daemon: it can
    /// go on with the rest of the window.
    pub(super) fn is_credit_due(&self) -> bool {
        self.consumed >= self.window / 4
    }

    /// The credit of the events that were taken since the last call, if any, to be given back.
    pub(super) fn take_consumed(&mut self) -> Option<u64> {
        let consumed = std::mem::take(&mut self.consumed);
        (consumed > 0).then_some(consumed)
    }

    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    pub(super) fn is_full(&self) -> bool {
        self.unread > 0 && self.unread >= self.window
    }
}
