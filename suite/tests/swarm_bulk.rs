//! The swarm over bulk: some seeds at every change; `cargo xtask swarm --protocol bulk` runs as many as one likes.

use groupcast_suite::swarm::bulk;

#[track_caller]
fn survives(seed: u64) {
    let report = bulk("--protocol bulk").run_seed(seed);
    assert!(report.accepted > 0, "seed {seed}: nothing was accepted");
    let violations = report.violations.join("\n");
    let again = groupcast_sim::swarm::replay(seed, "--protocol bulk");
    assert!(violations.is_empty(), "{violations}\n{again}");
}

#[test]
fn every_policy_survives_faults() {
    (0..60).for_each(survives);
}
