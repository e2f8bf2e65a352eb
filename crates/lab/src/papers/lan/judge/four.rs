//! The four beside each other: memory, acknowledgements, throughput, messages of one packet (001
//! Table 1–3, sections 5–6).

use super::super::super::Verdict;
use super::super::points::{Key, Point, Points};
use super::{SAME, percent};

/// Table 1: who needs much memory.
pub(in super::super) fn table1(points: &Points, verdict: &mut Verdict) {
    let buffered = |name: &str| -> Vec<f64> {
        let points = points.system(name);
        points
            .iter()
            .map(|point| point.mean(|measured| measured.buffered))
            .collect()
    };
    let most = |names: [&str; 2]| {
        let all = names.into_iter().flat_map(buffered);
        all.fold(f64::NAN, f64::max)
    };
    let least = |names: [&str; 2]| {
        let all = names.into_iter().flat_map(buffered);
        all.fold(f64::NAN, f64::min)
    };
    let (low, high) = (most(["ack", "tree"]), least(["nak", "ring"]));
    verdict.check(
        low < high,
        "ACK and tree keep less at the sender than NAK and ring",
        format!(
            "at most {:.0} KB beside at least {:.0} KB",
            low / 1e3,
            high / 1e3
        ),
    );
    verdict.note(
        "what is kept is a full window, so the claim compares the windows that 001's Table 3 prints, and that each is used \
         in full",
    );
    for point in points.iter() {
        let Point { key, .. } = point;
        verdict.note(format!(
            "{}{}: {:.0} KB kept at most of a window of {} × {:.0} KB",
            key.system,
            if key.height.is_finite() {
                format!("({})", key.height)
            } else {
                String::new()
            },
            point.mean(|measured| measured.buffered) / 1e3,
            key.window,
            key.packet / 1e3,
        ));
    }
}

/// Table 2: how many acknowledgements.
pub(in super::super) fn table2(points: &Points, verdict: &mut Verdict) {
    /// Of a point: acknowledgements sent, and those that arrive at the sender.
    type Counts = fn(&Point) -> (f64, f64);
    let claims: [(&str, &str, Counts); 4] = [
        ("ack", "ACK: N·P, all at the sender", |point| {
            let all = point.key.receivers * packets(point);
            (all, all)
        }),
        ("nak", "NAK: N·⌈P/i⌉, all at the sender", |point| {
            let all = point.key.receivers * (packets(point) / point.key.poll).ceil();
            (all, all)
        }),
        ("ring", "ring: P + N − 1, all at the sender", |point| {
            let all = packets(point) + point.key.receivers - 1.0;
            (all, all)
        }),
        (
            "tree",
            "tree: N·P in the network, P·⌈N/H⌉ at the sender",
            |point| {
                let chains = (point.key.receivers / point.key.height).ceil();
                (
                    point.key.receivers * packets(point),
                    packets(point) * chains,
                )
            },
        ),
    ];
    for (name, claim, expected) in claims {
        let points = points.system(name);
        let wrong = points.iter().filter_map(|point| {
            let counted = (
                point.mean(|measured| measured.sent),
                point.mean(|measured| measured.arrived),
            );
            let expected = expected(point);
            (counted != expected).then(|| {
                format!(
                    "{} and {} instead of {} and {} (N = {}, P = {})",
                    counted.0,
                    counted.1,
                    expected.0,
                    expected.1,
                    point.key.receivers,
                    packets(point)
                )
            })
        });
        let wrong: Vec<String> = wrong.collect();
        let count = points.iter().count();
        verdict.check(
            wrong.is_empty() && count > 0,
            format!("{claim}, exactly"),
            match wrong.first() {
                None => format!("exact in {count} settings"),
                Some(first) => format!("wrong in {} of {count}: {first}", wrong.len()),
            },
        );
    }
}

/// Data packets of the message.
fn packets(point: &Point) -> f64 {
    (point.key.size / point.key.packet).ceil().max(1.0)
}

/// The systems of Table 3, the best first.
const ORDER: [(&str, f64, f64); 5] = [
    ("nak", f64::NAN, 89.7),
    ("ring", f64::NAN, 84.6),
    ("tree", 15.0, 81.2),
    ("tree", 6.0, 77.3),
    ("ack", f64::NAN, 68.0),
];

fn is_of(key: &Key, name: &str, height: f64) -> bool {
    key.system == name && (height.is_nan() || key.height == height)
}

fn call(name: &str, height: f64) -> String {
    match height.is_nan() {
        true => name.to_owned(),
        false => format!("{name}({height})"),
    }
}

/// Table 3: which is the fastest.
pub(in super::super) fn table3(points: &Points, verdict: &mut Verdict) {
    order(points, "with 001's parameters", verdict);
}

/// The same by a search of the parameters.
pub(in super::super) fn search(points: &Points, verdict: &mut Verdict) {
    let best = ORDER.map(|(name, height, _)| {
        let of = points.of(|key| is_of(key, name, height));
        let found = of.best().map(|point| {
            let key = &point.key;
            format!(
                "{} {:.1} Mb/s with {} B × {}{}",
                call(name, height),
                point.throughput(),
                key.packet,
                key.window,
                if key.poll.is_finite() {
                    format!(", poll {}", key.poll)
                } else {
                    String::new()
                }
            )
        });
        found.unwrap_or_default()
    });
    verdict.note(format!("the best parameters here: {}", best.join("; ")));
    order(points, "each with its best parameters here", verdict);
}

fn order(points: &Points, which: &str, verdict: &mut Verdict) {
    let rates = ORDER.map(|(name, height, paper)| {
        let best = points.of(|key| is_of(key, name, height));
        let rate = best.best().map_or(f64::NAN, Point::throughput);
        (call(name, height), rate, paper)
    });
    for pair in rates.windows(2) {
        let [(faster, a, _), (slower, b, _)] = pair else {
            continue;
        };
        verdict.check(
            a > b,
            format!("{faster} is ahead of {slower}, {which}"),
            format!("{a:.1} and {b:.1} Mb/s"),
        );
    }
    let all = rates.map(|(name, rate, paper)| format!("{name} {rate:.1} ({paper})"));
    verdict.note(format!("Mb/s {which} (and in 001): {}", all.join(", ")));
}

/// One-packet messages.
pub(in super::super) fn small(points: &Points, verdict: &mut Verdict) {
    for size in points.values(|key| key.size) {
        let of = points.of(|key| key.size == size);
        let flat = ["ack", "nak", "ring"].map(|name| of.system(name).time());
        let (least, most) = (
            flat.iter().copied().fold(f64::NAN, f64::min),
            flat.iter().copied().fold(f64::NAN, f64::max),
        );
        let tree = of.system("tree").best_time();
        verdict.check(
            percent(most / least) <= SAME * 100.0 && flat.iter().all(|time| time.is_finite()),
            format!("{size} B: ACK, NAK and ring take the same time, within 1 %"),
            format!("{:.3}, {:.3} and {:.3} ms", flat[0], flat[1], flat[2]),
        );
        verdict.check(
            tree > most,
            format!("{size} B: the trees are behind"),
            format!("{tree:.3} ms at best"),
        );
    }
}
