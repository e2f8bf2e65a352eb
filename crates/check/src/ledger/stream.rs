//! What one member accounted for of one sender's messages: delivered, or reported as lost.
//!
//! Numbers are kept as runs, so that a long stream with few gaps costs little.

use std::collections::BTreeMap;

/// The messages without a place that a member accounted for, of one sender.
#[derive(Default, Debug)]
pub(crate) struct Stream {
    pub(crate) delivered: Runs,
    pub(crate) reported: Runs,
    /// The highest number that was delivered as part of a FIFO sequence.
    pub(crate) fifo: u64,
}

impl Stream {
    /// Whether `number` was delivered or reported.
    pub(crate) fn accounts_for(&self, number: u64) -> bool {
        self.delivered.has(number) || self.reported.has(number)
    }

    /// The lowest number that was accounted for.
    pub(crate) fn first(&self) -> Option<u64> {
        let firsts = [self.delivered.first(), self.reported.first()];
        firsts.into_iter().flatten().min()
    }

    /// The lowest number above the first and below `end` that was neither accounted for nor is
    /// `exempt`.
    pub(crate) fn hole(&self, end: u64, exempt: impl Fn(u64) -> bool) -> Option<u64> {
        let mut next = self.first()?;
        while next < end {
            let ends = [self.delivered.end_at(next), self.reported.end_at(next)];
            next = match ends.into_iter().flatten().max() {
                Some(end) => end.saturating_add(1),
                None if exempt(next) => next + 1,
                None => return Some(next),
            };
        }
        None
    }

    /// The highest number that was accounted for.
    pub(crate) fn last(&self) -> Option<u64> {
        self.delivered.last().max(self.reported.last())
    }
}

/// A set of numbers: the first and last of each run of consecutive ones.
#[derive(Default, Debug)]
pub(crate) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }

    fn last(&self) -> Option<u64> {
        self.0.values().next_back().copied()
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.end_at(number).is_some()
    }

    /// Whether any number from `first` to `last` is in the set; the lowest.
    pub(crate) fn any(&self, first: u64, last: u64) -> Option<u64> {
        if self.has(first) {
            return Some(first);
        }
        self.0.range(first..=last).next().map(|(start, _)| *start)
    }

    /// The last number of the run that `number` is in.
    pub(crate) fn end_at(&self, number: u64) -> Option<u64> {
        let (_, end) = self.0.range(..=number).next_back()?;
        (*end >= number).then_some(*end)
    }

    pub(super) fn insert(&mut self, first: u64, last: u64) {
        let (mut start, mut end) = (first, last);
        if let Some((before, until)) = self.0.range(..=first).next_back()
            && until.saturating_add(1) >= first
        {
            (start, end) = (*before, end.max(*until));
        }
        let touched = self.0.range(start..=end.saturating_add(1));
        let touched: Vec<(u64, u64)> = touched.map(|(start, end)| (*start, *end)).collect();
        for (run, until) in touched {
            self.0.remove(&run);
            end = end.max(until);
        }
        self.0.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use groupcast_core::Rng;

    use super::*;

    #[test]
    fn runs_agree_with_a_plain_set() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let (mut runs, mut set) = (Runs::default(), BTreeSet::new());
            for _ in 0..20 {
                let first = rng.below(40);
                let last = first + rng.below(5);
                assert_eq!(
                    runs.any(first, last),
                    set.range(first..=last).next().copied()
                );
                runs.insert(first, last);
                set.extend(first..=last);
            }
            for number in 0..50 {
                assert_eq!(runs.has(number), set.contains(&number));
            }
            let islands = set.iter().filter(|number| !set.contains(&(**number + 1)));
            assert_eq!(runs.0.len(), islands.count());
        }
    }

    #[test]
    fn the_first_hole_is_behind_what_was_delivered_or_reported() {
        let mut stream = Stream::default();
        assert_eq!(stream.hole(10, |_| false), None);
        stream.delivered.insert(3, 5);
        stream.reported.insert(6, 6);
        stream.delivered.insert(7, 7);
        stream.delivered.insert(9, 9);
        stream.delivered.insert(11, 11);
        assert_eq!((stream.first(), stream.last()), (Some(3), Some(11)));
        assert_eq!(stream.hole(11, |_| false), Some(8));
        assert_eq!(stream.hole(11, |number| number == 8), Some(10));
        assert_eq!(stream.hole(8, |_| false), None);
    }
}
