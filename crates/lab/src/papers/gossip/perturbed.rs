//! Members that sleep now and then, and messages dropped everywhere, on a fast switch (004 ch. 4).
//!
//! A host sleeps through whole intervals of 100 ms; what its bounded input buffer does not hold
//! meanwhile is lost. Healthy members are those that are not perturbed; the sender is healthy and
//! is not counted.

use super::super::data::{Cell, Table};
use super::super::plot::Axis;
use super::super::{Data, Plot, Verdict};
use super::curve::{Curve, brief, rows};
use super::metric::{
    CONFIGURATIONS, GAPS, HEALTHY_LOST, HEALTHY_RATE, HEALTHY_VARIANCE, MISSING_ALL, Metric,
    RESENT, RESENT_MOST,
};
use super::network::Shape;
use super::point::{GossipPoint, Open, Scheme};
use super::{Figure, POINTS, SWEEP, THREE_SEEDS};

/// Healthy members' throughput.
pub const FIG4_3: Figure = Figure {
    title: "Throughput of healthy members beside perturbed ones",
    seeds: THREE_SEEDS,
    plan: |quick| {
        let sizes = if quick {
            &[8, 16][..]
        } else {
            &[8, 16, 96, 128][..]
        };
        over_perturbation(&[Scheme::Pbcast], sizes, quick)
    },
    metrics: &[HEALTHY_RATE, HEALTHY_VARIANCE, HEALTHY_LOST],
    looks: &[],
    per_member: None,
    sweep: None,
    judge: fig4_3,
    plots: |data| {
        let mut plots = over_rate(data, HEALTHY_RATE, "msg/s");
        plots.extend(over_size(data, HEALTHY_VARIANCE));
        plots
    },
};

/// What a healthy member sends again.
pub const FIG4_5: Figure = Figure {
    title: "Messages that a healthy member sends again",
    seeds: THREE_SEEDS,
    plan: |quick| {
        let sizes = if quick {
            &[8, 16][..]
        } else {
            &[8, 16, 64, 128][..]
        };
        over_perturbation(&[Scheme::Pbcast], sizes, quick)
    },
    metrics: &[RESENT, RESENT_MOST, HEALTHY_LOST],
    looks: &[],
    per_member: None,
    sweep: None,
    judge: fig4_5,
    plots: |data| over_rate(data, RESENT, "%"),
};

/// Against virtual synchrony.
pub const FIG4_7: Figure = Figure {
    title: "Throughput of healthy members: Pbcast beside virtual synchrony",
    seeds: THREE_SEEDS,
    plan: |quick| {
        let sizes = if quick { &[16][..] } else { &[32, 64, 96][..] };
        over_perturbation(&BESIDE, sizes, quick)
    },
    metrics: &[HEALTHY_RATE, HEALTHY_VARIANCE, CONFIGURATIONS],
    looks: &[],
    per_member: None,
    sweep: None,
    judge: fig4_7,
    plots: |data| over_rate(data, HEALTHY_RATE, "msg/s"),
};

/// Drops everywhere.
pub const FIG4_9: Figure = Figure {
    title: "Messages reported as lost under system-wide drops",
    seeds: THREE_SEEDS,
    plan: fig4_9_plan,
    metrics: &[GAPS, MISSING_ALL],
    looks: &[],
    per_member: None,
    sweep: Some(fig4_9_sweep),
    judge: fig4_9,
    plots: plot_fig4_9,
};

const BESIDE: [Scheme; 3] = [Scheme::Pbcast, Scheme::Ring, Scheme::Windowed];
const VIRTUALLY_SYNCHRONOUS: [Scheme; 2] = [Scheme::Ring, Scheme::Windowed];
/// 004 4.3: messages a second.
const NOMINAL: f64 = 200.0;
const RATES: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
const DROPS: [f64; 4] = [0.02, 0.08, 0.14, 0.2];
/// 004 4.3.1: each member gossips to two a round, which bounds what it sends again.
const FAN_OUT: u32 = 2;

/// Hosts of 004 4.2 around their switch: 7 KB messages, 320 Mb/s a port.
fn setting(size: u32, scheme: Scheme) -> GossipPoint {
    GossipPoint {
        bandwidth: 320_000_000,
        noise: 0.0,
        rate: NOMINAL,
        size: 7 << 10,
        seconds: 30.0,
        open: Open {
            sub_gsize: FAN_OUT,
            queue: 10_000,
            ..Open::OURS
        },
        ..GossipPoint::new(Shape::Switch { size }, scheme)
    }
}

/// One perturbed member and a quarter of them, at every rate of perturbation.
fn over_perturbation(schemes: &[Scheme], sizes: &[u32], quick: bool) -> Vec<GossipPoint> {
    let rates = if quick { &[0.1, 0.5][..] } else { &RATES[..] };
    let mut plan = Vec::new();
    for scheme in schemes {
        for size in sizes {
            for perturbed in [1, size / 4] {
                for perturb_rate in rates {
                    let setting = GossipPoint {
                        perturbed,
                        perturb_rate: *perturb_rate,
                        ..setting(*size, *scheme)
                    };
                    plan.push(setting.shortened(quick));
                }
            }
        }
    }
    plan
}

/// The rows of a scheme and a size with one perturbed member, or with a quarter of all.
fn having<'a>(scheme: Scheme, size: u32, one: bool) -> [(&'a str, Cell); 3] {
    let perturbed = if one { 1 } else { size / 4 };
    [
        ("scheme", scheme.name().into()),
        ("size", size.into()),
        ("perturbed", perturbed.into()),
    ]
}

fn sizes(table: &Table) -> Vec<u32> {
    let mut sizes: Vec<u32> = table
        .records()
        .map(|row| row.number("size") as u32)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn over(table: &Table, scheme: Scheme, size: u32, one: bool, metric: Metric) -> Curve {
    let having = having(scheme, size, one);
    Curve::read(table, "perturb rate", metric.name, &having)
}

fn fig4_3(data: &Data, verdict: &mut Verdict) {
    let table = data.table(POINTS);
    let all = Curve::read(table, "size", HEALTHY_RATE.name, &[]);
    verdict.check(
        all.least() >= 0.99 * NOMINAL && all.most() <= 1.01 * NOMINAL,
        format!("healthy members' throughput is {NOMINAL}/s within 1 %, in every run"),
        format!("{} to {}/s", brief(all.least()), brief(all.most())),
    );
    let lost = Curve::read(table, "size", HEALTHY_LOST.name, &[]);
    verdict.check(
        lost.most() == 0.0,
        "healthy members lose nothing",
        format!(
            "lost by all healthy members of a run, at most: {}",
            brief(lost.most())
        ),
    );
    let sizes = sizes(table);
    for perturb_rate in [0.1, 0.5] {
        let quarter: Vec<(f64, f64)> = sizes
            .iter()
            .map(|size| {
                let curve = over(table, Scheme::Pbcast, *size, false, HEALTHY_VARIANCE);
                (f64::from(*size), curve.at(perturb_rate))
            })
            .collect();
        let (Some(first), Some(last)) = (quarter.first(), quarter.last()) else {
            continue;
        };
        let (members, growth) = (last.0 / first.0, last.1 / first.1);
        verdict.check(
            growth < members / 2.0,
            format!(
                "variance at p = {perturb_rate}, a quarter perturbed: grows slowly, less than half as fast as the group"
            ),
            format!(
                "{} times for {members} times the members: from {} to {}",
                brief(growth),
                brief(first.1),
                brief(last.1)
            ),
        );
    }
}

fn fig4_5(data: &Data, verdict: &mut Verdict) {
    let table = data.table(POINTS);
    let mut worst = (0.0, 0.0);
    for row in table.records() {
        let (bound, sent) = (row.number("perturb rate"), row.number(RESENT.name));
        let used = sent / (f64::from(FAN_OUT) * bound * 100.0);
        if used.is_nan() || used > worst.0 {
            worst = (used, bound);
        }
    }
    verdict.check(
        worst.0 < 1.0 && !table.rows.is_empty(),
        "a healthy member sends again less than fan-out × p of the messages, in every run",
        format!("at most {} times that, at p = {}", brief(worst.0), worst.1),
    );
    let sizes = sizes(table);
    let (Some(small), Some(large)) = (sizes.first(), sizes.last()) else {
        return;
    };
    for (one, grows) in [(false, true), (true, false)] {
        let at = |size| over(table, Scheme::Pbcast, size, one, RESENT).at(0.5);
        let growth = at(*large) / at(*small);
        let (held, claim) = if grows {
            (
                growth > 1.1,
                "a quarter perturbed: grows with the group (p = 0.5)",
            )
        } else {
            (
                growth < 1.1,
                "one perturbed: does not grow with the group (p = 0.5)",
            )
        };
        verdict.check(
            held,
            claim,
            format!(
                "{} times from {small} to {large} members: from {} to {} %",
                brief(growth),
                brief(at(*small)),
                brief(at(*large))
            ),
        );
    }
    let beyond = table.records().filter(|row| {
        let bound = f64::from(FAN_OUT) * row.number("perturb rate") * 100.0;
        row.number(RESENT_MOST.name) > bound
    });
    let (beyond, runs) = (beyond.count(), table.rows.len());
    let most = Curve::read(table, "perturb rate", RESENT_MOST.name, &[]);
    verdict.check(
        beyond == 0 && runs > 0,
        "and in every window of 500 ms, as 004 counts",
        format!(
            "more in some window of {beyond} of {runs} runs, {} % in the worst: a window may see two sleeps at once",
            brief(most.most())
        ),
    );
}

fn fig4_7(data: &Data, verdict: &mut Verdict) {
    let table = data.table(POINTS);
    let sizes = sizes(table);
    let pbcast = Curve::read(
        table,
        "perturb rate",
        HEALTHY_RATE.name,
        &[("scheme", Scheme::Pbcast.name().into())],
    );
    verdict.check(
        pbcast.least() >= 0.99 * NOMINAL,
        format!("Pbcast: {NOMINAL}/s within 1 %, in every run"),
        format!("{}/s at least", brief(pbcast.least())),
    );
    let changed = Curve::read(table, "perturb rate", CONFIGURATIONS.name, &[]);
    verdict.check(
        changed.most() == 0.0,
        "no member's view changes while it is measured",
        format!("{} changes in a run at most", brief(changed.most())),
    );
    for scheme in VIRTUALLY_SYNCHRONOUS {
        for size in &sizes {
            let one = over(table, scheme, *size, true, HEALTHY_RATE);
            let quarter = over(table, scheme, *size, false, HEALTHY_RATE);
            verdict.check(
                one.last() < 0.9 * NOMINAL && one.last() < one.first(),
                format!(
                    "{}, {size} members: one perturbed drags all down, more with p",
                    scheme.name()
                ),
                format!("{}/s", one.text()),
            );
            verdict.check(
                one.is_above(&quarter),
                format!(
                    "{}, {size} members: a quarter perturbed, more at every p",
                    scheme.name()
                ),
                format!("{}/s", quarter.text()),
            );
        }
        let quarter = |size| over(table, scheme, size, false, HEALTHY_RATE).first();
        if let (Some(small), Some(large)) = (sizes.first(), sizes.last()) {
            verdict.check(
                sizes.len() < 2 || quarter(*large) < quarter(*small),
                format!(
                    "{}: more in a larger group (a quarter, p = 0.1)",
                    scheme.name()
                ),
                format!(
                    "{} beside {}/s",
                    brief(quarter(*large)),
                    brief(quarter(*small))
                ),
            );
        }
    }
    verdict.note(
        "004 reads, Ensemble at n = 96, p = 0.1: about 90/s with 1 perturbed, about 50/s with 24",
    );
}

/// The limit of requests and repairs a round is between what 100 and what 200 messages a second
/// need; see the sweep.
fn fig4_9_setting(size: u32, rate: f64, drop: f64) -> GossipPoint {
    let setting = setting(size, Scheme::Pbcast);
    GossipPoint {
        noise: drop,
        rate,
        open: Open {
            limit: 40,
            ..setting.open
        },
        ..setting
    }
}

fn fig4_9_plan(quick: bool) -> Vec<GossipPoint> {
    let sizes = if quick {
        &[8, 16][..]
    } else {
        &[8, 32, 64, 128][..]
    };
    let drops = if quick { &DROPS[3..] } else { &DROPS[..] };
    let mut plan = Vec::new();
    for rate in [100.0, 200.0] {
        for size in sizes {
            for drop in drops {
                plan.push(fig4_9_setting(*size, rate, *drop).shortened(quick));
            }
        }
    }
    plan
}

/// The limit of requests and repairs a round, which 004 does not print.
fn fig4_9_sweep(quick: bool) -> Vec<GossipPoint> {
    let mut plan = Vec::new();
    for limit in LIMITS {
        for rate in [100.0, 200.0] {
            let base = fig4_9_setting(if quick { 16 } else { 128 }, rate, 0.2);
            let setting = GossipPoint {
                open: Open {
                    limit,
                    ..base.open.clone()
                },
                ..base
            };
            plan.push(setting.shortened(quick));
        }
    }
    plan
}

const LIMITS: [u32; 6] = [5, 10, 15, 20, 40, 1_000];

fn gaps(data: &Data, size: u32, rate: f64) -> Curve {
    let having = [("size", size.into()), ("rate", rate.into())];
    Curve::read(data.table(POINTS), "noise", GAPS.name, &having)
}

fn fig4_9(data: &Data, verdict: &mut Verdict) {
    let table = data.table(POINTS);
    let low = Curve::read(table, "noise", GAPS.name, &[("rate", 100u32.into())]);
    verdict.check(
        low.most() == 0.0,
        "at 100/s nothing is lost, whatever the drop rate and the size of the group",
        format!("reported in a run, at most: {}", brief(low.most())),
    );
    let sizes = sizes(table);
    let (Some(small), Some(large)) = (sizes.first(), sizes.last()) else {
        return;
    };
    let (small, large) = (gaps(data, *small, 200.0), gaps(data, *large, 200.0));
    verdict.check(
        large.last() > 0.0 && large.last() > large.first(),
        "at 200/s gaps are reported in the largest group at the highest drop rate",
        format!("reported by all members together: {}", large.text()),
    );
    verdict.check(
        small.most() == 0.0,
        "and none in the smallest",
        format!(
            "reported by all members together, at most: {}",
            brief(small.most())
        ),
    );
    let swept = data.table(SWEEP);
    for limit in LIMITS {
        let at = |rate: u32| {
            let having = [("limit", limit.into()), ("rate", rate.into())];
            rows(swept, &having)
                .next()
                .map_or(f64::NAN, |row| row.number(GAPS.name))
        };
        verdict.note(format!(
            "at most {limit} requests and repairs a round, largest group, 20 % dropped: {} reported at 100/s, {} at 200/s",
            brief(at(100)),
            brief(at(200))
        ));
    }
}

/// Over the rate of perturbation: a panel a size, a curve a scheme and number of perturbed members.
fn over_rate(data: &Data, metric: Metric, unit: &str) -> Vec<Plot> {
    let table = data.table(POINTS);
    let plot = |size: &u32| {
        let mut plot = Plot::new(
            format!("{size} members"),
            Axis::linear("perturb rate", "").from(0.0),
            Axis::linear(metric.name, unit).from(0.0),
        );
        for scheme in Scheme::ALL {
            for one in [true, false] {
                let curve = over(table, scheme, *size, one, metric);
                if !curve.0.is_empty() {
                    let perturbed = if one { 1 } else { size / 4 };
                    let name = format!("{}, {perturbed} perturbed", scheme.name());
                    plot = plot.with(curve.series(name));
                }
            }
        }
        plot
    };
    sizes(table).iter().map(plot).collect()
}

fn over_size(data: &Data, metric: Metric) -> Vec<Plot> {
    let table = data.table(POINTS);
    let mut plot = Plot::new(
        "a quarter perturbed",
        Axis::linear("members", "").from(0.0),
        Axis::linear(metric.name, "(msg/s)²").from(0.0),
    );
    for perturb_rate in RATES {
        let mut points = Vec::new();
        for size in sizes(table) {
            let curve = over(table, Scheme::Pbcast, size, false, metric);
            points.extend(curve.0.iter().filter(|it| it.x == perturb_rate).map(|it| {
                super::curve::Sample {
                    x: f64::from(size),
                    ..*it
                }
            }));
        }
        if !points.is_empty() {
            plot = plot.with(Curve(points).series(format!("p = {perturb_rate}")));
        }
    }
    vec![plot]
}

fn plot_fig4_9(data: &Data) -> Vec<Plot> {
    let plot = |rate: f64| {
        let mut plot = Plot::new(
            format!("{rate} messages a second"),
            Axis::linear("system-wide drop rate", ""),
            Axis::linear("reported as lost by all members", "").from(0.0),
        );
        for size in sizes(data.table(POINTS)) {
            plot = plot.with(gaps(data, size, rate).series(format!("{size} members")));
        }
        plot
    };
    vec![plot(100.0), plot(200.0)]
}
