//! Histories: any file, read and judged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::history(data));
