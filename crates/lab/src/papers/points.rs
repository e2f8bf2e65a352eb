//! What can be said of many points: those of a system, of a load, and their means.

use super::Data;
use super::data::RecordRef;
use super::figure::POINTS;

/// Some rows of the table of points: one a point and seed.
#[derive(Clone)]
pub(super) struct Points<'a>(Vec<RecordRef<'a>>);

impl<'a> Points<'a> {
    /// All of them.
    pub(super) fn read(data: &'a Data) -> Self {
        Self::of_table(data, POINTS)
    }

    /// All of another table.
    pub(super) fn of_table(data: &'a Data, table: &str) -> Self {
        Self(data.table(table).records().collect())
    }

    /// Those whose column `name` holds the word `word`.
    pub(super) fn of(&self, name: &str, word: &str) -> Self {
        self.filter(|row| row.text(name) == word)
    }

    /// Those of a system.
    pub(super) fn system(&self, name: &str) -> Self {
        self.of("system", name)
    }

    /// Those whose column `name` holds `number`.
    pub(super) fn at(&self, name: &str, number: f64) -> Self {
        self.filter(|row| row.number(name) == number)
    }

    /// Those of this many sources and sinks.
    pub(super) fn load(&self, sources: f64, sinks: f64) -> Self {
        self.at("sources", sources).at("sinks", sinks)
    }

    fn filter(&self, of: impl Fn(&RecordRef<'a>) -> bool) -> Self {
        Self(self.0.iter().filter(|row| of(row)).copied().collect())
    }

    /// The values of a column.
    pub(super) fn values(&self, name: &str) -> Vec<f64> {
        self.0.iter().map(|row| row.number(name)).collect()
    }

    /// The different values of a column, ascending.
    pub(super) fn different(&self, name: &str) -> Vec<f64> {
        let mut values = self.values(name);
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    /// The different words of a column, in the order of their first appearance.
    pub(super) fn words(&self, name: &str) -> Vec<&'a str> {
        let mut words = Vec::new();
        for row in &self.0 {
            let word = row.text(name);
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words
    }

    /// The mean of a column; not a number if there is no row.
    pub(super) fn mean(&self, name: &str) -> f64 {
        let values = self.values(name);
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// The least and the most of a column.
    pub(super) fn range(&self, name: &str) -> (f64, f64) {
        let values = self.values(name);
        let least = values.iter().copied().fold(f64::NAN, f64::min);
        (least, values.iter().copied().fold(f64::NAN, f64::max))
    }

    /// The mean of the column `y` at each value of the column `x`.
    pub(super) fn curve(&self, x: &str, y: &str) -> Vec<(f64, f64)> {
        let each = |at: f64| (at, self.at(x, at).mean(y));
        self.different(x).into_iter().map(each).collect()
    }
}

/// The middle of some values; the mean of the two middle ones if their number is even.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => at(half.wrapping_sub(1)).midpoint(at(half)),
        _ => at(half),
    }
}

/// Of a straight line through `points` by least squares: what it has at 0, and its slope.
pub(super) fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let products = points.iter().map(|point| (point.0 - x) * (point.1 - y));
    let squares = points.iter().map(|point| (point.0 - x).powi(2));
    let slope = products.sum::<f64>() / squares.sum::<f64>();
    (y - slope * x, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_a_median_are_found() {
        assert_eq!(line(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]), (1.0, 2.0));
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
