//! NAK with polling: poll interval, buffer, receivers (001 Fig. 12–14).

use super::super::super::Verdict;
use super::super::points::{Key, Points};
use super::{SAME, growth, list, percent};

/// NAK: the poll interval.
pub(in super::super) fn fig12(points: &Points, verdict: &mut Verdict) {
    for packet in points.values(|key| key.packet) {
        let of = points.of(|key| key.packet == packet);
        let window = of.values(|key| key.window)[0];
        let share = |poll: f64| poll / window;
        let good = of.of(|key| (0.8..=0.9).contains(&share(key.poll)));
        let above = percent(good.best_time() / of.best_time());
        let best = of.best().map_or(f64::NAN, |point| point.key.poll);
        let ends = |poll: f64| percent(of.of(|key| key.poll == poll).time() / good.best_time());
        let (first, last) = (ends(1.0), ends(window));
        verdict.check(
            above <= SAME * 100.0 && first > SAME * 100.0 && last > SAME * 100.0,
            format!(
                "{packet} B × {window}: a poll of 80 to 90 % of the window is the best, within 1 %, and both 1 and the \
                 whole window are worse"
            ),
            format!(
                "{above:.2} % above the best, which is a poll of {best}; 1 takes {first:.1} % longer, {window} {last:.1} %"
            ),
        );
    }
}

/// NAK: buffers and packets.
pub(in super::super) fn fig13(points: &Points, verdict: &mut Verdict) {
    let buffers = points.values(buffer);
    let (Some(least), Some(most)) = (buffers.first(), buffers.last()) else {
        verdict.check(false, "there are points", "none");
        return;
    };
    let of = points.of(|key| buffer(key) == *most);
    let curve = of.curve(|key| key.packet);
    let best = of.best_time();
    let (small, large) = match (curve.first(), curve.last()) {
        (Some(first), Some(last)) => (percent(first.1 / best), percent(last.1 / best)),
        _ => (f64::NAN, f64::NAN),
    };
    verdict.check(
        small > SAME * 100.0 && large > SAME * 100.0,
        "with the largest buffer both the smallest and the largest packet lose",
        format!("by {small:.1} % and {large:.1} %: {}", list(&curve, " ms")),
    );
    let packet = of.best().map_or(f64::NAN, |point| point.key.packet);
    let with = |size: f64| {
        points
            .of(|key| key.packet == packet && buffer(key) == size)
            .time()
    };
    let loses = percent(with(*least) / with(*most));
    verdict.check(
        loses > SAME * 100.0,
        format!("{packet} B: too small a window loses"),
        format!(
            "{:.0} KB take {loses:.1} % longer than {:.0} KB",
            least / 1e3,
            most / 1e3
        ),
    );
}

/// The size of the buffer, in bytes, which its packets need not fill.
fn buffer(key: &Key) -> f64 {
    (key.window * key.packet / 1e4).round() * 1e4
}

/// NAK: receivers.
pub(in super::super) fn fig14(points: &Points, verdict: &mut Verdict) {
    let grows: Vec<(f64, f64)> = points
        .values(|key| key.packet)
        .into_iter()
        .map(|packet| {
            let of = points.of(|key| key.packet == packet);
            (packet, percent(growth(&of)))
        })
        .collect();
    let mean = grows.iter().map(|(_, growth)| growth).sum::<f64>() / grows.len() as f64;
    verdict.check(
        mean <= 6.0,
        "from 1 to 30 receivers the time grows by at most 6 % in the mean over all packet sizes",
        format!("{mean:.1} % (5.5 % in the paper): {}", list(&grows, " %")),
    );
    let (first, last) = (grows.first(), grows.last());
    verdict.check(
        first
            .zip(last)
            .is_some_and(|(first, last)| last.1 < first.1),
        "the largest packets scale better than the smallest",
        list(&grows, " %"),
    );
}
