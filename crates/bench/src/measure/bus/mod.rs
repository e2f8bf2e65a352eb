//! `groupcast bench bus`: programs at the message bus, beside the binary client, another syntax,
//! one pattern, or one daemon for all (MBus I of 000 ch. 3).
//!
//! Senders and receivers are processes of their own, spread over the hosts in turn; every receiver
//! accepts every domain, and so gets every message. Rows of messages are compared: they must be one
//! order, without a hole. The figure is what the slowest receiver gets.

mod clients;
mod lines;
mod message;
mod parts;
pub mod report;

use std::path::Path;
use std::time::Duration;

use groupcast_core::Service;
use groupcast_core::family::OrderFamily;

pub use self::clients::{Receive, Send};
pub use self::message::{Form, SIZE_MIN, Syntaxes};
use self::report::{BusFigures, BusReport};
use super::clock::{self, Window};
use super::report::{LatencySummary, Rate};
use super::ring::{SIZE_MAX as RING_SIZE_MAX, interval, judge};
use super::tally::{Latencies, Tally};
use super::{BenchError, await_result, open_window};
use crate::testbed::{Link, Testbed};

/// The longest message that is measured: 1 MiB.
pub const SIZE_MAX: usize = 1 << 20;
const _: () = assert!(SIZE_MAX <= RING_SIZE_MAX);
/// The most programs of a kind.
pub const CLIENTS_MAX: usize = 256;
/// The most patterns of a receiver, which a daemon allows unless it is told otherwise.
pub const PATTERNS_MAX: usize = 1_000;

/// Sending begins this long before it counts.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long before the end memory is looked at.
const BEFORE_END: Duration = Duration::from_millis(20);

/// How messages travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// By the bus of the daemon on each program's host.
    Bus,
    /// By the client protocol, through the same daemons.
    Binary,
    /// By the bus of one daemon, on the first host, to which all programs connect by TCP, in clear.
    Single,
}

impl Via {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bus => "bus",
            Self::Binary => "binary",
            Self::Single => "single",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct BusOptions {
    /// Hosts, 2 to 64.
    pub hosts: usize,
    /// Receiving programs, up to [`CLIENTS_MAX`].
    pub receivers: usize,
    /// Sending programs, up to [`CLIENTS_MAX`].
    pub senders: usize,
    /// Domains, which messages go to in turn.
    pub domains: usize,
    /// Patterns of a receiver for each domain; the last one is that which matches.
    pub patterns: usize,
    /// Bytes of a message as it is sent, [`SIZE_MIN`] to [`SIZE_MAX`].
    pub size: usize,
    /// What messages are written in.
    pub syntaxes: Syntaxes,
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
    /// What orders messages.
    pub order: &'static OrderFamily,
    /// How messages travel.
    pub via: Via,
}

impl BusOptions {
    /// Nanoseconds between two messages of one sender; `None` if it sends as fast as it may.
    fn interval(&self) -> Option<u64> {
        match self.rate {
            Rate::Max => None,
            Rate::Mbps(rate) => Some(interval(self.size, rate / self.senders as f64)),
        }
    }

    /// The names of the domains.
    fn domains(&self) -> Vec<String> {
        let names = 0..self.domains;
        names.map(|index| format!("d{index}.bench")).collect()
    }

    /// What a receiver accepts in each domain.
    fn patterns(&self) -> Vec<String> {
        let numbers = 0..self.patterns;
        numbers.map(|index| format!("tag-{index}(-.*)?")).collect()
    }

    /// The tag of every message: the last pattern matches it, and no other.
    fn tag(&self) -> String {
        format!("tag-{}-x", self.patterns - 1)
    }
}

/// Measures `runs` times (at least once) on one bed, in turns with `beside`, if there is one; it
/// must have as many hosts and the same link. `executable` is daemon, client and worker.
///
/// # Errors
/// There is no bed, a process fails, or what was received is in several orders or has holes.
pub fn run(
    options: &BusOptions,
    beside: Option<&BusOptions>,
    runs: usize,
    executable: &Path,
) -> Result<BusReport, BenchError> {
    Testbed::available().map_err(BenchError::Unavailable)?;
    let mut bed = Testbed::new(options.hosts, options.link)?;
    let turn = |_| {
        let figures = measure(&bed, options, executable)?;
        let beside = beside.map(|beside| measure(&bed, beside, executable));
        Ok((figures, beside.transpose()?))
    };
    let result = (0..runs.max(1))
        .map(turn)
        .collect::<Result<Vec<_>, BenchError>>();
    // The daemons' logs say more than an error can.
    bed.keep_outputs(result.is_err());
    let (figures, figures_beside): (Vec<_>, Vec<_>) = result?.into_iter().unzip();
    let report = BusReport::new(options, figures);
    Ok(match beside {
        None => report,
        Some(beside) => {
            let figures = figures_beside.into_iter().flatten().collect();
            report.beside(BusReport::new(beside, figures))
        }
    })
}

/// One run.
fn measure(
    bed: &Testbed,
    options: &BusOptions,
    executable: &Path,
) -> Result<BusFigures, BenchError> {
    let mut parts = parts::start(bed, options, executable)?;
    let window = Window::after(WARM_UP, options.duration);
    for process in parts.receivers.iter_mut().chain(&mut parts.senders) {
        open_window(process, window)?;
    }
    clock::sleep_until(window.from);
    let before = parts.cpu_seconds()?;
    // Receivers end with the window, and what is kept for them with them.
    clock::sleep_until(window.until - clock::nanos(BEFORE_END));
    let memory_peak = parts.memory_peak()?;
    let cpu = parts.cpu_seconds()? - before;
    let tallies = parts
        .receivers
        .iter_mut()
        .map(|receiver| await_result::<Tally>(receiver, window))
        .collect::<Result<Vec<_>, _>>()?;
    for sender in &mut parts.senders {
        let _: serde::de::IgnoredAny = await_result(sender, window)?;
    }
    let messages_compared = judge(&tallies, options.service)?;
    let least = |of: fn(&Tally) -> u64| tallies.iter().map(of).min().unwrap_or(0);
    let all = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let delivered = all(|tally| tally.messages);
    let mut latencies = Latencies::default();
    for tally in &tallies {
        latencies.merge(&tally.latencies);
    }
    let mbps_all = window.mbps(all(|tally| tally.bytes));
    let wire = options.link.bits_per_second();
    Ok(BusFigures {
        mbps_slowest: window.mbps(least(|tally| tally.bytes)),
        mbps_all,
        of_wire: wire.map(|bits| mbps_all * 1e6 / bits as f64),
        latency_us: LatencySummary::from(&latencies),
        msgs_per_s: least(|tally| tally.messages) as f64 / window.seconds(),
        cpu_s_per_million: cpu * 1e6 / (delivered as f64).max(1.0),
        cpu_percent: cpu / window.seconds() / super::report::cores() as f64 * 100.0,
        memory_peak_mib: memory_peak as f64 / f64::from(1 << 20),
        order_checked: messages_compared > 0,
        messages_compared,
        reformations: tallies
            .iter()
            .map(|tally| tally.reformations)
            .max()
            .unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use groupcast_protocols::ring::ORDER;

    use super::*;

    #[test]
    fn the_last_pattern_and_no_other_is_that_of_the_tag() {
        let options = BusOptions {
            hosts: 2,
            receivers: 2,
            senders: 4,
            domains: 2,
            patterns: 20,
            size: 125,
            syntaxes: "raw".parse().unwrap(),
            service: Service::Agreed,
            rate: Rate::Mbps(1.0),
            link: Link::Unlimited,
            duration: Duration::from_secs(1),
            encrypt: true,
            order: &ORDER,
            via: Via::Bus,
        };
        let matching = |pattern: &&String| {
            let prefix = pattern.strip_suffix("(-.*)?").unwrap();
            options
                .tag()
                .strip_prefix(prefix)
                .is_some_and(|it| it.starts_with('-'))
        };
        let patterns = options.patterns();
        let found: Vec<_> = patterns.iter().filter(matching).collect();
        assert_eq!(found, ["tag-19(-.*)?"]);
        assert_eq!(options.domains(), ["d0.bench", "d1.bench"]);
        assert_eq!(options.interval(), Some(4_000_000));
    }
}
