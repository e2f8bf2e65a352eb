//! Access rules that change under clients that join, leave and publish.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::access(data));
