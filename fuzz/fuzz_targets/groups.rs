//! The group engines of two daemons: their clients, a ring that the input controls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::groups(data));
