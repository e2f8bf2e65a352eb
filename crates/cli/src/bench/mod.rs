//! `groupcast bench`: measurements on a test bed of this machine. The options are here, one file
//! for each measurement; `groupcast_lab` measures.

mod bulk;
mod bus;
mod gossip;
mod ring;
mod truth;
mod values;

use std::io::Write as _;
use std::process::ExitCode;

use groupcast_bench::calibrate::Calibration;
use groupcast_bench::measure::{BenchError, WORKER, work};

use self::bulk::Bulk;
use self::bus::Bus;
use self::gossip::Gossip;
use self::ring::Ring;
use self::truth::Truth;
use crate::failure::{Failure, printed};

/// Measure throughput and latency between hosts of a test bed on this machine.
///
/// Hosts are network namespaces behind a switch; it needs root, `ip`, `tc` and `nft`, and cleans up
/// after itself. Only `gossip` needs none of that.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// The ring, or RMP: every host sends and receives, beside the raw multicast limit of the same
    /// network
    Ring(Ring),
    /// Programs at the message bus, beside the binary client or one daemon for all
    Bus(Bus),
    /// Gossip beside perturbed members: one sender, all members in this process with sockets of
    /// their own on loopback
    Gossip(Gossip),
    /// A file to many receivers, beside the raw multicast limit of the same network, TCP and other
    /// distributors
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

/// Measures and prints the result.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    let executable = executable().map_err(|error| explain(&error))?;
    let holds = match args.what {
        What::Ring(ring) => {
            ring.check()?;
            if ring.sweeps() {
                print(ring.sweep(&executable), ring.json)?;
            } else {
                print(ring.measure(&executable), ring.json)?;
            }
            true
        }
        What::Bus(bus) => {
            bus.check()?;
            print(bus.measure(&executable), bus.json)?;
            true
        }
        What::Gossip(gossip) => {
            print(gossip.measure(), gossip.json)?;
            true
        }
        What::Bulk(bulk) => print(bulk.measure(&executable), bulk.json)?.is_complete(),
        What::Calibrate { json } => {
            print(Calibration::measure(&executable), json)?;
            true
        }
        What::Truth(truth) => print(truth.compare(&executable), truth.json)?.holds,
        What::Worker { assignment } => {
            work(&assignment).map_err(Failure::failed)?;
            true
        }
    };
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The path of this executable, for the processes on the hosts.
fn executable() -> Result<std::path::PathBuf, BenchError> {
    std::env::current_exe().map_err(|source| BenchError::Io {
        what: "find this executable",
        source,
    })
}

/// Prints the result, and returns it.
fn print<T: serde::Serialize + std::fmt::Display>(
    measured: Result<T, BenchError>,
    json: bool,
) -> Result<T, Failure> {
    let report = measured.map_err(|error| explain(&error))?;
    let mut stdout = std::io::stdout().lock();
    let written = if json {
        serde_json::to_writer(&mut stdout, &report)
            .map_err(std::io::Error::from)
            .and_then(|()| writeln!(stdout))
    } else {
        writeln!(stdout, "{report}")
    };
    printed(written)?;
    Ok(report)
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
        assert!(parse("ring --protocol rmp --beside accelerated --lone").is_ok());
        assert!(parse("ring --protocol ring --beside rmp --runs 3").is_ok());
        assert!(parse("ring --wakes --rate 115 --clients one --json").is_ok());
        let sweeps = |line| match parse(line).map(|command| command.args.what) {
            Ok(What::Ring(ring)) => ring.sweeps(),
            _ => panic!("{line} is not read"),
        };
        assert!(sweeps("ring --wakes") && !sweeps("ring --wakes --rate max") && !sweeps("ring"));
        assert_eq!(values::permille("1.5"), Ok(15));
        assert!(parse("truth --runs 3 --duration 1 --json").is_ok());
        assert!(parse("calibrate --json").is_ok());
        assert!(parse("bus --hosts 5 --clients 8 --senders 2 --domains 200").is_err());
        assert!(
            parse("bus --clients 8 --syntax sexp-cstream --beside raw --rate 5 --single").is_ok()
        );
        assert!(
            parse("bulk --receivers 7 --size 1000 --loss 0.5 --peers tcp,uftp --runs 3").is_ok()
        );
        assert!(parse("bulk --peers none --protocol ring --limit 10 --json").is_ok());
        assert!(
            parse("gossip --members 8 --perturbed 0 --protocol ring --duration 1 --json").is_ok()
        );
        for line in [
            "ring --mode kernel",
            "ring --hosts 1",
            "ring --size 10",
            "ring --rate fast",
            "ring --clients three",
            "ring --wakes --beside rmp",
            "ring --link 10gbit",
            "ring --service total",
            "ring --service bimodal",
            "ring --duration 0",
            "ring --encrypt maybe",
            "ring --loss 51",
            "ring --spin auto",
            "ring --protocol fast",
            "ring --beside fast",
            "ring --runs 0",
            "truth --runs 0",
            "calibrate 3",
            "gossip --members 1",
            "gossip --members 251",
            "gossip --perturbed 1.1",
            "gossip --sleep -1",
            "gossip --rate 0",
            "gossip --size 10",
            "gossip --protocol srm",
            "bus --clients 0",
            "bus --size 63",
            "bus --syntax raw-sexp",
            "bus --patterns 1001",
            "bus --beside ring",
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
