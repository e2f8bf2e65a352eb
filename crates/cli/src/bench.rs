//! `groupcast bench`: measurements on a test bed of this machine. Here only the options; the measuring is `lab`'s.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use groupcast_core::Service;
use groupcast_lab::Link;
use groupcast_lab::bench::gossip::{self, Carrier, GossipOptions, GossipReport};
use groupcast_lab::bench::report::{Rate, RingReport};
use groupcast_lab::bench::ring::{self, RingOptions, Windows};
use groupcast_lab::bench::{BenchError, WORKER, work};
use groupcast_lab::calibrate::Calibration;
use groupcast_lab::calibrate::truth::{self, TruthOptions};
use groupcast_lab::testbed::HOSTS_MAX;

use crate::failure::Failure;

/// How long members of `bench gossip` are perturbed before it counts.
const GOSSIP_WARM_UP: Duration = Duration::from_secs(2);

/// Measure throughput and latency between hosts of a test bed on this machine.
///
/// Hosts are network namespaces behind a switch; it needs root, `ip`, `tc` and `nft`, and cleans up after itself. Only
/// `gossip` needs none of that.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// The ring: every host sends and receives, beside the raw multicast limit of the same network
    Ring(Ring),
    /// Gossip beside perturbed members: one sender, all members in this process with sockets of their own on loopback
    Gossip(Gossip),
    /// What this machine charges for system calls, packets and bytes, as the simulator takes it
    Calibrate {
        /// Print the result as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// A real ring beside its simulation at three loads, with prices that are measured just before
    Truth(Truth),
    /// One process of a measurement
    #[command(hide = true, name = WORKER[1])]
    Worker {
        /// What it does (JSON)
        assignment: String,
    },
}

#[derive(clap::Args)]
struct Ring {
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
    #[arg(long, value_enum, default_value_t = Encrypt::On)]
    encrypt: Encrypt,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Gossip {
    /// Members, the sender included
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(2..=gossip::MEMBERS_MAX as i64))]
    members: u16,
    /// Messages a second
    #[arg(long, value_name = "MSG/S", default_value = "200", value_parser = per_second)]
    rate: f64,
    /// Payload of a message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 7168, value_parser = clap::value_parser!(u32).range(gossip::SIZE_MIN as i64..=gossip::SIZE_MAX as i64))]
    size: u32,
    /// The share of the members that is perturbed, never the sender
    #[arg(long, value_name = "SHARE", default_value = "0.25", value_parser = share)]
    perturbed: f64,
    /// The probability with which a perturbed member sleeps through an interval of 100 ms
    #[arg(long, value_name = "P", default_value = "0.5", value_parser = share)]
    sleep: f64,
    /// What carries the messages
    #[arg(long, value_enum, default_value_t = Protocol::Pbcast)]
    protocol: Protocol,
    /// How long to count, in seconds, after two seconds of warm-up
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    duration: Duration,
    /// Whether the members have a key
    #[arg(long, value_enum, default_value_t = Encrypt::On)]
    encrypt: Encrypt,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Protocol {
    /// Bimodal Multicast, by gossip
    Pbcast,
    /// The ring, every message safe
    Ring,
    /// A window of messages, acknowledged by every member
    Windowed,
}

#[derive(clap::Args)]
struct Truth {
    /// Measurements of each load; their median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    runs: u8,
    /// How long each counts, in seconds, after a second of warm-up
    #[arg(long, value_name = "S", default_value = "1.5", value_parser = seconds)]
    duration: Duration,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Through a daemon on every host, one client sending and one receiving
    Daemon,
    /// The ring in one process on every host that sends and receives
    Library,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Encrypt {
    /// They encrypt
    On,
    /// They run insecure
    Off,
}

/// Measures and prints the result.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Ring(ring) => {
            let report = ring.measure().map_err(|error| explain(&error))?;
            print(&report, ring.json).map_err(Failure::failed)?;
        }
        What::Gossip(gossip) => {
            let report = gossip.measure().map_err(|error| explain(&error))?;
            print(&report, gossip.json).map_err(Failure::failed)?;
        }
        What::Calibrate { json } => {
            let calibration = executable()
                .and_then(|executable| Calibration::measure(&executable))
                .map_err(|error| explain(&error))?;
            print(&calibration, json).map_err(Failure::failed)?;
        }
        What::Truth(truth) => {
            let report = truth.compare().map_err(|error| explain(&error))?;
            print(&report, truth.json).map_err(Failure::failed)?;
            if !report.holds {
                return Ok(ExitCode::FAILURE);
            }
        }
        What::Worker { assignment } => work(&assignment).map_err(Failure::failed)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Ring {
    fn measure(&self) -> Result<RingReport, BenchError> {
        let executable = executable()?;
        let options = RingOptions {
            hosts: usize::from(self.hosts),
            size: self.size as usize,
            service: self.service,
            rate: self.rate,
            link: self.link,
            duration: self.duration,
            encrypt: self.encrypt == Encrypt::On,
            mode: match self.mode {
                Mode::Daemon => ring::Mode::Daemon,
                Mode::Library => ring::Mode::Library,
            },
            windows: Windows::default(),
        };
        ring::run(&options, &executable)
    }
}

impl Gossip {
    fn measure(&self) -> Result<GossipReport, BenchError> {
        gossip::run(&GossipOptions {
            members: usize::from(self.members),
            rate: self.rate,
            size: self.size as usize,
            perturbed: self.perturbed,
            sleep: self.sleep,
            carrier: match self.protocol {
                Protocol::Pbcast => Carrier::Pbcast,
                Protocol::Ring => Carrier::Ring,
                Protocol::Windowed => Carrier::Windowed,
            },
            warm_up: GOSSIP_WARM_UP,
            duration: self.duration,
            encrypt: self.encrypt == Encrypt::On,
        })
    }
}

impl Truth {
    fn compare(&self) -> Result<truth::TruthReport, BenchError> {
        let options = TruthOptions {
            runs: usize::from(self.runs),
            duration: self.duration,
            ..TruthOptions::default()
        };
        truth::run(&options, &executable()?)
    }
}

/// This very executable, for the processes on the hosts.
fn executable() -> Result<std::path::PathBuf, BenchError> {
    std::env::current_exe().map_err(|source| BenchError::Io {
        what: "find this executable",
        source,
    })
}

fn print<T: serde::Serialize + std::fmt::Display>(report: &T, json: bool) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    if json {
        serde_json::to_writer(&mut stdout, report)?;
        writeln!(stdout)
    } else {
        writeln!(stdout, "{report}")
    }
}

fn explain(error: &BenchError) -> Failure {
    let failure = Failure::failed(error);
    match error {
        BenchError::Unavailable(_) => {
            failure.help("run as root on Linux with iproute2 and nftables installed")
        }
        _ => failure,
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("must be a number from 0 to 1".to_owned()),
    }
}

fn per_second(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.1..=100_000.0).contains(&rate) => Ok(rate),
        _ => Err("must be a number of messages a second from 0.1 to 100000".to_owned()),
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

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = "must be a number of seconds from 0.1 to 3600";
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(wrong.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Command::try_parse_from(["bench"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn what_is_not_built_or_makes_no_sense_is_a_usage_error() {
        assert!(parse("ring --hosts 5 --size 100 --rate 2.5 --link 1gbit --encrypt off").is_ok());
        assert!(parse("ring --mode library").is_ok());
        assert!(parse("truth --runs 3 --duration 1 --json").is_ok());
        assert!(parse("calibrate --json").is_ok());
        assert!(
            parse("gossip --members 8 --perturbed 0 --protocol ring --duration 1 --json").is_ok()
        );
        for line in [
            "ring --mode kernel",
            "ring --hosts 1",
            "ring --size 10",
            "ring --rate fast",
            "ring --link 10gbit",
            "ring --service total",
            "ring --duration 0",
            "ring --encrypt maybe",
            "truth --runs 0",
            "calibrate 3",
            "ring --service bimodal",
            "gossip --members 1",
            "gossip --members 251",
            "gossip --perturbed 1.1",
            "gossip --sleep -1",
            "gossip --rate 0",
            "gossip --size 10",
            "gossip --protocol srm",
            "bulk",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
