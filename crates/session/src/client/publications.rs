//! The messages that a client has published: numbers, credit, acceptance and rejections.

use std::collections::BTreeMap;

use crate::frame::{Request, has_credit};

/// The most runs of rejected numbers that are kept. Between two runs is a message that the daemon
/// has taken and not accepted, and what a daemon has taken is bounded by its own queues. More than
/// these is the work of a daemon that never accepts.
const RUNS_MAX: usize = 1 << 18;

/// Messages from the first to the last that was published.
#[derive(Debug, Default)]
pub(super) struct Publications {
    last: u64,
    accepted: u64,
    /// The last value of `accepted` that was reported as an event.
    accepted_reported: u64,
    /// Runs of numbers above `accepted` that were rejected: the last of each by the first. A
    /// rejected message moves `accepted` no further, so a client of which all messages are rejected
    /// has one long run.
    rejected: BTreeMap<u64, u64>,
    /// How many numbers are in the runs.
    rejected_count: u64,
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
        while let Some(run) = self.rejected.first_entry()
            && *run.key() <= self.accepted
        {
            let (first, last) = run.remove_entry();
            self.rejected_count -= last.min(self.accepted) - first + 1;
            if last > self.accepted {
                self.rejected.insert(self.accepted + 1, last);
            }
        }
    }

    pub(super) fn handle_rejected(&mut self, request: &Request) {
        if let Request::Publish(number) = request {
            self.reject(*number);
        }
    }

    /// Adds a number to the runs of rejected ones. One that was not published, or whose fate is
    /// known, changes nothing.
    fn reject(&mut self, number: u64) {
        if number <= self.accepted || number > self.last {
            return;
        }
        let before = self.rejected.range(..=number).next_back();
        let first = match before {
            Some((_, last)) if *last >= number => return,
            Some((first, last)) if *last + 1 == number => *first,
            _ if self.rejected.len() >= RUNS_MAX => return,
            _ => number,
        };
        let behind = self.rejected.remove(&(number + 1));
        self.rejected.insert(first, behind.unwrap_or(number));
        self.rejected_count += 1;
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
        let left = self.last.saturating_sub(self.accepted);
        left.saturating_sub(self.rejected_count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The daemon rejects each message, as where access rules forbid them all: nothing is ever
    /// accepted.
    #[test]
    fn a_client_of_which_every_message_is_rejected_keeps_one_run() {
        let mut publications = Publications::default();
        for number in 1..=100_000 {
            publications.published(100);
            publications.handle_credit(100);
            publications.handle_rejected(&Request::Publish(number));
            assert_eq!(publications.undecided(), 0);
        }
        assert_eq!(publications.rejected.len(), 1);
    }

    /// A daemon that rejects every other message and accepts none.
    #[test]
    fn runs_are_bounded_and_what_is_left_out_counts_as_undecided() {
        let messages = 2 * RUNS_MAX as u64 + 1_000;
        let mut publications = Publications::default();
        for number in 1..=messages {
            publications.published(1);
            if number % 2 == 0 {
                publications.handle_rejected(&Request::Publish(number));
            }
        }
        assert_eq!(publications.rejected.len(), RUNS_MAX);
        assert_eq!(publications.undecided(), messages - RUNS_MAX as u64);
        publications.handle_accepted(messages);
        assert_eq!(publications.undecided(), 0);
        assert_eq!(publications.accepted(), messages);
        assert!(publications.rejected.is_empty());
    }

    proptest! {
        #[test]
        fn what_is_undecided_is_what_a_set_of_numbers_says(
            acts in prop::collection::vec((0u8..4, 0u64..40), 1..200),
        ) {
            let mut publications = Publications::default();
            let (mut last, mut accepted, mut rejected) = (0, 0, BTreeSet::new());
            for (act, number) in acts {
                match act {
                    0 => {
                        publications.published(1);
                        last += 1;
                    }
                    1 => {
                        publications.handle_accepted(number);
                        accepted = accepted.max(number);
                    }
                    _ => {
                        publications.handle_rejected(&Request::Publish(number));
                        if number <= last {
                            rejected.insert(number);
                        }
                    }
                }
                let decided = |it: &u64| *it <= accepted || rejected.contains(it);
                let undecided = (1..=last).filter(|it| !decided(it)).count();
                prop_assert_eq!(publications.undecided(), undecided as u64);
            }
        }
    }
}
