//! Requests, handlers and locks of groups under random faults. Goal: each rule of theirs, broken on
//! purpose, is seen. Method: seeds of the swarm over whole daemons with one bug planted, until one
//! of them fails; the same seed without the bug does not.

use std::sync::Arc;

use groupcast_session::guests::Planted;
use groupcast_suite::groups::{self, ORDERS};

/// The most seeds until a bug must have been seen.
const SEEDS: u64 = 64;
/// Threads.
const JOBS: usize = 2;

#[test]
fn planted_bugs_of_requests_and_roles_are_seen() {
    for order in ORDERS {
        let sound = groups::swarm(order, Arc::default());
        for bug in Planted::ALL {
            let swarm = groups::swarm_with(order, Arc::default(), Some(bug));
            let report = swarm.run_range(0..SEEDS, JOBS, true, &|_| ());
            let Some(failure) = report.failures.first() else {
                panic!("{bug:?} is not seen in {SEEDS} seeds of {}", order.name);
            };
            let without = sound.run_seed(failure.seed).violations;
            assert!(without.is_empty(), "seed {}: {without:#?}", failure.seed);
        }
    }
}
