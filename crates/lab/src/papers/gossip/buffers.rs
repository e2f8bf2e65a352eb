//! How many messages members buffer, with and without bufferers by hash (004 7.5: Fig. 7.6–7.10).
//!
//! Counted is the long-term buffer, at its fullest: without bufferers by hash that is every message
//! until it is stable.

use super::super::plot::{Axis, Series};
use super::super::{Data, Plot, Verdict};
use super::curve::{Curve, brief};
use super::metric::{BUFFER, BUFFER_LEAST, BUFFER_MOST, MISSING_ALL};
use super::network::Shape;
use super::point::{GossipPoint, Open, Scheme};
use super::{FIVE_SEEDS, Figure, MEMBERS, POINTS};

/// The counter of a member's long-term buffer at its fullest.
pub(super) const FULLEST: &str = "long-term max";

/// Over the size of the group.
pub const FIG7_6: Figure = Figure {
    title: "Messages buffered by a member over the size of the group",
    seeds: FIVE_SEEDS,
    plan: |quick| {
        let sizes = if quick {
            &[20, 128][..]
        } else {
            &[20, 40, 60, 80, 100, 128][..]
        };
        let mut plan = Vec::new();
        for scheme in BOTH {
            for rate in [25.0, 100.0] {
                for size in sizes {
                    for shape in [
                        Shape::Dense { size: *size },
                        Shape::TransitStub { size: *size },
                    ] {
                        let setting = GossipPoint {
                            rate,
                            ..GossipPoint::new(shape, scheme)
                        };
                        plan.push(setting.shortened(quick));
                    }
                }
            }
        }
        plan
    },
    metrics: &[BUFFER, BUFFER_LEAST, BUFFER_MOST, MISSING_ALL],
    looks: &[],
    per_member: None,
    sweep: None,
    judge: fig7_6,
    plots: plot_fig7_6,
};

/// Over the rate.
pub const FIG7_8: Figure = Figure {
    title: "Messages buffered by a member over the message rate, 100 members",
    seeds: FIVE_SEEDS,
    plan: |quick| {
        let settings = BOTH.iter().flat_map(|scheme| {
            [25.0, 50.0, 75.0, 100.0].map(|rate| {
                let setting = GossipPoint {
                    rate,
                    ..GossipPoint::new(TREE, *scheme)
                };
                setting.shortened(quick)
            })
        });
        settings.collect()
    },
    metrics: &[BUFFER, BUFFER_LEAST, BUFFER_MOST],
    looks: &[],
    per_member: None,
    sweep: None,
    judge: fig7_8,
    plots: |data| vec![plot_over(data, "rate", "messages a second")],
};

/// Over the loss of a link.
pub const FIG7_9: Figure = Figure {
    title: "Messages buffered by a member over the loss of a link, 100 members",
    seeds: FIVE_SEEDS,
    plan: |quick| {
        let losses = if quick { &LOSSES[..1] } else { &LOSSES[..] };
        let mut plan = Vec::new();
        for scheme in BOTH {
            for noise in losses.iter().chain(&LOSSES[3..]) {
                for duplicate_resets in [true, false] {
                    let setting = GossipPoint {
                        noise: *noise,
                        open: Open {
                            duplicate_resets,
                            ..Open::OURS
                        },
                        ..GossipPoint::new(TREE, scheme)
                    };
                    plan.push(setting.shortened(quick));
                }
            }
        }
        plan.dedup();
        plan
    },
    metrics: &[BUFFER, BUFFER_LEAST, BUFFER_MOST],
    looks: &[],
    per_member: None,
    sweep: None,
    judge: fig7_9,
    plots: plot_fig7_9,
};

/// Member by member.
pub const FIG7_10: Figure = Figure {
    title: "Messages buffered by each of 100 members",
    seeds: FIVE_SEEDS,
    plan: |quick| {
        let settings = BOTH.iter().flat_map(|scheme| {
            [25.0, 100.0].map(|rate| {
                let setting = GossipPoint {
                    rate,
                    ..GossipPoint::new(TREE, *scheme)
                };
                setting.shortened(quick)
            })
        });
        settings.collect()
    },
    metrics: &[BUFFER, BUFFER_LEAST, BUFFER_MOST],
    looks: &[],
    per_member: Some(FULLEST),
    sweep: None,
    judge: fig7_10,
    plots: plot_fig7_10,
};

const BOTH: [Scheme; 2] = [Scheme::Ipmc, Scheme::Hash];
const TREE: Shape = Shape::Dense { size: 100 };
const LOSSES: [f64; 4] = [0.001, 0.005, 0.01, 0.015];
/// "Far below": less than this part.
const FAR_BELOW: f64 = 1.0 / 3.0;

fn fig7_6(data: &Data, verdict: &mut Verdict) {
    for network in ["tree", "transit-stub"] {
        for rate in [25u32, 100] {
            let [ipmc, hash] = BOTH.map(|scheme| over_size(data, scheme, network, rate));
            let shares = hash.0.iter().map(|it| it.mean / ipmc.at(it.x));
            let worst = shares.fold(f64::NAN, f64::max);
            let share = hash.last() / ipmc.last();
            // The bufferers of a message are a large part of a small group.
            verdict.check(
                worst < 1.0 && share <= FAR_BELOW,
                format!(
                    "{network}, {rate}/s: Pbcast-hash buffers less than ipmc at every size, and less than a third in the \
                     largest group"
                ),
                format!(
                    "{} times at most, {} in the largest; ipmc: {}",
                    brief(worst),
                    brief(share),
                    ipmc.text()
                ),
            );
            verdict.check(
                hash.last() < hash.first() && hash.line().0 < 0.0,
                format!("{network}, {rate}/s: Pbcast-hash's falls as the group grows"),
                hash.text(),
            );
        }
    }
}

fn over_size(data: &Data, scheme: Scheme, network: &str, rate: u32) -> Curve {
    let having = [
        ("scheme", scheme.name().into()),
        ("network", network.into()),
        ("rate", rate.into()),
    ];
    Curve::read(data.table(POINTS), "size", BUFFER.name, &having)
}

/// Over `x`, whatever else there is.
fn over(data: &Data, scheme: Scheme, x: &str) -> Curve {
    let having = [("scheme", scheme.name().into())];
    Curve::read(data.table(POINTS), x, BUFFER.name, &having)
}

fn fig7_8(data: &Data, verdict: &mut Verdict) {
    let [ipmc, hash] = BOTH.map(|scheme| over(data, scheme, "rate"));
    let ((steep, fit), (gentle, _)) = (ipmc.line(), hash.line());
    verdict.check(
        steep > 0.0 && fit >= 0.95,
        "Pbcast-ipmc's grows linearly with the rate (a line explains 95 %)",
        format!("{:.1} %: {}", fit * 100.0, ipmc.text()),
    );
    verdict.check(
        gentle <= steep * FAR_BELOW,
        "Pbcast-hash's slope is less than a third of that",
        format!(
            "{} beside {} messages for one a second: {}",
            brief(gentle),
            brief(steep),
            hash.text()
        ),
    );
}

fn over_loss(data: &Data, scheme: Scheme, duplicates: &str) -> Curve {
    let having = [
        ("scheme", scheme.name().into()),
        ("duplicates", duplicates.into()),
    ];
    Curve::read(data.table(POINTS), "noise", BUFFER.name, &having)
}

fn fig7_9(data: &Data, verdict: &mut Verdict) {
    // The figure is with the reset that Fig. 5.3 prints.
    let [ipmc, hash] = BOTH.map(|scheme| over_loss(data, scheme, "reset"));
    verdict.check(
        ipmc.growth() > 1.1 && ipmc.line().0 > 0.0,
        "Pbcast-ipmc's rises with the loss (1.1 times at least)",
        format!("{} times: {}", brief(ipmc.growth()), ipmc.text()),
    );
    verdict.check(
        (0.75..=1.25).contains(&hash.growth()),
        "Pbcast-hash's is about constant (within 1.25 times)",
        format!("{} times: {}", brief(hash.growth()), hash.text()),
    );
    for scheme in BOTH {
        let without = over_loss(data, scheme, "ignored");
        verdict.note(format!(
            "{} where a duplicate does not set the gossip count back: {}",
            scheme.name(),
            without.text()
        ));
    }
}

fn fig7_10(data: &Data, verdict: &mut Verdict) {
    let table = data.table(POINTS);
    for rate in [25u32, 100] {
        let at = |scheme: Scheme, metric: super::Metric| {
            let having = [("scheme", scheme.name().into()), ("rate", rate.into())];
            Curve::read(table, "rate", metric.name, &having)
        };
        let mean = at(Scheme::Hash, BUFFER).last();
        let most = at(Scheme::Hash, BUFFER_MOST).most();
        verdict.check(
            most <= 2.0 * mean,
            format!("{rate}/s: no member's load is twice the mean with Pbcast-hash"),
            format!(
                "{} beside a mean of {}; the least is {}",
                brief(most),
                brief(mean),
                brief(at(Scheme::Hash, BUFFER_LEAST).least())
            ),
        );
        let (highest, lowest) = (most, at(Scheme::Ipmc, BUFFER_LEAST).least());
        verdict.check(
            highest < lowest,
            format!("{rate}/s: every member buffers less than any with Pbcast-ipmc"),
            format!(
                "{} at most beside {} at least",
                brief(highest),
                brief(lowest)
            ),
        );
    }
}

fn buffer_plot(title: String, x: &str) -> Plot {
    Plot::new(
        title,
        Axis::linear(x, "").from(0.0),
        Axis::linear("messages buffered at most", "").from(0.0),
    )
}

fn plot_fig7_6(data: &Data) -> Vec<Plot> {
    let mut plots = Vec::new();
    for rate in [25u32, 100] {
        for network in ["tree", "transit-stub"] {
            let mut plot = buffer_plot(format!("{network}, {rate} messages a second"), "members");
            for scheme in BOTH {
                let curve = over_size(data, scheme, network, rate);
                plot = plot.with(curve.series(scheme.name()));
            }
            plots.push(plot);
        }
    }
    plots
}

fn plot_over(data: &Data, x: &str, label: &str) -> Plot {
    let mut plot = buffer_plot("100 members on a tree".to_owned(), label);
    for scheme in BOTH {
        plot = plot.with(over(data, scheme, x).series(scheme.name()));
    }
    plot
}

fn plot_fig7_9(data: &Data) -> Vec<Plot> {
    let mut plot = buffer_plot("100 members on a tree".to_owned(), "loss of a link");
    for (colour, scheme) in BOTH.into_iter().enumerate() {
        for (duplicates, label) in [
            ("reset", "duplicates reset"),
            ("ignored", "duplicates ignored"),
        ] {
            let name = format!("{}, {label}", scheme.name());
            let series = over_loss(data, scheme, duplicates)
                .series(name)
                .colour(colour);
            plot = plot.with(if duplicates == "reset" {
                series
            } else {
                series.dashed()
            });
        }
    }
    vec![plot]
}

fn plot_fig7_10(data: &Data) -> Vec<Plot> {
    let table = data.table(MEMBERS);
    let plot = |rate: u32| {
        let mut plot = buffer_plot(format!("{rate} messages a second"), "member");
        for scheme in BOTH {
            let having = [("scheme", scheme.name().into()), ("rate", rate.into())];
            let curve = Curve::read(table, "member", FULLEST, &having);
            let points = curve.0.iter().map(|it| (it.x, it.mean));
            plot = plot.with(Series::points(scheme.name(), points));
        }
        plot
    };
    vec![plot(25), plot(100)]
}
