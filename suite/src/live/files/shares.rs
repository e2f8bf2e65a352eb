//! Two transfers and a TCP flow on one link of 100 Mb/s: which share of it each gets.
//!
//! The link that they share is the one to the receiving host (a switch port with its queue), or
//! that of the sending host (its transmit queue). Shares are what arrived in a stretch of time in
//! the middle: bytes of the streams, repeats not counted.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process};
use serde_json::{Value, json};

use super::super::{Outcome, until};
use super::Site;

/// Hidden words with which the soak program starts itself as one end of a TCP flow.
pub const TCP: &str = "tcp";
/// Where the TCP flow goes.
const PORT: u16 = 4830;
/// Bytes of a file that is sent: more than can arrive in time.
const FILE: u64 = 400 << 20;
/// How long flows find their shares before anything is counted.
const SETTLE: Duration = Duration::from_secs(5);
/// How often the end of a TCP flow says how far it is.
const REPORT: Duration = Duration::from_millis(100);

/// Which link the flows share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// Three hosts send to one: its port of the switch.
    Port,
    /// One host sends all: its transmit queue.
    Sender,
}

impl Shared {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Sender => "sender",
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
    /// How far from a third of the sum the worst share is: 1 is fair, 2 is half or twice.
    pub fn unfairness(&self) -> f64 {
        let all = [self.transfers[0], self.transfers[1], self.tcp];
        let fair = all.iter().sum::<f64>() / 3.0;
        all.iter()
            .map(|share| (share / fair).max(fair / share.max(1e-9)))
            .fold(1.0, f64::max)
    }
}

/// Runs the three flows over `shared`, the transfers with `--rate` as `rate` says, and counts for
/// `length`.
pub fn measure(shared: Shared, rate: &str, length: Duration) -> Outcome<Shares> {
    let mut site = Site::new(4, Link::Mbit100)?;
    let sources = match shared {
        Shared::Port => [1, 2, 3],
        Shared::Sender => [1, 1, 1],
    };
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
    let address = SocketAddr::from((site.cluster.bed.address(4), PORT)).to_string();
    let sink = flow(&["receive", &address], 4, &site)?;
    until(Duration::from_secs(5), "the TCP flow's end listens", || {
        Ok(sink.stdout()?.contains("bytes").then_some(()))
    })?;

    let mut running = Vec::new();
    let mut receivers = Vec::new();
    for (index, source) in sources[..2].iter().enumerate() {
        let group = format!("239.79.1.{}:4820", 2 + index);
        let out = site.cluster.path(&format!("out-{index}"));
        let receiver = site.launch_in(&group, 4, "recv", &["--out", &out])?;
        super::await_event(&receiver, "listening")?;
        receivers.push(receiver);
        let options = [&file, "--receivers", "1", "--rate", rate];
        running.push(site.launch_in(&group, *source, "send", &options)?);
    }
    for receiver in &receivers {
        super::await_event(receiver, "progress")?;
    }
    running.push(flow(&["send", &address], sources[2], &site)?);
    sleep(SETTLE);
    let count = || -> Outcome<[u64; 3]> {
        Ok([
            last_number(&receivers[0], "received")?,
            last_number(&receivers[1], "received")?,
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

/// The last number called `field` in the lines that `process` printed.
fn last_number(process: &Process, field: &str) -> Outcome<u64> {
    let printed = process.stdout()?;
    let number = printed
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|line| line[field].as_u64());
    number.ok_or_else(|| format!("{} did not say `{field}`", process.label()).into())
}

/// One end of a TCP flow, in a process of its own: `send` or `receive`.
pub fn tcp_end(direction: &str, address: &str) -> Outcome {
    match direction {
        "send" => {
            let mut stream = TcpStream::connect(address)?;
            let bytes = [0; 1 << 16];
            loop {
                stream.write_all(&bytes)?;
            }
        }
        "receive" => {
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
        other => Err(format!("not an end of a flow: {other}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_share_counts() {
        let shares = |a, b, tcp| Shares {
            transfers: [a, b],
            tcp,
        };
        assert!((shares(30.0, 30.0, 30.0).unfairness() - 1.0).abs() < 1e-9);
        assert!((shares(15.0, 30.0, 45.0).unfairness() - 2.0).abs() < 1e-9);
        assert!((shares(60.0, 15.0, 15.0).unfairness() - 2.0).abs() < 1e-9);
        assert!(shares(45.0, 45.0, 0.0).unfairness() > 1e6);
    }
}
