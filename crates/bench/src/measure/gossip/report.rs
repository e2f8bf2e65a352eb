//! The result of `groupcast bench gossip`: for programs one object, for people a few lines.

use std::fmt;

use serde::Serialize;

use super::member::Counts;
use super::{Bench, SLEEP};
use crate::measure::report::{LatencySummary, cores};
use crate::measure::tally::Latencies;

/// What a run showed, and under which conditions.
#[derive(Clone, Debug, Serialize)]
pub struct GossipReport {
    /// Messages a second that healthy members delivered; the sender is not counted.
    pub healthy: Throughput,
    /// Messages a second that perturbed members delivered.
    pub perturbed: Throughput,
    /// Whether every healthy member's throughput is within 1 % of the rate.
    pub within_one_percent: bool,
    /// One way, from when a message was due to a healthy member.
    pub latency_us: LatencySummary,
    /// Messages that were sent while it counted, a second. Those that a protocol refused because it
    /// waits for somebody are not sent later.
    pub sent_per_s: f64,
    /// Messages that healthy members reported as lost, all together.
    pub healthy_lost: u64,
    /// Messages that perturbed members reported as lost, all together.
    pub perturbed_lost: u64,
    /// Datagrams that did not fit into receive buffers, at all members.
    pub kernel_drops: u64,
    /// Processors kept busy by all members together.
    pub processors: f64,
    /// What was run.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// Messages a second over several members.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Throughput {
    /// How many members.
    pub members: usize,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

/// Under which conditions a run was made.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    /// What carried the messages.
    pub protocol: &'static str,
    /// Members, the sender included.
    pub members: usize,
    /// Messages a second that were asked for.
    pub rate: f64,
    /// Payload of a message in bytes.
    pub size: usize,
    /// The probability with which a perturbed member sleeps through an interval of 100 ms.
    pub sleep: f64,
    /// How long was counted, in seconds.
    pub duration_s: f64,
    /// Whether datagrams are encrypted.
    pub encrypt: bool,
    /// Processors that all members share.
    pub cores: usize,
}

impl Throughput {
    pub(super) fn over(rates: impl Iterator<Item = f64>) -> Self {
        let rates: Vec<f64> = rates.collect();
        if rates.is_empty() {
            return Self::default();
        }
        Self {
            members: rates.len(),
            mean: rates.iter().sum::<f64>() / rates.len() as f64,
            min: rates.iter().copied().fold(f64::INFINITY, f64::min),
            max: rates.iter().copied().fold(0.0, f64::max),
        }
    }
}

impl GossipReport {
    /// Of what every member counted, the sender first.
    pub(super) fn new(bench: &Bench, results: &[Counts], processors: f64) -> Self {
        let options = &bench.options;
        let seconds = options.duration.as_secs_f64();
        let of = |perturbed: bool| {
            let counts = results.iter().enumerate().skip(1);
            counts
                .filter(move |(index, _)| bench.is_perturbed(*index) == perturbed)
                .map(|(_, counts)| counts)
        };
        let lost = |perturbed: bool| of(perturbed).map(|counts| counts.lost).sum();
        let healthy = Throughput::over(of(false).map(|counts| counts.delivered as f64 / seconds));
        let mut latencies = Latencies::default();
        for counts in of(false) {
            latencies.merge(&counts.latencies);
        }
        Self {
            healthy,
            perturbed: Throughput::over(of(true).map(|counts| counts.delivered as f64 / seconds)),
            within_one_percent: healthy.min >= 0.99 * options.rate
                && healthy.max <= 1.01 * options.rate,
            latency_us: LatencySummary::from(&latencies),
            sent_per_s: results[0].delivered as f64 / seconds,
            healthy_lost: lost(false),
            perturbed_lost: lost(true),
            kernel_drops: results.iter().map(|counts| counts.kernel_drops).sum(),
            processors,
            conditions: Conditions {
                protocol: options.carrier.name(),
                members: options.members,
                rate: options.rate,
                size: options.size,
                sleep: options.sleep,
                duration_s: seconds,
                encrypt: options.encrypt,
                cores: cores(),
            },
        }
    }
}

impl fmt::Display for GossipReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conditions {
            protocol,
            members,
            rate,
            size,
            sleep,
            duration_s,
            encrypt,
            cores,
        } = &self.conditions;
        let line = |f: &mut fmt::Formatter<'_>, what: &str, over: &Throughput| {
            writeln!(
                f,
                "{what:<10} {:>4} members: {:8.2} msg/s (least {:.2}, most {:.2})",
                over.members, over.mean, over.min, over.max
            )
        };
        writeln!(
            f,
            "{protocol}: {members} members, {rate} messages of {size} bytes a second for {duration_s} s, {}",
            if *encrypt { "encrypted" } else { "in clear" }
        )?;
        line(f, "healthy", &self.healthy)?;
        line(f, "perturbed", &self.perturbed)?;
        writeln!(
            f,
            "perturbed members sleep through {sleep} of all intervals of {} ms",
            SLEEP.as_millis()
        )?;
        writeln!(
            f,
            "sent       {:8.2} msg/s; healthy members within 1 % of the rate: {}",
            self.sent_per_s,
            if self.within_one_percent { "yes" } else { "no" }
        )?;
        writeln!(
            f,
            "latency    mean {:.0} µs, median {:.0} µs, 99 % {:.0} µs (healthy)",
            self.latency_us.mean, self.latency_us.p50, self.latency_us.p99
        )?;
        write!(
            f,
            "lost       healthy {}, perturbed {}; {} datagrams beyond receive buffers; {:.2} of {cores} processors busy",
            self.healthy_lost, self.perturbed_lost, self.kernel_drops, self.processors
        )
    }
}
