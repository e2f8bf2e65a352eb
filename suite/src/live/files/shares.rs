//! Two transfers and a TCP flow on one link of 100 Mb/s: which share of it each gets.
//!
//! The shared link is the one to the receiving host (a switch port with its queue), or the one from
//! the sending host (its transmit queue). A transfer has one receiver or several, of which one or
//! all are behind the shared link. The switch follows memberships: a receiver that stands by leaves
//! its port to others. A flow's share is what arrived behind the link in a span in the middle of
//! the transfers: bytes of its stream, without repeats.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process};
use rustix::net::sockopt;
use serde_json::{Value, json};

use super::super::{Outcome, until};
use super::Site;

/// The hidden word: with it the soak program plays one end of a TCP flow.
pub const TCP: &str = "tcp";
/// The host where the TCP flow ends, and the first receiver of each transfer is.
const SINK: usize = 4;
/// Where the TCP flow goes.
const PORT: u16 = 4830;
/// Bytes of a file that is sent: more than can arrive in time.
const FILE: u64 = 400 << 20;
/// How long flows find their shares before anything is counted.
const SETTLE: Duration = Duration::from_secs(5);
/// How often the end of a TCP flow says how far it is.
const REPORT: Duration = Duration::from_millis(100);

/// Which link the flows share, and who is behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// Three hosts send to one: its port of the switch. Every transfer has `receivers`: `all` of
    /// them are processes of that host, or one is, and the others are hosts without other traffic.
    Port {
        /// Of each transfer.
        receivers: usize,
        /// Whether all of them are behind the port.
        all: bool,
    },
    /// One host sends all: its transmit queue. Receivers are on a host each.
    Sender {
        /// Of each transfer.
        receivers: usize,
    },
}

impl Shared {
    /// What is measured.
    pub const ALL: [Self; 5] = [
        Self::Port {
            receivers: 1,
            all: true,
        },
        Self::Port {
            receivers: 8,
            all: false,
        },
        Self::Port {
            receivers: 8,
            all: true,
        },
        Self::Sender { receivers: 1 },
        Self::Sender { receivers: 8 },
    ];

    /// Its name in results.
    pub fn name(self) -> String {
        match self {
            Self::Port { receivers: 1, .. } => "port-1".into(),
            Self::Port { receivers, all } => {
                format!("port-{receivers}-{}", if all { "all" } else { "one" })
            }
            Self::Sender { receivers } => format!("sender-{receivers}"),
        }
    }

    /// Whether a receiver behind the shared link may be left behind by the others, and stand by.
    fn has_others(self) -> bool {
        matches!(self, Self::Port { all: false, .. })
    }

    /// From which hosts the two transfers and the TCP flow come.
    fn sources(self) -> [usize; 3] {
        match self {
            Self::Port { .. } => [1, 2, 3],
            Self::Sender { .. } => [1, 1, 1],
        }
    }

    /// The host of each receiver of a transfer; the TCP flow goes to that of the first.
    fn receivers(self) -> Vec<usize> {
        match self {
            Self::Port {
                receivers,
                all: true,
            } => vec![SINK; receivers],
            Self::Port { receivers, .. } | Self::Sender { receivers } => {
                (SINK..SINK + receivers).collect()
            }
        }
    }
}

/// Megabits a second that each flow got.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shares {
    /// The two transfers.
    pub transfers: [f64; 2],
    /// The TCP flow.
    pub tcp: f64,
}

impl Shares {
    /// By which factor the worst share differs from an equal one: 1 is fair, 2 is half or twice of
    /// it. A transfer whose receiver behind the `shared` link stands by is not counted.
    pub fn unfairness(&self, shared: Shared) -> f64 {
        let takes_part = |share: &f64| *share > 0.0 || !shared.has_others();
        let transfers = self.transfers.into_iter().filter(takes_part);
        let all: Vec<f64> = transfers.chain([self.tcp]).collect();
        let fair = all.iter().sum::<f64>() / all.len() as f64;
        all.iter()
            .map(|share| (share / fair).max(fair / share.max(1e-9)))
            .fold(1.0, f64::max)
    }
}

/// Runs the three flows over `shared`, the transfers with `--rate` as `rate` says and TCP with
/// `control`, and counts for `length`.
pub fn measure(shared: Shared, rate: &str, control: &str, length: Duration) -> Outcome<Shares> {
    let (sources, hosts) = (shared.sources(), shared.receivers());
    let last = hosts.iter().copied().max().unwrap_or(SINK);
    let mut site = Site::new(last, Link::Mbit100)?;
    site.cluster.bed.follow_memberships()?;
    let file = site.cluster.path("large");
    // A file with holes: what it holds does not matter, and the disk is not what is measured.
    File::create(&file)?.set_len(FILE)?;
    let program = std::env::current_exe()?;
    let flow = |words: &[&str], host: usize, site: &Site| -> Outcome<Process> {
        let mut command = site.cluster.bed.command(host, &program);
        command.arg(TCP).args(words);
        Ok(site
            .cluster
            .bed
            .launch(&format!("tcp-{}-{host}", words[0]), command)?)
    };
    let address = SocketAddr::from((site.cluster.bed.address(SINK), PORT)).to_string();
    let sink = flow(&["receive", &address], SINK, &site)?;
    until(Duration::from_secs(5), "the TCP flow's end listens", || {
        Ok(sink.stdout()?.contains("bytes").then_some(()))
    })?;

    let mut running = Vec::new();
    let mut receivers = Vec::new();
    for (index, source) in sources[..2].iter().enumerate() {
        let group = format!("239.79.1.{}:4820", 2 + index);
        for (number, host) in hosts.iter().enumerate() {
            let name = format!("receiver-{number}");
            let out = site.cluster.path(&format!("out-{index}-{number}"));
            let receiver = site.launch_as(&name, &group, *host, "recv", &["--out", &out])?;
            super::await_event(&receiver, "listening")?;
            receivers.push(receiver);
        }
        let count = hosts.len().to_string();
        let options = [&file, "--receivers", &count, "--rate", rate];
        running.push(site.launch_in(&group, *source, "send", &options)?);
    }
    for receiver in &receivers {
        super::await_event(receiver, "progress")?;
    }
    running.push(flow(&["send", &address, control], sources[2], &site)?);
    sleep(SETTLE);
    let count = || -> Outcome<[u64; 3]> {
        Ok([
            last_number(&receivers[0], "received")?,
            last_number(&receivers[hosts.len()], "received")?,
            last_number(&sink, "bytes")?,
        ])
    };
    let (begun, before) = (Instant::now(), count()?);
    sleep(length);
    let (took, after) = (begun.elapsed(), count()?);
    for process in &mut running {
        if !process.is_running() {
            let said = process.stderr()?;
            return Err(format!("{} ended: {said}", process.label()).into());
        }
    }
    let mbps = |index: usize| (after[index] - before[index]) as f64 * 8e-6 / took.as_secs_f64();
    site.cluster.pass();
    Ok(Shares {
        transfers: [mbps(0), mbps(1)],
        tcp: mbps(2),
    })
}

/// The value of `field` in the last line of `process` that has it.
fn last_number(process: &Process, field: &str) -> Outcome<u64> {
    let printed = process.stdout()?;
    let number = printed
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|line| line[field].as_u64());
    number.ok_or_else(|| format!("{} did not say `{field}`", process.label()).into())
}

/// One end of a TCP flow, in a process of its own: `send` with a congestion control, or `receive`.
pub fn tcp_end(words: &[&str]) -> Outcome {
    match *words {
        ["send", address, control] => {
            let mut stream = TcpStream::connect(address)?;
            sockopt::set_tcp_congestion(&stream, control)
                .map_err(|error| format!("this kernel has no {control} for TCP: {error}"))?;
            let bytes = [0; 1 << 16];
            loop {
                stream.write_all(&bytes)?;
            }
        }
        ["receive", address] => {
            let listener = TcpListener::bind(address)?;
            println!("{}", json!({"bytes": 0}));
            let (mut stream, _) = listener.accept()?;
            let mut bytes = [0; 1 << 16];
            let (mut sum, mut told) = (0, Instant::now());
            loop {
                match stream.read(&mut bytes)? {
                    0 => return Ok(()),
                    len => sum += len as u64,
                }
                if told.elapsed() >= REPORT {
                    told = Instant::now();
                    println!("{}", json!({"bytes": sum}));
                }
            }
        }
        _ => Err(format!("not an end of a flow: {words:?}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_where_the_name_says() {
        let of = |name: &str| {
            let shared = Shared::ALL.into_iter().find(|it| it.name() == name);
            shared.unwrap().receivers()
        };
        assert_eq!(of("port-1"), [4]);
        assert_eq!(of("port-8-all"), [4; 8]);
        assert_eq!(of("port-8-one"), [4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(of("sender-8"), of("port-8-one"));
    }

    #[test]
    fn the_worst_share_counts() {
        let [alone, one_of_many] = [Shared::ALL[0], Shared::ALL[1]];
        let unfairness = |a, b, tcp, shared| {
            let transfers = [a, b];
            Shares { transfers, tcp }.unfairness(shared)
        };
        let is = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}");
        is(unfairness(30.0, 30.0, 30.0, alone), 1.0);
        is(unfairness(15.0, 30.0, 45.0, alone), 2.0);
        is(unfairness(60.0, 15.0, 15.0, alone), 2.0);
        assert!(unfairness(45.0, 45.0, 0.0, one_of_many) > 1e6);
        assert!(unfairness(45.0, 0.0, 45.0, alone) > 1e6);
        is(unfairness(45.0, 0.0, 45.0, one_of_many), 1.0);
    }
}
