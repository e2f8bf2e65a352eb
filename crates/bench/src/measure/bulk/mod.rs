//! `groupcast bench bulk`: one file from one host to N, beside the raw limit of the same network
//! and beside others.
//!
//! The figure is the time from the start of the sending command until it knows that the last
//! receiver has the file: the same for everybody, rendezvous and process start included. Files lie
//! in memory (tmpfs), and what arrived is compared with what was sent, byte by byte, outside of the
//! measured time. A contestant that does not come to an end within a limit has failed, and the
//! table says so.
//!
//! - `files.rs`: the file, and where it arrives. `attempt.rs`: what one attempt is and what comes
//!   of it.
//! - `own.rs`: `groupcast send` and `recv`. [`tcp`]: unicast, one receiver after the other and all
//!   at once.
//! - `peers.rs`: UFTP, udpcast and NORM, where they are installed. [`report`]: the result.

mod attempt;
mod files;
mod own;
mod peers;
pub mod report;
pub mod tcp;

use std::path::Path;
use std::time::Duration;

use self::attempt::{Attempt, Course};
use self::files::Files;
use self::own::Own;
use self::report::{BulkReport, Conditions, Entry, median};
use super::{BenchError, raw};
use crate::testbed::{Link, Testbed};

/// How long the raw limit is measured before each run.
const RAW_LENGTH: Duration = Duration::from_secs(2);
/// The longest file that is measured: 16 GiB.
pub const SIZE_MAX: u64 = 16 << 30;

/// Somebody else who carries files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Peer {
    /// TCP to each receiver: one after the other, and all at once.
    Tcp,
    /// UFTP (Debian package `uftp`).
    Uftp,
    /// udpcast (Debian package `udpcast`).
    Udpcast,
    /// NORM, RFC 5740 (Debian packages `libnorm-dev` and `g++`).
    Norm,
}

impl Peer {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Uftp, Self::Udpcast, Self::Norm];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Uftp => "uftp",
            Self::Udpcast => "udpcast",
            Self::Norm => "norm",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct BulkOptions {
    /// Receivers, 1 to 63.
    pub receivers: usize,
    /// Bytes of the file, 1 to [`SIZE_MAX`].
    pub size: u64,
    /// Of 1,000 frames that reach a receiver this many are lost, at random.
    pub loss_permille: u16,
    /// The wires.
    pub link: Link,
    /// Whether groupcast encrypts. The others do not.
    pub encrypt: bool,
    /// The protocol, by the word that `send --protocol` takes.
    pub protocol: String,
    /// Further options of `send` with their values, such as `--window` and `25`.
    pub settings: Vec<String>,
    /// Beside whom.
    pub peers: Vec<Peer>,
    /// How often; medians count.
    pub runs: usize,
    /// After how long an attempt has failed.
    pub limit: Duration,
}

/// Measures, with `executable` as sender, receiver and worker.
pub fn run(options: &BulkOptions, executable: &Path) -> Result<BulkReport, BenchError> {
    Testbed::available().map_err(BenchError::Unavailable)?;
    let mut bed = Testbed::new(options.receivers + 1, options.link)?;
    let result = measure(&bed, options, executable);
    bed.keep_outputs(result.is_err());
    result
}

fn measure(
    bed: &Testbed,
    options: &BulkOptions,
    executable: &Path,
) -> Result<BulkReport, BenchError> {
    let files = Files::new(bed, options.size)?;
    let course = Course {
        bed,
        executable,
        files: &files,
        limit: options.limit,
    };
    files.warm_up(course.receivers())?;
    let mut raw_mbps = Vec::new();
    let mut own = Vec::new();
    let mut others: Vec<Vec<(&'static str, Attempt)>> = Vec::new();
    for _ in 0..options.runs {
        // Loss would cost the bare path its windows: its limit is that of a network without.
        lose(bed, 0)?;
        raw_mbps.push(raw::limit(bed, executable, false, RAW_LENGTH)?);
        lose(bed, options.loss_permille)?;
        own.push(Own::new(options).attempt(&course)?);
        others.push(beside(&course, &options.peers)?);
    }
    let raw_seconds: Vec<f64> = raw_mbps
        .iter()
        .map(|mbps| options.size as f64 * 8.0 / 1e6 / mbps.max(f64::MIN_POSITIVE))
        .collect();
    let peers = others.first().map_or(0, Vec::len);
    Ok(BulkReport {
        raw_seconds: median(raw_seconds.clone()).unwrap_or(0.0),
        own: Entry::new("groupcast", &own, &raw_seconds),
        peers: (0..peers)
            .map(|at| {
                let attempts: Vec<Attempt> = others.iter().map(|run| run[at].1.clone()).collect();
                Entry::new(others[0][at].0, &attempts, &raw_seconds)
            })
            .collect(),
        conditions: Conditions::from(options),
    })
}

/// One attempt of each of `peers`.
fn beside(course: &Course<'_>, peers: &[Peer]) -> Result<Vec<(&'static str, Attempt)>, BenchError> {
    let mut attempts = Vec::new();
    for peer in peers {
        match peer {
            Peer::Tcp => {
                attempts.push(("tcp in turn", tcp::attempt(course, false)?));
                attempts.push(("tcp at once", tcp::attempt(course, true)?));
            }
            Peer::Uftp => attempts.push(("uftp", peers::uftp(course)?)),
            Peer::Udpcast => attempts.push(("udpcast", peers::udpcast(course)?)),
            Peer::Norm => attempts.push(("norm", peers::norm(course)?)),
        }
    }
    Ok(attempts)
}

/// From now on, every receiver loses this many of 1,000 frames.
fn lose(bed: &Testbed, permille: u16) -> Result<(), BenchError> {
    for host in 2..=bed.hosts() {
        bed.lose(host, permille)?;
    }
    Ok(())
}
