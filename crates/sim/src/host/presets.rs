//! Hosts with a name: the papers' machines, today's, and one that costs nothing.
//!
//! Where a paper prints what its hosts achieve, the numbers follow from that; where it does not,
//! they are estimates from what machines of that year and system are known to need, and said to be.

use std::time::Duration;

use super::config::{BufferLimit, ClientConfig, Cost, Effect, HostConfig};

impl HostConfig {
    /// The named presets: the word for scenario files, and what it is.
    pub const PRESETS: [(&'static str, &'static str); 7] = [
        ("free", "costs nothing and never drops"),
        (
            "swarm",
            "2 µs to receive, 1 µs to send, buffers limited in datagrams",
        ),
        ("vm-2026", "a virtual machine of today, calibrated"),
        (
            "xeon-10g",
            "002: PowerEdge R210 II, protocol as a library of the process",
        ),
        (
            "xeon-10g-daemon",
            "002: the same, a daemon with a sending and a receiving client",
        ),
        ("pentium-650", "001: Pentium III, 650 MHz, Linux 2.2"),
        ("sparc-10", "000: SPARCstation 10, SunOS"),
    ];

    /// The preset of that name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "free" => Self::free(),
            "swarm" => Self::default(),
            "vm-2026" => Self::vm_2026(),
            "xeon-10g" => Self::xeon_10g(),
            "xeon-10g-daemon" => Self::xeon_10g_daemon(),
            "pentium-650" => Self::pentium_650(),
            "sparc-10" => Self::sparc_10(),
            _ => return None,
        })
    }

    /// Costs nothing and never drops: for what is a matter of the network alone.
    pub fn free() -> Self {
        Self {
            receive: Cost::FREE,
            send: Cost::FREE,
            data_buffer: BufferLimit::datagrams(usize::MAX),
            token_buffer: BufferLimit::datagrams(usize::MAX),
            ..Self::default()
        }
    }

    /// A core of a virtual machine of 2026 with the network driver of this project, encryption, and
    /// segmentation offload in software: a wire that carries frames one by one. Receiving and the
    /// turn are calibrated; sending, waking up and messages to clients come from separate probes of
    /// the same kind of machine. How close all that is: `docs/simulator.md`, "Calibration".
    pub fn vm_2026() -> Self {
        Self {
            receive: Cost::nanos(1_180, 0, 370),
            send: Cost::nanos(1_500, 450, 300),
            submit: Cost::nanos(200, 150, 60),
            deliver: Cost::nanos(200, 150, 60),
            wait: Duration::from_nanos(530),
            wake_up: Duration::from_micros(32),
            send_batch: 48,
            segments_max: 48,
            data_buffer: BufferLimit {
                overhead: 832,
                ..BufferLimit::bytes(16 << 20)
            },
            token_buffer: BufferLimit {
                overhead: 832,
                ..BufferLimit::bytes(2 << 20)
            },
            effect: Effect::End,
            ..Self::default()
        }
    }

    /// 002's hosts (Xeon E3-1270v2, 3.5 GHz), protocol and user in one process. The costs are those
    /// that let the library prototype reach what it reached with the accelerated protocol on 10
    /// Gb/s: 4.6 Gb/s with 1,350 B, so 2.35 µs a datagram, and 7.3 Gb/s with 8,850 B, so 9.7 µs.
    /// Interrupts and reassembly run on other cores. What the original protocol reaches on such
    /// hosts, and every latency, is not put in. Waking up takes 5 µs: an estimate.
    pub fn xeon_10g() -> Self {
        Self {
            receive: Cost::nanos(950, 0, 1_000),
            send: Cost::nanos(950, 0, 1_000),
            wait: Duration::from_nanos(1_000),
            wake_up: Duration::from_micros(5),
            data_buffer: BufferLimit::bytes(8 << 20),
            token_buffer: BufferLimit::bytes(1 << 20),
            segments_max: 1,
            effect: Effect::End,
            deliver_first: true,
            ..Self::default()
        }
    }

    /// 002's hosts with a daemon and clients with cores of their own. A message to or from a client
    /// costs the daemon what lets the daemon prototype reach 3.2 Gb/s with 1,350 B and 6 Gb/s with
    /// 8,850 B: about 1 µs more a message.
    pub fn xeon_10g_daemon() -> Self {
        let message = Cost::nanos(0, 650, 150);
        Self {
            submit: message,
            deliver: message,
            clients: Some(ClientConfig {
                submit: message,
                deliver: message,
                wake_up: Duration::from_micros(5),
                batch: 1,
                ..ClientConfig::default()
            }),
            ..Self::xeon_10g()
        }
    }

    /// 001's hosts: Pentium III at 650 MHz, Linux 2.2.16, 100 Mb/s. 001 prints no costs; these are
    /// estimates: a UDP call 12 µs, each frame's interrupt and IP 10 µs, copy and checksum 8 ns a
    /// byte.
    pub fn pentium_650() -> Self {
        let udp = Cost::nanos(12_000, 10_000, 8_000);
        Self {
            receive: udp,
            send: udp,
            wait: Duration::from_micros(5),
            wake_up: Duration::from_micros(10),
            data_buffer: BufferLimit::bytes(64 << 10),
            token_buffer: BufferLimit::bytes(64 << 10),
            segments_max: 1,
            effect: Effect::End,
            ..Self::default()
        }
    }

    /// 000's hosts: SPARCstation 10, SunOS. 000 prints a remote procedure call of 1 ms there and
    /// back, so half a millisecond from a process to another for a small packet; how that divides,
    /// and 60 ns a byte for copies and checksum, are estimates. Its sockets held little: 52,000 B
    /// at most.
    pub fn sparc_10() -> Self {
        let udp = Cost::nanos(130_000, 50_000, 60_000);
        Self {
            receive: udp,
            send: udp,
            wait: Duration::from_micros(40),
            wake_up: Duration::from_micros(40),
            data_buffer: BufferLimit::bytes(52_000),
            token_buffer: BufferLimit::bytes(52_000),
            segments_max: 1,
            effect: Effect::End,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_preset() {
        for (name, _) in HostConfig::PRESETS {
            assert!(HostConfig::named(name).is_some(), "{name}");
        }
        assert_eq!(HostConfig::named("cray-1"), None);
    }

    #[test]
    fn the_papers_hosts_reach_what_the_papers_say() {
        // 002 IV-A: an eighth of all datagrams is a host's own, sent instead of received, at the
        // same price.
        let gbps = |config: &HostConfig, len: usize| {
            let framed = len + 80;
            let ipc = config.deliver.of(0, 1, len as u64) + config.submit.of(0, 1, len as u64) / 8;
            let each = config.receive_cost([framed].into_iter()) + ipc;
            len as f64 * 8.0 / each.as_nanos() as f64
        };
        for (config, len, reached) in [
            (HostConfig::xeon_10g(), 1_350, 4.6),
            (HostConfig::xeon_10g(), 8_850, 7.3),
            (HostConfig::xeon_10g_daemon(), 1_350, 3.2),
            (HostConfig::xeon_10g_daemon(), 8_850, 6.0),
        ] {
            let ours = gbps(&config, len);
            assert!(
                (ours / reached - 1.0).abs() < 0.06,
                "{len} B: {ours:.2} Gb/s, not {reached}"
            );
        }
        // 000: half a millisecond from process to process, less 60 µs on the wire.
        let sparc = HostConfig::sparc_10();
        let one_way = sparc.send_cost([1].into_iter(), 1)
            + sparc.receive_cost([1].into_iter())
            + sparc.wait
            + sparc.wake_up;
        assert!((390..490).contains(&one_way.as_micros()), "{one_way:?}");
    }
}
