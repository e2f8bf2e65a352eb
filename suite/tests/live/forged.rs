//! Datagrams forged, replayed, bit-flipped and truncated from what was overheard change nothing but
//! counters. The million of them is the soak's (`cargo xtask soak forged`).

use groupcast_suite::live::eavesdrop::skipped_without_tcpdump;
use groupcast_suite::live::forged::{Attack, attack};
use groupcast_suite::live::{Outcome, skipped};

#[test]
#[ignore = "live: needs root and network namespaces"]
fn altered_datagrams_change_counters_only() -> Outcome {
    if skipped() || skipped_without_tcpdump() {
        return Ok(());
    }
    let report = attack(Attack {
        program: env!("CARGO_BIN_EXE_adversary").to_owned(),
        datagrams: 60_000,
        rate: 15_000,
    })?;
    println!("{report}");
    Ok(())
}
