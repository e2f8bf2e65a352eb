//! The accounts of two relays on their way to a sender, under a network that the script controls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::relay(data));
