//! A request of bulk to two members that reply, under a network that the script controls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::replies(data));
