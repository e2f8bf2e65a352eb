//! S-expressions and CSTREAM: any bytes as either.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::lists(data));
