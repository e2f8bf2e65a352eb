//! What the meter keeps of one host while the world runs.

use std::time::Duration;

use groupcast_core::Time;
use serde::Serialize;

use super::MeterConfig;
use super::distribution::Distribution;
use super::issued::Issued;
use super::seconds;
use super::stream::Stream;
use super::traffic::KindCount;

/// What happened at a host in one window of time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Window {
    /// Messages delivered.
    pub delivered: u32,
    /// Requests sent.
    pub requests_sent: u32,
    /// Requests received.
    pub requests_received: u32,
    /// Repairs sent.
    pub repairs_sent: u32,
    /// Repairs received.
    pub repairs_received: u32,
    /// Bytes of the messages delivered.
    pub delivered_bytes: u64,
}

/// A configuration that a host installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Installed {
    /// When, since the start of the world.
    #[serde(rename = "at_s", serialize_with = "seconds::serialize")]
    pub at: Duration,
    /// Of how many members.
    pub members: usize,
}

/// Whether a process ran.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Ran {
    /// The process never ran.
    #[default]
    Never,
    /// From here to the end.
    Since(Time),
    /// Not all the time.
    Partly,
}

/// One host's counts.
#[derive(Debug)]
pub(super) struct HostMeter {
    pub(super) ran: Ran,
    pub(super) issued: Issued,
    /// What it saw of others, by the others' ordinals.
    pub(super) streams: Vec<Stream>,
    pub(super) submitted: u64,
    pub(super) submitted_bytes: u64,
    pub(super) refused: u64,
    pub(super) delivered: u64,
    pub(super) delivered_bytes: u64,
    pub(super) redelivered: u64,
    pub(super) duplicates: u64,
    pub(super) unseen: u64,
    pub(super) latency: Distribution,
    pub(super) arrival: Distribution,
    pub(super) gap: Distribution,
    pub(super) arrival_gap: Distribution,
    pub(super) last_delivery: Option<Time>,
    pub(super) last_arrival: Option<Time>,
    /// First receipts of messages of which it is known when they should come, and those that came
    /// later.
    pub(super) expected: u64,
    pub(super) late: u64,
    pub(super) windows: Vec<Window>,
    pub(super) kinds: Vec<KindCount>,
    pub(super) configurations: u64,
    pub(super) installed: Vec<Installed>,
}

impl HostMeter {
    pub(super) fn new(config: &MeterConfig) -> Self {
        let distribution = Distribution::new(config.bins);
        Self {
            ran: Ran::default(),
            issued: Issued::default(),
            streams: Vec::new(),
            submitted: 0,
            submitted_bytes: 0,
            refused: 0,
            delivered: 0,
            delivered_bytes: 0,
            redelivered: 0,
            duplicates: 0,
            unseen: 0,
            latency: distribution.clone(),
            arrival: distribution.clone(),
            gap: distribution.clone(),
            arrival_gap: distribution,
            last_delivery: None,
            last_arrival: None,
            expected: 0,
            late: 0,
            windows: Vec::new(),
            kinds: Vec::new(),
            configurations: 0,
            installed: Vec::new(),
        }
    }

    /// What it saw of the host with this ordinal.
    #[inline]
    pub(super) fn stream(&mut self, ordinal: u32) -> &mut Stream {
        let index = ordinal as usize;
        if index >= self.streams.len() {
            self.streams.resize_with(index + 1, Stream::default);
        }
        &mut self.streams[index]
    }

    /// The window in which `now` is, or `None` before the first and after the last that is kept.
    #[inline]
    pub(super) fn window(&mut self, now: Time, config: &MeterConfig) -> Option<&mut Window> {
        let since = now
            .as_nanos()
            .checked_sub(config.warm_up.as_nanos() as u64)?;
        let index = (since / (config.window.as_nanos() as u64).max(1)) as usize;
        if index >= self.windows.len() {
            if index >= config.windows_max {
                return None;
            }
            self.windows.resize(index + 1, Window::default());
        }
        self.windows.get_mut(index)
    }

    /// The first receipt of a message that was handed over at `at`, `normal` later if all goes
    /// well.
    #[inline]
    pub(super) fn receive_first(&mut self, now: Time, at: Time, normal: Option<Duration>) {
        let after = now - at;
        self.arrival.record(after);
        if let Some(last) = self.last_arrival.replace(now) {
            self.arrival_gap.record(now - last);
        }
        if let Some(normal) = normal {
            self.expected += 1;
            self.late += u64::from(after > normal);
        }
    }
}
