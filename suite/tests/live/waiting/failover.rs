//! Five members under load, one dies or falls silent: the others deliver again. How fast is judged
//! by the soak, twenty times each, with the median (`cargo xtask soak failover`): here others may
//! use the machine.

use groupcast_suite::live::cluster::{RING, RMP};
use groupcast_suite::live::failover::{Fault, WATCH, measure, median_and_max};
use groupcast_suite::live::{Outcome, live};

fn fail_over(protocol: &str, fault: Fault) -> Outcome {
    live(|| {
        let durations = measure(5, protocol, fault, 2)?;
        println!("{protocol}, {fault}: {durations:?}");
        let (_, worst) = median_and_max(&durations);
        if worst >= WATCH {
            return Err(format!("{fault}: the others deliver nothing for {WATCH:?}").into());
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
