//! Joins make rings at five daemons, of which one is killed and one cut off: a short run of what
//! `cargo xtask soak rings` does for as long as it is told.

use std::time::Duration;

use groupcast_suite::live::cluster::RING;
use groupcast_suite::live::rings::{Making, run};
use groupcast_suite::live::{Outcome, live};

#[test]
#[ignore = "live: needs root and network namespaces"]
fn rings_are_made_and_given_back_under_faults() -> Outcome {
    live(|| {
        let making = Making {
            hosts: 5,
            protocol: RING,
            length: Duration::from_millis(1),
            round: Duration::from_secs(10),
            seed: 1_001,
        };
        let report = run(making, |line| println!("{line}"))?;
        println!("{report}");
        match report.stays {
            0 => Err("no daemon joined a ring".into()),
            _ => Ok(()),
        }
    })
}
