//! Settings of a web's member. All members should have the same.

use core::time::Duration;

pub use groupcast_core::settings::ConfigError;
use groupcast_core::settings::{Settings as _, Spec};

groupcast_core::settings! {
    /// Settings of a web's member. All members should have the same.
    #[derive(Clone, PartialEq, Debug)]
    pub struct MtpConfig {
        /// Packets that the holder of a token may send in a heartbeat, repeated ones included.
        pub window: u32 = 30 => Spec::count("packets", 1, 1 << 16),
            "Too small: throughput. Too large: losses where receivers are slow.";
        /// How long a heartbeat is. With the window and the retention it gives the figures that 000
        /// quotes: 180 KB/s, and as much to be kept for a second.
        pub heartbeat: Duration = Duration::from_millis(250) => Spec::interval(),
            "Too small: traffic. Too large: throughput, and losses are found late.";
        /// Heartbeats for which what was sent is kept; a message has at least so many packets.
        pub retention: u32 = 4 => Spec::count("heartbeats", 1, 64),
            "Too small: what was lost is lost for good. Too large: memory, and short messages cost more.";
        /// Payload bytes that may wait for tokens.
        pub queue_max: usize = 1 << 20 => Spec::size(0, u64::MAX),
            "Too small: senders wait. Too large: memory.";
    }
}

impl MtpConfig {
    /// Checks the ranges of the settings. Nothing is corrected.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()
    }

    /// For how long what was sent is kept.
    pub(super) fn kept_for(&self) -> Duration {
        self.heartbeat * self.retention
    }
}
