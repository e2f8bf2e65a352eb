//! How fast the wires of a test bed are, and the token buckets that make them so.
//!
//! "1 Gb/s" means what a real wire carries: every frame is charged for preamble, checksum and gap,
//! and segmentation offload is held to one frame at a time, because a token bucket passes a burst
//! of segments whole.

use std::fmt;
use std::str::FromStr;

/// Bytes that a frame costs on the wire beyond what the kernel counts: preamble 8, checksum 4, gap
/// 12.
const FRAME_OVERHEAD: u32 = 24;
/// Bytes that wait at a port of the switch before it drops.
const SWITCH_QUEUE: u32 = 512 * 1024;
/// Frames that wait at a host before it drops: the usual transmit queue of an Ethernet card.
const HOST_QUEUE: u32 = 1000;

/// The wires between hosts and switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// As fast as the machine's processors copy; segments of one send travel as one packet.
    Unlimited,
    /// 10 Mb/s each way.
    Mbit10,
    /// 100 Mb/s each way.
    Mbit100,
    /// 1 Gb/s each way.
    Gbit1,
}

impl Link {
    /// All kinds, by the words of the command line.
    pub const ALL: [Self; 4] = [Self::Unlimited, Self::Mbit10, Self::Mbit100, Self::Gbit1];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unlimited => "none",
            Self::Mbit10 => "10mbit",
            Self::Mbit100 => "100mbit",
            Self::Gbit1 => "1gbit",
        }
    }

    /// Bits per second each way; `None` without a limit.
    pub const fn bits_per_second(self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::Mbit10 => Some(10_000_000),
            Self::Mbit100 => Some(100_000_000),
            Self::Gbit1 => Some(1_000_000_000),
        }
    }

    /// What `ip link set` is told of both ends of a wire.
    pub(super) fn offload_options(self) -> &'static str {
        match self {
            Self::Unlimited => "",
            Self::Mbit10 | Self::Mbit100 | Self::Gbit1 => "gso_max_segs 1",
        }
    }

    /// `tc` commands that limit what a host sends through `device`; empty without a limit.
    pub(super) fn host_queue(self, device: &str) -> String {
        self.bucket(device, HOST_QUEUE * 2048)
            .map(|bucket| {
                format!("{bucket}qdisc add dev {device} parent 1:1 pfifo limit {HOST_QUEUE}\n")
            })
            .unwrap_or_default()
    }

    /// `tc` commands that limit what the switch sends through `device`; empty without a limit.
    pub(super) fn switch_queue(self, device: &str) -> String {
        self.bucket(device, SWITCH_QUEUE).unwrap_or_default()
    }

    fn bucket(self, device: &str, limit: u32) -> Option<String> {
        let rate = self.bits_per_second()?;
        // One millisecond, and never less than a frame.
        let burst = (rate / 8 / 1000).max(2000);
        Some(format!(
            "qdisc add dev {device} root handle 1: tbf rate {rate}bit burst {burst} limit {limit} \
             overhead {FRAME_OVERHEAD}\n"
        ))
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The word names no kind of link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a link: use none, 10mbit, 100mbit or 1gbit")]
pub struct UnknownLink;

impl FromStr for Link {
    type Err = UnknownLink;

    fn from_str(word: &str) -> Result<Self, UnknownLink> {
        Self::ALL
            .into_iter()
            .find(|link| link.name() == word)
            .ok_or(UnknownLink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for link in Link::ALL {
            assert_eq!(link.name().parse(), Ok(link));
        }
        assert_eq!("10gbit".parse::<Link>(), Err(UnknownLink));
    }

    #[test]
    fn the_bucket_holds_a_millisecond() {
        let commands = Link::Mbit100.switch_queue("p1");
        assert!(
            commands.contains("rate 100000000bit burst 12500 limit 524288 overhead 24"),
            "{commands}"
        );
        assert_eq!(Link::Unlimited.host_queue("eth0"), "");
    }
}
