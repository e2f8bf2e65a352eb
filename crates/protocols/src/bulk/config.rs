//! Settings of a bulk endpoint. A sender's settings rule a transfer: receivers learn from the announcement what they
//! need to know.

use core::time::Duration;

use super::cauchy::SIDE;
use super::wire::DATA_HEADER;

/// Who acknowledges what, and when (001 section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Every receiver acknowledges every packet.
    Ack,
    /// Receivers ask for what they miss; every `poll`th packet, and the last, is flagged and acknowledged by all.
    Nak {
        /// Packets from one flagged packet to the next. At most the window; 80–90 % of it is best on a LAN (001 fig. 12).
        poll: u32,
    },
    /// Receiver k mod N acknowledges packet k once it has all up to k; all acknowledge the last packet.
    Ring,
    /// Chains of at most `height` receivers: each acknowledges to the one before it what it and all behind it have; the
    /// first of a chain acknowledges to the sender. A height of 1 is [`Ack`](Self::Ack).
    Tree {
        /// Receivers in a chain.
        height: u32,
    },
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
    /// Nothing.
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
        /// Whether it falls for a queue that loses nothing, too: then TCP on the same link gets its share, and a transfer
        /// that is alone takes longer where processors are what one queues for. Else it falls for loss alone, and what
        /// fills queues instead of losing packets, like TCP, is left with little. Default no.
        yields: bool,
    },
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
    /// To all, after a random delay, unless another receiver has asked for the same by then ("NAK suppression").
    Multicast {
        /// The longest delay.
        delay_max: Duration,
    },
}

/// Settings of a bulk endpoint.
#[derive(Clone, PartialEq, Debug)]
pub struct BulkConfig {
    /// Who acknowledges what. Default: NAK, polled eight times a window.
    pub policy: Policy,
    /// What is sent again. Default: the missing packets.
    pub repair: Repair,
    /// Bytes of the stream in a packet. Default 1400: with the headers one Ethernet frame. At most 65,000; above one
    /// frame the loss of a fragment loses all of it.
    pub packet: usize,
    /// Packets that the sender may be ahead of the slowest receiver that it waits for, and keeps for repairs. Default
    /// 1024. More than the receivers' socket buffers take is lost when they are slow.
    pub window: u32,
    /// Whether receivers confirm that they have room before the first data (001 section 4). Default: no.
    pub reserve: bool,
    /// Packets of a block for forward error correction: where several receivers lose different packets, parity is sent
    /// that repairs one at each; where they lose much, before they ask. Default 64. `None`: lost packets are repeated.
    /// With selective repeat only; at most 128. No parity is sent where the window is smaller than two blocks.
    pub block: Option<u16>,
    /// What bounds the speed besides the window. Default: adaptive.
    pub rate: RateControl,
    /// What happens to a slow receiver. Default: demoted.
    pub slow: SlowPolicy,
    /// How long one receiver, or a few, may hold back all others before it is slow. Default 1 s.
    pub slow_after: Duration,
    /// How receivers ask for what they miss. Default: by unicast.
    pub nak: NakRule,
    /// A receiver does not ask again sooner than this. Default 2 ms.
    pub nak_interval: Duration,
    /// A packet is not repeated sooner than this after it was last sent (001 section 3, retransmission suppression).
    /// Default `None`: it is repeated exactly when a receiver has seen later transmissions and still misses it.
    pub suppression: Option<Duration>,
    /// Receiver: bytes of a transfer that were handed over and are not consumed, or wait for their place. Default
    /// 8 MiB; at least two packets. Too small: the sender waits for this receiver.
    pub buffer_max: usize,
    /// Transfers in either direction at once; more are refused or not heard. Default 64.
    pub transfers_max: usize,
    /// Receivers of a transfer; more are refused. Default 1024.
    pub receivers_max: usize,
    /// A transfer is announced this often until it starts, four times less often afterwards. Default 50 ms.
    pub announce_interval: Duration,
    /// How long required receivers may take to register. Default 30 s.
    pub register_within: Duration,
    /// How long a transfer to whoever is there waits for receivers. Default 1 s. At least four `announce_interval`s.
    pub census: Duration,
    /// The shortest time-out after which a sender asks again. Default 10 ms. Too small: pauses cause repeats.
    pub rto_min: Duration,
    /// The time-out before the first round trip was measured. Default 100 ms.
    pub rto_initial: Duration,
    /// The longest time-out: it doubles each time that it passes without progress. Default 1 s.
    pub rto_max: Duration,
    /// Who was asked and has not been heard for this long is gone. Default 10 s. At least four times `rto_max`.
    pub vanish_after: Duration,
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

impl BulkConfig {
    /// The most bytes of a transfer's description.
    pub const ABOUT_MAX: usize = 1024;
    /// The most bytes of a packet.
    pub const PACKET_MAX: usize = 65_000;

    /// The most packets of a block: what the code for parity takes.
    pub const BLOCK_MAX: u16 = SIDE as u16;

    /// Settings for files on a LAN: the documented defaults.
    pub fn lan() -> Self {
        Self {
            policy: Policy::Nak { poll: 128 },
            repair: Repair::Selective,
            packet: 1400,
            window: 1024,
            reserve: false,
            block: Some(64),
            rate: RateControl::Adaptive {
                max: None,
                yields: false,
            },
            slow: SlowPolicy::Demote,
            slow_after: Duration::from_secs(1),
            nak: NakRule::Unicast,
            nak_interval: Duration::from_millis(2),
            suppression: None,
            buffer_max: 8 << 20,
            transfers_max: 64,
            receivers_max: 1024,
            announce_interval: Duration::from_millis(50),
            register_within: Duration::from_secs(30),
            census: Duration::from_secs(1),
            rto_min: Duration::from_millis(10),
            rto_initial: Duration::from_millis(100),
            rto_max: Duration::from_secs(1),
            vanish_after: Duration::from_secs(10),
        }
    }

    /// Settings of 001: go-back-N, a reservation before the data, a window and nothing else, repeated packets
    /// suppressed for 20 ms, everybody waited for; `packet` bytes a packet and `window` packets.
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

    /// Checks that the settings fit each other. Nothing is corrected silently.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let refuse = |field, problem| Err(ConfigError { field, problem });
        if self.packet < 1 || self.packet > Self::PACKET_MAX {
            return refuse("packet", "must be between 1 and 65000 bytes");
        }
        if self.window < 1 || self.window > 1 << 20 {
            return refuse("window", "must be between 1 and 1048576 packets");
        }
        match self.policy {
            Policy::Nak { poll } if poll < 1 || poll > self.window => {
                return refuse(
                    "policy",
                    "the poll interval must be between 1 and the window, or the window fills before anybody is asked",
                );
            }
            Policy::Tree { height: 0 } => {
                return refuse("policy", "a tree has a height of at least 1");
            }
            _ => {}
        }
        if self.rate
            == (RateControl::Fixed {
                bytes_per_second: 0,
            })
        {
            return refuse("rate", "a rate of 0 lets nothing be sent");
        }
        if let Some(block) = self.block {
            if self.repair == Repair::GoBackN {
                return refuse(
                    "block",
                    "go-back-N repeats everything: parity needs selective repeat",
                );
            }
            if !(1..=Self::BLOCK_MAX).contains(&block) {
                return refuse("block", "must be between 1 and 128 packets");
            }
        }
        if self.buffer_max < 2 * self.packet {
            return refuse("buffer_max", "must hold at least two packets");
        }
        if self.transfers_max < 1 || self.receivers_max < 1 || self.receivers_max > 65_535 {
            return refuse(
                "receivers_max",
                "there must be room for a transfer, and for 1 to 65535 receivers",
            );
        }
        if self.announce_interval.is_zero() || self.nak_interval.is_zero() {
            return refuse("announce_interval", "intervals must be above 0");
        }
        if self.census < self.announce_interval * 4 {
            return refuse(
                "census",
                "must be at least four announce_intervals, or a lost announcement leaves out who is there",
            );
        }
        if self.rto_min.is_zero()
            || self.rto_initial < self.rto_min
            || self.rto_max < self.rto_initial
        {
            return refuse(
                "rto_min",
                "must be above 0, not above rto_initial, and that not above rto_max",
            );
        }
        if self.vanish_after < self.rto_max * 4 {
            return refuse("vanish_after", "must be at least four times rto_max");
        }
        Ok(())
    }

    /// The most bytes of a datagram body: a packet with its header, or a control message.
    pub fn body_max(&self) -> usize {
        (self.packet + DATA_HEADER).max(Self::CONTROL_MAX)
    }

    /// Control messages are cut to so many bytes, so that each fits into an Ethernet frame.
    pub(super) const CONTROL_MAX: usize = 1400;
}

impl Default for BulkConfig {
    fn default() -> Self {
        Self::lan()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_are_valid() {
        assert_eq!(BulkConfig::lan().validate(), Ok(()));
        assert_eq!(BulkConfig::paper(Policy::Ring, 8192, 50).validate(), Ok(()));
    }

    #[test]
    fn a_poll_interval_beyond_the_window_is_refused_by_name() {
        let config = BulkConfig::paper(Policy::Nak { poll: 21 }, 8192, 20);
        let refused = config.validate().map_err(|error| error.field);
        assert_eq!(refused, Err("policy"));
    }
}
