//! A node: datagrams of strangers and of peers, echoes true and false, recordings, time.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::node(data));
