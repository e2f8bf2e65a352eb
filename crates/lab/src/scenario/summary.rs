//! What all seeds say together: every measure with its mean, its interval, its least and its
//! greatest.

use std::ops::Range;

use groupcast_sim::measure::Estimate;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::Scenario;
use super::record::{Cell, Record};

/// `summary.json`. It holds nothing of the machine that ran it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// Of groupcast.
    pub version: &'static str,
    /// The protocol's name.
    pub protocol: &'static str,
    /// Which ran.
    pub seeds: Vec<u64>,
    /// All of a run.
    pub duration_s: f64,
    /// The part of it that is not measured.
    pub warm_up_s: f64,
    /// What was laid over the file.
    pub overrides: Vec<String>,
    /// Of the intervals.
    pub confidence: f64,
    /// Captures, by the names of their files.
    pub captures: Vec<String>,
    /// By column of the runs.
    pub measures: Measures,
    /// A line a seed.
    pub runs: Vec<Record>,
}

/// Estimates by name, in the order of the columns.
#[derive(Clone, Default, Debug)]
pub struct Measures(Vec<(&'static str, Estimate)>);

impl Measures {
    /// Of the columns of `runs` that have numbers.
    fn of(runs: &[Record], confidence: f64) -> Self {
        let columns = runs.first().into_iter().flat_map(Record::columns);
        let estimate = |(name, _): (&'static str, &Cell)| {
            let values = runs.iter().filter_map(|run| run.get(name)?.number());
            let values: Vec<f64> = values.collect();
            Some((name, Estimate::of(&values, confidence)?))
        };
        Self(
            columns
                .filter(|(name, _)| *name != "seed")
                .filter_map(estimate)
                .collect(),
        )
    }

    /// The estimate of a measure, if any seed has it.
    pub fn get(&self, name: &str) -> Option<&Estimate> {
        let named = |(other, _): &&(&str, Estimate)| *other == name;
        self.0.iter().find(named).map(|(_, estimate)| estimate)
    }
}

impl Serialize for Measures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, estimate) in &self.0 {
            map.serialize_entry(name, estimate)?;
        }
        map.end()
    }
}

impl Summary {
    pub(super) fn new(
        scenario: &Scenario,
        seeds: Range<u64>,
        runs: Vec<Record>,
        captures: Vec<String>,
    ) -> Self {
        let confidence = scenario.measure.confidence;
        Self {
            scenario: scenario.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            protocol: scenario.protocol.family.name,
            seeds: seeds.collect(),
            duration_s: seconds(scenario.duration.as_nanos()),
            warm_up_s: seconds(scenario.warm_up.as_nanos()),
            overrides: scenario.settings.clone(),
            confidence,
            captures,
            measures: Measures::of(&runs, confidence),
            runs,
        }
    }
}

/// Nanoseconds in seconds.
pub(super) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
