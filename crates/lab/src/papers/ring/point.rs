//! A point of 002's figures: implementation, protocol, wire, windows, load, and what is measured of
//! it.
//!
//! Everything here that 002 prints is cited; the rest is ours, stated in the data's conditions, and
//! swept where a verdict could hang on it.

use groupcast_bench::measure::ring::{Method, Windows};
use groupcast_core::Service;

use super::super::{Cell, Context, Data, LabHost, RunError, figure};
use super::{net, sim};

/// Hosts (002 IV-A).
pub(super) const HOSTS: usize = 8;

/// How the ring is used (002 IV-A).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Implementation {
    /// One process a host, that sends and receives; its load is set by the personal window.
    Library,
    /// The same at a fixed rate, as the daemons' senders have it: what remains is the cost of
    /// clients.
    Paced,
    /// A daemon with a sending and a receiving client.
    Daemon,
    /// The same with what a message costs in Spread, and Spread's priority method (002 III-D).
    Spread,
}

impl Implementation {
    /// All implementations.
    pub(super) const ALL: [Self; 4] = [Self::Library, Self::Paced, Self::Daemon, Self::Spread];

    /// Its name in tables.
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
    /// Accelerated window 0, second priority method: the token leaves last and is handled last (002
    /// III-D).
    Original,
    /// Accelerated window above 0; first priority method in the prototypes, second in Spread (002
    /// III-D).
    Accelerated,
}

impl Protocol {
    /// Both protocols.
    pub(super) const ALL: [Self; 2] = [Self::Original, Self::Accelerated];

    /// Its name in tables.
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
    /// This much payload by all senders together, in Mb/s, each at a fixed rate.
    Rate(f64),
    /// As much as the ring takes with this personal window: a visit finds as many messages as it
    /// may send (002 IV-A, library). They were handed over when the visit before took theirs: 002
    /// does not say when.
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
pub struct Point {
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
    /// What the figures are measured with. On 1 Gb/s interrupts are moderated, and Spread's latency
    /// at 100 Mb/s comes near the 400 µs that 002 names; 10 Gb/s cards hold little back. A process
    /// of real-time priority (002 I) is quick to run. The windows are Spread's own, and the
    /// smallest with which the accelerated ring peaks here too.
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

impl Point {
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

    /// The ring's windows: 002 takes the smallest personal window that reaches the most throughput,
    /// and the accelerated window that is best for it; it prints neither ([`Open::windows`]).
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

/// What was measured of a point with one seed.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Payload that a receiver gets, in Mb/s.
    pub(super) throughput: f64,
    /// The mean of all messages at all receivers, in microseconds.
    pub(super) latency: f64,
    /// 99 of 100 latencies are below, in microseconds.
    pub(super) latency_99: f64,
    /// A rotation of the token, in microseconds; not a number where tokens are not counted.
    pub(super) rotation: f64,
    /// Packets multicast again.
    pub(super) again: u64,
    /// Datagrams dropped at full queues and sockets.
    pub(super) dropped: u64,
}

impl figure::Point for Point {
    type Measured = Measured;

    fn conditions(context: &Context<'_>, plan: &[Self], data: &mut Data) {
        data.condition("hosts", HOSTS);
        match context.options().host {
            LabHost::Net => net::conditions(context, data),
            LabHost::Sim | LabHost::Calc => sim::conditions(plan, data),
        }
    }

    fn simulate(&self, context: &Context<'_>, seed: u64) -> Result<Measured, RunError> {
        sim::measure(self, seed, context.choose(1.0, 0.5))
    }

    fn on_sockets(
        context: &Context<'_>,
        plan: &[Self],
    ) -> Result<Vec<(Self, u64, Measured)>, RunError> {
        net::measure_all(context, plan)
    }

    fn columns() -> &'static [(&'static str, &'static str)] {
        &[
            ("wire", "Mb/s"),
            ("implementation", ""),
            ("protocol", ""),
            ("service", ""),
            ("size", "B"),
            ("load", ""),
            ("offered", "Mb/s"),
            ("seed", ""),
            ("throughput", "Mb/s"),
            ("latency", "µs"),
            ("99 % latency", "µs"),
            ("rotation", "µs"),
            ("sent again", ""),
            ("dropped", ""),
        ]
    }

    fn row(&self, seed: u64, measured: &Measured) -> Vec<Cell> {
        vec![
            self.wire.mbps().into(),
            self.implementation.name().into(),
            self.protocol.name().into(),
            self.service.to_string().into(),
            self.size.into(),
            self.load.name().into(),
            self.load.offered().unwrap_or(f64::NAN).into(),
            seed.into(),
            measured.throughput.into(),
            measured.latency.into(),
            measured.latency_99.into(),
            measured.rotation.into(),
            measured.again.into(),
            measured.dropped.into(),
        ]
    }

    fn sweep_columns() -> &'static [(&'static str, &'static str)] {
        &[
            ("card", "µs"),
            ("wake-up", "µs"),
            ("personal window", ""),
            ("implementation", ""),
            ("protocol", ""),
            ("service", ""),
            ("load", "Mb/s"),
            ("throughput", "Mb/s"),
            ("latency", "µs"),
        ]
    }

    fn sweep_row(&self, measured: &Measured) -> Vec<Cell> {
        vec![
            self.open.card.into(),
            self.open.wake_up.into(),
            self.open.windows.0.into(),
            self.implementation.name().into(),
            self.protocol.name().into(),
            self.service.to_string().into(),
            self.load.offered().unwrap_or(f64::NAN).into(),
            measured.throughput.into(),
            measured.latency.into(),
        ]
    }
}
