//! `groupcast bench ring`.

use std::path::Path;
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_bench::measure::BenchError;
use groupcast_bench::measure::report::{Rate, RingReport};
use groupcast_bench::measure::ring::{self, RingOptions, Spinning, Windows};
use groupcast_bench::testbed::HOSTS_MAX;
use groupcast_core::Service;

use super::values::{Switch, permille, seconds};

#[derive(clap::Args)]
pub(super) struct Ring {
    /// Hosts, each of which sends and receives
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=HOSTS_MAX as i64))]
    hosts: u8,
    /// Payload of a message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1350, value_parser = clap::value_parser!(u32).range(ring::SIZE_MIN as i64..=ring::SIZE_MAX as i64))]
    size: u32,
    /// The service of every message
    #[arg(long, value_name = "SERVICE", default_value_t = Service::Agreed, value_parser = of_a_message)]
    service: Service,
    /// How messages reach the ring
    #[arg(long, value_enum, default_value_t = Mode::Daemon)]
    mode: Mode,
    /// Payload offered by all senders together, in Mb/s, or max: as much as the ring takes
    #[arg(long, value_name = "MBPS|max", default_value_t = Rate::Max)]
    rate: Rate,
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
    /// Which ring: accelerated sends on after it has passed the token, original only before
    #[arg(long, value_enum, default_value_t = Protocol::Accelerated)]
    protocol: Protocol,
    /// Frames of 100 that every host loses, at random, of those that reach it, once the ring stands
    #[arg(long, value_name = "PCT", default_value = "0", value_parser = permille)]
    loss: u16,
    /// Measurements; the median of every figure counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    runs: u8,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Through a daemon on every host, one client sending and one receiving
    Daemon,
    /// The ring in one process on every host that sends and receives
    Library,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Protocol {
    /// Most packets follow the token
    Accelerated,
    /// All packets go before the token
    Original,
}

impl Ring {
    pub(super) fn measure(&self, executable: &Path) -> Result<RingReport, BenchError> {
        let options = RingOptions {
            hosts: usize::from(self.hosts),
            size: self.size as usize,
            service: self.service,
            rate: self.rate,
            link: self.link,
            duration: self.duration,
            encrypt: self.encrypt == Switch::On,
            mode: match self.mode {
                Mode::Daemon => ring::Mode::Daemon,
                Mode::Library => ring::Mode::Library,
            },
            windows: Windows {
                accelerated: (self.protocol == Protocol::Original).then_some(0),
                ..Windows::default()
            },
            spin: match self.spin {
                None => Spinning::Auto,
                Some(Switch::On) => Spinning::On,
                Some(Switch::Off) => Spinning::Off,
            },
            loss_permille: self.loss,
        };
        ring::run(&options, usize::from(self.runs), executable)
    }
}

/// A service of the ring's messages.
fn of_a_message(text: &str) -> Result<Service, String> {
    match text.parse() {
        Ok(Service::Bimodal) => Err("the ring does not carry it; see bench gossip".to_owned()),
        Ok(service) => Ok(service),
        Err(error) => Err(format!("{error}")),
    }
}
