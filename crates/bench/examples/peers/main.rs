//! Other systems that order messages, beside the ring: same hosts, same wires, same load, one run
//! after the other on one bed. Called by `cargo xtask bench --peers`, which installs them and makes
//! the table.
//!
//! - [`corosync`]: a daemon a host, with a client in C; [`jgroups`]: a member a host, in Java. Each
//!   is run with the settings that it comes with, and without encryption, while the ring encrypts.
//! - [`system`]: what is the same for both: clients that count what they get, a window, one order.
//!
//! One JSON object a line goes to standard output for each row.

mod corosync;
mod jgroups;
mod system;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use groupcast_bench::measure::report::Rate;
use groupcast_bench::measure::ring::{self, ClientsOf, Mode, RingOptions, Spinning, Windows};
use groupcast_bench::measure::{WORKER, raw, work};
use groupcast_bench::{Link, Testbed};
use groupcast_core::Service;
use groupcast_protocols::ring::ORDER;
use serde_json::{Value, json};

use self::corosync::{Corosync, Transport};
use self::jgroups::JGroups;
use self::system::{Load, System};

type Failure = Box<dyn std::error::Error>;
/// Another system by name, or why it is not here.
type Peer = (&'static str, Result<Box<dyn System>, Failure>);

const SIZE: usize = 1350;
/// The rate at which latency is measured, in Mb/s of all senders together.
const MODEST: f64 = 5.0;

/// What is measured.
struct Options {
    hosts: usize,
    link: Link,
    duration: Duration,
    runs: usize,
    /// The binary `groupcast`.
    groupcast: PathBuf,
    /// JGroups' jar, if it could be had.
    jgroups: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match &args[..] {
        [first, second, assignment] if [first.as_str(), second.as_str()] == WORKER => {
            work(assignment).map_err(Failure::from)
        }
        [flag, ..] if flag == "--hosts" => Options::parse(&args).and_then(|options| run(&options)),
        _ => Err("other systems are measured by `cargo xtask bench --peers`".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Options {
    /// `--hosts N --link L --duration S --runs N --groupcast FILE [--jgroups JAR]`
    fn parse(args: &[String]) -> Result<Self, Failure> {
        let value = |option: &str| {
            let at = args.iter().position(|arg| arg == option)?;
            args.get(at + 1)
        };
        let needed = |option: &str| value(option).ok_or_else(|| format!("{option} is missing"));
        Ok(Self {
            hosts: needed("--hosts")?.parse()?,
            link: needed("--link")?.parse()?,
            duration: Duration::from_secs(needed("--duration")?.parse()?),
            runs: needed("--runs")?.parse()?,
            groupcast: needed("--groupcast")?.into(),
            jgroups: value("--jgroups").map(PathBuf::from),
        })
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    Testbed::available()?;
    let loads = match options.link {
        Link::Unlimited => vec![Rate::Max, Rate::Mbps(MODEST)],
        Link::Mbit10 | Link::Mbit100 | Link::Gbit1 => vec![Rate::Max],
    };
    let executable = std::env::current_exe()?;
    for _ in 0..options.runs {
        let bed = Testbed::new(options.hosts, options.link)?;
        let raw_mbps = raw::limit(&bed, &executable, false, Duration::from_millis(1500))?;
        let peers: [Peer; 3] = [
            ("Corosync, knet", corosync(&bed, Transport::Knet)),
            ("Corosync, multicast", corosync(&bed, Transport::Multicast)),
            ("JGroups, SEQUENCER", jgroups(&bed, options)),
        ];
        for (name, peer) in peers {
            for rate in &loads {
                let figures = match &peer {
                    Ok(peer) => system::carry(&bed, peer.as_ref(), &load(options, *rate)),
                    Err(error) => Err(error.to_string().into()),
                };
                let row = figures.unwrap_or_else(|error| json!({ "error": error.to_string() }));
                say(options, name, *rate, raw_mbps, &row);
            }
        }
        // The ring makes a bed of its own, like this one.
        drop(bed);
        for mode in [Mode::Daemon, Mode::Library] {
            for rate in &loads {
                let row = ours(options, mode, *rate)
                    .unwrap_or_else(|error| json!({ "error": error.to_string() }));
                let name = match mode {
                    Mode::Daemon => "groupcast, daemon",
                    Mode::Library => "groupcast, library",
                };
                say(options, name, *rate, raw_mbps, &row);
            }
        }
    }
    Ok(())
}

fn load(options: &Options, rate: Rate) -> Load {
    Load {
        size: SIZE,
        duration: options.duration,
        interval_ns: match rate {
            Rate::Max => 0,
            Rate::Mbps(mbps) => (SIZE as f64 * 8000.0 * options.hosts as f64 / mbps) as u64,
        },
    }
}

fn corosync(bed: &Testbed, transport: Transport) -> Result<Box<dyn System>, Failure> {
    Ok(Box::new(Corosync::prepare(bed, transport)?))
}

fn jgroups(bed: &Testbed, options: &Options) -> Result<Box<dyn System>, Failure> {
    let jar: &Path = options
        .jgroups
        .as_deref()
        .ok_or("its jar could not be had from the package registry")?;
    Ok(Box::new(JGroups::prepare(bed, jar)?))
}

/// The ring under the same load.
fn ours(options: &Options, mode: Mode, rate: Rate) -> Result<Value, Failure> {
    let ring = RingOptions {
        hosts: options.hosts,
        size: SIZE,
        service: Service::Agreed,
        rate,
        link: options.link,
        duration: options.duration,
        encrypt: true,
        mode,
        order: &ORDER,
        is_lone: false,
        windows: Windows::default(),
        spin: Spinning::Auto,
        loss_permille: 0,
        clients: ClientsOf::Two,
        wakes: false,
    };
    let report = ring::run(&ring, 1, &options.groupcast)?.medians;
    Ok(json!({
        "mbps_slowest": report.mbps_slowest,
        "latency_us": report.latency_us,
        "cpu_percent": report.cpu_percent,
        "messages_compared": report.messages_compared,
    }))
}

/// One row, with its conditions.
fn say(options: &Options, system: &str, rate: Rate, raw_mbps: f64, row: &Value) {
    let mut row = row.clone();
    row["system"] = system.into();
    row["hosts"] = options.hosts.into();
    row["link"] = options.link.name().into();
    row["rate"] = json!(rate);
    row["raw_mbps"] = raw_mbps.into();
    println!("{row}");
}
