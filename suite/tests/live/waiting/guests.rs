//! A guest asks a group and gets the first, two or all replies; the process that has the group's
//! handler and its lock is killed, and another goes on; then the daemon of that one.

use groupcast_suite::live::cluster::{RING, RMP};
use groupcast_suite::live::guests::run;
use groupcast_suite::live::{Outcome, live};

/// Plays the servers.
const PROGRAM: &str = env!("CARGO_BIN_EXE_soak");

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_handler_and_a_lock_pass_on_when_their_holder_is_killed() -> Outcome {
    live(|| run(RING, PROGRAM))
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn with_rmp_they_do_too() -> Outcome {
    live(|| run(RMP, PROGRAM))
}
