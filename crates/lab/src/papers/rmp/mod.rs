//! 000: RMP beside unicast systems, on a shared Ethernet (ch. 8–10).
//!
//! RMP is the engine itself, with 000's constants; what it is compared with are models. The files
//! are those of [the skeleton](super), and
//!
//! - `stage`: the Ethernet, the hosts, RMP's settings.
//! - `compare`: RPC and MBus I. `bus_layer`: what MBus II costs above RMP.
//! - `timed`: RMP whose packets are timed.
//! - `transcript`: Fig. 6, packet by packet. `failure`: how long a crash goes unnoticed.
//!
//! What does not come out, and why:
//! - Fig. 14: the order costs less than 1.5 times to one and two destinations. In a ring of two or
//!   three the sender or the destination itself is token site every second or third time, and
//!   nobody waits for an ACK on the wire then: the factor is 2 N / (N + 1), 1.5 from three
//!   destinations on.
//! - Text p. 91: (K + 2)/2 is the law of two stop-and-wait senders, whose packets wait at every
//!   pass; with them it comes out. With eight a packet waits for seven others before its own ACK,
//!   so K adds less; with one each K is a whole round trip, K + 1.
//! - Fig. 15: 81 % in the median, not 70 %. RMP's own work on a packet is not in the host model,
//!   which is calibrated on RPC and TCP alone: 1005 KB/s to one sink where 000 measured 842. In
//!   that proportion it is 68 %.

mod bus_layer;
mod compare;
mod draw;
mod failure;
mod judge;
mod plan;
mod point;
mod sim;
mod stage;
#[cfg(test)]
mod tests;
mod timed;
mod transcript;

use std::ops::Range;

pub use self::transcript::Transcript;

use self::failure::FailurePoint;
use self::point::RmpPoint;
use super::LabHost;
use super::figure::Figure;

/// "3 replications" (ch. 10).
const SEEDS: Range<u64> = 1..4;

/// Aggregate throughput of the ten loads.
pub const FIG12: Figure<RmpPoint> = Figure {
    title: "Aggregate throughput of 1 to 8 sources and sinks",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: plan::loads,
    sweep: None,
    judge: judge::fig12,
    draw: draw::fig12,
};

/// Throughput of a lone sender.
pub const FIG13: Figure<RmpPoint> = Figure {
    title: "Throughput of a lone sender to 1 to 8 destinations",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: plan::throughput,
    sweep: None,
    judge: judge::fig13,
    draw: draw::fig13,
};

/// Latency of a lone sender.
pub const FIG14: Figure<RmpPoint> = Figure {
    title: "Latency of a byte to 1 to 8 destinations",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: plan::latency,
    sweep: None,
    judge: judge::fig14,
    draw: draw::fig14,
};

/// What K costs.
pub const FIG14K: Figure<RmpPoint> = Figure {
    title: "What K-resilience costs under heavy load",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: plan::resilience,
    sweep: None,
    judge: judge::fig14k,
    draw: draw::fig14k,
};

/// Use of the cable under the ten loads.
pub const FIG15: Figure<RmpPoint> = Figure {
    title: "Use of the cable under the ten loads of Fig. 12",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: plan::loads,
    sweep: None,
    judge: judge::fig15,
    draw: draw::fig15,
};

/// MBus II, step by step.
pub const TABLE2: Figure<RmpPoint> = Figure {
    title: "MBus II after each step of its optimisation",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: plan::versions,
    sweep: None,
    judge: judge::table2,
    draw: draw::table2,
};

/// Datagrams a message.
pub const MSGS: Figure<RmpPoint> = Figure {
    title: "Datagrams a message: load and loss",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: plan::messages,
    sweep: None,
    judge: judge::msgs,
    draw: draw::msgs,
};

/// How long a crash goes unnoticed.
pub const FAILURE: Figure<FailurePoint> = Figure {
    title: "How long a crash goes unnoticed",
    hosts: &[LabHost::Sim],
    seeds: 1..9,
    plan: failure::plan,
    sweep: None,
    judge: failure::judge,
    draw: failure::draw,
};
