//! Sets of numbers kept as ranges: which packets or bytes of a stream a receiver holds or misses.
//!
//! Memory grows with the number of gaps, not of packets. A caller that puts foreign input into a
//! set bounds its ranges.

use alloc::collections::BTreeMap;
use core::ops::{Add, Range};

/// A set of numbers, as disjoint ranges that do not touch. The lowest number is the default of its
/// type.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct RangeSet<N> {
    /// End of each range by its start.
    ranges: BTreeMap<N, N>,
}

impl<N: Copy + Ord + Default + Add<u64, Output = N>> RangeSet<N> {
    /// Adds all numbers of `range`.
    pub(super) fn insert(&mut self, range: Range<N>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        // The usual case, the number after the last one, moves an end.
        if let Some(mut last) = self.ranges.last_entry()
            && *last.key() <= start
            && *last.get() >= start
        {
            let last_end = last.get_mut();
            *last_end = end.max(*last_end);
            return;
        }
        // Whatever overlaps or touches becomes one range.
        while let Some((&other_start, &other_end)) = self.ranges.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            start = start.min(other_start);
            end = end.max(other_end);
            self.ranges.remove(&other_start);
        }
        self.ranges.insert(start, end);
    }

    /// Takes all numbers of `range` out.
    pub(super) fn remove(&mut self, range: Range<N>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.ranges.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            self.ranges.remove(&start);
            if end > range.end {
                self.ranges.insert(range.end, end);
            }
            if start < range.start {
                self.ranges.insert(start, range.start);
            }
        }
    }

    /// Whether `number` is in it.
    pub(super) fn contains(&self, number: N) -> bool {
        self.range_with(number).is_some()
    }

    /// The range that `number` is in.
    pub(super) fn range_with(&self, number: N) -> Option<Range<N>> {
        let (start, end) = self.ranges.range(..=number).next_back()?;
        (number < *end).then_some(*start..*end)
    }

    /// The lowest number from `from` on that is not in it.
    pub(super) fn first_missing(&self, from: N) -> N {
        self.range_with(from).map_or(from, |range| range.end)
    }

    /// The range, or what is left of it, that is the first at or after `from`.
    pub(super) fn next_from(&self, from: N) -> Option<Range<N>> {
        if let Some(range) = self.range_with(from) {
            return Some(from..range.end);
        }
        let (start, end) = self.ranges.range(from..).next()?;
        Some(*start..*end)
    }

    /// The ranges below `limit` that are not in it, lowest first.
    pub(super) fn gaps(&self, limit: N) -> impl Iterator<Item = Range<N>> + '_ {
        let mut from = N::default();
        core::iter::from_fn(move || {
            let start = self.first_missing(from);
            if start >= limit {
                return None;
            }
            let end = self
                .ranges
                .range(start..)
                .next()
                .map_or(limit, |(next, _)| (*next).min(limit));
            from = end;
            Some(start..end)
        })
    }

    /// Its ranges, lowest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<N>> + '_ {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }

    /// One past the highest number; 0 if it is empty.
    pub(super) fn end(&self) -> N {
        self.ranges
            .last_key_value()
            .map_or(N::default(), |(_, end)| *end)
    }

    /// How many ranges it has: what its memory grows with.
    pub(super) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Whether `number`, added, would make one of its ranges longer instead of being a range of its
    /// own.
    pub(super) fn touches(&self, number: N) -> bool {
        let below = self.ranges.range(..number).next_back();
        below.is_some_and(|(_, end)| *end >= number) || self.contains(number + 1)
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the naive model: a set of numbers.
        #[test]
        fn it_agrees_with_a_set_of_numbers(steps in prop::collection::vec((0u64..64, 0u64..20, any::<bool>()), 1..60)) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (start, len, adds) in steps {
                if adds {
                    set.insert(start..start + len);
                    model.extend(start..start + len);
                } else {
                    set.remove(start..start + len);
                    model.retain(|number| !(start..start + len).contains(number));
                }
                prop_assert!((0..100).all(|number| set.contains(number) == model.contains(&number)));
                prop_assert_eq!(set.end(), model.last().map_or(0, |last| last + 1));
                prop_assert_eq!(set.is_empty(), model.is_empty());
                prop_assert_eq!(set.ranges(), set.iter().count());
                for number in 0..90 {
                    let beside = model.contains(&(number + 1)) || number > 0 && model.contains(&(number - 1));
                    prop_assert_eq!(set.touches(number), beside);
                }
                let missing: Vec<u64> = set.gaps(90).flatten().collect();
                let expected: Vec<u64> = (0..90).filter(|number| !model.contains(number)).collect();
                prop_assert_eq!(missing, expected);
                for from in 0..90 {
                    prop_assert_eq!(set.first_missing(from), (from..).find(|n| !model.contains(n)).expect("it is finite"));
                    prop_assert_eq!(set.next_from(from).map(|range| range.start), model.range(from..).next().copied());
                }
                let touching = set.iter().zip(set.iter().skip(1)).any(|(a, b)| a.end >= b.start);
                prop_assert!(!touching);
            }
        }
    }
}
