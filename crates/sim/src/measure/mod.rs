//! Measurement: a world reports every message and datagram to the meter, which gives the results at
//! the end.
//!
//! The [`Meter`] is told as things happen and keeps sums, not events: its memory is bounded by
//! hosts, sources and [`MeterConfig::pending_max`], however long the world runs. It names no
//! protocol; what a datagram is for, an [`Inspect`](groupcast_core::trace::Inspect) says. The
//! results are [`Measures`]: of each host, of each direction of a link, and overall.
//!
//! Words. A message is *offered* when its source hands it over, *submitted* when the protocol takes
//! it, it *arrives* when a datagram with all of it is handled, and is *delivered* when the user has
//! it. *Latency* counts from the offer to the delivery, after ordering; *arrival* from the offer to
//! the first arrival, before ordering. The warm-up is left out: counts and rates count what happens
//! after it, latencies and losses concern what was offered after it.
//!
//! - [`Stamp`]: how a message is recognised inside a datagram.
//! - [`Histogram`], [`Distribution`]: many values in little memory.
//! - [`Estimate`]: one quantity over several seeds, with a confidence interval.

mod distribution;
mod estimate;
mod histogram;
mod host;
mod issued;
mod measures;
mod meter;
mod reading;
mod seconds;
mod stamp;
mod stream;
#[cfg(test)]
mod tests;
mod traffic;
mod usage;

use std::time::Duration;

pub use distribution::Distribution;
pub use estimate::{Estimate, student_t};
pub use histogram::{Bins, Histogram};
pub use host::{Installed, Window};
pub use measures::{HostMeasures, Measures, Overall};
pub use meter::Meter;
pub(crate) use reading::Reading;
pub use stamp::Stamp;
pub use traffic::{KindCount, Packets, Traffic, role_name};
pub use usage::{HostUse, LinkUse};

/// What is measured, and how finely.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterConfig {
    /// What happens before is not measured. Default 0.
    pub warm_up: Duration,
    /// Throughput is counted in windows of this length. Default 500 ms (004 ch. 4).
    pub window: Duration,
    /// How many windows are kept; later ones are not counted one by one. Default 100,000.
    pub windows_max: usize,
    /// Bins, in nanoseconds, of the histograms that are written and drawn. Quantiles do not depend
    /// on them. Default: 100 bins up to 10 s.
    pub bins: Bins,
    /// Of each sender, how many messages after one that is missing are waited for before it is
    /// given up, and how many are remembered. A message that comes later than that counts as
    /// missing, and its arrival as neither first nor again. Default 65,536.
    pub pending_max: u32,
    /// Whether what a host delivers of its own messages counts at that host. Default true.
    pub own: bool,
    /// A message offered less than this before the end is not missing if it was not delivered.
    /// Default 1 s.
    pub grace: Duration,
    /// How many configurations of each host are kept with their times. Default 1,024.
    pub installed_max: usize,
}

impl Default for MeterConfig {
    fn default() -> Self {
        Self {
            warm_up: Duration::ZERO,
            window: Duration::from_millis(500),
            windows_max: 100_000,
            bins: Bins::linear(10_000_000_000, 100),
            pending_max: 65_536,
            own: true,
            grace: Duration::from_secs(1),
            installed_max: 1_024,
        }
    }
}
