//! A point of 000's figures: system, sources and sinks, packets, load, and what is measured of it.

use groupcast_core::Service;

use super::super::{Cell, Context, Data, RunError, figure};
use super::bus_layer::Version;
use super::sim;

/// What carries the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum System {
    /// RMP, nothing above it.
    Rmp,
    /// RMP below the Message Bus, as it was after each step of Table 2.
    BusOnRmp(Version),
    /// A server that gets everything over TCP and sends it on over TCP.
    MbusI,
    /// Remote procedure calls to one receiver after the other.
    Rpc,
    /// TCP to a single receiver.
    Tcp,
}

impl System {
    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rmp => "RMP",
            Self::BusOnRmp(_) => "MBus II",
            Self::MbusI => "MBus I",
            Self::Rpc => "RPC",
            Self::Tcp => "TCP",
        }
    }

    /// Which MBus II it is; empty if it is none.
    fn version(self) -> &'static str {
        match self {
            Self::BusOnRmp(version) => version.name(),
            _ => "",
        }
    }
}

/// What sources offer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Load {
    /// A file of this many bytes a source; over when all sinks have all.
    File(u64),
    /// The next packet when the user has its own one back: one at a time.
    InTurn,
    /// The next packet as soon as the one before has its ACK: one at a time.
    Always,
    /// This many packets a second and source.
    Rate(f64),
}

impl Load {
    /// In words.
    pub(super) fn name(self) -> String {
        match self {
            Self::File(bytes) => format!("{} MB", bytes as f64 / 1e6),
            Self::InTurn => "in turn".to_owned(),
            Self::Always => "always".to_owned(),
            Self::Rate(rate) => format!("{rate}/s"),
        }
    }
}

/// One point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RmpPoint {
    pub(super) system: System,
    /// Hosts that send.
    pub(super) sources: usize,
    /// Hosts for which the messages are.
    pub(super) sinks: usize,
    /// Whether the sources are among the sinks.
    pub(super) together: bool,
    /// Bytes of a message, which is one packet.
    pub(super) size: u32,
    pub(super) service: Service,
    pub(super) load: Load,
    /// Probability that a receiver loses a packet of its network.
    pub(super) loss: f64,
}

impl RmpPoint {
    /// A lone source that is no sink.
    pub(super) fn alone(system: System, sinks: usize, size: u32, load: Load) -> Self {
        Self {
            system,
            sources: 1,
            sinks,
            together: false,
            size,
            service: match system {
                System::Rmp | System::BusOnRmp(_) => Service::Agreed,
                System::MbusI | System::Rpc | System::Tcp => Service::Reliable,
            },
            load,
            loss: 0.0,
        }
    }

    /// Sources that are sinks; a lone one and a lone sink are two hosts.
    pub(super) fn among(
        system: System,
        sources: usize,
        sinks: usize,
        size: u32,
        load: Load,
    ) -> Self {
        Self {
            sources,
            together: sinks > 1,
            ..Self::alone(system, sinks, size, load)
        }
    }

    /// The same with another service.
    pub(super) fn service(self, service: Service) -> Self {
        Self { service, ..self }
    }

    /// The same with this much loss.
    pub(super) fn loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    /// How many hosts source or sink are: RMP's ring.
    pub(super) fn members(&self) -> usize {
        match self.together {
            true => self.sinks,
            false => self.sinks + self.sources,
        }
    }

    /// The indices of the hosts that are sinks.
    pub(super) fn sinks_at(&self) -> std::ops::Range<usize> {
        let members = self.members();
        members - self.sinks..members
    }
}

/// What was measured of a point with one seed.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// What a sink gets of all sources together, in KB/s.
    pub(super) throughput: f64,
    /// From the offer to the delivery at the other hosts, in milliseconds.
    pub(super) latency: f64,
    /// From the offer to the first arrival there.
    pub(super) arrival: f64,
    /// From one packet of a source to its next, in milliseconds.
    pub(super) period: f64,
    /// From a packet's leaving to its delivery at its sender, in milliseconds: RMP alone.
    pub(super) returned: f64,
    /// The share of time in which the cable carries frames, collisions aside, in percent.
    pub(super) cable: f64,
    /// Collisions a message.
    pub(super) collisions: f64,
    /// Multicasts a message: data, ACKs, null ACKs, NACKs.
    pub(super) multicasts: f64,
    /// Unicasts a message: Confirms.
    pub(super) unicasts: f64,
    /// Packets and ACKs sent again a message, be it to one or to all.
    pub(super) repairs: f64,
    /// The share of processor time in network calls at the first source, in percent.
    pub(super) network_share: f64,
    /// The same at the last sink.
    pub(super) network_share_sink: f64,
}

impl figure::Point for RmpPoint {
    type Measured = Measured;

    fn conditions(_: &Context<'_>, plan: &[Self], data: &mut Data) {
        sim::conditions(plan, data);
    }

    fn simulate(&self, context: &Context<'_>, seed: u64) -> Result<Measured, RunError> {
        sim::measure(self, seed, context.choose(1.0, 0.2))
    }

    fn on_sockets(_: &Context<'_>, _: &[Self]) -> Result<Vec<(Self, u64, Measured)>, RunError> {
        Err(RunError::Unavailable(
            "000's shared Ethernet exists in the simulator alone".to_owned(),
        ))
    }

    fn columns() -> &'static [(&'static str, &'static str)] {
        &[
            ("system", ""),
            ("version", ""),
            ("sources", ""),
            ("sinks", ""),
            ("members", ""),
            ("size", "B"),
            ("service", ""),
            ("load", ""),
            ("loss", ""),
            ("seed", ""),
            ("throughput", "KB/s"),
            ("latency", "ms"),
            ("arrival", "ms"),
            ("period", "ms"),
            ("returned", "ms"),
            ("cable", "%"),
            ("collisions", "a message"),
            ("multicasts", "a message"),
            ("unicasts", "a message"),
            ("repairs", "a message"),
            ("network calls, source", "%"),
            ("network calls, sink", "%"),
        ]
    }

    fn row(&self, seed: u64, measured: &Measured) -> Vec<Cell> {
        vec![
            self.system.name().into(),
            self.system.version().into(),
            self.sources.into(),
            self.sinks.into(),
            self.members().into(),
            self.size.into(),
            self.service.to_string().into(),
            self.load.name().into(),
            self.loss.into(),
            seed.into(),
            measured.throughput.into(),
            measured.latency.into(),
            measured.arrival.into(),
            measured.period.into(),
            measured.returned.into(),
            measured.cable.into(),
            measured.collisions.into(),
            measured.multicasts.into(),
            measured.unicasts.into(),
            measured.repairs.into(),
            measured.network_share.into(),
            measured.network_share_sink.into(),
        ]
    }

    fn sweep_columns() -> &'static [(&'static str, &'static str)] {
        Self::columns()
    }

    fn sweep_row(&self, measured: &Measured) -> Vec<Cell> {
        self.row(0, measured)
    }
}
