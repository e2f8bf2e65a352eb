//! One run of another system: its daemons if it has any, a client on every host that sends and
//! receives, a window.
//!
//! The clients speak to this program as the ring's do: "ready" on their output once all are there,
//! the window on their input, what they counted on their output, in the form of [`Tally`].

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_bench::measure::clock::{self, Window};
use groupcast_bench::measure::order::{self, Order};
use groupcast_bench::measure::tally::{Latencies, Tally};
use groupcast_bench::{Process, Testbed};
use serde_json::{Value, json};

use super::Failure;

/// How long all members may take to be there.
const JOINING: Duration = Duration::from_secs(60);
/// Sending begins this long before it counts: what is compiled while it runs is not measured. The
/// ring has a second.
const WARM_UP: Duration = Duration::from_secs(5);
/// How long daemons may take to end before they are killed.
const ENDING: Duration = Duration::from_secs(5);
/// How long after the window results may take.
const GRACE: Duration = Duration::from_secs(20);

/// What every sender sends.
pub(crate) struct Load {
    pub(crate) size: usize,
    pub(crate) duration: Duration,
    /// Nanoseconds from one message to the next; 0 for as fast as they are taken.
    pub(crate) interval_ns: u64,
}

/// Another system, ready to be started on a bed.
pub(crate) trait System {
    /// Starts its daemons.
    fn daemons(&self, bed: &Testbed) -> Result<Vec<Process>, Failure>;

    /// The client of `host`.
    fn client(&self, bed: &Testbed, host: usize, load: &Load) -> Command;
}

/// Measures; the figures of a row.
pub(crate) fn carry(bed: &Testbed, system: &dyn System, load: &Load) -> Result<Value, Failure> {
    let mut daemons = system.daemons(bed)?;
    let row = measure(bed, system, load, &daemons);
    // Asked to end, they remove what they shared with their clients.
    for daemon in &mut daemons {
        daemon.terminate()?;
    }
    for daemon in &mut daemons {
        daemon.wait(ENDING)?;
    }
    row
}

fn measure(
    bed: &Testbed,
    system: &dyn System,
    load: &Load,
    daemons: &[Process],
) -> Result<Value, Failure> {
    let mut clients = (1..=bed.hosts())
        .map(|host| {
            let mut command = system.client(bed, host, load);
            command.stdin(Stdio::piped());
            Ok(bed.launch(&format!("flood-{host}"), command)?)
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    await_ready(&mut clients)?;
    let window = Window::after(WARM_UP, load.duration);
    for client in &mut clients {
        let mut input = client.take_stdin().ok_or("a client has no input")?;
        writeln!(input, "{} {}", window.from, window.until)?;
    }
    clock::sleep_until(window.from);
    let before = cpu_seconds(daemons, &clients)?;
    clock::sleep_until(window.until);
    let cpu = cpu_seconds(daemons, &clients)? - before;
    let tallies = clients
        .iter_mut()
        .map(tally)
        .collect::<Result<Vec<_>, _>>()?;
    figures(&tallies, window, cpu)
}

fn await_ready(clients: &mut [Process]) -> Result<(), Failure> {
    let deadline = Instant::now() + JOINING;
    for client in clients {
        while !client.stdout()?.contains("ready") {
            if !client.is_running() {
                return Err(said("a client ended before it was ready", client));
            }
            if Instant::now() > deadline {
                return Err(said("not all members were there in a minute", client));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

fn tally(client: &mut Process) -> Result<Tally, Failure> {
    match client.wait(GRACE)? {
        Some(status) if status.success() => {}
        _ => return Err(said("a client has no result", client)),
    }
    let output = client.stdout()?;
    Ok(serde_json::from_str(
        output.lines().last().unwrap_or_default(),
    )?)
}

fn said(what: &str, client: &Process) -> Failure {
    let stderr = client.stderr().unwrap_or_default();
    let last = stderr.lines().last().unwrap_or_default();
    format!("{what} ({}: {last})", client.label()).into()
}

/// What daemons and clients have used.
fn cpu_seconds(daemons: &[Process], clients: &[Process]) -> Result<f64, Failure> {
    daemons.iter().chain(clients).try_fold(0.0, |sum, process| {
        let usage = process
            .usage()
            .map_err(|_| said("a process ended during the measurement", process))?;
        Ok(sum + usage.cpu.as_secs_f64())
    })
}

fn figures(tallies: &[Tally], window: Window, cpu: f64) -> Result<Value, Failure> {
    let digests: Vec<_> = tallies.iter().map(|tally| tally.order.clone()).collect();
    let compared = match order::compare(&digests) {
        Order::Same { messages: 0 } => {
            return Err("a receiver got too little for its order to be compared".into());
        }
        Order::Same { messages } => messages,
        Order::Different { by } => {
            return Err(
                format!("receivers saw different orders among their first {by} messages").into(),
            );
        }
    };
    let holes: u64 = tallies.iter().map(|tally| tally.holes).sum();
    if holes > 0 {
        return Err(format!("a sender's row has holes at receivers: {holes}").into());
    }
    let mut latencies = Latencies::default();
    for tally in tallies {
        latencies.merge(&tally.latencies);
    }
    let slowest = tallies.iter().map(|tally| tally.bytes).min().unwrap_or(0);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Ok(json!({
        "mbps_slowest": window.mbps(slowest),
        "latency_us": {
            "mean": latencies.mean_us(),
            "p50": latencies.percentile_us(50.0),
            "p99": latencies.percentile_us(99.0),
        },
        "cpu_percent": 100.0 * cpu / window.seconds() / cores as f64,
        "messages_compared": compared,
    }))
}
