//! Copies for hosts without multicast count against a fixed rate: with two of them, three times as
//! much leaves, and takes three times as long.

use std::time::Duration;

use groupcast_suite::live::files::{last_line, succeed};
use groupcast_suite::live::{Outcome, live};

use crate::waiting::file_copies::{BYTES, Five};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
#[ignore = "live: needs root and network namespaces"]
fn copies_count_against_a_fixed_rate() -> Outcome {
    live(|| {
        let mut five = Five::new(0)?;
        let mut sender = five.send(&["--receivers", "5", "--rate", "100"])?;
        let printed = succeed(&mut sender, LIMIT)?;
        let done = last_line(&printed)?;
        let least = 3.0 * BYTES as f64 * 8.0 / 100e6;
        let seconds = done["seconds"].as_f64().unwrap_or_default();
        println!("{done}, and at that rate three times as much takes {least:.2} s");
        if !(least..least * 1.3).contains(&seconds) {
            return Err(format!("it took {seconds} s and not {least} s").into());
        }
        five.site.cluster.pass();
        Ok(())
    })
}
