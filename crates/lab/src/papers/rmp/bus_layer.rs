//! What MBus II costs above RMP: a model.
//!
//! 000's Table 3 says what share of a process's time its calls took, of sender and receiver. Of the
//! first column alone (version 1, 512 B a packet) everything follows: network calls cost what the
//! host model says, they were this many percent, so the rest cost this much more. Copies are paid a
//! byte, all else a call, and all of it before the packet leaves or is handled. What a step of
//! Table 2 took away is gone from that step on. What each version then reaches is a prediction.

use std::time::Duration;

use groupcast_sim::HostConfig;
use groupcast_sim::host::config::Cost;

/// MBus II after a step of Table 2. Version 14 made the testing programs faster: no model has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Version {
    /// The original, with a loss of 5 %.
    V1,
    /// Without the loss.
    V2,
    /// memcpy for a loop of bytes, no `sprintf`; 4 KB packets.
    V5,
    /// A fifth of the timer calls.
    V8,
    /// 8 KB packets, adaptive time-outs.
    V12,
    /// Without the profiler.
    Final,
}

impl Version {
    /// All of them, in order.
    pub(super) const ALL: [Self; 6] = [
        Self::V1,
        Self::V2,
        Self::V5,
        Self::V8,
        Self::V12,
        Self::Final,
    ];

    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V1 => "1",
            Self::V2 => "2",
            Self::V5 => "5",
            Self::V8 => "8",
            Self::V12 => "12",
            Self::Final => "final",
        }
    }

    /// Bytes of a packet. Table 2's "4KB" and "8KB" are taken for powers of two.
    pub(super) fn size(self) -> u32 {
        match self {
            Self::V1 | Self::V2 => 512,
            Self::V5 | Self::V8 => 4_096,
            Self::V12 | Self::Final => 8_192,
        }
    }

    /// The loss that the original version made itself.
    pub(super) fn loss(self) -> f64 {
        match self {
            Self::V1 => 0.05,
            _ => 0.0,
        }
    }

    /// Whether its time-outs follow the round trip.
    pub(super) fn adapts(self) -> bool {
        self >= Self::V12
    }

    /// A host whose process is MBus II of this version.
    pub(super) fn host(self, plain: &HostConfig) -> HostConfig {
        HostConfig {
            send: dearer(plain.send, self.extra(plain, &SENDER)),
            receive: dearer(plain.receive, self.extra(plain, &RECEIVER)),
            ..plain.clone()
        }
    }

    /// What a call costs beyond the network's part.
    fn extra(self, plain: &HostConfig, profile: &Profile) -> Cost {
        let per_percent = network_calls(plain).div_f64(profile.network);
        let gone = |percent: f64, from: Self| if self >= from { 0.0 } else { percent };
        let copies = gone(profile.byte_loop, Self::V5)
            + match self >= Self::V5 {
                true => profile.byte_loop / FASTER,
                false => 0.0,
            }
            + profile.memcpy;
        let timers = match self >= Self::V8 {
            true => profile.timers / 5.0,
            false => profile.timers,
        };
        let calls = profile.rest
            + timers
            + gone(profile.sprintf, Self::V5)
            + gone(profile.profiler, Self::Final);
        Cost {
            // A packet and its ACK are two calls.
            call: per_percent.mul_f64(calls / 2.0),
            packet: Duration::ZERO,
            kibibyte: per_percent.mul_f64(copies * 1_024.0 / f64::from(Self::V1.size())),
        }
    }
}

/// How much faster `memcpy` is than the loop that it replaced: a word for a byte (ours).
pub(super) const FASTER: f64 = 4.0;
/// Bytes of RMP's and the node's headers, about.
const HEADERS: usize = 100;

/// Percent of a process's time in version 1 (Table 3, first column).
struct Profile {
    /// `sendto`, `recvfrom` and their like: 000's sum.
    network: f64,
    /// `cpy`.
    byte_loop: f64,
    memcpy: f64,
    sprintf: f64,
    /// `ualarm`.
    timers: f64,
    profiler: f64,
    /// `malloc`, `free`, `select`, signals, `gettimeofday`, and all other.
    rest: f64,
}

const SENDER: Profile = Profile {
    network: 16.1,
    byte_loop: 14.0,
    memcpy: 1.2,
    sprintf: 4.6,
    timers: 3.7,
    profiler: 14.6,
    rest: 3.3 + 3.2 + 4.3 + 1.6 + 33.4,
};

const RECEIVER: Profile = Profile {
    network: 15.7,
    byte_loop: 3.8,
    memcpy: 2.3,
    sprintf: 3.0,
    timers: 14.8,
    profiler: 7.2,
    rest: 1.6 + 6.4 + 5.3 + 2.5 + 37.4,
};

/// What a packet of version 1 and its ACK cost a process in network calls.
fn network_calls(plain: &HostConfig) -> Duration {
    let data = Version::V1.size() as usize + HEADERS;
    let of = |cost: Cost, bytes: usize| cost.of(1, 1, bytes as u64);
    of(plain.send, data) + of(plain.receive, HEADERS)
}

fn dearer(cost: Cost, extra: Cost) -> Cost {
    Cost {
        call: cost.call + extra.call,
        packet: cost.packet + extra.packet,
        kibibyte: cost.kibibyte + extra.kibibyte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_spends_on_the_network_what_table_3_says() {
        let plain = HostConfig::sparc_10();
        let host = Version::V1.host(&plain);
        let all = network_calls(&host);
        let share = network_calls(&plain).as_secs_f64() / all.as_secs_f64();
        assert!((0.13..0.19).contains(&share), "{share}");
    }

    #[test]
    fn no_step_makes_a_call_dearer() {
        let plain = HostConfig::sparc_10();
        for pair in Version::ALL.windows(2) {
            let [before, after] = [pair[0], pair[1]].map(|version| version.host(&plain));
            for (before, after) in [(before.send, after.send), (before.receive, after.receive)] {
                assert!(after.of(1, 1, 512) <= before.of(1, 1, 512));
            }
        }
    }
}
