//! Subgroup vectors: which of 64 subgroups a member belongs to (003 4.5.1).

use core::fmt;
use core::str::FromStr;

use groupcast_core::Rng;

/// A set of the subgroups 0 to 63, one bit each.
///
/// Its text is a list of numbers and ranges: `0,3,8-11`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Subgroups(pub u64);

impl Subgroups {
    /// How many subgroups there are.
    pub const COUNT: u8 = 64;
    /// The empty set: the union of a host without members.
    pub const NONE: Self = Self(0);
    /// All subgroups: a census of these asks every host.
    pub const ALL: Self = Self(u64::MAX);

    /// The subgroup `number` alone; none if there is no such subgroup.
    pub const fn one(number: u8) -> Self {
        match number < Self::COUNT {
            true => Self(1 << number),
            false => Self::NONE,
        }
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the two have a subgroup in common.
    pub const fn matches(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The subgroups that are in `self`, in `other`, or in both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The subgroups of `self` that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// How many subgroups the set holds.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The numbers of the subgroups, ascending.
    pub fn numbers(self) -> impl Iterator<Item = u8> {
        (0..Self::COUNT).filter(move |number| self.matches(Self::one(*number)))
    }

    /// One subgroup of the set, each as likely as the others; the empty set if there is none.
    #[must_use]
    pub fn draw(self, rng: &mut Rng) -> Self {
        let index = rng.below(u64::from(self.len())) as usize;
        self.numbers().nth(index).map_or(Self::NONE, Self::one)
    }
}

impl fmt::Display for Subgroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = *self;
        let mut comma = "";
        while let Some(first) = rest.numbers().next() {
            let last = (first..Self::COUNT)
                .take_while(|number| rest.matches(Self::one(*number)))
                .last()
                .unwrap_or(first);
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
            for number in first..=last {
                rest = rest.without(Self::one(number));
            }
        }
        Ok(())
    }
}

/// Why a text names no subgroups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a list of subgroups: numbers from 0 to 63 and ranges, for example 0,3,8-11")]
pub struct ParseSubgroupsError;

impl FromStr for Subgroups {
    type Err = ParseSubgroupsError;

    fn from_str(text: &str) -> Result<Self, ParseSubgroupsError> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse::<u8>().ok().filter(|it| *it < Self::COUNT);
            number.filter(|_| digits).ok_or(ParseSubgroupsError)
        };
        let mut subgroups = Self::NONE;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(ParseSubgroupsError);
            }
            for number in first..=last {
                subgroups = subgroups.union(Self::one(number));
            }
        }
        Ok(subgroups)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn a_list_of_subgroups_is_read_and_written() {
        for (text, bits) in [
            ("0", 1),
            ("63", 1 << 63),
            ("0,3,8-11", 0b1111_0000_1001),
            ("0-63", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Subgroups(bits)));
            assert_eq!(Subgroups(bits).to_string(), text);
        }
        for text in ["", "64", "3-1", "0,", "-1", "+1", "a", "1-", "1-2-3", " 1"] {
            assert_eq!(
                text.parse::<Subgroups>(),
                Err(ParseSubgroupsError),
                "{text}"
            );
        }
    }

    #[test]
    fn a_random_subgroup_is_one_of_those_it_is_drawn_from() {
        let mut rng = Rng::new(1);
        let from = Subgroups(0b1010_0100);
        let drawn = (0..100).map(|_| from.draw(&mut rng));
        let all = drawn.fold(Subgroups::NONE, |all, one| {
            assert_eq!(one.len(), 1);
            all.union(one)
        });
        assert_eq!(all, from);
        assert!(Subgroups::NONE.draw(&mut rng).is_empty());
    }
}
