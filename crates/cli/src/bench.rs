//! `groupcast bench`: measurements on a test bed of this machine. Here only the options; the measuring is `lab`'s.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use groupcast_core::Service;
use groupcast_lab::Link;
use groupcast_lab::bench::bulk::report::BulkReport;
use groupcast_lab::bench::bulk::{self, BulkOptions};
use groupcast_lab::bench::report::{Rate, RingReport};
use groupcast_lab::bench::ring::{self, RingOptions, Spinning, Windows};
use groupcast_lab::bench::{BenchError, WORKER, work};
use groupcast_lab::calibrate::Calibration;
use groupcast_lab::calibrate::truth::{self, TruthOptions};
use groupcast_lab::testbed::HOSTS_MAX;

use crate::failure::Failure;

/// Measure throughput and latency between hosts of a test bed on this machine.
///
/// Hosts are network namespaces behind a switch; it needs root, `ip`, `tc` and `nft`, and cleans up after itself.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// The ring: every host sends and receives, beside the raw multicast limit of the same network
    Ring(Ring),
    /// A file to many receivers, beside the raw multicast limit of the same network, TCP and other distributors
    Bulk(Bulk),
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
    #[arg(long, value_name = "SERVICE", default_value_t = Service::Agreed)]
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
    /// Whether members poll their sockets before they sleep; without, as the driver decides by the number of cores
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
    json: bool,
}

#[derive(clap::Args)]
struct Bulk {
    /// Receivers, each on a host of its own
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..HOSTS_MAX as i64))]
    receivers: u8,
    /// Bytes of the file
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = clap::value_parser!(u64).range(1..=bulk::SIZE_MAX))]
    size: u64,
    /// Percent of the frames that reach a receiver and are lost, at random
    #[arg(long, value_name = "PCT", default_value = "0", value_parser = permille)]
    loss: u16,
    /// The wires: none (as fast as the processors copy), 100mbit or 1gbit
    #[arg(long, value_name = "LINK", default_value_t = Link::Unlimited)]
    link: Link,
    /// Whether groupcast has a key; the others never have one
    #[arg(long, value_enum, default_value_t = Encrypt::On)]
    encrypt: Encrypt,
    /// groupcast's protocol, as `groupcast send` takes it
    #[arg(long, value_name = "P", default_value = "auto", value_parser = ["auto", "ack", "nak", "ring", "tree"])]
    protocol: String,
    /// Beside whom, or none. tcp is built in; the others are Debian packages, which are named if they are missing
    #[arg(
        long,
        value_name = "PEER,...",
        value_delimiter = ',',
        default_value = "tcp",
        value_enum
    )]
    peers: Vec<PeerName>,
    /// Runs of everything; medians are printed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    runs: u8,
    /// After so many seconds an attempt has failed
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    limit: u32,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PeerName {
    /// Nobody
    None,
    /// TCP to each receiver: one after the other, and to all at once
    Tcp,
    /// UFTP
    Uftp,
    /// udpcast
    Udpcast,
    /// NORM
    Norm,
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
enum Switch {
    /// Yes
    On,
    /// No
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Protocol {
    /// Most packets follow the token
    Accelerated,
    /// All packets go before the token
    Original,
}

/// Measures and prints the result.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Ring(ring) => {
            let report = ring.measure().map_err(|error| explain(&error))?;
            print(&report, ring.json).map_err(Failure::failed)?;
        }
        What::Bulk(bulk) => {
            let report = bulk.measure().map_err(|error| explain(&error))?;
            print(&report, bulk.json).map_err(Failure::failed)?;
            if !report.is_complete() {
                return Ok(ExitCode::FAILURE);
            }
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
        ring::run(&options, usize::from(self.runs), &executable)
    }
}

impl Bulk {
    fn measure(&self) -> Result<BulkReport, BenchError> {
        let peer = |name: &PeerName| match name {
            PeerName::None => None,
            PeerName::Tcp => Some(bulk::Peer::Tcp),
            PeerName::Uftp => Some(bulk::Peer::Uftp),
            PeerName::Udpcast => Some(bulk::Peer::Udpcast),
            PeerName::Norm => Some(bulk::Peer::Norm),
        };
        let options = BulkOptions {
            receivers: usize::from(self.receivers),
            size: self.size,
            loss_permille: self.loss,
            link: self.link,
            encrypt: self.encrypt == Encrypt::On,
            protocol: self.protocol.clone(),
            peers: self.peers.iter().filter_map(peer).collect(),
            runs: usize::from(self.runs),
            limit: Duration::from_secs(self.limit.into()),
        };
        bulk::run(&options, &executable()?)
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

/// A share in percent, as so many of 1,000.
fn permille(text: &str) -> Result<u16, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=90.0).contains(&percent) => Ok((percent * 10.0).round() as u16),
        _ => Err("must be a number of percent from 0 to 90".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = "must be a number of seconds from 0.1 to 3600";
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(wrong.to_owned()),
    }
}

/// A share in percent, to a tenth, in thousandths.
fn permille(text: &str) -> Result<u16, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=50.0).contains(&percent) => Ok((percent * 10.0).round() as u16),
        _ => Err("must be a number of percent from 0 to 50".to_owned()),
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
        assert!(parse("ring --runs 3 --loss 0.5 --spin off --protocol original").is_ok());
        assert_eq!(permille("1.5"), Ok(15));
        assert!(parse("truth --runs 3 --duration 1 --json").is_ok());
        assert!(parse("calibrate --json").is_ok());
        assert!(
            parse("bulk --receivers 7 --size 1000 --loss 0.5 --peers tcp,uftp --runs 3").is_ok()
        );
        assert!(parse("bulk --peers none --protocol ring --limit 10 --json").is_ok());
        for line in [
            "ring --mode kernel",
            "ring --hosts 1",
            "ring --size 10",
            "ring --rate fast",
            "ring --link 10gbit",
            "ring --service total",
            "ring --duration 0",
            "ring --encrypt maybe",
            "ring --loss 51",
            "ring --spin auto",
            "ring --protocol fast",
            "ring --runs 0",
            "truth --runs 0",
            "calibrate 3",
            "bulk --receivers 64",
            "bulk --size 0",
            "bulk --loss 95",
            "bulk --peers rsync",
            "bulk --protocol total",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
