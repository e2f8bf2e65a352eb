//! Where streams of numbered messages go on that a member no longer follows.
//!
//! A table of streams is bounded, so the stream of a sender that is silent gives way to another's.
//! Messages of the silent one may still come, and those that it delivered may come again: a
//! bookmark says how far it had come. Bookmarks are bounded too. Once one was dropped, a sender
//! that looks new may be one that was forgotten altogether; the table says so, and a protocol then
//! learns only from the sender itself where its messages begin. For that a bookmark may carry a
//! stamp of the protocol's own: what the sender says counts if it was said after the bookmark was
//! set.

use alloc::collections::BTreeMap;

use crate::id::MemberId;

/// How far the streams had come that are not followed any more; the oldest bookmark gives way.
#[derive(Clone, Debug)]
pub struct Bookmarks {
    marks: BTreeMap<MemberId, Mark>,
    /// The same by age.
    ages: BTreeMap<u64, MemberId>,
    set: u64,
    marks_max: usize,
    /// The stamp of the last bookmark that was dropped.
    dropped: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    /// When it was set, as a count.
    age: u64,
    /// The number of the last message that was accounted for.
    number: u64,
    stamp: u64,
}

impl Bookmarks {
    /// Room for `marks_max` of them, each some 100 bytes.
    pub fn new(marks_max: usize) -> Self {
        Self {
            marks: BTreeMap::new(),
            ages: BTreeMap::new(),
            set: 0,
            marks_max,
            dropped: None,
        }
    }

    /// The stream of `sender` is followed no more; all its messages up to `number` are accounted
    /// for.
    pub fn set(&mut self, sender: MemberId, number: u64) {
        self.set_at(sender, number, 0);
    }

    /// The same, at `stamp` of a clock of the protocol that never goes back.
    pub fn set_at(&mut self, sender: MemberId, number: u64, stamp: u64) {
        self.take(sender);
        let age = self.set;
        let mark = Mark { age, number, stamp };
        self.marks.insert(sender, mark);
        self.ages.insert(age, sender);
        self.set += 1;
        if self.marks.len() > self.marks_max
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.dropped = self.marks.remove(&oldest).map(|mark| mark.stamp);
        }
    }

    /// Up to which number the messages of `sender` are accounted for, if there is a bookmark.
    pub fn get(&self, sender: MemberId) -> Option<u64> {
        self.marks.get(&sender).map(|mark| mark.number)
    }

    /// The same; the bookmark is taken out.
    pub fn take(&mut self, sender: MemberId) -> Option<u64> {
        let mark = self.marks.remove(&sender)?;
        self.ages.remove(&mark.age);
        Some(mark.number)
    }

    /// Whether a bookmark was ever dropped: a sender without one may have been followed before.
    pub fn dropped(&self) -> bool {
        self.dropped.is_some()
    }

    /// The stamp at which the last bookmark that was dropped had been set. They are dropped in the
    /// order in which they were set: of a sender without one nothing was accounted for after it.
    pub fn dropped_stamp(&self) -> Option<u64> {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::id::{Incarnation, NodeId};

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    proptest! {
        /// Against a list in the order of setting.
        #[test]
        fn it_agrees_with_the_naive_model(steps in prop::collection::vec((0u64..9, 0u64..100, any::<bool>()), 1..80)) {
            let mut bookmarks = Bookmarks::new(4);
            let mut model: Vec<(u64, u64, u64)> = Vec::new();
            let mut dropped = None;
            for (stamp, (node, number, takes)) in (0..).zip(steps) {
                let at = model.iter().position(|(of, ..)| *of == node);
                let before = at.map(|at| model.remove(at).1);
                if takes {
                    prop_assert_eq!(bookmarks.get(member(node)), before);
                    prop_assert_eq!(bookmarks.take(member(node)), before);
                } else {
                    bookmarks.set_at(member(node), number, stamp);
                    model.push((node, number, stamp));
                    if model.len() > 4 {
                        dropped = Some(model.remove(0).2);
                    }
                }
                prop_assert_eq!(bookmarks.dropped_stamp(), dropped);
                prop_assert_eq!(bookmarks.dropped(), dropped.is_some());
                prop_assert!(bookmarks.marks.len() == model.len() && bookmarks.ages.len() == model.len());
            }
        }
    }
}
