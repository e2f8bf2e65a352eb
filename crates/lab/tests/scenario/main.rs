//! Scenarios: what is wrong is shown where it is written, with what to do; what is right runs the same every time.

mod errors;
mod runs;
