//! Flat trees: heights, windows, packets, small messages (001 Fig. 18–21).

use super::super::super::Verdict;
use super::super::points::{Point, Points};
use super::{SAME, list, percent};

/// Tree: heights.
pub(in super::super) fn fig18(points: &Points, verdict: &mut Verdict) {
    for packet in points.values(|key| key.packet) {
        let of = points.of(|key| key.packet == packet);
        let best = of.best().map_or(f64::NAN, |point| point.key.height);
        verdict.check(
            best > 1.0 && best < 30.0,
            format!("{packet} B: neither extreme is the best height"),
            format!("{best} is: {}", list(&of.curve(|key| key.height), " ms")),
        );
    }
    let ratios: Vec<(f64, f64)> = points
        .values(|key| key.height)
        .into_iter()
        .map(|height| {
            let at = |packet: f64| {
                points
                    .of(|key| key.height == height && key.packet == packet)
                    .time()
            };
            (height, at(8_000.0) / at(50_000.0))
        })
        .collect();
    verdict.check(
        !ratios.is_empty()
            && ratios
                .iter()
                .all(|(height, ratio)| (*ratio < 1.0) == (*height != 1.0)),
        "8 KB are ahead of 50 KB at every height but 1, and behind there",
        format!("8 KB by 50 KB: {}", list(&ratios, "")),
    );
}

/// Tree: heights and windows.
pub(in super::super) fn fig19(points: &Points, verdict: &mut Verdict) {
    let needs: Vec<(f64, f64)> = points
        .values(|key| key.height)
        .into_iter()
        .map(|height| {
            let of = points.of(|key| key.height == height);
            let enough = of.best_time() * (1.0 + 2.0 * SAME);
            let curve = of.curve(|key| key.window);
            let least = curve.iter().find(|(_, time)| *time <= enough);
            (height, least.map_or(f64::NAN, |(window, _)| *window))
        })
        .collect();
    let need = |height: f64| {
        let found = needs.iter().find(|(of, _)| *of == height);
        found.map_or(f64::NAN, |(_, window)| *window)
    };
    verdict.check(
        needs.is_sorted_by(|a, b| a.1 <= b.1) && need(30.0) > need(1.0),
        "taller trees need larger windows to come within 2 % of their best",
        list(&needs, ""),
    );
    verdict.check(
        need(1.0) <= 2.0 && (7.0..=13.0).contains(&need(30.0)),
        "about 10 packets at height 30, 2 at height 1",
        format!("{} and {}", need(30.0), need(1.0)),
    );
    let most = points.values(|key| key.window).last().copied();
    let ample = points.of(|key| Some(key.window) == most);
    let curve = ample.curve(|key| key.height);
    let flat = ample.of(|key| key.height == 1.0).time();
    verdict.check(
        curve
            .iter()
            .all(|(height, time)| *height == 1.0 || *time < flat),
        "with ample window height 1 is the worst",
        list(&curve, " ms"),
    );
}

/// Tree: small messages.
pub(in super::super) fn fig20(points: &Points, verdict: &mut Verdict) {
    for size in points.values(|key| key.size) {
        let of = points.of(|key| key.size == size);
        let low = of.of(|key| key.height < 6.0);
        let slowest = low.iter().map(Point::time).fold(f64::NAN, f64::max);
        let tall = of.of(|key| key.height >= 15.0).best_time();
        verdict.check(
            tall >= 1.5 * slowest,
            format!(
                "{size} B: heights of 15 and more take at least 1.5 times as long as any below 6"
            ),
            format!(
                "{:.1} times: {}",
                tall / slowest,
                list(&of.curve(|key| key.height), " ms")
            ),
        );
    }
}

/// Tree of height 6: packets.
pub(in super::super) fn fig21(points: &Points, verdict: &mut Verdict) {
    let best = |packet: f64| points.of(|key| key.packet == packet).best_time();
    for packet in [1_300.0, 50_000.0] {
        let worse = percent(best(packet) / best(8_000.0));
        verdict.check(
            worse > 100.0 * SAME,
            format!("{packet} B are worse than 8 KB, each with its best window"),
            format!("{worse:.1} % longer"),
        );
    }
}
