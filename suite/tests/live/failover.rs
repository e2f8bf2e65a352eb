//! Five members under load, one dies or falls silent: the others deliver again within a second.
//! Twice each here; twenty times each, with the median, in the soak (`cargo xtask soak failover`).

use std::time::Duration;

use groupcast_suite::live::cluster::{RING, RMP};
use groupcast_suite::live::failover::{Fault, measure, median_and_max};
use groupcast_suite::live::{Outcome, live};

const WORST: Duration = Duration::from_secs(1);

fn fail_over(protocol: &str, fault: Fault) -> Outcome {
    live(|| {
        let durations = measure(5, protocol, fault, 2)?;
        println!("{protocol}, {fault}: {durations:?}");
        let (_, worst) = median_and_max(&durations);
        if worst > WORST {
            return Err(format!("{fault}: the others were held up for {worst:?}").into());
        }
        Ok(())
    })
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_daemon_is_killed() -> Outcome {
    fail_over(RING, Fault::Kill)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_host_falls_silent() -> Outcome {
    fail_over(RING, Fault::Silence)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_daemon_of_rmp_is_killed() -> Outcome {
    fail_over(RMP, Fault::Kill)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_host_of_rmp_falls_silent() -> Outcome {
    fail_over(RMP, Fault::Silence)
}
