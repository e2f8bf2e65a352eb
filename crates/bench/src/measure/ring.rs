//! `groupcast bench ring`: the ring, or another protocol that orders messages, on N hosts, in
//! daemons with clients or as a library, beside the raw limit.
//!
//! In daemon mode every host has a daemon, a sending and a receiving client; in library mode one
//! process with the ring in it. All hosts send, or one in each run. The figure is what the slowest
//! receiver gets: a total order is as fast as its slowest member. The raw limit, and at a stated
//! rate a bare round trip, are measured on the same bed just before each run, so that the ratios
//! hold on any machine.

mod options;

use std::ops::Add as _;
use std::path::Path;
use std::time::Duration;

use groupcast_core::Service;

pub(super) use self::options::interval;
pub use self::options::{
    ClientsOf, Method, Mode, RingOptions, SIZE_MAX, SIZE_MIN, SPIN, Spinning, Windows,
};
use super::clients::{Publish, Sent, Subscribe};
use super::clock::{self, Window};
use super::order::{self, Order};
use super::parts::{Parts, start};
use super::report::{Figures, LatencySummary, Rate, RingReport, cores};
use super::tally::{Latencies, Tally};
use super::wakes::Counts;
use super::wakes::meter::Watch;
use super::wakes::report::Work;
use super::{Assignment, BenchError, assign, await_ready, await_result, open_window, ping, raw};
use crate::testbed::{Link, Testbed};

/// How long the raw limit is measured.
const RAW_LENGTH: Duration = Duration::from_millis(1500);
/// How long it is measured with offload: for information.
const RAW_OFFLOAD_LENGTH: Duration = Duration::from_millis(500);
/// Sending begins this long before it counts: windows open, processors warm.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long before the end memory is looked at.
const BEFORE_END: Duration = Duration::from_millis(20);

/// Bytes on the wire beside a datagram: preamble 8, Ethernet 14 and 4, gap 12, IP 20, UDP 8.
const HEADERS: f64 = 66.0;
/// Bytes in a datagram beside its payload that the ceiling allows for: what the ring takes as a
/// library (`docs/performance.md`).
const OURS: f64 = 64.0;

/// Measures `runs` times (at least once) on one bed, with `executable` as daemon, client and
/// worker; every run begins with new processes.
pub fn run(
    options: &RingOptions,
    runs: usize,
    executable: &Path,
) -> Result<RingReport, BenchError> {
    Testbed::available().map_err(BenchError::Unavailable)?;
    let mut bed = Testbed::new(options.hosts, options.link)?;
    let result = (0..runs.max(1))
        .map(|run| measure(&bed, options, run, executable))
        .collect::<Result<Vec<_>, _>>();
    // The daemons' logs say more than an error can.
    bed.keep_outputs(result.is_err());
    Ok(RingReport::new(options, result?))
}

/// Measures `options` and `beside` in turns, `runs` times each, on one bed: whatever else the
/// machine does meets both. They must have as many hosts and the same link.
///
/// # Errors
/// As [`run`].
pub fn run_beside(
    options: &RingOptions,
    beside: &RingOptions,
    runs: usize,
    executable: &Path,
) -> Result<RingReport, BenchError> {
    Testbed::available().map_err(BenchError::Unavailable)?;
    let mut bed = Testbed::new(options.hosts, options.link)?;
    let pair = |run| {
        let figures = measure(&bed, options, run, executable)?;
        Ok((figures, measure(&bed, beside, run, executable)?))
    };
    let result = (0..runs.max(1))
        .map(pair)
        .collect::<Result<Vec<_>, BenchError>>();
    bed.keep_outputs(result.is_err());
    let (figures, figures_beside) = result?.into_iter().unzip();
    let beside = RingReport::new(beside, figures_beside);
    Ok(RingReport::new(options, figures).beside(beside))
}

/// One run.
fn measure(
    bed: &Testbed,
    options: &RingOptions,
    run: usize,
    executable: &Path,
) -> Result<Figures, BenchError> {
    let raw_mbps = raw::limit(bed, executable, false, RAW_LENGTH)?;
    let raw_offload_mbps = raw::limit(bed, executable, true, RAW_OFFLOAD_LENGTH)?;
    let ping_pong_us = match options.rate {
        // At full speed latency is the length of queues.
        Rate::Max => None,
        Rate::Mbps(_) => Some(ping::round_trips(bed, executable)?.percentile_us(50.0)),
    };
    let carried = carry_run(bed, options, run, executable)?;
    let latency_us = LatencySummary::from(&carried.latencies);
    Ok(Figures {
        mbps_slowest: carried.mbps_slowest,
        latency_us,
        msgs_per_s: carried.msgs_per_s,
        cpu_s_per_million: carried.cpu_s_per_million,
        cpu_percent: carried.cpu_percent,
        memory_peak_mib: carried.memory_peak as f64 / f64::from(1 << 20),
        raw_mbps,
        raw_offload_mbps,
        ratio: if raw_mbps > 0.0 {
            carried.mbps_slowest / raw_mbps
        } else {
            0.0
        },
        of_ceiling: ceiling_mbps(options.link, options.hosts)
            .map(|ceiling| carried.mbps_slowest / ceiling),
        ping_pong_us,
        latency_ratio: ping_pong_us.map(|round_trip| latency_us.mean / round_trip),
        order_checked: carried.messages_compared > 0,
        messages_compared: carried.messages_compared,
        reformations: carried.reformations,
        wakes: carried.work,
    })
}

/// What a receiver can get on wires with a limit: its own messages do not cross its inbound wire,
/// and a datagram of 1350 bytes of payload takes 66 of headers and framing and 64 of ours. `None`
/// without a limit.
pub fn ceiling_mbps(link: Link, hosts: usize) -> Option<f64> {
    const PAYLOAD: f64 = raw::PAYLOAD as f64;
    let rate = link.bits_per_second()? as f64 / 1e6;
    let others = (hosts as f64 - 1.0) / hosts as f64;
    Some(rate / others * PAYLOAD / (PAYLOAD + HEADERS + OURS))
}

/// What the ring alone showed.
pub struct Carried {
    /// Payload at the slowest receiver, in Mb/s.
    pub mbps_slowest: f64,
    /// From every sender to every receiver.
    pub latencies: Latencies,
    msgs_per_s: f64,
    cpu_s_per_million: f64,
    /// Of all cores together.
    cpu_percent: f64,
    /// Of the daemon that took most, in bytes.
    memory_peak: u64,
    messages_compared: u64,
    /// How often the ring formed anew.
    pub(crate) reformations: u64,
    /// What the processes did, if that was to be counted.
    work: Option<Work>,
}

/// Measures the ring on a bed that may be used again.
///
/// # Errors
/// If a process on a host fails, or what the ring delivered is not in one order.
pub fn carry(
    bed: &Testbed,
    options: &RingOptions,
    executable: &Path,
) -> Result<Carried, BenchError> {
    carry_run(bed, options, 0, executable)
}

/// The same for run `run`, counted from 0.
fn carry_run(
    bed: &Testbed,
    options: &RingOptions,
    run: usize,
    executable: &Path,
) -> Result<Carried, BenchError> {
    let mut parts = Parts::start(bed, options, run, executable)?;
    if options.loss_permille > 0 {
        lose(bed, options.loss_permille)?;
    }
    let window = Window::after(WARM_UP, options.duration);
    for process in parts.receivers.iter_mut().chain(&mut parts.senders) {
        open_window(process, window)?;
    }
    clock::sleep_until(window.from);
    let before = parts.cpu_seconds()?;
    let mut watch = options
        .wakes
        .then(|| Watch::begin(bed, &parts))
        .transpose()?;
    // Receivers end with the window, and their memory with them.
    clock::sleep_until(window.until - clock::nanos(BEFORE_END));
    let memory_peak = parts.memory_peak()?;
    let watched = watch.as_mut().map(|watch| watch.end(&parts)).transpose()?;
    clock::sleep_until(window.until);
    let cpu = parts.cpu_seconds()? - before;

    let tallies = parts
        .receivers
        .iter_mut()
        .map(|receiver| await_result::<Tally>(receiver, window))
        .collect::<Result<Vec<_>, _>>()?;
    let sent = parts
        .senders
        .iter_mut()
        .map(|sender| await_result::<Sent>(sender, window))
        .collect::<Result<Vec<_>, _>>()?;
    if options.loss_permille > 0 {
        // The next run's raw limit is that of a whole network again.
        lose(bed, 0)?;
    }
    let messages_compared = judge(&tallies, options.service)?;

    let least = |of: fn(&Tally) -> u64| tallies.iter().map(of).min().unwrap_or(0);
    let delivered: u64 = tallies.iter().map(|tally| tally.messages).sum();
    let mut latencies = Latencies::default();
    for tally in &tallies {
        latencies.merge(&tally.latencies);
    }
    let work = watched.map(|watched| {
        let own = [
            sent.iter()
                .map(|sent| sent.counts)
                .fold(Counts::default(), Counts::add),
            tallies
                .iter()
                .map(|tally| tally.counts)
                .fold(Counts::default(), Counts::add),
        ];
        watched.work(options, own, delivered as f64 / window.seconds())
    });
    Ok(Carried {
        work,
        mbps_slowest: window.mbps(least(|tally| tally.bytes)),
        latencies,
        msgs_per_s: least(|tally| tally.messages) as f64 / window.seconds(),
        cpu_s_per_million: cpu / (delivered.max(1) as f64 / 1e6),
        cpu_percent: 100.0 * cpu / window.seconds() / cores() as f64,
        memory_peak,
        messages_compared,
        reformations: tallies
            .iter()
            .map(|tally| tally.reformations)
            .max()
            .unwrap_or(0),
    })
}

/// From now on every host loses this many of 1,000 frames that reach it.
fn lose(bed: &Testbed, permille: u16) -> Result<(), BenchError> {
    Ok((1..=bed.hosts()).try_for_each(|host| bed.lose(host, permille))?)
}

/// How long a message takes from a client of host 1 to clients of all hosts, if the ring has been
/// idle for `pause` before each. The daemons run already; `socket` says where.
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
        service: Service::Agreed.to_string(),
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
    let _: Sent = await_result(&mut sender, window)?;
    Ok(latencies)
}

/// How many messages were compared; an error if something is lost or in another order somewhere.
pub(super) fn judge(tallies: &[Tally], service: Service) -> Result<u64, BenchError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_gets_more_than_its_wire_carries_but_not_its_headers() {
        let of = |hosts| ceiling_mbps(Link::Mbit100, hosts).unwrap();
        assert!((of(2) - 2.0 * 100.0 * 1350.0 / 1480.0).abs() < 1e-9);
        assert!((of(5) - 114.02).abs() < 0.01);
        assert_eq!(ceiling_mbps(Link::Unlimited, 3), None);
    }
}
