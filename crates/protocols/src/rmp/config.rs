//! Settings of a group that RMP orders. The defaults are right for a LAN; the paper's constants are
//! a preset.

use alloc::format;
use core::time::Duration;

use groupcast_core::mech::delays::Lengths;
use groupcast_core::mech::indices::Indices;
pub use groupcast_core::settings::ConfigError;
use groupcast_core::settings::{Preset, Settings as _, Span, Spec, Value};

#[cfg(feature = "planted-bugs")]
use super::planted::Planted;
use super::wire::DATA_HEADER;

/// The least that [`RmpConfig::body_max`] may be.
pub(super) const BODY_LEAST: usize = 256;

/// No time may be longer, so that sums and multiples of times stay far below the last `Time`.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The most that [`RmpConfig::gap_max`] may be.
pub(super) const GAP_MOST: u32 = 1 << 16;

/// The most that [`RmpConfig::window_max`] may be.
pub(super) const WINDOW_MOST: u32 = 255;

/// Bytes of records in a packet that is one Ethernet frame (000 Fig. 11: MIN_PACKET).
pub(super) const FRAME_RECORDS: usize = 1431 - DATA_HEADER;

/// When the order of a packet is settled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OrderRule {
    /// When its sender is known to know it: what Extended Virtual Synchrony needs.
    Settled,
    /// When its ACK is heard (000 ch. 8).
    Heard,
}

groupcast_core::setting_words! {
    OrderRule { "settled" => Settled, "heard" => Heard }
}

/// To whom a member says what it misses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NackTo {
    /// All, so that it doubles as a sign of congestion (000 ch. 8, flow control).
    Multicast,
    /// The member that it asks, alone (000 Fig. 6).
    Unicast,
}

groupcast_core::setting_words! {
    NackTo { "multicast" => Multicast, "unicast" => Unicast }
}

groupcast_core::settings! {
    /// Settings of a group that RMP orders. All members should have the same.
    #[derive(Clone, PartialEq, Debug)]
    pub struct RmpConfig {
        /// The most bytes of a datagram's body, RMP's headers included. 1431 makes one Ethernet
        /// frame (a UDP payload of 1472) with all headers.
        pub body_max: usize = 1431 => Spec::size(BODY_LEAST as u64, 65_000),
            "Above one frame (MTU less 69): the loss of one fragment loses the whole datagram. Too small: more \
             packets for the same bytes.";
        /// The most bytes of a message.
        pub message_max: usize = 64 << 20 => Spec::size(1, 1 << 30).experimental(),
            "Too small: messages are refused. Too large: a message occupies that much memory at every member.";
        /// Bytes of messages that may wait for the window. A single longer message is taken when
        /// nothing waits.
        pub queue_max: usize = 4 << 20 => Spec::size(0, u64::MAX),
            "Too small: senders wait although the window has room. Too large: memory, and messages wait longer.";
        /// Whether the queue is as short as the window allows: no more may wait than twice what is
        /// sent at a time, 8 KiB at least and `queue_max` at most.
        pub queue_measured: bool = false => Spec::flag(),
            "False: where acknowledgements are slow, messages wait behind all that `queue_max` allows. True: a burst \
             that the window would take in several parts has to be submitted in as many.";
        /// The most members of a configuration; more are left out.
        pub members_max: usize = 128 => Spec::count("members", 1, Indices::MAX as u32),
            "Too small: members stay outside.";
        /// The most packets of a member that have no ACK yet; its window adapts below that (000 ch.
        /// 8). A packet longer than an Ethernet frame counts as several.
        pub window_max: u32 = 64 => Spec::count("packets", 1, WINDOW_MOST),
            "Too small: throughput over long delays. Too large: nothing, where losses show that queues are full.";
        /// One packet at a time: the next one goes when its ACK is heard (000 ch. 8).
        pub stop_and_wait: bool = false => Spec::flag(),
            "True: throughput is a packet a round trip.";
        /// The most packets that one ACK orders. 1 is the paper's.
        pub ack_packets_max: u32 = 64 => Spec::count("packets", 1, 128),
            "Too small: as many ACKs as packets. Too large: nothing; an ACK orders what is there.";
        /// The most positions between what all members are ready for and the newest.
        pub gap_max: u32 = 2048 => Spec::count("positions", 64, GAP_MOST),
            "Too small: one slow member stops the others early. Too large: memory.";
        /// When a packet's order is settled, so that it can be delivered: `settled`, when its
        /// sender is known to know it, or `heard`, when its ACK is heard.
        pub order: OrderRule = OrderRule::Settled => Spec::word(OrderRule::WORDS),
            "`heard` saves a one-way delay; a message may then be delivered at two places, when its sender is cut \
             off in the moment in which it is ordered.";
        /// Whether a NACK is `multicast`, so that the packet's sender slows down, or `unicast`.
        pub nack: NackTo = NackTo::Multicast => Spec::word(NackTo::WORDS),
            "`unicast`: senders do not learn that receivers lose packets.";
        /// How long a member that has taken the token waits for a packet to order before it
        /// confirms.
        pub confirm_after: Duration = Duration::from_millis(1)
            => Spec::time().rule("at most half of timer_min"),
            "Too small: a datagram more for each ACK. Too large: ACKs are sent again although the token was taken.";
        /// How long a token site waits for a packet before it passes the token with a null ACK.
        pub null_ack_after: Duration = Duration::from_millis(25)
            => Spec::interval().rule("at most a quarter of silence_max"),
            "Too small: processor time while nothing happens. Too large: crashes in a silent group are noticed late.";
        /// The same while a message waits for other members to hold it, or its order to be settled.
        pub pass_after: Duration = Duration::from_micros(500)
            => Spec::time().rule("at most a quarter of silence_max"),
            "Too small: null ACKs where a packet was about to come. Too large: safe messages wait that long for each \
             member.";
        /// Whether the token stays where it is after a rotation without packets (000 ch. 8).
        pub quiet: bool = false => Spec::flag(),
            "True: neither crash nor silence is noticed until a member sends.";
        /// The shortest timer of a packet, a token pass or a request.
        pub timer_min: Duration = Duration::from_millis(5) => Spec::interval(),
            "Too small: needless copies. Too large: losses are noticed late.";
        /// The longest, however often it has doubled.
        pub timer_max: Duration = Duration::from_millis(50)
            => Spec::interval().rule("not below timer_min"),
            "Too small: needless copies over long delays. Too large: failures are noticed late.";
        /// How many times a timer may expire before the group is reformed; for a packet while the
        /// token moves, a request and a list twice as many.
        pub tries: u32 = 7 => Spec::count("tries", 1, 100),
            "Too small: losses look like failures. Too large: failures are noticed late.";
        /// A member that hears no ACK for this long reforms the group.
        pub silence_max: Duration = Duration::from_millis(250) => Spec::time(),
            "Too small: a pause of the scheduler reforms the group. Too large: crashes are noticed late.";
        /// How often polls, proposals and what belongs to them are repeated.
        pub poll_interval: Duration = Duration::from_millis(15)
            => Spec::interval().rule("at most a quarter of poll_wait"),
            "Too small: traffic. Too large: a lost poll delays the group.";
        /// A member that has not answered polls for this long is not part of the next
        /// configuration.
        pub poll_wait: Duration = Duration::from_millis(140) => Spec::time(),
            "Too small: members that pause are left out. Too large: a crash stops the group for longer.";
        /// How long the members of a proposed configuration have to exchange what they lack and
        /// accept it.
        pub recover_wait: Duration = Duration::from_millis(400) => Spec::time(),
            "Too small: reformations fail under loss. Too large: a crash in one stops the group for longer.";
        /// The most that a member waits, at random, before it polls again after two polls have met.
        pub abort_delay_max: Duration = Duration::from_millis(40) => Spec::interval(),
            "Too small: they meet again. Too large: reformations take longer.";
        /// A member that hears no other forms a configuration of its own after this long.
        pub alone_after: Duration = Duration::from_millis(100) => Spec::time(),
            "Too small: it forms one that soon merges. Too large: a single member starts late.";
        /// How often a group announces itself, its members taking turns, so that groups that can
        /// reach each other merge.
        pub announce_interval: Duration = Duration::from_millis(200) => Spec::interval(),
            "Too small: traffic. Too large: healed partitions merge late.";
        /// A member that was excluded is not let in again for this long; four times as long each
        /// time that it happens again soon, up to `quarantine_max`.
        pub quarantine_min: Duration = Duration::from_millis(300) => Spec::time(),
            "Too small: a one-way link breaks the group over and over. Too large: a member that recovered waits.";
        /// The longest quarantine, and that of a member that does not answer probes as quickly as
        /// it must. It ends sooner when probes show that something was repaired.
        pub quarantine_max: Duration = Duration::from_secs(60)
            => Spec::time().rule("not below quarantine_min"),
            "As with quarantine_min.";
        /// A graceful leave that cannot finish with the others is finished without them after this
        /// long.
        pub leave_timeout: Duration = Duration::from_secs(1) => Spec::time(),
            "Too small: messages that were accepted last may be lost to the others. Too large: a member ends late.";
        /// A rule that is broken on purpose, so that the checker and the swarm can show that they
        /// find it.
        #[cfg(feature = "planted-bugs")]
        pub planted: Option<Planted> = None;
    }
    presets [
        Preset {
            name: "lan",
            meaning: "a local network, up to 5 ms one way",
            make: RmpConfig::lan,
        },
        Preset {
            name: "wan",
            meaning: "links of up to 100 ms one way: time-outs six times as long, those of single datagrams ten times, \
                      128 packets an ACK",
            make: RmpConfig::wan,
        },
        Preset {
            name: "paper",
            meaning: "the constants of 000 ch. 8: one packet an ACK, order heard, null ACKs after 1 s and then quiet, \
                      timers up to 2 s, 10 tries",
            make: RmpConfig::paper,
        },
    ]
}

impl RmpConfig {
    /// Settings for a LAN, up to 5 ms one way: the documented defaults.
    pub fn lan() -> Self {
        Self::default()
    }

    /// How long a member that was excluded is not let in: the longest time is reached within the
    /// first ten seconds of a fault.
    pub(super) fn quarantines(&self) -> Lengths {
        Lengths {
            min: self.quarantine_min,
            max: self.quarantine_max,
            growth: 4,
        }
    }

    /// Settings for links of up to 100 ms one way: as [`lan`](Self::lan), time-outs six times as
    /// long, those of single datagrams ten times; an ACK, of which there is one each delay, orders
    /// 128 packets.
    pub fn wan() -> Self {
        let lan = Self::lan();
        Self {
            ack_packets_max: 128,
            null_ack_after: lan.null_ack_after * 6,
            timer_min: lan.timer_min * 10,
            timer_max: lan.timer_max * 10,
            silence_max: lan.silence_max * 10,
            poll_interval: lan.poll_interval * 6,
            poll_wait: lan.poll_wait * 6,
            recover_wait: lan.recover_wait * 6,
            abort_delay_max: lan.abort_delay_max * 6,
            alone_after: lan.alone_after * 6,
            announce_interval: lan.announce_interval * 6,
            quarantine_min: lan.quarantine_min * 6,
            quarantine_max: lan.quarantine_max * 2,
            leave_timeout: lan.leave_timeout * 6,
            ..lan
        }
    }

    /// The constants of 000 ch. 8: one packet an ACK, order heard, null ACKs after 1 s and then
    /// quiet, timers up to 2 s, 10 tries.
    pub fn paper() -> Self {
        Self {
            ack_packets_max: 1,
            order: OrderRule::Heard,
            null_ack_after: Duration::from_secs(1),
            pass_after: Duration::from_secs(1),
            quiet: true,
            timer_max: Duration::from_secs(2),
            tries: 10,
            silence_max: Duration::from_secs(20),
            ..Self::lan()
        }
    }

    /// The most bytes of packed records in a packet, where datagrams have `body_max`.
    pub(super) fn records_max(body_max: usize) -> usize {
        body_max - DATA_HEADER
    }

    /// Checks the ranges of the settings, that no time is longer than 30 days, and that they fit
    /// each other. Nothing is corrected.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        for setting in Self::settings() {
            if let Some(Value::Time(time)) = (setting.get)(self)
                && time > LONGEST
            {
                return Err(self.refuse(setting.name, "at most 30 days"));
            }
        }
        let part = |part: &str, name: &str, most: Duration| {
            format!("at most {part} of {name}, {}", Span(most))
        };
        if self.confirm_after > self.timer_min / 2 {
            let allowed = part("half", "timer_min", self.timer_min / 2);
            return Err(self.refuse("confirm_after", allowed));
        }
        for (name, waits) in [
            ("null_ack_after", self.null_ack_after),
            ("pass_after", self.pass_after),
        ] {
            if waits > self.silence_max / 4 {
                let allowed = part("a quarter", "silence_max", self.silence_max / 4);
                return Err(self.refuse(name, allowed));
            }
        }
        if self.poll_interval > self.poll_wait / 4 {
            let allowed = part("a quarter", "poll_wait", self.poll_wait / 4);
            return Err(self.refuse("poll_interval", allowed));
        }
        if self.timer_max < self.timer_min {
            let allowed = format!("at least timer_min, {}", Span(self.timer_min));
            return Err(self.refuse("timer_max", allowed));
        }
        if self.quarantine_max < self.quarantine_min {
            let allowed = format!("at least quarantine_min, {}", Span(self.quarantine_min));
            return Err(self.refuse("quarantine_max", allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_are_valid() {
        for preset in [RmpConfig::lan, RmpConfig::wan, RmpConfig::paper] {
            assert_eq!(preset().validate(), Ok(()));
        }
    }

    #[test]
    fn times_that_no_clock_reaches_are_refused_by_name() {
        type Field = fn(&mut RmpConfig) -> &mut Duration;
        let times: [(&str, Field); 5] = [
            ("announce_interval", |it| &mut it.announce_interval),
            ("timer_max", |it| &mut it.timer_max),
            ("silence_max", |it| &mut it.silence_max),
            ("abort_delay_max", |it| &mut it.abort_delay_max),
            ("leave_timeout", |it| &mut it.leave_timeout),
        ];
        for (name, time) in times {
            let mut config = RmpConfig::lan();
            *time(&mut config) = LONGEST;
            assert_eq!(config.validate(), Ok(()), "{name}");
            for long in [LONGEST + Duration::from_nanos(1), Duration::MAX] {
                *time(&mut config) = long;
                let refused = config.validate().map_err(|error| error.field);
                assert_eq!(refused, Err(name));
            }
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused_by_name() {
        let slow = RmpConfig {
            null_ack_after: Duration::from_secs(1),
            ..RmpConfig::lan()
        };
        let refused = slow.validate().map_err(|error| error.field);
        assert_eq!(refused, Err("null_ack_after"));
        let late = RmpConfig {
            confirm_after: Duration::from_millis(4),
            ..RmpConfig::lan()
        };
        let refused = late.validate().map_err(|error| error.field);
        assert_eq!(refused, Err("confirm_after"));
        // A member that waits for the others with each safe message would look like a silent one.
        let waits = RmpConfig {
            pass_after: Duration::from_millis(63),
            ..RmpConfig::lan()
        };
        let refused = waits.validate().map_err(|error| error.field);
        assert_eq!(refused, Err("pass_after"));
    }

    #[test]
    fn a_setting_that_another_bounds_may_be_as_large_or_as_small_as_that() {
        type Change = fn(&mut RmpConfig, Duration);
        let lan = RmpConfig::lan();
        let bounds: [(&str, Duration, bool, Change); 6] = [
            ("confirm_after", lan.timer_min / 2, true, |it, time| {
                it.confirm_after = time;
            }),
            ("null_ack_after", lan.silence_max / 4, true, |it, time| {
                it.null_ack_after = time;
            }),
            ("pass_after", lan.silence_max / 4, true, |it, time| {
                it.pass_after = time;
            }),
            ("poll_interval", lan.poll_wait / 4, true, |it, time| {
                it.poll_interval = time;
            }),
            ("timer_max", lan.timer_min, false, |it, time| {
                it.timer_max = time;
            }),
            ("quarantine_max", lan.quarantine_min, false, |it, time| {
                it.quarantine_max = time;
            }),
        ];
        for (name, bound, is_most, change) in bounds {
            let mut config = lan.clone();
            change(&mut config, bound);
            assert_eq!(config.validate(), Ok(()), "{name}");
            let step = Duration::from_millis(1);
            change(
                &mut config,
                if is_most { bound + step } else { bound - step },
            );
            let refused = config.validate().map_err(|error| error.field);
            assert_eq!(refused, Err(name));
        }
    }
}
