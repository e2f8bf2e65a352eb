//! The shape of a delivery distribution: almost all or almost none (004 3.4).
//!
//! Bimodal delivery is a promise about probabilities, so a single run can only speak for or against
//! it. [`Shape`] states how often a message may end in between, and rejects a run in which that
//! happened so often that a protocol that keeps the promise would hardly ever look like it: with a
//! probability below [`Shape::false_alarm`], whatever the run.

use std::collections::BTreeMap;

use groupcast_core::MemberId;
use groupcast_core::trace::Observation;

/// What is promised of how many members deliver a message.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// Up to this share of the members is almost none. The sender delivers, so it is not below one
    /// member's share.
    pub none_max: f64,
    /// From this share on it is almost all.
    pub all_min: f64,
    /// A message ends in between with this probability at most.
    pub between_max: f64,
    /// The probability that a run of a protocol that keeps the promise is rejected.
    pub false_alarm: f64,
}

/// How many messages went to how many members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Almost none of the members delivered these.
    pub none: u64,
    /// Messages that reached neither almost all members nor almost none.
    pub between: u64,
    /// Messages that reached almost all members.
    pub all: u64,
}

impl Shape {
    /// Counts what became of each message submitted in `observations`, of a group of `members` that
    /// were all there all the time.
    pub fn count<'a>(
        &self,
        members: usize,
        observations: impl IntoIterator<Item = &'a (MemberId, Observation)>,
    ) -> Counts {
        let mut delivered = BTreeMap::new();
        for (_, observation) in observations {
            match observation {
                Observation::Submit { id, .. } => {
                    delivered.entry(*id).or_insert(0u64);
                }
                Observation::Deliver { id, .. } => *delivered.entry(*id).or_insert(0) += 1,
                _ => {}
            }
        }
        let mut counts = Counts {
            none: 0,
            between: 0,
            all: 0,
        };
        for count in delivered.into_values() {
            let share = count as f64 / members.max(1) as f64;
            if share >= self.all_min {
                counts.all += 1;
            } else if share <= self.none_max || count <= 1 {
                counts.none += 1;
            } else {
                counts.between += 1;
            }
        }
        counts
    }

    /// What speaks against the promise; `None` if nothing does beyond chance.
    pub fn violation(&self, counts: &Counts) -> Option<String> {
        let messages = counts.none + counts.between + counts.all;
        let chance = at_least(messages, counts.between, self.between_max);
        (chance < self.false_alarm).then(|| {
            format!(
                "{} of {messages} messages were delivered by neither almost all nor almost none of the members; \
                 if that happens with a probability of {} at most, so many come with one of {chance:.1e}",
                counts.between, self.between_max
            )
        })
    }
}

/// The probability of `least` or more successes in `trials`, each with probability `p`.
fn at_least(trials: u64, least: u64, p: f64) -> f64 {
    if least == 0 {
        return 1.0;
    }
    if p <= 0.0 || least > trials {
        return 0.0;
    }
    if p >= 1.0 {
        return 1.0;
    }
    // The terms below `least`, each from the one before, in logarithms so that none underflows.
    let (ln_p, ln_q) = (p.ln(), (-p).ln_1p());
    let mut ln_term = trials as f64 * ln_q;
    let mut below = ln_term.exp();
    for k in 1..least {
        ln_term += ((trials - k + 1) as f64 / k as f64).ln() + ln_p - ln_q;
        below += ln_term.exp();
    }
    if below < 0.5 {
        return 1.0 - below;
    }
    // Where nearly all is below, the sum from `least` on is the exact one.
    ln_term += ((trials - least + 1) as f64 / least as f64).ln() + ln_p - ln_q;
    let mut above = 0.0;
    for k in least..=trials {
        let term = ln_term.exp();
        above += term;
        if k == trials || term < above * 1e-17 {
            break;
        }
        ln_term += ((trials - k) as f64 / (k + 1) as f64).ln() + ln_p - ln_q;
    }
    above
}

#[cfg(test)]
mod tests {
    use groupcast_core::Rng;

    use super::*;

    const SHAPE: Shape = Shape {
        none_max: 0.1,
        all_min: 0.9,
        between_max: 0.01,
        false_alarm: 1e-3,
    };

    #[test]
    fn tails_are_those_of_the_binomial_distribution() {
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(near(at_least(4, 2, 0.5), 11.0 / 16.0));
        assert!(near(at_least(10, 10, 0.1), 1e-10));
        assert!(near(at_least(3, 1, 0.2), 1.0 - 0.512));
        assert_eq!(at_least(5, 0, 0.1), 1.0);
        assert_eq!((at_least(5, 6, 0.1), at_least(5, 1, 0.0)), (0.0, 0.0));
        // 10,000 trials: the normal approximation, within a tenth.
        let tail = at_least(10_000, 130, 0.01);
        assert!((0.0015..0.0030).contains(&tail), "{tail}");
    }

    #[test]
    fn a_protocol_that_keeps_the_promise_is_rejected_as_seldom_as_stated() {
        let mut rng = Rng::new(1);
        let (mut alarms, runs) = (0, 5_000);
        for _ in 0..runs {
            let between = (0..300).filter(|_| rng.chance(SHAPE.between_max)).count() as u64;
            let counts = Counts {
                none: 0,
                between,
                all: 300 - between,
            };
            alarms += u64::from(SHAPE.violation(&counts).is_some());
        }
        // 5 are the most to be expected; more than 16 would come once in 50,000 times.
        assert!(alarms <= 16, "{alarms} of {runs}");
    }

    #[test]
    fn one_that_breaks_it_is_found() {
        let counts = Counts {
            none: 3,
            between: 20,
            all: 277,
        };
        let text = SHAPE.violation(&counts).expect("seven times too many");
        assert!(text.contains("20 of 300"), "{text}");
        let few = Counts {
            between: 4,
            ..counts
        };
        assert_eq!(SHAPE.violation(&few), None);
    }
}
