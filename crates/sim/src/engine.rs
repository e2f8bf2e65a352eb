//! The agenda: the queue of events in virtual time. The order in which events happen depends on
//! nothing but the order in which they were pushed.
//!
//! A binary heap of small keys over a slab of payloads: sifting moves 24 bytes, whatever an event
//! carries. Two events of one instant happen in the order in which they were pushed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use groupcast_core::Time;

/// Events in the order of their times, and the virtual clock.
#[derive(Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    slots: Vec<Option<E>>,
    free: Vec<u32>,
    pushed: u64,
    popped: u64,
    now: Time,
}

impl<E> Agenda<E> {
    /// An empty agenda at the start of time.
    pub fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            pushed: 0,
            popped: 0,
            now: Time::ZERO,
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many events have happened.
    pub fn happened(&self) -> u64 {
        self.popped
    }

    /// Lets `event` happen at `at`, or now if that has passed.
    pub fn push(&mut self, at: Time, event: E) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(event);
                slot
            }
            None => {
                self.slots.push(Some(event));
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 events wait at once")
            }
        };
        self.heap
            .push(Reverse((at.max(self.now), self.pushed, slot)));
        self.pushed += 1;
    }

    /// When the next event happens, if any waits.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// The next event that happens no later than `limit`; the clock moves to it.
    pub fn pop_until(&mut self, limit: Time) -> Option<E> {
        if self.next_at()? > limit {
            return None;
        }
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.now = at;
        self.popped += 1;
        self.free.push(slot);
        self.slots[slot as usize].take()
    }

    /// Moves the clock on to `to`; the events before it have happened.
    ///
    /// # Panics
    /// If an event waits that should happen earlier.
    pub fn advance(&mut self, to: Time) {
        assert!(
            self.next_at().is_none_or(|next| next >= to),
            "an event before {to:?} still waits"
        );
        self.now = self.now.max(to);
    }
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_of_their_pushes() {
        let mut agenda = Agenda::new();
        for (at, name) in [(5, "e"), (1, "a"), (5, "f"), (1, "b"), (3, "d")] {
            agenda.push(Time::from_nanos(at), name);
        }
        assert_eq!(agenda.pop_until(Time::from_nanos(2)), Some("a"));
        agenda.push(Time::from_nanos(0), "c: past, so now");
        let mut names = Vec::new();
        while let Some(name) = agenda.pop_until(Time::MAX) {
            names.push(name);
        }
        assert_eq!(names, ["b", "c: past, so now", "d", "e", "f"]);
        assert_eq!(agenda.now(), Time::from_nanos(5));
        assert_eq!(agenda.happened(), 6);
    }

    #[test]
    fn nothing_after_the_limit_happens_and_slots_are_used_again() {
        let mut agenda = Agenda::new();
        for round in 0..100u64 {
            agenda.push(Time::from_nanos(round), round);
            assert_eq!(agenda.pop_until(Time::from_nanos(round)), Some(round));
        }
        assert_eq!(agenda.slots.len(), 1);
        agenda.push(Time::from_nanos(200), 0);
        assert_eq!(agenda.pop_until(Time::from_nanos(199)), None);
        agenda.advance(Time::from_nanos(199));
        assert_eq!(agenda.now(), Time::from_nanos(199));
    }
}
