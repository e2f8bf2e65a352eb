//! What is measured, and what is asked of it: each row is one call of `groupcast bench ring`.
//!
//! A row is known by its arguments. What is asked of a row may refer to another one, by those.

use std::fmt;

/// How many hosts the group has.
const HOSTS: [u8; 3] = [3, 5, 8];
/// The rate at which latency is measured, in Mb/s of all senders together.
pub(crate) const MODEST: u32 = 5;

/// How messages reach the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Daemon,
    Library,
}

/// How much is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rate {
    Max,
    /// Mb/s of all senders together.
    Mbps(u32),
    /// Half of what the same row carries at most.
    Half,
}

/// A call of `groupcast bench ring`: its arguments, but for those that all rows share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BenchCall {
    pub(crate) link: &'static str,
    pub(crate) hosts: u8,
    pub(crate) mode: Mode,
    pub(crate) size: u32,
    pub(crate) service: &'static str,
    pub(crate) rate: Rate,
    pub(crate) encrypt: bool,
    pub(crate) loss: u8,
    pub(crate) spin: Option<bool>,
    pub(crate) original: bool,
}

/// What is asked of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Bar {
    /// Throughput, at least so many times the raw limit.
    Raw(f64),
    /// Throughput, at least this share of the ceiling.
    Ceiling(f64),
    /// Mean latency, at most so many round trips of the ping-pong.
    RoundTrips(f64),
    /// Processor time, less than so many percent of all cores.
    Processor(f64),
    /// At least so many messages a second at the slowest receiver.
    Messages(f64),
    /// 99 of 100 latencies, below so many microseconds.
    P99(f64),
    /// Throughput, at least this share of another row's.
    ShareOf(f64, BenchCall),
    /// Throughput of another row, at least this share of this one's.
    Leaves(f64, BenchCall),
    /// Mean latency, at most this share of another row's.
    LatencyOf(f64, BenchCall),
}

/// A row of the table.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    /// Which part of the plan it belongs to.
    pub(crate) part: &'static str,
    pub(crate) call: BenchCall,
    pub(crate) bars: Vec<Bar>,
}

/// A part of the plan: its name, and its rows.
type Part = (&'static str, fn() -> Vec<Row>);

/// The parts by name, in the order of the table.
pub(crate) const PARTS: [Part; 8] = [
    ("none", unlimited),
    ("1gbit", gigabit),
    ("100mbit", fast_ethernet),
    ("latency", latency),
    ("small", small),
    ("services", services),
    ("loss", loss),
    ("original", original),
];

/// All rows.
pub(crate) fn all() -> Vec<Row> {
    PARTS.iter().flat_map(|(_, part)| part()).collect()
}

impl BenchCall {
    /// 1350 bytes, agreed, encrypted, as fast as the ring takes them.
    const fn new(link: &'static str, hosts: u8, mode: Mode) -> Self {
        Self {
            link,
            hosts,
            mode,
            size: 1350,
            service: "agreed",
            rate: Rate::Max,
            encrypt: true,
            loss: 0,
            spin: None,
            original: false,
        }
    }

    /// The row that says what half of the most is.
    pub(crate) fn at_most(self) -> Self {
        Self {
            rate: Rate::Max,
            spin: None,
            ..self
        }
    }

    /// The words of the command line, with `rate` for the rate.
    fn words(self, rate: &str) -> Vec<String> {
        let mode = match self.mode {
            Mode::Daemon => "daemon",
            Mode::Library => "library",
        };
        let switch = |on| if on { "on" } else { "off" };
        let mut words: Vec<String> = [
            ("--link", self.link),
            ("--hosts", &self.hosts.to_string()),
            ("--mode", mode),
            ("--size", &self.size.to_string()),
            ("--service", self.service),
            ("--rate", rate),
            ("--encrypt", switch(self.encrypt)),
        ]
        .iter()
        .flat_map(|(option, value)| [(*option).to_owned(), (*value).to_owned()])
        .collect();
        if self.loss > 0 {
            words.extend(["--loss".to_owned(), self.loss.to_string()]);
        }
        if let Some(spin) = self.spin {
            words.extend(["--spin".to_owned(), switch(spin).to_owned()]);
        }
        if self.original {
            words.extend(["--protocol".to_owned(), "original".to_owned()]);
        }
        words
    }

    /// The arguments; `half` is the rate that half of the most is, in Mb/s.
    pub(crate) fn arguments(self, half: f64) -> Vec<String> {
        match self.rate {
            Rate::Max => self.words("max"),
            Rate::Mbps(rate) => self.words(&rate.to_string()),
            Rate::Half => self.words(&format!("{half:.1}")),
        }
    }
}

/// What a row is known by.
impl fmt::Display for BenchCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = match self.rate {
            Rate::Max => "max".to_owned(),
            Rate::Mbps(rate) => rate.to_string(),
            Rate::Half => "half".to_owned(),
        };
        f.write_str(&self.words(&rate).join(" "))
    }
}

/// As fast as the ring goes on `link`, both modes; what is asked by mode and number of hosts.
fn throughput(
    part: &'static str,
    bar: fn(f64) -> Bar,
    daemon: [f64; 3],
    library: [f64; 3],
) -> Vec<Row> {
    let rows = |mode, asked: [f64; 3]| {
        HOSTS.into_iter().zip(asked).map(move |(hosts, asked)| Row {
            part,
            call: BenchCall::new(part, hosts, mode),
            bars: vec![bar(asked)],
        })
    };
    rows(Mode::Daemon, daemon)
        .chain(rows(Mode::Library, library))
        .collect()
}

fn unlimited() -> Vec<Row> {
    throughput("none", Bar::Raw, [4.0, 5.0, 6.0], [8.0, 10.0, 12.0])
}

fn gigabit() -> Vec<Row> {
    throughput(
        "1gbit",
        Bar::Ceiling,
        [0.95, 0.85, 0.60],
        [0.97, 0.95, 0.75],
    )
}

fn fast_ethernet() -> Vec<Row> {
    throughput("100mbit", Bar::Ceiling, [0.98; 3], [0.98; 3])
}

/// At a modest rate, with spinning off; with spinning on beside off; and at half of the most.
fn latency() -> Vec<Row> {
    let modest = |hosts, mode, spin| BenchCall {
        rate: Rate::Mbps(MODEST),
        spin: Some(spin),
        ..BenchCall::new("none", hosts, mode)
    };
    let row = |call, bars| Row {
        part: "latency",
        call,
        bars,
    };
    let mut rows = Vec::new();
    for (hosts, trips, percent) in [(3, 3.5, 10.0), (5, 5.0, 19.0), (8, 6.5, 26.0)] {
        let bars = vec![Bar::RoundTrips(trips), Bar::Processor(percent)];
        rows.push(row(modest(hosts, Mode::Daemon, false), bars));
    }
    for hosts in HOSTS {
        rows.push(row(modest(hosts, Mode::Library, false), Vec::new()));
    }
    let off = modest(2, Mode::Daemon, false);
    rows.push(row(off, Vec::new()));
    let bars = vec![Bar::LatencyOf(0.5, off)];
    rows.push(row(modest(2, Mode::Daemon, true), bars));
    let half = BenchCall {
        rate: Rate::Half,
        ..modest(5, Mode::Daemon, false)
    };
    rows.push(row(half, vec![Bar::P99(2000.0)]));
    rows
}

fn small() -> Vec<Row> {
    [Mode::Daemon, Mode::Library]
        .map(|mode| Row {
            part: "small",
            call: BenchCall {
                size: 64,
                ..BenchCall::new("none", 3, mode)
            },
            bars: vec![Bar::Messages(2e6), Bar::P99(20_000.0)],
        })
        .into()
}

/// Safe beside agreed, and what encryption costs: the bar of a row in clear is on its encrypted
/// twin.
fn services() -> Vec<Row> {
    let mut rows = Vec::new();
    for mode in [Mode::Daemon, Mode::Library] {
        for hosts in HOSTS {
            let agreed = BenchCall::new("none", hosts, mode);
            let safe = BenchCall {
                service: "safe",
                ..agreed
            };
            rows.push(Row {
                part: "services",
                call: safe,
                bars: vec![Bar::ShareOf(0.85, agreed)],
            });
        }
        let left = match mode {
            Mode::Daemon => 0.85,
            Mode::Library => 0.75,
        };
        for hosts in HOSTS {
            let sealed = BenchCall::new("none", hosts, mode);
            let clear = BenchCall {
                encrypt: false,
                ..sealed
            };
            rows.push(Row {
                part: "services",
                call: clear,
                bars: vec![Bar::Leaves(left, sealed)],
            });
        }
    }
    rows
}

/// Datagrams lost one by one, which needs a wire on which bursts do not travel whole.
fn loss() -> Vec<Row> {
    let mut rows = Vec::new();
    for mode in [Mode::Daemon, Mode::Library] {
        for (loss, share) in [(1, 0.80), (5, 0.50)] {
            let whole = BenchCall::new("1gbit", 3, mode);
            rows.push(Row {
                part: "loss",
                call: BenchCall { loss, ..whole },
                bars: vec![Bar::ShareOf(share, whole)],
            });
        }
    }
    rows
}

/// The original ring beside the accelerated one, on a wire that is the limit.
fn original() -> Vec<Row> {
    HOSTS
        .map(|hosts| Row {
            part: "original",
            call: BenchCall {
                original: true,
                ..BenchCall::new("100mbit", hosts, Mode::Daemon)
            },
            bars: Vec::new(),
        })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_known_by_its_arguments_and_refers_to_rows_that_exist() {
        let rows = all();
        for (index, row) in rows.iter().enumerate() {
            let twin = rows[..index].iter().find(|other| other.call == row.call);
            assert_eq!(twin, None);
            for bar in &row.bars {
                if let Bar::ShareOf(_, other) | Bar::Leaves(_, other) | Bar::LatencyOf(_, other) =
                    bar
                {
                    assert!(rows.iter().any(|row| row.call == *other), "{other}");
                }
            }
        }
        assert!(rows.iter().all(|row| {
            row.call.rate != Rate::Half || rows.iter().any(|other| other.call == row.call.at_most())
        }));
    }

    #[test]
    fn a_row_says_what_it_was_called_with() {
        let call = BenchCall {
            loss: 5,
            spin: Some(false),
            rate: Rate::Half,
            ..BenchCall::new("none", 3, Mode::Library)
        };
        assert_eq!(
            call.to_string(),
            "--link none --hosts 3 --mode library --size 1350 --service agreed --rate half --encrypt on --loss 5 --spin off"
        );
        assert_eq!(call.arguments(12.34)[11], "12.3");
    }
}
