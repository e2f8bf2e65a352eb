//! A short run of chaos: what `cargo xtask soak chaos` does for as long as it is told.

use std::time::Duration;

use groupcast_suite::live::chaos::{Chaos, run};
use groupcast_suite::live::{Outcome, live};

#[test]
#[ignore = "live: needs root and network namespaces"]
fn daemons_survive_everything_for_a_while() -> Outcome {
    live(|| {
        let chaos = Chaos {
            hosts: 5,
            length: Duration::from_secs(30),
            round: Duration::from_secs(12),
            seed: 1,
        };
        let report = run(chaos, |line| println!("{line}"))?;
        println!("{report}");
        Ok(())
    })
}
