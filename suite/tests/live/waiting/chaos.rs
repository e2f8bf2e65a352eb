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
            length: Duration::from_secs(16),
            round: Duration::from_secs(8),
            seed: 1,
        };
        let report = run(chaos, |line| println!("{line}"))?;
        println!("{report}");
        Ok(())
    })
}
