//! Randomness: one seeded generator per instance, forked per component.
//!
//! A fork depends on its parent's seed and its label only, not on how much the parent was used:
//! adding a component does not shift the numbers of the others. Not for keys: those come from the
//! operating system.

use core::hash::{Hash, Hasher};
use core::ops::Range;
use core::time::Duration;

use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::id::{finish, fnv1a};

/// A deterministic generator (PCG 64 MCG; about 1.2 ns a number).
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    state: Pcg64Mcg,
}

/// Generators that will give the same numbers, and the same forks, hash alike.
impl Hash for Rng {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Its first number tells the place of a generator from every other place on its way.
        (self.seed, self.state.clone().next_u64()).hash(state);
    }
}

impl Rng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            state: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// An independent generator for the component called `label`.
    pub fn fork(&self, label: &str) -> Self {
        Self::new(finish(self.seed ^ finish(fnv1a(label.as_bytes()))))
    }

    /// An independent generator for component number `index` of its kind.
    pub fn fork_index(&self, index: u64) -> Self {
        Self::new(finish(
            self.seed
                .wrapping_add(finish(index.wrapping_add(0x9e37_79b9_7f4a_7c15))),
        ))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state.next_u64()
    }

    /// A number below `bound`, all equally likely within 2^-64; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number of `range`; its start if it is empty.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }

    /// A duration between `low` and `high`.
    pub fn duration(&mut self, low: Duration, high: Duration) -> Duration {
        Duration::from_nanos(self.range(low.as_nanos() as u64..high.as_nanos() as u64))
    }

    /// One of `items`, or `None` if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_does_not_depend_on_how_much_its_parent_was_used() {
        let fresh = Rng::new(7);
        let mut used = Rng::new(7);
        used.next_u64();
        assert_eq!(fresh.fork("loss").next_u64(), used.fork("loss").next_u64());
        assert_ne!(
            fresh.fork("loss").next_u64(),
            fresh.fork("delay").next_u64()
        );
    }

    #[test]
    fn the_stream_of_a_seed_is_pinned() {
        // Seeds are kept as named tests: a generator that changed under them would make them lie.
        let mut rng = Rng::new(1);
        assert_eq!(
            [rng.next_u64(), rng.next_u64()],
            [15_803_641_690_485_367_939, 2_537_432_388_316_380_799]
        );
        // What scenarios draw from.
        let forks = [rng.fork("loss").next_u64(), rng.fork_index(3).next_u64()];
        assert_eq!(
            forks,
            [12_451_734_973_954_558_364, 2_121_216_827_512_076_513]
        );
        assert_eq!([rng.below(1_000), rng.below(7)], [470, 5]);
    }
}
