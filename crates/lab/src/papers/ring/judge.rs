//! What 002's figures concluded, as arithmetic on curves.

use super::super::data::RecordRef;
use super::super::figure::SWEEP;
use super::super::{Data, Verdict};
use super::curve::{Curve, Curves, Sample};

/// Implementations that 002 draws.
const DRAWN: [&str; 3] = ["library", "daemon", "spread"];

/// An implementation's two curves.
struct Both<'a> {
    label: String,
    original: &'a Curve,
    accelerated: &'a Curve,
}

/// Both curves of every implementation on every wire, with `service` and 1,350 B.
fn pairs<'a>(curves: &'a Curves, service: &str) -> Vec<Both<'a>> {
    let wires = curves.wires();
    let all = wires
        .iter()
        .flat_map(|wire| DRAWN.map(|implementation| (*wire, implementation)));
    all.map(|(wire, implementation)| {
        let one = |protocol: &str| {
            curves.find(|key| {
                key.wire == wire
                    && key.implementation == implementation
                    && key.protocol == protocol
                    && key.service == service
            })
        };
        Both {
            label: if wires.len() > 1 {
                format!("{implementation} at {wire} Mb/s")
            } else {
                implementation.to_owned()
            },
            original: one("original"),
            accelerated: one("accelerated"),
        }
    })
    // On namespaces there is no Spread.
    .filter(|both| !both.original.samples.is_empty())
    .collect()
}

/// Agreed, 1 Gb/s.
pub(super) fn fig1(data: &Data, verdict: &mut Verdict) {
    let curves = &Curves::read(data);
    for both in pairs(curves, "agreed") {
        ahead(&both, verdict);
        at_once(&both, 1.45, 0.6, verdict);
        fills_the_wire(&both, verdict);
    }
    for wire in curves.wires() {
        gap(curves, wire, verdict);
    }
    note_own_messages(verdict);
}

/// Safe, 1 Gb/s.
pub(super) fn fig2(data: &Data, verdict: &mut Verdict) {
    let curves = &Curves::read(data);
    for both in pairs(curves, "safe") {
        let wire = both.original.key.wire;
        let (low, high) = (wire * 0.5, wire * 0.7);
        let climb = both.original.climb(wire * 0.1);
        verdict.check(
            climb.is_some_and(|load| (low..=high).contains(&load)),
            format!(
                "{}: the original's latency climbs from about 600 Mb/s on ({low:.0} to {high:.0}): a tenth of the wire \
                 more is not taken or costs more than all before",
                both.label
            ),
            climb.map_or("it does not climb".to_owned(), |load| format!("from {load:.0} Mb/s on")),
        );
        fills_the_wire(&both, verdict);
        if let Some(pair) = both.accelerated.best_over(both.original, 1.3) {
            verdict.note(format!("{}: {pair}", both.label));
        }
    }
    note_own_messages(verdict);
}

/// Why a wire seems to carry more than its rate.
fn note_own_messages(verdict: &mut Verdict) {
    verdict.note(
        "a receiver gets its own messages too, which cross no wire: 1,003 Mb/s of payload fit on 1 Gb/s; more than that \
         was under way when the count began",
    );
}

/// Agreed, 10 Gb/s.
pub(super) fn fig3(data: &Data, verdict: &mut Verdict) {
    faster_hosts(&Curves::read(data), "agreed", verdict);
    windows(data, verdict);
}

/// Two sizes, 10 Gb/s.
pub(super) fn fig4(data: &Data, verdict: &mut Verdict) {
    let curves = &Curves::read(data);
    for implementation in DRAWN {
        let peak = |large: bool| {
            curves
                .find(|key| key.implementation == implementation && (key.size > 1_500.0) == large)
                .peak()
        };
        let (small, large) = (peak(false), peak(true));
        verdict.check(
            large >= 1.5 * small,
            format!("{implementation}: 8850 B lift the maximum 1.5× at least"),
            format!("{:.2}×, from {small:.0} to {large:.0} Mb/s", large / small),
        );
    }
    note_fitted(verdict);
}

/// Safe, 10 Gb/s.
pub(super) fn fig5(data: &Data, verdict: &mut Verdict) {
    let curves = &Curves::read(data);
    faster_hosts(curves, "safe", verdict);
    for (safe, agreed) in pairs(curves, "safe").iter().zip(pairs(curves, "agreed")) {
        let (safe, agreed, label) = (
            safe.accelerated.peak(),
            agreed.accelerated.peak(),
            &safe.label,
        );
        verdict.check(
            safe >= 0.99 * agreed,
            format!("{label}: Safe peaks no lower than Agreed, within 1 %"),
            format!("{safe:.0} beside {agreed:.0} Mb/s"),
        );
    }
    windows(data, verdict);
}

/// Safe at low loads, 10 Gb/s.
pub(super) fn fig7(data: &Data, verdict: &mut Verdict) {
    let curves = &Curves::read(data);
    for implementation in ["library at a rate", "daemon", "spread"] {
        let one = |protocol: &str| {
            curves.find(|key| key.implementation == implementation && key.protocol == protocol)
        };
        let (original, accelerated) = (one("original"), one("accelerated"));
        let ratios: Vec<(f64, f64)> = original
            .sustained()
            .zip(accelerated.sustained())
            .map(|(before, after)| {
                let load = before.throughput() / original.key.wire * 100.0;
                (load, after.latency() / before.latency())
            })
            .collect();
        let text = ratios
            .iter()
            .map(|(load, ratio)| format!("{ratio:.2}× at {load:.1} %"))
            .collect::<Vec<_>>()
            .join(", ");
        let crossing = crossing(&ratios);
        verdict.check(
            crossing.is_some_and(|load| (3.0..=6.0).contains(&load)),
            format!("{implementation}: the original has the lower latency below 4 to 5 % load, the accelerated above"),
            match crossing {
                Some(load) => format!("they cross at {load:.1} %; the accelerated's by the original's: {text}"),
                None => format!("they do not cross; the accelerated's by the original's: {text}"),
            },
        );
    }
    delays(data, verdict);
}

/// Notes what the personal window does to the most that is carried; it decides nothing.
fn windows(data: &Data, verdict: &mut Verdict) {
    let table = data.table(SWEEP);
    let most = |protocol: &str| {
        let row = |row: RecordRef<'_>| {
            let (window, most) = (row.number("personal window"), row.number("throughput"));
            format!("{most:.0} Mb/s with {window:.0} a visit")
        };
        let rows: Vec<String> = table.having("protocol", protocol).map(row).collect();
        rows.join(", ")
    };
    let of = table
        .records()
        .next()
        .map_or("", |row| row.text("implementation"));
    verdict.note(format!(
        "the most that {of} carries hangs on the personal window, which 002 does not print. The original: {}. The \
         accelerated: {}",
        most("original"),
        most("accelerated")
    ));
}

/// Notes what card and wake-up do to the crossing; it decides nothing.
fn delays(data: &Data, verdict: &mut Verdict) {
    let table = data.table(SWEEP);
    let mut seen: Vec<(f64, f64)> = Vec::new();
    for row in table.records() {
        let delays = (row.number("card"), row.number("wake-up"));
        if seen.contains(&delays) {
            continue;
        }
        seen.push(delays);
        let of = |protocol: &str| {
            let rows = table.records().filter(|row| {
                (row.number("card"), row.number("wake-up")) == delays
                    && row.text("protocol") == protocol
            });
            rows.map(|row| (row.number("throughput"), row.number("latency")))
                .collect::<Vec<_>>()
        };
        let (original, accelerated) = (of("original"), of("accelerated"));
        let ratios: Vec<(f64, f64)> = original
            .iter()
            .zip(&accelerated)
            .map(|(before, after)| (before.0 / 100.0, after.1 / before.1))
            .collect();
        let first = ratios.first().map_or(f64::NAN, |(_, ratio)| *ratio);
        verdict.note(format!(
            "daemon, card {} µs, wake-up {} µs: {}; at 100 Mb/s the original takes {:.0} µs, the accelerated {first:.2}× that",
            delays.0,
            delays.1,
            crossing(&ratios).map_or("no crossing".to_owned(), |load| format!("they cross at {load:.1} %")),
            original.first().map_or(f64::NAN, |(_, latency)| *latency),
        ));
    }
    verdict.note(
        "measured with a wake-up of 2 µs; with the 5 µs of the hosts' preset the daemon's curves do not cross (see above)",
    );
    verdict.note(
        "the extra round appears where a token is read before the data that was sent right after it: a process that \
         takes longer to wake up than that data is behind reads the data first, and the accelerated ring is ahead at \
         any load",
    );
}

/// The load above which all ratios are below 1 and below which none is, by interpolation.
fn crossing(ratios: &[(f64, f64)]) -> Option<f64> {
    let first = ratios.iter().position(|(_, ratio)| *ratio < 1.0)?;
    if first == 0 || ratios[first..].iter().any(|(_, ratio)| *ratio >= 1.0) {
        return None;
    }
    let [(x0, y0), (x1, y1)] = [ratios[first - 1], ratios[first]];
    Some(x0 + (x1 - x0) * (y0 - 1.0) / (y0 - y1))
}

/// What 10 Gb/s shows: hosts, not wires, are the limit.
fn faster_hosts(curves: &Curves, service: &str, verdict: &mut Verdict) {
    let pairs = pairs(curves, service);
    for both in &pairs {
        // 002 compares throughputs at no more latency, not what full queues carry.
        at_once(both, 1.25, 1.0, verdict);
        let (original, accelerated) = (both.original.peak(), both.accelerated.peak());
        verdict.note(format!(
            "{}: at any latency accelerated carries {accelerated:.0} Mb/s at most, the original {original:.0}",
            both.label
        ));
    }
    let peak = |name: &str| {
        let of = |both: &&Both<'_>| both.label == name;
        pairs
            .iter()
            .find(of)
            .map_or(f64::NAN, |both| both.accelerated.peak())
    };
    for (faster, slower) in [("library", "daemon"), ("daemon", "spread")] {
        let (high, low) = (peak(faster), peak(slower));
        verdict.check(
            high > low,
            format!("the {faster} reaches more than {slower}"),
            format!("{high:.0} beside {low:.0} Mb/s"),
        );
    }
    note_fitted(verdict);
}

/// Which numbers of 10 Gb/s are no result.
fn note_fitted(verdict: &mut Verdict) {
    verdict.note(
        "the hosts' costs are fitted to what 002's accelerated protocol carries at most on 10 Gb/s, for library, daemon and \
         Spread (for Spread with both sizes): these maxima and their ratios are no result. What the original carries and all \
         latencies are",
    );
}

/// The accelerated protocol has the lower latency at all that the original takes, and reaches more.
fn ahead(both: &Both<'_>, verdict: &mut Verdict) {
    let ratios = both.accelerated.latencies_by(both.original);
    let worst = ratios.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    verdict.check(
        worst.is_some_and(|(_, ratio)| ratio < 1.0),
        format!(
            "{}: accelerated has the lower latency at every throughput of both",
            both.label
        ),
        worst.map_or("no throughput of both".to_owned(), |(at, ratio)| {
            format!("{ratio:.2}× the original's at worst, at {at:.0} Mb/s")
        }),
    );
    more(both, verdict);
}

fn more(both: &Both<'_>, verdict: &mut Verdict) {
    let (original, accelerated) = (both.original.peak(), both.accelerated.peak());
    verdict.check(
        accelerated > original,
        format!("{}: accelerated reaches more throughput", both.label),
        format!("{accelerated:.0} instead of {original:.0} Mb/s"),
    );
}

/// Somewhere on the curve this much more throughput at this much less latency.
fn at_once(both: &Both<'_>, throughput: f64, latency: f64, verdict: &mut Verdict) {
    let pair = both.accelerated.best_over(both.original, throughput);
    verdict.check(
        pair.is_some_and(|pair| pair.latency <= latency),
        format!(
            "{}: somewhere {throughput}× the throughput at {latency}× the latency, or better",
            both.label
        ),
        pair.map_or(format!("nowhere {throughput}× the throughput"), |pair| {
            pair.to_string()
        }),
    );
}

fn fills_the_wire(both: &Both<'_>, verdict: &mut Verdict) {
    let (peak, wire) = (both.accelerated.peak(), both.accelerated.key.wire);
    verdict.check(
        peak >= 0.9 * wire,
        format!(
            "{}: accelerated carries 90 % of the wire in payload",
            both.label
        ),
        format!("{peak:.0} of {wire:.0} Mb/s"),
    );
}

/// What clients add to the latency, mean over all loads that all four curves took.
fn gap(curves: &Curves, wire: f64, verdict: &mut Verdict) {
    let one = |implementation: &str, protocol: &str| {
        curves.find(|key| {
            key.wire == wire && key.implementation == implementation && key.protocol == protocol
        })
    };
    let loads: Vec<f64> = one("daemon", "original")
        .sustained()
        .map(Sample::throughput)
        .collect();
    let gaps = |protocol: &str, load: f64| {
        let at = |implementation| one(implementation, protocol).latency_at(load);
        Some(at("daemon")? - at("library at a rate")?)
    };
    let both: Vec<(f64, f64)> = loads
        .iter()
        .filter_map(|load| Some((gaps("original", *load)?, gaps("accelerated", *load)?)))
        .collect();
    let count = both.len() as f64;
    let original = both.iter().map(|(original, _)| original).sum::<f64>() / count;
    let accelerated = both.iter().map(|(_, accelerated)| accelerated).sum::<f64>() / count;
    verdict.check(
        accelerated < original,
        format!("{wire} Mb/s: a daemon adds less latency to the library's when accelerated"),
        format!("{accelerated:.1} instead of {original:.1} µs, mean over {count} loads"),
    );
}

#[cfg(test)]
mod tests {
    use super::super::curve::tests::curve;
    use super::*;

    #[test]
    fn curves_cross_once_or_not_at_all() {
        assert_eq!(crossing(&[(1.0, 1.2), (3.0, 1.1), (5.0, 0.9)]), Some(4.0));
        assert_eq!(crossing(&[(1.0, 0.9), (3.0, 0.8)]), None);
        assert_eq!(crossing(&[(1.0, 1.2), (3.0, 0.8), (5.0, 1.1)]), None);
        assert_eq!(crossing(&[(1.0, 1.2), (3.0, 1.1)]), None);
        assert_eq!(crossing(&[]), None);
    }

    #[test]
    fn no_curve_satisfies_no_claim() {
        let mut verdict = Verdict::new();
        let (original, accelerated) = (&curve(&[]), &curve(&[]));
        let both = Both {
            label: String::new(),
            original,
            accelerated,
        };
        ahead(&both, &mut verdict);
        at_once(&both, 1.45, 0.6, &mut verdict);
        fills_the_wire(&both, &mut verdict);
        assert!(verdict.checks.iter().all(|check| !check.held));
        assert_eq!(verdict.checks.len(), 4);
    }

    #[test]
    fn a_curve_is_not_ahead_of_itself() {
        let mut verdict = Verdict::new();
        let one = curve(&[(100.0, 100.0, 10.0), (500.0, 500.0, 30.0)]);
        let both = Both {
            label: String::new(),
            original: &one,
            accelerated: &one,
        };
        ahead(&both, &mut verdict);
        at_once(&both, 1.45, 0.6, &mut verdict);
        assert!(verdict.checks.iter().all(|check| !check.held));
    }
}
