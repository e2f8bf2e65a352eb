//! Distributions of times at the members that a figure looks at: latency before and after ordering,
//! gaps between arrivals.

use groupcast_sim::measure::{Distribution, HostMeasures};

use super::super::data::{Cell, Table};
use super::super::plot::Series;
use super::curve::rows;
use super::sim::Run;

/// Its table.
pub(super) const HISTOGRAMS: &str = "histograms";

const COLUMNS: [(&str, &str); 7] = [
    ("scheme", ""),
    ("size", ""),
    ("receiver", ""),
    ("of", ""),
    ("from", "ms"),
    ("to", "ms"),
    ("count", ""),
];

/// Which times are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// From the sending to the first arrival: 004's "node level".
    Arrival,
    /// From the sending to the delivery: 004's "after FIFO ordering".
    Delivery,
    /// Between first arrivals.
    Gap,
}

impl Look {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Delivery => "delivery",
            Self::Gap => "gap between arrivals",
        }
    }

    fn of(self, host: &HostMeasures) -> &Distribution {
        match self {
            Self::Arrival => &host.arrival,
            Self::Delivery => &host.latency,
            Self::Gap => &host.arrival_gap,
        }
    }
}

/// One distribution of one point.
pub(super) struct Found {
    scheme: &'static str,
    size: u32,
    /// Which of the members looked at, by its place among them.
    receiver: usize,
    look: Look,
    distribution: Distribution,
}

impl Found {
    fn is_like(&self, other: &Self) -> bool {
        (self.scheme, self.size, self.receiver, self.look)
            == (other.scheme, other.size, other.receiver, other.look)
    }
}

/// The distributions of `run` at all members that are looked at.
pub(super) fn distributions(run: &Run, looks: &[Look]) -> Vec<Found> {
    let receivers = run.receivers.iter().enumerate();
    let found = receivers.flat_map(|(receiver, host)| {
        looks.iter().map(move |look| Found {
            scheme: run.setting.scheme.name(),
            size: run.setting.shape.size(),
            receiver,
            look: *look,
            distribution: look.of(&run.measures.hosts[*host]).clone(),
        })
    });
    found.collect()
}

/// A table of them, the seeds of a point together.
pub(super) fn table<'a>(found: impl Iterator<Item = &'a Found>) -> Table {
    let mut together: Vec<(&Found, Distribution)> = Vec::new();
    for one in found {
        match together.iter_mut().find(|(first, _)| first.is_like(one)) {
            Some((_, sum)) => sum.merge(&one.distribution),
            None => together.push((one, one.distribution.clone())),
        }
    }
    let mut table = Table::new(HISTOGRAMS, &COLUMNS);
    for (found, distribution) in &together {
        for (low, high, count) in distribution.histogram().iter() {
            table.row([
                found.scheme.into(),
                found.size.into(),
                found.receiver.into(),
                found.look.name().into(),
                (low as f64 / 1e6).into(),
                (high as f64 / 1e6).into(),
                count.into(),
            ]);
        }
    }
    table
}

/// A histogram, read.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Histogram {
    /// From, to (milliseconds), count; ascending.
    bins: Vec<(f64, f64, f64)>,
    total: f64,
}

impl Histogram {
    /// Of the rows of `table` that hold these values.
    pub(super) fn read(table: &Table, having: &[(&str, Cell)]) -> Self {
        let bins: Vec<_> = rows(table, having)
            .map(|row| (row.number("from"), row.number("to"), row.number("count")))
            .collect();
        let total = bins.iter().map(|(_, _, count)| count).sum();
        Self { bins, total }
    }

    /// The share that took at least this many milliseconds, to a bin.
    pub(super) fn share_from(&self, low: f64) -> f64 {
        let late = self.bins.iter().filter(|(from, ..)| *from >= low);
        late.map(|(_, _, count)| count).sum::<f64>() / self.total
    }

    /// The share in `low..high` milliseconds, to a bin.
    pub(super) fn share(&self, low: f64, high: f64) -> f64 {
        self.share_from(low) - self.share_from(high)
    }

    /// The lowest bin's bounds, in milliseconds.
    pub(super) fn lowest(&self) -> (f64, f64) {
        let first = self.bins.first();
        first.map_or((f64::NAN, f64::NAN), |(from, to, _)| (*from, *to))
    }

    /// Below this all are, in milliseconds.
    pub(super) fn end(&self) -> f64 {
        self.bins.last().map_or(f64::NAN, |(_, to, _)| *to)
    }

    /// The greatest difference between the shares below a time, over all times (Kolmogorov and
    /// Smirnov).
    pub(super) fn distance(&self, other: &Self) -> f64 {
        let bounds = self.bins.iter().chain(&other.bins).map(|(from, ..)| *from);
        bounds
            .map(|at| (self.share_from(at) - other.share_from(at)).abs())
            .fold(0.0, f64::max)
    }

    /// The same, each reckoned from its own lowest bin on, from `after` milliseconds on: what
    /// differs beside an offset.
    pub(super) fn distance_from_lowest(&self, other: &Self, after: f64) -> f64 {
        let ((low, _), (other_low, _)) = (self.lowest(), other.lowest());
        let bounds = self.bins.iter().map(|(from, ..)| from - low);
        let others = other.bins.iter().map(|(from, ..)| from - other_low);
        let differ = |at: f64| self.share_from(low + at) - other.share_from(other_low + at);
        bounds
            .chain(others)
            .filter(|at| *at >= after)
            .map(|at| differ(at).abs())
            .fold(0.0, f64::max)
    }

    /// To be drawn, in percent, `width` milliseconds a step.
    pub(super) fn series(&self, name: impl Into<String>, width: f64) -> Series {
        let (start, end) = (self.lowest().0, self.end());
        let first = (start / width).floor();
        let steps = ((end / width).ceil() - first).max(0.0) as usize;
        let step = |index: usize| {
            let from = (first + index as f64) * width;
            (from, self.share(from, from + width) * 100.0)
        };
        let end = (end, 0.0);
        Series::steps(name, (0..steps).map(step).chain([end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(bins: &[(f64, f64)]) -> Histogram {
        let mut table = Table::new(HISTOGRAMS, &COLUMNS);
        for (from, count) in bins {
            table.row([
                "any".into(),
                20u32.into(),
                0u32.into(),
                Look::Arrival.name().into(),
                (*from).into(),
                (*from + 4.0).into(),
                (*count).into(),
            ]);
        }
        Histogram::read(&table, &[("scheme", "any".into())])
    }

    #[test]
    fn shares_are_of_all_and_by_bins() {
        let histogram = histogram(&[(8.0, 90.0), (100.0, 6.0), (300.0, 4.0)]);
        assert!((histogram.share(8.0, 28.0) - 0.9).abs() < 1e-12);
        assert!((histogram.share_from(100.0) - 0.1).abs() < 1e-12);
        assert_eq!(histogram.lowest(), (8.0, 12.0));
        assert_eq!(histogram.end(), 304.0);
    }

    #[test]
    fn an_offset_is_no_difference_and_another_tail_is() {
        let near = histogram(&[(8.0, 90.0), (108.0, 10.0)]);
        let far = histogram(&[(48.0, 90.0), (148.0, 10.0)]);
        assert!(near.distance(&far) > 0.8);
        assert_eq!(near.distance_from_lowest(&far, 20.0), 0.0);
        let slower = histogram(&[(48.0, 80.0), (148.0, 20.0)]);
        assert!((near.distance_from_lowest(&slower, 20.0) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn nothing_has_no_share() {
        let none = histogram(&[]);
        assert!(none.share_from(0.0).is_nan() && none.end().is_nan());
    }
}
