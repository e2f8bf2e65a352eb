//! What a member knows of another one's messages: which are delivered, which wait, which are
//! missing.

use alloc::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use groupcast_core::{Delivery, Event, Gap, MemberId, MessageId, Service, Time};

/// The messages of one sender.
#[derive(Debug)]
pub(super) struct Stream {
    sender: MemberId,
    /// The number of the message that is delivered, or reported, next.
    next: u64,
    /// The highest number that is known to exist.
    last: u64,
    /// Messages that wait for an earlier one.
    early: BTreeMap<u64, Bytes>,
    /// When the sender was heard.
    pub(super) heard: Time,
}

impl Stream {
    /// Messages that wait for earlier ones, at most. If one comes from further ahead, the earliest
    /// are given up.
    const WINDOW: u64 = 512;

    /// A stream that begins with the number `next`.
    pub(super) fn new(sender: MemberId, next: u64, now: Time) -> Self {
        Self {
            sender,
            next,
            last: next - 1,
            early: BTreeMap::new(),
            heard: now,
        }
    }

    /// A message arrived, perhaps not for the first time.
    pub(super) fn take(&mut self, number: u64, payload: Bytes, events: &mut VecDeque<Event>) {
        self.give_up(number.saturating_sub(Self::WINDOW), events);
        self.last = self.last.max(number);
        if number >= self.next {
            self.early.insert(number, payload);
        }
        self.deliver(events);
    }

    /// The sender has sent its messages up to `last`, and can repeat none before `first`.
    pub(super) fn exist(&mut self, first: u64, last: u64, events: &mut VecDeque<Event>) {
        self.give_up(first, events);
        self.last = self.last.max(last);
    }

    /// Whatever misses is not waited for any longer.
    pub(super) fn give_up_all(&mut self, events: &mut VecDeque<Event>) {
        self.give_up(self.last + 1, events);
    }

    /// Reports what is missing before `end`, and delivers what is there.
    fn give_up(&mut self, end: u64, events: &mut VecDeque<Event>) {
        while self.next < end {
            let there = self
                .early
                .keys()
                .next()
                .map_or(end, |first| end.min(*first));
            if self.next < there {
                let (sender, first, last) = (self.sender, self.next, there - 1);
                events.push_back(Event::Gap(Gap {
                    sender,
                    first,
                    last,
                }));
                self.next = there;
            }
            self.deliver(events);
        }
        self.last = self.last.max(self.next - 1);
    }

    fn deliver(&mut self, events: &mut VecDeque<Event>) {
        while let Some(payload) = self.early.remove(&self.next) {
            let (sender, number) = (self.sender, self.next);
            events.push_back(Event::Deliver(Delivery {
                id: MessageId { sender, number },
                service: Service::Fifo,
                place: None,
                payload,
            }));
            self.next += 1;
        }
    }

    /// The first messages that are missing, from a number to another.
    pub(super) fn missing(&self) -> Option<(u64, u64)> {
        let last = self
            .early
            .keys()
            .next()
            .map_or(self.last, |first| first - 1);
        (self.next <= last).then_some((self.next, last))
    }
}
