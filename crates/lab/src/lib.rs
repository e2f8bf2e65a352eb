//! The laboratory: worlds described in files, and the papers' experiments.
//!
//! - [`scenario`]: worlds described in TOML, run in the simulator.
//! - [`papers`]: the papers' tables and figures, run, judged and drawn.
//!
//! It stands on top of everything else and nothing but the command line stands on it. What runs on
//! real sockets is measured by `groupcast_bench`.
#![forbid(unsafe_code)]

pub mod papers;
pub mod scenario;
