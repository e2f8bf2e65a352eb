//! How many processes a gossiped message reaches: the distribution, exactly, down to the tails that
//! no simulation shows; and the same process by process, for the part that a simulation shows.
//!
//! The model is that of the analysis which 004 ch. 3 takes its figure from: rounds in step, a
//! process gossips in the round after it received the message and never again, to each other
//! process with the same probability (so that they are as many as the fan-out on average), each
//! gossip being lost independently. The sender never crashes.

use groupcast_core::Rng;

/// A gossiped message and the group that it spreads in.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReachModel {
    /// Processes, the sender among them, which alone has the message at first.
    pub(super) processes: usize,
    /// How many processes one gossips to, on average.
    pub(super) fan_out: f64,
    /// Rounds of gossip.
    pub(super) rounds: usize,
    /// Probability that a gossip is lost.
    pub(super) loss: f64,
    /// Probability of a crash.
    pub(super) crash: f64,
    /// What crashes.
    pub(super) crashing: Crashing,
}

/// What "a process crashes with this probability" means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Crashing {
    /// Each gossip meets its target crashed with this probability, independently: one contact
    /// succeeds with probability fan-out / others · (1 − loss) · (1 − crash).
    AtContact,
    /// A process has crashed for the whole run: it neither delivers nor gossips.
    Throughout,
}

/// More crashes than this in a run are left out: at 0.1 % each they add nothing that shows.
const CRASHES_MAX: usize = 8;

impl ReachModel {
    /// The probability that one process gossips to another in the round in which it gossips.
    fn chosen(&self) -> f64 {
        self.fan_out / (self.processes - 1) as f64
    }

    /// The probability that one process infects another in the round in which it gossips.
    fn contact(&self) -> f64 {
        self.chosen() * (1.0 - self.loss) * (1.0 - self.crash_at_contact())
    }

    fn crash_at_contact(&self) -> f64 {
        match self.crashing {
            Crashing::AtContact => self.crash,
            Crashing::Throughout => 0.0,
        }
    }

    fn crash_throughout(&self) -> f64 {
        match self.crashing {
            Crashing::AtContact => 0.0,
            Crashing::Throughout => self.crash,
        }
    }

    /// The probabilities that exactly 0, 1, …, all processes deliver.
    pub(super) fn distribution(&self) -> Vec<f64> {
        let factorials = LogFactorials::up_to(self.processes);
        let mut distribution = vec![0.0; self.processes + 1];
        let (others, crash) = (self.processes - 1, self.crash_throughout());
        for crashed in 0..=CRASHES_MAX.min(others) {
            let chosen = factorials.choose(others, crashed).exp();
            let weight =
                chosen * crash.powi(crashed as i32) * (1.0 - crash).powi((others - crashed) as i32);
            if weight == 0.0 {
                continue;
            }
            let healthy = self.processes - crashed;
            for (count, probability) in self.among(healthy, &factorials).iter().enumerate() {
                distribution[count] += weight * probability;
            }
        }
        distribution
    }

    /// The same among `healthy` processes, none of which crashes.
    ///
    /// A chain over (processes that have it, those of them that got it in the last round). Each
    /// transition's probability is computed as a logarithm; sums of positive numbers keep their
    /// precision down to 1e-300.
    fn among(&self, healthy: usize, factorials: &LogFactorials) -> Vec<f64> {
        let missed = (1.0 - self.contact()).ln();
        let mut states = Square::new(healthy + 1);
        *states.at(1, 1) = 1.0;
        for _ in 0..self.rounds {
            let mut after = Square::new(healthy + 1);
            for gossiping in 0..=healthy {
                // A process stays without the message if every gossip of this round misses it.
                let spared = missed * gossiping as f64;
                let infected = (-spared.exp_m1()).ln();
                for have in gossiping.max(1)..=healthy {
                    let probability = *states.at(have, gossiping);
                    if probability == 0.0 {
                        continue;
                    }
                    if gossiping == 0 {
                        *after.at(have, 0) += probability;
                        continue;
                    }
                    let left = healthy - have;
                    for new in 0..=left {
                        let log = factorials.choose(left, new)
                            + new as f64 * infected
                            + (left - new) as f64 * spared;
                        *after.at(have + new, new) += (probability.ln() + log).exp();
                    }
                }
            }
            states = after;
        }
        states.rows().map(|row| row.iter().sum()).collect()
    }

    /// How many processes deliver in one run, simulated process by process.
    pub(super) fn simulate(&self, rng: &mut Rng) -> usize {
        let mut susceptible = 0;
        for _ in 1..self.processes {
            susceptible += usize::from(!rng.chance(self.crash_throughout()));
        }
        let (mut have, mut gossiping) = (1, 1);
        for _ in 0..self.rounds {
            let mut new = 0;
            for _ in 0..susceptible {
                let mut hit = false;
                for _ in 0..gossiping {
                    hit |= self.try_contact(rng);
                }
                new += usize::from(hit);
            }
            susceptible -= new;
            have += new;
            gossiping = new;
        }
        have
    }

    fn try_contact(&self, rng: &mut Rng) -> bool {
        rng.chance(self.chosen()) && !rng.chance(self.loss) && !rng.chance(self.crash_at_contact())
    }
}

/// ln 0!, ln 1!, …
struct LogFactorials(Vec<f64>);

impl LogFactorials {
    fn up_to(n: usize) -> Self {
        let mut logs = vec![0.0];
        for factor in 1..=n {
            logs.push(logs[factor - 1] + (factor as f64).ln());
        }
        Self(logs)
    }

    /// The logarithm of the number of ways to choose `k` of `n`.
    fn choose(&self, n: usize, k: usize) -> f64 {
        self.0[n] - self.0[k] - self.0[n - k]
    }
}

/// A square of numbers, all zero at first.
struct Square {
    side: usize,
    cells: Vec<f64>,
}

impl Square {
    fn new(side: usize) -> Self {
        Self {
            side,
            cells: vec![0.0; side * side],
        }
    }

    fn at(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.cells[row * self.side + column]
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.cells.chunks(self.side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: ReachModel = ReachModel {
        processes: 3,
        fan_out: 1.0,
        rounds: 2,
        loss: 0.2,
        crash: 0.0,
        crashing: Crashing::AtContact,
    };

    #[test]
    fn three_processes_by_hand() {
        // Contact 0.4. One stays alone if both others are missed: 0.6². Three have it in round one:
        // 0.4²; in round two: one of two was hit (2 · 0.4 · 0.6) and hits the other (0.4).
        let distribution = SMALL.distribution();
        let expected = [0.0, 0.36, 0.48 * 0.6, 0.16 + 0.48 * 0.4];
        for (computed, expected) in distribution.iter().zip(expected) {
            assert!((computed - expected).abs() < 1e-12, "{distribution:?}");
        }
    }

    #[test]
    fn probabilities_sum_to_one_but_for_crashes_left_out() {
        let model = ReachModel {
            processes: 40,
            fan_out: 4.0,
            rounds: 12,
            loss: 0.05,
            crash: 0.001,
            crashing: Crashing::Throughout,
        };
        let sum: f64 = model.distribution().iter().sum();
        assert!((sum - 1.0).abs() < 1e-10, "{sum}");
    }

    #[test]
    fn simulated_runs_end_as_computed() {
        for crashing in [Crashing::AtContact, Crashing::Throughout] {
            let model = ReachModel {
                processes: 8,
                fan_out: 2.0,
                rounds: 4,
                loss: 0.1,
                crash: 0.05,
                crashing,
            };
            let mut counts = [0u32; 9];
            let mut rng = Rng::new(11);
            for _ in 0..20_000 {
                counts[model.simulate(&mut rng)] += 1;
            }
            for (count, probability) in counts.iter().zip(model.distribution()) {
                let expected = 20_000.0 * probability;
                let error = (f64::from(*count) - expected).abs();
                assert!(
                    error <= 4.0 * expected.sqrt() + 1.0,
                    "{count} for {expected}"
                );
            }
        }
    }
}
