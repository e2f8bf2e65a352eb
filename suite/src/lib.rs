//! Conformance and live tests of groupcast.
//!
//! - [`live`]: the real binary on the hosts of a test bed.
#![forbid(unsafe_code)]

pub mod live;
