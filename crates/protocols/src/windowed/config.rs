//! Settings of a windowed group. All members should have the same.

use core::time::Duration;

use super::wire::DATA_HEADER;

/// Settings of a windowed group. All members should have the same.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowedConfig {
    /// How many members the group has: as many as are found first, and no others. Default 2, up to 1,024.
    pub group: usize,
    /// Messages of one sender that not all members have acknowledged, at most: when there are so many, it waits.
    /// Default 64, up to 65,536. Smaller: a slow member is felt sooner. Larger: everybody keeps more.
    pub window: u32,
    /// A receiver acknowledges after this many messages of a sender, or after `ack_delay`. Default 8; at most half of `window`.
    pub ack_every: u32,
    /// A message is acknowledged after this long even if few have come. Default 20 ms.
    pub ack_delay: Duration,
    /// A missing message is asked for again after this long. Default 40 ms.
    pub nak_interval: Duration,
    /// The oldest message is sent again, to those who have not acknowledged it, after this long without any progress.
    /// Default 200 ms.
    pub retransmit_after: Duration,
    /// Members look for each other this often until all are found. Default 50 ms.
    pub hello_interval: Duration,
    /// The most bytes of a datagram body. A message is one datagram, so it bounds messages too. Default 8,192, up to 65,000.
    pub body_max: usize,
    /// Payload bytes that may wait for the window. Default 4 MiB.
    pub queue_max: usize,
    /// A member that leaves waits this long for the acknowledgements of its last messages. Default 1 s.
    pub leave_timeout: Duration,
}

/// A setting that cannot work, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {problem}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Name of the setting.
    pub field: &'static str,
    /// What is wrong with it and what to do.
    pub problem: &'static str,
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

    /// Checks that the settings fit each other. Nothing is corrected silently.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let refuse = |field, problem| Err(ConfigError { field, problem });
        if self.group < 1 || self.group > 1_024 {
            return refuse("group", "must be between 1 and 1024 members");
        }
        if self.window < 2 || self.window > 1 << 16 {
            return refuse("window", "must be between 2 and 65536 messages");
        }
        if self.ack_every < 1 || self.ack_every > self.window / 2 {
            return refuse(
                "ack_every",
                "must be between 1 and half of window, or the sender waits for nothing",
            );
        }
        if self.body_max < 256 || self.body_max > 65_000 {
            return refuse("body_max", "must be between 256 and 65000 bytes");
        }
        let intervals = [
            self.ack_delay,
            self.nak_interval,
            self.retransmit_after,
            self.hello_interval,
        ];
        if intervals.iter().any(|it| *it < Duration::from_micros(100)) {
            return refuse(
                "ack_delay",
                "this, nak_interval, retransmit_after and hello_interval must be at least 100 µs",
            );
        }
        if self.retransmit_after <= self.ack_delay {
            return refuse(
                "retransmit_after",
                "must be longer than ack_delay, or what arrived is sent again",
            );
        }
        Ok(())
    }
}

impl Default for WindowedConfig {
    fn default() -> Self {
        Self {
            group: 2,
            window: 64,
            ack_every: 8,
            ack_delay: Duration::from_millis(20),
            nak_interval: Duration::from_millis(40),
            retransmit_after: Duration::from_millis(200),
            hello_interval: Duration::from_millis(50),
            body_max: 8_192,
            queue_max: 4 << 20,
            leave_timeout: Duration::from_secs(1),
        }
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
