//! The library's example without a daemon, as programs on hosts of their own: the replica that has
//! the handler is killed and the other goes on, while a file of 5 MB of two senders is in one
//! order.

use groupcast_suite::live::cluster::{RING, RMP};
use groupcast_suite::live::embedded::run;
use groupcast_suite::live::{Outcome, live};

/// Plays the parts.
const PROGRAM: &str = env!("CARGO_BIN_EXE_soak");

#[test]
#[ignore = "live: needs root and network namespaces"]
fn programs_without_a_daemon_go_on_when_one_is_killed() -> Outcome {
    live(|| run(RING, PROGRAM))
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn with_rmp_they_do_too() -> Outcome {
    live(|| run(RMP, PROGRAM))
}
