//! The swarm over bulk, alone and with its group's management: some seeds at every change;
//! `cargo xtask swarm --protocol bulk` runs as many as one likes.

use groupcast_core::Family;
use groupcast_protocols::{bulk, managed};
use groupcast_sim::swarm::{Swarm, SwarmConfig};

#[track_caller]
fn survives(family: &'static Family, seed: u64) {
    let swarm = Swarm::of(family, None, SwarmConfig::of(family));
    let report = swarm.run_seed(seed);
    assert!(report.accepted > 0, "seed {seed}: nothing was accepted");
    let violations = report.violations.join("\n");
    let again = groupcast_sim::swarm::replay(seed, &format!("--protocol {}", family.name));
    assert!(violations.is_empty(), "{violations}\n{again}");
}

#[test]
fn every_policy_survives_faults() {
    (0..60).for_each(|seed| survives(&bulk::FAMILY, seed));
}

/// Messages given up by a leave (26), probes that filled queues (290), a receiver that lost its
/// part of a transfer (635), a member alone that waited for each message (647), a lost announcement
/// (695).
#[test]
fn seeds_that_failed_once_stay_mended() {
    let seeds = [26, 290, 635, 647, 695];
    seeds
        .into_iter()
        .for_each(|seed| survives(&bulk::FAMILY, seed));
}

/// A sender was stopped while a receiver's word of what it misses lay in the sender's buffer. The
/// receiver let go what it had and registered again when the sender was back. The pass had only
/// what the receiver had missed before: it never ended, and all later messages waited.
#[test]
fn who_has_let_go_what_it_had_is_served_by_the_next_pass() {
    survives(&bulk::FAMILY, 10_101_288);
}

/// A receiver held a message below a mark that it lost. Its sender went on without it, and the mark
/// came after the next message was delivered. The message was too late for its user, and the
/// group's management said that the receiver has it.
#[test]
fn what_a_user_gave_up_is_not_in_the_account_when_its_mark_comes() {
    survives(&managed::FAMILY, 7_311_194);
}

/// A sender was stopped for longer than a receiver waits, while the word of that receiver that it
/// holds a message lay in the sender's buffer. The receiver let the message go, registered again
/// when the sender was back, and echoed the mark: the account said that it has the message.
#[test]
fn who_has_let_go_what_it_held_takes_no_part_again() {
    survives(&managed::FAMILY, 9_500_137);
}
