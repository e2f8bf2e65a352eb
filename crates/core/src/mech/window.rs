//! A window over a numbered sequence: what was received, what is missing, what can still be
//! retransmitted.

use alloc::collections::VecDeque;

/// Items by sequence number, from the lowest kept to the highest seen, at most `capacity` of them.
///
/// Insertion, look-up and discarding are O(1) an item. Memory grows with the span in use, never
/// past the capacity.
#[derive(Clone, Hash, Debug)]
pub struct SeqWindow<T> {
    /// Slot `i` holds sequence number `base + i`.
    slots: VecDeque<Option<T>>,
    /// The lowest sequence number that is kept; all below were received, or are given up.
    base: u64,
    /// All up to here were received.
    aru: u64,
    capacity: usize,
}

/// What became of an inserted item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insert {
    /// It is new.
    New,
    /// It was here before, or is below the window.
    Duplicate,
    /// It is above what the window can hold.
    Beyond,
}

impl<T> SeqWindow<T> {
    /// A window in which all up to `start` counts as received; the next number is `start + 1`.
    pub fn new(start: u64, capacity: usize) -> Self {
        Self {
            slots: VecDeque::new(),
            base: start + 1,
            aru: start,
            capacity,
        }
    }

    /// Puts `item` in its place.
    pub fn insert(&mut self, seq: u64, item: T) -> Insert {
        if seq < self.base {
            return Insert::Duplicate;
        }
        let Some(index) = usize::try_from(seq - self.base)
            .ok()
            .filter(|index| *index < self.capacity)
        else {
            return Insert::Beyond;
        };
        if let Some(slot) = self.slots.get_mut(index) {
            if slot.is_some() {
                return Insert::Duplicate;
            }
            *slot = Some(item);
        } else {
            self.slots.resize_with(index, || None);
            self.slots.push_back(Some(item));
        }
        while self.get(self.aru + 1).is_some() {
            self.aru += 1;
        }
        Insert::New
    }

    /// The item numbered `seq`, if it is here.
    pub fn get(&self, seq: u64) -> Option<&T> {
        let index = usize::try_from(seq.checked_sub(self.base)?).ok()?;
        self.slots.get(index)?.as_ref()
    }

    /// Whether `seq` was received (and perhaps discarded since).
    pub fn has(&self, seq: u64) -> bool {
        seq <= self.aru || self.get(seq).is_some()
    }

    /// All up to here were received.
    pub fn aru(&self) -> u64 {
        self.aru
    }

    /// The highest that was received.
    pub fn high(&self) -> u64 {
        self.base + self.slots.len() as u64 - 1
    }

    /// The lowest that is kept.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The most items that it spans.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The lowest that cannot be kept: no item is put there, or above.
    pub fn room(&self) -> u64 {
        self.base.saturating_add(self.capacity as u64)
    }

    /// From now on it may span this many items, if that is more than before.
    pub fn grow(&mut self, capacity: usize) {
        self.capacity = self.capacity.max(capacity);
    }

    /// The numbers up to `limit` that are missing, lowest first.
    pub fn missing(&self, limit: u64) -> impl Iterator<Item = u64> {
        (self.aru + 1..=limit).filter(|seq| self.get(*seq).is_none())
    }

    /// Forgets all items up to `seq` that were received.
    pub fn discard_to(&mut self, seq: u64) {
        let seq = seq.min(self.aru);
        while self.base <= seq {
            self.slots.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the naive model: a map of everything, and the definitions.
        #[test]
        fn it_agrees_with_the_naive_model(steps in prop::collection::vec((0u64..60, any::<bool>()), 1..120)) {
            let (start, capacity) = (10u64, 32usize);
            let mut window = SeqWindow::new(start, capacity);
            let mut held = BTreeMap::new();
            let mut base = start + 1;
            let mut aru = start;
            for (seq, discard) in steps {
                if discard {
                    window.discard_to(seq);
                    while base <= seq.min(aru) {
                        held.remove(&base);
                        base += 1;
                    }
                } else {
                    let expected = if seq < base || held.contains_key(&seq) {
                        Insert::Duplicate
                    } else if seq - base >= capacity as u64 {
                        Insert::Beyond
                    } else {
                        held.insert(seq, seq);
                        while held.contains_key(&(aru + 1)) {
                            aru += 1;
                        }
                        Insert::New
                    };
                    prop_assert_eq!(window.insert(seq, seq), expected);
                }
                prop_assert_eq!(window.aru(), aru);
                prop_assert_eq!(window.base(), base);
                let missing: Vec<u64> = (aru + 1..=70).filter(|seq| !held.contains_key(seq)).collect();
                prop_assert_eq!(window.missing(70).collect::<Vec<_>>(), missing);
                for seq in 0..70 {
                    prop_assert_eq!(window.get(seq), held.get(&seq));
                    prop_assert_eq!(window.has(seq), seq <= aru || held.contains_key(&seq));
                }
            }
        }
    }

    #[test]
    fn every_order_of_six_arrivals_leaves_no_gap() {
        fn permute(left: &mut Vec<u64>, taken: &mut Vec<u64>) {
            if left.is_empty() {
                let mut window = SeqWindow::new(0, 8);
                for seq in taken.iter() {
                    assert_eq!(window.insert(*seq, ()), Insert::New);
                }
                assert_eq!((window.aru(), window.high()), (6, 6));
            }
            for index in 0..left.len() {
                let seq = left.remove(index);
                taken.push(seq);
                permute(left, taken);
                taken.pop();
                left.insert(index, seq);
            }
        }
        permute(&mut (1..=6).collect(), &mut Vec::new());
    }
}
