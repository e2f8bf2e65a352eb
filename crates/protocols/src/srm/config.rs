//! Settings of an SRM member. All members should have the same.

use alloc::format;
use core::time::Duration;

pub use groupcast_core::settings::ConfigError;
use groupcast_core::settings::{Preset, Setting, Settings as _, Span, Spec, Value};

use super::timing::Timing;
use super::wire::{DATA_HEADER, REPAIR_HEADER};

groupcast_core::settings! {
    /// Settings of an SRM member. All members should have the same.
    #[derive(Clone, PartialEq, Debug)]
    pub struct SrmConfig {
        /// How request and repair timers are drawn.
        pub timing: Timing = Timing::Adaptive, keys [TIMING];
        /// How many members there are, for timers that depend on it (G).
        pub group: Option<u32> = None
            => Spec::count("members", 0, u32::MAX).unset("as many as session messages are heard of"),
            "Too small: many members ask and answer at once. Too large: recovery is slow.";
        /// The most bytes of a datagram's body, SRM's headers included. A message is one datagram,
        /// so it bounds messages too.
        pub body_max: usize = 8_192 => Spec::size(256, 65_000),
            "Too small: messages are refused. Above one Ethernet frame: the loss of a fragment loses all of it.";
        /// Payload bytes that may wait to be sent.
        pub queue_max: usize = 4 << 20 => Spec::size(0, u64::MAX),
            "Too small: senders wait. Too large: memory, and messages wait longer.";
        /// How often a member sends a session message, give or take a tenth (004 5.5).
        pub session_interval: Duration = Duration::from_secs(1)
            => Spec::time_from(Duration::from_millis(1)),
            "Too small: traffic. Too large: the loss of a last message is found late, and distances are old.";
        /// The most bytes of a session message; what does not fit goes into the next ones, in turn.
        pub session_bytes_max: usize = 1_400 => Spec::size(128, 65_000),
            "Too small: losses are found late. Above one frame: the loss of a fragment loses all of it.";
        /// The distance to a member of which none was measured yet; ns-2: 1 s.
        pub distance_initial: Duration = Duration::from_millis(10)
            => Spec::time().rule("from distance_min to distance_max"),
            "Too small: requests and repairs of a wide network are duplicated until session messages have measured it. \
             Too large: the first losses are repaired late.";
        /// No distance is taken for shorter than this. It bounds how fast requests follow each
        /// other.
        pub distance_min: Duration = Duration::from_micros(100)
            => Spec::time_from(Duration::from_micros(1)),
            "Too small: requests follow each other without pause. Too large: repairs come late.";
        /// No distance is taken for longer than this: what a member claims cannot stop recovery.
        pub distance_max: Duration = Duration::from_secs(10) => Spec::time().rule("at most an hour"),
            "Too small: members beyond it ask and answer too early. Too large: one bad estimate holds recovery up.";
        /// A request is backed off this many times at most; the interval then stays (5: ns-2).
        pub request_backoff_max: u32 = 5 => Spec::count("doublings", 0, 16),
            "Too small: requests in vain. Too large: what can be repaired again is asked for late.";
        /// No interval is longer than this, whatever the distance and the back-off. ns-2 has no
        /// such limit.
        pub request_interval_max: Duration = Duration::from_secs(10)
            => Spec::time().rule("at least distance_min"),
            "Too small: requests in vain. Too large: one bad estimate of a distance holds recovery up.";
        /// After this many intervals without a repair a message is given up and reported as a gap.
        /// 12 with the usual back-off are some 800 distances to the source, and never more than 12
        /// times `request_interval_max`.
        pub request_intervals_max: u32 = 12 => Spec::count("intervals", 2, u32::MAX),
            "Too small: losses that another request would have repaired. Too large: messages behind a loss wait.";
        /// After a repair, requests for the same message are ignored for this many distances to the
        /// requestor.
        pub repair_hold: u32 = 3 => Spec::count("distances", 0, u32::MAX),
            "Too small: repairs are duplicated. Too large: a repair that was lost is sent again late.";
        /// The most messages that are asked for at a time; the others wait.
        pub requests_max: usize = 4_096 => Spec::count("messages", 1, u32::MAX),
            "Too small: recovery of a burst takes long. Too large: memory.";
        /// The most messages that repairs are prepared for, or held off, at a time. Further
        /// requests are left to others.
        pub repairs_max: usize = 4_096 => Spec::count("messages", 1, u32::MAX),
            "Too small: requests are left unanswered. Too large: memory.";
        /// Bytes of messages that are kept to answer requests, the oldest dropped first. 0: none
        /// are kept, and only an archive can answer.
        pub store_max: usize = 16 << 20 => Spec::size(0, u64::MAX),
            "Too small: messages that no member can repair. Too large: memory.";
        /// Bytes of FIFO messages that wait for earlier ones of their source, over all sources.
        /// Beyond it those that the most are waiting for are given up.
        pub held_max: usize = 16 << 20 => Spec::size(0, u64::MAX).rule("at least body_max"),
            "Too small: messages are reported as lost that would have been repaired. Too large: memory.";
        /// How far a source's newest message may be ahead of the oldest that is missing; what is
        /// older is given up.
        pub window_max: u64 = 16_384 => Spec::count("messages", 16, 1 << 20),
            "Too small: bursts are reported as lost. Too large: memory.";
        /// How many messages from before it first heard of a source a newcomer asks for.
        pub catch_up_max: u64 = 256 => Spec::count("messages", 0, 1 << 20).rule("at most window_max"),
            "Too small: newcomers miss what was sent. Too large: each newcomer asks for much.";
        /// The most sources that are followed; a new one takes the place of one that was silent for
        /// `source_timeout`, or is ignored.
        pub sources_max: usize = 1_024 => Spec::count("sources", 1, u32::MAX),
            "Too small: messages of others are dropped. Too large: memory.";
        /// How long a source is silent before another may take its place.
        pub source_timeout: Duration = Duration::from_secs(600) => Spec::time(),
            "Too small: a source that pauses begins anew. Too large: new sources are ignored for longer.";
        /// The most members whose distances are kept; more are taken to be at `distance_initial`.
        pub members_max: usize = 4_096 => Spec::count("members", 1, u32::MAX),
            "Too small: requests and repairs are duplicated. Too large: memory.";
        /// A member whose session messages stay away for this long is not counted any more.
        pub member_timeout: Duration = Duration::from_secs(15)
            => Spec::time().rule("at least twice session_interval"),
            "Too small: lost session messages shrink the group. Too large: members that are gone count.";
    }
    presets [
        Preset {
            name: "lan",
            meaning: "a local network, timers that adapt",
            make: SrmConfig::lan,
        },
        Preset {
            name: "ns2",
            meaning: "what ns-2 has, with an assumed distance of 1 s and timers by the logarithm of the group",
            make: SrmConfig::ns2,
        },
    ]
}

const TIMING: Setting<SrmConfig> = Setting {
    name: "timing",
    text: "How request and repair timers are drawn: `log-group`: C1 = C2 = 2, D1 = D2 = log10 G; `sqrt-group`: C1 = D1 = \
           0, C2 = D2 = √G; `adaptive`: adapted to the duplicates and the delays that there were.",
    spec: Spec::word(&["log-group", "sqrt-group", "adaptive"]).unset("as given"),
    wrong: "Fixed timers in a group for which they are not made: duplicates, or slow repairs.",
    get: |config| match config.timing {
        Timing::Fixed(_) => None,
        Timing::LogGroup => Some(Value::Word("log-group")),
        Timing::SqrtGroup => Some(Value::Word("sqrt-group")),
        Timing::Adaptive => Some(Value::Word("adaptive")),
    },
    set: |config, value| {
        config.timing = match value {
            Value::Word("log-group") => Timing::LogGroup,
            Value::Word("sqrt-group") => Timing::SqrtGroup,
            Value::Word("adaptive") => Timing::Adaptive,
            _ => return,
        }
    },
    needs: None,
};

impl SrmConfig {
    /// Settings for a LAN: the documented defaults.
    pub fn lan() -> Self {
        Self::default()
    }

    /// What ns-2 has, for the figures of 004: an assumed distance of 1 s, C1 = C2 = 2, D1 = D2 =
    /// log10 G.
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

    /// Checks the ranges of the settings, and that they fit each other. Nothing is corrected.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        let [min, initial, max] = [self.distance_min, self.distance_initial, self.distance_max];
        if initial < min || max < initial {
            let allowed = format!(
                "distance_min to distance_max, {} to {}",
                Span(min),
                Span(max)
            );
            return Err(self.refuse("distance_initial", allowed));
        }
        if max > Duration::from_secs(3_600) {
            return Err(self.refuse("distance_max", "at most an hour"));
        }
        if self.request_interval_max < min {
            let allowed = format!("at least distance_min, {}", Span(min));
            return Err(self.refuse("request_interval_max", allowed));
        }
        if self.held_max < self.body_max {
            let allowed = format!("at least body_max, {}", self.body_max);
            return Err(self.refuse("held_max", allowed));
        }
        if self.catch_up_max > self.window_max {
            let allowed = format!("at most window_max, {}", self.window_max);
            return Err(self.refuse("catch_up_max", allowed));
        }
        if self.member_timeout / 2 < self.session_interval {
            let least = Span(self.session_interval * 2);
            let allowed = format!("at least twice session_interval, {least}");
            return Err(self.refuse("member_timeout", allowed));
        }
        self.timing.validate()
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
