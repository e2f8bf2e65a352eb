//! What a receiver has put in place last. A sender that did not hear of it may send it again, and
//! gets the answer at once if nothing has changed in the target.

use std::collections::VecDeque;

use crate::in_place::InPlace;
use crate::manifest::ContentId;

/// The contents that were put in place last, the latest first. The command has run for each, and
/// has not failed.
#[derive(Debug, Default)]
pub(super) struct Placed(VecDeque<(ContentId, InPlace)>);

impl Placed {
    /// The most contents that are remembered.
    const MAX: usize = 4;

    /// `content`, if it is one of them.
    pub(super) fn get(&self, content: ContentId) -> Option<InPlace> {
        let placed = self.0.iter().find(|(id, _)| *id == content);
        placed.map(|(_, placed)| placed.clone())
    }

    /// The same; it is none of them any more.
    pub(super) fn take(&mut self, content: ContentId) -> Option<InPlace> {
        let at = self.0.iter().position(|(id, _)| *id == content)?;
        self.0.remove(at).map(|(_, placed)| placed)
    }

    /// `content` has just been put in place.
    pub(super) fn put(&mut self, content: ContentId, placed: InPlace) {
        self.take(content);
        self.0.truncate(Self::MAX - 1);
        self.0.push_front((content, placed));
    }
}
