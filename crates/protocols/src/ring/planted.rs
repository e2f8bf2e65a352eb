//! Bugs planted on purpose: each breaks one rule of the ring, for the swarm to find. They can only be switched
//! on in a build with the feature `planted-bugs`, which no released binary has.

use core::str::FromStr;

/// A broken rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Safe messages are delivered after one round of aru instead of the minimum of two.
    SafeAfterOneRound,
    /// Safe messages are delivered like agreed ones.
    SafeIsAgreed,
    /// A message behind a gap is delivered, and the gap skipped, while the ring is whole.
    DeliverPastGap,
    /// Old-ring packets that arrive after the holding was declared are kept.
    NoFreeze,
    /// A message that was partly sent when the configuration changed is not begun anew.
    NoRewind,
    /// After a gap, messages of members outside the transitional configuration are delivered too.
    DeliverAllAfterGap,
    /// The border of the transitional configuration is drawn by the member's own knowledge of what is safe.
    OwnSafeBorder,
    /// The transitional configuration is not delivered.
    NoTransitional,
    /// Sequence numbers begin anew in a new ring.
    SeqFromZero,
    /// A ring is installed without recovering what others held.
    NoRecovery,
    /// Members are not reset to a common aru: the token's aru is never lowered.
    AruNeverLowered,
    /// A token that was seen before is handled again.
    StaleToken,
    /// Obligations are forgotten when a recovery fails.
    NoObligations,
    /// A packet that is answered to a request is delivered again.
    DeliverTwice,
}

impl Planted {
    /// Those that the swarm finds within 2,000 seeds: all but [`NoObligations`](Self::NoObligations), which needs a cut
    /// in one instant and has a scenario of its own, and [`NoFreeze`](Self::NoFreeze), which needs a packet on its way
    /// between two moments of a recovery and has a seed of its own.
    pub const ALL: [Self; 12] = [
        Self::SafeAfterOneRound,
        Self::SafeIsAgreed,
        Self::DeliverPastGap,
        Self::NoRewind,
        Self::DeliverAllAfterGap,
        Self::OwnSafeBorder,
        Self::NoTransitional,
        Self::SeqFromZero,
        Self::NoRecovery,
        Self::AruNeverLowered,
        Self::StaleToken,
        Self::DeliverTwice,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SafeAfterOneRound => "safe-after-one-round",
            Self::SafeIsAgreed => "safe-is-agreed",
            Self::DeliverPastGap => "deliver-past-gap",
            Self::NoFreeze => "no-freeze",
            Self::NoRewind => "no-rewind",
            Self::DeliverAllAfterGap => "deliver-all-after-gap",
            Self::OwnSafeBorder => "own-safe-border",
            Self::NoTransitional => "no-transitional",
            Self::SeqFromZero => "seq-from-zero",
            Self::NoRecovery => "no-recovery",
            Self::AruNeverLowered => "aru-never-lowered",
            Self::StaleToken => "stale-token",
            Self::NoObligations => "no-obligations",
            Self::DeliverTwice => "deliver-twice",
        }
    }
}

/// The word names no planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no planted bug has this name")]
pub struct UnknownPlanted;

impl FromStr for Planted {
    type Err = UnknownPlanted;

    fn from_str(word: &str) -> Result<Self, UnknownPlanted> {
        let rare = [Self::NoFreeze, Self::NoObligations];
        Self::ALL
            .into_iter()
            .chain(rare)
            .find(|planted| planted.name() == word)
            .ok_or(UnknownPlanted)
    }
}
