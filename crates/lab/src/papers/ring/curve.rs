//! Throughput–latency curves: as a run's data has them, and what can be said of one beside another.

use super::super::data::Data;
use super::super::figure::POINTS;
use super::super::plot::{Point, Series};

/// A system takes a load if it delivers this much of what is offered: the rest is what the ends of
/// a window cut off.
const SUSTAINED: f64 = 0.98;

/// What a curve is of.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Key {
    /// The wire's rate in Mb/s.
    pub(super) wire: f64,
    /// `library`, `daemon` or `spread`; see [`point`](super::point).
    pub(super) implementation: String,
    /// `original` or `accelerated`.
    pub(super) protocol: String,
    /// `agreed` or `safe`.
    pub(super) service: String,
    /// Payload of a message in bytes.
    pub(super) size: f64,
}

/// One load of a curve, over all seeds.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Sample {
    load: String,
    offered: Option<f64>,
    /// Of each seed: throughput and latency.
    seeds: Vec<(f64, f64)>,
}

impl Sample {
    /// The mean throughput.
    pub(super) fn throughput(&self) -> f64 {
        mean(self.seeds.iter().map(|(throughput, _)| *throughput))
    }

    /// The mean latency.
    pub(super) fn latency(&self) -> f64 {
        mean(self.seeds.iter().map(|(_, latency)| *latency))
    }

    /// Whether the system took what was offered.
    pub(super) fn is_sustained(&self) -> bool {
        self.offered
            .is_none_or(|offered| self.throughput() >= SUSTAINED * offered)
    }

    fn point(&self) -> Point {
        let latencies = || self.seeds.iter().map(|(_, latency)| *latency);
        let low = latencies().fold(f64::INFINITY, f64::min);
        let high = latencies().fold(0.0, f64::max);
        Point::with_bar(self.throughput(), self.latency(), low, high)
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    values.sum::<f64>() / count as f64
}

/// A throughput–latency curve.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Curve {
    /// What it is of.
    pub(super) key: Key,
    /// By throughput.
    pub(super) samples: Vec<Sample>,
}

/// Two loads of two curves, and the second by the first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Pair {
    /// Throughput of the first, in Mb/s.
    pub(super) from: f64,
    /// Throughput of the second, in Mb/s.
    pub(super) to: f64,
    /// The second's throughput by the first's.
    pub(super) throughput: f64,
    /// The second's latency by the first's.
    pub(super) latency: f64,
}

impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.2}× throughput at {:.2}× latency ({:.0} instead of {:.0} Mb/s)",
            self.throughput, self.latency, self.to, self.from
        )
    }
}

impl Curve {
    /// The loads that the system took.
    pub(super) fn sustained(&self) -> impl DoubleEndedIterator<Item = &Sample> {
        self.samples.iter().filter(|sample| sample.is_sustained())
    }

    /// The most that came through, at whatever latency; not a number if nothing was measured.
    pub(super) fn peak(&self) -> f64 {
        self.samples
            .iter()
            .map(Sample::throughput)
            .fold(f64::NAN, f64::max)
    }

    /// The latency at a throughput between the least and the most sustained one, by linear
    /// interpolation.
    pub(super) fn latency_at(&self, throughput: f64) -> Option<f64> {
        let sustained: Vec<_> = self
            .sustained()
            .map(|sample| (sample.throughput(), sample.latency()))
            .collect();
        sustained.windows(2).find_map(|ends| {
            let [(x0, y0), (x1, y1)] = [ends[0], ends[1]];
            let inside = (x0..=x1).contains(&throughput);
            inside.then(|| match x1 - x0 {
                0.0 => y0.min(y1),
                width => y0 + (y1 - y0) * (throughput - x0) / width,
            })
        })
    }

    /// `self` by `other` at every load that `other` took and `self` reaches: the other's
    /// throughput, and this one's latency by the other's there.
    pub(super) fn latencies_by(&self, other: &Self) -> Vec<(f64, f64)> {
        let at = |sample: &Sample| {
            let latency = self.latency_at(sample.throughput())?;
            Some((sample.throughput(), latency / sample.latency()))
        };
        other.sustained().filter_map(at).collect()
    }

    /// Of all pairs of loads that `other` and `self` took, with this many times the throughput at
    /// least: the one with the least latency by the other's.
    pub(super) fn best_over(&self, other: &Self, throughput: f64) -> Option<Pair> {
        let pairs = other.sustained().flat_map(|before| {
            self.sustained().map(|after| Pair {
                from: before.throughput(),
                to: after.throughput(),
                throughput: after.throughput() / before.throughput(),
                latency: after.latency() / before.latency(),
            })
        });
        pairs
            .filter(|pair| pair.throughput >= throughput)
            .min_by(|a, b| a.latency.total_cmp(&b.latency))
    }

    /// From where on the latency climbs: the least sustained load above which `step` more is not
    /// taken, or costs more latency than all from the first load up to there.
    pub(super) fn climb(&self, step: f64) -> Option<f64> {
        let first = self.sustained().next()?.latency();
        let climbs = |sample: &&Sample| {
            let next = self.latency_at(sample.throughput() + step);
            next.is_none_or(|next| next - sample.latency() > sample.latency() - first)
        };
        // Of the first load it says nothing.
        let found = self.sustained().skip(1).find(climbs);
        found.map(Sample::throughput)
    }

    /// To be drawn: latency over throughput, at the loads that the system took. At the others it is
    /// that of full queues.
    pub(super) fn series(&self, name: &str) -> Series {
        Series::line(name, self.sustained().map(Sample::point))
    }
}

/// All curves of a run.
pub(super) struct Curves(Vec<Curve>);

impl Curves {
    /// From a run's data.
    pub(super) fn read(data: &Data) -> Self {
        let mut curves: Vec<Curve> = Vec::new();
        for row in data.table(POINTS).records() {
            let key = Key {
                wire: row.number("wire"),
                implementation: row.text("implementation").to_owned(),
                protocol: row.text("protocol").to_owned(),
                service: row.text("service").to_owned(),
                size: row.number("size"),
            };
            let index = curves.iter().position(|curve| curve.key == key);
            let index = index.unwrap_or_else(|| {
                curves.push(Curve {
                    key,
                    samples: Vec::new(),
                });
                curves.len() - 1
            });
            let samples = &mut curves[index].samples;
            let measured = (row.number("throughput"), row.number("latency"));
            let load = row.text("load");
            if let Some(sample) = samples.iter_mut().find(|sample| sample.load == load) {
                sample.seeds.push(measured);
            } else {
                let offered = row.number("offered");
                samples.push(Sample {
                    load: load.to_owned(),
                    offered: offered.is_finite().then_some(offered),
                    seeds: vec![measured],
                });
            }
        }
        for curve in &mut curves {
            curve
                .samples
                .sort_by(|a, b| a.throughput().total_cmp(&b.throughput()));
        }
        Self(curves)
    }

    /// In the order in which they were measured.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Curve> {
        self.0.iter()
    }

    /// The rates of the wires, in order.
    pub(super) fn wires(&self) -> Vec<f64> {
        let mut wires: Vec<f64> = self.iter().map(|curve| curve.key.wire).collect();
        wires.sort_by(f64::total_cmp);
        wires.dedup();
        wires
    }

    /// The first curve for which `is` holds; without samples if there is none, so that no claim of
    /// it holds.
    pub(super) fn find(&self, is: impl Fn(&Key) -> bool) -> &Curve {
        static NONE: Curve = Curve {
            key: Key {
                wire: f64::NAN,
                implementation: String::new(),
                protocol: String::new(),
                service: String::new(),
                size: f64::NAN,
            },
            samples: Vec::new(),
        };
        self.iter().find(|curve| is(&curve.key)).unwrap_or(&NONE)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use groupcast_core::Service;

    use super::super::super::Table;
    use super::super::super::figure::Point as _;
    use super::super::point::{self, Implementation, Load, Measured, Open, Protocol, Wire};
    use super::*;

    /// A curve from (offered, throughput, latency).
    pub(in super::super) fn curve(points: &[(f64, f64, f64)]) -> Curve {
        let mut table = Table::new(POINTS, point::Point::columns());
        for (offered, throughput, latency) in points {
            let point = point::Point {
                wire: Wire::Gbit1,
                implementation: Implementation::Daemon,
                protocol: Protocol::Original,
                service: Service::Agreed,
                size: 1_350,
                load: Load::Rate(*offered),
                open: Open::on(Wire::Gbit1),
            };
            let measured = Measured {
                throughput: *throughput,
                latency: *latency,
                latency_99: *latency,
                rotation: *latency,
                again: 0,
                dropped: 0,
            };
            table.row(point.row(1, &measured));
        }
        let mut data = Data::new();
        data.push(table);
        Curves::read(&data).find(|_| true).clone()
    }

    #[test]
    fn points_are_read_seed_by_seed() {
        let both = curve(&[(100.0, 100.0, 10.0), (100.0, 98.0, 20.0)]);
        assert_eq!(both.samples.len(), 1);
        assert_eq!(both.samples[0].throughput(), 99.0);
        assert_eq!(both.samples[0].latency(), 15.0);
        assert_eq!(both.samples[0].point().bar, Some((10.0, 20.0)));
    }

    #[test]
    fn a_load_that_does_not_come_through_is_a_peak_but_not_sustained() {
        let one = curve(&[
            (100.0, 100.0, 1.0),
            (200.0, 199.0, 3.0),
            (300.0, 220.0, 90.0),
        ]);
        assert_eq!(one.sustained().count(), 2);
        assert_eq!(one.peak(), 220.0);
        assert_eq!(one.latency_at(149.5), Some(2.0));
        assert_eq!(one.latency_at(210.0), None);
        assert!(curve(&[]).peak().is_nan());
    }

    #[test]
    fn the_best_pair_has_the_throughput_and_the_least_latency() {
        let slow = curve(&[(100.0, 100.0, 10.0), (200.0, 200.0, 50.0)]);
        let fast = curve(&[
            (150.0, 150.0, 5.0),
            (300.0, 300.0, 20.0),
            (900.0, 300.0, 1.0),
        ]);
        let pair = fast.best_over(&slow, 1.45).unwrap();
        assert_eq!((pair.throughput, pair.latency), (1.5, 0.4));
        assert_eq!(fast.best_over(&slow, 4.0), None);
        assert_eq!(fast.latencies_by(&slow), [(200.0, 10.0 / 50.0)]);
    }

    #[test]
    fn a_climb_begins_where_a_step_costs_more_than_all_before() {
        let points: Vec<_> = (1..10)
            .map(|step| {
                let load = f64::from(step) * 100.0;
                let latency = if step <= 6 {
                    10.0
                } else {
                    10.0 + 50.0 * f64::from(step - 6)
                };
                (load, load, latency)
            })
            .collect();
        assert_eq!(curve(&points).climb(100.0), Some(600.0));
        assert_eq!(
            curve(&points[..5]).climb(100.0),
            Some(500.0),
            "more is not taken"
        );
        assert_eq!(curve(&[]).climb(100.0), None);
    }
}
