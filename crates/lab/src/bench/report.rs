//! The result of `groupcast bench ring`: for programs one object, for people a table; the conditions in both.

use std::fmt;

use serde::{Serialize, Serializer};

use super::ring::{Mode, RingOptions};
use super::tally::Latencies;

/// What a run of the ring showed, and under which conditions. Rates are payload, 10^6 bits a second.
#[derive(Clone, Debug, Serialize)]
pub struct RingReport {
    /// What the slowest receiver got.
    pub mbps_slowest: f64,
    /// One way, from the sending client to every receiving one.
    pub latency_us: LatencySummary,
    /// Messages a second at the slowest receiver.
    pub msgs_per_s: f64,
    /// Processor seconds of all daemons and clients, or members, for a million delivered messages.
    pub cpu_s_per_million: f64,
    /// The raw multicast limit of the same network in the same run: datagrams of 1350 bytes, without offload.
    pub raw_mbps: f64,
    /// The same with segmentation offload.
    pub raw_offload_mbps: f64,
    /// `mbps_slowest` by `raw_mbps`.
    pub ratio: f64,
    /// All receivers' orders were compared, and are one.
    pub order_checked: bool,
    /// How many messages of every receiver were compared.
    pub messages_compared: u64,
    /// How often the ring lost its token and formed anew, all members staying: 0 unless some did not get to run.
    pub reformations: u64,
    /// What was run.
    #[serde(flatten)]
    pub conditions: Conditions,
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
    /// Hosts; each has a daemon, a sending and a receiving client, or one process that is all three.
    pub hosts: usize,
    /// Payload of a message in bytes.
    pub size: usize,
    /// The service of every message.
    pub service: &'static str,
    /// How messages reach the ring: through a "daemon", or in a process that uses it as a "library".
    pub mode: &'static str,
    /// Offered by all senders together, in Mb/s; "max" if as fast as the ring takes it.
    pub rate: Rate,
    /// The wires.
    pub link: &'static str,
    /// How long was counted, in seconds.
    pub duration_s: f64,
    /// Whether datagrams are encrypted.
    pub encrypt: bool,
    /// Processors that all hosts share.
    pub cores: usize,
}

impl From<&RingOptions> for Conditions {
    fn from(options: &RingOptions) -> Self {
        Self {
            hosts: options.hosts,
            size: options.size,
            service: options.service.name(),
            mode: options.mode.name(),
            rate: options.rate,
            link: options.link.name(),
            duration_s: options.duration.as_secs_f64(),
            encrypt: options.encrypt,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// How much is offered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rate {
    /// As much as the ring takes.
    Max,
    /// So many Mb/s of payload, by all senders together.
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

impl fmt::Display for RingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conditions {
            hosts,
            size,
            service,
            mode,
            rate,
            link,
            duration_s,
            encrypt,
            cores,
        } = &self.conditions;
        let sealed = if *encrypt { "encrypted" } else { "in clear" };
        let offered = match rate {
            Rate::Max => "as fast as the ring takes them".to_owned(),
            Rate::Mbps(rate) => format!("{rate} Mb/s together"),
        };
        let order = if self.order_checked {
            format!(
                "one at all receivers ({} messages compared)",
                self.messages_compared
            )
        } else {
            "not compared".to_owned()
        };
        let LatencySummary { mean, p50, p99 } = self.latency_us;
        let parts = if *mode == Mode::Library.name() {
            "the ring in one process each"
        } else {
            "a daemon, a sender and a receiver each"
        };
        writeln!(
            f,
            "{hosts} hosts with {parts}; {service} messages of {size} bytes, {offered}"
        )?;
        writeln!(
            f,
            "link {link}, {sealed}, {duration_s} s counted, {cores} cores for all of it\n"
        )?;
        writeln!(
            f,
            "slowest receiver    {:>10.1} Mb/s  {:.0} messages/s",
            self.mbps_slowest, self.msgs_per_s
        )?;
        writeln!(
            f,
            "raw multicast       {:>10.1} Mb/s  {:.1} with offload",
            self.raw_mbps, self.raw_offload_mbps
        )?;
        writeln!(f, "ratio to raw        {:>10.2}", self.ratio)?;
        writeln!(
            f,
            "latency, one way    {mean:>10.0} µs    median {p50:.0}, 99 % below {p99:.0}"
        )?;
        writeln!(
            f,
            "processor time      {:>10.2} s     per million messages delivered",
            self.cpu_s_per_million
        )?;
        write!(f, "order               {order}")?;
        if self.reformations > 0 {
            write!(
                f,
                "\nthe ring formed anew {} times: its members did not get to run, so these figures are too low",
                self.reformations
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_nonsense_is_not() {
        assert_eq!("max".parse(), Ok(Rate::Max));
        assert_eq!("2.5".parse(), Ok(Rate::Mbps(2.5)));
        for text in ["", "0", "-1", "fast", "inf", "NaN"] {
            assert_eq!(text.parse::<Rate>(), Err(UnknownRate), "{text}");
        }
    }
}
