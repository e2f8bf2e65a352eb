//! Settings of an SRM member. All members should have the same.

use core::time::Duration;

use super::timing::Timing;
use super::wire::{DATA_HEADER, REPAIR_HEADER};

/// Settings of an SRM member. All members should have the same.
#[derive(Clone, PartialEq, Debug)]
pub struct SrmConfig {
    /// How request and repair timers are drawn. Default: [`Timing::Adaptive`].
    pub timing: Timing,
    /// How many members there are, for timers that depend on it (G). Default: as many as session messages are heard of.
    pub group: Option<u32>,
    /// The most bytes of a datagram body, SRM's headers included. A message is one datagram, so it bounds messages too.
    /// Default 8,192, up to 65,000; above one Ethernet frame the loss of a fragment loses all of it.
    pub body_max: usize,
    /// Payload bytes that may wait to be sent. Default 4 MiB.
    pub queue_max: usize,
    /// How often a member sends a session message, give or take a tenth. Default 1 s (004 5.5). Longer: the loss of a
    /// last message is found later, and distances are older.
    pub session_interval: Duration,
    /// The most bytes of a session message; what does not fit goes into the next ones, by turns. Default 1,400.
    pub session_bytes_max: usize,
    /// The distance to a member of which none was measured yet. Default 10 ms; ns-2: 1 s. Too small: requests and
    /// repairs of a wide network are duplicated until session messages have measured it.
    pub distance_initial: Duration,
    /// No distance is taken for shorter than this. Default 100 µs. It bounds how fast requests follow each other.
    pub distance_min: Duration,
    /// No distance is taken for longer than this. Default 10 s: what a member claims cannot stop recovery.
    pub distance_max: Duration,
    /// A request is backed off this many times at most; the interval then stays. Default 5 (ns-2).
    pub request_backoff_max: u32,
    /// No interval is longer than this, whatever the distance and the back-off. Default 10 s; ns-2 has no such limit
    /// ([`ns2`](Self::ns2): an hour). Too large: one bad estimate of a distance holds recovery up.
    pub request_interval_max: Duration,
    /// After this many intervals without a repair a message is given up and reported as a gap. Default 12: with the
    /// default back-off some 800 distances to the source, and never more than 12 times `request_interval_max`. At least 2.
    pub request_intervals_max: u32,
    /// After a repair, requests for the same message are ignored for this many distances to the requestor. Default 3.
    pub repair_hold: u32,
    /// The most messages that are asked for at a time; the others wait. Default 4,096.
    pub requests_max: usize,
    /// The most messages that repairs are prepared for, or held off, at a time. Default 4,096. Further requests are left to others.
    pub repairs_max: usize,
    /// Bytes of messages that are kept to answer requests, the oldest dropped first. Default 16 MiB. 0: none are kept,
    /// and only an [`Archive`](super::Archive) can answer.
    pub store_max: usize,
    /// How far a source's newest message may be ahead of the oldest that is missing; what is older is given up. Default 16,384.
    pub window_max: u64,
    /// How many messages from before it first heard of a source a newcomer asks for. Default 256.
    pub catch_up_max: u64,
    /// The most sources that are followed. Default 1,024; a new one takes the place of one that was silent for
    /// `source_timeout`, or is ignored.
    pub sources_max: usize,
    /// See `sources_max`. Default 10 min.
    pub source_timeout: Duration,
    /// The most members whose distances are kept. Default 4,096; more are taken to be at `distance_initial`.
    pub members_max: usize,
    /// A member whose session messages stay away for this long is not counted any more. Default 15 s.
    pub member_timeout: Duration,
}

/// A inputs that cannot work, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {problem}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Name of the inputs.
    pub field: &'static str,
    /// What is wrong with it and what to do.
    pub problem: &'static str,
}

impl SrmConfig {
    /// Settings for a LAN: the documented defaults.
    pub fn lan() -> Self {
        Self {
            timing: Timing::Adaptive,
            group: None,
            body_max: 8_192,
            queue_max: 4 << 20,
            session_interval: Duration::from_secs(1),
            session_bytes_max: 1_400,
            distance_initial: Duration::from_millis(10),
            distance_min: Duration::from_micros(100),
            distance_max: Duration::from_secs(10),
            request_backoff_max: 5,
            request_interval_max: Duration::from_secs(10),
            request_intervals_max: 12,
            repair_hold: 3,
            requests_max: 4_096,
            repairs_max: 4_096,
            store_max: 16 << 20,
            window_max: 16_384,
            catch_up_max: 256,
            sources_max: 1_024,
            source_timeout: Duration::from_secs(600),
            members_max: 4_096,
            member_timeout: Duration::from_secs(15),
        }
    }

    /// What ns-2 has, for the figures of 004: an assumed distance of 1 s, C1 = C2 = 2, D1 = D2 = log10 G.
    pub fn ns2() -> Self {
        Self {
            timing: Timing::LogGroup,
            distance_initial: Duration::from_secs(1),
            request_interval_max: Duration::from_secs(3_600),
            ..Self::lan()
        }
    }

    /// The longest message.
    pub fn message_max(&self) -> usize {
        self.body_max - DATA_HEADER.max(REPAIR_HEADER)
    }

    /// Checks that the settings fit each other. Nothing is corrected silently.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let refuse = |field, problem| Err(ConfigError { field, problem });
        if self.body_max < 256 || self.body_max > 65_000 {
            return refuse("body_max", "must be between 256 and 65000 bytes");
        }
        if self.session_bytes_max < 128 || self.session_bytes_max > 65_000 {
            return refuse("session_bytes_max", "must be between 128 and 65000 bytes");
        }
        if self.session_interval < Duration::from_millis(1) {
            return refuse("session_interval", "must be at least 1 ms");
        }
        if self.distance_min < Duration::from_micros(1) {
            return refuse("distance_min", "must be at least 1 µs, or requests spin");
        }
        let [min, initial, max] = [self.distance_min, self.distance_initial, self.distance_max];
        if initial < min || max < initial || max > Duration::from_secs(3_600) {
            return refuse(
                "distance_initial",
                "must be between distance_min and distance_max, and that at most an hour",
            );
        }
        if self.request_backoff_max > 16 {
            return refuse("request_backoff_max", "must be at most 16 doublings");
        }
        if self.request_interval_max < self.distance_min {
            return refuse("request_interval_max", "must not be below distance_min");
        }
        if self.request_intervals_max < 2 {
            return refuse("request_intervals_max", "must be at least 2");
        }
        if self.window_max < 16 || self.window_max > 1 << 20 {
            return refuse("window_max", "must be between 16 and 1048576 messages");
        }
        if self.catch_up_max > self.window_max {
            return refuse("catch_up_max", "must not exceed window_max");
        }
        let tables = [
            self.requests_max,
            self.repairs_max,
            self.sources_max,
            self.members_max,
        ];
        if tables.contains(&0) {
            return refuse(
                "requests_max",
                "this, repairs_max, sources_max and members_max must be above 0",
            );
        }
        if self.member_timeout < self.session_interval * 2 {
            return refuse("member_timeout", "must be at least twice session_interval");
        }
        self.timing.validate()
    }
}

impl Default for SrmConfig {
    fn default() -> Self {
        Self::lan()
    }
}

#[cfg(test)]
mod tests {
    use super::super::timing::Parameters;
    use super::*;

    #[test]
    fn the_presets_are_valid() {
        assert_eq!(SrmConfig::lan().validate(), Ok(()));
        assert_eq!(SrmConfig::ns2().validate(), Ok(()));
    }

    #[test]
    fn settings_that_cannot_work_are_refused_by_name() {
        let field = |config: SrmConfig| config.validate().map_err(|error| error.field);
        let lan = SrmConfig::lan;
        let spinning = SrmConfig {
            distance_min: Duration::ZERO,
            ..lan()
        };
        assert_eq!(field(spinning), Err("distance_min"));
        let far = SrmConfig {
            distance_initial: Duration::from_secs(11),
            ..lan()
        };
        assert_eq!(field(far), Err("distance_initial"));
        let negative = Parameters {
            c1: -1.0,
            ..Parameters::NS2
        };
        let negative = SrmConfig {
            timing: Timing::Fixed(negative),
            ..lan()
        };
        assert_eq!(field(negative), Err("timing"));
    }
}
