//! Live tests: the real binary on the hosts of a test bed, judged by what its users see.
//!
//! - [`stream`]: what a subscriber printed.
//! - [`judge`]: what is wrong with that.
//! - [`text`]: something to publish.

pub mod judge;
pub mod stream;
pub mod text;
