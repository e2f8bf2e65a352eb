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

#[test]
fn a_member_whose_announcement_was_lost_is_waited_for() {
    survives(695);
}

#[test]
fn messages_of_a_member_that_is_alone_do_not_wait_one_by_one() {
    survives(647);
}

#[test]
fn a_receiver_that_lost_what_it_had_is_served_again() {
    survives(635);
}

#[test]
fn a_leave_accounts_for_the_messages_that_it_gives_up() {
    survives(26);
}
