//! Bugs planted on purpose, for tests and the swarm to find ([`crate::planted`]).

use alloc::vec::Vec;

#[cfg(any(test, feature = "planted-bugs"))]
use crate::planted::planted;

#[cfg(any(test, feature = "planted-bugs"))]
planted! {
    /// A receiver says of all others what it has itself.
    OwnForAll = "own-for-all",
}

#[cfg(any(test, feature = "planted-bugs"))]
impl Planted {
    /// Those that the swarm finds within 2,000 seeds.
    pub const ALL: [Self; 1] = [Self::OwnForAll];
}

/// What is planted in one entity: at most one bug, and none in a released binary.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Plants {
    #[cfg(any(test, feature = "planted-bugs"))]
    bug: Option<Planted>,
}

impl Plants {
    #[cfg(any(test, feature = "planted-bugs"))]
    pub(super) fn plant(&mut self, bug: Planted) {
        self.bug = Some(bug);
    }

    /// The state vector that receiver `index` is to say.
    #[inline]
    pub(super) fn vector(self, vector: Vec<u32>, index: u16) -> Vec<u32> {
        #[cfg(any(test, feature = "planted-bugs"))]
        if self.bug == Some(Planted::OwnForAll)
            && let Some(own) = vector.get(usize::from(index))
        {
            return alloc::vec![*own; vector.len()];
        }
        let _ = index;
        vector
    }
}
