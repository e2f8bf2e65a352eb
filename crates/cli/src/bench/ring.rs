//! `groupcast bench ring`.

use std::path::Path;
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_bench::measure::BenchError;
use groupcast_bench::measure::report::{Rate, RingReport};
use groupcast_bench::measure::ring::{self, RingOptions, Spinning, Windows};
use groupcast_bench::measure::wakes::sweep::{self, SweepReport};
use groupcast_bench::testbed::HOSTS_MAX;
use groupcast_core::Service;
use groupcast_core::family::OrderFamily;
use groupcast_protocols::{ring as ring_protocol, rmp};

use super::values::{Switch, of_a_message, permille, seconds};
use crate::failure::Failure;
use crate::number::size;

/// The default number of measurements of each of two protocols.
const BESIDE_RUNS: u8 = 5;

#[derive(clap::Args)]
pub(super) struct Ring {
    /// Hosts, each of which sends and receives
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=HOSTS_MAX as i64))]
    hosts: u8,
    /// Payload of a message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1350, value_parser = |text: &str| size::<u32>(text, ring::SIZE_MIN as u64, ring::SIZE_MAX as u64))]
    size: u32,
    /// The service of every message
    #[arg(long, value_name = "SERVICE", default_value_t = Service::Agreed, value_parser = of_a_message)]
    service: Service,
    /// How messages reach the protocol
    #[arg(long, value_enum, default_value_t = Mode::Daemon)]
    mode: Mode,
    /// Payload offered by all senders together, in Mb/s, or max: as much as is taken [default: max;
    /// with --wakes, one rate after the other from 1 Mb/s to max]
    #[arg(long, value_name = "MBPS|max")]
    rate: Option<Rate>,
    /// The clients of each host's daemon
    #[arg(long, value_enum, default_value_t = Clients::Two)]
    clients: Clients,
    /// Count what the processes do for each message: wakings, context switches, system calls,
    /// rotations of the token, processor time
    #[arg(long, conflicts_with = "beside")]
    wakes: bool,
    /// The wires: none (as fast as the processors copy), 100mbit or 1gbit
    #[arg(long, value_name = "LINK", default_value_t = Link::Unlimited)]
    link: Link,
    /// How long to count, in seconds, after a second of warm-up
    #[arg(long, value_name = "S", default_value = "4", value_parser = seconds)]
    duration: Duration,
    /// Whether the members have a key
    #[arg(long, value_enum, default_value_t = Switch::On)]
    encrypt: Switch,
    /// Whether members poll their sockets before they sleep; without, as the driver decides by the
    /// number of cores
    #[arg(long, value_enum)]
    spin: Option<Switch>,
    /// What orders messages: accelerated (ring is the same word) sends on after it has passed the
    /// token, original only before; rmp rotates a token site
    #[arg(long, value_enum, default_value_t = Protocol::Accelerated)]
    protocol: Protocol,
    /// Measure another protocol too, in turns with the first one, on the same hosts
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    beside: Option<Protocol>,
    /// Let one host send alone, in each run the next one
    #[arg(long)]
    lone: bool,
    /// Frames of 100 that every host loses, at random, of those that reach it, once the ring stands
    #[arg(long, value_name = "PCT", default_value = "0", value_parser = permille)]
    loss: u16,
    /// Measurements; the median of every figure counts [default: 1; 5 with --beside]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    runs: Option<u8>,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Through a daemon on every host, one client sending and one receiving
    Daemon,
    /// The protocol in one process on every host that sends and receives
    Library,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Clients {
    /// One that sends and one that receives
    Two,
    /// One that does both
    One,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Protocol {
    /// The ring: most packets follow the token; `ring` says the same
    #[value(alias = "ring")]
    Accelerated,
    /// The ring: all packets go before the token
    Original,
    /// RMP
    Rmp,
}

impl Protocol {
    fn order(self) -> &'static OrderFamily {
        match self {
            Self::Accelerated | Self::Original => &ring_protocol::ORDER,
            Self::Rmp => &rmp::ORDER,
        }
    }
}

impl Ring {
    /// Refuses a service that one of the protocols does not have.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let mut protocols = [Some(self.protocol), self.beside].into_iter().flatten();
        match protocols.find(|protocol| !protocol.order().family.carries(self.service)) {
            Some(protocol) => Err(Failure::usage(format!(
                "{} does not carry the service {}",
                protocol.order().name(),
                self.service
            ))),
            None => Ok(()),
        }
    }

    /// Whether the user wants one rate after the other.
    pub(super) fn sweeps(&self) -> bool {
        self.wakes && self.rate.is_none()
    }

    /// Measures one rate after the other.
    pub(super) fn sweep(&self, executable: &Path) -> Result<SweepReport, BenchError> {
        let runs = usize::from(self.runs.unwrap_or(1));
        sweep::run(&self.options(self.protocol), runs, executable)
    }

    pub(super) fn measure(&self, executable: &Path) -> Result<RingReport, BenchError> {
        let options = self.options(self.protocol);
        let runs = |usual: u8| usize::from(self.runs.unwrap_or(usual));
        match self.beside {
            None => ring::run(&options, runs(1), executable),
            Some(beside) => {
                let beside = self.options(beside);
                ring::run_beside(&options, &beside, runs(BESIDE_RUNS), executable)
            }
        }
    }

    fn options(&self, protocol: Protocol) -> RingOptions {
        RingOptions {
            hosts: usize::from(self.hosts),
            size: self.size as usize,
            service: self.service,
            rate: self.rate.unwrap_or(Rate::Max),
            link: self.link,
            duration: self.duration,
            encrypt: self.encrypt == Switch::On,
            mode: match self.mode {
                Mode::Daemon => ring::Mode::Daemon,
                Mode::Library => ring::Mode::Library,
            },
            order: protocol.order(),
            windows: Windows {
                accelerated: (protocol == Protocol::Original).then_some(0),
                ..Windows::default()
            },
            spin: match self.spin {
                None => Spinning::Auto,
                Some(Switch::On) => Spinning::On,
                Some(Switch::Off) => Spinning::Off,
            },
            is_lone: self.lone,
            loss_permille: self.loss,
            clients: match self.clients {
                Clients::Two => ring::ClientsOf::Two,
                Clients::One => ring::ClientsOf::One,
            },
            wakes: self.wakes,
        }
    }
}
