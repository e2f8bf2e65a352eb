//! The ring: packets, windows, receivers (001 Fig. 15–17).

use super::super::super::Verdict;
use super::super::points::Points;
use super::{SAME, growth, list, percent};

/// Ring: packets.
pub(in super::super) fn fig15(points: &Points, verdict: &mut Verdict) {
    let best = points.best().map_or(f64::NAN, |point| point.key.packet);
    verdict.check(
        (5_000.0..=10_000.0).contains(&best),
        "the best packet has 5 to 10 KB",
        format!("{best} B: {}", list(&points.curve(|key| key.packet), " ms")),
    );
}

/// Ring: windows.
pub(in super::super) fn fig16(points: &Points, verdict: &mut Verdict) {
    let refused = points.of(|key| key.window <= key.receivers);
    let ended = refused.iter().filter(|point| point.time().is_finite());
    verdict.check(
        refused.iter().count() > 0 && ended.count() == 0,
        "a window of no more than N packets is refused",
        format!("{} settings", refused.iter().count()),
    );
    for packet in points.values(|key| key.packet) {
        let of = points.of(|key| key.packet == packet && key.window > key.receivers);
        let least = of.values(|key| key.window).first().copied();
        let least = of.of(|key| Some(key.window) == least).time();
        let gain = percent(least / of.best_time());
        let window = of.best().map_or(f64::NAN, |point| point.key.window);
        verdict.check(
            gain > 100.0 * SAME,
            format!("{packet} B: more than N + 1 packets are better"),
            format!("N + 1 take {gain:.1} % longer than the best, which is {window}"),
        );
    }
}

/// Ring: receivers.
pub(in super::super) fn fig17(points: &Points, verdict: &mut Verdict) {
    let grows = percent(growth(points));
    verdict.check(
        grows < 2.0,
        "from 1 to 30 receivers the time grows by less than 2 %",
        format!(
            "{grows:.2} % (less than 1 % in the paper), from {:.1} ms",
            points.of(|key| key.receivers == 1.0).time()
        ),
    );
}
