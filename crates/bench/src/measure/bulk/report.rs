//! What `groupcast bench bulk` found: for people a table, for programs one JSON object.

use std::collections::BTreeMap;
use std::fmt;
use std::thread::available_parallelism;

use serde::Serialize;

use super::BulkOptions;
use super::attempt::{Attempt, Outcome};

/// Under which conditions it was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Conditions {
    /// How many receivers there are.
    pub receivers: usize,
    /// Bytes of the file.
    pub size: u64,
    /// Percent of the frames that reach a receiver and are lost.
    pub loss_percent: f64,
    /// The wires.
    pub link: String,
    /// Whether groupcast encrypted. The others did not.
    pub encrypt: bool,
    /// groupcast's protocol.
    pub protocol: String,
    /// What was set of it, as `send` takes it; empty: nothing.
    pub settings: String,
    /// How often each contestant tried.
    pub runs: usize,
    /// After how many seconds an attempt has failed.
    pub limit_s: u64,
    /// Processor cores that all hosts share.
    pub cores: usize,
}

impl From<&BulkOptions> for Conditions {
    fn from(options: &BulkOptions) -> Self {
        Self {
            receivers: options.receivers,
            size: options.size,
            loss_percent: f64::from(options.loss_permille) / 10.0,
            link: options.link.name().to_owned(),
            encrypt: options.encrypt,
            protocol: options.protocol.clone(),
            settings: options.settings.join(" "),
            runs: options.runs,
            limit_s: options.limit.as_secs(),
            cores: available_parallelism().map_or(1, usize::from),
        }
    }
}

/// What became of one contestant.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Entry {
    /// Which system.
    #[serde(skip)]
    pub name: &'static str,
    /// From the start of the sending command until it knew that all have the file: the median of
    /// the runs that came to an end; none without.
    pub seconds: Option<f64>,
    /// That by the raw limit's time, as the median of the ratios of each run.
    pub ratio: Option<f64>,
    /// From the first data on, where the contestant says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_seconds: Option<f64>,
    /// Seconds of every run; none where it failed.
    pub runs: Vec<Option<f64>>,
    /// Whether every file that was taken for complete is the one that was sent.
    pub hashes_equal: bool,
    /// Why the last attempt that failed did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails: Option<String>,
    /// The Debian packages that are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<&'static str>,
    /// Packets sent, repeated ones included, and of those the repeated ones; in the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<(u64, u64)>,
}

impl Entry {
    pub(super) fn new(name: &'static str, attempts: &[Attempt], raw_seconds: &[f64]) -> Self {
        let runs: Vec<Option<f64>> = attempts
            .iter()
            .map(|attempt| match attempt.outcome {
                Outcome::Complete { seconds } => Some(seconds),
                Outcome::Fails { .. } | Outcome::Missing(_) => None,
            })
            .collect();
        let ratios = runs.iter().zip(raw_seconds);
        let ratios = ratios.filter_map(|(seconds, raw)| Some((*seconds)? / raw));
        let differs =
            |attempt: &Attempt| matches!(attempt.outcome, Outcome::Fails { differs: true, .. });
        Self {
            name,
            seconds: median(runs.iter().copied().flatten().collect()),
            ratio: median(ratios.collect()),
            data_seconds: median(
                attempts
                    .iter()
                    .filter_map(|attempt| attempt.data_seconds)
                    .collect(),
            ),
            hashes_equal: !attempts.iter().any(differs),
            fails: attempts
                .iter()
                .rev()
                .find_map(|attempt| match &attempt.outcome {
                    Outcome::Fails { reason, .. } => Some(reason.clone()),
                    _ => None,
                }),
            missing: attempts.iter().find_map(|attempt| match attempt.outcome {
                Outcome::Missing(packages) => Some(packages),
                _ => None,
            }),
            packets: attempts.last().and_then(|attempt| attempt.packets),
            runs,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<18}", self.name)?;
        if let Some(packages) = self.missing {
            return write!(f, "not installed: apt-get install {packages}");
        }
        match (self.seconds, self.ratio) {
            (Some(seconds), Some(ratio)) => write!(f, "{seconds:>8.2} s  {ratio:>6.2}")?,
            _ => write!(f, "{:>8}", "fails")?,
        }
        let failed = self.runs.iter().filter(|run| run.is_none()).count();
        if let Some(reason) = &self.fails {
            write!(f, "   {failed} of {} fail: {reason}", self.runs.len())?;
        }
        if let Some(seconds) = self.data_seconds {
            write!(f, "   {seconds:.2} s from the first data")?;
        }
        if let Some((packets, repeated)) = self.packets {
            let share = repeated as f64 * 100.0 / packets.max(1) as f64;
            write!(f, ", {share:.1} % of {packets} packets sent again")?;
        }
        Ok(())
    }
}

/// The result of `groupcast bench bulk`.
#[derive(Clone, PartialEq, Debug)]
pub struct BulkReport {
    /// What this many bytes take on the bare multicast path without offload, to the slowest
    /// receiver and without loss: the median of what was measured before each run.
    pub raw_seconds: f64,
    /// groupcast.
    pub own: Entry,
    /// The others.
    pub peers: Vec<Entry>,
    /// The conditions.
    pub conditions: Conditions,
}

impl BulkReport {
    /// Whether groupcast brought the file to every receiver, in every run.
    pub fn is_complete(&self) -> bool {
        self.own.runs.iter().all(Option::is_some)
    }
}

impl Serialize for BulkReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// groupcast's own figures stand at the top, the others' below `peers` by their names.
        #[derive(Serialize)]
        struct Flat<'a> {
            raw_seconds: f64,
            #[serde(flatten)]
            own: &'a Entry,
            peers: BTreeMap<String, &'a Entry>,
            conditions: &'a Conditions,
        }
        let peers = self.peers.iter();
        Flat {
            raw_seconds: self.raw_seconds,
            own: &self.own,
            peers: peers
                .map(|entry| (entry.name.replace(' ', "_"), entry))
                .collect(),
            conditions: &self.conditions,
        }
        .serialize(serializer)
    }
}

impl fmt::Display for BulkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conditions {
            receivers,
            size,
            loss_percent,
            link,
            encrypt,
            protocol,
            settings,
            runs,
            limit_s,
            cores,
        } = &self.conditions;
        let sealed = if *encrypt {
            "groupcast encrypted, the others in clear"
        } else {
            "all in clear"
        };
        let mb = *size as f64 / 1e6;
        let gap = if settings.is_empty() { "" } else { " " };
        writeln!(
            f,
            "{mb:.1} MB from one host to {receivers}, {loss_percent} % lost at each; link {link}, {sealed}"
        )?;
        writeln!(
            f,
            "protocol {protocol}{gap}{settings}, medians of {runs} runs of at most {limit_s} s, {cores} cores for all of it\n"
        )?;
        writeln!(f, "{:<18}{:>8}    of raw", "", "time")?;
        writeln!(
            f,
            "{:<18}{:>8.2} s  {:>6.2}   one way, without loss and offload",
            "raw multicast", self.raw_seconds, 1.0
        )?;
        write!(f, "{}", self.own)?;
        for peer in &self.peers {
            write!(f, "\n{peer}")?;
        }
        let compared = if self.own.hashes_equal {
            "what arrived is what was sent"
        } else {
            "A RECEIVER HAS ANOTHER FILE THAN WAS SENT"
        };
        write!(f, "\n\n{compared}: compared at every receiver")
    }
}

/// The median; none of nothing.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(seconds: f64) -> Attempt {
        Outcome::Complete { seconds }.into()
    }

    #[test]
    fn medians_are_of_what_came_to_an_end() {
        let attempts = [complete(3.0), Outcome::fails("slow").into(), complete(1.0)];
        let entry = Entry::new("x", &attempts, &[1.0, 1.0, 2.0]);
        assert_eq!((entry.seconds, entry.ratio), (Some(2.0), Some(1.75)));
        assert_eq!(entry.runs, [Some(3.0), None, Some(1.0)]);
        assert!(entry.hashes_equal);
        assert!(entry.to_string().contains("1 of 3 fail: slow"), "{entry}");
    }

    #[test]
    fn a_wrong_file_and_a_missing_package_are_told() {
        let wrong = Outcome::Fails {
            reason: "host 2 has another file than was sent".into(),
            differs: true,
        };
        let entry = Entry::new("x", &[wrong.into()], &[1.0]);
        assert!(!entry.hashes_equal && entry.seconds.is_none());
        let entry = Entry::new("x", &[Outcome::Missing("uftp").into()], &[1.0]);
        assert!(entry.to_string().ends_with("apt-get install uftp"));
    }

    #[test]
    fn the_json_has_the_agreed_names() {
        let report = BulkReport {
            raw_seconds: 2.0,
            own: Entry::new("groupcast", &[complete(3.0)], &[2.0]),
            peers: vec![Entry::new("tcp at once", &[complete(4.0)], &[2.0])],
            conditions: Conditions {
                receivers: 7,
                size: 9,
                loss_percent: 0.5,
                link: "none".into(),
                encrypt: true,
                protocol: "auto".into(),
                settings: String::new(),
                runs: 1,
                limit_s: 60,
                cores: 2,
            },
        };
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["seconds"], 3.0);
        assert_eq!(json["raw_seconds"], 2.0);
        assert_eq!(json["ratio"], 1.5);
        assert_eq!(json["hashes_equal"], true);
        assert_eq!(json["peers"]["tcp_at_once"]["seconds"], 4.0);
        assert_eq!(json["conditions"]["loss_percent"], 0.5);
    }
}
