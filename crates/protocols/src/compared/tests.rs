//! Goal: the swarm finds the rule of collectors that is broken on purpose, and names what it
//! breaks. Method: seeds of the family, until one fails.

use std::string::String;
use std::time::Duration;

use groupcast_sim::swarm::{Swarm, SwarmConfig};

use super::family::{DEAD_BELIEVED, FAMILY};

#[test]
fn that_a_dead_collector_is_believed_is_found() {
    let config = SwarmConfig {
        duration: Duration::from_secs(30),
        ..SwarmConfig::of(&FAMILY)
    };
    let swarm = Swarm::of(&FAMILY, Some(DEAD_BELIEVED), config);
    let report = swarm.run_range(0..2_000, 2, true, &|_| ());
    let found = report.failures.first();
    let found = found.expect("one of 2,000 seeds shows it");
    let lies = |violation: &String| violation.contains("which it never delivered");
    assert!(found.violations.iter().any(lies), "{found:?}");
}
