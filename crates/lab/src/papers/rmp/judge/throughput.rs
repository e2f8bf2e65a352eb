//! Throughput and use of the cable (Table 2, Fig. 12, 13, 15).

use super::super::super::points::{Points, median};
use super::super::super::{Data, Verdict};
use super::{is_near, list};

/// What the cable carries, in KB/s.
pub(in super::super) const WIRE: f64 = 1_250.0;
/// The three systems of Fig. 12 and 15.
const SYSTEMS: [&str; 3] = ["RMP", "MBus I", "MBus II"];

/// The loads of a system: sources, sinks, and the points of that load.
fn loads<'a>(points: &Points<'a>) -> Vec<(f64, f64, Points<'a>)> {
    let mut all = Vec::new();
    for sources in points.different("sources") {
        for sinks in points.at("sources", sources).different("sinks") {
            all.push((sources, sinks, points.load(sources, sinks)));
        }
    }
    all
}

/// What all sinks together get, in KB/s.
pub(in super::super) fn aggregate(points: &Points<'_>, sinks: f64) -> f64 {
    points.mean("throughput") * sinks
}

/// Fig. 12: what all sinks together get.
pub(in super::super) fn fig12(data: &Data, verdict: &mut Verdict) {
    let points = Points::read(data);
    let of = |system: &str| -> Vec<(f64, f64, f64)> {
        let all = loads(&points.system(system)).into_iter();
        all.map(|(sources, sinks, points)| (sources, sinks, aggregate(&points, sinks)))
            .collect()
    };
    let words = |all: &[(f64, f64, f64)]| {
        let each = all
            .iter()
            .map(|(sources, sinks, kbps)| format!("{sources} × {sinks}: {kbps:.0}"));
        each.collect::<Vec<_>>().join(", ")
    };
    let rmp = of("RMP");
    let several: Vec<_> = rmp.iter().copied().filter(|load| load.1 >= 2.0).collect();
    verdict.check(
        several.len() == 9 && several.iter().all(|load| load.2 > WIRE),
        format!("RMP: from two sinks on more than the wire's {WIRE} KB/s, at every load"),
        words(&several),
    );
    let server = of("MBus I");
    verdict.check(
        server.len() == 10 && server.iter().all(|load| load.2 < WIRE),
        "MBus I: less than the wire, at every load",
        words(&server),
    );
    let most = rmp.iter().find(|load| (load.0, load.1) == (2.0, 8.0));
    let most = most.map_or(f64::NAN, |load| load.2);
    verdict.check(
        most >= 5.0 * WIRE,
        "RMP, 2 sources × 8 sinks: at least 5 times the wire",
        format!(
            "{most:.0} KB/s, {:.2} times (000: 6810 KB/s, 5.45 times)",
            most / WIRE
        ),
    );
    verdict.note(format!("MBus II: {}", words(&of("MBus II"))));
    for (sources, sinks, points) in loads(&points.system("RMP")) {
        if sources >= 4.0 {
            let (least, most) = points.range("throughput");
            let mean = points.mean("throughput");
            verdict.note(format!(
                "RMP, {sources} × {sinks}: between seeds {:.1} % of the mean, {:.1} collisions a \
                 message",
                (most - least) / mean * 100.0,
                points.mean("collisions")
            ));
        }
    }
}

/// Fig. 13: what a destination gets from a lone sender.
pub(in super::super) fn fig13(data: &Data, verdict: &mut Verdict) {
    let points = Points::read(data);
    let curve = |system: &str| points.system(system).curve("sinks", "throughput");
    let words = |curve: &[(f64, f64)]| {
        let each = curve.iter().map(|(n, kbps)| format!("{n}: {kbps:.0}"));
        each.collect::<Vec<_>>().join(", ")
    };
    let tcp = points.system("TCP").mean("throughput");
    verdict.check(
        is_near(tcp, 1_100.0, 0.05),
        "calibration: TCP to one is within 5 % of 1100 KB/s",
        format!("{tcp:.0} KB/s"),
    );
    let rmp = curve("RMP");
    let (first, last) = (rmp.first(), rmp.last());
    let kept = last.map_or(f64::NAN, |it| it.1) / first.map_or(f64::NAN, |it| it.1);
    verdict.check(
        kept >= 0.8,
        "RMP to 8 destinations: at least 0.8 of what one gets",
        format!("{kept:.2}; {}", words(&rmp)),
    );
    // A message to MBus I's server is a copy more.
    for (system, more) in [("RPC", 0.0), ("MBus I", 1.0)] {
        let curve = curve(system);
        let alone = curve
            .first()
            .map_or(f64::NAN, |(n, kbps)| kbps * (n + more));
        verdict.check(
            curve.len() >= 4
                && (curve.iter()).all(|(n, kbps)| is_near(kbps * (n + more), alone, 0.15)),
            format!("{system}: as 1 over the number of copies, N + {more}, within 15 %"),
            words(&curve),
        );
        let ahead = rmp.iter().zip(&curve).filter(|(rmp, _)| rmp.0 >= 2.0);
        let factors: Vec<f64> = ahead.map(|(rmp, other)| rmp.1 / other.1).collect();
        verdict.check(
            factors.len() >= 3 && factors.iter().all(|factor| *factor > 1.0),
            format!("RMP ahead of {system} from 2 destinations on"),
            format!("by factors of {}", list(factors)),
        );
    }
    verdict.note(format!(
        "RMP to one destination: 000 measured 840 to 842 KB/s, this predicts {:.0}",
        first.map_or(f64::NAN, |it| it.1)
    ));
}

/// Fig. 15: how much of the time the cable carries frames.
pub(in super::super) fn fig15(data: &Data, verdict: &mut Verdict) {
    let points = Points::read(data);
    let medians = SYSTEMS.map(|system| {
        let all = loads(&points.system(system)).into_iter();
        let each: Vec<f64> = all.map(|(.., points)| points.mean("cable")).collect();
        match each.iter().all(|percent| percent.is_finite()) {
            true => median(&each),
            false => f64::NAN,
        }
    });
    let [rmp, first, second] = medians;
    let words = format!("{rmp:.1} %, {first:.1} %, {second:.1} %");
    verdict.check(
        rmp > first,
        "at the median load RMP uses more of the cable than MBus I",
        words.clone(),
    );
    verdict.check(
        first > second,
        "at the median load MBus I uses more of it than MBus II",
        words,
    );
    verdict.check(
        (60.0..=80.0).contains(&rmp),
        "RMP's median is about 70 % (60 to 80)",
        format!("{rmp:.1} %"),
    );
    let alone = points.system("RMP").load(1.0, 1.0).mean("throughput");
    verdict.note(format!(
        "RMP's own work on a packet is not in the model, which is calibrated on TCP and RPC alone: \
         to one sink it carries {alone:.0} KB/s, where 000 measured 842 and says that RMP appears \
         to be held up by the processor; in that proportion the median is {:.0} %",
        rmp * 842.0 / alone
    ));
    for system in SYSTEMS {
        let all = loads(&points.system(system)).into_iter();
        let each = all.map(|(sources, sinks, points)| {
            format!("{sources} × {sinks}: {:.0} %", points.mean("cable"))
        });
        verdict.note(format!("{system}: {}", each.collect::<Vec<_>>().join(", ")));
    }
    verdict.note(
        "measured on the cable, headers and what was sent again included; 000 computed it from the \
         throughput",
    );
}

/// What 000 measured, in KB/s: version 3 to 5 and 14 have no model.
pub(in super::super) const TABLE2: [(&str, f64); 6] = [
    ("1", 30.0),
    ("2", 56.0),
    ("5", 97.0),
    ("8", 180.0),
    ("12", 335.0),
    ("final", 466.0),
];

/// Table 2: every step helps.
pub(in super::super) fn table2(data: &Data, verdict: &mut Verdict) {
    let points = Points::read(data);
    let of =
        |version: &str, column: &str| points.system("MBus II").of("version", version).mean(column);
    let steps = TABLE2.map(|(version, _)| of(version, "throughput"));
    let words = TABLE2
        .iter()
        .zip(steps)
        .map(|((version, paper), kbps)| format!("{version}: {kbps:.0} (000: {paper})"));
    let words = words.collect::<Vec<_>>().join(", ");
    verdict.check(
        steps.windows(2).all(|pair| pair[0] < pair[1]),
        "throughput grows at every step, KB/s",
        words,
    );
    let all = steps[5] / steps[0];
    verdict.check(
        all >= 10.0,
        "at least 10 times in all",
        format!("{all:.1} times (000: 15.5)"),
    );
    for column in ["network calls, source", "network calls, sink"] {
        let shares = ["2", "5", "12"].map(|version| of(version, column));
        verdict.check(
            shares.windows(2).all(|pair| pair[0] < pair[1]),
            format!(
                "{column}: their share of the processor's time grows from 512 B over 4 KB to 8 KB"
            ),
            format!("{} %", list(shares)),
        );
    }
    let raw = points.system("RMP").mean("throughput");
    verdict.note(format!("RMP without a bus: {raw:.0} KB/s (000: 840)"));
    verdict.note(
        "steps without a model: version 3 alone is part of 5 here, version 14 made testing \
         programs faster",
    );
}
