//! Changes of the key among four daemons: keys given, statements, configurations, inventions.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| groupcast_suite::fuzz::rekey(data));
