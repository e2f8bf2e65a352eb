//! Settings of a windowed group. All members should have the same.

use alloc::format;
use core::time::Duration;

pub use groupcast_core::settings::ConfigError;
use groupcast_core::settings::{Settings as _, Span, Spec};

use super::wire::DATA_HEADER;

/// The shortest interval: what is shorter keeps a processor busy.
const INTERVAL_MIN: Duration = Duration::from_micros(100);

groupcast_core::settings! {
    /// Settings of a windowed group. All members should have the same.
    #[derive(Clone, PartialEq, Debug)]
    pub struct WindowedConfig {
        /// How many members the group has: as many as are found first, and no others.
        pub group: usize = 2 => Spec::count("members", 1, 1_024),
            "Too small: members stay outside. Too large: nothing is sent, as members are waited for that never come.";
        /// Messages of one sender that not all members have acknowledged, at most: when there are
        /// so many, it waits.
        pub window: u32 = 64 => Spec::count("messages", 2, 1 << 16),
            "Too small: a slow member is felt sooner. Too large: every member keeps more.";
        /// A receiver acknowledges after this many messages of a sender, or after `ack_delay`.
        pub ack_every: u32 = 8 => Spec::count("messages", 1, 1 << 16).rule("at most half of window"),
            "Too small: acknowledgements. Too large: the sender waits for them.";
        /// A message is acknowledged after this long even if few have come.
        pub ack_delay: Duration = Duration::from_millis(20) => Spec::time_from(INTERVAL_MIN),
            "Too small: acknowledgements. Too large: the window opens late.";
        /// A missing message is asked for again after this long.
        pub nak_interval: Duration = Duration::from_millis(40) => Spec::time_from(INTERVAL_MIN),
            "Too small: the same is asked for twice. Too large: repairs come late.";
        /// The oldest message is sent again, to those who have not acknowledged it, after this long
        /// without any progress.
        pub retransmit_after: Duration = Duration::from_millis(200)
            => Spec::time_from(INTERVAL_MIN).rule("longer than ack_delay"),
            "Too small: what arrived is sent again. Too large: a loss stops the sender for that long.";
        /// Members look for each other this often until all are found.
        pub hello_interval: Duration = Duration::from_millis(50) => Spec::time_from(INTERVAL_MIN),
            "Too small: traffic. Too large: the group begins late.";
        /// The most bytes of a datagram's body. A message is one datagram, so it bounds messages
        /// too.
        pub body_max: usize = 8_192 => Spec::size(256, 65_000),
            "Too small: messages are refused. Above one Ethernet frame: the loss of a fragment loses all of it.";
        /// Payload bytes that may wait for the window.
        pub queue_max: usize = 4 << 20 => Spec::size(0, u64::MAX),
            "Too small: senders wait. Too large: memory, and messages wait longer.";
        /// A member that leaves waits this long for the acknowledgements of its last messages.
        pub leave_timeout: Duration = Duration::from_secs(1) => Spec::time(),
            "Too small: last messages may be lost to others. Too large: a member ends late.";
    }
}

impl WindowedConfig {
    /// A group of `group` members with the documented defaults.
    pub fn of(group: usize) -> Self {
        Self {
            group,
            ..Self::default()
        }
    }

    /// The longest message.
    pub fn message_max(&self) -> usize {
        self.body_max - DATA_HEADER
    }

    /// Checks the ranges of the settings, and that they fit each other. Nothing is corrected.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        if self.ack_every > self.window / 2 {
            let allowed = format!("at most half of window, {}", self.window / 2);
            let error = self.refuse("ack_every", allowed);
            let remedy = format!("{}, or the sender waits for nothing", error.remedy);
            return Err(error.with_remedy(remedy));
        }
        if self.retransmit_after <= self.ack_delay {
            let allowed = format!("longer than ack_delay, {}", Span(self.ack_delay));
            let error = self.refuse("retransmit_after", allowed);
            let remedy = format!("make it {}, or what arrived is sent again", error.allowed);
            return Err(error.with_remedy(remedy));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused_by_name() {
        assert_eq!(WindowedConfig::of(96).validate(), Ok(()));
        let field = |config: WindowedConfig| config.validate().map_err(|error| error.field);
        assert_eq!(field(WindowedConfig::of(0)), Err("group"));
        let seldom = WindowedConfig {
            ack_every: 33,
            ..WindowedConfig::of(3)
        };
        assert_eq!(field(seldom), Err("ack_every"));
        let late = WindowedConfig {
            ack_delay: Duration::from_secs(1),
            ..WindowedConfig::of(3)
        };
        assert_eq!(field(late), Err("retransmit_after"));
    }
}
