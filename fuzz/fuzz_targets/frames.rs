//! The client protocol: any stream, both directions, cut anywhere.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::frames(data));
