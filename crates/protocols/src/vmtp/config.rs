//! Settings of a VMTP entity.

use core::time::Duration;

pub use groupcast_core::settings::ConfigError;
use groupcast_core::settings::{Settings as _, Spec};

groupcast_core::settings! {
    /// Settings of a VMTP entity, as client and as server.
    #[derive(Clone, PartialEq, Debug)]
    pub struct VmtpConfig {
        /// Responses after which a request has succeeded. 1 is VMTP's multicast; more are the
        /// k-reliable one of the V System.
        pub responses: u32 = 1 => Spec::count("responses", 1, 65_535),
            "More than there are servers: every request fails.";
        /// A server's user takes a random time up to this to respond.
        pub think: Duration = Duration::ZERO => Spec::time(),
            "Longer than time_out: servers have to acknowledge besides.";
        /// A client demands acknowledgements after so long without enough responses, and twice as
        /// long each time.
        pub time_out: Duration = Duration::from_millis(50) => Spec::interval(),
            "Too small: acknowledgements. Too large: a loss is noticed late.";
        /// How often it demands in vain before the request fails.
        pub demands: u32 = 4 => Spec::count("demands", 1, 16),
            "Too small: a pause fails a request. Too large: requests wait for servers that are not there.";
        /// Servers remember so many clients; others find no room.
        pub clients_max: usize = 1_024 => Spec::count("clients", 1, 1 << 20),
            "Too small: clients are not served. Too large: memory.";
        /// Payload bytes that may wait for their turn.
        pub queue_max: usize = 1 << 20 => Spec::size(0, u64::MAX),
            "Too small: clients wait. Too large: memory.";
    }
}

impl VmtpConfig {
    /// Checks the ranges of the settings. Nothing is corrected.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()
    }
}
