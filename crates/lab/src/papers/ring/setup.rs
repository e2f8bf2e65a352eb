//! What 002's figures are measured on: implementations, protocols, wires, windows, loads.
//!
//! Everything here that 002 prints is cited; the rest is ours, stated in the data's conditions, and swept where a
//! verdict could hang on it.

use groupcast_bench::measure::ring::{Method, Windows};
use groupcast_core::Service;

use super::curve::Key;

/// Hosts (002 IV-A).
pub(super) const HOSTS: usize = 8;

/// How the ring is used (002 IV-A).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Implementation {
    /// One process a host, that sends and receives; its load is set by the personal window.
    Library,
    /// The same at a fixed rate, as the daemons' senders have it: what remains is the cost of clients.
    Paced,
    /// A daemon with a sending and a receiving client.
    Daemon,
    /// The same with what a message costs in Spread, and Spread's priority method (002 III-D).
    Spread,
}

impl Implementation {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Library, Self::Paced, Self::Daemon, Self::Spread];

    /// The word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Paced => "library at a rate",
            Self::Daemon => "daemon",
            Self::Spread => "spread",
        }
    }
}

/// The original ring of Totem, or the accelerated one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    /// Accelerated window 0, second priority method: the token leaves last and is handled last (002 III-D).
    Original,
    /// Accelerated window above 0; first priority method in the prototypes, second in Spread (002 III-D).
    Accelerated,
}

impl Protocol {
    /// Both.
    pub(super) const ALL: [Self; 2] = [Self::Original, Self::Accelerated];

    /// The word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Accelerated => "accelerated",
        }
    }
}

/// A wire's rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wire {
    /// 100 Mb/s, on namespaces only.
    Mbit100,
    /// 1 Gb/s.
    Gbit1,
    /// 10 Gb/s.
    Gbit10,
}

impl Wire {
    /// In Mb/s.
    pub(super) fn mbps(self) -> f64 {
        match self {
            Self::Mbit100 => 100.0,
            Self::Gbit1 => 1_000.0,
            Self::Gbit10 => 10_000.0,
        }
    }
}

/// How much is sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Load {
    /// So much payload by all senders together, in Mb/s, each at a fixed rate.
    Rate(f64),
    /// As much as the ring takes with this personal window: a visit finds as many messages as it may send
    /// (002 IV-A, library). They were handed over when the visit before took theirs: 002 does not say when.
    Window(u32),
}

impl Load {
    /// In words.
    pub(super) fn name(self) -> String {
        match self {
            Self::Rate(mbps) => format!("{mbps} Mb/s"),
            Self::Window(packets) => format!("{packets} a visit"),
        }
    }

    /// What all offer together, in Mb/s, if that is fixed.
    pub(super) fn offered(self) -> Option<f64> {
        match self {
            Self::Rate(mbps) => Some(mbps),
            Self::Window(_) => None,
        }
    }
}

/// One point of one curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Setting {
    pub(super) wire: Wire,
    pub(super) implementation: Implementation,
    pub(super) protocol: Protocol,
    pub(super) service: Service,
    /// Payload of a message in bytes.
    pub(super) size: usize,
    pub(super) load: Load,
    pub(super) open: Open,
}

/// What 002 does not print.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Open {
    /// How long card, driver and interrupt hold a frame back, from host to host, in microseconds.
    pub(super) card: u64,
    /// How long a process that waits takes to run when something comes, in microseconds.
    pub(super) wake_up: u64,
    /// Personal and accelerated window, where a rate sets the load.
    pub(super) windows: (u32, u32),
}

impl Open {
    /// What the figures are measured with. On 1 Gb/s interrupts are moderated, and Spread's latency at 100 Mb/s comes
    /// near the 400 µs that 002 names; 10 Gb/s cards hold little back. A process of real-time priority (002 I) is
    /// quick to run. The windows are Spread's own, and the smallest with which the accelerated ring peaks here too.
    pub(super) fn on(wire: Wire) -> Self {
        Self {
            card: match wire {
                Wire::Mbit100 | Wire::Gbit1 => 50,
                Wire::Gbit10 => 10,
            },
            wake_up: 2,
            windows: (20, 15),
        }
    }
}

impl Setting {
    /// What its curve is of.
    pub(super) fn key(&self) -> Key {
        Key {
            wire: self.wire.mbps(),
            implementation: self.implementation.name().to_owned(),
            protocol: self.protocol.name().to_owned(),
            service: self.service.name().to_owned(),
            size: self.size as f64,
        }
    }

    /// The same on another wire, with as much of it offered.
    pub(super) fn on(&self, wire: Wire) -> Self {
        let load = match self.load {
            Load::Rate(mbps) => Load::Rate(mbps / self.wire.mbps() * wire.mbps()),
            window @ Load::Window(_) => window,
        };
        Self {
            wire,
            load,
            ..*self
        }
    }

    /// The ring's windows: 002 takes the smallest personal window that reaches the most throughput, and the accelerated
    /// window that is best for it; it prints neither ([`Open::windows`]).
    pub(super) fn windows(&self) -> Windows {
        let (personal, accelerated) = match self.load {
            Load::Window(packets) => (packets, packets),
            Load::Rate(_) => self.open.windows,
        };
        let (accelerated, method) = match (self.protocol, self.implementation) {
            (Protocol::Original, _) => (0, Method::Second),
            (Protocol::Accelerated, Implementation::Spread) => (accelerated, Method::Second),
            (Protocol::Accelerated, _) => (accelerated, Method::First),
        };
        Windows {
            personal: Some(personal),
            global: Some(personal * HOSTS as u32),
            accelerated: Some(accelerated),
            method,
        }
    }
}
