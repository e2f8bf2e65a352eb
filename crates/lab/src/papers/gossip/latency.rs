//! Distributions of gaps and latencies on trees and chains (004 6.6, 6.7, 6.9: Fig. 6.7, 6.8, 6.9,
//! 6.16).

use super::super::plot::Axis;
use super::super::{Data, Plot, Verdict};
use super::curve::brief;
use super::histogram::{HISTOGRAMS, Histogram, Look};
use super::metric::{ARRIVAL_99, ARRIVAL_MAX, DELIVERY_99, DELIVERY_MEAN, MISSING};
use super::network::Shape;
use super::point::{GossipPoint, Scheme};
use super::{FIVE_SEEDS, Figure};

/// Gaps between arrivals over the size of the group.
pub const FIG6_7: Figure = Figure {
    title: "Gaps between arrivals on dense trees, 1 % noise",
    seeds: FIVE_SEEDS,
    plan: |quick| {
        let settings = BOTH.iter().flat_map(|scheme| {
            SIZES.map(|size| noisy(Shape::Dense { size }, *scheme).shortened(quick))
        });
        settings.collect()
    },
    metrics: &[ARRIVAL_99, ARRIVAL_MAX, MISSING],
    looks: &[Look::Gap],
    per_member: None,
    sweep: None,
    judge: fig6_7,
    plots: |data| BOTH.iter().map(|scheme| plot_gaps(data, *scheme)).collect(),
};

/// Latencies in a large tree.
pub const FIG6_8: Figure = Figure {
    title: "Latency in a 500-node tree with 300 members by lot, 1 % noise",
    seeds: FIVE_SEEDS,
    plan: |quick| {
        let shape = Shape::Sparse {
            size: 500,
            members: 300,
        };
        BOTH.map(|scheme| noisy(shape, scheme).shortened(quick))
            .to_vec()
    },
    metrics: &[ARRIVAL_99, ARRIVAL_MAX, DELIVERY_99, MISSING],
    looks: &[Look::Arrival, Look::Delivery],
    per_member: None,
    sweep: None,
    judge: fig6_8,
    plots: plot_fig6_8,
};

/// Latencies along a chain.
pub const FIG6_9: Figure = Figure {
    title: "Ordered latency along a chain, 1 % noise on the sender's link",
    seeds: FIVE_SEEDS,
    plan: |quick| {
        let setting = GossipPoint {
            noise: 0.0,
            noise_apart: 0.01,
            ..GossipPoint::new(Shape::Chain { size: 20 }, Scheme::Grb)
        };
        vec![setting.shortened(quick)]
    },
    metrics: &[ARRIVAL_99, ARRIVAL_MAX, DELIVERY_99, MISSING],
    looks: &[Look::Delivery],
    per_member: None,
    sweep: None,
    judge: fig6_9,
    plots: plot_fig6_9,
};

/// Local recovery.
pub const FIG6_16: Figure = Figure {
    title: "Ordered latency behind one link with 10 % noise, 60-node tree",
    seeds: FIVE_SEEDS,
    plan: |quick| {
        let setting = |scheme| GossipPoint {
            noise: 0.0,
            noise_apart: 0.1,
            ..GossipPoint::new(Shape::Dense { size: 60 }, scheme)
        };
        LOCALLY
            .map(|scheme| setting(scheme).shortened(quick))
            .to_vec()
    },
    metrics: &[ARRIVAL_99, ARRIVAL_MAX, DELIVERY_MEAN, DELIVERY_99, MISSING],
    looks: &[Look::Arrival, Look::Delivery],
    per_member: None,
    sweep: None,
    judge: fig6_16,
    plots: plot_fig6_16,
};

const BOTH: [Scheme; 2] = [Scheme::Grb, Scheme::Srm];
const LOCALLY: [Scheme; 2] = [Scheme::Grb, Scheme::Local];
const SIZES: [u32; 3] = [20, 40, 60];
/// Fig. 6.9: how far each receiver is, in links of 5 ms.
const HOPS: [u32; 4] = [2, 8, 14, 18];
const HOP: f64 = 5.0;
/// Two distributions are "the same" if no share below any time differs by more.
const SAME: f64 = 0.05;

/// 1 % on every link (004 6.5).
fn noisy(shape: Shape, scheme: Scheme) -> GossipPoint {
    GossipPoint {
        noise: 0.01,
        ..GossipPoint::new(shape, scheme)
    }
}

fn histogram(data: &Data, scheme: Scheme, look: Look) -> Histogram {
    let having = [("scheme", scheme.name().into()), ("of", look.name().into())];
    Histogram::read(data.table(HISTOGRAMS), &having)
}

fn gaps(data: &Data, scheme: Scheme, size: u32) -> Histogram {
    let having = [
        ("scheme", scheme.name().into()),
        ("size", size.into()),
        ("of", Look::Gap.name().into()),
    ];
    Histogram::read(data.table(HISTOGRAMS), &having)
}

fn fig6_7(data: &Data, verdict: &mut Verdict) {
    let distance = |scheme| {
        let [small, .., large] = SIZES.map(|size| gaps(data, scheme, size));
        small.distance(&large)
    };
    let (grb, srm) = (distance(Scheme::Grb), distance(Scheme::Srm));
    verdict.check(
        grb <= SAME,
        format!("Pbcast-grb: 60 members' distribution is that of 20, within {SAME}"),
        format!("they differ by {}", brief(grb)),
    );
    verdict.check(
        srm > SAME && srm > 2.0 * grb,
        format!(
            "SRM: it is another (more than {SAME}, and more than twice Pbcast-grb's difference)"
        ),
        format!("they differ by {}", brief(srm)),
    );
}

fn fig6_8(data: &Data, verdict: &mut Verdict) {
    let grb = histogram(data, Scheme::Grb, Look::Arrival);
    let (first, _) = grb.lowest();
    // The lowest latencies: the path, and what the queues on it add.
    let lowest = grb.share(first, first + 20.0);
    verdict.check(
        lowest > 0.9,
        "Pbcast-grb before ordering: more than 90 % at the lowest latencies (within 20 ms of the lowest)",
        format!("{:.1} %", lowest * 100.0),
    );
    let tail = grb.share(200.0, 300.0);
    verdict.check(
        (0.01..=0.04).contains(&tail),
        "about 2 % at 200 to 300 ms (1 to 4 %)",
        format!(
            "{:.2} %, and {:.2} % at 100 to 200 ms",
            tail * 100.0,
            grb.share(100.0, 200.0) * 100.0
        ),
    );
    let above = grb.share_from(300.0);
    verdict.check(
        above == 0.0,
        "none above 300 ms",
        format!(
            "{:.3} %; the last within {} ms",
            above * 100.0,
            brief(grb.end())
        ),
    );
    let srm = histogram(data, Scheme::Srm, Look::Arrival);
    let late = srm.share(300.0, 500.0);
    verdict.check(
        (0.025..=0.1).contains(&late),
        "SRM: about 5 % at 300 to 500 ms (2.5 to 10 %)",
        format!(
            "{:.2} %, {:.2} % at 100 to 300 ms, {:.2} % above 500 ms",
            late * 100.0,
            srm.share(100.0, 300.0) * 100.0,
            srm.share_from(500.0) * 100.0
        ),
    );
}

fn chain_receiver(data: &Data, receiver: usize) -> Histogram {
    Histogram::read(data.table(HISTOGRAMS), &[("receiver", receiver.into())])
}

fn fig6_9(data: &Data, verdict: &mut Verdict) {
    let near = chain_receiver(data, 0);
    for (receiver, hops) in HOPS.into_iter().enumerate().skip(1) {
        let far = chain_receiver(data, receiver);
        let offset = far.lowest().0 - near.lowest().0;
        let distance = near.distance_from_lowest(&far, 20.0);
        let delay = f64::from(hops - HOPS[0]) * HOP;
        verdict.check(
            distance <= SAME && far.end().is_finite(),
            format!(
                "{hops} hops away the distribution is that at {} hops, within {SAME}, but for the offset",
                HOPS[0]
            ),
            format!(
                "they differ by {} with an offset of {} ms; the links between take {} ms",
                brief(distance),
                brief(offset),
                brief(delay)
            ),
        );
    }
}

fn fig6_16(data: &Data, verdict: &mut Verdict) {
    let means = LOCALLY.map(|scheme| {
        super::curve::Curve::read(
            data.table(super::POINTS),
            "size",
            DELIVERY_MEAN.name,
            &[("scheme", scheme.name().into())],
        )
        .last()
    });
    let [grb, local] = means;
    verdict.check(
        local <= 0.8 * grb,
        "Pbcast-local's ordered latency is clearly lower than Pbcast-grb's (0.8 times or less, mean)",
        format!("{} ms beside {} ms", brief(local), brief(grb)),
    );
    let [grb, local] = LOCALLY.map(|scheme| histogram(data, scheme, Look::Delivery));
    verdict.note(format!(
        "later than 200 ms: {:.1} % with grb, {:.1} % with local",
        grb.share_from(200.0) * 100.0,
        local.share_from(200.0) * 100.0
    ));
}

fn latency_plot(title: &str) -> Plot {
    Plot::new(
        title,
        Axis::linear("latency", "ms").from(0.0),
        Axis::log("share of messages", "%"),
    )
}

fn plot_gaps(data: &Data, scheme: Scheme) -> Plot {
    let mut plot = Plot::new(
        scheme.name(),
        Axis::linear("gap between arrivals", "ms")
            .from(0.0)
            .to(40.0),
        Axis::log("share of gaps", "%"),
    );
    for size in SIZES {
        let series = gaps(data, scheme, size).series(format!("{size} members"), 4.0);
        plot = plot.with(series);
    }
    plot
}

fn plot_fig6_8(data: &Data) -> Vec<Plot> {
    let of = |scheme, look| histogram(data, scheme, look).series(scheme.name(), 20.0);
    vec![
        latency_plot("before ordering")
            .with(of(Scheme::Grb, Look::Arrival))
            .with(of(Scheme::Srm, Look::Arrival)),
        latency_plot("after FIFO ordering").with(of(Scheme::Grb, Look::Delivery)),
    ]
}

fn plot_fig6_9(data: &Data) -> Vec<Plot> {
    let plot = |(receiver, hops): (usize, u32)| {
        let histogram = chain_receiver(data, receiver);
        latency_plot(&format!("{hops} hops")).with(histogram.series(Scheme::Grb.name(), 20.0))
    };
    HOPS.into_iter().enumerate().map(plot).collect()
}

fn plot_fig6_16(data: &Data) -> Vec<Plot> {
    let mut plot = latency_plot("after FIFO ordering");
    for scheme in LOCALLY {
        plot = plot.with(histogram(data, scheme, Look::Delivery).series(scheme.name(), 20.0));
    }
    vec![plot]
}
