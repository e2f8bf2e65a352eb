//! Settings of a NAPP entity, as source and as receiver. All members should have the same.

use core::time::Duration;

pub use groupcast_core::settings::ConfigError;
use groupcast_core::settings::{Settings as _, Spec};

groupcast_core::settings! {
    /// Settings of a NAPP entity, as source and as receiver. All members should have the same.
    #[derive(Clone, PartialEq, Debug)]
    pub struct NappConfig {
        /// Packets that may be pending: M of 003.
        pub window: u32 = 64 => Spec::count("packets", 1, 1 << 12),
            "Too small: throughput. Too large: losses where receivers are slow.";
        /// Packets in sequence after which a receiver says an ACK.
        pub ack_every: u32 = 16 => Spec::count("packets", 1, 1 << 12),
            "Too small: traffic. Too large: the source waits for a PACK.";
        /// T_pack: how long a receiver waits for what it lacks before it polls.
        pub pack_interval: Duration = Duration::from_millis(100) => Spec::interval(),
            "Too small: polls while data flows. Too large: the loss of the last packets is noticed late.";
        /// T_ack: from an ACK to its repetition. Shorter than T_pack.
        pub ack_interval: Duration = Duration::from_millis(50) => Spec::interval(),
            "Too small: traffic. Too large: a lost ACK holds the source up.";
        /// T_srej: an SREJ that is not sent when its time has come waits so long again.
        pub srej_interval: Duration = Duration::from_millis(5) => Spec::interval(),
            "Too small: all that miss a packet say so. Too large: repairs come late.";
        /// How long a receiver waits for a repair once an SREJ for it was sent or heard.
        pub srej_rest: Duration = Duration::from_millis(30) => Spec::interval(),
            "Too small: SREJs for what is on its way. Too large: a lost repair comes late.";
        /// P: of a hundred SREJs whose time has come, so many are sent.
        pub probability: u32 = 50 => Spec::count("percent", 1, 100),
            "Too small: repairs come late. Too large: all that miss a packet say so.";
        /// A receiver that owes something and is silent for so long is lost, and the delivery
        /// fails.
        pub patience: Duration = Duration::from_secs(2) => Spec::interval(),
            "Too small: a pause fails a delivery. Too large: a lost receiver holds it up.";
        /// From one opening to the next; after the last the connection is that of who has answered.
        pub open_wait: Duration = Duration::from_millis(20) => Spec::interval(),
            "Too small: receivers are left out. Too large: latency.";
        /// Openings.
        pub opens: u32 = 3 => Spec::count("openings", 1, 16),
            "Too small: receivers are left out. Too large: latency.";
        /// The opening ends as soon as so many have answered; 0: after the last.
        pub receivers: u32 = 0 => Spec::count("receivers", 0, 300),
            "More than there are: each message waits for the last opening.";
        /// Sources that a receiver follows; others are not received.
        pub sources_max: usize = 1_024 => Spec::count("sources", 1, 1 << 20),
            "Too small: sources are not received. Too large: memory.";
        /// Payload bytes that may wait for their turn.
        pub queue_max: usize = 1 << 20 => Spec::size(0, u64::MAX),
            "Too small: sources wait. Too large: memory.";
    }
}

impl NappConfig {
    /// Checks the ranges of the settings, and that T_pack > T_ack. Nothing is corrected.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        if self.pack_interval <= self.ack_interval {
            let value = alloc::format!("{:?}", self.pack_interval);
            let allowed = "longer than ack_interval";
            return Err(ConfigError::new("pack_interval", value, allowed));
        }
        Ok(())
    }
}
