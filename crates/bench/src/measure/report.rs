//! The result of `groupcast bench ring`: for programs one object, for people a table; the
//! conditions in both.

use std::fmt;

use serde::{Serialize, Serializer};

use super::ring::{Mode, RingOptions, ceiling_mbps};
use super::tally::Latencies;
use super::wakes::report::{Wakes, Work};

/// What runs of the ring showed, and under which conditions. Rates are payload, 10^6 bits a second.
#[derive(Clone, Debug, Serialize)]
pub struct RingReport {
    /// The median of every figure by itself; of what is counted, see [`Figures`].
    #[serde(flatten)]
    pub medians: Figures,
    /// What a receiver can get on wires with a limit, whatever the ring does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling_mbps: Option<f64>,
    /// Every run's.
    pub runs: Vec<Figures>,
    /// What another protocol showed in turns with this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Box<Beside>>,
    /// What was run.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// What another protocol showed on the same bed, run by run in turns.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// What the slowest receiver got, by what it got of the other protocol; medians.
    pub mbps_slowest_ratio: f64,
    /// The mean latency by that of the other protocol; medians.
    pub latency_mean_ratio: f64,
    /// All that the other protocol showed.
    pub report: RingReport,
}

/// What one run showed, or the medians of several.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// What the slowest receiver got.
    pub mbps_slowest: f64,
    /// One way, from the sending client to every receiving one.
    pub latency_us: LatencySummary,
    /// Messages a second at the slowest receiver.
    pub msgs_per_s: f64,
    /// Processor seconds of all daemons and clients, or members, for a million delivered messages.
    pub cpu_s_per_million: f64,
    /// What they used of all cores together, in percent.
    pub cpu_percent: f64,
    /// The most memory that any daemon, or member, had resident at a time since its start, in MiB.
    pub memory_peak_mib: f64,
    /// The raw multicast limit of the same network in the same run: datagrams of 1350 bytes,
    /// without offload.
    pub raw_mbps: f64,
    /// The same with segmentation offload.
    pub raw_offload_mbps: f64,
    /// `mbps_slowest` by `raw_mbps`.
    pub ratio: f64,
    /// `mbps_slowest` by the ceiling of wires with a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_ceiling: Option<f64>,
    /// Median round trip of a blocking UDP ping-pong just before, in microseconds; at a stated
    /// rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping_pong_us: Option<f64>,
    /// Mean latency by `ping_pong_us`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ratio: Option<f64>,
    /// All receivers' orders were compared, and are one; of several runs, in each.
    pub order_checked: bool,
    /// How many messages of every receiver were compared; of several runs, in all.
    pub messages_compared: u64,
    /// How often the ring lost its token and formed anew, all members staying: 0 unless some did
    /// not get to run; of several runs, in all.
    pub reformations: u64,
    /// What the processes did for each ordered message, if that was counted; of several runs, of
    /// all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakes: Option<Work>,
}

impl RingReport {
    /// Of `runs`, at least one, under the conditions of `options`.
    pub(super) fn new(options: &RingOptions, runs: Vec<Figures>) -> Self {
        Self {
            medians: Figures::medians(&runs),
            ceiling_mbps: ceiling_mbps(options.link, options.hosts),
            runs,
            beside: None,
            conditions: Conditions::from(options),
        }
    }

    /// The same with what another protocol showed in turns with this one.
    pub(super) fn beside(self, report: Self) -> Self {
        let (ours, theirs) = (&self.medians, &report.medians);
        let beside = Beside {
            mbps_slowest_ratio: ours.mbps_slowest / theirs.mbps_slowest,
            latency_mean_ratio: ours.latency_us.mean / theirs.latency_us.mean,
            report,
        };
        Self {
            beside: Some(Box::new(beside)),
            ..self
        }
    }
}

impl Figures {
    fn medians(runs: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(runs.iter().map(figure));
        let some = |figure: fn(&Self) -> Option<f64>| {
            let figures: Option<Vec<f64>> = runs.iter().map(figure).collect();
            figures.map(median)
        };
        Self {
            mbps_slowest: of(|run| run.mbps_slowest),
            latency_us: LatencySummary::medians(runs.iter().map(|run| run.latency_us)),
            msgs_per_s: of(|run| run.msgs_per_s),
            cpu_s_per_million: of(|run| run.cpu_s_per_million),
            cpu_percent: of(|run| run.cpu_percent),
            memory_peak_mib: of(|run| run.memory_peak_mib),
            raw_mbps: of(|run| run.raw_mbps),
            raw_offload_mbps: of(|run| run.raw_offload_mbps),
            ratio: of(|run| run.ratio),
            of_ceiling: some(|run| run.of_ceiling),
            ping_pong_us: some(|run| run.ping_pong_us),
            latency_ratio: some(|run| run.latency_ratio),
            order_checked: runs.iter().all(|run| run.order_checked),
            messages_compared: runs.iter().map(|run| run.messages_compared).sum(),
            reformations: runs.iter().map(|run| run.reformations).sum(),
            wakes: Work::sum(runs.iter().filter_map(|run| run.wakes.as_ref())),
        }
    }
}

/// The middle one, or between the middle two; 0 of none.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.get(middle) {
        None => 0.0,
        Some(upper) if values.len() % 2 == 1 => *upper,
        Some(upper) => f64::midpoint(values[middle - 1], *upper),
    }
}

/// One-way latencies in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LatencySummary {
    /// Their mean.
    pub mean: f64,
    /// Half are below.
    pub p50: f64,
    /// 99 of 100 are below.
    pub p99: f64,
}

impl LatencySummary {
    /// The median of each figure over several runs.
    pub(super) fn medians(runs: impl Iterator<Item = Self> + Clone) -> Self {
        let of = |figure: fn(&Self) -> f64| median(runs.clone().map(|run| figure(&run)));
        Self {
            mean: of(|run| run.mean),
            p50: of(|run| run.p50),
            p99: of(|run| run.p99),
        }
    }
}

impl From<&Latencies> for LatencySummary {
    fn from(latencies: &Latencies) -> Self {
        Self {
            mean: latencies.mean_us(),
            p50: latencies.percentile_us(50.0),
            p99: latencies.percentile_us(99.0),
        }
    }
}

/// Under which conditions a run was made.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    /// Hosts; each has a daemon, a sending and a receiving client, or one process that is all
    /// three.
    pub hosts: usize,
    /// Payload of a message in bytes.
    pub size: usize,
    /// The service of every message.
    pub service: String,
    /// How messages reach the ring: through a "daemon", or in a process that uses it as a
    /// "library".
    pub mode: &'static str,
    /// Offered by all senders together, in Mb/s; "max" if as fast as the ring takes it.
    pub rate: Rate,
    /// The wires.
    pub link: &'static str,
    /// How long was counted, in seconds.
    pub duration_s: f64,
    /// Whether datagrams are encrypted.
    pub encrypt: bool,
    /// The ring, whose members send after the token ("accelerated") or only before it
    /// ("original"); else the name of what orders messages.
    pub protocol: &'static str,
    /// Whether one host sends alone, in each run the next one.
    pub lone: bool,
    /// Whether members poll before they sleep: "on", "off", or "auto" as the driver decides.
    pub spin: &'static str,
    /// Clients of a daemon: "two", one that sends and one that receives, or "one" that does both.
    pub clients: &'static str,
    /// Frames of 100 that every host loses of those that reach it.
    pub loss_percent: f64,
    /// Processors that all hosts share.
    pub cores: usize,
}

/// Processors that this process may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl From<&RingOptions> for Conditions {
    fn from(options: &RingOptions) -> Self {
        Self {
            hosts: options.hosts,
            size: options.size,
            service: options.service.to_string(),
            mode: options.mode.name(),
            rate: options.rate,
            link: options.link.name(),
            duration_s: options.duration.as_secs_f64(),
            encrypt: options.encrypt,
            protocol: options.protocol(),
            lone: options.is_lone,
            spin: options.spin.name(),
            clients: options.clients.name(),
            loss_percent: f64::from(options.loss_permille) / 10.0,
            cores: cores(),
        }
    }
}

/// How much is offered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rate {
    /// As much as the ring takes.
    Max,
    /// This many Mb/s of payload, by all senders together.
    Mbps(f64),
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.pad("max"),
            Self::Mbps(rate) => rate.fmt(f),
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Max => serializer.serialize_str("max"),
            Self::Mbps(rate) => serializer.serialize_f64(*rate),
        }
    }
}

/// The text is no rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a rate: use a number of Mb/s above 0, or max")]
pub struct UnknownRate;

impl std::str::FromStr for Rate {
    type Err = UnknownRate;

    fn from_str(text: &str) -> Result<Self, UnknownRate> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.parse() {
            Ok(rate) if rate > 0.0 && f64::is_finite(rate) => Ok(Self::Mbps(rate)),
            _ => Err(UnknownRate),
        }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = match (self.mode == Mode::Library.name(), self.clients) {
            (true, _) => "the protocol in one process each",
            (false, "one") => "a daemon and a client each",
            (false, _) => "a daemon, a sender and a receiver each",
        };
        let senders = match self.lone {
            true => ", one host alone in each run",
            false => "",
        };
        let offered = match self.rate {
            Rate::Max => format!("as fast as they are taken{senders}"),
            Rate::Mbps(rate) => format!("{rate} Mb/s together{senders}"),
        };
        let sealed = if self.encrypt {
            "encrypted"
        } else {
            "in clear"
        };
        writeln!(
            f,
            "{} hosts with {parts}; {} messages of {} bytes, {offered}",
            self.hosts, self.service, self.size
        )?;
        let ring = match self.protocol {
            "accelerated" | "original" => " ring",
            _ => "",
        };
        write!(f, "{}{ring}, link {}", self.protocol, self.link)?;
        if self.loss_percent > 0.0 {
            write!(f, " that loses {} %", self.loss_percent)?;
        }
        write!(
            f,
            ", {sealed}, spinning {}, {} s counted, {} cores for all of it",
            self.spin, self.duration_s, self.cores
        )
    }
}

/// What a reader is told where the members formed anew this many times during a measurement.
pub(super) struct Reformed(pub(super) u64);

impl fmt::Display for Reformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self.0;
        write!(
            f,
            "the members formed anew {times} times: they did not get to run, so these figures are too low"
        )
    }
}

impl fmt::Display for RingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.conditions)?;
        if self.runs.len() > 1 {
            writeln!(
                f,
                "medians of {} runs; slowest receiver in each, Mb/s:",
                self.runs.len()
            )?;
            for run in &self.runs {
                write!(f, " {:.1}", run.mbps_slowest)?;
            }
            writeln!(f)?;
        }
        let Figures {
            mbps_slowest,
            latency_us: LatencySummary { mean, p50, p99 },
            msgs_per_s,
            cpu_s_per_million,
            cpu_percent,
            memory_peak_mib,
            raw_mbps,
            raw_offload_mbps,
            ratio,
            of_ceiling,
            ping_pong_us,
            latency_ratio,
            order_checked,
            messages_compared,
            reformations,
            wakes,
        } = &self.medians;
        writeln!(
            f,
            "\nslowest receiver    {mbps_slowest:>10.1} Mb/s  {msgs_per_s:.0} messages/s"
        )?;
        writeln!(
            f,
            "raw multicast       {raw_mbps:>10.1} Mb/s  {raw_offload_mbps:.1} with offload"
        )?;
        writeln!(f, "ratio to raw        {ratio:>10.2}")?;
        if let (Some(share), Some(ceiling)) = (of_ceiling, self.ceiling_mbps) {
            let percent = 100.0 * share;
            writeln!(
                f,
                "of the ceiling      {percent:>10.1} %     that is {ceiling:.1} Mb/s"
            )?;
        }
        writeln!(
            f,
            "latency, one way    {mean:>10.0} µs    median {p50:.0}, 99 % below {p99:.0}"
        )?;
        if let (Some(round_trip), Some(ratio)) = (ping_pong_us, latency_ratio) {
            writeln!(
                f,
                "UDP ping-pong       {round_trip:>10.0} µs    the mean latency is {ratio:.1} of it"
            )?;
        }
        writeln!(
            f,
            "processor time      {cpu_s_per_million:>10.2} s     per million messages delivered; {cpu_percent:.0} % of all cores"
        )?;
        let whose = if self.conditions.mode == Mode::Library.name() {
            "member"
        } else {
            "daemon"
        };
        writeln!(
            f,
            "memory              {memory_peak_mib:>10.1} MiB   at the peak of a {whose}"
        )?;
        if let Some(work) = wakes {
            write!(f, "{}", Wakes::from(work.clone()))?;
        }
        if *order_checked {
            write!(
                f,
                "order               one at all receivers ({messages_compared} messages compared)"
            )?;
        } else {
            write!(f, "order               not compared")?;
        }
        if *reformations > 0 {
            write!(f, "\n{}", Reformed(*reformations))?;
        }
        let Some(beside) = &self.beside else {
            return Ok(());
        };
        write!(
            f,
            "\n\n{}\n\n{} beside {}: {:.3} of its rate, {:.3} of its mean latency",
            beside.report,
            self.conditions.protocol,
            beside.report.conditions.protocol,
            beside.mbps_slowest_ratio,
            beside.latency_mean_ratio
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(mbps_slowest: f64, ping_pong_us: Option<f64>, order_checked: bool) -> Figures {
        Figures {
            mbps_slowest,
            latency_us: LatencySummary {
                mean: 2.0 * mbps_slowest,
                p50: 1.0,
                p99: 3.0,
            },
            msgs_per_s: 1.0,
            cpu_s_per_million: 1.0,
            cpu_percent: 50.0,
            memory_peak_mib: 20.0,
            raw_mbps: 10.0,
            raw_offload_mbps: 20.0,
            ratio: mbps_slowest / 10.0,
            of_ceiling: None,
            ping_pong_us,
            latency_ratio: None,
            order_checked,
            messages_compared: 5,
            reformations: 1,
            wakes: None,
        }
    }

    #[test]
    fn medians_are_of_each_figure_and_counts_are_of_all_runs() {
        let runs = [
            run(30.0, Some(40.0), true),
            run(10.0, Some(60.0), true),
            run(20.0, Some(50.0), true),
        ];
        let medians = Figures::medians(&runs);
        assert_eq!((medians.mbps_slowest, medians.ratio), (20.0, 2.0));
        assert_eq!(medians.latency_us.mean, 40.0);
        assert_eq!(medians.ping_pong_us, Some(50.0));
        assert_eq!((medians.messages_compared, medians.reformations), (15, 3));
        assert!(medians.order_checked);
        let two = [run(10.0, None, true), run(20.0, None, false)];
        let medians = Figures::medians(&two);
        assert_eq!((medians.mbps_slowest, medians.ping_pong_us), (15.0, None));
        assert!(!medians.order_checked);
    }

    #[test]
    fn rates_are_read_and_nonsense_is_not() {
        assert_eq!("max".parse(), Ok(Rate::Max));
        assert_eq!("2.5".parse(), Ok(Rate::Mbps(2.5)));
        for text in ["", "0", "-1", "fast", "inf", "NaN"] {
            assert_eq!(text.parse::<Rate>(), Err(UnknownRate), "{text}");
        }
    }
}
