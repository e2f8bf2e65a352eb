//! How packets are lost on a link: each on its own, or in bursts.

use groupcast_core::Rng;

use super::spec::{SpecError, check_probability};

/// The loss of one direction of a link.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum Loss {
    /// No packet is lost.
    #[default]
    None,
    /// Each packet is lost with this probability, independently of the others.
    Rate(f64),
    /// A link that is good or bad, and may change with each packet (Gilbert 1960, Elliott 1963). It
    /// begins good.
    GilbertElliott {
        /// Probability that a packet finds a good link turned bad. Bad spells are `to_bad / (to_bad
        /// + to_good)` of all packets.
        to_bad: f64,
        /// Probability that a packet finds a bad link turned good: a bad spell lasts `1 / to_good`
        /// packets on average.
        to_good: f64,
        /// Probability of loss on a good link.
        good: f64,
        /// Probability of loss on a bad link.
        bad: f64,
    },
}

impl Loss {
    /// The part of all packets that is lost in the long run.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Rate(rate) => rate,
            Self::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
            } => {
                // A link that never changes stays as it began.
                let turning = to_bad + to_good;
                let part_bad = if turning > 0.0 { to_bad / turning } else { 0.0 };
                good + (bad - good) * part_bad
            }
        }
    }

    /// Whether a loss can be like this.
    ///
    /// # Errors
    /// The first number that is no probability.
    pub fn check(&self) -> Result<(), SpecError> {
        match *self {
            Self::None => Ok(()),
            Self::Rate(rate) => check_probability("loss", rate),
            Self::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
            } => {
                check_probability("to_bad", to_bad)?;
                check_probability("to_good", to_good)?;
                check_probability("good", good)?;
                check_probability("bad", bad)
            }
        }
    }

    /// Whether the next packet is lost. `is_bad` is the state of the link, kept by the caller.
    pub(super) fn takes(&self, is_bad: &mut bool, rng: &mut Rng) -> bool {
        match *self {
            Self::None => false,
            Self::Rate(rate) => rng.chance(rate),
            Self::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
            } => {
                if rng.chance(if *is_bad { to_good } else { to_bad }) {
                    *is_bad = !*is_bad;
                }
                rng.chance(if *is_bad { bad } else { good })
            }
        }
    }
}
