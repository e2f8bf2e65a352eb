//! What is longer than a datagram may be: it is cut into parts, and put together again.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

use bytes::Bytes;

/// Bytes of a part's place.
pub(super) const PART_HEADER: usize = 4;

/// The place of a part in the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// The place of its first byte.
    pub(super) at: u16,
    /// Bytes of the whole.
    pub(super) of: u16,
}

impl Part {
    /// The place of `len` bytes at `at` in `of`, if they fit there.
    pub(super) fn checked(at: u16, of: u16, len: usize) -> Option<Self> {
        let fits = len > 0 && usize::from(at) + len <= usize::from(of);
        fits.then_some(Self { at, of })
    }

    /// Whether one of `len` bytes here has at least `least`, or is the last one: many that are
    /// short cost more memory than what they bring.
    pub(super) fn is_long(self, len: usize, least: usize) -> bool {
        len >= least || usize::from(self.at) + len == usize::from(self.of)
    }
}

/// Cuts `whole`, of at most 65,535 bytes, into parts of at most `most` bytes.
pub(super) fn cut(whole: &Bytes, most: usize) -> impl Iterator<Item = (Part, Bytes)> {
    let len = whole.len();
    let of = len as u16;
    (0..len).step_by(most).map(move |at| {
        let part = Part { at: at as u16, of };
        (part, whole.slice(at..len.min(at + most)))
    })
}

/// The parts of one whole that have come. All come from the same cut: what overlaps is no part of
/// it.
#[derive(Debug, Default)]
pub(super) struct Partial {
    parts: BTreeMap<u16, Bytes>,
    /// Bytes of the whole, as the first part said.
    of: u16,
    /// Bytes of all parts.
    len: usize,
}

impl Partial {
    /// Takes a part; the whole, once nothing is missing. Parts that can be none of one whole are
    /// forgotten.
    pub(super) fn add(&mut self, part: Part, bytes: Bytes) -> Option<Bytes> {
        if self.parts.is_empty() {
            self.of = part.of;
        }
        if let Entry::Vacant(place) = self.parts.entry(part.at) {
            self.len += bytes.len();
            place.insert(bytes);
        }
        if self.len < usize::from(part.of) {
            return None;
        }
        let parts = core::mem::take(self).parts;
        let mut whole = Vec::with_capacity(part.of.into());
        for (at, bytes) in parts {
            if usize::from(at) != whole.len() {
                return None;
            }
            whole.extend_from_slice(&bytes);
        }
        (whole.len() == usize::from(part.of)).then(|| whole.into())
    }

    /// Whether `bytes` at this place and those that have come can be no parts of one cut.
    pub(super) fn contradicts(&self, part: Part, bytes: &Bytes) -> bool {
        if let Some(known) = self.parts.get(&part.at) {
            return self.of != part.of || known != bytes;
        }
        let end = usize::from(part.at) + bytes.len();
        let before = self.parts.range(..part.at).next_back();
        let overlaps = before.is_some_and(|(at, it)| usize::from(*at) + it.len() > part.at.into());
        let after = self.parts.range(part.at..).next();
        let is_overlapped = after.is_some_and(|(at, _)| usize::from(*at) < end);
        overlaps || is_overlapped || !self.parts.is_empty() && self.of != part.of
    }

    /// Bytes of the parts that have come.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn whole(len: usize) -> Bytes {
        (0..len).map(|it| it as u8).collect()
    }

    #[test]
    fn parts_make_the_whole_again_in_any_order_and_with_copies() {
        for (len, most) in [(1, 1), (10, 3), (12, 3), (5, 9), (65_000, 228)] {
            let whole = whole(len);
            let parts: Vec<_> = cut(&whole, most).collect();
            assert!(parts.iter().all(|(_, bytes)| bytes.len() <= most));
            let last = parts.len() - 1;
            let mut partial = Partial::default();
            for (part, bytes) in parts[1..].iter().rev() {
                assert_eq!(partial.add(*part, bytes.clone()), None);
                assert_eq!(partial.add(*part, bytes.clone()), None);
            }
            assert_eq!(partial.len(), whole.len() - parts[0].1.len());
            let (part, bytes) = parts[0].clone();
            assert_eq!(partial.add(part, bytes), Some(whole), "{len}, {last}");
            assert_eq!(partial.len(), 0);
        }
    }

    #[test]
    fn parts_of_one_cut_do_not_contradict_each_other_and_others_do() {
        let whole = whole(10);
        let part = |at: u16, len: usize, of| {
            let at_byte = usize::from(at);
            (Part { at, of }, whole.slice(at_byte..at_byte + len))
        };
        let mut partial = Partial::default();
        for (part, bytes) in cut(&whole, 4) {
            assert!(!partial.contradicts(part, &bytes));
            if part.at != 4 {
                partial.add(part, bytes.clone());
                assert!(!partial.contradicts(part, &bytes), "a copy");
            }
        }
        for (part, bytes) in [
            part(0, 3, 10),
            part(3, 2, 10),
            part(4, 5, 10),
            part(9, 1, 10),
            part(4, 4, 9),
            part(0, 4, 9),
        ] {
            assert!(partial.contradicts(part, &bytes), "{part:?}");
        }
        let other = Bytes::from_static(&[9; 4]);
        assert!(partial.contradicts(Part { at: 0, of: 10 }, &other));
    }

    #[test]
    fn parts_of_several_cuts_are_forgotten_and_those_of_one_put_together() {
        let whole = whole(10);
        let mut partial = Partial::default();
        let part = |at, bytes| (Part { at, of: 10 }, whole.slice(bytes));
        for (part, bytes) in [part(0, 0..6), part(4, 4..8)] {
            assert_eq!(partial.add(part, bytes), None);
        }
        assert_eq!(partial.len(), 0);
        let all: Vec<_> = cut(&whole, 6)
            .map(|(part, it)| partial.add(part, it))
            .collect();
        assert_eq!(all, vec![None, Some(whole)]);
    }

    #[test]
    fn all_that_is_cut_is_long_enough_for_the_least_way() {
        for (len, most) in [(1, 1), (10, 3), (12, 3), (5, 9), (65_000, 228)] {
            for (part, bytes) in cut(&whole(len), most) {
                assert!(part.is_long(bytes.len(), most.min(228)));
            }
        }
        assert!(!Part { at: 2, of: 10 }.is_long(2, 3));
        assert!(Part { at: 8, of: 10 }.is_long(2, 3));
    }

    #[test]
    fn a_part_lies_in_the_whole() {
        assert!(Part::checked(4, 10, 6).is_some());
        assert!(Part::checked(4, 10, 7).is_none());
        assert!(Part::checked(u16::MAX, u16::MAX, 1).is_none());
        assert!(Part::checked(4, 10, 0).is_none());
    }
}
