//! The swarm over bulk: some seeds at every change; `cargo xtask swarm --protocol bulk` runs as
//! many as one likes.

use groupcast_protocols::bulk;
use groupcast_sim::swarm::{Swarm, SwarmConfig};

#[track_caller]
fn survives(seed: u64) {
    let swarm = Swarm::of(&bulk::FAMILY, None, SwarmConfig::of(&bulk::FAMILY));
    let report = swarm.run_seed(seed);
    assert!(report.accepted > 0, "seed {seed}: nothing was accepted");
    let violations = report.violations.join("\n");
    let again = groupcast_sim::swarm::replay(seed, "--protocol bulk");
    assert!(violations.is_empty(), "{violations}\n{again}");
}

#[test]
fn every_policy_survives_faults() {
    (0..60).for_each(survives);
}

/// Messages given up by a leave (26), probes that filled queues (290), a receiver that lost its
/// part of a transfer (635), a member alone that waited for each message (647), a lost announcement
/// (695).
#[test]
fn seeds_that_failed_once_stay_mended() {
    [26, 290, 635, 647, 695].into_iter().for_each(survives);
}
