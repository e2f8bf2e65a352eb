//! What 000 says of failure detection, as arithmetic on the data, and what to draw of it.

use super::super::super::figure::POINTS;
use super::super::super::plot::{Axis, Point, Series};
use super::super::super::{Data, Plot, Verdict};

/// The rows of some constants, distance and load: from the first repetition to the poll, and from
/// the crash to it.
fn times(data: &Data, constants: &str, distance: &str, load: &str) -> Vec<(f64, f64)> {
    let rows = data.table(POINTS).having("constants", constants);
    let of = rows.filter(|row| row.text("distance") == distance && row.text("load") == load);
    of.map(|row| {
        let detected = row.number("detected");
        (detected - row.number("repeated"), detected)
    })
    .collect()
}

fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    values.fold(ends, |(least, most), value| match value.is_nan() {
        // What was not noticed satisfies no bound.
        true => (f64::NAN, f64::NAN),
        false => (least.min(value), most.max(value)),
    })
}

/// What 000 says of detection.
pub(in super::super) fn judge(data: &Data, verdict: &mut Verdict) {
    let claims = [
        ("near", 4.0, 6.0, "about 5 s (4 to 6)"),
        ("far", 15.0, 20.0, "15 to 20 s"),
    ];
    for (distance, low, high, words) in claims {
        for load in ["low", "high"] {
            let all = times(data, "000's", distance, load);
            let (least, most) = span(all.iter().map(|time| time.0));
            let mean = all.iter().map(|time| time.0).sum::<f64>() / all.len() as f64;
            verdict.check(
                (low..=high).contains(&mean),
                format!(
                    "{distance}, {load} load, 000's constants: given up after {words} without an \
                    answer, in the mean"
                ),
                format!("{mean:.2} s after the first repetition ({least:.2} to {most:.2})"),
            );
        }
    }
    verdict.note(
        "ten timers, of which each is twice the one before and none is above 2 s, last 3.7 s from \
         a first one of 3.6 ms on, 5.1 s from one of 6 ms: the model's hosts, whose processors do \
         nothing but network calls, have shorter round trips than 000's",
    );
    for constants in ["000's", "ours"] {
        for distance in ["near", "far"] {
            for load in ["low", "high"] {
                let all = times(data, constants, distance, load);
                let (least, most) = span(all.iter().map(|time| time.1));
                verdict.note(format!(
                    "{constants} constants, {distance}, {load} load: noticed {least:.2} to \
                     {most:.2} s after the crash"
                ));
            }
        }
    }
}

/// Detection, for each distance and load.
pub(in super::super) fn draw(data: &Data) -> Vec<Plot> {
    let places = [
        ("near", "low"),
        ("near", "high"),
        ("far", "low"),
        ("far", "high"),
    ];
    let names = places.map(|(distance, load)| format!("{distance}, {load} load"));
    let bars = |constants: &str| {
        let point = |(at, (distance, load)): (usize, &(&str, &str))| {
            let all = times(data, constants, distance, load);
            let (least, most) = span(all.iter().map(|time| time.1));
            let mean = all.iter().map(|time| time.1).sum::<f64>() / all.len() as f64;
            Point::with_bar(at as f64, mean, least, most)
        };
        let points: Vec<_> = places.iter().enumerate().map(point).collect();
        Series::bars(format!("{constants} constants"), points)
    };
    vec![
        Plot::new(
            "from the crash to the poll",
            Axis::categories("", names),
            Axis::linear("noticed after", "s").from(0.0),
        )
        .with(bars("000's"))
        .with(bars("ours")),
    ]
}
