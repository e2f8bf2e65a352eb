//! `[measure]` and `[capture]`: what is looked at, and how closely.

use std::time::Duration;

use super::error::ScenarioError;
use super::section::{Entry, Section};
use super::select::Links;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The most windows that a run is divided into: each host keeps and writes a line for each.
pub(super) const WINDOWS_MAX: u64 = 100_000;

/// `[measure]`, read.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct MeasureKeys {
    pub(super) window: Duration,
    pub(super) latency_max: Duration,
    pub(super) bins: usize,
    pub(super) confidence: f64,
}

impl Default for MeasureKeys {
    fn default() -> Self {
        Self {
            window: Duration::from_millis(500),
            latency_max: Duration::from_secs(10),
            bins: 100,
            confidence: 0.95,
        }
    }
}

impl MeasureKeys {
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self> {
        let section = entry.section("[measure]")?;
        let default = Self::default();
        let keys = Self {
            window: section.or("window", default.window, above_zero)?,
            latency_max: section.or("latency_max", default.latency_max, above_zero)?,
            bins: section.or("bins", default.bins as u64, |entry| {
                entry.number_in(10, 10_000)
            })? as usize,
            confidence: section.or("confidence", default.confidence, confidence)?,
        };
        section.finish(|_| None)?;
        Ok(keys)
    }

    /// Refuses more windows than are kept in the time that is measured, rather than leave some out.
    pub(super) fn check_windows(&self, top: &Section<'_>, measured: Duration) -> Result<()> {
        let windows = measured.as_nanos().div_ceil(self.window.as_nanos());
        if windows <= u128::from(WINDOWS_MAX) {
            return Ok(());
        }
        let section = top.get("measure");
        let section = section
            .map(|entry| entry.section("[measure]"))
            .transpose()?;
        let window = section.and_then(|section| section.get("window"));
        let entry = match window {
            Some(entry) => entry,
            None => top.require("duration")?,
        };
        let least = measured
            .as_nanos()
            .div_ceil(u128::from(WINDOWS_MAX) * 1_000);
        Err(entry.wrong(
            format!("{windows} windows of time are more than {WINDOWS_MAX}"),
            format!("let `window` of [measure] be \"{least} us\" or more, or the run shorter"),
        ))
    }
}

fn above_zero(entry: &Entry<'_>) -> Result<Duration> {
    match entry.duration()? {
        Duration::ZERO => Err(entry.wrong("nothing can be measured in no time", "use more than 0")),
        duration => Ok(duration),
    }
}

fn confidence(entry: &Entry<'_>) -> Result<f64> {
    match entry.share()? {
        share if (0.5..1.0).contains(&share) => Ok(share),
        share => Err(entry.wrong(
            format!("{share} is no confidence"),
            "use \"50 %\" to just below \"100 %\", for example \"95 %\"",
        )),
    }
}

/// `[capture]`, read.
#[derive(Clone, Debug)]
pub(super) struct CaptureKeys {
    pub(super) links: Links,
    /// A file.
    pub(super) packets_max: u64,
}

impl CaptureKeys {
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self> {
        let section = entry.section("[capture]")?;
        let keys = Self {
            links: section.required("links", Links::read)?,
            packets_max: section
                .or("packets_max", 100_000, |entry| entry.number_in(1, u64::MAX))?,
        };
        section.finish(|_| None)?;
        Ok(keys)
    }
}
