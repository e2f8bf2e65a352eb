//! Where streams of numbered messages go on that a member no longer follows.
//!
//! A table of streams is bounded, so the stream of a sender that is silent gives way to another's.
//! Messages of the silent one may still come, and those that it delivered may come again: a
//! bookmark says how far it had come. Bookmarks are bounded too. Once one was dropped, a sender
//! that looks new may be one that was forgotten altogether; the table says so, and a protocol then
//! learns only from the sender itself where its messages begin.

use alloc::collections::BTreeMap;

use crate::id::MemberId;

/// How far the streams had come that are not followed any more; the oldest bookmark gives way.
#[derive(Clone, Debug)]
pub struct Bookmarks {
    /// By sender: when it was set, as a count, and the number of its last message that was
    /// accounted for.
    marks: BTreeMap<MemberId, (u64, u64)>,
    /// The same by age.
    ages: BTreeMap<u64, MemberId>,
    set: u64,
    marks_max: usize,
    dropped: bool,
}

impl Bookmarks {
    /// Room for `marks_max` of them, each some 100 bytes.
    pub fn new(marks_max: usize) -> Self {
        Self {
            marks: BTreeMap::new(),
            ages: BTreeMap::new(),
            set: 0,
            marks_max,
            dropped: false,
        }
    }

    /// The stream of `sender` is followed no more; all its messages up to `number` are accounted
    /// for.
    pub fn set(&mut self, sender: MemberId, number: u64) {
        self.take(sender);
        self.marks.insert(sender, (self.set, number));
        self.ages.insert(self.set, sender);
        self.set += 1;
        if self.marks.len() > self.marks_max
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.marks.remove(&oldest);
            self.dropped = true;
        }
    }

    /// Up to which number the messages of `sender` are accounted for, if there is a bookmark.
    pub fn get(&self, sender: MemberId) -> Option<u64> {
        self.marks.get(&sender).map(|(_, number)| *number)
    }

    /// The same; the bookmark is taken out.
    pub fn take(&mut self, sender: MemberId) -> Option<u64> {
        let (age, number) = self.marks.remove(&sender)?;
        self.ages.remove(&age);
        Some(number)
    }

    /// Whether a bookmark was ever dropped: a sender without one may have been followed before.
    pub fn dropped(&self) -> bool {
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
            let mut model: Vec<(u64, u64)> = Vec::new();
            let mut dropped = false;
            for (node, number, takes) in steps {
                let at = model.iter().position(|(of, _)| *of == node);
                let before = at.map(|at| model.remove(at).1);
                if takes {
                    prop_assert_eq!(bookmarks.get(member(node)), before);
                    prop_assert_eq!(bookmarks.take(member(node)), before);
                } else {
                    bookmarks.set(member(node), number);
                    model.push((node, number));
                    if model.len() > 4 {
                        model.remove(0);
                        dropped = true;
                    }
                }
                prop_assert_eq!(bookmarks.dropped(), dropped);
                prop_assert!(bookmarks.marks.len() == model.len() && bookmarks.ages.len() == model.len());
            }
        }
    }
}
