//! `groupcast bench ring`: N daemons on N hosts, one sending and one receiving client each, beside the raw limit.
//!
//! All hosts send. The figure is what the slowest receiver gets: a total order is as fast as its slowest member. The
//! raw limit is measured on the same bed just before, so that the ratio holds on any machine.

use std::path::Path;
use std::time::Duration;

use groupcast_core::Service;

use super::clients::{Publish, Subscribe};
use super::clock::{self, Window};
use super::order::{self, Order};
use super::report::{Conditions, LatencySummary, Rate, RingReport};
use super::stamp::Stamp;
use super::tally::{Latencies, Tally};
use super::{Assignment, BenchError, assign, await_ready, await_result, open_window, raw};
use crate::process::Process;
use crate::testbed::{Link, Testbed};

/// How long the raw limit is measured, each way.
const RAW_LENGTH: Duration = Duration::from_millis(1500);
/// Sending begins this long before it counts: windows open, processors warm.
const WARM_UP: Duration = Duration::from_secs(1);
const MULTICAST: &str = "239.79.1.1:4809";
const PORT: u16 = 4810;
const GROUP: &str = "bench";

/// The shortest payload: what a message is measured by.
pub const SIZE_MIN: usize = Stamp::LEN;
/// The longest payload that is measured: 16 MiB.
pub const SIZE_MAX: usize = 16 << 20;

/// What to run.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Hosts, 2 to 64.
    pub hosts: usize,
    /// Payload of a message in bytes, [`SIZE_MIN`] to [`SIZE_MAX`].
    pub size: usize,
    /// The service of every message.
    pub service: Service,
    /// How much is offered.
    pub rate: Rate,
    /// The wires.
    pub link: Link,
    /// How long to count.
    pub duration: Duration,
    /// Whether the daemons have a key.
    pub encrypt: bool,
}

/// Measures, with `executable` as daemon, client and worker.
pub fn run(options: &RingOptions, executable: &Path) -> Result<RingReport, BenchError> {
    Testbed::available().map_err(BenchError::Unavailable)?;
    let mut bed = Testbed::new(options.hosts, options.link)?;
    let result = measure(&bed, options, executable);
    // The daemons' logs say more than an error can.
    bed.keep_outputs(result.is_err());
    result
}

fn measure(
    bed: &Testbed,
    options: &RingOptions,
    executable: &Path,
) -> Result<RingReport, BenchError> {
    let raw_mbps = raw::limit(bed, executable, false, RAW_LENGTH)?;
    let raw_offload_mbps = raw::limit(bed, executable, true, RAW_LENGTH)?;

    let daemons = start_daemons(bed, executable, options.encrypt)?;
    let mut receivers = start_receivers(bed, executable)?;
    let mut senders = start_senders(bed, executable, options)?;
    let window = Window::after(WARM_UP, options.duration);
    for process in receivers.iter_mut().chain(&mut senders) {
        open_window(process, window)?;
    }
    let processes: Vec<&Process> = daemons.iter().chain(&receivers).chain(&senders).collect();
    clock::sleep_until(window.from);
    let before = cpu_seconds(&processes)?;
    clock::sleep_until(window.until);
    let cpu = cpu_seconds(&processes)? - before;

    let tallies = receivers
        .iter_mut()
        .map(|receiver| await_result::<Tally>(receiver, window))
        .collect::<Result<Vec<_>, _>>()?;
    for sender in &mut senders {
        let _: u64 = await_result(sender, window)?;
    }
    let compared = judge(&tallies, options.service)?;

    let slowest = tallies.iter().map(|tally| tally.bytes).min().unwrap_or(0);
    let fewest = tallies
        .iter()
        .map(|tally| tally.messages)
        .min()
        .unwrap_or(0);
    let delivered: u64 = tallies.iter().map(|tally| tally.messages).sum();
    let mut latencies = Latencies::default();
    for tally in &tallies {
        latencies.merge(&tally.latencies);
    }
    let mbps_slowest = window.mbps(slowest);
    Ok(RingReport {
        mbps_slowest,
        latency_us: LatencySummary::from(&latencies),
        msgs_per_s: fewest as f64 / window.seconds(),
        cpu_s_per_million: cpu / (delivered.max(1) as f64 / 1e6),
        raw_mbps,
        raw_offload_mbps,
        ratio: if raw_mbps > 0.0 {
            mbps_slowest / raw_mbps
        } else {
            0.0
        },
        order_checked: compared > 0,
        messages_compared: compared,
        reformations: tallies
            .iter()
            .map(|tally| tally.reformations)
            .max()
            .unwrap_or(0),
        conditions: Conditions::from(options),
    })
}

/// One daemon a host.
fn start_daemons(
    bed: &Testbed,
    executable: &Path,
    encrypt: bool,
) -> Result<Vec<Process>, BenchError> {
    let key = path(bed, "cluster.key");
    if encrypt {
        let mut command = bed.command(1, executable);
        command.args(["keygen", &key]);
        let mut keygen = bed.launch("keygen", command)?;
        let ended = keygen
            .wait(Duration::from_secs(10))
            .map_err(BenchError::io("wait for keygen"))?;
        if !ended.is_some_and(|status| status.success()) {
            return Err(BenchError::process(&keygen, "made no key"));
        }
    }
    (1..=bed.hosts())
        .map(|host| {
            let mut command = bed.command(host, executable);
            command.args(["daemon", "--name", &format!("host-{host}")]);
            command.args(["--listen", &format!("{}:{PORT}", bed.address(host))]);
            command.args(["--multicast", MULTICAST, "--socket", &socket(bed, host)]);
            if encrypt {
                command.args(["--key", &key]);
            } else {
                command.arg("--insecure");
            }
            Ok(bed.launch(&format!("daemon-{host}"), command)?)
        })
        .collect()
}

/// One receiving client a host; all of them are members of the group when this returns.
fn start_receivers(bed: &Testbed, executable: &Path) -> Result<Vec<Process>, BenchError> {
    start(bed, |host| {
        let part = Subscribe {
            socket: socket(bed, host),
            group: GROUP.to_owned(),
            members: bed.hosts(),
        };
        let label = format!("receiver-{host}");
        assign(bed, host, &label, executable, &Assignment::Subscribe(part))
    })
}

/// One sending client a host, not a member of the group.
fn start_senders(
    bed: &Testbed,
    executable: &Path,
    options: &RingOptions,
) -> Result<Vec<Process>, BenchError> {
    start(bed, |host| {
        let part = Publish {
            socket: socket(bed, host),
            group: GROUP.to_owned(),
            sender: host as u32,
            size: options.size,
            service: options.service.name().to_owned(),
            interval_ns: match options.rate {
                Rate::Max => None,
                Rate::Mbps(rate) => Some(interval(options.size, rate / options.hosts as f64)),
            },
        };
        let label = format!("sender-{host}");
        assign(bed, host, &label, executable, &Assignment::Publish(part))
    })
}

/// Nanoseconds between messages of `size` bytes at `mbps`.
fn interval(size: usize, mbps: f64) -> u64 {
    (size as f64 * 8.0 * 1000.0 / mbps) as u64
}

/// How long a message takes from a client of host 1 to clients of all hosts, if the ring has been idle for `pause`
/// before each. The daemons run already; `socket` says where.
pub fn first_messages(
    bed: &Testbed,
    executable: &Path,
    socket: impl Fn(usize) -> String,
    pause: Duration,
    count: u32,
) -> Result<Latencies, BenchError> {
    const GROUP: &str = "first-messages";
    let mut receivers = start(bed, |host| {
        let part = Subscribe {
            socket: socket(host),
            group: GROUP.to_owned(),
            members: bed.hosts(),
        };
        let label = format!("first-receiver-{host}");
        assign(bed, host, &label, executable, &Assignment::Subscribe(part))
    })?;
    let part = Publish {
        socket: socket(1),
        group: GROUP.to_owned(),
        sender: 1,
        size: 100,
        service: Service::Agreed.name().to_owned(),
        interval_ns: Some(clock::nanos(pause)),
    };
    let mut sender = assign(
        bed,
        1,
        "first-sender",
        executable,
        &Assignment::Publish(part),
    )?;
    await_ready(&mut sender)?;
    // The very first message comes before the window: it is not yet one after idleness.
    let window = Window::after(pause / 2, pause * count);
    for process in receivers.iter_mut().chain([&mut sender]) {
        open_window(process, window)?;
    }
    let mut latencies = Latencies::default();
    for receiver in &mut receivers {
        latencies.merge(&await_result::<Tally>(receiver, window)?.latencies);
    }
    let _: u64 = await_result(&mut sender, window)?;
    Ok(latencies)
}

/// Starts one worker a host and waits until all are ready.
fn start(
    bed: &Testbed,
    worker: impl Fn(usize) -> Result<Process, BenchError>,
) -> Result<Vec<Process>, BenchError> {
    let mut processes = (1..=bed.hosts())
        .map(worker)
        .collect::<Result<Vec<_>, _>>()?;
    for process in &mut processes {
        await_ready(process)?;
    }
    Ok(processes)
}

/// How many messages were compared; an error if something is lost or in another order somewhere.
fn judge(tallies: &[Tally], service: Service) -> Result<u64, BenchError> {
    if service == Service::Unreliable {
        return Ok(0);
    }
    if let Some(host) = tallies.iter().position(|tally| tally.holes > 0) {
        return Err(BenchError::Broken(format!(
            "the receiver on host {} saw {} messages that do not follow their sender's previous one",
            host + 1,
            tallies[host].holes
        )));
    }
    let digests: Vec<_> = tallies.iter().map(|tally| tally.order.clone()).collect();
    match order::compare(&digests) {
        Order::Same { messages } => Ok(messages),
        Order::Different { by } => Err(BenchError::Broken(format!(
            "receivers saw different orders among their first {by} messages"
        ))),
    }
}

fn cpu_seconds(processes: &[&Process]) -> Result<f64, BenchError> {
    processes.iter().try_fold(0.0, |sum, process| {
        let usage = process
            .usage()
            .map_err(|_| BenchError::process(process, "ended during the measurement"))?;
        Ok(sum + usage.cpu.as_secs_f64())
    })
}

fn socket(bed: &Testbed, host: usize) -> String {
    path(bed, &format!("host-{host}.sock"))
}

fn path(bed: &Testbed, name: &str) -> String {
    bed.directory().join(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_megabit_of_125_byte_messages_is_one_a_millisecond() {
        assert_eq!(interval(125, 1.0), 1_000_000);
    }
}
