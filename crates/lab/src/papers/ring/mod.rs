//! 002: the Accelerated Ring beside the original one, latency over throughput (Fig. 1–7).
//!
//! A figure is a list of curves, each measured at several loads. The files are those of [the
//! skeleton](super), and `curve`: what can be said of a curve beside another.
//!
//! What does not come out, and why:
//! - Fig. 2, library: at one or two packets a visit the message that waits behind them doubles the
//!   latency, so the curve begins with a fall and "more than all before" is met at once. Its climb
//!   as such begins as the daemon's does.
//! - Fig. 5, Spread, with full queues: where Safe takes delivery off the token's path, original and
//!   accelerated ring are bound by the same processor, whatever the windows, and peak within 1 %;
//!   002 measured 35 % more. At equal latency, which is what 002 compares, the accelerated one is
//!   ahead.
//! - Fig. 7 comes out unless a process takes so long to wake up that data catches up with the token
//!   (see its sweep).

mod curve;
mod draw;
mod judge;
mod net;
mod plan;
mod point;
mod sim;

use std::ops::Range;

use groupcast_core::Service;

use self::point::{Implementation, Point};
use super::LabHost;
use super::figure::Figure;

/// 002 does not say how often it measured a point.
const SEEDS: Range<u64> = 1..4;

/// Agreed, 1 Gb/s.
pub const FIG1: Figure<Point> = Figure {
    title: "Agreed latency and throughput, 1 Gb/s",
    hosts: &[LabHost::Sim, LabHost::Net],
    seeds: SEEDS,
    plan: |quick| plan::gbit1(Service::Agreed, quick),
    sweep: None,
    judge: judge::fig1,
    draw: draw::by_wire,
};

/// Safe, 1 Gb/s.
pub const FIG2: Figure<Point> = Figure {
    title: "Safe latency and throughput, 1 Gb/s",
    hosts: &[LabHost::Sim, LabHost::Net],
    seeds: SEEDS,
    plan: |quick| plan::gbit1(Service::Safe, quick),
    sweep: None,
    judge: judge::fig2,
    draw: draw::by_wire,
};

/// Agreed, 10 Gb/s.
pub const FIG3: Figure<Point> = Figure {
    title: "Agreed latency and throughput, 10 Gb/s",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: |quick| plan::gbit10(Service::Agreed, quick),
    sweep: Some(|quick| plan::windows(Implementation::Daemon, Service::Agreed, quick)),
    judge: judge::fig3,
    draw: draw::by_wire,
};

/// Agreed, 10 Gb/s, two sizes.
pub const FIG4: Figure<Point> = Figure {
    title: "Agreed latency and throughput of 1350 B and 8850 B messages, 10 Gb/s",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: |quick| plan::sizes(Service::Agreed, quick),
    sweep: None,
    judge: judge::fig4,
    draw: draw::by_wire,
};

/// Safe, 10 Gb/s, and what Agreed peaks at.
pub const FIG5: Figure<Point> = Figure {
    title: "Safe latency and throughput, 10 Gb/s",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: plan::safe_beside_agreed,
    sweep: Some(|quick| plan::windows(Implementation::Spread, Service::Safe, quick)),
    judge: judge::fig5,
    draw: draw::by_wire,
};

/// Safe, 10 Gb/s, two sizes.
pub const FIG6: Figure<Point> = Figure {
    title: "Safe latency and throughput of 1350 B and 8850 B messages, 10 Gb/s",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: |quick| plan::sizes(Service::Safe, quick),
    sweep: None,
    judge: judge::fig4,
    draw: draw::by_wire,
};

/// Safe, 10 Gb/s, low loads.
pub const FIG7: Figure<Point> = Figure {
    title: "Safe latency at low throughputs, 10 Gb/s",
    hosts: &[LabHost::Sim],
    seeds: SEEDS,
    plan: plan::low,
    sweep: Some(plan::delays),
    judge: judge::fig7,
    draw: draw::by_wire,
};
