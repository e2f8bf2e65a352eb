//! One host's record of another host's messages, by their numbers: which arrived, which arrived
//! again, which never did.

use std::collections::VecDeque;
use std::time::Duration;

/// Whether a number was seen before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sight {
    /// The number was not seen before.
    First,
    /// The number was seen before.
    Again,
    /// That is not known: the number is so far behind the newest that it has been forgotten.
    Forgotten,
}

/// A set of numbers that mostly grow: a bit each, from the first word that is not full, at most so
/// many.
#[derive(Clone, Default, Debug)]
pub(super) struct Seen {
    words: VecDeque<u64>,
    /// The number of the first bit of `words`: a multiple of 64.
    base: u64,
    /// Up to here numbers were given up; from here to `base` all were seen.
    given_up: u64,
    /// Measured ones of those that were given up without having been seen.
    missed: u64,
}

impl Seen {
    /// Notes `number`. More than `pending_max` numbers after the first that is missing, that one is
    /// given up; it counts as missed if it is at least `first`.
    #[inline]
    pub(super) fn insert(&mut self, number: u32, first: Option<u32>, pending_max: u32) -> Sight {
        let number = u64::from(number);
        let Some(offset) = number.checked_sub(self.base) else {
            return if number < self.given_up {
                Sight::Forgotten
            } else {
                Sight::Again
            };
        };
        let mut word = (offset / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            while self.words.len() as u64 * 64 > u64::from(pending_max.max(64)) {
                self.give_up(first);
                word -= 1;
            }
        }
        let bit = 1 << (number % 64);
        if self.words[word] & bit != 0 {
            return Sight::Again;
        }
        self.words[word] |= bit;
        while self.words.front() == Some(&u64::MAX) && self.words.len() > 1 {
            self.words.pop_front();
            self.base += 64;
        }
        Sight::First
    }

    fn give_up(&mut self, first: Option<u32>) {
        let Some(word) = self.words.pop_front() else {
            return;
        };
        if let Some(first) = first {
            let before = u64::from(first).saturating_sub(self.base).min(64);
            let measured = if before == 64 { 0 } else { !0 << before };
            self.missed += u64::from((!word & measured).count_ones());
        }
        self.base += 64;
        self.given_up = self.base;
    }

    /// How many of the numbers from `first` up to, but not with, `until` were not seen.
    pub(super) fn missing(&self, first: u32, until: u32) -> u64 {
        let (first, until) = (u64::from(first), u64::from(until));
        let ahead = until.saturating_sub(first.max(self.base));
        let seen: u64 = (self.base..)
            .step_by(64)
            .zip(&self.words)
            .map(|(base, word)| {
                let below = |limit: u64| match limit.saturating_sub(base) {
                    bits @ 0..64 => (1u64 << bits) - 1,
                    _ => u64::MAX,
                };
                u64::from((word & below(until) & !below(first)).count_ones())
            })
            .sum();
        self.missed + ahead - seen
    }

    #[cfg(test)]
    pub(super) fn words(&self) -> usize {
        self.words.len()
    }
}

/// What one host saw of another's messages.
#[derive(Clone, Default, Debug)]
pub(super) struct Stream {
    /// Seen inside a datagram, or delivered.
    pub(super) arrived: Seen,
    /// Delivered.
    pub(super) delivered: Seen,
    /// Delay of the path between the two, if it was set.
    pub(super) path: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use groupcast_core::Rng;

    use super::*;

    #[test]
    fn agrees_with_a_plain_set_whatever_the_order() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let (mut seen, mut plain) = (Seen::default(), BTreeSet::new());
            let mut next = 0u32;
            for _ in 0..300 {
                next += rng.below(3) as u32;
                let number = next.saturating_sub(rng.below(200) as u32);
                let sight = seen.insert(number, Some(0), 1_024);
                let expected = if plain.insert(number) {
                    Sight::First
                } else {
                    Sight::Again
                };
                assert_eq!(sight, expected);
            }
            let (first, until) = (rng.below(300) as u32, rng.below(700) as u32);
            let missing = (first..until).filter(|it| !plain.contains(it)).count();
            assert_eq!(seen.missing(first, until), missing as u64);
        }
    }

    #[test]
    fn a_row_without_holes_takes_a_word_and_a_hole_no_more_than_the_bound() {
        let mut seen = Seen::default();
        for number in 0..100_000 {
            seen.insert(number, Some(0), 4_096);
        }
        assert_eq!((seen.words.len(), seen.missing(0, 100_000)), (1, 0));
        for number in 100_010..200_000 {
            assert_eq!(seen.insert(number, Some(0), 4_096), Sight::First);
            assert_eq!(seen.insert(number, Some(0), 4_096), Sight::Again);
            assert!(seen.words.len() <= 64);
        }
        assert_eq!(seen.missing(0, 200_000), 10);
        assert_eq!(seen.insert(100_005, Some(0), 4_096), Sight::Forgotten);
        assert_eq!(seen.insert(190_000, Some(0), 4_096), Sight::Again);
    }

    #[test]
    fn a_leap_is_bounded_too_and_what_is_not_measured_is_not_missed() {
        let mut seen = Seen::default();
        seen.insert(0, Some(100), 128);
        seen.insert(1_000, Some(100), 128);
        assert!(seen.words.len() <= 2);
        assert_eq!(seen.missing(100, 1_001), 900);
        let mut early = Seen::default();
        early.insert(1_000, None, 128);
        assert_eq!(early.missing(1_000, 1_001), 0);
    }
}
