//! Three members of the family on a network that the input controls; `GROUPCAST_FAMILY` names the
//! family.
#![no_main]

use std::sync::LazyLock;

/// `cargo xtask fuzz NAME` sets it.
static NAME: LazyLock<String> =
    LazyLock::new(|| std::env::var("GROUPCAST_FAMILY").expect("GROUPCAST_FAMILY is set"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::family(&NAME, data));
