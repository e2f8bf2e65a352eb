//! What a point runs on: one 10 Mb/s Ethernet, hosts that cost what 000's machines do, the settings
//! of RMP, and the sources.

use std::time::Duration;

use groupcast_core::Time;
use groupcast_protocols::rmp::RmpConfig;
use groupcast_sim::HostConfig;
use groupcast_sim::host::config::Cost;
use groupcast_sim::link::{BusSpec, LinkSpec, Loss, QueueLimit};
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::{Kind, Topology};

use super::compare;
use super::point::{Load, RmpPoint, System};

/// When the sources begin: the ring has formed long before.
pub(super) const BEGIN: Duration = Duration::from_secs(10);
/// The largest IP packet of an Ethernet.
const ETHERNET_MTU: u32 = 1_500;
/// Bytes of RMP's headers in a packet with one message, at most.
const HEADERS: usize = 29 + 16;
/// How often a ring announces itself, so that rings that formed at the same time merge (ours). It
/// is not counted.
pub(super) const ANNOUNCE: Duration = Duration::from_secs(1);
/// Longer than a packet and its ACK take with 8 KB on this cable, so that a token site that is busy
/// does not confirm.
const CONFIRM_AFTER: Duration = Duration::from_millis(12);

/// 000's hosts. A call costs what makes a remote procedure call take 1 ms, as 000 prints it.
pub(super) fn sparc() -> HostConfig {
    let udp = Cost::nanos(105_000, 50_000, 60_000);
    HostConfig {
        send: udp,
        receive: udp,
        // A source has its next message ready, and no more.
        offered_max: 1,
        ..HostConfig::sparc_10()
    }
}

/// The same where the kernel does the work: no calls, no process to wake up.
fn kernel() -> HostConfig {
    let plain = sparc();
    let no_call = |cost: Cost| Cost {
        call: Duration::ZERO,
        ..cost
    };
    HostConfig {
        send: no_call(plain.send),
        receive: no_call(plain.receive),
        wait: Duration::ZERO,
        wake_up: Duration::ZERO,
        mtu: compare::PACKET,
        ..plain
    }
}

pub(super) fn host(point: &RmpPoint) -> HostConfig {
    match point.system {
        System::Rmp | System::Rpc => sparc(),
        System::BusOnRmp(version) => version.host(&sparc()),
        System::MbusI | System::Tcp => kernel(),
    }
}

pub(super) fn topology(point: &RmpPoint) -> Topology {
    let mut topology = Topology::new();
    let ethernet = BusSpec::default();
    // A segment of the model is longer than TCP's by what the simulator's nodes and the model put
    // before it. It takes as long as TCP's.
    let frame_time = ethernet.frame_time(ETHERNET_MTU).as_nanos() as u64;
    let bandwidth = match point.system {
        System::MbusI | System::Tcp => {
            let longer = ethernet.frame_time(compare::PACKET).as_nanos() as u64;
            ethernet.bandwidth * longer / frame_time
        }
        _ => ethernet.bandwidth,
    };
    let cable = topology.add(Kind::Bus(BusSpec {
        bandwidth,
        // On a shared cable the simulator's processes do not wait for room in their send buffers.
        queue: QueueLimit::NONE,
        ..ethernet
    }));
    let tap = LinkSpec::ideal(0, Duration::ZERO);
    let server = usize::from(point.system == System::MbusI);
    for _ in 0..point.members() + server {
        let station = topology.add(Kind::Plain);
        topology.connect(cable, station, tap);
        if point.loss > 0.0 {
            let host = topology.add(Kind::Plain);
            let lossy = tap.with_loss(Loss::Rate(point.loss));
            topology.connect_ways(host, station, [tap, lossy]);
            topology.place_host(host);
        } else {
            topology.place_host(station);
        }
    }
    topology
}

pub(super) fn settings(point: &RmpPoint) -> RmpConfig {
    let paper = RmpConfig::paper();
    let fixed = Duration::from_millis(100);
    let timer_min = match point.system {
        System::BusOnRmp(version) if !version.adapts() => fixed,
        _ => CONFIRM_AFTER * 2,
    };
    RmpConfig {
        stop_and_wait: true,
        body_max: (point.size as usize + HEADERS).max(256),
        // One message waits: a packet has one.
        queue_max: 0,
        confirm_after: CONFIRM_AFTER,
        timer_min,
        timer_max: match timer_min == fixed {
            true => fixed,
            false => paper.timer_max,
        },
        announce_interval: ANNOUNCE,
        ..paper
    }
}

pub(super) fn source(point: &RmpPoint, host: usize) -> SourceConfig {
    let (arrivals, count) = match point.load {
        Load::File(bytes) => (Arrivals::Saturate, Some(bytes / u64::from(point.size))),
        Load::Always => (Arrivals::Saturate, None),
        Load::InTurn => (
            Arrivals::Reply {
                to: [host].into(),
                advance: 1,
                due_max: 1,
            },
            None,
        ),
        Load::Rate(rate) => (Arrivals::Constant { rate }, None),
    };
    SourceConfig {
        start: Time::ZERO + BEGIN,
        count,
        ..SourceConfig::new(arrivals, point.size, point.service)
    }
}
