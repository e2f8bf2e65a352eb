//! The messages that one host was given to send: their numbers, when each was handed over, and
//! which of them the protocol took.

use std::collections::VecDeque;
use std::time::Duration;

use groupcast_core::{MessageId, Time};

/// A message that a host was given.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Time,
    /// When the protocol took it; `Time::MAX` before. A message that was not taken is not missing
    /// anywhere.
    taken: Time,
}

/// The messages of one host, by number. The newest `pending_max` are remembered.
#[derive(Debug, Default)]
pub(super) struct Issued {
    entries: VecDeque<Entry>,
    /// The number of `entries[0]`.
    base: u32,
    /// The next one that the protocol will take or reject, if it takes them in order.
    cursor: u32,
    /// The first one that is measured.
    first: Option<u32>,
    /// Measured ones that were forgotten and had not been taken.
    void: u64,
    /// Where runs of successive ids begin, oldest first: by these a message is looked up by its id.
    pub(super) runs: VecDeque<MessageId>,
    /// The last id that the protocol gave.
    pub(super) last_id: Option<MessageId>,
    /// 1/rate of its sources, if they have a rate: how far apart messages are.
    pub(super) period: Option<Duration>,
}

impl Issued {
    /// The number that the next message will have.
    pub(super) fn next(&self) -> u32 {
        self.base + self.entries.len() as u32
    }

    /// The first number that is measured, if there is one yet.
    pub(super) fn first(&self) -> Option<u32> {
        self.first
    }

    /// The host is given a message.
    pub(super) fn issue(&mut self, now: Time, measured: bool, pending_max: u32) -> u32 {
        let number = self.next();
        if measured && self.first.is_none() {
            self.first = Some(number);
        }
        self.entries.push_back(Entry {
            at: now,
            taken: Time::MAX,
        });
        if self.entries.len() > pending_max as usize {
            let forgotten = self.entries.pop_front();
            if forgotten.is_some_and(|entry| entry.taken == Time::MAX)
                && self.first.is_some_and(|first| first <= self.base)
            {
                self.void += 1;
            }
            self.base += 1;
        }
        number
    }

    /// The newest message was not accepted after all: its number is free again.
    pub(super) fn withdraw(&mut self) {
        if self.next() > self.cursor && self.entries.pop_back().is_some() {
            let next = self.next();
            self.first = self.first.filter(|first| *first < next);
        }
    }

    /// The protocol took the message `number`, or the next in order if it is not known which.
    pub(super) fn take(&mut self, now: Time, number: Option<u32>) -> u32 {
        let number = number.unwrap_or(self.cursor);
        self.cursor = self.cursor.max(number + 1);
        if let Some(entry) = self.entry(number) {
            entry.taken = now;
        }
        number
    }

    /// The protocol did not take the next in order.
    pub(super) fn reject(&mut self) {
        self.cursor = (self.cursor + 1).min(self.next());
    }

    /// The protocol will take none of those that wait.
    pub(super) fn reject_all(&mut self) {
        self.cursor = self.next();
    }

    /// Whether one waits for the protocol.
    pub(super) fn has_waiting(&self) -> bool {
        self.cursor < self.next()
    }

    /// When `number` was handed over, if that is remembered.
    pub(super) fn at(&self, number: u32) -> Option<Time> {
        let index = number.checked_sub(self.base)?;
        self.entries.get(index as usize).map(|entry| entry.at)
    }

    /// The measured numbers that were handed over by `limit`, and how many of them the protocol had
    /// not taken by then.
    pub(super) fn due(&self, limit: Time) -> Option<(u32, u32, u64)> {
        let first = self.first?;
        let until = self.entries.partition_point(|entry| entry.at <= limit);
        let idle = (self.base..)
            .zip(self.entries.iter().take(until))
            .filter(|(number, entry)| *number >= first && entry.taken > limit)
            .count() as u64;
        Some((
            first,
            (self.base + until as u32).max(first),
            self.void + idle,
        ))
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.entries.len()
    }

    fn entry(&mut self, number: u32) -> Option<&mut Entry> {
        let index = number.checked_sub(self.base)?;
        self.entries.get_mut(index as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(2);
    const LATE: Time = Time::from_millis(1_000);

    fn issued(count: u64, pending_max: u32) -> Issued {
        let mut issued = Issued::default();
        for millis in 0..count {
            issued.issue(Time::from_millis(millis), millis >= 3, pending_max);
        }
        issued
    }

    #[test]
    fn numbers_are_given_in_order_and_a_refused_one_again() {
        let mut issued = issued(5, 64);
        assert_eq!((issued.next(), issued.first()), (5, Some(3)));
        issued.withdraw();
        assert_eq!(issued.next(), 4);
        issued.withdraw();
        assert_eq!((issued.next(), issued.first()), (3, None));
    }

    #[test]
    fn what_the_protocol_skips_or_rejects_is_expected_of_nobody() {
        let mut issued = issued(10, 64);
        assert_eq!(issued.take(NOW, None), 0);
        assert_eq!(issued.take(NOW, Some(4)), 4);
        issued.reject();
        assert_eq!(issued.take(NOW, None), 6);
        // Measured from 3 on, by 8 ms: 3 skipped, 4 taken, 5 rejected, 6 taken, 7 and 8 still wait.
        assert_eq!(issued.due(Time::from_millis(8)), Some((3, 9, 4)));
        issued.reject_all();
        assert!(!issued.has_waiting());
        issued.withdraw();
        assert_eq!(
            issued.next(),
            10,
            "a message that was taken or rejected has had its number"
        );
    }

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_still_counts() {
        let mut issued = issued(100, 8);
        assert_eq!(issued.entries.len(), 8);
        assert_eq!(issued.at(91), None);
        assert_eq!(issued.at(92), Some(Time::from_millis(92)));
        assert_eq!(issued.due(LATE), Some((3, 100, 97)));
        issued.take(NOW, Some(99));
        assert_eq!(issued.due(LATE), Some((3, 100, 96)));
    }
}
