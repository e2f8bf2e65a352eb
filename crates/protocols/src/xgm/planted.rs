//! Bugs planted on purpose, for tests and the swarm to find: each breaks one rule of group
//! management ([`crate::planted`]). Tests can plant one without the feature, too.

use super::checkpoint::{Account, Holding};
use super::config::XgmConfig;
use super::monitor::Word;
use crate::planted::planted;

planted! {
    /// A member that has not answered a single ask is taken for gone.
    OneAskIsEnough = "one-ask-is-enough",
    /// A member that says anything is taken for one that has everything.
    AnyWordIsAll = "any-word-is-all",
    /// A member that fell silent is taken for one that has what was asked about.
    SilentHas = "silent-has",
    /// So is one that has said that it left.
    LeaverHas = "leaver-has",
    /// A host answers polls for subgroups that none of its members is in. No history shows it: the
    /// asker counts such an answer as a fault, and does not count the host.
    ExcludedAnswers = "excluded-answers",
}

impl Planted {
    /// The bugs that the swarm of `managed` finds within 2,000 seeds.
    pub const ALL: [Self; 5] = [
        Self::OneAskIsEnough,
        Self::AnyWordIsAll,
        Self::SilentHas,
        Self::LeaverHas,
        Self::ExcludedAnswers,
    ];
}

/// The bug that is planted in one entity: at most one, and none in a released binary. The methods
/// are the seams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Plants {
    #[cfg(any(test, feature = "planted-bugs"))]
    bug: Option<Planted>,
}

impl XgmConfig {
    /// The bug that these settings plant.
    pub(super) fn plants(&self) -> Plants {
        Plants {
            #[cfg(any(test, feature = "planted-bugs"))]
            bug: self.planted,
        }
    }
}

impl Plants {
    #[inline]
    fn has(self, bug: Planted) -> bool {
        #[cfg(any(test, feature = "planted-bugs"))]
        return self.bug == Some(bug);
        #[cfg(not(any(test, feature = "planted-bugs")))]
        {
            let _ = bug;
            false
        }
    }

    /// How many asks in a row a member may leave without an answer before it is taken for gone.
    #[inline]
    pub(super) fn patience(self, asks: u32) -> u32 {
        match self.has(Planted::OneAskIsEnough) {
            true => 1,
            false => asks,
        }
    }

    /// Called on each word of a member.
    #[inline]
    pub(super) fn word_heard(self, word: &mut Word) {
        if self.has(Planted::AnyWordIsAll) {
            word.progress = u64::MAX;
        }
    }

    /// Called on the account of each checkpoint that is settled.
    #[inline]
    pub(super) fn settled(self, account: &mut Account) {
        for one in &mut account.members {
            let is_believed = match one.holding {
                Holding::Unknown => self.has(Planted::SilentHas),
                Holding::HasNot => self.has(Planted::LeaverHas),
                Holding::Has | Holding::Open => false,
            };
            if is_believed {
                one.holding = Holding::Has;
            }
        }
    }

    /// Whether the host answers a poll, given whether its members' subgroups match.
    #[inline]
    pub(super) fn is_for_host(self, matches: bool) -> bool {
        matches || self.has(Planted::ExcludedAnswers)
    }
}
