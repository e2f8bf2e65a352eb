//! Calibration: what this machine charges for a system call, a packet and a kibibyte, measured on
//! real sockets through the network driver itself; and the [`validation`] of the simulator with
//! these prices against a real ring.
//!
//! Three measurements on test beds of 1 Gb/s, where every frame travels by itself:
//! 1. *Sending.* Bursts of 1, 8 and 32 datagrams of three lengths, with 2 and with 3 hosts: the
//!    difference is the price of the copies that the emulated network makes on the sender's
//!    processor. Their receivers sleep: that a copy wakes one up is part of its price.
//! 2. *Receiving.* What has gathered while the receiver did nothing, in one turn: the part that
//!    does not depend on the number is the price of a turn.
//! 3. *Passing on.* A datagram is relayed through three processes that sleep in between: a hop,
//!    less what its calls cost, is how long a process takes to wake up. That is never twice the
//!    same: a constant and an exponentially distributed rest, whose mean follows from the deciles
//!    of the rounds. A token is waited for the longer, the less even its rounds are.
//!
//! Medians, because what is predicted with them is a median; then least squares of relative errors:
//! [`Calibration::host`] is the result as the simulator takes it. A machine that does other work
//! meanwhile shows in the errors.

mod fit;
pub mod probe;
mod traffic;
pub mod validation;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use groupcast_sim::HostConfig;
use groupcast_sim::host::config::{BufferLimit, Cost, Effect};
use serde::Serialize;

use self::fit::{Fit, Observation, fit};
use self::probe::{Part, Probe, Sample};
use crate::measure::clock::Window;
use crate::measure::{Assignment, BenchError, assign, await_ready, await_result, open_window};
use crate::process::Process;
use crate::testbed::{Link, Testbed};

const PORT: u16 = 4_820;
const MULTICAST: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 79, 1, 2), 4_819);
/// Bursts: how many datagrams, and how long their bodies are.
const KINDS: [(u32, usize); 9] = [
    (1, 64),
    (8, 64),
    (32, 64),
    (1, 700),
    (8, 700),
    (32, 700),
    (1, 1_350),
    (8, 1_350),
    (32, 1_350),
];
const BURSTS_LENGTH: Duration = Duration::from_millis(3_600);
const RELAY_LENGTH: Duration = Duration::from_millis(1_500);
/// How many hosts the relayed datagram goes through.
const RELAY_HOSTS: usize = 3;
/// The median of the sum of [`RELAY_HOSTS`] exponentially distributed numbers of mean 1 (an Erlang
/// distribution),
const ROUND_MEDIAN: f64 = 2.674;
/// and how far its last decile is from its first: 5.322 − 1.102.
const ROUND_SPREAD: f64 = 4.220;
const WARM_UP: Duration = Duration::from_millis(200);
/// Bytes that the kernel keeps for a datagram in a socket's buffer beyond its own, about (its
/// `truesize` less it).
const SOCKET_OVERHEAD: usize = 832;

/// What something costs, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Prices {
    /// A system call.
    pub call: f64,
    /// A datagram (that is one packet).
    pub packet: f64,
    /// 1,024 bytes.
    pub kibibyte: f64,
}

impl Prices {
    fn cost(&self) -> Cost {
        Cost::nanos(
            self.call.round() as u64,
            self.packet.round() as u64,
            self.kibibyte.round() as u64,
        )
    }
}

/// What this machine charges.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// To send, without the copies that the emulated network makes.
    pub send: Prices,
    /// A copy of a datagram on its way through the emulated network, paid by its sender.
    pub copy: Prices,
    /// To receive; every datagram has a call of its own here.
    pub receive: Prices,
    /// A turn of the loop, however much is received.
    pub turn_ns: f64,
    /// From a datagram at a host whose process sleeps until the process runs.
    pub wake_up_ns: f64,
    /// What that takes longer in the mean.
    pub wake_up_jitter_ns: f64,
    /// A hop of the relayed datagram: the median round by its hops.
    pub hop_ns: f64,
    /// How well the prices explain the times of sending: the root of the mean square of the
    /// relative errors.
    pub send_error: f64,
    /// The same of receiving.
    pub receive_error: f64,
    /// How busy the machine was with other things before: the load average of the last minute by
    /// cores.
    pub other_load: f64,
    /// Processors of this machine.
    pub cores: usize,
    /// What was measured: sending with 2 and with 3 hosts, receiving.
    pub samples: [Vec<Sample>; 3],
}

impl Calibration {
    /// Measures this machine; takes about 16 s. `executable` takes the worker's arguments.
    ///
    /// # Errors
    /// Where no test bed can be built, or a process fails.
    pub fn measure(executable: &Path) -> Result<Self, BenchError> {
        Testbed::available().map_err(BenchError::Unavailable)?;
        let other_load = other_load();
        let two = Testbed::new(2, Link::Gbit1)?;
        let [with_two, _] = bursts(&two, executable, Part::Follow)?;
        let [_, received] = bursts(&two, executable, Part::Receive)?;
        drop(two);
        let three = Testbed::new(RELAY_HOSTS, Link::Gbit1)?;
        let [with_three, _] = bursts(&three, executable, Part::Follow)?;
        let round = round(&three, executable)?;
        let samples = [with_two, with_three, received];
        Ok(Self::from_samples(samples, &round, other_load))
    }

    fn from_samples(samples: [Vec<Sample>; 3], round: &Sample, other_load: f64) -> Self {
        let sent: Fit<6> = fit(&[(1.0, &samples[0]), (2.0, &samples[1])]
            .into_iter()
            .flat_map(|(copies, samples)| samples.iter().map(move |it| sending(it, copies)))
            .collect::<Vec<_>>());
        let received: Fit<3> = fit(&samples[2].iter().map(receiving).collect::<Vec<_>>());
        let [
            call,
            packet,
            kibibyte,
            copy_call,
            copy_packet,
            copy_kibibyte,
        ] = sent.prices;
        let [turn_ns, receive_call, receive_kibibyte] = received.prices;
        let mut calibration = Self {
            send: Prices {
                call,
                packet,
                kibibyte,
            },
            copy: Prices {
                call: copy_call,
                packet: copy_packet,
                kibibyte: copy_kibibyte,
            },
            receive: Prices {
                call: receive_call,
                packet: 0.0,
                kibibyte: receive_kibibyte,
            },
            turn_ns,
            wake_up_ns: 0.0,
            wake_up_jitter_ns: round.spread as f64 / ROUND_SPREAD,
            hop_ns: round.nanos as f64 / round.datagrams.max(1) as f64,
            send_error: sent.error,
            receive_error: received.error,
            other_load,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            samples,
        };
        let typical_jitter = calibration.wake_up_jitter_ns * ROUND_MEDIAN / RELAY_HOSTS as f64;
        calibration.wake_up_ns =
            (calibration.hop_ns - calibration.hop_price() - typical_jitter).max(0.0);
        calibration
    }

    /// What a small datagram costs from one process to another.
    fn hop_price(&self) -> f64 {
        let kibibytes = 105.0 / 1_024.0;
        let price = |prices: &Prices| prices.call + prices.packet + kibibytes * prices.kibibyte;
        price(&self.send) + price(&self.copy) + self.turn_ns + price(&self.receive)
    }

    /// The same as the simulator takes it: a host of this kind with processors of its own.
    pub fn host(&self) -> HostConfig {
        HostConfig {
            receive: self.receive.cost(),
            send: self.send.cost(),
            copy: self.copy.cost(),
            wait: Duration::from_nanos(self.turn_ns.round() as u64),
            wake_up: Duration::from_nanos(self.wake_up_ns.round() as u64),
            wake_up_jitter: Duration::from_nanos(self.wake_up_jitter_ns.round() as u64),
            receive_batch: 1,
            send_batch: 48,
            segments_max: 48,
            data_buffer: socket(8 << 20),
            token_buffer: socket(1 << 20),
            effect: Effect::End,
            ..HostConfig::default()
        }
    }
}

/// A socket's buffer of this many bytes: the kernel doubles what is asked for, for its own
/// book-keeping.
fn socket(asked: usize) -> BufferLimit {
    BufferLimit {
        overhead: SOCKET_OVERHEAD,
        ..BufferLimit::bytes(2 * asked)
    }
}

/// A call, packets, kibibytes; copies, copied packets, copied kibibytes.
fn sending(sample: &Sample, copies: f64) -> Observation<6> {
    let count = sample.datagrams as f64;
    let kibibytes = count * sample.len as f64 / 1_024.0;
    Observation {
        amounts: [
            1.0,
            count,
            kibibytes,
            copies,
            copies * count,
            copies * kibibytes,
        ],
        nanos: sample.nanos as f64,
    }
}

/// A turn, packets, kibibytes.
fn receiving(sample: &Sample) -> Observation<3> {
    let count = sample.datagrams as f64;
    Observation {
        amounts: [1.0, count, count * sample.len as f64 / 1_024.0],
        nanos: sample.nanos as f64,
    }
}

/// Host 1 sends bursts, the others do `part`: what host 1 found, and host 2.
fn bursts(bed: &Testbed, executable: &Path, part: Part) -> Result<[Vec<Sample>; 2], BenchError> {
    let mut results = run(bed, executable, BURSTS_LENGTH, |host| match host {
        1 => Part::Send(KINDS.to_vec()),
        _ => part.clone(),
    })?;
    let sent = results.remove(0);
    Ok([sent, results.remove(0)])
}

/// The rounds of a relayed datagram through all hosts.
fn round(bed: &Testbed, executable: &Path) -> Result<Sample, BenchError> {
    let mut results = run(bed, executable, RELAY_LENGTH, |host| match host {
        1 => Part::Relay,
        _ => Part::Follow,
    })?;
    let sample = results.swap_remove(0).into_iter().next();
    sample.ok_or_else(|| BenchError::client("relay a datagram", "it came back too seldom"))
}

/// A probe on every host, for `length`; what each found.
fn run(
    bed: &Testbed,
    executable: &Path,
    length: Duration,
    part: impl Fn(usize) -> Part,
) -> Result<Vec<Vec<Sample>>, BenchError> {
    let key = crate::measure::make_key(bed, executable, true)?.unwrap_or_default();
    let mut probes = (1..=bed.hosts())
        .map(|host| {
            let probe = Probe {
                host,
                listen: SocketAddrV4::new(bed.address(host), PORT),
                multicast: MULTICAST,
                members: bed.hosts(),
                key: key.clone(),
                part: part(host),
            };
            let label = format!("probe-{host}");
            assign(bed, host, &label, executable, &Assignment::Probe(probe))
        })
        .collect::<Result<Vec<Process>, _>>()?;
    for probe in &mut probes {
        await_ready(probe)?;
    }
    let window = Window::after(WARM_UP, length);
    for probe in &mut probes {
        open_window(probe, window)?;
    }
    probes
        .iter_mut()
        .map(|probe| await_result(probe, window))
        .collect()
}

/// The load average of the last minute by cores; 0 where it cannot be read.
fn other_load() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok())
        .map_or(0.0, |load| load / cores as f64)
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "nanoseconds      call   packet   kibibyte   error of the fit"
        )?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, prices: &Prices, error: Option<f64>| {
            let Prices {
                call,
                packet,
                kibibyte,
            } = prices;
            let error = error.map_or(String::new(), |error| format!("{:.1} %", error * 100.0));
            writeln!(
                f,
                "{name:12} {call:8.0} {packet:8.0} {kibibyte:10.0}   {error}"
            )
        };
        line(f, "send", &self.send, Some(self.send_error))?;
        line(f, "each copy", &self.copy, None)?;
        line(f, "receive", &self.receive, Some(self.receive_error))?;
        writeln!(
            f,
            "a turn of the loop {:.0} ns; waking up {:.1} µs and {:.1} more in the mean; a hop of the relayed datagram {:.1} µs",
            self.turn_ns,
            self.wake_up_ns / 1_000.0,
            self.wake_up_jitter_ns / 1_000.0,
            self.hop_ns / 1_000.0
        )?;
        write!(
            f,
            "{} cores; load of the minute before {:.2} a core",
            self.cores, self.other_load
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(price: impl Fn(f64, f64) -> f64) -> Vec<Sample> {
        let kinds = KINDS.iter().map(|(count, len)| {
            let (datagrams, len) = (u64::from(*count), len + 41);
            let nanos = price(datagrams as f64, len as f64 / 1_024.0);
            Sample {
                datagrams,
                len,
                nanos: nanos as u64,
                spread: 0,
                of: 100,
            }
        });
        kinds.collect()
    }

    #[test]
    fn the_prices_that_made_the_times_come_back() {
        let sent = |copies: f64| {
            samples(move |count, kibibytes| {
                2_000.0
                    + copies * 5_000.0
                    + count * (900.0 + kibibytes * 300.0)
                    + copies * count * (700.0 + kibibytes * 100.0)
            })
        };
        let received = samples(|count, kibibytes| 1_500.0 + count * (1_100.0 + kibibytes * 200.0));
        // 50 µs a hop, and as unsteady as jitter of 3 µs in the mean makes it.
        let round = Sample {
            datagrams: 3,
            len: 105,
            nanos: 150_000,
            spread: 12_660,
            of: 100,
        };
        let found = Calibration::from_samples([sent(1.0), sent(2.0), received], &round, 0.0);
        let close = |found: f64, expected: f64| (found - expected).abs() < 0.02 * expected + 3.0;
        assert!(
            close(found.send.call, 2_000.0) && close(found.send.packet, 900.0),
            "{found}"
        );
        assert!(
            close(found.copy.packet, 700.0) && close(found.copy.kibibyte, 100.0),
            "{found}"
        );
        assert!(
            close(found.receive.call, 1_100.0) && close(found.turn_ns, 1_500.0),
            "{found}"
        );
        // 50 µs, less 8.6 to send and copy with 105 bytes, 1.5 for the turn, 1.1 to receive, 2.7 of
        // jitter.
        assert!(close(found.wake_up_ns, 38_740.0 - 2_674.0), "{found}");
        assert!(close(found.wake_up_jitter_ns, 3_000.0), "{found}");
        assert!(close(found.copy.call, 5_000.0), "{found}");
        let host = found.host();
        assert_eq!(host.wake_up.as_micros(), 36);
        assert!(found.send_error < 0.01 && found.receive_error < 0.01);
    }
}
