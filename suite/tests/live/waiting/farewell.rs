//! Clients that close and clients that are thrown out learn why, while messages flood. A thousand
//! of each: `cargo xtask soak farewell`.

use groupcast_suite::live::{Outcome, farewell, live};

#[test]
#[ignore = "live: needs root and network namespaces"]
fn every_client_hears_the_last_word() -> Outcome {
    live(|| farewell::run(40).map(|_| ()))
}
