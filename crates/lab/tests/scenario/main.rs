//! Scenarios: what is wrong is shown where it is written, with what to do; what is right runs the
//! same every time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod errors;
mod runs;
