//! What one receiver counts: bytes and messages within the window, latencies, the order, holes in a
//! sender's row.

use std::collections::BTreeMap;

use groupcast_core::OrderPlace;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::clock::{Instant, Window};
use super::order::OrderDigest;
use super::stamp::Stamp;
use super::wakes::Counts;

/// Latencies above a minute are as good as a minute.
const LATENCY_MAX: u64 = 60_000_000_000;

/// One receiver's counts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// Payload bytes delivered within the window.
    pub bytes: u64,
    /// Messages delivered within the window.
    pub messages: u64,
    /// One-way latencies of those, in nanoseconds.
    pub latencies: Latencies,
    /// The order of all messages, warm-up included.
    pub order: OrderDigest,
    /// Messages that did not follow their sender's previous one.
    pub holes: u64,
    /// How often the ring formed anew, with all its members.
    pub reformations: u64,
    /// What the process counted of itself within the window; nothing if it does not count.
    #[serde(default)]
    pub counts: Counts,
    /// The next index of each sender.
    next: BTreeMap<u32, u64>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            bytes: 0,
            messages: 0,
            latencies: Latencies::default(),
            order: OrderDigest::default(),
            holes: 0,
            reformations: 0,
            counts: Counts::default(),
            next: BTreeMap::new(),
        }
    }

    /// A message arrived `now`; an unreliable one has no place and no order.
    pub(super) fn add(
        &mut self,
        now: Instant,
        window: Window,
        stamp: Stamp,
        place: Option<OrderPlace>,
        bytes: usize,
    ) {
        if let Some(place) = place {
            self.order.add(place, stamp.sender, stamp.index);
        }
        let next = self.next.entry(stamp.sender).or_default();
        if stamp.index != *next {
            self.holes += 1;
        }
        *next = stamp.index + 1;
        if window.contains(now) {
            self.bytes += bytes as u64;
            self.messages += 1;
            self.latencies.add(now.saturating_sub(stamp.sent));
        }
    }
}

/// A histogram of latencies in nanoseconds, to three digits.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Latencies(Option<Histogram<u64>>);

impl Latencies {
    /// Adds one value.
    pub fn add(&mut self, nanos: u64) {
        self.add_many(nanos, 1);
    }

    fn add_many(&mut self, nanos: u64, count: u64) {
        let histogram = self.0.get_or_insert_with(|| {
            Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("bounds and digits are in range")
        });
        histogram.saturating_record_n(nanos.clamp(1, LATENCY_MAX), count);
    }

    /// All of `other` too.
    pub fn merge(&mut self, other: &Self) {
        for (nanos, count) in Vec::from(other.clone()) {
            self.add_many(nanos, count);
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }

    /// Their mean in microseconds; 0 if there are none.
    pub fn mean_us(&self) -> f64 {
        self.0
            .as_ref()
            .map_or(0.0, |histogram| histogram.mean() / 1000.0)
    }

    /// Below this many microseconds are `percent` of them; 0 if there are none.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        self.0.as_ref().map_or(0.0, |histogram| {
            histogram.value_at_percentile(percent) as f64 / 1000.0
        })
    }
}

impl From<Vec<(u64, u64)>> for Latencies {
    fn from(counts: Vec<(u64, u64)>) -> Self {
        let mut latencies = Self::default();
        for (nanos, count) in counts {
            latencies.add_many(nanos, count);
        }
        latencies
    }
}

impl From<Latencies> for Vec<(u64, u64)> {
    fn from(latencies: Latencies) -> Self {
        latencies
            .0
            .iter()
            .flat_map(Histogram::iter_recorded)
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        from: 1000,
        until: 2000,
    };

    fn stamp(sender: u32, index: u64, sent: u64) -> Stamp {
        Stamp {
            sender,
            index,
            sent,
        }
    }

    #[test]
    fn only_the_window_counts_but_all_is_ordered() {
        let mut tally = Tally::new();
        tally.add(900, WINDOW, stamp(1, 0, 800), None, 10);
        tally.add(1100, WINDOW, stamp(1, 1, 1000), None, 10);
        tally.add(2000, WINDOW, stamp(1, 2, 1900), None, 10);
        assert_eq!((tally.bytes, tally.messages, tally.holes), (10, 1, 0));
        assert_eq!(tally.latencies.count(), 1);
    }

    #[test]
    fn a_missing_or_repeated_message_is_a_hole() {
        let mut tally = Tally::new();
        for index in [0, 1, 3, 3] {
            tally.add(900, WINDOW, stamp(1, index, 0), None, 1);
        }
        assert_eq!(tally.holes, 2);
    }

    #[test]
    fn latencies_survive_the_journey_between_processes() {
        let mut latencies = Latencies::default();
        for nanos in [10_000, 20_000, 30_000, 1_000_000] {
            latencies.add(nanos);
        }
        let json = serde_json::to_string(&latencies).unwrap();
        let mut back: Latencies = serde_json::from_str(&json).unwrap();
        assert_eq!(back.count(), 4);
        assert!((back.percentile_us(50.0) - 20.0).abs() < 0.1);
        assert!((back.mean_us() - 265.0).abs() < 1.0);
        back.merge(&latencies);
        assert_eq!(back.count(), 8);
        assert_eq!(Latencies::default().percentile_us(99.0), 0.0);
    }
}
