//! Three members of an SRM session on a network that the input controls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::srm(data));
