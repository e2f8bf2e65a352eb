//! `groupcast bench bus`.

use std::path::Path;
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_bench::measure::BenchError;
use groupcast_bench::measure::bus::report::BusReport;
use groupcast_bench::measure::bus::{self, BusOptions, Syntaxes, Via};
use groupcast_bench::measure::report::Rate;
use groupcast_bench::testbed::HOSTS_MAX;
use groupcast_core::Service;
use groupcast_core::family::OrderFamily;

use super::values::{Switch, of_a_message, seconds};
use crate::failure::Failure;
use crate::number::size;
use crate::order;

#[derive(clap::Args)]
pub(super) struct Bus {
    /// Hosts, each with a daemon
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=HOSTS_MAX as i64))]
    hosts: u8,
    /// Programs that receive, spread over the hosts [default: one on each]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=bus::CLIENTS_MAX as i64))]
    clients: Option<u16>,
    /// Programs that send, spread over the hosts [default: one on each]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=bus::CLIENTS_MAX as i64))]
    senders: Option<u16>,
    /// Domains, which messages go to in turn; every receiver accepts all
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    domains: u16,
    /// Patterns of a receiver for each domain, the last of which matches
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=bus::PATTERNS_MAX as i64))]
    patterns: u16,
    /// Bytes of a message as it is sent
    #[arg(long, value_name = "BYTES", default_value_t = 1350, value_parser = |text: &str| size::<u32>(text, bus::SIZE_MIN as u64, bus::SIZE_MAX as u64))]
    size: u32,
    /// What messages are sent in: raw, sexp or cstream; sexp-cstream and cstream-sexp are converted
    /// for every receiver
    #[arg(long, value_name = "SYNTAX", default_value = "raw")]
    syntax: Syntaxes,
    /// The service of every message
    #[arg(long, value_name = "SERVICE", default_value_t = Service::Agreed, value_parser = of_a_message)]
    service: Service,
    /// Offered by all senders together, in Mb/s, or max: as much as is taken
    #[arg(long, value_name = "MBPS|max", default_value_t = Rate::Max)]
    rate: Rate,
    /// The wires: none (as fast as the processors copy), 10mbit, 100mbit or 1gbit
    #[arg(long, value_name = "LINK", default_value_t = Link::Unlimited)]
    link: Link,
    /// One daemon, on the first host, to which all programs connect by TCP, in clear
    #[arg(long)]
    single: bool,
    /// Measure something else too, in turns, on the same hosts
    #[arg(long, value_enum, value_name = "WHAT")]
    beside: Option<Beside>,
    /// What orders messages
    #[arg(long, value_name = "PROTOCOL", default_value = "ring", value_parser = order::parser())]
    protocol: &'static OrderFamily,
    /// How long to count, in seconds, after a second of warm-up
    #[arg(long, value_name = "S", default_value = "4", value_parser = seconds)]
    duration: Duration,
    /// Whether the daemons have a key
    #[arg(long, value_enum, default_value_t = Switch::On)]
    encrypt: Switch,
    /// Measurements; the median of every figure counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    runs: u8,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Beside {
    /// The binary client: messages of the same size to one group
    Binary,
    /// The same messages raw
    Raw,
    /// The same with one pattern
    Pattern,
    /// The same with a daemon on each host, for `--single`
    Distributed,
}

impl Bus {
    /// Refuses options that contradict each other.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let patterns = u32::from(self.patterns) * u32::from(self.domains);
        if patterns as usize > bus::PATTERNS_MAX {
            return Err(Failure::usage(format!(
                "{patterns} patterns for a receiver, which may have {}",
                bus::PATTERNS_MAX
            )));
        }
        if self.beside == Some(Beside::Distributed) && !self.single {
            return Err(Failure::usage(
                "--beside distributed is what --single is compared with",
            ));
        }
        match self.protocol.family.carries(self.service) {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "{} does not carry the service {}",
                self.protocol.name(),
                self.service
            ))),
        }
    }

    pub(super) fn measure(&self, executable: &Path) -> Result<BusReport, BenchError> {
        let options = self.options();
        let beside = self.beside.map(|beside| of(beside, &options));
        bus::run(
            &options,
            beside.as_ref(),
            usize::from(self.runs),
            executable,
        )
    }

    fn options(&self) -> BusOptions {
        let programs = |count: Option<u16>| count.map_or(usize::from(self.hosts), usize::from);
        BusOptions {
            hosts: usize::from(self.hosts),
            receivers: programs(self.clients),
            senders: programs(self.senders),
            domains: usize::from(self.domains),
            patterns: usize::from(self.patterns),
            size: self.size as usize,
            syntaxes: self.syntax,
            service: self.service,
            rate: self.rate,
            link: self.link,
            duration: self.duration,
            encrypt: self.encrypt == Switch::On,
            order: self.protocol,
            via: if self.single { Via::Single } else { Via::Bus },
        }
    }
}

/// The options of the other measurement.
fn of(beside: Beside, options: &BusOptions) -> BusOptions {
    let options = options.clone();
    match beside {
        Beside::Binary => BusOptions {
            via: Via::Binary,
            domains: 1,
            patterns: 1,
            ..options
        },
        Beside::Raw => BusOptions {
            syntaxes: Syntaxes {
                sent: bus::Form::Raw,
                got: bus::Form::Raw,
            },
            ..options
        },
        Beside::Pattern => BusOptions {
            patterns: 1,
            ..options
        },
        Beside::Distributed => BusOptions {
            via: Via::Bus,
            encrypt: false,
            ..options
        },
    }
}
