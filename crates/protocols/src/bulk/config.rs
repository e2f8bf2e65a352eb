//! Settings of a bulk endpoint. A sender's settings rule a transfer: receivers learn from the
//! announcement what they need to know.

mod collectors;
mod cp;
mod keys;
mod multidriver;
mod xtp;

use alloc::format;
use core::time::Duration;

pub use groupcast_core::settings::ConfigError;
use groupcast_core::settings::{Preset, Settings as _, Span, Spec};

pub use self::collectors::Collectors;
#[cfg(any(test, feature = "planted-bugs"))]
pub(crate) use self::collectors::PlantedInCollectors;
pub use self::cp::Cp;
#[cfg(any(test, feature = "planted-bugs"))]
pub use self::multidriver::PlantedInRounds;
pub use self::multidriver::{Multidriver, Partial};
#[cfg(any(test, feature = "planted-bugs"))]
pub use self::xtp::PlantedInBuckets;
pub use self::xtp::{Control, Damping, Slot, Xtp};
use super::cauchy::SIDE;
use super::wire::{DATA_HEADER, DataHeader, VECTOR};

/// Who acknowledges what, and when (001 section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Every receiver acknowledges every packet.
    Ack,
    /// Receivers ask for what they miss; every `poll`th packet, and the last, is flagged and
    /// acknowledged by all.
    Nak {
        /// Packets from one flagged packet to the next. At most the window; 80–90 % of it is best
        /// on a LAN (001 fig. 12).
        poll: u32,
    },
    /// Receiver k mod N acknowledges packet k once it has all up to k; all acknowledge the last
    /// packet.
    Ring,
    /// Chains of at most `height` receivers: each acknowledges to the one before it what it and all
    /// behind it have; the first of a chain acknowledges to the sender. A height of 1 is
    /// [`Ack`](Self::Ack).
    Tree {
        /// Receivers in a chain.
        height: u32,
    },
    /// The sender knows only the group: who is there answers its requests, and what nobody who
    /// answers misses is released (003 3.3.3).
    Xtp(Xtp),
    /// Rounds: the sender asks, every receiver replies, and the minimum of all is acted on (003
    /// 5.3.1).
    Multidriver(Multidriver),
    /// The same with a list of the receivers, which changes while it runs: every packet says which
    /// subgroups it is for, and replies come as datagrams of their own (003 5.4).
    List(Multidriver),
    /// Polled as [`Nak`](Self::Nak), but a few receivers collect what the others say, and hand it
    /// on together (003 3.3.3). For simulator and laboratory.
    Collectors(Collectors),
    /// A window and a timer for each receiver, which acknowledges every packet; repairs go to those
    /// that miss them, by unicast unless many do (003 3.1.1). For simulator and laboratory.
    Cp(Cp),
}

impl Policy {
    /// The settings of the rounds, if every receiver replies to every request.
    pub fn rounds(&self) -> Option<&Multidriver> {
        match self {
            Self::Multidriver(rule) | Self::List(rule) => Some(rule),
            Self::Ack
            | Self::Nak { .. }
            | Self::Ring
            | Self::Tree { .. }
            | Self::Xtp(_)
            | Self::Collectors(_)
            | Self::Cp(_) => None,
        }
    }

    /// The same in a group of so many receivers, if that is known: slots follow it.
    pub(super) fn in_group_of(mut self, receivers: Option<usize>) -> Self {
        if let Self::Xtp(xtp) = &mut self {
            xtp.control.slot = xtp.control.slot.in_group_of(receivers);
        }
        self
    }

    /// Whether the size of the group changes anything.
    pub fn follows_size(&self) -> bool {
        matches!(self, Self::Xtp(xtp) if matches!(xtp.control.slot, Slot::ForEach(_)))
    }

    /// Whether round trips are those of each receiver by itself, which a rate needs that yields to
    /// others. Chains have none, and where receivers wait before they answer, their waits are in
    /// them.
    pub fn has_round_trips(&self) -> bool {
        matches!(self, Self::Ack | Self::Nak { .. } | Self::Ring)
    }

    /// Whether receivers speak to each other, so that each has to hear all: along chains, or to
    /// those that collect.
    pub fn joins_receivers(&self) -> bool {
        matches!(self, Self::Tree { .. } | Self::Collectors(_))
    }

    /// Whether parity can go with it.
    pub fn takes_parity(&self) -> bool {
        self.rounds().is_none() && !matches!(self, Self::Xtp(_) | Self::Cp(_))
    }
}

/// What is sent again when a packet is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// The packet and all after it (001 section 4); receivers keep nothing that is out of order.
    GoBackN,
    /// The missing packets only.
    Selective,
}

/// What bounds the speed of a sender, besides its window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RateControl {
    /// No limit but the window.
    Window,
    /// So many bytes of datagram bodies a second, repeated ones included.
    Fixed {
        /// Bytes a second; above 0.
        bytes_per_second: u64,
    },
    /// A rate that is found by itself, limited by the slowest receiver that the sender waits for.
    Adaptive {
        /// Never faster than so many bytes a second, if given.
        max: Option<u64>,
        /// How much of a link it takes that others use, too.
        share: Share,
    },
}

/// How much of a link a rate takes that is found by itself, where others use the link, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// As much as there is: it falls for loss alone, and what fills queues instead of losing
    /// packets, like TCP, is left with next to nothing. For a link of one's own.
    All,
    /// As much as a TCP flow takes: it falls for a queue that loses nothing, too. With the policies
    /// `ack`, `nak` and `ring`; the others take all.
    Fair,
    /// What others leave: it gives way to every queue and every loss until next to nothing is left
    /// of it, and comes back when they are gone (a scavenger). With the same policies.
    Rest,
}

impl RateControl {
    /// A rate that is found, and leaves others on the link their share: the default.
    pub const FAIR: Self = Self::Adaptive {
        max: None,
        share: Share::Fair,
    };
    /// A rate that is found, for a link of one's own.
    pub const ALL: Self = Self::Adaptive {
        max: None,
        share: Share::All,
    };
    /// A rate that is found, and takes what others on the link leave.
    pub const BACKGROUND: Self = Self::Adaptive {
        max: None,
        share: Share::Rest,
    };

    /// What can be had with `policy`: without round trips a fair share is all there is.
    pub(super) fn suited_to(self, policy: Policy) -> Self {
        match self {
            Self::Adaptive { .. } if policy.has_round_trips() => self,
            Self::Adaptive { max, .. } => Self::Adaptive {
                max,
                share: Share::All,
            },
            _ => self,
        }
    }
}

/// What happens to a receiver that holds back all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlowPolicy {
    /// The others wait for it.
    Wait,
    /// The others go on, and it is served what it misses after them.
    Demote,
    /// It is given up: its outcome is [`Outcome::Slow`](super::Outcome::Slow).
    Drop,
}

/// How receivers ask for what they miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NakRule {
    /// At once, to the sender, which suppresses repeated repairs (001 section 3).
    Unicast,
    /// To all, after a random delay, unless another receiver has asked for the same by then ("NAK
    /// suppression").
    Multicast {
        /// The longest delay.
        delay_max: Duration,
    },
}

groupcast_core::setting_words! {
    Repair { "go-back-n" => GoBackN, "selective" => Selective }
}

groupcast_core::setting_words! {
    SlowPolicy { "wait" => Wait, "demote" => Demote, "drop" => Drop }
}

groupcast_core::settings! {
    /// Settings of a bulk endpoint.
    #[derive(Clone, PartialEq, Debug)]
    pub struct BulkConfig {
        /// Bytes of the stream in a packet. 1400 make one Ethernet frame with the headers.
        pub packet: usize = 1400 => Spec::size(1, BulkConfig::PACKET_MAX as u64),
            "Above one frame: the loss of a fragment loses all of it. Too small: more packets for the same bytes.";
        /// Packets that the sender may be ahead of the slowest receiver that it waits for, and
        /// keeps for repairs. With the policy `ring`, more than there are receivers.
        pub window: u32 = 1024, keys [keys::WINDOW];
        /// Who acknowledges what. With NAK the default is to poll eight times a window.
        pub policy: Policy = Policy::Nak { poll: 128 }, keys [
            keys::POLICY, keys::POLL, keys::HEIGHT, xtp::EVERY, xtp::CONTROL, xtp::DAMPING, xtp::SLOT,
            xtp::SLOT_EACH, xtp::BUCKETS, xtp::AGREE, xtp::UNANSWERED, multidriver::EVERY, multidriver::PARTIAL,
            multidriver::BACKOFF, multidriver::USE_BACKOFF, collectors::EVERY, collectors::COUNT,
            collectors::WAIT, cp::THRESHOLD, cp::MINIMUM,
        ];
        /// What is sent again.
        pub repair: Repair = Repair::Selective, keys [keys::REPAIR];
        /// Packets of a block for forward error correction: where several receivers lose different
        /// packets, parity is sent that repairs one at each; where they lose much, before they ask.
        /// `None`: lost packets are repeated. With selective repeat only. No parity is sent where
        /// the window is smaller than two blocks.
        pub block: Option<u16> = Some(64), keys [keys::BLOCK];
        /// Whether receivers confirm that they have room before the first data (001 section 4).
        pub reserve: bool = false => Spec::flag(),
            "False: the first packets are lost at a receiver without room. True: a round trip more for each transfer.";
        /// What bounds the speed besides the window.
        pub rate: RateControl = RateControl::FAIR, keys [keys::RATE];
        /// What happens to a receiver that holds back all others: they `wait` for it, it is served
        /// what it misses after them (`demote`), or it is given up (`drop`).
        pub slow: SlowPolicy = SlowPolicy::Demote => Spec::word(SlowPolicy::WORDS),
            "`wait`: one slow receiver makes all slow. `drop`: it gets nothing more.";
        /// How long one receiver, or a few, may hold back all others before it is slow.
        pub slow_after: Duration = Duration::from_secs(1) => Spec::time(),
            "Too small: receivers that pause for a moment are taken for slow. Too large: the others wait.";
        /// How receivers ask for what they miss.
        pub nak: NakRule = NakRule::Unicast, keys [keys::NAK_DELAY];
        /// A receiver does not ask again sooner than this.
        pub nak_interval: Duration = Duration::from_millis(2) => Spec::interval(),
            "Too small: the same is asked for twice. Too large: repairs come late.";
        /// A packet is not repeated sooner than this after it was last sent (001 section 3,
        /// retransmission suppression).
        pub suppression: Option<Duration> = None
            => Spec::time().unset(
                "repeated exactly when a receiver has seen later transmissions and still misses it"
            ),
            "Too small: packets are repeated that are on their way. Too large: repairs come late.";
        /// At a receiver, bytes of a transfer that were handed over and are not consumed, or wait
        /// for their place.
        pub buffer_max: usize = 8 << 20 => Spec::size(0, u64::MAX).rule("at least two packets"),
            "Too small: the sender waits for this receiver. Too large: memory for each transfer.";
        /// Bytes a second that this receiver takes, as it tells a sender that asks (policies
        /// `multidriver`, `list`, `xtp`): no receiver of a transfer gets more than the least of
        /// all.
        pub receive_rate: Option<u64> = None, keys [keys::RECEIVE_RATE];
        /// Bytes that this receiver takes at once, told with `receive_rate`.
        pub receive_burst: usize = 64 << 10 => Spec::size(1500, u32::MAX as u64),
            "Too small: pauses between packets. Too large: losses at a receiver that is slow to read.";
        /// At a sender, bytes of its receivers' replies that may come or that its user is not done
        /// with, of all receivers of a transfer together (policy `multidriver`).
        pub replies_buffer: usize = 256 << 10 => Spec::size(4096, u32::MAX as u64),
            "Too small: replies come one after the other. Too large: they come at once, and overflow the sender's sockets.";
        /// At a receiver, bytes of a reply that wait to be sent, or to be acknowledged.
        pub reply_buffer: usize = 64 << 10 => Spec::size(1, u32::MAX as u64),
            "Too small: a reply waits for its acknowledgements. Too large: memory for each transfer.";
        /// At a sender, replies that are being acknowledged at once, of all its transfers under the
        /// policy `list`, however many receivers there are. One that finds no room is not read,
        /// and comes again.
        pub response_contexts: usize = 16 => Spec::count("replies", 1, 65_535),
            "Too small: replies that come at once are repeated. Too large: memory.";
        /// Transfers in either direction at once; more are refused or not heard.
        pub transfers_max: usize = 64 => Spec::count("transfers", 1, u32::MAX),
            "Too small: transfers are not heard. Too large: memory.";
        /// Receivers of a transfer; more are refused.
        pub receivers_max: usize = 1024 => Spec::count("receivers", 1, 65_535),
            "Too small: receivers are turned away. Too large: memory at the sender.";
        /// A transfer is announced this often until it starts, four times less often afterwards. If
        /// nobody may come any more, its receivers are told every four intervals that the sender is
        /// there, while nothing else is sent.
        pub announce_interval: Duration = Duration::from_millis(50) => Spec::interval(),
            "Too small: traffic. Too large: a lost announcement is repeated late.";
        /// How long required receivers may take to register.
        pub register_within: Duration = Duration::from_secs(30) => Spec::time(),
            "Too small: receivers that start late are left out. Too large: a receiver that never comes stops the \
             transfer for that long.";
        /// How long a transfer to all that are there waits for receivers.
        pub present_within: Duration = Duration::from_secs(1)
            => Spec::time().rule("at least four announce_intervals"),
            "Too small: a lost announcement leaves a receiver out. Too large: each transfer begins that much later.";
        /// The shortest time-out after which a sender asks again.
        pub rto_min: Duration = Duration::from_millis(10)
            => Spec::interval().rule("at most rto_initial"),
            "Too small: pauses cause repeats. Too large: what was lost last is repeated late.";
        /// The time-out before the first round trip was measured.
        pub rto_initial: Duration = Duration::from_millis(100)
            => Spec::time().rule("at most rto_max"),
            "Too small: repeats on long paths. Too large: a loss at the start costs that long.";
        /// The longest time-out: it doubles each time that it passes without progress.
        pub rto_max: Duration = Duration::from_secs(1) => Spec::time(),
            "Too small: traffic to receivers that are gone. Too large: a path that works again is noticed late.";
        /// A receiver that was asked and has not been heard for this long is gone.
        pub vanish_after: Duration = Duration::from_secs(10)
            => Spec::time().rule("at least four times rto_max"),
            "Too small: receivers that pause are given up. Too large: a receiver that is gone stops the others.";
    }
    presets [
        Preset {
            name: "lan",
            meaning: "files on a LAN: selective repeat with parity, a rate that leaves TCP its share, slow receivers demoted",
            make: BulkConfig::lan,
        },
        Preset {
            name: "paper",
            meaning: "001: go-back-N, a reservation first, the window alone, every receiver waited for",
            make: || {
                let lan = BulkConfig::lan();
                BulkConfig::paper(lan.policy, lan.packet, lan.window)
            },
        },
    ]
}

impl BulkConfig {
    /// The most bytes of a transfer's description.
    pub const ABOUT_MAX: usize = 1024;
    /// The most bytes of a packet.
    pub const PACKET_MAX: usize = 65_000;
    /// The most packets of a block: what the code for parity takes.
    pub const BLOCK_MAX: u16 = SIDE as u16;
    /// Control messages are cut to so many bytes, so that each fits into an Ethernet frame.
    pub(super) const CONTROL_MAX: usize = 1400;

    /// Settings for files on a LAN: the documented defaults.
    pub fn lan() -> Self {
        Self::default()
    }

    /// Settings of 001: go-back-N, a reservation before the data, a window and nothing else,
    /// repeated packets suppressed for 20 ms, every receiver waited for; `packet` bytes a packet
    /// and `window` packets.
    pub fn paper(policy: Policy, packet: usize, window: u32) -> Self {
        Self {
            policy,
            repair: Repair::GoBackN,
            block: None,
            packet,
            window,
            reserve: true,
            rate: RateControl::Window,
            slow: SlowPolicy::Wait,
            suppression: Some(Duration::from_millis(20)),
            buffer_max: 64 << 20,
            rto_min: Duration::from_millis(100),
            rto_initial: Duration::from_millis(200),
            ..Self::lan()
        }
    }

    /// Checks the ranges of the settings, and that they fit each other. Nothing is corrected.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        if let Policy::Nak { poll } = self.policy
            && poll > self.window
        {
            let allowed = format!("at most the window, {}", self.window);
            let error = self.refuse("poll", allowed);
            let remedy = format!("{}, or it fills before any receiver is asked", error.remedy);
            return Err(error.with_remedy(remedy));
        }
        self.check_xtp()?;
        self.check_multidriver()?;
        self.check_collectors()?;
        self.check_cp()?;
        if self.block.is_some() && self.repair == Repair::GoBackN {
            let remedy = "leave it out, or use selective repeat: go-back-N repeats everything";
            return Err(self
                .refuse("block", "none with go-back-N")
                .with_remedy(remedy));
        }
        if self.block == Some(0) {
            let remedy = "use at least 1, or none";
            return Err(self.refuse("block", "at least 1").with_remedy(remedy));
        }
        if self.buffer_max < 2 * self.packet {
            let allowed = format!("at least two packets, {} bytes", 2 * self.packet);
            return Err(self.refuse("buffer_max", allowed));
        }
        if self.present_within / 4 < self.announce_interval {
            let least = Span(self.announce_interval * 4);
            let error = self.refuse(
                "present_within",
                format!("at least four announce_intervals, {least}"),
            );
            let remedy = format!(
                "{}, or a lost announcement leaves a receiver out",
                error.remedy
            );
            return Err(error.with_remedy(remedy));
        }
        self.check_rate()?;
        self.check_time_outs()
    }

    fn check_rate(&self) -> Result<(), ConfigError> {
        if matches!(self.rate, RateControl::Adaptive { max: Some(0), .. }) {
            return Err(self.refuse("rate", "a ceiling above 0"));
        }
        let gives_way = matches!(
            self.rate,
            RateControl::Adaptive {
                share: Share::Rest,
                ..
            }
        );
        if gives_way && !self.policy.has_round_trips() {
            let remedy = "use ack, nak or ring, or a number of bits a second";
            return Err(self
                .refuse(
                    "rate",
                    "with a policy that has round trips of each receiver",
                )
                .with_remedy(remedy));
        }
        Ok(())
    }

    /// That the rate has to be found, where nobody answers.
    pub(super) fn refuse_unanswered(&self) -> ConfigError {
        let remedy = "use a number of bits a second: nobody answers, so no rate can be found";
        self.refuse(
            "rate",
            "a number of bits a second on a connection that nobody answers",
        )
        .with_remedy(remedy)
    }

    fn check_xtp(&self) -> Result<(), ConfigError> {
        let Policy::Xtp(xtp) = &self.policy else {
            return Ok(());
        };
        if xtp.every > self.window {
            let allowed = format!("at most the window, {}", self.window);
            return Err(self.refuse("request_every", allowed));
        }
        let (key, slot) = match xtp.control.slot {
            Slot::ForEach(each) => ("slot_each", each),
            fixed => ("slot", fixed.longest()),
        };
        if slot > Duration::from_micros(Xtp::SLOT_MAX_US) {
            return Err(self.refuse(key, "at most 1 s"));
        }
        if self.window >= u32::from(DataHeader::KEPT_UNKNOWN) {
            let allowed = "fewer than 65535 with xtp: requests say how many are kept";
            return Err(self.refuse("window", allowed));
        }
        if self.block.is_some() {
            let remedy = "leave it out: who misses what is not known";
            return Err(self
                .refuse("block", "none with the policy xtp")
                .with_remedy(remedy));
        }
        Ok(())
    }

    fn check_multidriver(&self) -> Result<(), ConfigError> {
        let Some(rule) = self.policy.rounds() else {
            return Ok(());
        };
        if rule.every > self.window {
            let allowed = format!("at most the window, {}", self.window);
            return Err(self.refuse("round_every", allowed));
        }
        if rule.backoff > Duration::from_micros(Multidriver::BACKOFF_MAX_US) {
            return Err(self.refuse("backoff", "at most 1 s"));
        }
        if self.block.is_some() {
            let remedy = "leave it out: what is missing is repeated once a round";
            return Err(self
                .refuse("block", "none with the policies multidriver and list")
                .with_remedy(remedy));
        }
        Ok(())
    }

    fn check_cp(&self) -> Result<(), ConfigError> {
        let is_cp = matches!(self.policy, Policy::Cp(_));
        if is_cp && self.repair == Repair::GoBackN {
            let remedy = "use selective repeat: each receiver gets what it misses";
            return Err(self
                .refuse("repair", "selective with the policy cp")
                .with_remedy(remedy));
        }
        if is_cp && self.block.is_some() {
            let remedy = "leave it out: what is missing is repeated";
            return Err(self
                .refuse("block", "none with the policy cp")
                .with_remedy(remedy));
        }
        Ok(())
    }

    fn check_collectors(&self) -> Result<(), ConfigError> {
        let Policy::Collectors(rule) = &self.policy else {
            return Ok(());
        };
        if rule.every > self.window {
            let allowed = format!("at most the window, {}", self.window);
            return Err(self.refuse("collect_every", allowed));
        }
        if rule.wait > Duration::from_micros(Collectors::WAIT_MAX_US) {
            return Err(self.refuse("collect_wait", "at most 1 s"));
        }
        Ok(())
    }

    fn check_time_outs(&self) -> Result<(), ConfigError> {
        if self.rto_min > self.rto_initial {
            let allowed = format!("at most rto_initial, {}", Span(self.rto_initial));
            return Err(self.refuse("rto_min", allowed));
        }
        if self.rto_initial > self.rto_max {
            let allowed = format!("at most rto_max, {}", Span(self.rto_max));
            return Err(self.refuse("rto_initial", allowed));
        }
        if self.vanish_after / 4 < self.rto_max {
            let least = Span(self.rto_max * 4);
            return Err(self.refuse(
                "vanish_after",
                format!("at least four times rto_max, {least}"),
            ));
        }
        Ok(())
    }

    /// The most bytes of a datagram body: a packet with its header, or a control message.
    pub fn body_max(&self) -> usize {
        let vector = match self.policy {
            Policy::List(_) => VECTOR,
            _ => 0,
        };
        (self.packet + DATA_HEADER + vector).max(Self::CONTROL_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn the_presets_are_valid() {
        assert_eq!(BulkConfig::lan().validate(), Ok(()));
        assert_eq!(BulkConfig::paper(Policy::Ring, 8192, 50).validate(), Ok(()));
    }

    #[test]
    fn what_others_leave_is_found_by_round_trips_only() {
        let with = |policy| BulkConfig {
            policy,
            rate: RateControl::BACKGROUND,
            ..BulkConfig::lan()
        };
        assert_eq!(with(Policy::Ring).validate(), Ok(()));
        let refused = with(Policy::Tree { height: 2 }).validate();
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("use ack, nak or ring"), "{error}");
    }

    #[test]
    fn a_rate_that_is_found_below_nothing_is_refused() {
        let rate = |max| BulkConfig {
            rate: RateControl::Adaptive {
                max: Some(max),
                share: Share::Fair,
            },
            ..BulkConfig::lan()
        };
        assert_eq!(rate(1).validate(), Ok(()));
        let refused = rate(0).validate().map_err(|error| error.field);
        assert_eq!(refused, Err("rate"));
    }

    #[test]
    fn a_poll_interval_beyond_the_window_is_refused_by_name() {
        let config = BulkConfig::paper(Policy::Nak { poll: 21 }, 8192, 20);
        let refused = config.validate().map_err(|error| error.to_string());
        let expected = "poll: 21 is out of range; use at most the window, 20, or it fills before any receiver is asked";
        assert_eq!(refused, Err(expected.into()));
    }
}
