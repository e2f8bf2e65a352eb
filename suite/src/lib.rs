//! Conformance and live tests of groupcast.
//!
//! - `asking`: requests, handlers and locks as clients see them; [`AskTally`] counts them.
//! - [`explore`]: every schedule of a small group.
//! - [`fuzz`]: the bodies of the fuzz targets.
//! - [`groups`]: the swarm over daemons with clients.
//! - [`names`]: daemons with further rings over simulated datagrams.
//! - [`presets`]: the table of presets of the ring.
//! - `live` (feature `live`, on unless said otherwise): the real binary on the hosts of a test bed.
#![forbid(unsafe_code)]

mod asking;
pub mod explore;
pub mod fuzz;
pub mod groups;
#[cfg(feature = "live")]
pub mod live;
pub mod names;
pub mod presets;

pub use self::asking::AskTally;
