//! Measurements on a test bed: what the ring carries, beside what the same network carries without
//! any protocol.
//!
//! The measuring processes are this very executable, started again on every host with an
//! [`Assignment`]: a program that offers a measurement must hand the argument of [`WORKER`] on to
//! [`work`]. All of them share one monotonic clock, so a measurement is a [`Window`] of absolute
//! times: what happens before is warm-up, what happens after is not counted.
//!
//! - [`raw`]: the raw multicast limit; [`ping`]: a round trip without any protocol.
//! - [`gossip`]: `groupcast bench gossip`, the one that needs no test bed: all members are in one
//!   process.
//! - [`ring`]: `groupcast bench ring`; `parts` starts its processes, [`clients`] and [`library`]
//!   are what they do ([`both`]: a client that sends and receives), [`tally`] and [`order`] what
//!   they note, [`report`] the result. `endpoint` is what members without a daemon drive.
//! - [`wakes`]: what the processes of `bench ring` did for a message.
//! - [`bus`]: `groupcast bench bus`, programs at the message bus beside the binary client.
//! - [`bulk`]: `groupcast bench bulk`, files to many receivers beside others who carry them.
//! - [`lan`]: messages to many receivers as 001 measures them, for the lab.

pub mod both;
pub mod bulk;
pub mod bus;
pub mod clients;
pub mod clock;
mod endpoint;
pub mod gossip;
pub mod lan;
pub mod library;
pub mod order;
mod parts;
pub mod ping;
pub mod raw;
pub mod report;
pub mod ring;
mod stamp;
pub mod tally;
pub mod wakes;
mod worker;

use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::clock::Window;
pub(crate) use self::parts::make_key;
pub use self::worker::{Assignment, WORKER, work};
use crate::process::Process;
use crate::testbed::{Testbed, TestbedError};

/// Why a measurement has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// No test bed can be built here, in words why not.
    #[error("no test bed: {0}")]
    Unavailable(String),
    /// The bed failed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// A socket, file or process failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A process on a host did not do its part.
    #[error("{label} {problem}{}", said(.stderr))]
    Process {
        /// Which process.
        label: String,
        /// What it did instead.
        problem: String,
        /// What it said.
        stderr: String,
    },
    /// A client could not do its part.
    #[error("cannot {what}: {problem}")]
    Client {
        /// What was tried.
        what: &'static str,
        /// Why not.
        problem: String,
    },
    /// What was measured did not keep its promise.
    #[error("a promise is broken: {0}")]
    Broken(String),
    /// What one process wrote for another is not understood.
    #[error("cannot read an assignment or a result: {0}")]
    Json(#[from] serde_json::Error),
}

impl BenchError {
    /// For `map_err`: the attempt to do `what` failed.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    pub(crate) fn client(what: &'static str, problem: impl fmt::Display) -> Self {
        Self::Client {
            what,
            problem: problem.to_string(),
        }
    }

    pub(crate) fn process(process: &Process, problem: impl Into<String>) -> Self {
        Self::Process {
            label: process.label().to_owned(),
            problem: problem.into(),
            stderr: process.stderr().unwrap_or_default(),
        }
    }
}

fn said(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("; it said: {text}"),
    }
}

/// Starts `executable` on `host` with an assignment. Its standard input waits for the window.
pub(crate) fn assign(
    bed: &Testbed,
    host: usize,
    label: &str,
    executable: &Path,
    assignment: &Assignment,
) -> Result<Process, BenchError> {
    let mut command = bed.command(host, executable);
    command
        .args(WORKER)
        .arg(serde_json::to_string(assignment)?)
        .stdin(Stdio::piped());
    Ok(bed.launch(label, command)?)
}

/// Tells a worker that is ready when it counts.
pub(crate) fn open_window(process: &mut Process, window: Window) -> Result<(), BenchError> {
    let mut line = serde_json::to_string(&window)?;
    line.push('\n');
    process
        .take_stdin()
        .ok_or_else(|| BenchError::process(process, "was told its window already"))?
        .write_all(line.as_bytes())
        .map_err(BenchError::io("tell a worker its window"))
}

/// The worker's side: says that it is ready, and waits for its window.
pub(crate) fn await_window() -> Result<Window, BenchError> {
    say::<()>(&Said::Ready)?;
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .map_err(BenchError::io("read the window"))?;
    Ok(serde_json::from_str(&line)?)
}

/// What a worker prints: that it is ready, once, and then its result.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said<T> {
    Ready,
    Result(T),
}

pub(crate) fn say<T: Serialize>(said: &Said<T>) -> Result<(), BenchError> {
    println!("{}", serde_json::to_string(said)?);
    Ok(())
}

/// Waits until the worker says that it is ready.
pub(crate) fn await_ready(process: &mut Process) -> Result<(), BenchError> {
    const PATIENCE: Duration = Duration::from_secs(45);
    let deadline = clock::now() + clock::nanos(PATIENCE);
    loop {
        let output = process.stdout().map_err(BenchError::io("read an output"))?;
        if output.contains('\n') {
            return Ok(());
        }
        if !process.is_running() {
            return Err(BenchError::process(process, "ended before it was ready"));
        }
        if clock::now() > deadline {
            return Err(BenchError::process(process, "is not ready after 45 s"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for the worker's result, due soon after the end of `window`.
pub(crate) fn await_result<T: DeserializeOwned>(
    process: &mut Process,
    window: Window,
) -> Result<T, BenchError> {
    const GRACE: Duration = Duration::from_secs(20);
    let limit = Duration::from_nanos(window.until.saturating_sub(clock::now())) + GRACE;
    let status = process
        .wait(limit)
        .map_err(BenchError::io("wait for a process"))?
        .ok_or_else(|| BenchError::process(process, "has no result in time"))?;
    if !status.success() {
        return Err(BenchError::process(process, format!("failed ({status})")));
    }
    let output = process.stdout().map_err(BenchError::io("read an output"))?;
    match serde_json::from_str(output.lines().last().unwrap_or_default())? {
        Said::Result(result) => Ok(result),
        Said::Ready => Err(BenchError::process(process, "ended without a result")),
    }
}
