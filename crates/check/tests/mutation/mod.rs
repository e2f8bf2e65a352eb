//! What proves the judge: it accepts random runs that keep every promise, and rejects the same runs
//! with one thing wrong.
//!
//! `model` makes the runs, `survey` finds the places where a change matters, `mutate` makes the
//! change. Every kind of change must be found by the rule that it breaks, each time; how often each
//! was tried is counted.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod model;
mod mutate;
mod survey;

use std::collections::BTreeMap;

use groupcast_check::{Checker, Violation};
use groupcast_core::{MemberId, Rng};

use model::Run;
use mutate::MUTATIONS;
use survey::Survey;

const SEEDS: u64 = 150;
/// How often each kind of change must have been made, over all seeds.
const TRIES_MIN: u64 = 100;

#[test]
fn runs_that_keep_every_promise_are_accepted() {
    let mut total = BTreeMap::<&str, u64>::new();
    for seed in 0..4 * SEEDS {
        let run = model::run(seed);
        let (violations, checker) = judge(&run, seed);
        assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
        let seen = checker.statistics();
        *total.entry("deliveries").or_default() += seen.deliveries;
        *total.entry("configurations").or_default() += seen.configurations;
    }
    assert!(total["deliveries"] > 100_000, "{total:?}");
    assert!(total["configurations"] > 10_000, "{total:?}");
}

#[test]
fn one_thing_wrong_is_found_by_the_rule_that_it_breaks() {
    let mut tries = BTreeMap::<&str, u64>::new();
    for seed in 0..SEEDS {
        let run = model::run(seed);
        let survey = Survey::of(&run);
        for mutation in MUTATIONS {
            let mut rng = Rng::new(seed).fork(mutation.name);
            let mut changed = run.clone();
            let is_made = (mutation.make)(&mut changed, &survey, &mut rng);
            if !is_made {
                continue;
            }
            *tries.entry(mutation.name).or_default() += 1;
            let (violations, _) = judge(&changed, seed);
            assert!(
                violations
                    .iter()
                    .any(|violation| violation.rule == mutation.rule),
                "seed {seed}, {}: not found by {}: {violations:#?}",
                mutation.name,
                mutation.rule
            );
        }
    }
    for mutation in MUTATIONS {
        let count = tries.get(mutation.name).copied().unwrap_or(0);
        assert!(
            count >= TRIES_MIN,
            "{} was tried {count} times",
            mutation.name
        );
    }
}

/// Histories may come from anywhere: the judge says what is wrong with nonsense and survives it.
#[test]
fn nonsense_is_rejected_without_a_panic() {
    for seed in 0..SEEDS {
        let mut run = model::run(seed);
        let mut rng = Rng::new(seed).fork("nonsense");
        for history in run.histories.values_mut() {
            for at in (1..history.len()).rev() {
                history.swap(at, rng.below(at as u64 + 1) as usize);
            }
        }
        let (violations, _) = judge(&run, seed);
        assert!(!violations.is_empty(), "seed {seed}");
    }
}

/// Feeds the histories in a random interleaving.
fn judge(run: &Run, seed: u64) -> (Vec<Violation>, Checker) {
    let mut rng = Rng::new(seed).fork("interleaving");
    let mut checker = Checker::with_limit(1000);
    let mut cursors: Vec<(MemberId, usize)> = run.histories.keys().map(|id| (*id, 0)).collect();
    while !cursors.is_empty() {
        let chosen = rng.below(cursors.len() as u64) as usize;
        let (member, next) = cursors[chosen];
        match run.histories[&member].get(next) {
            Some(observation) => {
                checker.observe(member, observation);
                cursors[chosen].1 += 1;
            }
            None => {
                cursors.swap_remove(chosen);
            }
        }
    }
    (checker.finish(&run.outcome), checker)
}
