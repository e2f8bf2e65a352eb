//! Test beds, calibration and measurements: many hosts on one machine, and what groupcast does on
//! them.
//!
//! - [`testbed`]: network namespaces behind a switch that can be slow, lossy or cut in parts.
//! - [`process`]: processes on those hosts, their outputs and their cost.
//! - [`measure`]: what the ring, bulk and gossip carry, beside the raw multicast limit of the same
//!   network.
//! - [`calibrate`]: what this machine charges for system calls and packets, and the simulator held
//!   to a real ring.
//!
//! Everything here is about the live system: real sockets, real processes, this machine's clock.
//! What a paper says of the figures is the lab's to judge.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod measure;
pub mod process;
pub mod testbed;

pub use process::{Process, Usage};
pub use testbed::{Link, Testbed, TestbedError};
