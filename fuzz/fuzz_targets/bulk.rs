//! Three members that send each other messages in bulk, on a network that the input controls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::bulk(data));
