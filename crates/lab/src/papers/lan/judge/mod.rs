//! What 001's figures concluded, as arithmetic on points.

mod ack;
mod four;
mod nak;
mod ring;
#[cfg(test)]
mod tests;
mod tree;

pub(super) use self::ack::{fig8, fig9, fig10, fig11};
pub(super) use self::four::{search, small, table1, table2, table3};
pub(super) use self::nak::{fig12, fig13, fig14};
pub(super) use self::ring::{fig15, fig16, fig17};
pub(super) use self::tree::{fig18, fig19, fig20, fig21};
use super::points::Points;

/// Two times are the same if they differ by no more than this share: 001's are means of three runs
/// that it calls random.
const SAME: f64 = 0.01;

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// A number of bytes or so, without decimals that say nothing.
fn list(values: &[(f64, f64)], unit: &str) -> String {
    let each = values.iter().map(|(x, y)| format!("{x}: {y:.2}{unit}"));
    each.collect::<Vec<_>>().join(", ")
}

/// How the time grows from the fewest to the most receivers.
fn growth(points: &Points) -> f64 {
    let curve = points.curve(|key| key.receivers);
    match (curve.first(), curve.last()) {
        (Some(first), Some(last)) => last.1 / first.1,
        _ => f64::NAN,
    }
}
