//! A slow router in the middle of a tree (004 6.8.2: Fig. 6.14–6.15).

use super::super::plot::Axis;
use super::super::{Data, Plot, Verdict};
use super::curve::{Curve, brief};
use super::histogram::{HISTOGRAMS, Histogram, Look};
use super::metric::{
    ARRIVAL_50, ARRIVAL_99, ARRIVAL_MAX, DELIVERY_99, DROPPED, LINK_OUT, MISSING, Metric, REPAIRS,
    REQUESTS,
};
use super::network::Shape;
use super::point::{GossipPoint, Scheme};
use super::{FIVE_SEEDS, Figure, POINTS};

/// Requests, repairs and latency over the size of the group.
pub const FIG6_14: Figure = Figure {
    title: "A tree with a slow router at its root: overhead and latency",
    seeds: FIVE_SEEDS,
    plan,
    metrics: &[
        REQUESTS,
        REPAIRS,
        LINK_OUT,
        DROPPED,
        ARRIVAL_50,
        ARRIVAL_99,
        ARRIVAL_MAX,
        DELIVERY_99,
        MISSING,
    ],
    looks: &[Look::Arrival, Look::Delivery],
    per_member: None,
    sweep: None,
    judge,
    plots,
};

const BOTH: [Scheme; 2] = [Scheme::Grb, Scheme::Srm];
const SIZES: [u32; 5] = [20, 40, 60, 80, 100];
/// Where the router is saturated, and where it is not.
const LARGEST: f64 = 100.0;
const SMALL: [f64; 2] = [20.0, 40.0];

fn plan(quick: bool) -> Vec<GossipPoint> {
    let sizes = if quick { &[20, 100][..] } else { &SIZES[..] };
    let settings = BOTH.iter().flat_map(|scheme| {
        sizes.iter().map(|size| {
            let setting = GossipPoint {
                noise: 0.01,
                size: 1_000,
                ..GossipPoint::new(Shape::Router { size: *size }, *scheme)
            };
            setting.shortened(quick)
        })
    });
    settings.collect()
}

fn curve(data: &Data, scheme: Scheme, metric: Metric) -> Curve {
    let having = [("scheme", scheme.name().into())];
    Curve::read(data.table(POINTS), "size", metric.name, &having)
}

fn judge(data: &Data, verdict: &mut Verdict) {
    let srm = curve(data, Scheme::Srm, REQUESTS);
    let members = LARGEST / SMALL[0];
    verdict.check(
        srm.growth() > members,
        format!(
            "SRM's requests explode: more than {members} times for {members} times the members"
        ),
        format!("{} times: {}", brief(srm.growth()), srm.text()),
    );
    let grb = curve(data, Scheme::Grb, REQUESTS);
    verdict.check(
        (0.67..=1.5).contains(&grb.growth()),
        "Pbcast-grb's requests near constant (within 1.5 times)",
        format!("{} times: {}", brief(grb.growth()), grb.text()),
    );
    let repairs = curve(data, Scheme::Grb, REPAIRS);
    verdict.check(
        repairs.growth() > 1.1,
        "Pbcast-grb's repairs grow",
        format!("{} times: {}", brief(repairs.growth()), repairs.text()),
    );
    let late = curve(data, Scheme::Srm, ARRIVAL_MAX);
    verdict.check(
        late.at(LARGEST) >= 2_000.0,
        "SRM's latencies reach seconds at 100 nodes (2 s and more)",
        format!("{} ms (004: up to 15 s)", brief(late.at(LARGEST))),
    );
    let slow = [Scheme::Srm, Scheme::Grb].map(|scheme| curve(data, scheme, ARRIVAL_99).at(LARGEST));
    verdict.check(
        slow[1] < 1_000.0 && slow[1] * 2.0 < slow[0],
        "Pbcast-grb's stay below 1 s there, and at less than half of SRM's (99 %)",
        format!("{} ms beside {} ms", brief(slow[1]), brief(slow[0])),
    );
    for size in SMALL {
        let [srm, grb] =
            [Scheme::Srm, Scheme::Grb].map(|scheme| curve(data, scheme, ARRIVAL_50).at(size));
        if srm.is_finite() {
            verdict.check(
                (0.5..=2.0).contains(&(srm / grb)),
                format!("at {size} nodes both resemble each other (medians within 2 times)"),
                format!("{} ms beside {} ms", brief(srm), brief(grb)),
            );
        }
    }
    let used = curve(data, Scheme::Srm, LINK_OUT);
    verdict.note(format!(
        "the router's link from the sender's half, SRM: {} %",
        used.text()
    ));
}

fn plots(data: &Data) -> Vec<Plot> {
    let over_size = |metric: Metric, title: &str| {
        let mut plot = Plot::new(
            title,
            Axis::linear("nodes", "").from(0.0),
            Axis::log(metric.name, "1/s"),
        );
        for scheme in BOTH {
            plot = plot.with(curve(data, scheme, metric).series(scheme.name()));
        }
        plot
    };
    let mut latency = Plot::new(
        "latency at 100 nodes",
        Axis::linear("latency", "ms").from(0.0),
        Axis::log("share of messages", "%"),
    );
    for (scheme, look) in [
        (Scheme::Grb, Look::Arrival),
        (Scheme::Grb, Look::Delivery),
        (Scheme::Srm, Look::Arrival),
    ] {
        let having = [
            ("scheme", scheme.name().into()),
            ("size", LARGEST.into()),
            ("of", look.name().into()),
        ];
        let histogram = Histogram::read(data.table(HISTOGRAMS), &having);
        let name = format!("{}, {}", scheme.name(), look.name());
        latency = latency.with(histogram.series(name, 100.0));
    }
    vec![
        over_size(REQUESTS, "requests that a member receives"),
        over_size(REPAIRS, "repairs that a member receives"),
        latency,
    ]
}
