//! Curves out of a run's points, and what can be said of one: how it grows, how it stands beside
//! another.

use super::super::data::{Cell, RecordRef, Table};
use super::super::plot::{Point, Series};

/// A place of a curve, over all seeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sample {
    pub(super) x: f64,
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// One quantity over another, by ascending x.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Curve(pub(super) Vec<Sample>);

/// The rows of `table` whose columns hold these values.
pub(super) fn rows<'a>(
    table: &'a Table,
    having: &'a [(&'a str, Cell)],
) -> impl Iterator<Item = RecordRef<'a>> {
    table.records().filter(move |row| {
        let holds = |(name, value): &(&str, Cell)| row.cell(name) == Some(value);
        having.iter().all(holds)
    })
}

impl Curve {
    /// `y` over `x` of the rows that hold these values: means and extremes over whatever else
    /// differs, as a rule seeds.
    pub(super) fn read(table: &Table, x: &str, y: &str, having: &[(&str, Cell)]) -> Self {
        let mut places: Vec<(f64, Vec<f64>)> = Vec::new();
        for row in rows(table, having) {
            let (at, value) = (row.number(x), row.number(y));
            match places.iter_mut().find(|(place, _)| *place == at) {
                Some((_, values)) => values.push(value),
                None => places.push((at, vec![value])),
            }
        }
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let sample = |(x, values): (f64, Vec<f64>)| Sample {
            x,
            mean: values.iter().sum::<f64>() / values.len() as f64,
            low: values.iter().copied().fold(f64::INFINITY, f64::min),
            high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        Self(places.into_iter().map(sample).collect())
    }

    /// The mean at `x`; not a number where nothing was measured.
    pub(super) fn at(&self, x: f64) -> f64 {
        let found = self.0.iter().find(|sample| sample.x == x);
        found.map_or(f64::NAN, |sample| sample.mean)
    }

    /// The mean at the least x.
    pub(super) fn first(&self) -> f64 {
        self.0.first().map_or(f64::NAN, |sample| sample.mean)
    }

    /// The mean at the greatest x.
    pub(super) fn last(&self) -> f64 {
        self.0.last().map_or(f64::NAN, |sample| sample.mean)
    }

    /// The greatest of all.
    pub(super) fn most(&self) -> f64 {
        let highs = self.0.iter().map(|sample| sample.high);
        highs.fold(f64::NAN, f64::max)
    }

    /// The least of all.
    pub(super) fn least(&self) -> f64 {
        let lows = self.0.iter().map(|sample| sample.low);
        lows.fold(f64::NAN, f64::min)
    }

    /// How many times the first the last is.
    pub(super) fn growth(&self) -> f64 {
        self.last() / self.first()
    }

    /// The straight line nearest to the means: its slope, and the share of their variance that it
    /// explains.
    pub(super) fn line(&self) -> (f64, f64) {
        let count = self.0.len() as f64;
        let mean = |of: fn(&Sample) -> f64| self.0.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|it| it.x), mean(|it| it.mean));
        let sum = |of: &dyn Fn(&Sample) -> f64| self.0.iter().map(of).sum::<f64>();
        let across = sum(&|it| (it.x - x) * (it.mean - y));
        let along = sum(&|it| (it.x - x).powi(2));
        let up = sum(&|it| (it.mean - y).powi(2));
        (across / along, across * across / (along * up))
    }

    /// Whether each mean is above that of `other` at the same place, and there is such a place.
    pub(super) fn is_above(&self, other: &Self) -> bool {
        let above = |sample: &Sample| sample.mean > other.at(sample.x);
        !self.0.is_empty() && self.0.iter().all(above)
    }

    /// To be drawn, with bars from the least to the greatest seed.
    pub(super) fn series(&self, name: impl Into<String>) -> Series {
        let point = |it: &Sample| Point::with_bar(it.x, it.mean, it.low, it.high);
        Series::line(name, self.0.iter().map(point))
    }

    /// `x: mean` of all places, for sentences.
    pub(super) fn text(&self) -> String {
        let place = |it: &Sample| format!("{} at {}", brief(it.mean), brief(it.x));
        self.0.iter().map(place).collect::<Vec<_>>().join(", ")
    }
}

/// A number in few digits.
pub(super) fn brief(number: f64) -> String {
    match number.abs() {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        _ => {
            let text = format!("{number:.3}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            text.to_owned()
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn curve(points: &[(f64, f64)]) -> Curve {
        let mut table = Table::new("points", &[("x", ""), ("y", "")]);
        for (x, y) in points {
            table.row([(*x).into(), (*y).into()]);
        }
        Curve::read(&table, "x", "y", &[])
    }

    #[test]
    fn seeds_become_a_mean_with_extremes() {
        let both = curve(&[(2.0, 5.0), (1.0, 3.0), (2.0, 7.0)]);
        assert_eq!(both.0.len(), 2);
        assert_eq!((both.first(), both.at(2.0)), (3.0, 6.0));
        assert_eq!((both.least(), both.most()), (3.0, 7.0));
        assert_eq!(both.growth(), 2.0);
        assert_eq!(both.text(), "3 at 1, 6 at 2");
    }

    #[test]
    fn a_line_is_known_by_its_slope_and_how_well_it_fits() {
        let (slope, fit) = curve(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]).line();
        assert!((slope - 2.0).abs() < 1e-12 && (fit - 1.0).abs() < 1e-12);
        let (_, fit) = curve(&[(1.0, 0.0), (2.0, 9.0), (3.0, 0.0)]).line();
        assert!(fit < 0.1);
    }

    #[test]
    fn nothing_is_above_nothing_and_has_no_value() {
        let none = curve(&[]);
        assert!(!none.is_above(&none) && none.last().is_nan() && none.most().is_nan());
        let (one, other) = (curve(&[(1.0, 2.0)]), curve(&[(2.0, 1.0)]));
        assert!(!one.is_above(&other), "they share no place");
    }
}
