//! Random faults for every family of the registry. Goal: no schedule of crashes, pauses, partitions
//! and losses makes a member break its family's contract, and after the healing there is progress.
//! Method: seeds, each with settings of its own, in shorter scenarios than those of `cargo xtask
//! swarm`, so that all run at every change.

use std::time::Duration;

use groupcast_protocols::registry::FAMILIES;
use groupcast_protocols::rmp;
use groupcast_sim::swarm::{Swarm, SwarmConfig};

const SEEDS: u64 = 24;

#[test]
fn no_fault_makes_a_member_break_its_contract() {
    for family in FAMILIES.iter().copied().chain([&rmp::HEARD]) {
        let full = SwarmConfig::of(family);
        let config = SwarmConfig {
            duration: Duration::from_secs(30),
            messages: full.messages.min(200),
            ..full
        };
        let messages = config.messages as u64;
        let report = Swarm::of(family, None, config).run_range(0..SEEDS, 2, false, &|_| ());
        let failures: Vec<_> = report
            .failures
            .iter()
            .map(|it| (it.seed, it.violations.first()))
            .collect();
        assert!(failures.is_empty(), "{}: {failures:#?}", family.name);
        // Full queues and missing processes refuse some; a quarter would be a defect.
        assert!(
            report.accepted > SEEDS * messages * 3 / 4,
            "{}: {} messages accepted",
            family.name,
            report.accepted
        );
    }
}
