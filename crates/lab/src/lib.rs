//! Test beds and measurements: many hosts on one machine, and what groupcast does on them.
//!
//! - [`mod@bench`]: what the ring carries, beside the raw multicast limit of the same network.
//! - [`calibrate`]: what this machine charges for system calls and packets, and the simulator held to a real ring.
//! - [`papers`]: the papers' tables and figures, run, judged and drawn.
//! - [`scenario`]: worlds described in TOML, run in the simulator.
//! - [`testbed`]: network namespaces behind a switch that can be slow, lossy or cut in parts.
//! - [`process`]: processes on those hosts, their outputs and their cost.
//!
//! It stands on top of everything else and nothing but the command line and the test suite stands on it.
#![forbid(unsafe_code)]

pub mod bench;
pub mod calibrate;
pub mod papers;
pub mod process;
pub mod scenario;
pub mod testbed;

pub use process::{Process, Usage};
pub use testbed::{Link, Testbed, TestbedError};
