//! The message bus: any text of a program, cut anywhere.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::bus(data));
