//! The result of `groupcast bench bus`: one object for programs, a table for people; the conditions
//! in both.

use std::fmt;

use serde::Serialize;

use super::super::report::{LatencySummary, Rate, Reformed, cores, median};
use super::{BusOptions, Via};

/// What runs at the bus showed, and under which conditions. Rates are of messages as receivers get
/// them, 10^6 bits a second.
#[derive(Clone, Debug, Serialize)]
pub struct BusReport {
    /// The median of every figure by itself.
    #[serde(flatten)]
    pub medians: BusFigures,
    /// Every run's.
    pub runs: Vec<BusFigures>,
    /// What something else showed in turns with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Box<BusBeside>>,
    /// What was run.
    #[serde(flatten)]
    pub conditions: BusConditions,
}

/// What something else showed on the same bed, run by run in turns.
#[derive(Clone, Debug, Serialize)]
pub struct BusBeside {
    /// Messages a second at the slowest receiver, by those of the other; medians.
    pub msgs_ratio: f64,
    /// What all receivers got together, by that of the other; medians.
    pub mbps_all_ratio: f64,
    /// The mean latency by that of the other; medians.
    pub latency_mean_ratio: f64,
    /// All that the other showed.
    pub report: BusReport,
}

/// What one run showed, or the medians of several.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BusFigures {
    /// What the slowest receiver got.
    pub mbps_slowest: f64,
    /// What all receivers got together.
    pub mbps_all: f64,
    /// That by what one wire carries; on wires with a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_wire: Option<f64>,
    /// One way, from the sending program to every receiving one.
    pub latency_us: LatencySummary,
    /// Messages a second at the slowest receiver.
    pub msgs_per_s: f64,
    /// Processor seconds of all daemons and programs for a million delivered messages.
    pub cpu_s_per_million: f64,
    /// What they used of all cores together, in percent.
    pub cpu_percent: f64,
    /// The most memory that any daemon had resident at a time since its start, in MiB.
    pub memory_peak_mib: f64,
    /// All receivers' rows were compared, and are one; of several runs, in each.
    pub order_checked: bool,
    /// How many messages of every receiver were compared; of several runs, in all.
    pub messages_compared: u64,
    /// How often the members formed anew, all of them; of several runs, in all.
    pub reformations: u64,
}

/// Under which conditions a run was made.
#[derive(Clone, Debug, Serialize)]
pub struct BusConditions {
    /// Hosts; each has a daemon, unless `via` is "single".
    pub hosts: usize,
    /// Receiving programs, spread over the hosts.
    pub receivers: usize,
    /// Sending programs, spread over the hosts.
    pub senders: usize,
    /// Domains, which messages go to in turn.
    pub domains: usize,
    /// Patterns of a receiver for each domain.
    pub patterns: usize,
    /// Bytes of a message as it is sent.
    pub size: usize,
    /// What messages are sent in, and what they are converted to.
    pub syntax: String,
    /// The service of every message.
    pub service: String,
    /// Offered by all senders together, in Mb/s; "max" if as fast as it is taken.
    pub rate: Rate,
    /// The wires.
    pub link: &'static str,
    /// How long was counted, in seconds.
    pub duration_s: f64,
    /// Whether datagrams are encrypted.
    pub encrypt: bool,
    /// What orders messages.
    pub protocol: &'static str,
    /// "bus", the "binary" client, or the bus of a "single" daemon.
    pub via: &'static str,
    /// Processors that all hosts share.
    pub cores: usize,
}

impl BusReport {
    /// Of `runs`, at least one, under the conditions of `options`.
    pub(super) fn new(options: &BusOptions, runs: Vec<BusFigures>) -> Self {
        Self {
            medians: BusFigures::medians(&runs),
            runs,
            beside: None,
            conditions: BusConditions::from(options),
        }
    }

    /// The same with what something else showed in turns with this.
    pub(super) fn beside(self, report: Self) -> Self {
        let (ours, theirs) = (&self.medians, &report.medians);
        let beside = BusBeside {
            msgs_ratio: ours.msgs_per_s / theirs.msgs_per_s,
            mbps_all_ratio: ours.mbps_all / theirs.mbps_all,
            latency_mean_ratio: ours.latency_us.mean / theirs.latency_us.mean,
            report,
        };
        Self {
            beside: Some(Box::new(beside)),
            ..self
        }
    }
}

impl BusFigures {
    fn medians(runs: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(runs.iter().map(figure));
        let of_wire: Option<Vec<f64>> = runs.iter().map(|run| run.of_wire).collect();
        Self {
            mbps_slowest: of(|run| run.mbps_slowest),
            mbps_all: of(|run| run.mbps_all),
            of_wire: of_wire.map(median),
            latency_us: LatencySummary::medians(runs.iter().map(|run| run.latency_us)),
            msgs_per_s: of(|run| run.msgs_per_s),
            cpu_s_per_million: of(|run| run.cpu_s_per_million),
            cpu_percent: of(|run| run.cpu_percent),
            memory_peak_mib: of(|run| run.memory_peak_mib),
            order_checked: runs.iter().all(|run| run.order_checked),
            messages_compared: runs.iter().map(|run| run.messages_compared).sum(),
            reformations: runs.iter().map(|run| run.reformations).sum(),
        }
    }
}

impl From<&BusOptions> for BusConditions {
    fn from(options: &BusOptions) -> Self {
        Self {
            hosts: options.hosts,
            receivers: options.receivers,
            senders: options.senders,
            domains: options.domains,
            patterns: options.patterns,
            size: options.size,
            syntax: match options.via {
                // Its messages have no syntax.
                Via::Binary => "raw".to_owned(),
                Via::Bus | Via::Single => options.syntaxes.to_string(),
            },
            service: options.service.to_string(),
            rate: options.rate,
            link: options.link.name(),
            duration_s: options.duration.as_secs_f64(),
            encrypt: options.encrypt && options.via != Via::Single,
            protocol: options.order.name(),
            via: options.via.name(),
            cores: cores(),
        }
    }
}

impl fmt::Display for BusConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let via = match self.via {
            "single" => "the bus of one daemon, by TCP",
            "binary" => "the binary client",
            _ => "the bus",
        };
        let offered = match self.rate {
            Rate::Max => "as fast as they are taken".to_owned(),
            Rate::Mbps(rate) => format!("{rate} Mb/s together"),
        };
        writeln!(
            f,
            "{via}: {} hosts, {} senders, {} receivers, {} domains, {} patterns each; {}",
            self.hosts, self.senders, self.receivers, self.domains, self.patterns, self.protocol
        )?;
        let sealed = if self.encrypt {
            "encrypted"
        } else {
            "in clear"
        };
        write!(
            f,
            "{} messages of {} bytes, {}, {offered}; link {}, {sealed}; {} s counted, {} cores for all",
            self.service, self.size, self.syntax, self.link, self.duration_s, self.cores
        )
    }
}

impl fmt::Display for BusReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = &self.medians;
        writeln!(f, "{}", self.conditions)?;
        if self.runs.len() > 1 {
            writeln!(f, "medians of {} runs", self.runs.len())?;
        }
        writeln!(
            f,
            "\nslowest receiver    {:>10.1} Mb/s  {:.0} messages a second",
            of.mbps_slowest, of.msgs_per_s
        )?;
        write!(f, "all receivers       {:>10.1} Mb/s", of.mbps_all)?;
        match of.of_wire {
            Some(ratio) => writeln!(f, "  {ratio:.2} of what a wire carries")?,
            None => writeln!(f)?,
        }
        let LatencySummary { mean, p50, p99 } = of.latency_us;
        writeln!(
            f,
            "latency, one way    {mean:>10.0} µs    median {p50:.0}, 99 % below {p99:.0}"
        )?;
        writeln!(
            f,
            "processor time      {:>10.2} s     per million messages delivered; {:.0} % of all cores",
            of.cpu_s_per_million, of.cpu_percent
        )?;
        writeln!(
            f,
            "memory              {:>10.1} MiB   at the peak of a daemon",
            of.memory_peak_mib
        )?;
        match of.order_checked {
            true => write!(
                f,
                "order               one at all receivers ({} messages compared)",
                of.messages_compared
            )?,
            false => write!(f, "order               not compared")?,
        }
        if of.reformations > 0 {
            write!(f, "\n{}", Reformed(of.reformations))?;
        }
        let Some(beside) = &self.beside else {
            return Ok(());
        };
        write!(
            f,
            "\n\n{}\n\nthe first beside the second: {:.3} of its messages, {:.3} of its mean latency",
            beside.report, beside.msgs_ratio, beside.latency_mean_ratio
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_each_figure_and_counts_are_of_all_runs() {
        let run = |mbps_slowest: f64, order_checked| BusFigures {
            mbps_slowest,
            mbps_all: 2.0 * mbps_slowest,
            of_wire: Some(mbps_slowest / 10.0),
            latency_us: LatencySummary {
                mean: mbps_slowest,
                p50: 1.0,
                p99: 2.0,
            },
            msgs_per_s: 1.0,
            cpu_s_per_million: 1.0,
            cpu_percent: 1.0,
            memory_peak_mib: 1.0,
            order_checked,
            messages_compared: 256,
            reformations: 1,
        };
        let medians = BusFigures::medians(&[run(3.0, true), run(1.0, true), run(2.0, false)]);
        assert_eq!((medians.mbps_slowest, medians.mbps_all), (2.0, 4.0));
        assert_eq!(medians.of_wire, Some(0.2));
        assert_eq!(
            (medians.order_checked, medians.messages_compared),
            (false, 768)
        );
        assert_eq!(medians.reformations, 3);
    }
}
